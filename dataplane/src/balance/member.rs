//! The members of a load balancing group: next hops or LAG ports.

use super::load::{PortLoads, Quality};
use crate::egress::FrameTable;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::link_quality::{LOAD_MAX, PathLoad};

/// Load of a member without known ports. The value is in the middle of the range 0 to 1000.
const UNKNOWN_LOAD: u32 = 500;

/// A member of a load balancing group: a next hop of a route, or a port of a LAG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The egress port of the member, or all ports if the next hop is behind a LAG. The list is empty if the
    /// next hop is in a VLAN. The load of a member in a VLAN is not known.
    pub ports: Vec<PortId>,
    /// Weight relative to the other members. 0 means 1.
    pub weight: u16,
    /// Sum of the port speeds in Mb/s. 0 means that the speeds are not known.
    pub speed_mbps: u32,
    /// True for an alternate member. Schemes use alternate members when the primary members are
    /// worse ([`SchemeConfig::primary_threshold`](crate::config::SchemeConfig::primary_threshold)).
    pub alternate: bool,
    /// True if the member may carry traffic. The value is false in one case: the port of this member has no
    /// scheme, and the group takes its scheme from the port of a different member.
    pub eligible: bool,
}

impl Member {
    /// Returns the quality of the local link, or the mean quality of the links of a LAG.
    #[inline]
    pub(super) fn quality(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> Quality {
        let mut of = |port: &PortId| loads.quality(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [port] => of(port),
            [] => Quality::from_load(UNKNOWN_LOAD),
            ports => {
                let sum: u32 = ports.iter().map(|port| u32::from(of(port).load)).sum();
                Quality::from_load(sum / ports.len() as u32)
            }
        }
    }

    /// Returns the average transmission rate over sampling intervals, in permille of the link speed. For a
    /// LAG, the result is the mean of its links.
    #[inline]
    pub(super) fn utilisation_permille(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> u32 {
        let of = |port: &PortId| {
            loads.utilisation_permille(now, port.index(), frames.port_queued_bytes(port.index()))
        };
        match self.ports.as_slice() {
            [] => UNKNOWN_LOAD,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }

    /// Returns the transmission time of the queued bytes, in permille of the sampling interval. For a LAG,
    /// the result is the mean of its links.
    #[inline]
    pub(super) fn backlog_permille(&self, loads: &PortLoads, frames: &FrameTable) -> u32 {
        let of = |port: &PortId| loads.backlog_permille(port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [] => UNKNOWN_LOAD,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }

    /// Returns true if the peers of all links pause this traffic class.
    #[inline]
    pub(super) fn is_paused(&self, tc: u8, loads: &PortLoads) -> bool {
        match self.ports.as_slice() {
            [] => false,
            ports => ports.iter().all(|port| loads.is_paused(port.index(), tc)),
        }
    }

    /// Returns the transmission time of the frame on the link and of the queued bytes, in picoseconds. For a
    /// LAG, the result is the mean of its links. For a member without known ports, the result is 0.
    #[inline]
    pub(super) fn wait_ps(&self, now: Picos, loads: &PortLoads, frames: &FrameTable) -> u64 {
        let of = |port: &PortId| loads.wait_ps(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [port] => of(port),
            [] => 0,
            ports => ports.iter().map(of).sum::<u64>() / ports.len() as u64,
        }
    }

    /// Returns the larger of utilisation and backlog, in permille. A paused link sends nothing, so its
    /// utilisation is low although the link is not free. The backlog corrects this.
    #[inline]
    pub(super) fn demand_permille(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> u32 {
        let waits = self.backlog_permille(loads, frames);
        self.utilisation_permille(now, loads, frames)
            .max(waits)
            .min(u32::from(LOAD_MAX))
    }

    /// Returns the load of the local link, in the form of a link quality message.
    pub(super) fn path_load(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> PathLoad {
        PathLoad {
            load: self.quality(now, loads, frames).load,
            utilisation: self.demand_permille(now, loads, frames) as u16,
        }
    }
}
