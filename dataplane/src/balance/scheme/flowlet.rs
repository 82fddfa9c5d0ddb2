//! Flowlet switching: a flow may change its member after a gap. The gap is so long that all earlier packets
//! of the flow have arrived, on any path.

use crate::balance::config::{MemberSelection, RebalanceRule, SchemeConfig};
use crate::balance::flow_table::{DirectMappedFlowTable, FlowState};
use crate::balance::member_order::{Granularity, MemberOrder};
use crate::balance::{FlowPlacement, FlowTableUse, MemberChoice, MoveReason, Packet, PathChoice, Paths};
use xoff_units::Picos;

/// Flowlet scheme of one group. With [`MemberSelection::Random`] the scheme is LetFlow, and with
/// [`MemberSelection::PathLoad`] the scheme is CONGA. With [`MemberSelection::Quality`] or
/// [`MemberSelection::Global`], the scheme is the dynamic load balancing (adaptive routing) of switch chips.
///
/// After a gap, a flow keeps its member (next hop or LAG port) unless a second member is in a better quality
/// band (class of path quality). With random selection, a flow selects a new member after each gap. A member
/// that recovers receives new flows, and flows that continue after a gap.
#[derive(Debug)]
pub(crate) struct FlowletScheme {
    flows: DirectMappedFlowTable,
    idle: Picos,
    random: bool,
    order: MemberOrder,
    rebalance: Option<RebalanceRule>,
}

impl FlowletScheme {
    pub(super) fn new(
        config: &SchemeConfig,
        idle: Picos,
        pick: MemberSelection,
        rebalance: Option<RebalanceRule>,
    ) -> FlowletScheme {
        FlowletScheme {
            flows: DirectMappedFlowTable::new(config.flowset_entries),
            idle,
            random: pick == MemberSelection::Random,
            order: MemberOrder::new(config, pick, Granularity::Flow),
            rebalance: rebalance.filter(|rebalance| rebalance.quality_delta > 0 && rebalance.probability > 0),
        }
    }

    pub(super) fn compares_quality(&self) -> bool {
        !self.random
    }

    /// Selects a member for a new flow, or for a flow that continues after a gap.
    #[inline]
    fn select_member(&self, packet: &Packet<'_>, current_member: Option<u16>, paths: &mut Paths<'_>) -> u16 {
        if self.random {
            return paths.random_member();
        }
        let best = self.order.best_member(packet, paths);
        let member = match current_member {
            Some(member) if self.order.may_flow_stay_on_member(packet, member, best, paths) => member,
            _ => best,
        };
        self.order.record_placement(packet, member, paths);
        member
    }

    /// Returns a better member for a flow that is sending. The configuration sets the probability of such a
    /// move. Returns `None` if the flow stays.
    #[inline]
    fn rebalance_flow(&self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) -> Option<u16> {
        let rebalance = self.rebalance?;
        // The random number is drawn first, so most packets skip the comparison. The probability is the same.
        if paths.random().next_u32() >= rebalance.probability {
            return None;
        }
        let best = self.order.best_member(packet, paths);
        let level = |member| self.order.quality_level_without_pause(member, paths);
        let gain = level(member).saturating_sub(level(best));
        let moves = best != member && gain >= rebalance.quality_delta;
        if moves {
            self.order.record_placement(packet, best, paths);
        }
        moves.then_some(best)
    }
}

impl PathChoice for FlowletScheme {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let (slot, known) = self.flows.look_up(packet.hash, packet.now);
        let (member, placed) = match known {
            FlowState::On(from, silent) if silent < self.idle => {
                match self.rebalance_flow(packet, from, paths) {
                    None => (from, None),
                    Some(member) => (member, placement(MoveReason::Quality, Some(from))),
                }
            }
            FlowState::On(from, _) => match self.select_member(packet, Some(from), paths) {
                member if member == from => (from, None),
                member => (member, placement(MoveReason::Idle, Some(from))),
            },
            FlowState::New => (
                self.select_member(packet, None, paths),
                placement(MoveReason::New, None),
            ),
            FlowState::Lost(from) => (
                self.select_member(packet, None, paths),
                placement(MoveReason::LinkDown, from),
            ),
        };
        self.flows.store(slot, packet.now, member);
        MemberChoice { member, placed }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        self.flows
            .renumber_members(renumbered, |member| paths.is_usable(member));
    }

    fn flow_table_use(&self) -> Option<FlowTableUse> {
        Some(self.flows.usage(self.idle))
    }
}

fn placement(reason: MoveReason, from: Option<u16>) -> Option<FlowPlacement> {
    Some(FlowPlacement { reason, from })
}
