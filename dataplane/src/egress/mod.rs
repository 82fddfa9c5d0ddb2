//! The egress side of a port: queues, scheduler, shapers, early drop and ECN marking.

mod frames;
mod line;
mod scheduler;
mod shaper;
mod wred;

pub(crate) use frames::{Charge, Fifo, FrameTable, QueuedFrame, SharedCharges};
pub use line::Line;
pub use scheduler::{Choice, Scheduler};
pub(crate) use shaper::TokenBucket;
pub use wred::Marker;
