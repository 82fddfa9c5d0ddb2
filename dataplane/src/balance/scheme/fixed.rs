//! Assigned flows: a flow selects a member once and stays there until the member fails.

use crate::balance::config::{MemberSelection, SchemeConfig};
use crate::balance::exact_flow_table::ExactFlowTable;
use crate::balance::flow_table::FlowState;
use crate::balance::member_order::{Granularity, MemberOrder};
use crate::balance::{FlowPlacement, FlowTableUse, MemberChoice, MoveReason, Packet, PathChoice, Paths};
use xoff_units::Picos;

/// Scheme of assigned flows. Each flow has its own entry in a table. After one second without packets of the
/// flow, a new flow may take over the entry. If a flow has no entry, the flow hash selects its member. A
/// member that recovers receives only new flows.
#[derive(Debug)]
pub(crate) struct FixedScheme {
    table: ExactFlowTable,
    random: bool,
    order: MemberOrder,
    overflow_packets: u64,
}

impl FixedScheme {
    pub(super) fn new(config: &SchemeConfig, pick: MemberSelection) -> FixedScheme {
        FixedScheme {
            table: ExactFlowTable::new(config.flowset_entries),
            random: pick == MemberSelection::Random,
            order: MemberOrder::new(config, pick, Granularity::Flow),
            overflow_packets: 0,
        }
    }

    pub(super) fn compares_quality(&self) -> bool {
        !self.random
    }

    /// Returns the member of a flow that has an entry. Returns `None` if the flow needs a new decision.
    #[inline]
    pub(crate) fn member_of_known_flow(&mut self, now: Picos, hash: u32) -> Option<u16> {
        match self.table.look_up(hash, now) {
            Some((entry, FlowState::On(member, _))) => {
                self.table.store(entry, hash, now, member);
                Some(member)
            }
            _ => None,
        }
    }

    /// Selects a member for a flow that is new or has lost its member.
    fn select_member(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        if self.random {
            return paths.random_member();
        }
        let best = self.order.best_member(packet, paths);
        self.order.record_placement(packet, best, paths);
        best
    }
}

impl PathChoice for FixedScheme {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let Some((entry, known)) = self.table.look_up(packet.hash, packet.now) else {
            self.overflow_packets += 1;
            return MemberChoice::unchanged(paths.member_by_hash(packet.hash));
        };
        let (member, placed) = match known {
            FlowState::On(member, _) => (member, None),
            FlowState::New => (self.select_member(packet, paths), Some((MoveReason::New, None))),
            FlowState::Lost(from) => (
                self.select_member(packet, paths),
                Some((MoveReason::LinkDown, from)),
            ),
        };
        self.table.store(entry, packet.hash, packet.now, member);
        MemberChoice {
            member,
            placed: placed.map(|(reason, from)| FlowPlacement { reason, from }),
        }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        self.table
            .renumber_members(renumbered, |member| paths.is_usable(member));
    }

    fn flow_table_use(&self) -> Option<FlowTableUse> {
        Some(FlowTableUse {
            overflow_packets: self.overflow_packets,
            ..self.table.usage()
        })
    }
}
