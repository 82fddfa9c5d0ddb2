//! Compares the members of a group for a packet.
//!
//! Two rankings exist: one for flows and one for single packets. The member with the lowest rank is the best
//! member. In both rankings, members whose link is paused by the peer (PFC) come last.
//!
//! | ranking for | first key | second key |
//! |---|---|---|
//! | a flow | sampled quality band plus placement penalty | present wait |
//! | a packet | present wait, plus 1/128 of the sampling interval for each band below the best band | |
//!
//! The *wait* of a member is the time that its link needs for the current transmission and for all queued
//! frames. The wait changes with every packet, and the averages are constant during a sampling interval. A
//! flow keeps its member for a long time, so the averages select the member of a flow. If several members
//! are in the same band (quality class), the wait decides. An example is a group of idle links when many
//! flows start.
//!
//! The *placement penalty* spreads flows that start within a few sampling intervals. Such starts are common:
//! a host that starts a step of a collective starts all its flows in the same microsecond. Without the
//! penalty, all these flows would select the member that was best in the last interval.
//!
//! The penalty of a member is its share of the recent placements in the group, in units of 1/8. The share is
//! computed as if at least 8 flows had been placed. The penalty is larger for a member that is slower than
//! the mean. Flows that start together are thus spread in proportion to the free capacity of the members. The
//! counts of recent placements decay as fast as the averages adapt.
//!
//! If the weights of the members differ, waits are scaled by the weights.
//!
//! If several members are equal, one of these members is selected at random. The probability is proportional
//! to the weights if the weights differ, and proportional to the link speeds otherwise.

use super::load::{BANDS, PLACEMENT_UNIT, PortLoads, WAIT_MAX_PS};
use super::member::Member;
use super::member_scores::{MemberScore, UNUSABLE_RANK};
use super::packet::Packet;
use super::paths::Paths;
use crate::balance::config::{MemberSelection, SchemeConfig};
use crate::egress::FrameTable;
use xoff_units::Picos;

/// Position of the level in a 64-bit rank. A *level* is the number of a quality band, counted from the best
/// band (0).
const LEVEL_SHIFT: u32 = 57;

/// Largest placement penalty, in quality bands.
const PLACEMENT_PENALTY_MAX: u32 = 2 * BANDS as u32;

/// This value is added to the level of a member whose link is paused. The value is larger than every level,
/// so a member with a paused link is worse than any member without a pause.
const PAUSED_LEVEL: u8 = 32;

/// The unit for which a member is selected: a flow or a single packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granularity {
    Flow,
    Packet,
}

/// Rules for the comparison of members.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberOrder {
    pick: MemberSelection,
    granularity: Granularity,
    /// Alternate members may be selected if the level of the best primary member has this value or a higher
    /// value. Level 0 is the best quality band, and level 7 the worst.
    threshold: u8,
    /// An alternate member must be better than the best primary member by more than this number of quality
    /// bands (classes of path quality).
    cost: u8,
}

impl MemberOrder {
    pub(super) fn new(config: &SchemeConfig, pick: MemberSelection, granularity: Granularity) -> MemberOrder {
        MemberOrder {
            pick,
            granularity,
            threshold: config.primary_threshold,
            cost: config.alternate_cost,
        }
    }

    /// Selects the member for a packet or its flow. [`MemberOrder::level`] is valid after this call.
    #[inline]
    pub(super) fn best_member(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        if packet.now >= paths.scores.valid_until {
            self.update_scores(packet, paths);
        }
        if paths.scores.has_uniform_members()
            && !paths.has_alternates
            && !paths.loads.is_any_port_paused(packet.tc)
        {
            let scores = &mut *paths.scores;
            return match self.granularity {
                Granularity::Packet => {
                    scores.best_for_packet(packet.now, paths.loads, paths.frames, paths.random)
                }
                Granularity::Flow => scores.best_member(packet.now, paths.loads, paths.frames, paths.random),
            };
        }
        self.best_member_or_alternate(packet, paths)
    }

    /// Returns the level of a member from the last call of [`MemberOrder::best_member`]. The level is 0 (best
    /// band) to 7 (worst band), plus 32 if the link is paused.
    #[inline]
    pub(super) fn level(&self, packet: &Packet<'_>, member: u16, paths: &Paths<'_>) -> u8 {
        let held = if paths.is_paused(packet, member) {
            PAUSED_LEVEL
        } else {
            0
        };
        self.quality_level_without_pause(member, paths) + held
    }

    /// Returns the level of a member without the addition for paused links.
    #[inline]
    pub(super) fn quality_level_without_pause(&self, member: u16, paths: &Paths<'_>) -> u8 {
        paths.scores.entries[usize::from(member)].level
    }

    /// Returns true if a flow on `member` may stay there instead of a move to `best`. A move between members
    /// of the same level has no benefit.
    #[inline]
    pub(super) fn may_flow_stay_on_member(
        &self,
        packet: &Packet<'_>,
        member: u16,
        best: u16,
        paths: &Paths<'_>,
    ) -> bool {
        let role = |member: u16| paths.scores.entries[usize::from(member)].alternate;
        let placement_penalty = |member: u16| paths.scores.entries[usize::from(member)].placement_penalty;
        let level = |member: u16| self.level(packet, member, paths) + placement_penalty(member);
        member == best || (role(member) == role(best) && level(member) == level(best))
    }

    /// Records that a flow was placed on a member, or that a flow continues on its member after a gap.
    pub(super) fn record_placement(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) {
        let ports = &paths.members[usize::from(member)].ports;
        for port in ports {
            let queued = paths.frames.port_queued_bytes(port.index());
            let amount = PLACEMENT_UNIT / ports.len() as u32;
            paths
                .loads
                .record_placement(packet.now, port.index(), queued, amount);
        }
    }

    /// Computes the placement penalty of each usable member.
    fn update_placement_penalties(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        let (mut all, mut speeds) = (0, 0);
        for &member in paths.usable {
            all += recent_placements(
                packet,
                &paths.members[usize::from(member)],
                paths.loads,
                paths.frames,
            );
            speeds += u64::from(paths.members[usize::from(member)].speed_mbps);
        }
        let least = u64::from(PLACEMENT_UNIT) * u64::from(BANDS);
        for &member in paths.usable {
            let own = &paths.members[usize::from(member)];
            let placed = recent_placements(packet, own, paths.loads, paths.frames);
            let bands = placed * u64::from(BANDS) / all.max(least);
            let slowness =
                speeds.max(1) * 16 / (u64::from(own.speed_mbps).max(1) * paths.usable.len() as u64);
            let bands = bands * slowness.max(1) / 16;
            paths.scores.entries[usize::from(member)].placement_penalty =
                bands.min(u64::from(PLACEMENT_PENALTY_MAX)) as u8;
        }
    }

    /// Updates the quality of all usable members. Scores for packets stay valid until the sampling interval
    /// of any port ends, so advertised loads in these scores are at most one sampling interval old. Scores
    /// for flows are computed for every flow, and include the latest advertised loads and placements.
    #[cold]
    fn update_scores(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        for (member, score) in (0..).zip(&mut paths.scores.entries) {
            score.set_rank_base(UNUSABLE_RANK, member);
        }
        if self.granularity == Granularity::Flow {
            self.update_placement_penalties(packet, paths);
        }
        for index in 0..paths.usable.len() {
            let member = paths.usable[index];
            let level = self.measure_level(packet, member, paths);
            let score = &mut paths.scores.entries[usize::from(member)];
            score.level = level;
            let base = match self.granularity {
                Granularity::Flow => u64::from(level + score.placement_penalty) << LEVEL_SHIFT,
                Granularity::Packet => u64::from(level) * paths.loads.wait_per_quality_band_ps(),
            };
            score.set_rank_base(base, member);
        }
        paths.scores.valid_until = match self.granularity {
            Granularity::Flow => Picos::ZERO,
            Granularity::Packet => scores_valid_until(packet, paths),
        };
    }

    fn measure_level(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) -> u8 {
        match self.pick {
            MemberSelection::Quality | MemberSelection::Random => {
                level_of_load(u32::from(paths.quality(packet, member).load))
            }
            MemberSelection::Global { remote_percent } => {
                level_of_load(u32::from(paths.path_quality(packet, member, remote_percent).load))
            }
            MemberSelection::PathLoad => level_of_load(paths.path_load(packet, member)),
        }
    }

    /// The general form of [`MemberOrder::best_member`], which also handles alternate members, paused
    /// members, and members of different kinds.
    fn best_member_or_alternate(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        let any = self.lowest_ranked_member(packet, paths, |_| true);
        if !paths.has_alternates {
            return any;
        }
        let primary = self.lowest_ranked_member(packet, paths, |alternate| !alternate);
        let alternate = self.lowest_ranked_member(packet, paths, |alternate| alternate);
        let [first, second] = [primary, alternate].map(|member| self.level(packet, member, paths));
        match first < self.threshold || first <= second.saturating_add(self.cost) {
            true => primary,
            false => alternate,
        }
    }

    /// Returns the member with the lowest rank among the members for which `has_role` is true. Its argument
    /// is true for alternate members. At least one member must have the requested role.
    fn lowest_ranked_member(
        &self,
        packet: &Packet<'_>,
        paths: &mut Paths<'_>,
        has_role: impl Fn(bool) -> bool,
    ) -> u16 {
        let (members, loads, frames) = (paths.members, &*paths.loads, paths.frames);
        let rank = |score: &MemberScore, member: usize| {
            if !has_role(score.alternate) {
                return UNUSABLE_RANK;
            }
            let held = match members[member].is_paused(packet.tc, loads) {
                true => u64::from(PAUSED_LEVEL) << LEVEL_SHIFT,
                false => 0,
            };
            let wait = members[member].wait_ps(packet.now, loads, frames);
            score.rank_base() + held + score.scale_wait(wait)
        };
        let least = paths.scores.best_by_rank(paths.random, rank);
        least.unwrap_or(paths.usable[0])
    }
}

/// Returns the time until which the qualities of all usable members are valid. A member in a VLAN has no
/// fixed port, so its quality does not expire.
fn scores_valid_until(packet: &Packet<'_>, paths: &mut Paths<'_>) -> Picos {
    let mut until = Picos::NEVER;
    for member in paths.usable {
        for port in &paths.members[usize::from(*member)].ports {
            let queued = paths.frames.port_queued_bytes(port.index());
            until = until.min(paths.loads.averages_valid_until(packet.now, port.index(), queued));
        }
    }
    if until == Picos::NEVER { Picos::ZERO } else { until }
}

/// Returns the number of recent placements on the links of a member, in units of 1/[`PLACEMENT_UNIT`]. For a
/// LAG, the result is the sum over its ports.
fn recent_placements(
    packet: &Packet<'_>,
    member: &Member,
    loads: &mut PortLoads,
    frames: &FrameTable,
) -> u64 {
    let ports = member.ports.iter().map(|port| port.index());
    ports
        .map(|port| u64::from(loads.recent_placements(packet.now, port, frames.port_queued_bytes(port))))
        .sum()
}

/// Converts a load (0 to 1000) to a level (0 to 7). The level counts the quality bands (steps of path
/// quality) in reverse: the best band has level 0.
#[inline]
fn level_of_load(load: u32) -> u8 {
    BANDS - 1 - super::load::Quality::from_load(load).band
}

const _: () = assert!(
    WAIT_MAX_PS << 17 < 1 << LEVEL_SHIFT,
    "a stretched wait does not reach the level"
);
