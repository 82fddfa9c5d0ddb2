//! Which of two members is better for a packet.
//!
//! Two orders, both of numbers of which less is better, and both with members whose link the peer holds (PFC) last:
//!
//! | for | first by | then by |
//! |---|---|---|
//! | a flow | band of its quality, as sampled | the wait of now |
//! | a packet | the wait of now, and 1/128 of the sampling interval for each band that its quality is below the best | |
//!
//! The *wait* is what is on the link and in its queues, in time: so it is relative to the speed, and a packet sees what the one just before it has
//! done. Averages cannot: all packets of a sampling interval read the same ones. For flows these decide all the same, since a flow
//! stays, and a queue of now says little about later; the wait tells apart those that the bands do not, such as flows that begin
//! at once on idle links. Where members have different weights, waits count in proportion to them.
//!
//! Members that are equal are drawn at random: in proportion to their weights where these differ, otherwise to their speeds.

use super::load::WAIT_MAX_PS;
use super::packet::Packet;
use super::paths::Paths;
use crate::config::{Pick, SchemeConfig};

/// Where a level begins in a number that ranks.
const LEVEL_SHIFT: u32 = 57;

/// Added to the level of a member whose link is held.
const HELD: u8 = 8;

/// Fraction in which waits are stretched by weights.
pub(super) const STRETCH_BITS: u32 = 8;

/// What a decision is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Flow,
    Packet,
}

/// How members are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pick: Pick,
    what: For,
    /// Primary members are left for alternate ones when their band from below (0 is the best) reaches this.
    threshold: u8,
    /// And the alternate one is better by more than so many bands.
    cost: u8,
}

/// How good a member is, less being better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grade {
    /// 0 (best) to 7, or 8 more if its link is held.
    pub(super) level: u8,
    /// Picoseconds until a packet would leave, stretched by weights.
    pub(super) wait: u64,
}

impl Grade {
    /// The level without regard to pauses, which pass.
    #[inline]
    pub(super) fn lasting(self) -> u8 {
        self.level & !HELD
    }
}

impl Order {
    pub(super) fn new(config: &SchemeConfig, pick: Pick, what: For) -> Order {
        Order {
            pick,
            what,
            threshold: config.primary_threshold,
            cost: config.alternate_cost,
        }
    }

    /// The member's grade for a packet.
    #[inline]
    pub(super) fn grade(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) -> Grade {
        let level = match self.pick {
            Pick::Quality | Pick::Random => level(u32::from(paths.quality(packet, member).load)),
            Pick::Global { remote_percent } => {
                level(u32::from(paths.path_quality(packet, member, remote_percent).load))
            }
            Pick::PathLoad => level(paths.path_load(packet, member)),
        };
        let held = match paths.is_held(packet, member) {
            true => HELD,
            false => 0,
        };
        Grade {
            level: level + held,
            wait: paths.stretched_wait_ps(packet, member),
        }
    }

    /// The member that a packet or its flow is to take, and its grade.
    #[inline]
    pub(super) fn best(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> (u16, Grade) {
        if !paths.has_alternates() {
            return self
                .least(packet, paths, |_| true)
                .unwrap_or_else(|| self.first(packet, paths));
        }
        let primary = self.least(packet, paths, |alternate| !alternate);
        let alternate = self.least(packet, paths, |alternate| alternate);
        match (primary, alternate) {
            (Some(primary), Some(alternate)) if self.prefers(primary.1, alternate.1) => primary,
            (_, Some(only)) | (Some(only), None) => only,
            (None, None) => self.first(packet, paths),
        }
    }

    /// Whether a flow on `member` may stay there, given the best one: nothing is gained by a move within a level.
    #[inline]
    pub(super) fn stays(
        &self,
        packet: &Packet<'_>,
        member: u16,
        best: (u16, Grade),
        paths: &mut Paths<'_>,
    ) -> bool {
        let role = |member: u16| paths.members()[usize::from(member)].alternate;
        member == best.0
            || (role(member) == role(best.0) && self.grade(packet, member, paths).level == best.1.level)
    }

    /// Whether a primary member is taken although there is an alternate one.
    fn prefers(&self, primary: Grade, alternate: Grade) -> bool {
        primary.level < self.threshold || primary.level <= alternate.level.saturating_add(self.cost)
    }

    #[inline]
    fn rank(&self, grade: Grade, band_cost: u64) -> u64 {
        match self.what {
            For::Flow => u64::from(grade.level) << LEVEL_SHIFT | grade.wait,
            For::Packet => {
                let held = u64::from(grade.level & HELD) << LEVEL_SHIFT;
                held + grade.wait + u64::from(grade.lasting()) * band_cost
            }
        }
    }

    /// The least of the members with a role; of several, one at random in proportion to their shares.
    #[inline]
    fn least(
        &self,
        packet: &Packet<'_>,
        paths: &mut Paths<'_>,
        role: impl Fn(bool) -> bool,
    ) -> Option<(u16, Grade)> {
        let band_cost = paths.band_cost();
        let mut best: Option<(u64, u16, Grade)> = None;
        let mut shares = 0;
        for index in 0..paths.usable().len() {
            let member = paths.usable()[index];
            if !role(paths.members()[usize::from(member)].alternate) {
                continue;
            }
            let grade = self.grade(packet, member, paths);
            let rank = self.rank(grade, band_cost);
            let share = paths.share(member);
            match best {
                Some((least, ..)) if rank > least => continue,
                // The n-th of those that are equal takes over with its part of the shares so far: each ends with its own.
                Some((least, ..)) if rank == least => {
                    shares += share;
                    if paths.random().below(shares) >= share {
                        continue;
                    }
                }
                _ => shares = share,
            }
            best = Some((rank, member, grade));
        }
        best.map(|(_, member, grade)| (member, grade))
    }

    #[cold]
    fn first(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> (u16, Grade) {
        let member = paths.usable()[0];
        (member, self.grade(packet, member, paths))
    }
}

/// The band of a load of 0 to 1 000, from below: 0 is the best.
#[inline]
fn level(load: u32) -> u8 {
    super::load::BANDS - 1 - super::load::Quality::of(load).band
}

const _: () = assert!(
    WAIT_MAX_PS << 17 < 1 << LEVEL_SHIFT,
    "a stretched wait does not reach the level"
);
