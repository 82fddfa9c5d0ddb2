//! The members of a group, as a scheme sees them.

use super::cluster::{FlowCountKey, FlowPlacements};
use super::load::{PortLoads, Quality};
use super::member_scores::MemberScores;
use super::packet::Packet;
use super::random::RandomStream;
use super::remote::{RemotePaths, SiteIndex};
use crate::egress::FrameTable;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::link_quality::{LOAD_MAX, PathLoad};

/// A member of a load balancing group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Egress ports: one port, or the ports of a LAG. An empty list means that the member is in a VLAN and
    /// its load is not known.
    pub ports: Vec<PortId>,
    /// Weight relative to the other members, at least 1.
    pub weight: u16,
    /// Sum of the port speeds in Mb/s. 0 means that the speeds are not known.
    pub speed_mbps: u32,
    /// True for an alternate member, which is used when primary members are worse.
    pub alternate: bool,
    /// True if the member may carry traffic: its port takes part in the scheme.
    pub eligible: bool,
}

impl Member {
    /// Quality of the local link, or the mean quality of the links of a LAG.
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

    /// Average transmission rate over the sampling interval, in permille of the link speed. For a LAG, the
    /// result is the mean of its links.
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

    /// Transmission time of the queued bytes, in permille of the sampling interval. For a LAG, the result is
    /// the mean.
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

    /// Transmission time of the frame on the link and of the queued bytes, in picoseconds. For a LAG, the
    /// result is the mean of its links.
    #[inline]
    pub(super) fn wait_ps(&self, now: Picos, loads: &PortLoads, frames: &FrameTable) -> u64 {
        let of = |port: &PortId| loads.wait_ps(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [port] => of(port),
            [] => 0,
            ports => ports.iter().map(of).sum::<u64>() / ports.len() as u64,
        }
    }

    /// The larger of utilisation and backlog, in permille. A paused link sends nothing but is not free, so
    /// the backlog must count.
    #[inline]
    pub(super) fn demand_permille(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> u32 {
        let waits = self.backlog_permille(loads, frames);
        self.utilisation_permille(now, loads, frames)
            .max(waits)
            .min(u32::from(LOAD_MAX))
    }

    /// Load of the local link, in the form of a link quality message.
    pub(super) fn path_load(&self, now: Picos, loads: &mut PortLoads, frames: &FrameTable) -> PathLoad {
        PathLoad {
            load: self.quality(now, loads, frames).load,
            utilisation: self.demand_permille(now, loads, frames) as u16,
        }
    }
}

/// The members of a group and their present state.
#[derive(Debug)]
pub struct Paths<'a> {
    pub(super) members: &'a [Member],
    pub(super) usable: &'a [u16],
    pub(super) buckets: &'a [u16],
    pub(super) scores: &'a mut MemberScores,
    pub(super) has_alternates: bool,
    pub(super) loads: &'a mut PortLoads,
    pub(super) frames: &'a FrameTable,
    pub(super) random: &'a mut RandomStream,
    /// The flows of all groups with cluster load balancing.
    pub(super) placements: &'a mut FlowPlacements,
    /// Key of this group's flow counters.
    pub(super) count_key: FlowCountKey,
    pub(super) remote: &'a RemotePaths,
    /// Site of the group's routes, if a neighbour can advertise it.
    pub(super) site: Option<SiteIndex>,
}

/// Load of a member without known ports: neither good nor bad.
const UNKNOWN_LOAD: u32 = 500;

impl Paths<'_> {
    /// All members, including members that are not usable.
    #[inline]
    pub fn members(&self) -> &[Member] {
        self.members
    }

    /// Indices of the members that are up and eligible, in ascending order. The list is never empty when a
    /// scheme selects.
    #[inline]
    pub fn usable(&self) -> &[u16] {
        self.usable
    }

    /// Returns true if a member may be selected.
    #[inline]
    pub fn is_usable(&self, member: u16) -> bool {
        match self.usable.len() == self.members.len() {
            true => usize::from(member) < self.members.len(),
            false => self.usable.binary_search(&member).is_ok(),
        }
    }

    /// The usable member that a hash selects, in proportion to the weights.
    #[inline]
    pub fn member_by_hash(&self, hash: u32) -> u16 {
        self.buckets[((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize]
    }

    /// Selects a usable member at random, in proportion to the weights.
    #[inline]
    pub fn random_member(&mut self) -> u16 {
        let draw = self.random.next_u32();
        self.member_by_hash(draw)
    }

    /// Returns true if random selection gives all usable members the same probability.
    #[inline]
    pub(super) fn has_equal_weights(&self) -> bool {
        self.buckets.len() == self.usable.len()
    }

    /// The random number stream of the group.
    #[inline]
    pub fn random(&mut self) -> &mut RandomStream {
        self.random
    }

    /// Returns true if the peers of all links of a member pause the packet's traffic class (PFC).
    #[inline]
    pub fn is_paused(&self, packet: &Packet<'_>, member: u16) -> bool {
        self.loads.is_any_port_paused(packet.tc)
            && self.members[usize::from(member)].is_paused(packet.tc, self.loads)
    }

    /// Time in picoseconds until a packet that arrives now would start to leave through a member, without
    /// pauses. The time covers the frame on the link and the queued frames. The result is the mean for a LAG,
    /// and at most a quarter of a second.
    #[inline]
    pub fn wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        self.members[usize::from(member)].wait_ps(packet.now, self.loads, self.frames)
    }

    /// The wait of a member, scaled by weight. A smaller weight gives a longer wait.
    #[inline]
    pub(super) fn scaled_wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        let of_port = self
            .scores
            .port_wait_ps(member, packet.now, self.loads, self.frames);
        let wait = of_port.unwrap_or_else(|| self.wait_ps(packet, member));
        self.scores.entries[usize::from(member)].scale_wait(wait)
    }

    /// Bytes in the queues of a member's ports.
    #[inline]
    pub fn queued_bytes(&self, member: u16) -> u64 {
        let ports = self.members[usize::from(member)].ports.iter();
        ports
            .map(|port| self.frames.port_queued_bytes(port.index()))
            .sum()
    }

    /// Quality of a member's local link.
    #[inline]
    pub fn quality(&mut self, packet: &Packet<'_>, member: u16) -> Quality {
        self.members[usize::from(member)].quality(packet.now, self.loads, self.frames)
    }

    /// Average transmission rate of a member over the sampling interval, in permille of its speed. For a LAG,
    /// the result is the mean of its links.
    #[inline]
    pub fn utilisation_permille(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        self.members[usize::from(member)].utilisation_permille(packet.now, self.loads, self.frames)
    }

    /// Transmission time of a member's queued bytes, in permille of the sampling interval. For a LAG, the
    /// result is the mean of its links.
    #[inline]
    pub fn backlog_permille(&self, member: u16) -> u32 {
        self.members[usize::from(member)].backlog_permille(self.loads, self.frames)
    }

    /// Load of the path beyond a member to the packet's site, as its neighbour advertises it. The range is 0
    /// to 1000, as for [`Quality::load`]. `None` if the neighbour advertised nothing or the value has
    /// expired.
    #[inline]
    pub fn remote_load(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.remote_path_load(packet, member)?.load))
    }

    /// Utilisation of the path beyond a member, as its neighbour advertises it. The unit is that of
    /// [`Paths::utilisation_permille`].
    #[inline]
    pub fn remote_utilisation(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.remote_path_load(packet, member)?.utilisation))
    }

    /// Quality of a member's whole path. The remote load has a share of `remote_percent` (at most 100), and
    /// the load of the local link has the remaining share. If the remote load is not known, only the local
    /// link counts.
    #[inline]
    pub fn path_quality(&mut self, packet: &Packet<'_>, member: u16, remote_percent: u8) -> Quality {
        let own = self.quality(packet, member);
        match self.remote_load(packet, member) {
            None => own,
            Some(remote) => {
                let part = u32::from(remote_percent.min(100));
                Quality::from_load((u32::from(own.load) * (100 - part) + remote * part) / 100)
            }
        }
    }

    /// Load of the busiest known link of a member's path, 0 to 1000. The load of a link is the larger of its
    /// utilisation in permille and its backlog in permille of a sampling interval.
    ///
    /// CONGA defines this metric by utilisation alone. xoff adds the backlog, because a paused link of a
    /// lossless fabric sends nothing and would seem idle.
    #[inline]
    pub fn path_load(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        let own = self.members[usize::from(member)].demand_permille(packet.now, self.loads, self.frames);
        own.max(self.remote_utilisation(packet, member).unwrap_or(0))
    }

    /// The load that a member's neighbour advertised for the packet's site.
    #[inline]
    fn remote_path_load(&self, packet: &Packet<'_>, member: u16) -> Option<PathLoad> {
        let ports = &self.members[usize::from(member)].ports;
        self.remote.load(packet.now, ports, self.site?)
    }
}
