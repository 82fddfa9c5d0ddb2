//! RDMA transport of RoCEv2: queue pairs, loss recovery and congestion control. The crate does no input
//! or output.
//!
//! An [`Endpoint`] holds the queue pairs of one host. Each queue pair has a requester, which sends messages
//! to its peer, and a responder, which answers the messages of the peer. [`QpConfig`] sets the transport
//! service, the loss recovery and the timers of a queue pair. The [`congestion`] module contains the
//! congestion control algorithms.
//!
//! A [`Packet`] contains header fields and a payload length, but no payload bytes. The host that owns an
//! endpoint encodes the packets as frames. In real time, a host sends complete frames with ICRC. In virtual
//! time, a host sends only the headers.
//!
//! # Example
//!
//! Two endpoints exchange one message of 3000 bytes over a link without delay:
//!
//! ```
//! use xoff_rdma::congestion::{Algorithm, CongestionConfig, ControllerContext};
//! use xoff_rdma::{ArrivalInfo, CompletionKind, Endpoint, QpConfig, Verb, WorkRequest};
//! use xoff_units::Picos;
//!
//! let host = ControllerContext {
//!     line_rate_bps: 100_000_000_000,
//!     base_rtt: Picos::from_micros(10),
//!     packet_bytes: 1086,
//!     seed: 0,
//! };
//! let controllers = CongestionConfig::new(Algorithm::None).factory()?;
//! let (mut sender, mut receiver) = (Endpoint::new(), Endpoint::new());
//! let qp = sender.create_queue_pair(QpConfig::new(1, 2), controllers.make(&host));
//! receiver.create_queue_pair(QpConfig::new(2, 1), controllers.make(&host));
//!
//! let request = WorkRequest { id: 7, verb: Verb::Write, bytes: 3000 };
//! sender.post(Picos::ZERO, qp, request)?;
//! for step in 0..100 {
//!     let now = Picos::from_nanos(100 * step);
//!     while let Some(outgoing) = sender.pop_packet(now, 3) {
//!         receiver.receive(now, &outgoing.packet, ArrivalInfo::default());
//!     }
//!     while let Some(outgoing) = receiver.pop_packet(now, 3) {
//!         sender.receive(now, &outgoing.packet, ArrivalInfo::default());
//!     }
//! }
//! let completion = sender.completions().next().expect("the message is acknowledged");
//! assert_eq!(completion.kind, CompletionKind::Acked { id: 7 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acknowledgements;
mod class_queues;
mod config;
pub mod congestion;
mod counters;
mod endpoint;
mod held_responses;
mod inline_queue;
mod messages;
mod pacing;
mod packet;
mod queue_pair;
mod reorder_window;
mod replies;
mod request;
mod requester;
mod responder;
mod round_robin;
mod sequence;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;
mod unpaced;
mod work;

pub use config::{MTU_MAX, MTU_MIN, QpConfig, QpIndex, RETRY_MAX, ReceiveQueue, Recovery, Transport};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use inline_queue::InlineQueue;
pub use pacing::Pacing;
pub use packet::{ExtensionHeader, Packet};
pub use requester::message_bytes_max;
pub use telemetry::{HOPS_MAX, HopTelemetry, Telemetry, TelemetryFormat};
pub use work::{
    ArrivalInfo, Completion, CompletionKind, FailReason, MESSAGE_BYTES_MAX, OutgoingPacket, PostError, Verb,
    WorkRequest,
};
