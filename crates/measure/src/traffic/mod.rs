//! Test traffic through a real device: a generator at one interface, a sink at another, and trials between
//! them.
//!
//! The generator sends prebuilt RoCEv2 frames from a packet socket, or the kernel builds the frames itself.
//! The sink reads the frame counter of its interface. The kernel drops the counted frames, so the sink uses
//! almost no processor time. Two kinds of frames also reach a packet socket: samples, whose latency is
//! measured, and frames of other senders, which are subtracted from the count.

mod frames;
mod generator;
mod sink;
mod tester;

pub use frames::TrafficProfile;
pub use generator::{SendRate, SendResult};
pub use sink::Arrivals;
pub use tester::{SendMethod, SteadyWindow, Tester, TesterInterface, TesterResult, TrialConfig};
