//! Configuration of egress queues.

/// Configuration of an egress queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Buffer profile of an egress pool: an index into [`SwitchConfig::profiles`](crate::config::SwitchConfig::profiles), or [`NO_PROFILE`](crate::config::NO_PROFILE).
    pub profile: u16,
    /// How the scheduler serves the queue.
    pub schedule: SchedulingMode,
    /// Shaper of the queue.
    pub shaper: Option<ShaperConfig>,
    /// ECN marking and early drop.
    pub wred: Option<WredProfile>,
}

/// How the scheduler serves a queue (`SCHEDULER.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingMode {
    /// Strict priority: before every DWRR queue. Among strict queues, the higher number is first.
    Strict,
    /// Deficit weighted round robin in bytes.
    Dwrr {
        /// Weight, 1 to 100, relative to the other DWRR queues of the port.
        weight: u8,
    },
}

/// A peak rate (`SCHEDULER.pir`, `pbs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Peak rate in bytes (`mac_len`) per second, at least 1.
    pub bytes_per_second: u64,
    /// Bytes that may be sent at once after an idle time.
    pub burst_bytes: u32,
}

/// The green thresholds of a `WRED_PROFILE`. The thresholds apply to the instantaneous queue length, because
/// SONiC sets the WRED weight to 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WredProfile {
    /// Queue length in bytes up to which the probability is zero.
    pub min_bytes: u64,
    /// Queue length in bytes at which the probability is `max_probability`. Above this length, the
    /// probability is one.
    pub max_bytes: u64,
    /// Probability in units of 2^-32. For example, 5 % is `0.05 * 2^32`, and 100 % is 2^32.
    pub max_probability: u64,
    /// True if ECN-capable frames are marked CE.
    pub ecn: bool,
    /// True if frames that cannot be marked are dropped. Frames of lossless priority groups
    /// are never dropped.
    pub drop: bool,
}
