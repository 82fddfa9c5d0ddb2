//! The report of one flow: sent, received and lost frames, and latency.

use serde::{Deserialize, Serialize};

/// The end of a flow whose counters a report contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowEnd {
    /// The counters of the sender and of the receiver.
    #[default]
    Both,
    /// Only the counters of the sender. All counters of arrivals are 0.
    Sender,
    /// Only the counters of the receiver. `sent_frames` is computed from the frames that arrived.
    Receiver,
}

impl FlowEnd {
    fn is_both(&self) -> bool {
        *self == FlowEnd::Both
    }
}

/// The report of one flow. All frames of a flow have the same sender, the same receiver and the same
/// traffic class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// Traffic class of the frames at the sender, 0 to 7. The class is also the priority of the frames.
    pub class: u8,
    /// True if the lab file declares the flow lossless. The configuration of the switches does not change
    /// this value.
    pub lossless: bool,
    /// The end whose counters are known. The field is omitted if both ends are known.
    #[serde(default, skip_serializing_if = "FlowEnd::is_both")]
    pub end: FlowEnd,
    /// Number of frames that left the NIC of the sender. Frames that are still in the NIC at the end of the
    /// run are not counted.
    pub sent_frames: u64,
    /// Frames that arrived with a valid ICRC. Duplicates are counted once.
    pub received_frames: u64,
    /// Payload bytes of the frames in `received_frames`, without headers, padding and ICRC.
    #[serde(default)]
    pub received_bytes: u64,
    /// Number of frames that were sent but not received: `sent_frames - received_frames` at the end
    /// of the run.
    pub lost_frames: u64,
    /// Frames that arrived after a frame that was sent later.
    pub reordered_frames: u64,
    /// Frames that arrived with an ECN mark (CE).
    #[serde(default)]
    pub ce_marked_frames: u64,
    /// Frames that arrived although the same frame had already arrived.
    pub duplicate_frames: u64,
    /// Number of frames with a wrong ICRC. A NIC drops frames with a wrong ICRC silently, so these frames are
    /// counted as lost and not as received.
    pub icrc_errors: u64,
    /// Received payload divided by the model time from the first to the last arrival, in bit/s. Headers, pad
    /// bytes and ICRC are not included.
    pub goodput_bps: u64,
    /// Latency of the frames in model time: the time from the time stamp of the sender to the arrival.
    pub latency_ns: LatencyReport,
}

/// Quantiles of a latency in nanoseconds of model time, with two significant digits. All values are 0 if
/// nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The largest latency.
    pub max: u64,
}
