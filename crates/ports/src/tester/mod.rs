//! Senders and receivers of test traffic. A sender sends frames to a device as fast as possible. A listener
//! receives the frames that leave the tested device.
//!
//! Unlike a port, a tester changes no settings of its device and uses no arena. A sender reports how many
//! frames could not be sent.

mod frame_listener;
mod frame_sender;
mod kernel_frames;

pub use frame_listener::{CapturedFrame, FrameListener};
pub use frame_sender::{FrameSender, SEND_BURST_FRAMES, SendCounts};
pub use kernel_frames::{KernelFrameSender, XdpForwarder};
