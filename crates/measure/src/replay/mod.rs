//! Replays a capture through a switch in virtual time.
//!
//! A replay reads the capture twice:
//!
//! 1. The first pass ([`CaptureSurvey`]) finds the stations of the capture. [`PortMapping`] then selects an
//!    ingress port for each frame, from these stations and the options of the command line.
//! 2. The second pass ([`ReplayRun`]) passes each frame to a switch at the time of its time stamp.
//!
//! If more than one mapping is possible, an additional pass counts the frames that each mapping would lose.
//!
//! The result depends only on the capture, the configuration and the seed. The same input gives the
//! same output, byte for byte.

mod capture_files;
mod drop_tracker;
mod mac_address;
mod mapping;
mod parsed_header;
mod replay_pace;
mod replay_run;
mod report;
mod source;
mod store;
mod survey;
mod timeline;

pub use capture_files::{CaptureDestination, ReplayCaptureFiles, ReplayDestinations};
pub use mac_address::Mac;
pub use mapping::{ConfiguredPorts, FrameSource, MappingMode, MappingOptions, PortMapping, SkipReason};
pub use parsed_header::CapturedHeaders;
pub use replay_pace::ReplayPace;
pub use replay_run::{DroppedFrame, FrameSink, FrameTally, ReplayError, ReplayResult, ReplayRun, SentFrame};
pub use report::{CaptureSummary, REPLAY_SCHEMA, ReplayReport, ReportedFrameCounts};
pub use source::CaptureSource;
pub use store::{CaptureStore, FrameOrigin};
pub use survey::{CaptureSurvey, StationObservation};

#[cfg(test)]
mod tests;
