//! What a scheme sees of the members of its group.

use super::cluster::{Placements, RowKey};
use super::load::{Loads, Quality};
use super::order::STRETCH_BITS;
use super::packet::Packet;
use super::random::Random;
use crate::egress::FrameTable;
use crate::ids::PortId;
use crate::route::gcd;
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

/// How a member stands to the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its part where members are drawn that are equally good.
    pub(super) share: u32,
    /// Waits are multiplied by this, in units of 2^-8: the greatest weight of the group by its own.
    pub(super) stretch: u32,
}

impl Standing {
    /// Of all members: shares are weights where these differ, otherwise speeds if all are known.
    pub(super) fn of(members: &[Member]) -> Vec<Standing> {
        let weight = |member: &Member| u32::from(member.weight.max(1));
        let most = members.iter().map(weight).max().unwrap_or(1);
        let weighted = members.iter().any(|member| weight(member) != most);
        let speeds = !weighted && members.iter().all(|member| member.speed_mbps > 0);
        let share = |member: &Member| if speeds { member.speed_mbps } else { weight(member) };
        let divisor = members
            .iter()
            .map(share)
            .fold(0, |a, b| gcd(a.into(), b.into()) as u32)
            .max(1);
        members
            .iter()
            .map(|member| Standing {
                share: share(member) / divisor,
                stretch: (most << STRETCH_BITS) / weight(member),
            })
            .collect()
    }
}

/// The members of a group as they are now.
#[derive(Debug)]
pub struct Paths<'a> {
    pub(super) members: &'a [Member],
    pub(super) usable: &'a [u16],
    pub(super) buckets: &'a [u16],
    pub(super) standing: &'a [Standing],
    pub(super) has_alternates: bool,
    pub(super) loads: &'a mut Loads,
    pub(super) frames: &'a FrameTable,
    pub(super) random: &'a mut Random,
    /// Flows that cluster load balancing has placed, in all groups, and by what this group's are counted.
    pub(super) placements: &'a mut Placements,
    pub(super) row: RowKey,
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

    /// Whether some of the usable members are alternate ones.
    #[inline]
    pub(super) fn has_alternates(&self) -> bool {
        self.has_alternates
    }

    /// A member's part where one is drawn of several that are equally good.
    #[inline]
    pub(super) fn share(&self, member: u16) -> u32 {
        self.standing[usize::from(member)].share
    }

    /// What a band of averaged load is worth to packets that choose, in picoseconds of waiting.
    #[inline]
    pub(super) fn band_cost(&self) -> u64 {
        self.loads.band_cost()
    }

    /// Whether the peers of all of a member's links hold the packet's class (PFC).
    #[inline]
    pub fn is_held(&self, packet: &Packet<'_>, member: u16) -> bool {
        match self.members[usize::from(member)].ports.as_slice() {
            [] => false,
            ports => ports.iter().all(|port| self.loads.holds(port.index(), packet.tc)),
        }
    }

    /// Picoseconds until a packet that comes now would begin to leave by a member, if nothing held it back: what is on its
    /// links and in their queues, at their speed; of a LAG, the mean. At most a quarter of a second.
    #[inline]
    pub fn wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        let of = |port: &PortId| {
            let queued = self.frames.port_queued_bytes(port.index());
            self.loads.wait_ps(packet.now, port.index(), queued)
        };
        match self.members[usize::from(member)].ports.as_slice() {
            [port] => of(port),
            [] => 0,
            ports => ports.iter().map(of).sum::<u64>() / ports.len() as u64,
        }
    }

    /// As [`Paths::wait_ps`], longer for members of less weight.
    #[inline]
    pub(super) fn stretched_wait_ps(&self, packet: &Packet<'_>, member: u16) -> u64 {
        let stretch = self.standing[usize::from(member)].stretch;
        (self.wait_ps(packet, member) * u64::from(stretch)) >> STRETCH_BITS
    }

    /// How busy the links beyond a member are towards the packet's site, in permille, as other switches tell; `None`: nothing is
    /// told.
    #[inline]
    pub fn remote_load(&mut self, _packet: &Packet<'_>, _member: u16) -> Option<u32> {
        None
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
