//! `xoff bench tune-buffers`: the smallest lossless buffers for a pattern of traffic, found and proven in virtual time.
//!
//! Headroom has to hold what arrives after XOFF is due. How much that is in the worst case hangs on phases: whether a frame of the
//! port's own has just begun when XOFF has to leave, how the frame that brings XOFF lies to the limit, when senders begin.
//! [`phases()`] makes these on purpose, [`run`] runs one of them on a switch between model hosts, [`search()`] bisects over whole cells and
//! proves what it has found: it loses nothing in any phase, and a cell less does. [`headroom_cells`] is the same by arithmetic.

mod closed_form;
mod pattern;
mod phases;
mod preset;
mod report;
mod rig;
mod search;
mod subject;
mod sweep;

pub use closed_form::{frames_after_xoff, headroom_cells};
pub use pattern::{CABLE_MAX_M, Pattern, SENDERS_MAX, Traffic};
pub use phases::phases;
pub use preset::preset_switch;
pub use report::result;
pub use rig::{Loss, Phase, Seen, prepare, run};
pub use search::{Found, Plan, Trial, describe, search};
pub use subject::{Candidate, Memory, Subject};
pub use sweep::{Variant, sweep};

#[cfg(test)]
mod tests;
