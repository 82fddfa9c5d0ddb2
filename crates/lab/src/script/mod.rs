//! Scripts of labs: they run in virtual time and check conditions. `docs/script.md` describes the language.
//!
//! The conditions of a script are evaluated between two events. [`values`] reads the counters of switches,
//! hosts and flows directly. [`events`] is an observer that records the first and the last time of events,
//! because no counter contains these times.

mod arrivals;
mod command;
mod counter_values;
mod events;
mod format;
mod repeated_frames;
mod run;
mod step_actions;
#[cfg(test)]
mod tests;
mod values;
mod verdict;

pub use command::{CheckArgs, CheckFormat, check_labs};
pub use verdict::{CheckResult, LabCheckResult};
