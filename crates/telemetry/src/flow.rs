//! One flow of a report: what a sender put on the wire and what became of it.

use serde::{Deserialize, Serialize};

/// One flow, from one host to another, in one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// Class (802.1p priority, PFC priority) in which the sender queues it, 0 to 7.
    pub class: u8,
    /// Whether the lab declares that nothing of it may be lost, whatever the switch is configured to.
    pub lossless: bool,
    /// Frames that the sender's NIC put on the wire. What it still held when it was stopped is not counted.
    pub sent_frames: u64,
    /// Frames that arrived with a valid ICRC, each counted once.
    pub received_frames: u64,
    /// `sent_frames - received_frames` after draining.
    pub lost_frames: u64,
    /// Frames that arrived after one that was sent later.
    pub reordered_frames: u64,
    /// Frames that arrived marked CE.
    #[serde(default)]
    pub ce_marked_frames: u64,
    /// Further arrivals of a frame that had arrived already.
    pub duplicate_frames: u64,
    /// Frames whose invariant CRC was wrong. They are not received frames (a NIC discards them in silence), so
    /// they are lost ones too.
    pub icrc_errors: u64,
    /// Payload bits (behind all RoCE headers, without pad and ICRC) per second of model time, from the first to the
    /// last arrival.
    pub goodput_bps: u64,
    /// From the sender's time stamp to the arrival, in model time.
    pub latency_ns: LatencyReport,
}

/// Quantiles of a latency in nanoseconds of model time (two significant digits); all 0 when nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}
