//! `xoff replay` as a user meets it: what comes out of a switch is what went in, but for what its configuration rewrites.

mod compare;
mod faults;
mod files;
mod forms;
mod softroce;
