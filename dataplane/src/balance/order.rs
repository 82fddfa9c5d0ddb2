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

use super::board::{Standing, UNUSABLE};
use super::load::WAIT_MAX_PS;
use super::packet::Packet;
use super::paths::Paths;
use crate::config::{Pick, SchemeConfig};
use crate::time::Picos;

/// Where a level begins in a number that ranks.
const LEVEL_SHIFT: u32 = 57;

/// Added to the level of a member whose link is held.
const HELD: u8 = 8;

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

impl Order {
    pub(super) fn new(config: &SchemeConfig, pick: Pick, what: For) -> Order {
        Order {
            pick,
            what,
            threshold: config.primary_threshold,
            cost: config.alternate_cost,
        }
    }

    /// The member that a packet or its flow is to take. [`Order::level`] is right after this.
    #[inline]
    pub(super) fn best(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        if packet.now >= paths.board.fresh_until {
            self.refresh(packet, paths);
        }
        if paths.board.is_plain() && !paths.has_alternates && !paths.loads.holds_anywhere(packet.tc) {
            return paths
                .board
                .least(packet.now, paths.loads, paths.frames, paths.random);
        }
        self.best_by_role(packet, paths)
    }

    /// The band of a member as [`Order::best`] saw it, counted from the best (0) to 7; 8 more if its link is held.
    #[inline]
    pub(super) fn level(&self, packet: &Packet<'_>, member: u16, paths: &Paths<'_>) -> u8 {
        let held = paths.loads.holds_anywhere(packet.tc) && paths.is_held(packet, member);
        self.lasting_level(member, paths) + if held { HELD } else { 0 }
    }

    /// The same without regard to pauses, which pass.
    #[inline]
    pub(super) fn lasting_level(&self, member: u16, paths: &Paths<'_>) -> u8 {
        paths.board.standing[usize::from(member)].level
    }

    /// Whether a flow on `member` may stay there, given the best one: nothing is gained by a move within a level.
    #[inline]
    pub(super) fn stays(&self, packet: &Packet<'_>, member: u16, best: u16, paths: &Paths<'_>) -> bool {
        let role = |member: u16| paths.board.standing[usize::from(member)].alternate;
        let level = |member: u16| self.level(packet, member, paths);
        member == best || (role(member) == role(best) && level(member) == level(best))
    }

    /// Looks at the qualities of all usable members. They hold until the sampling interval of one of them ends. Of those that also consist of what
    /// others tell, flows look at the latest word, packets at one that is a sampling interval old at most.
    #[cold]
    fn refresh(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        let mut fresh_until = Picos::NEVER;
        for standing in &mut paths.board.standing {
            standing.base = UNUSABLE;
        }
        for index in 0..paths.usable.len() {
            let member = paths.usable[index];
            let level = self.level_now(packet, member, paths);
            let standing = &mut paths.board.standing[usize::from(member)];
            standing.level = level;
            standing.base = match self.what {
                For::Flow => u64::from(level) << LEVEL_SHIFT,
                For::Packet => u64::from(level) * paths.loads.band_cost(),
            };
            for port in &paths.members[usize::from(member)].ports {
                let queued = paths.frames.port_queued_bytes(port.index());
                fresh_until = fresh_until.min(paths.loads.fresh_until(packet.now, port.index(), queued));
            }
        }
        let told = matches!(self.pick, Pick::Global { .. } | Pick::PathLoad);
        paths.board.fresh_until = match self.what {
            For::Flow if told => Picos::ZERO,
            // Members in VLANs have no ports that could say.
            _ if fresh_until == Picos::NEVER => Picos::ZERO,
            _ => fresh_until,
        };
    }

    fn level_now(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) -> u8 {
        match self.pick {
            Pick::Quality | Pick::Random => level(u32::from(paths.quality(packet, member).load)),
            Pick::Global { remote_percent } => {
                level(u32::from(paths.path_quality(packet, member, remote_percent).load))
            }
            Pick::PathLoad => level(paths.path_load(packet, member)),
        }
    }

    /// As [`Order::best`], whatever members are like.
    fn best_by_role(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        let any = self.least(packet, paths, |_| true);
        if !paths.has_alternates {
            return any;
        }
        let primary = self.least(packet, paths, |alternate| !alternate);
        let alternate = self.least(packet, paths, |alternate| alternate);
        let [first, second] = [primary, alternate].map(|member| self.level(packet, member, paths));
        match first < self.threshold || first <= second.saturating_add(self.cost) {
            true => primary,
            false => alternate,
        }
    }

    /// The least of the members with a role, of which there is one.
    fn least(&self, packet: &Packet<'_>, paths: &mut Paths<'_>, role: impl Fn(bool) -> bool) -> u16 {
        let (members, loads, frames) = (paths.members, &*paths.loads, paths.frames);
        let rank = |standing: &Standing, member: usize| {
            if !role(standing.alternate) {
                return UNUSABLE;
            }
            let held = match members[member].is_held(packet.tc, loads) {
                true => u64::from(HELD) << LEVEL_SHIFT,
                false => 0,
            };
            let wait = members[member].wait_ps(packet.now, loads, frames);
            standing.base + held + standing.stretched(wait)
        };
        let least = paths.board.least_by(paths.random, rank);
        least.unwrap_or(paths.usable[0])
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
