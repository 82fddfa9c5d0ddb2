//! Packet trimming (`SWITCH_TRIMMING`): a frame that finds its queue full is cut short instead of dropped.

/// `SWITCH_TRIMMING|GLOBAL`. Queues trim whose buffer profile says so ([`super::BufferProfile::trim`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimmingConfig {
    /// Octets that are left of a frame, FCS not counted; shorter frames are not touched (`size`).
    pub size_bytes: u32,
    /// DSCP of what is left (`dscp_value`, `tc_value`).
    pub dscp: TrimDscp,
    /// Where it is queued (`queue_index`).
    pub queue: TrimQueue,
}

/// DSCP of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimDscp {
    /// Symmetric: this one on all ports, 0 to 63.
    Fixed(u8),
    /// Asymmetric: what the egress port's [`super::PortConfig::tc_to_dscp`] has for this traffic class.
    FromTc(u8),
}

/// Queue of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimQueue {
    /// This one, 0 to 7.
    Fixed(u8),
    /// That of its new DSCP, by the egress port's maps (`dynamic`).
    Dynamic,
}
