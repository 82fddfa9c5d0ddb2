//! What a scheme sees of the members of its group.

use super::board::Board;
use super::cluster::{Placements, RowKey};
use super::load::{Loads, Quality};
use super::packet::Packet;
use super::random::Random;
use super::remote::{Remote, SiteIndex};
use crate::egress::FrameTable;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::link_quality::{LOAD_MAX, PathLoad};

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The ports it leads over: one, or those of a LAG. None: it is in a VLAN, and its load is not known.
    pub ports: Vec<PortId>,
    /// Its share relative to the others, at least 1.
    pub weight: u16,
    /// Sum of the speeds of its ports in Mb/s; 0 where they are not known.
    pub speed_mbps: u32,
    /// It is used when primary members are worse.
    pub alternate: bool,
    /// It may carry traffic: its port takes part in the scheme.
    pub eligible: bool,
}

impl Member {
    /// How good its own link is; of a LAG, the mean.
    #[inline]
    pub(super) fn quality(&self, now: Picos, loads: &mut Loads, frames: &FrameTable) -> Quality {
        let mut of = |port: &PortId| loads.quality(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [port] => of(port),
            [] => Quality::of(UNKNOWN),
            ports => {
                let sum: u32 = ports.iter().map(|port| u32::from(of(port).load)).sum();
                Quality::of(sum / ports.len() as u32)
            }
        }
    }

    /// What its links send, on average over the sampling interval, in permille of their speed; of a LAG, the mean.
    #[inline]
    pub(super) fn utilisation(&self, now: Picos, loads: &mut Loads, frames: &FrameTable) -> u32 {
        let of = |port: &PortId| loads.utilisation(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [] => UNKNOWN,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }

    /// How long what waits for its links takes them, in permille of the sampling interval; of a LAG, the mean.
    #[inline]
    pub(super) fn backlog(&self, loads: &Loads, frames: &FrameTable) -> u32 {
        let of = |port: &PortId| loads.backlog(port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [] => UNKNOWN,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }

    /// Whether the peers of all of its links hold a traffic class.
    #[inline]
    pub(super) fn is_held(&self, tc: u8, loads: &Loads) -> bool {
        match self.ports.as_slice() {
            [] => false,
            ports => ports.iter().all(|port| loads.holds(port.index(), tc)),
        }
    }

    /// How long what is on its links and in their queues takes them; of a LAG, the mean.
    #[inline]
    pub(super) fn wait_ps(&self, now: Picos, loads: &Loads, frames: &FrameTable) -> u64 {
        let of = |port: &PortId| loads.wait_ps(now, port.index(), frames.port_queued_bytes(port.index()));
        match self.ports.as_slice() {
            [port] => of(port),
            [] => 0,
            ports => ports.iter().map(of).sum::<u64>() / ports.len() as u64,
        }
    }

    /// What it sends, or what waits if that is more: a link that is paused sends nothing, and is not free.
    #[inline]
    pub(super) fn demand(&self, now: Picos, loads: &mut Loads, frames: &FrameTable) -> u32 {
        let waits = self.backlog(loads, frames);
        self.utilisation(now, loads, frames)
            .max(waits)
            .min(u32::from(LOAD_MAX))
    }

    /// Its own link, as it is told to neighbours.
    pub(super) fn path_load(&self, now: Picos, loads: &mut Loads, frames: &FrameTable) -> PathLoad {
        PathLoad {
            load: self.quality(now, loads, frames).load,
            utilisation: self.demand(now, loads, frames) as u16,
        }
    }
}

/// The members of a group as they are now.
#[derive(Debug)]
pub struct Paths<'a> {
    pub(super) members: &'a [Member],
    pub(super) usable: &'a [u16],
    pub(super) buckets: &'a [u16],
    pub(super) board: &'a mut Board,
    pub(super) has_alternates: bool,
    pub(super) loads: &'a mut Loads,
    pub(super) frames: &'a FrameTable,
    pub(super) random: &'a mut Random,
    /// Flows that cluster load balancing has placed, in all groups, and by what this group's are counted.
    pub(super) placements: &'a mut Placements,
    pub(super) row: RowKey,
    pub(super) remote: &'a Remote,
    /// Where the group's routes lead, if somebody may tell something of it.
    pub(super) site: Option<SiteIndex>,
}

/// The load of a member of which none is known: neither good nor bad.
const UNKNOWN: u32 = 500;

impl Paths<'_> {
    /// All members, usable or not.
    #[inline]
    pub fn members(&self) -> &[Member] {
        self.members
    }

    /// Indices of the members that live and are eligible, in order. Never empty while packets are to be placed.
    #[inline]
    pub fn usable(&self) -> &[u16] {
        self.usable
    }

    /// Whether a member can be chosen.
    #[inline]
    pub fn is_usable(&self, member: u16) -> bool {
        match self.usable.len() == self.members.len() {
            true => usize::from(member) < self.members.len(),
            false => self.usable.binary_search(&member).is_ok(),
        }
    }

    /// The usable member that a hash falls on, in proportion to weights.
    #[inline]
    pub fn by_hash(&self, hash: u32) -> u16 {
        self.buckets[((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize]
    }

    /// A usable member at random, in proportion to weights.
    #[inline]
    pub fn at_random(&mut self) -> u16 {
        let draw = self.random.bits();
        self.by_hash(draw)
    }

    /// Whether all usable members are drawn with the same chance.
    #[inline]
    pub(super) fn is_even(&self) -> bool {
        self.buckets.len() == self.usable.len()
    }

    /// The group's random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut Random {
        self.random
    }

    /// Whether the peers of all of a member's links hold the packet's class (PFC).
    #[inline]
    pub fn is_held(&self, packet: &Packet<'_>, member: u16) -> bool {
        self.loads.holds_anywhere(packet.tc)
            && self.members[usize::from(member)].is_held(packet.tc, self.loads)
    }

    /// Picoseconds until a packet that comes now would begin to leave by a member, if nothing held it back: what is on its
    /// links and in their queues, at their speed; of a LAG, the mean. At most a quarter of a second.
    #[inline]
    pub fn wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        self.members[usize::from(member)].wait_ps(packet.now, self.loads, self.frames)
    }

    /// As [`Paths::wait_ps`], longer for members of less weight.
    #[inline]
    pub(super) fn stretched_wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        let of_port = self
            .board
            .port_wait_ps(member, packet.now, self.loads, self.frames);
        let wait = of_port.unwrap_or_else(|| self.wait_ps(packet, member));
        self.board.standing[usize::from(member)].stretched(wait)
    }

    /// Bytes that wait in the queues of a member's ports.
    #[inline]
    pub fn queued_bytes(&self, member: u16) -> u64 {
        let ports = self.members[usize::from(member)].ports.iter();
        ports
            .map(|port| self.frames.port_queued_bytes(port.index()))
            .sum()
    }

    /// How good a member's own link is.
    #[inline]
    pub fn quality(&mut self, packet: &Packet<'_>, member: u16) -> Quality {
        self.members[usize::from(member)].quality(packet.now, self.loads, self.frames)
    }

    /// What a member's links send, on average over the sampling interval, in permille of their speed; of a LAG, the mean.
    #[inline]
    pub fn utilisation(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        self.members[usize::from(member)].utilisation(packet.now, self.loads, self.frames)
    }

    /// How long what waits for a member's links takes them, in permille of the sampling interval; of a LAG, the mean.
    #[inline]
    pub fn backlog(&self, member: u16) -> u32 {
        self.members[usize::from(member)].backlog(self.loads, self.frames)
    }

    /// How loaded the way behind a member is, towards the packet's site, as its switch tells: 0 to 1 000, in the measure of
    /// [`Quality::load`]. `None`: it has told nothing, or nothing lately.
    #[inline]
    pub fn remote_load(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.beyond(packet, member)?.load))
    }

    /// As [`Paths::remote_load`], in the measure of [`Paths::utilisation`].
    #[inline]
    pub fn remote_utilisation(&self, packet: &Packet<'_>, member: u16) -> Option<u32> {
        Some(u32::from(self.beyond(packet, member)?.utilisation))
    }

    /// How good a member's whole path is: the own link's load and the remote one weighed, the latter with `remote_percent`
    /// (at most 100). Where the remote one is not known, the own link's alone.
    #[inline]
    pub fn path_quality(&mut self, packet: &Packet<'_>, member: u16, remote_percent: u8) -> Quality {
        let own = self.quality(packet, member);
        match self.remote_load(packet, member) {
            None => own,
            Some(remote) => {
                let part = u32::from(remote_percent.min(100));
                Quality::of((u32::from(own.load) * (100 - part) + remote * part) / 100)
            }
        }
    }

    /// How busy the busiest link of a member's path is, as far as it is known: what it sends in permille of its speed, or what
    /// waits for it in permille of a sampling interval if that is more; 0 to 1 000 (CONGA's metric; the part about what waits is
    /// ours: links of a lossless fabric can be stopped, and send nothing then).
    #[inline]
    pub fn path_load(&mut self, packet: &Packet<'_>, member: u16) -> u32 {
        let own = self.members[usize::from(member)].demand(packet.now, self.loads, self.frames);
        own.max(self.remote_utilisation(packet, member).unwrap_or(0))
    }

    #[inline]
    fn beyond(&self, packet: &Packet<'_>, member: u16) -> Option<PathLoad> {
        let ports = &self.members[usize::from(member)].ports;
        self.remote.load(packet.now, ports, self.site?)
    }
}
