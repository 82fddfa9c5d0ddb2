//! RDMA transport: queue pairs, their recovery from loss, congestion control. Sans-IO, like the switch.
//!
//! Packets here are what a header says ([`Packet`]), not bytes: the host that owns an endpoint puts them on a wire, whole
//! with their ICRC in real time, as headers alone in virtual time.
//!
//! An [`Endpoint`] holds the queue pairs of a host. Of each, one side sends requests ([`QpConfig`] says how it recovers from
//! loss), the other answers those of its peer.

mod answers;
mod config;
pub mod congestion;
mod counters;
mod endpoint;
mod finished;
mod messages;
mod pacing;
mod packet;
mod queue_pair;
mod ready;
mod replies;
mod request;
mod requester;
mod responder;
mod responses;
mod sequence;
mod shared;
mod telemetry;
#[cfg(test)]
mod tests;
mod turns;
mod window;
mod work;

pub use config::{MTU_MAX, MTU_MIN, QpConfig, QpIndex, RETRY_MAX, ReceiveQueue, Recovery, Transport};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use pacing::Pacing;
pub use packet::{Header, Packet};
pub use telemetry::{HOPS_MAX, HopTelemetry, Telemetry, TelemetryFormat};
pub use work::{
    Arrival, Completion, CompletionKind, FailReason, MESSAGE_BYTES_MAX, Outgoing, PostError, Verb,
    WorkRequest,
};
