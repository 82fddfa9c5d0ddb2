//! The report of one flow: sent, received and lost frames, and latency.

use serde::{Deserialize, Serialize};

/// The report of one flow from one host to another host, in one traffic class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// Traffic class of the frames at the sender, 0 to 7. It is also their priority.
    pub class: u8,
    /// Whether the lab declares the flow lossless. The configuration of the switches does not matter.
    pub lossless: bool,
    /// Frames that the NIC of the sender has sent. Frames in the NIC at the end of the run are not counted.
    pub sent_frames: u64,
    /// Frames that arrived with a valid ICRC. Duplicates are counted once.
    pub received_frames: u64,
    /// Frames that were sent and not received: `sent_frames - received_frames` at the end of the run.
    pub lost_frames: u64,
    /// Frames that arrived after a frame that was sent later.
    pub reordered_frames: u64,
    /// Frames that arrived with an ECN mark (CE).
    #[serde(default)]
    pub ce_marked_frames: u64,
    /// Frames that had already arrived before.
    pub duplicate_frames: u64,
    /// Frames with a wrong ICRC. They do not count as received, because a NIC drops them silently, so they
    /// are lost.
    pub icrc_errors: u64,
    /// Payload bits per second of model time, from the first to the last arrival. Headers, pad and ICRC do
    /// not count.
    pub goodput_bps: u64,
    /// Time from the time stamp of the sender to the arrival, in model time.
    pub latency_ns: LatencyReport,
}

/// Quantiles of a latency in nanoseconds of model time, with two significant digits. All values are 0 without
/// a measurement.
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
