//! The switch of xoff: a function of (state, frame, time).
//!
//! Nothing here reads a clock, opens a socket, starts a thread or is unsafe. A driver hands in frames and
//! expired deadlines with the current model time; frames to transmit, slots to free and new deadlines come
//! out. So the real-time program, the virtual-time simulator, tests, fuzzers and benches run the same code.
#![forbid(unsafe_code)]

pub mod config;
pub mod counters;
pub mod drops;
pub mod frame;
pub mod ids;
pub mod mmu;
pub mod parse;
pub mod pfc;
pub mod time;
pub mod wire;

pub use drops::DropReason;
pub use frame::{Arrival, Handle, Store};
pub use ids::{PgId, PortId, QueueId, TimerId};
pub use time::{LinkTiming, Picos};
