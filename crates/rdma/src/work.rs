//! What goes in and out of an endpoint: requests, packets, completions.

use thiserror::Error;
use xoff_units::Picos;
use xoff_wire::NakCode;

use super::config::QpIndex;
use super::packet::Packet;
use super::telemetry::{Telemetry, TelemetryFormat};

/// Most bytes of a message (IBTA 9.7.2: 2^31).
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// Operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// SEND: goes into a receive entry of the peer.
    Send,
    /// RDMA WRITE: goes into the peer's memory.
    Write,
    /// RDMA READ: comes from the peer's memory.
    Read,
}

/// One message to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The caller's name for it, returned with its completion.
    pub id: u64,
    /// What to do.
    pub verb: Verb,
    /// Length of the message in bytes, 0 to [`MESSAGE_BYTES_MAX`]; in a datagram up to the MTU.
    pub bytes: u64,
}

/// Why a work request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The endpoint has no such queue pair.
    #[error("no such queue pair")]
    NoSuchQp,
    /// The message has more than [`MESSAGE_BYTES_MAX`] bytes, or a datagram more than the MTU.
    #[error("message of {bytes} bytes, at most {bytes_max} are possible")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The queue pair's service does not know the verb: READ needs RC, a datagram is a SEND.
    #[error("the queue pair's transport service does not know this operation")]
    Unsupported,
    /// The queue pair has failed.
    #[error("the queue pair has failed")]
    Failed,
}

/// Why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// Nothing was acknowledged in spite of `retry_cnt` repetitions.
    RetriesExceeded,
    /// The peer had no receive entry in spite of `rnr_retry` repetitions.
    RnrRetriesExceeded,
    /// The peer refused it.
    Refused(NakCode),
    /// A request before it failed, and the queue pair with it.
    Flushed,
}

/// The end of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where.
    pub qp: QpIndex,
    /// When.
    pub at: Picos,
    /// What.
    pub kind: CompletionKind,
}

/// What ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// A work request is done: acknowledged (RC), its data here (READ), its last packet under way (UC, UD). In the order in
    /// which they were posted.
    Acked {
        /// Name of the work request.
        id: u64,
    },
    /// A work request failed.
    Failed {
        /// Name of the work request.
        id: u64,
        /// Why.
        why: FailReason,
    },
    /// A message of the peer arrived whole.
    Received {
        /// Its number among the SEND and WRITE messages that arrived here, from 0.
        message: u64,
        /// Its length.
        bytes: u64,
        /// SEND or WRITE.
        verb: Verb,
    },
}

/// What a host knows of an arriving packet beside its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival<'a> {
    /// Its IP header says "congestion experienced".
    pub ce: bool,
    /// What the links on its way wrote into it.
    pub telemetry: Option<&'a Telemetry>,
}

/// A packet that begins to leave.
#[derive(Debug)]
pub struct Outgoing {
    /// Whose it is.
    pub qp: QpIndex,
    /// The packet.
    pub packet: Packet,
    /// In an acknowledgement, the telemetry of the packet that it answers.
    pub telemetry: Option<Box<Telemetry>>,
    /// The room that it has for records of the links on its path; `None`: they write nothing into it.
    pub collects: Option<TelemetryFormat>,
}
