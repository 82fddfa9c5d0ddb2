//! The members of a group side by side, such that a packet can be compared over all of them in little time.

use super::load::Loads;
use super::paths::Member;
use super::random::Random;
use crate::egress::FrameTable;
use crate::route::gcd;
use xoff_units::Picos;

/// A rank that no usable member has.
pub(super) const UNUSABLE: u64 = 1 << 63;

/// The same among ranks of packets, that leave room below 2^48: what these begin with is a few bands' worth of waiting.
const NOT_RANKED: u64 = 1 << 46;

/// Fraction in which waits are stretched by weights.
const STRETCH_BITS: u32 = 8;
const UNSTRETCHED: u32 = 1 << STRETCH_BITS;

/// In place of the port of a member with several, or none.
const NOT_ONE: u16 = u16::MAX;

/// How a member stands to the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// What its rank begins with: all of it that holds for a sampling interval. [`UNUSABLE`] if it may not be chosen.
    base: u64,
    /// The same for packets, with the member's number below: what is left is added to it.
    packet_base: u64,
    /// Its part where members are drawn that are equally good.
    pub(super) share: u32,
    /// Waits are multiplied by this, in units of 2^-8: the greatest weight of the group by its own.
    stretch: u32,
    /// Its port, if it has one and no more.
    port: u16,
    /// Its band, counted from the best (0).
    pub(super) level: u8,
    /// Bands that the flows that were placed there of late are worth.
    pub(super) crowd: u8,
    pub(super) alternate: bool,
}

impl Standing {
    /// What the rank of this member begins with from now on.
    #[inline]
    pub(super) fn set_base(&mut self, base: u64, member: u16) {
        self.base = base;
        self.packet_base = base.min(NOT_RANKED) << 16 | u64::from(member);
    }

    /// What its rank begins with.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// A wait as it counts for the member: longer for those of less weight.
    #[inline]
    pub(super) fn stretched(&self, wait_ps: u64) -> u64 {
        match self.stretch {
            UNSTRETCHED => wait_ps,
            stretch => (wait_ps * u64::from(stretch)) >> STRETCH_BITS,
        }
    }
}

/// All members, in their order.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) standing: Vec<Standing>,
    /// Room for the ranks of one packet.
    ranks: Vec<u64>,
    /// All members have one port and the same weight.
    plain: bool,
    /// All members have the same share, and there are at most 64.
    countable: bool,
    /// When what is in here of qualities is to be looked at again.
    pub(super) fresh_until: Picos,
}

impl Board {
    /// Takes the members over. Shares are weights where these differ, otherwise speeds if all are known.
    pub(super) fn set(&mut self, members: &[Member]) {
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
        let standing = |member: &Member| Standing {
            base: UNUSABLE,
            packet_base: NOT_RANKED << 16,
            share: share(member) / divisor,
            stretch: (most << STRETCH_BITS) / weight(member),
            port: match member.ports.as_slice() {
                [port] => port.0,
                _ => NOT_ONE,
            },
            level: 0,
            crowd: 0,
            alternate: member.alternate,
        };
        self.standing = members.iter().map(standing).collect();
        self.ranks = vec![UNUSABLE; members.len()];
        self.plain = !weighted && self.standing.iter().all(|standing| standing.port != NOT_ONE);
        let even = self
            .standing
            .windows(2)
            .all(|pair| pair[0].share == pair[1].share);
        self.countable = even && members.len() <= 64;
        self.fresh_until = Picos::ZERO;
    }

    /// Whether the wait of each member is that of one port.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// The wait of a member where [`Board::is_plain`] says that it is that of one port.
    #[inline]
    pub(super) fn plain_wait_ps(&self, member: u16, now: Picos, loads: &Loads, frames: &FrameTable) -> u64 {
        let port = usize::from(self.standing[usize::from(member)].port);
        loads.wait_ps(now, port, frames.port_queued_bytes(port))
    }

    /// The wait that a member's port stands for; `None`: it has not one.
    #[inline]
    pub(super) fn port_wait_ps(
        &self,
        member: u16,
        now: Picos,
        loads: &Loads,
        frames: &FrameTable,
    ) -> Option<u64> {
        let port = usize::from(self.standing[usize::from(member)].port);
        (port != usize::from(NOT_ONE)).then(|| loads.wait_ps(now, port, frames.port_queued_bytes(port)))
    }

    /// As [`Board::least`], where ranks begin with little: those of packets.
    ///
    /// Ranks are as good as random, so no branch hangs on them: each is put together with random bits and its member's number, and the
    /// least is taken. The bits decide among equal ones; where those are equal too, once in 256 draws of two, the first member has it.
    #[inline]
    pub(super) fn least_of_packet(
        &mut self,
        now: Picos,
        loads: &Loads,
        frames: &FrameTable,
        random: &mut Random,
    ) -> u16 {
        if !self.countable {
            return self.least(now, loads, frames, random);
        }
        // As long as each other, so that one comparison tells that a port is in both.
        let (paces, queued) = (loads.paces(), frames.queued_bytes_of_ports());
        let ports = paces.len().min(queued.len());
        let (paces, queued) = (&paces[..ports], &queued[..ports]);
        let mut least = u64::MAX;
        for some in self.standing.chunks(8) {
            let mut noise = random.long_bits().rotate_left(8);
            for standing in some {
                let port = usize::from(standing.port);
                let wait_ps = paces[port].wait_ps(now, queued[port]);
                least = least.min(standing.packet_base + (wait_ps << 16 | noise & 0xff00));
                noise = noise.rotate_right(8);
            }
        }
        (least & 0xff) as u16
    }

    /// The member of the least rank where all are plain: what it begins with, and the wait of its port. Of several, one at random in
    /// proportion to their shares.
    pub(super) fn least(
        &mut self,
        now: Picos,
        loads: &Loads,
        frames: &FrameTable,
        random: &mut Random,
    ) -> u16 {
        let rank = |standing: &Standing, _: usize| {
            let port = usize::from(standing.port);
            standing.base + loads.port_wait_ps(now, port, frames.port_queued_bytes(port))
        };
        self.least_by(random, rank).unwrap_or(0)
    }

    /// The same by ranks that are worked out for each member; `None`: none may be chosen.
    pub(super) fn least_by(
        &mut self,
        random: &mut Random,
        rank_of: impl Fn(&Standing, usize) -> u64,
    ) -> Option<u16> {
        let mut least = UNUSABLE;
        for (member, (standing, rank)) in self.standing.iter().zip(&mut self.ranks).enumerate() {
            *rank = match standing.base {
                UNUSABLE => UNUSABLE,
                _ => rank_of(standing, member),
            };
            least = least.min(*rank);
        }
        (least < UNUSABLE).then(|| self.draw_by_shares(least, random))
    }

    fn draw_by_shares(&self, least: u64, random: &mut Random) -> u16 {
        let equal = || {
            let ranked = self.standing.iter().zip(&self.ranks).enumerate();
            ranked.filter(move |(_, (_, rank))| **rank == least)
        };
        let shares = equal().map(|(_, (standing, _))| standing.share).sum();
        let mut left = random.below(shares);
        for (member, (standing, _)) in equal() {
            match left.checked_sub(standing.share) {
                None => return member as u16,
                Some(rest) => left = rest,
            }
        }
        0
    }
}
