//! Test traffic through a real device or switch: a generator at one interface, a sink at another, trials between them.
//!
//! The generator sends RoCEv2 frames that were built before, from a packet socket or as frames that the kernel makes itself. The sink counts by the
//! interface's own counter and lets the kernel drop what it has counted, so that it takes no core from whoever forwards; frames that are samples, and
//! those that are none of the generator's, reach a packet socket as well, the first for their latency, the second to be taken off the count.

mod frames;
mod generator;
mod sink;
mod tester;

pub use frames::Traffic;
pub use generator::{Rate, Sending};
pub use sink::Arrivals;
pub use tester::{End, Means, Outcome, Tester, Trial, Window};
