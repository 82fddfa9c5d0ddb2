//! The egress side of a port: queues, scheduler, shapers, early drop and ECN marking.

pub(crate) mod config;
mod ets;
mod frames;
mod link_rate;
mod scheduler;
mod shaper;
mod wred;

pub use ets::EtsScheduler;
pub(crate) use frames::{FrameQueue, FrameTable, IngressCharge, QueuedFrame, SharedCellCharges};
pub use link_rate::LinkRate;
pub use scheduler::{Scheduler, SchedulerDecision};
pub(crate) use shaper::TokenBucket;
pub use wred::WredMarker;
