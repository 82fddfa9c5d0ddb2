//! `xoff lab compare`: the same lab under several load-balancing schemes, beside the same hosts on one switch that blocks nobody.
//!
//! A comparison is a list of subjects, each a plan: every scheme under every combination of `--set`, and for each combination the
//! one switch. Every subject is run once for each seed, by whatever makes a run ([`way::Way`]); what came of them becomes rows of
//! figures. Runs are numbered subject by subject, seeds changing fastest, and results hold nothing of the machine.

mod kpi;
mod one_switch;
mod plots;
mod report;
mod run;
mod subjects;
mod table;
mod warnings;
mod way;

pub use kpi::{NamedFigure, figures_of};
pub use report::{COMPARE_SCHEMA, CompareReport, ComparedRow, ComparedRun, Spread};
pub use run::{CompareArgs, run};
pub use subjects::{Compared, LOAD_BALANCING};
pub use way::Way;
