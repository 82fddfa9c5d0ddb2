//! MAC control frames on a network device: single frames of any form, storms, and a decoder of received frames.
//!
//! The parts without I/O are:
//!
//! - [`ControlFrameSpec`] builds a frame, also a malformed one.
//! - [`DecodedFrame`] decodes a received frame and lists its deviations from the standard.
//! - [`PauseTracker`] derives from the frames of a sender which classes are paused until when.
//! - [`Watcher`] combines both, with counters.
//! - [`SendSchedule`] states when the next frame of a storm is due.
//!
//! [`ControlDevice`] sends and receives on a network device. [`send_frames`] and [`watch_frames`] are the loops of
//! `xoff pfc send`, `storm` and `watch`.

mod decoded_frame;
mod deviation;
mod device;
mod frame_spec;
mod pause_tracker;
mod send_run;
mod send_schedule;
mod watch_run;
mod watcher;

pub use decoded_frame::DecodedFrame;
pub use deviation::Deviation;
pub use device::{ControlDevice, DEFAULT_SPEED_MBPS, DeviceProperties, check_control_device};
pub use frame_spec::{ControlFrameSpec, FRAME_LEN_MAX, FrameParameters};
pub use pause_tracker::{ClassPause, PauseEvent, PauseScope, PauseTracker, ScopeEvent};
pub use send_run::{SendOrder, SendResult, send_frames};
pub use send_schedule::SendSchedule;
pub use watch_run::{WatchEnd, WatchLimits, watch_frames};
pub use watcher::{ScopeCounters, WatchSummary, WatchedEvent, Watcher};

#[cfg(test)]
mod tests;
