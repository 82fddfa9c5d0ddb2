//! Labs that check themselves: scripts in virtual time. `docs/script.md` is about the language.
//!
//! A script's conditions are evaluated between events, on counters where they are ([`values`]); what no counter keeps, when
//! something happened first, an observer remembers ([`events`]).

mod arrivals;
mod command;
mod events;
mod format;
mod read;
mod run;
mod steps;
mod storms;
#[cfg(test)]
mod tests;
mod values;
mod verdict;

pub use command::{CheckArgs, CheckFormat, check};
pub use verdict::{Check, Checked};
