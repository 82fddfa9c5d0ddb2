//! Errors of a peer and of a connection.

use std::time::Duration;

use thiserror::Error;

use crate::limits::{FRAME_BYTES_MAX, PAYLOAD_MAX, VERSION};

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The first message has other bytes in field `c`.
    #[error("the HELLO message does not contain `xofflock`: the peer speaks another protocol")]
    Magic,
    /// No kind has this number.
    #[error("no message has the kind {0}; the kinds are 1 to 7")]
    Kind(u8),
    /// A payload is too long.
    #[error("the payload of a message has the length {0}, at most {PAYLOAD_MAX} is permitted")]
    PayloadLength(u32),
    /// A frame is empty or too long.
    #[error("a FRAME message has the length {0}, permitted is 1 to {FRAME_BYTES_MAX}")]
    FrameLength(usize),
    /// A text is not UTF-8, or has control characters.
    #[error("the text `{field}` is not UTF-8 without control characters")]
    Text {
        /// The field.
        field: &'static str,
    },
    /// A REQUEST has an unknown operation.
    #[error("a REQUEST message has the operation {0}; the operations are 1 to 10")]
    Operation(u16),
    /// An argument of an operation is not permitted.
    #[error(
        "the operation {operation} of a REQUEST message has the argument {argument}, permitted are 0 to {max}"
    )]
    Argument {
        /// Number of the operation.
        operation: u16,
        /// The argument.
        argument: u64,
        /// The largest permitted value.
        max: u64,
    },
    /// A REPLY has an unknown form.
    #[error("a REPLY message has the form {0}; the forms are 0 to 4")]
    ReplyForm(u16),
    /// The payload of a REPLY has the wrong length.
    #[error(
        "the payload of a REPLY message of the form {form} has the length {found}, expected is {expected}"
    )]
    ReplyLength {
        /// Number of the form.
        form: u16,
        /// Length in bytes.
        found: usize,
        /// The right length in bytes.
        expected: usize,
    },
}

/// A message that breaks a promise or comes out of order. Times are picoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// A frame is before the time that was granted.
    #[error(
        "goes back in time: a frame from {first_bit_ps} ps to {last_bit_ps} ps follows a grant that promises no first \
         bit before {granted_first_ps} ps and no last bit before {granted_last_ps} ps"
    )]
    FrameBeforeGrant {
        /// First bit.
        first_bit_ps: u64,
        /// Last bit.
        last_bit_ps: u64,
        /// Granted time of the first bit.
        granted_first_ps: u64,
        /// Granted time of the last bit.
        granted_last_ps: u64,
    },
    /// The last bit is not after the first bit.
    #[error(
        "sends a frame with its first bit at {first_bit_ps} ps and its last bit at {last_bit_ps} ps, which is not later"
    )]
    EmptyFrame {
        /// First bit.
        first_bit_ps: u64,
        /// Last bit.
        last_bit_ps: u64,
    },
    /// A frame starts before the frame before it has ended.
    #[error(
        "sends a frame that starts at {first_bit_ps} ps, before the frame before it has ended at {previous_ps} ps"
    )]
    Overlap {
        /// First bit.
        first_bit_ps: u64,
        /// Last bit of the frame before.
        previous_ps: u64,
    },
    /// A grant takes back an earlier grant.
    #[error("goes back in time: a grant of {time_ps} ps follows a grant of {granted_ps} ps")]
    GrantGoesBack {
        /// The new time.
        time_ps: u64,
        /// The earliest permitted time.
        granted_ps: u64,
    },
    /// A grant counts more or fewer messages than were sent.
    #[error("sends a grant that counts {received} received messages, permitted are {least} to {most}")]
    Count {
        /// The number of the grant.
        received: u64,
        /// The smallest permitted number.
        least: u64,
        /// The largest permitted number.
        most: u64,
    },
    /// Too many frames were sent without waiting for a grant.
    #[error("sends too many frames without waiting for a grant: {0}")]
    Flood(usize),
    /// Too many bytes of frames wait for a grant.
    #[error("sends frames without granting their time: the waiting frames have more than {0} bytes")]
    UngrantedFrames(usize),
    /// A request or reset is before the time of the sender.
    #[error("goes back in time: a request at {time_ps} ps follows a grant of {granted_ps} ps")]
    RequestBeforeGrant {
        /// Time of the request.
        time_ps: u64,
        /// The granted time.
        granted_ps: u64,
    },
    /// A reply has a wrong time.
    #[error("answers a request at {request_ps} ps by a reply at {time_ps} ps; it must be 0 to 10 s later")]
    ReplyTime {
        /// Time of the reply.
        time_ps: u64,
        /// Time of the request.
        request_ps: u64,
    },
    /// A message is not permitted here.
    #[error("sends a {kind} message, which is not permitted here: {rule}")]
    NotPermitted {
        /// Kind of the message.
        kind: &'static str,
        /// The rule.
        rule: &'static str,
    },
}

/// The reason why a connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// The peer sent bytes that are no message.
    #[error("the peer sends no valid message: {0}")]
    Decode(#[from] DecodeError),
    /// The peer broke a rule.
    #[error("the peer {0}")]
    Order(OrderError),
    /// A message of this program breaks a rule.
    #[error("this program {0}")]
    OwnOrder(OrderError),
    /// The peer has another version.
    #[error("the peer has version {0} of the protocol, this program has version {VERSION}")]
    Version(u16),
    /// The speeds differ.
    #[error("the peer has a link of {peer_bps} bit/s, this program has {own_bps} bit/s")]
    Speed {
        /// Speed of the peer.
        peer_bps: u64,
        /// Speed of this program.
        own_bps: u64,
    },
    /// The peer closed the connection.
    #[error("the peer has closed the connection without a BYE message: it has ended or crashed")]
    Closed,
    /// The peer is done.
    #[error("the peer has ended the connection")]
    Done,
    /// The peer ended the connection because of an error.
    #[error("the peer has ended the connection: {0}")]
    Bye(String),
    /// The peer sent nothing for too long.
    #[error(
        "the peer sends nothing for {wait:?}; its last grant ends at {horizon_ps} ps, and this program waits for more"
    )]
    Silent {
        /// The time of the wait.
        wait: Duration,
        /// The time until which the peer has granted.
        horizon_ps: u64,
    },
    /// The peer sent only messages that permit no progress for too long.
    #[error(
        "the peer sends only messages that permit no progress for {wait:?}, such as the same grant again, or frames \
         without a grant; its last grant ends at {horizon_ps} ps, and this program waits for more"
    )]
    NoProgress {
        /// The time of the wait.
        wait: Duration,
        /// The time until which the peer has granted.
        horizon_ps: u64,
    },
    /// The peer, or another program, has changed the shared memory against the rules.
    #[error("the shared memory cannot be used any more: {0}")]
    SharedMemory(String),
    /// Nobody connects, or nobody listens.
    #[error("no peer appears within {0:?}")]
    NoPeer(Duration),
    /// The operating system refuses an operation.
    #[error("{what}: {reason}")]
    System {
        /// What does not work.
        what: String,
        /// The error of the operating system.
        reason: String,
    },
}
