//! Packet trimming (`SWITCH_TRIMMING`): a frame for a full queue is truncated instead of dropped.

use crate::acl_table::AclTable;

/// Trimming of a switch (`SWITCH_TRIMMING|GLOBAL`). A queue trims if its buffer
/// profile has [`super::BufferProfile::trim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimmingConfig {
    /// Length of a trimmed frame in bytes, without FCS (`size`). Shorter frames are not trimmed.
    pub size_bytes: u32,
    /// DSCP of trimmed packets (`dscp_value`, `tc_value`).
    pub dscp: TrimDscp,
    /// Queue of trimmed packets (`queue_index`).
    pub queue: TrimQueue,
    /// Packets that are dropped instead of trimmed: ACL rules with `DISABLE_TRIM`.
    pub exempt: Vec<AclTable>,
}

/// DSCP of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimDscp {
    /// Symmetric: the same DSCP, 0 to 63, on all ports.
    Fixed(u8),
    /// Asymmetric DSCP: the map [`super::PortConfig::tc_to_dscp`] of the egress port gives the DSCP for this
    /// traffic class. A port whose map has no entry for the class does not trim.
    FromTc(u8),
}

/// Queue of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimQueue {
    /// A fixed queue, 0 to 7.
    Fixed(u8),
    /// The maps of the egress port give the queue for the new DSCP (`dynamic`).
    Dynamic,
}
