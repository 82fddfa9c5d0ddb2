//! Replay: the frames of a capture through a switch to a capture, in virtual time.
//!
//! A capture is read twice. The first pass ([`Survey`]) finds out who is in it; from that and from what the command line
//! says, [`Mapping`] decides which port each frame comes in on. The second pass ([`Player`]) offers the frames to a switch
//! at the times of their stamps. Nothing here reads a clock, and nothing depends on anything but the capture, the
//! configuration and the seed: the same input gives the same output, octet by octet.
//!
//! Whatever drives virtual time further (labs with model hosts) shares [`crate::driver::virtual_time`] with this.

mod files;
mod mapping;
mod player;
mod report;
mod source;
mod store;
mod survey;
mod witness;

pub use files::{CaptureFiles, Destination};
pub use mapping::{Asked, Behind, Mapping, Skip, Ways};
pub use player::{Lost, Pace, PlayError, Played, Player, Sent, Sink, Tally};
pub use report::{CaptureSummary, FrameSums, ReplayReport, SCHEMA};
pub use source::Source;
pub use store::{CaptureStore, Origin};
pub use survey::{Glance, Mac, Sighting, Survey};

#[cfg(test)]
mod tests;
