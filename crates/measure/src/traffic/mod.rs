//! Test traffic through a real device. A generator sends at one interface of this machine, and a sink
//! receives at a second interface.
//!
//! The generator sends prebuilt RoCEv2 frames from a packet socket, or the kernel builds the frames itself.
//! The sink takes the number of received frames from the frame counter of its interface. A kernel filter
//! drops these frames before they reach the socket of the sink, so the sink uses almost no processor time.
//! The socket receives only two kinds of frames: samples (frames with a measured latency), and frames that do
//! not come from the generator. The sink subtracts the second kind from the count.

mod frames;
mod generator;
mod sink;
mod tester;

pub use frames::TrafficProfile;
pub use generator::{SendRate, SendResult};
pub use sink::Arrivals;
pub use tester::{SendMethod, SteadyWindow, Tester, TesterInterface, TesterResult, TrialConfig};
