//! Packet spraying: the member is selected for every packet, at random or by the present state of the links.

use crate::balance::config::{MemberSelection, SchemeConfig};
use crate::balance::member_order::{Granularity, MemberOrder};
use crate::balance::{MemberChoice, Packet, PathChoice, Paths};

/// Per-packet scheme. The scheme stores no flows and reads only the state of the queues. Receivers must
/// tolerate reordered packets. A member that recovers receives packets immediately.
#[derive(Debug)]
pub(crate) struct PerPacketScheme {
    random: bool,
    order: MemberOrder,
}

impl PerPacketScheme {
    pub(super) fn new(config: &SchemeConfig, pick: MemberSelection) -> PerPacketScheme {
        PerPacketScheme {
            random: pick == MemberSelection::Random,
            order: MemberOrder::new(config, pick, Granularity::Packet),
        }
    }

    pub(crate) fn compares_quality(&self) -> bool {
        !self.random
    }
}

impl PathChoice for PerPacketScheme {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        MemberChoice::unchanged(match self.random {
            true => paths.random_member(),
            false => self.order.best_member(packet, paths),
        })
    }

    fn members_changed(&mut self, _: &[Option<u16>], _: &mut Paths<'_>) {}
}
