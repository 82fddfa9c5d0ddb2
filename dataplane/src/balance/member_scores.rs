//! Scores of all members of a group, stored side by side for a fast comparison.

use super::load::PortLoads;
use super::member::Member;
use super::random::RandomStream;
use crate::egress::FrameTable;
use crate::fib::gcd;
use xoff_units::Picos;

/// A rank that is above the rank of every usable member.
pub(super) const UNUSABLE_RANK: u64 = 1 << 63;

/// Constant part of the packet rank of a member that is not usable. Packet ranks must be below 2^48. For a
/// usable member, the constant part is the wait for its quality bands (at most 7 steps of path quality),
/// which is much smaller.
const UNUSABLE_PACKET_BASE: u64 = 1 << 46;

/// Number of fraction bits of the factor that scales waits by weight.
const WAIT_SCALE_BITS: u32 = 8;
/// The factor 1.
const UNIT_WAIT_SCALE: u32 = 1 << WAIT_SCALE_BITS;

/// Port number of a member that has no port or several ports.
const NOT_SINGLE_PORT: u16 = u16::MAX;

/// Score of a member relative to the other members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberScore {
    /// The part of the rank that is constant during a sampling interval. [`UNUSABLE_RANK`] excludes the
    /// member from the selection.
    base: u64,
    /// The constant part of the packet rank, with the index of the member in the low 16 bits.
    packet_base: u64,
    /// Relative probability of a selection if several members are equally good.
    pub(super) share: u32,
    /// Factor for the wait of the member, in units of 2^-8. The factor is the largest weight in the group
    /// divided by the weight of the member.
    wait_scale: u32,
    /// The port of a member with exactly one port, otherwise [`NOT_SINGLE_PORT`].
    port: u16,
    /// Quality band, counted from the best band (0).
    pub(super) level: u8,
    /// Penalty in quality bands, for flows that were placed on the member recently.
    pub(super) placement_penalty: u8,
    /// True for an alternate member, false for a primary member.
    pub(super) alternate: bool,
}

impl MemberScore {
    /// Sets the constant part of the rank of this member.
    #[inline]
    pub(super) fn set_rank_base(&mut self, base: u64, member: u16) {
        self.base = base;
        self.packet_base = base.min(UNUSABLE_PACKET_BASE) << 16 | u64::from(member);
    }

    /// Returns the constant part of the rank of this member.
    #[inline]
    pub(super) fn rank_base(&self) -> u64 {
        self.base
    }

    /// Scales a wait in picoseconds by the weight of the member. A smaller weight gives a longer wait.
    #[inline]
    pub(super) fn scale_wait(&self, wait_ps: u64) -> u64 {
        match self.wait_scale {
            UNIT_WAIT_SCALE => wait_ps,
            wait_scale => (wait_ps * u64::from(wait_scale)) >> WAIT_SCALE_BITS,
        }
    }
}

/// Scores of all members of a group.
#[derive(Debug, Default)]
pub(super) struct MemberScores {
    /// One score for each member, in the order of the members.
    pub(super) entries: Vec<MemberScore>,
    /// Ranks for the present packet. The vector is reused, so that packets cause no allocation.
    ranks: Vec<u64>,
    /// True if each member has exactly one port and all weights are equal.
    is_uniform: bool,
    /// True if all members have the same share and the group has at most 64 members.
    has_equal_shares: bool,
    /// Time until which the qualities in the scores are valid.
    pub(super) valid_until: Picos,
}

impl MemberScores {
    /// Replaces the members. The share of a member is its weight if the weights differ. If all weights are
    /// equal, the share is the speed of the member, provided that all speeds are known.
    pub(super) fn set_members(&mut self, members: &[Member]) {
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
        let score = |member: &Member| MemberScore {
            base: UNUSABLE_RANK,
            packet_base: UNUSABLE_PACKET_BASE << 16,
            share: share(member) / divisor,
            wait_scale: (most << WAIT_SCALE_BITS) / weight(member),
            port: match member.ports.as_slice() {
                [port] => port.0,
                _ => NOT_SINGLE_PORT,
            },
            level: 0,
            placement_penalty: 0,
            alternate: member.alternate,
        };
        self.entries = members.iter().map(score).collect();
        self.ranks = vec![UNUSABLE_RANK; members.len()];
        self.is_uniform = !weighted && self.entries.iter().all(|score| score.port != NOT_SINGLE_PORT);
        let even = self.entries.windows(2).all(|pair| pair[0].share == pair[1].share);
        self.has_equal_shares = even && members.len() <= 64;
        self.valid_until = Picos::ZERO;
    }

    /// Returns true if each member has exactly one port and all weights are equal. The wait of a member is
    /// then the wait of its port.
    #[inline]
    pub(super) fn has_uniform_members(&self) -> bool {
        self.is_uniform
    }

    /// Returns the wait of a member in picoseconds. The result is valid only if
    /// [`MemberScores::has_uniform_members`] is true.
    #[inline]
    pub(super) fn uniform_wait_ps(
        &self,
        member: u16,
        now: Picos,
        loads: &PortLoads,
        frames: &FrameTable,
    ) -> u64 {
        let port = usize::from(self.entries[usize::from(member)].port);
        loads.wait_ps(now, port, frames.port_queued_bytes(port))
    }

    /// Returns the wait of the member's port in picoseconds. Returns `None` if the member does not have
    /// exactly one port.
    #[inline]
    pub(super) fn port_wait_ps(
        &self,
        member: u16,
        now: Picos,
        loads: &PortLoads,
        frames: &FrameTable,
    ) -> Option<u64> {
        let port = usize::from(self.entries[usize::from(member)].port);
        (port != usize::from(NOT_SINGLE_PORT))
            .then(|| loads.wait_ps(now, port, frames.port_queued_bytes(port)))
    }

    /// Selects a member for a packet by the same rule as [`MemberScores::best_member`].
    ///
    /// The CPU cannot predict the result of a comparison of ranks. The function therefore combines the rank,
    /// eight random bits and the index of the member into one 64-bit value, and selects the smallest value
    /// without a branch. The random bits decide between members of equal rank. If the random bits are also
    /// equal (1 of 256 cases for two members), the first member is selected.
    #[inline]
    pub(super) fn best_for_packet(
        &mut self,
        now: Picos,
        loads: &PortLoads,
        frames: &FrameTable,
        random: &mut RandomStream,
    ) -> u16 {
        if !self.has_equal_shares {
            return self.best_member(now, loads, frames, random);
        }
        // Slices of equal length let the compiler check an index only once.
        let (port_timings, queued) = (loads.port_timings(), frames.queued_bytes_of_ports());
        let ports = port_timings.len().min(queued.len());
        let (port_timings, queued) = (&port_timings[..ports], &queued[..ports]);
        let mut least = u64::MAX;
        for chunk in self.entries.chunks(8) {
            let mut noise = random.next_u64().rotate_left(8);
            for score in chunk {
                let port = usize::from(score.port);
                let wait_ps = port_timings[port].wait_ps(now, queued[port]);
                least = least.min(score.packet_base + (wait_ps << 16 | noise & 0xff00));
                noise = noise.rotate_right(8);
            }
        }
        (least & 0xff) as u16
    }

    /// Selects the member with the lowest rank in a group of uniform members. The rank is the constant part
    /// plus the wait of the port. Among members of equal rank, one is selected at random, in proportion to
    /// the shares.
    pub(super) fn best_member(
        &mut self,
        now: Picos,
        loads: &PortLoads,
        frames: &FrameTable,
        random: &mut RandomStream,
    ) -> u16 {
        let rank = |score: &MemberScore, _: usize| {
            let port = usize::from(score.port);
            score.base + loads.port_wait_ps(now, port, frames.port_queued_bytes(port))
        };
        self.best_by_rank(random, rank).unwrap_or(0)
    }

    /// Selects the member with the lowest rank. `rank_of` computes the rank of a member. Returns `None` if no
    /// member is usable.
    pub(super) fn best_by_rank(
        &mut self,
        random: &mut RandomStream,
        rank_of: impl Fn(&MemberScore, usize) -> u64,
    ) -> Option<u16> {
        let mut least = UNUSABLE_RANK;
        for (member, (score, rank)) in self.entries.iter().zip(&mut self.ranks).enumerate() {
            *rank = match score.base {
                UNUSABLE_RANK => UNUSABLE_RANK,
                _ => rank_of(score, member),
            };
            least = least.min(*rank);
        }
        (least < UNUSABLE_RANK).then(|| self.draw_by_shares(least, random))
    }

    /// Selects one of the members with the lowest rank at random, in proportion to their shares.
    fn draw_by_shares(&self, lowest_rank: u64, random: &mut RandomStream) -> u16 {
        let equal = || {
            let ranked = self.entries.iter().zip(&self.ranks).enumerate();
            ranked.filter(move |(_, (_, rank))| **rank == lowest_rank)
        };
        let shares = equal().map(|(_, (score, _))| score.share).sum();
        let mut left = random.next_below(shares);
        for (member, (score, _)) in equal() {
            match left.checked_sub(score.share) {
                None => return member as u16,
                Some(rest) => left = rest,
            }
        }
        0
    }
}
