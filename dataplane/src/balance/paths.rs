//! What a scheme sees of the members of its group.

use super::load::{Loads, Quality};
use super::packet::Packet;
use super::random::Random;
use crate::egress::FrameTable;
use crate::ids::PortId;
use crate::time::Picos;

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
}

/// The members of a group as they are now.
#[derive(Debug)]
pub struct Paths<'a> {
    pub(super) members: &'a [Member],
    pub(super) usable: &'a [u16],
    pub(super) buckets: &'a [u16],
    pub(super) loads: &'a mut Loads,
    pub(super) frames: &'a FrameTable,
    pub(super) random: &'a mut Random,
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

    /// The group's random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut Random {
        self.random
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
        let (loads, frames) = (&mut *self.loads, self.frames);
        let of = |port: &PortId| {
            let queued = frames.port_queued_bytes(port.index());
            loads.utilisation(packet.now, port.index(), queued)
        };
        match self.members[usize::from(member)].ports.as_slice() {
            [] => UNKNOWN,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }

    /// How long what waits for a member's links takes them, in permille of the sampling interval; of a LAG, the mean.
    #[inline]
    pub fn backlog(&self, member: u16) -> u32 {
        let of = |port: &PortId| {
            let queued = self.frames.port_queued_bytes(port.index());
            self.loads.backlog(port.index(), queued)
        };
        match self.members[usize::from(member)].ports.as_slice() {
            [] => UNKNOWN,
            ports => ports.iter().map(of).sum::<u32>() / ports.len() as u32,
        }
    }
}
