//! `xoff bench compare`: whether one thing is slower than another.
//!
//! Two sides that are run take turns, in either order, a process for each sample: whatever the machine does meets both, and memory
//! lies otherwise each time. A pair gives one difference of logarithms per figure; of loads that take the same every time, a pair in which
//! the machine was slow does not count (`quiet`). [`statistics`] says what the differences show, [`verdict`] which statement is tested and
//! when there is enough.

mod arguments;
mod exact;
mod quiet;
mod ranks;
mod report;
mod saved;
pub mod statistics;
mod subject;
mod turns;
pub mod verdict;

pub use arguments::{parse_gate_percent, remove_json_options};
pub use report::{COMPARISON_SCHEMA, ComparedFigure, Comparison};
pub use subject::{Subject, SubjectCommands};
pub use turns::{Settings, compare};
