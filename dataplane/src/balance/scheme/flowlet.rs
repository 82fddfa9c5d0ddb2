//! Flowlet switching: a flow that was silent chooses anew, since what it sent before has arrived whatever way it took.

use crate::balance::flowset::{FlowSet, Known};
use crate::balance::order::{For, Order};
use crate::balance::{Choice, MoveReason, Packet, PathChoice, Paths, Placed, TableUse};
use crate::config::{Pick, Rebalance, SchemeConfig};
use xoff_units::Picos;

/// Flows of one group. With [`Pick::Random`] this is LetFlow, with [`Pick::PathLoad`] as CONGA does it, otherwise what switch chips call dynamic load
/// balancing or adaptive routing.
///
/// A flow that has been silent keeps its member if no other is in a better band; where members are drawn at random, it is drawn anew.
/// A member that comes back gets flows as they fall silent, or begin.
#[derive(Debug)]
pub(crate) struct Flowlet {
    flows: FlowSet,
    idle: Picos,
    random: bool,
    order: Order,
    rebalance: Option<Rebalance>,
}

impl Flowlet {
    pub(super) fn new(
        config: &SchemeConfig,
        idle: Picos,
        pick: Pick,
        rebalance: Option<Rebalance>,
    ) -> Flowlet {
        Flowlet {
            flows: FlowSet::new(config.flowset_entries),
            idle,
            random: pick == Pick::Random,
            order: Order::new(config, pick, For::Flow),
            rebalance: rebalance.filter(|rebalance| rebalance.quality_delta > 0 && rebalance.probability > 0),
        }
    }

    pub(super) fn compares(&self) -> bool {
        !self.random
    }

    /// A member for a flow that may move, or is new.
    #[inline]
    fn place(&self, packet: &Packet<'_>, held: Option<u16>, paths: &mut Paths<'_>) -> u16 {
        if self.random {
            return paths.at_random();
        }
        let best = self.order.best(packet, paths);
        let member = match held {
            Some(member) if self.order.stays(packet, member, best, paths) => member,
            _ => best,
        };
        self.order.placed(packet, member, paths);
        member
    }

    /// Where a flow goes that sends, and is on a bad path, if chance has it.
    #[inline]
    fn rebalanced(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) -> Option<u16> {
        let rebalance = self.rebalance?;
        // The draw first: it spares most packets the comparison, and the chances are the same.
        if paths.random().bits() >= rebalance.probability {
            return None;
        }
        let best = self.order.best(packet, paths);
        let level = |member| self.order.lasting_level(member, paths);
        let gain = level(member).saturating_sub(level(best));
        let moves = best != member && gain >= rebalance.quality_delta;
        if moves {
            self.order.placed(packet, best, paths);
        }
        moves.then_some(best)
    }
}

impl PathChoice for Flowlet {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        let (slot, known) = self.flows.look(packet.hash, packet.now);
        let (member, placed) = match known {
            Known::On(from, silent) if silent < self.idle => match self.rebalanced(packet, from, paths) {
                None => (from, None),
                Some(member) => (member, moved(MoveReason::Quality, Some(from))),
            },
            Known::On(from, _) => match self.place(packet, Some(from), paths) {
                member if member == from => (from, None),
                member => (member, moved(MoveReason::Idle, Some(from))),
            },
            Known::New => (self.place(packet, None, paths), moved(MoveReason::New, None)),
            Known::Lost(from) => (self.place(packet, None, paths), moved(MoveReason::LinkDown, from)),
        };
        self.flows.enter(slot, packet.now, member);
        Choice { member, placed }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        self.flows.renumber(renumbered, |member| paths.is_usable(member));
    }

    fn table(&self) -> Option<TableUse> {
        Some(self.flows.in_use(self.idle))
    }
}

fn moved(reason: MoveReason, from: Option<u16>) -> Option<Placed> {
    Some(Placed { reason, from })
}
