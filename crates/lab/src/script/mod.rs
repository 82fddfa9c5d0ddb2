//! Checks labs (`xoff lab check`): validates lab files, and runs the scripts of labs in virtual time. A script changes
//! the lab step by step and checks conditions.
//! `docs/script.md` describes the language.
//!
//! A condition is evaluated between two simulation events. [`values`] reads the counters of switches, hosts
//! and flows directly. Counters contain no times, so the observer in [`events`] records the first and last
//! time of each kind of event.

mod acceleration;
mod arrivals;
mod command;
mod counter_values;
mod event_span;
mod events;
mod format;
mod repeated_frames;
mod run;
mod script_names;
mod step_actions;
#[cfg(test)]
mod tests;
mod validation;
mod values;
mod verdict;

pub use command::{CheckArgs, CheckFormat, check_labs};
pub use verdict::{CheckResult, LabCheckResult};
