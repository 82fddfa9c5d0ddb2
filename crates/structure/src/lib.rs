//! Checks of the structure of this workspace.
//!
//! The library reads the source files of every workspace member. These modules report findings or counts:
//!
//! - [`lines`]: the number of lines of production code of each member.
//! - [`cycles`]: import cycles between the modules and between the files of a crate.
//! - [`terms`] and [`style`]: names, comments and pages that break the rules for terms and line lengths.
//! - [`printing`]: code of the product that prints outside the output module of the program.
//! - [`dependencies`]: members that depend on a crate that their layer must not use.
//!
//! Every check works on the syntax tree, so the workspace need not be built.

#![forbid(unsafe_code)]

pub mod builder;
pub mod check;
pub mod cycles;
pub mod dependencies;
mod files;
pub mod finding;
pub mod graph;
mod imports;
pub mod lines;
pub mod markdown;
mod names;
pub mod printing;
mod references;
mod resolve;
pub mod source;
pub mod style;
pub mod terms;
mod test_code;
pub mod tree;
pub mod workspace;
