//! Test traffic through a real device: a generator at one interface, a sink at another, and trials between
//! them.
//!
//! The generator sends prebuilt RoCEv2 frames from a packet socket, or the kernel builds the frames itself.
//! The sink reads the frame counter of its interface and lets the kernel drop the counted frames, so the sink
//! uses almost no processor time. Two kinds of frames also reach a packet socket. Samples have their latency
//! measured. Frames of other senders are subtracted from the count.

mod frames;
mod generator;
mod sink;
mod tester;

pub use frames::TrafficProfile;
pub use generator::{SendRate, SendResult};
pub use sink::Arrivals;
pub use tester::{SendMethod, SteadyWindow, Tester, TesterInterface, TesterResult, TrialConfig};
