//! The members of a group and their present state, as the input of a scheme.

use super::cluster::{FlowCountKey, FlowPlacements};
use super::load::{PortLoads, Quality};
use super::member::Member;
use super::member_scores::MemberScores;
use super::packet::Packet;
use super::random::RandomStream;
use super::remote::{RemotePaths, SiteIndex};
use crate::egress::FrameTable;
use xoff_wire::link_quality::PathLoad;

/// The members of a group and their present state. A scheme receives this value for each packet.
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
    /// Site of the group's routes. `None` if neighbours cannot advertise the site.
    pub(super) site: Option<SiteIndex>,
}

impl Paths<'_> {
    /// Returns all members, including members that are not usable. Other methods take an index in this list,
    /// and panic if the index is too large.
    #[inline]
    pub fn members(&self) -> &[Member] {
        self.members
    }

    /// Returns the indices of the members that may be selected, in ascending order. Such a member is up,
    /// eligible, and has a path to the site (the destination leaf). The list has at least one entry when a
    /// scheme is called for a packet.
    #[inline]
    pub fn usable(&self) -> &[u16] {
        self.usable
    }

    /// Returns true if a member may be selected. An index that is too large gives false.
    #[inline]
    pub fn is_usable(&self, member: u16) -> bool {
        match self.usable.len() == self.members.len() {
            true => usize::from(member) < self.members.len(),
            false => self.usable.binary_search(&member).is_ok(),
        }
    }

    /// Returns the usable member that a hash selects, in proportion to the weights. Alternate members are
    /// selected only if no primary member is usable. Panics if no member is usable.
    #[inline]
    pub fn member_by_hash(&self, hash: u32) -> u16 {
        self.buckets[((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize]
    }

    /// Selects a usable member at random, like [`Paths::member_by_hash`] with a random hash.
    #[inline]
    pub fn random_member(&mut self) -> u16 {
        let draw = self.random.next_u32();
        self.member_by_hash(draw)
    }

    /// Returns true if all usable members have the same probability in a random selection.
    #[inline]
    pub(super) fn has_equal_weights(&self) -> bool {
        self.buckets.len() == self.usable.len()
    }

    /// Returns the random number generator of the group.
    #[inline]
    pub fn random(&mut self) -> &mut RandomStream {
        self.random
    }

    /// Returns true if the peers of all links of a member pause the packet's traffic class with PFC.
    #[inline]
    pub fn is_paused(&self, packet: &Packet<'_>, member: u16) -> bool {
        self.loads.is_any_port_paused(packet.tc)
            && self.members[usize::from(member)].is_paused(packet.tc, self.loads)
    }

    /// Returns the time in picoseconds until a packet that arrives now starts to leave through a member. The
    /// time includes the frame on the link and the queued frames, but no pauses. For a LAG, the result is the
    /// mean of its links. The result is at most about a quarter of a second (2^38 ps).
    #[inline]
    pub fn wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        self.members[usize::from(member)].wait_ps(packet.now, self.loads, self.frames)
    }

    /// Returns the wait of a member, scaled by its weight. A smaller weight gives a longer wait.
    #[inline]
    pub(super) fn scaled_wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        let of_port = self
            .scores
            .port_wait_ps(member, packet.now, self.loads, self.frames);
        let wait = of_port.unwrap_or_else(|| self.wait_ps(packet, member));
        self.scores.entries[usize::from(member)].scale_wait(wait)
    }

    /// Returns the number of bytes in the queues of a member's ports.
    #[inline]
    pub fn queued_bytes(&self, member: u16) -> u64 {
        let ports = self.members[usize::from(member)].ports.iter();
        ports
            .map(|port| self.frames.port_queued_bytes(port.index()))
            .sum()
    }

    /// Returns the quality of a member's local link. For a LAG, the result is the mean of its links.
    #[inline]
    pub fn quality(&mut self, packet: &Packet<'_>, member: u16) -> Quality {
        self.members[usize::from(member)].quality(packet.now, self.loads, self.frames)
    }

    /// Returns the average transmission rate of a member over sampling intervals, in permille of its speed.
    /// For a LAG, the result is the mean of its links. For a member without known ports, the result is 500.
    #[inline]
    pub fn utilisation_permille(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        self.members[usize::from(member)].utilisation_permille(packet.now, self.loads, self.frames)
    }

    /// Returns the transmission time of a member's queued bytes, in permille of the sampling interval. For a
    /// LAG, the result is the mean of its links. For a member without known ports, the result is 500.
    #[inline]
    pub fn backlog_permille(&self, member: u16) -> u32 {
        self.members[usize::from(member)].backlog_permille(self.loads, self.frames)
    }

    /// Returns the load that the neighbour behind a member advertises for its path to the packet's site (the
    /// destination leaf). The range is 0 to 1000, as for [`Quality::load`]. Returns `None` if the neighbour
    /// has advertised no load or the load has expired.
    #[inline]
    pub fn remote_load(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.remote_path_load(packet, member)?.load))
    }

    /// Returns the utilisation that the neighbour behind a member advertises for its path to the packet's
    /// site (the destination leaf), in permille. Returns `None` if the neighbour has advertised no load or
    /// the load has expired.
    #[inline]
    pub fn remote_utilisation(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.remote_path_load(packet, member)?.utilisation))
    }

    /// Returns the quality of the whole path of a member, as the weighted mean of the remote load and the
    /// load of the local link. The weight of the remote load is `remote_percent` (at most 100). If the remote
    /// load is not known, only the load of the local link is used.
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

    /// Returns the load of the busiest known link of a member's path, from 0 to 1000. The load of a link is
    /// the larger of two values: its utilisation in permille, and its backlog in permille of
    /// a sampling interval.
    ///
    /// In CONGA, this metric consists only of the utilisation. xoff adds the backlog. In a lossless fabric, a
    /// paused link sends nothing and would otherwise seem idle.
    #[inline]
    pub fn path_load(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        let own = self.members[usize::from(member)].demand_permille(packet.now, self.loads, self.frames);
        own.max(self.remote_utilisation(packet, member).unwrap_or(0))
    }

    /// Returns the load that the neighbour behind a member has advertised for the packet's site (the
    /// destination leaf).
    #[inline]
    fn remote_path_load(&self, packet: &Packet<'_>, member: u16) -> Option<PathLoad> {
        let ports = &self.members[usize::from(member)].ports;
        self.remote.load(packet.now, ports, self.site?)
    }
}
