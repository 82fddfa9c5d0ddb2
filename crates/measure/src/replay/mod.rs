//! Replay: the frames of a capture through a switch to a capture, in virtual time.
//!
//! A capture is read twice. The first pass ([`Survey`]) finds its stations; from those and from the options of the command line,
//! [`Mapping`] decides which port each frame comes in on. The second pass ([`Player`]) offers the frames to a switch
//! at the times of their stamps. Where the mapping has a choice, a pass between counts the frames that each would lose. Nothing here reads a clock, and nothing depends on anything but the capture, the
//! configuration and the seed: the same input gives the same output, byte by byte.

mod files;
mod header;
mod mapping;
mod player;
mod report;
mod source;
mod store;
mod survey;
mod timeline;
mod witness;

pub use files::{CaptureFiles, Destination};
pub use header::ParsedHeader;
pub use mapping::{Behind, ConfiguredPorts, Mapping, MappingMode, MappingOptions, SkipReason};
pub use player::{Lost, Pace, PlayError, Played, Player, Sent, Sink, Tally};
pub use report::{CaptureSummary, FrameSums, ReplayReport, SCHEMA};
pub use source::Source;
pub use store::{CaptureStore, Origin};
pub use survey::{Mac, Observation, Survey};

#[cfg(test)]
mod tests;
