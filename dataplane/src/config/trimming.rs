//! Packet trimming (`SWITCH_TRIMMING`): a packet for a full queue is truncated instead of dropped.

use crate::acl_table::AclTable;

/// Trimming of a switch (`SWITCH_TRIMMING|GLOBAL`). A queue trims packets if its buffer profile
/// sets [`super::BufferProfile::trim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimmingConfig {
    /// Length of a trimmed frame in bytes, without FCS (`size`). Frames that are not longer are not trimmed.
    pub size_bytes: u32,
    /// New DSCP of trimmed packets (`dscp_value`, `tc_value`).
    pub dscp: TrimDscp,
    /// Queue through which trimmed packets leave (`queue_index`).
    pub queue: TrimQueue,
    /// ACL tables with packets that are dropped instead of trimmed (rules with `DISABLE_TRIM`).
    pub exempt: Vec<AclTable>,
}

/// The DSCP that a trimmed packet gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimDscp {
    /// Symmetric DSCP: the same DSCP on all ports, 0 to 63.
    Fixed(u8),
    /// Asymmetric DSCP: the map [`super::PortConfig::tc_to_dscp`] of the egress port gives the DSCP for this
    /// traffic class, 0 to 15. A port whose map has no entry for the class does not trim.
    FromTc(u8),
}

/// The queue of the egress port through which a trimmed packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimQueue {
    /// A fixed queue, 0 to 7.
    Fixed(u8),
    /// The queue that belongs to the new DSCP, according to the maps of the egress port (`dynamic`).
    Dynamic,
}
