//! Inputs and outputs of an endpoint: work requests, packets and completions.

use thiserror::Error;
use xoff_units::Picos;
use xoff_wire::NakCode;

use super::config::QpIndex;
use super::packet::Packet;
use super::telemetry::{Telemetry, TelemetryFormat};

/// Maximum length of a message in bytes, 2^31 (IBTA 9.7.2).
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// Operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// SEND: the data fill a receive entry of the peer.
    Send,
    /// RDMA WRITE: the data are written to the memory of the peer.
    Write,
    /// RDMA READ: the data are read from the memory of the peer.
    Read,
}

/// One message to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Identifier of the caller's choice. The completion of the request carries the same value.
    pub id: u64,
    /// Operation of the request.
    pub verb: Verb,
    /// Length of the message in bytes, 0 to [`MESSAGE_BYTES_MAX`]. The limit of a UD queue pair is its MTU.
    pub bytes: u64,
}

/// Reason why a work request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The endpoint has no queue pair with this index.
    #[error("no such queue pair")]
    NoSuchQp,
    /// The message is longer than [`MESSAGE_BYTES_MAX`], or a datagram is longer than the MTU.
    #[error("message of {bytes} bytes, at most {bytes_max} are possible")]
    TooLong {
        /// Length of the message in bytes.
        bytes: u64,
        /// Maximum length in bytes.
        bytes_max: u64,
    },
    /// The transport service does not support the operation. READ needs RC, and UD supports only SEND.
    #[error("the queue pair's transport service does not know this operation")]
    Unsupported,
    /// The queue pair has failed and accepts no more requests.
    #[error("the queue pair has failed")]
    Failed,
}

/// Reason why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// No acknowledgement arrived after `retry_cnt` retries.
    RetriesExceeded,
    /// The peer had no receive entry after `rnr_retry` retries.
    RnrRetriesExceeded,
    /// The peer answered with a NAK.
    Refused(NakCode),
    /// An earlier request failed, and the queue pair failed with it.
    Flushed,
}

/// Completion of a work request, or of a message from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Queue pair of the request or message.
    pub qp: QpIndex,
    /// Model time of the completion.
    pub at: Picos,
    /// Kind of the completion.
    pub kind: CompletionKind,
}

/// Kind of a [`Completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// Completion of a work request. An RC request completes when its last packet is acknowledged or when all
    /// its READ data have arrived. A UC or UD request completes when its last packet leaves. The requests of
    /// a queue pair complete in the order in which they were posted.
    Acked {
        /// Identifier of the work request.
        id: u64,
    },
    /// A work request failed.
    Failed {
        /// Identifier of the work request.
        id: u64,
        /// Reason of the failure.
        why: FailReason,
    },
    /// A whole message of the peer has arrived.
    Received {
        /// Number of the message among the received SEND and WRITE messages, from 0.
        message: u64,
        /// Length of the message in bytes.
        bytes: u64,
        /// Operation of the message, SEND or WRITE.
        verb: Verb,
    },
}

/// Facts about an arriving packet that are not in its RDMA headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalInfo<'a> {
    /// The IP header carries the ECN mark CE.
    pub ce: bool,
    /// Telemetry that the links on the path have written into the packet.
    pub telemetry: Option<&'a Telemetry>,
}

/// A packet that starts to leave.
#[derive(Debug)]
pub struct OutgoingPacket {
    /// Queue pair that sends the packet.
    pub qp: QpIndex,
    /// Headers and payload length of the packet.
    pub packet: Packet,
    /// Telemetry of the acknowledged packet. Only acknowledgements have this field.
    pub telemetry: Option<Box<Telemetry>>,
    /// Format of the telemetry that links add to the packet, or `None` without telemetry.
    pub collects: Option<TelemetryFormat>,
}
