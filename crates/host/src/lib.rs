//! Model hosts: an RDMA NIC and a RoCEv2 endpoint of ours.
//!
//! A kernel's own network stack does not obey PFC, so a lossless path ends in a host that does. [`Host`] is sans-IO
//! like the switch: frames and the time go in, frames come out, nothing here reads a clock. It has
//!
//! - a NIC with eight transmit queues that share its link, stop for PFC and never exceed the link's speed,
//! - flows: RDMA WRITE messages on reliable connections, at a set rate, with packet sequence numbers and ICRC,
//! - a receiver that verifies every ICRC and accounts for loss, order, duplicates and latency,
//! - ARP, neighbour discovery and echo, enough to be found.
//!
//! Flows are open loop in this version: nobody acknowledges and nobody repeats, so what is lost stays lost and is seen.

mod config;
mod endpoint;
mod entropy;
mod intake;
mod neighbour;
mod nic;
mod pacer;
mod queue_pairs;
mod receiver;
mod requester;
mod schedule;
mod sequence;
mod stamp;
#[cfg(test)]
mod tests;
mod trimmed;

pub use config::{
    FLOWS_MAX, FixedLengths, FlowConfig, Gateway, HostConfig, HostConfigError, NicConfig, Operation,
    PATH_MTU_MAX, Rate, ReceiveBuffer,
};
pub use endpoint::{
    HEADERS_LEN_MAX, Host, HostResults, Inbound, SENT_FRAME_LEN_MAX, SendRefused, SentFlow, flow_report,
};
pub use entropy::{ENTROPY_VALUES_MAX, Entropy, EntropyPick};
pub use nic::{CATCH_UP_FRAMES, NicCounters};
pub use queue_pairs::{Emitted, QueuePairSetup};
pub use receiver::{ForeignFlow, ReceiveTotals, ReceivedFlow, TRACKED_FLOWS_MAX};
pub use sequence::REORDER_WINDOW_FRAMES;
pub use stamp::{STAMP_BYTES, Stamp};
