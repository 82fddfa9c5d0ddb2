//! Which of two members is better for a packet.
//!
//! Two orders, both of numbers of which less is better, and both with members whose link the peer holds (PFC) last:
//!
//! | for | first by | then by |
//! |---|---|---|
//! | a flow | band of its quality, as sampled, and its crowd | the wait of now |
//! | a packet | the wait of now, and 1/128 of the sampling interval for each band that its quality is below the best | |
//!
//! The *wait* is what is on the link and in its queues, in time: so it is relative to the speed, and a packet sees what the one just before it has
//! done. Averages cannot: all packets of a sampling interval read the same ones. For flows these decide all the same, since a flow
//! stays, and a queue of now says little about later; the wait tells apart those that the bands do not, such as flows that begin
//! at once on idle links.
//!
//! The *crowd* keeps flows that choose within a few sampling intervals from all going to the member that was the best in the last one: a host that begins
//! the next step of a collective starts all its flows in the same microsecond. Of the flows that were placed on the links of a group of late, in whatever group, those on
//! a member count for as many of 8 bands as they are of all, or of 8 if all are fewer; for more on a member that is slower than the mean. So the flows of a moment are
//! spread in proportion to what the members have free, and one by one if all have the same. How many were placed is forgotten at the pace at which averages learn.
//!
//! Where members have different weights, waits count in proportion to them.
//!
//! Members that are equal are drawn at random: in proportion to their weights where these differ, otherwise to their speeds.

use super::board::{Standing, UNUSABLE};
use super::load::{BANDS, Loads, PLACED, WAIT_MAX_PS};
use super::packet::Packet;
use super::paths::{Member, Paths};
use crate::config::{Pick, SchemeConfig};
use crate::egress::FrameTable;
use xoff_units::Picos;

/// Where a level begins in a number that ranks.
const LEVEL_SHIFT: u32 = 57;

/// Most bands that a crowd is worth.
const CROWD_MAX: u32 = 2 * BANDS as u32;

/// Added to the level of a member whose link is held: more than all the rest.
const HELD: u8 = 32;

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
            let board = &mut *paths.board;
            return match self.what {
                For::Packet => board.least_of_packet(packet.now, paths.loads, paths.frames, paths.random),
                For::Flow => board.least(packet.now, paths.loads, paths.frames, paths.random),
            };
        }
        self.best_by_role(packet, paths)
    }

    /// The band of a member as [`Order::best`] saw it, counted from the best (0) to 7; 32 more if its link is held.
    #[inline]
    pub(super) fn level(&self, packet: &Packet<'_>, member: u16, paths: &Paths<'_>) -> u8 {
        let held = if paths.is_held(packet, member) { HELD } else { 0 };
        self.lasting_level(member, paths) + held
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
        let crowd = |member: u16| paths.board.standing[usize::from(member)].crowd;
        let level = |member: u16| self.level(packet, member, paths) + crowd(member);
        member == best || (role(member) == role(best) && level(member) == level(best))
    }

    /// A flow goes to a member, or goes on there after it was silent.
    pub(super) fn placed(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) {
        let ports = &paths.members[usize::from(member)].ports;
        for port in ports {
            let queued = paths.frames.port_queued_bytes(port.index());
            let part = PLACED / ports.len() as u32;
            paths.loads.place(packet.now, port.index(), queued, part);
        }
    }

    /// What the flows placed of late are worth, in bands, for each usable member.
    fn look_at_crowds(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        let (mut all, mut speeds) = (0, 0);
        for &member in paths.usable {
            all += crowd_of(
                packet,
                &paths.members[usize::from(member)],
                paths.loads,
                paths.frames,
            );
            speeds += u64::from(paths.members[usize::from(member)].speed_mbps);
        }
        let least = u64::from(PLACED) * u64::from(BANDS);
        for &member in paths.usable {
            let own = &paths.members[usize::from(member)];
            let placed = crowd_of(packet, own, paths.loads, paths.frames);
            let bands = placed * u64::from(BANDS) / all.max(least);
            let slowness =
                speeds.max(1) * 16 / (u64::from(own.speed_mbps).max(1) * paths.usable.len() as u64);
            let bands = bands * slowness.max(1) / 16;
            paths.board.standing[usize::from(member)].crowd = bands.min(u64::from(CROWD_MAX)) as u8;
        }
    }

    /// Looks at the qualities of all usable members. For packets they hold until the sampling interval of one of them ends, so that what others tell is
    /// a sampling interval old at most; flows look at the latest word, and at those that were placed just before.
    #[cold]
    fn refresh(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        for (member, standing) in (0..).zip(&mut paths.board.standing) {
            standing.set_base(UNUSABLE, member);
        }
        if self.what == For::Flow {
            self.look_at_crowds(packet, paths);
        }
        for index in 0..paths.usable.len() {
            let member = paths.usable[index];
            let level = self.level_now(packet, member, paths);
            let standing = &mut paths.board.standing[usize::from(member)];
            standing.level = level;
            let base = match self.what {
                For::Flow => u64::from(level + standing.crowd) << LEVEL_SHIFT,
                For::Packet => u64::from(level) * paths.loads.band_cost(),
            };
            standing.set_base(base, member);
        }
        paths.board.fresh_until = match self.what {
            For::Flow => Picos::ZERO,
            For::Packet => fresh_until(packet, paths),
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
            standing.base() + held + standing.stretched(wait)
        };
        let least = paths.board.least_by(paths.random, rank);
        least.unwrap_or(paths.usable[0])
    }
}

/// Until when the qualities of all usable members stay as they are. Members in VLANs have no ports that could say.
fn fresh_until(packet: &Packet<'_>, paths: &mut Paths<'_>) -> Picos {
    let mut until = Picos::NEVER;
    for member in paths.usable {
        for port in &paths.members[usize::from(*member)].ports {
            let queued = paths.frames.port_queued_bytes(port.index());
            until = until.min(paths.loads.fresh_until(packet.now, port.index(), queued));
        }
    }
    if until == Picos::NEVER { Picos::ZERO } else { until }
}

/// Flows placed of late on a member's links, in units of 1/[`PLACED`]; of a LAG, their sum.
fn crowd_of(packet: &Packet<'_>, member: &Member, loads: &mut Loads, frames: &FrameTable) -> u64 {
    let ports = member.ports.iter().map(|port| port.index());
    ports
        .map(|port| u64::from(loads.placed(packet.now, port, frames.port_queued_bytes(port))))
        .sum()
}

/// The band of a load of 0 to 1 000, from below: 0 is the best.
#[inline]
fn level(load: u32) -> u8 {
    BANDS - 1 - super::load::Quality::of(load).band
}

const _: () = assert!(
    WAIT_MAX_PS << 17 < 1 << LEVEL_SHIFT,
    "a stretched wait does not reach the level"
);
