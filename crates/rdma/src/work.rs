//! Inputs and outputs of an endpoint: work requests, packets and completions.

use thiserror::Error;
use xoff_units::Picos;
use xoff_wire::NakCode;

use super::config::QpIndex;
use super::packet::Packet;
use super::telemetry::{Telemetry, TelemetryFormat};

/// Largest length of a message in bytes, 2^31 (IBTA 9.7.2).
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// Operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// SEND: the data go into the memory of a receive entry of the peer.
    Send,
    /// RDMA WRITE: the data are written to the memory of the peer.
    Write,
    /// RDMA READ: the data are read from the memory of the peer.
    Read,
}

/// A work request: one message that a queue pair transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Identifier that the caller chooses. The completion of the request has the same identifier.
    pub id: u64,
    /// Operation of the request. Not all transport services support all operations
    /// (see [`PostError::Unsupported`]).
    pub verb: Verb,
    /// Length of the message in bytes, 0 to [`MESSAGE_BYTES_MAX`]. A message of a UD queue pair has at most
    /// the MTU. A READ has at most 2^22 packets.
    pub bytes: u64,
}

/// Reason why [`Endpoint::post`](super::Endpoint::post) did not accept a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The endpoint has no queue pair with this index.
    #[error("no such queue pair")]
    NoSuchQp,
    /// The message is longer than the limit of [`WorkRequest::bytes`].
    #[error("message of {bytes} bytes, at most {bytes_max} are possible")]
    TooLong {
        /// Length of the message in bytes.
        bytes: u64,
        /// Largest length for this queue pair and operation, in bytes.
        bytes_max: u64,
    },
    /// The transport service does not support the operation. READ needs RC, and UD supports only SEND.
    #[error("the queue pair's transport service does not know this operation")]
    Unsupported,
    /// The queue pair has failed and accepts no more requests.
    #[error("the queue pair has failed")]
    Failed,
}

/// Reason why an accepted work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// No acknowledgement arrived, and no retry of `retry_cnt` is left.
    RetriesExceeded,
    /// The peer had no receive entry, and no retry of `rnr_retry` is left.
    RnrRetriesExceeded,
    /// The peer refused the request with this NAK code.
    Refused(NakCode),
    /// An earlier request of the queue pair failed.
    Flushed,
}

/// Reports that a work request is complete or that a message of the peer has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Index of the queue pair.
    pub qp: QpIndex,
    /// Model time of the completion.
    pub at: Picos,
    /// What has happened, with the identifier of the request or the number of the message.
    pub kind: CompletionKind,
}

/// Kind of a [`Completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// A work request is complete. An RC request is complete when its last packet is acknowledged, or when
    /// all its READ data have arrived. A UC or UD request is complete when its last packet leaves. The
    /// requests of a queue pair complete in the order in which they were posted.
    Acked {
        /// Identifier of the work request ([`WorkRequest::id`]).
        id: u64,
    },
    /// A work request has failed, and its data may have been transferred only in part.
    Failed {
        /// Identifier of the work request ([`WorkRequest::id`]).
        id: u64,
        /// Reason of the failure.
        why: FailReason,
    },
    /// A whole SEND or WRITE message of the peer has arrived.
    Received {
        /// Number of the message among the received messages of the queue pair, counted from 0.
        message: u64,
        /// Length of the message in bytes.
        bytes: u64,
        /// Operation of the message, SEND or WRITE.
        verb: Verb,
    },
}

/// Properties of an arriving packet that are not in its RDMA headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalInfo<'a> {
    /// True if the IP header carries the ECN mark CE.
    pub ce: bool,
    /// Telemetry that switches on the path have written into the packet. `None`: the packet has none.
    pub telemetry: Option<&'a Telemetry>,
}

/// A packet that starts to leave the host.
#[derive(Debug)]
pub struct OutgoingPacket {
    /// Queue pair that sends the packet.
    pub qp: QpIndex,
    /// Headers and payload length of the packet.
    pub packet: Packet,
    /// Telemetry of the data packet that this packet acknowledges. `None` for all packets
    /// except acknowledgements.
    pub telemetry: Option<Box<Telemetry>>,
    /// Format of the telemetry that switches add to this packet. `None`: the packet collects none.
    pub collects: Option<TelemetryFormat>,
}
