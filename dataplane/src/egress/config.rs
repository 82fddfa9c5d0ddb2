//! Configuration of egress queues.

/// Buffer profile, scheduling, rate limit and WRED of one of the eight egress queues of a port (SONiC tables
/// `BUFFER_QUEUE` and `QUEUE`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Buffer profile of an egress pool: an index into [`SwitchConfig::profiles`](crate::config::SwitchConfig::profiles), or [`NO_PROFILE`](crate::config::NO_PROFILE).
    pub profile: u16,
    /// Scheduling of the queue: strict priority or DWRR.
    pub schedule: SchedulingMode,
    /// Shaper of the queue. `None`: the rate is not limited.
    pub shaper: Option<ShaperConfig>,
    /// Rule for ECN marks and early drops. `None`: the queue does not mark or drop early.
    pub wred: Option<WredProfile>,
}

/// Scheduling of a queue (`SCHEDULER.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingMode {
    /// Strict priority: the queue is served before all DWRR queues. Among strict queues, the queue with the
    /// higher number is served first.
    Strict,
    /// Deficit weighted round robin (DWRR), in bytes.
    Dwrr {
        /// Weight relative to the other DWRR queues of the port, 1 to 100.
        weight: u8,
    },
}

/// A limit for the rate of a queue or port (`SCHEDULER.pir`, `pbs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Peak rate in bytes (`mac_len`) per second, at least 1.
    pub bytes_per_second: u64,
    /// Number of bytes that may be sent at once after an idle time, at least 1.
    pub burst_bytes: u32,
}

/// The green thresholds of a `WRED_PROFILE`. SONiC sets the WRED weight to 0. The thresholds therefore apply
/// to the present queue length and not to an average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WredProfile {
    /// Queue length in bytes up to which the probability is zero (`green_min_threshold`), at
    /// most `max_bytes`.
    pub min_bytes: u64,
    /// Queue length in bytes at which the probability is `max_probability` (`green_max_threshold`). Above
    /// this length, the probability is one.
    pub max_bytes: u64,
    /// Probability at `max_bytes` (`green_drop_probability`), in units of 2^-32, at most 2^32. For example, 5
    /// % is `0.05 * 2^32`, and 100 % is 2^32.
    pub max_probability: u64,
    /// True if ECN-capable frames are marked CE (`ecn`).
    pub ecn: bool,
    /// True if frames that cannot be marked are dropped (`wred_green_enable`). Frames of lossless priority
    /// groups are never dropped.
    pub drop: bool,
}
