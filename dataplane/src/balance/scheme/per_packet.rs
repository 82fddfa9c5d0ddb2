//! Every packet chooses: spraying, at random or by the links as they are now.

use crate::balance::order::{For, Order};
use crate::balance::{Choice, Packet, PathChoice, Paths};
use crate::config::{Pick, SchemeConfig};

/// It has no memory but the links' queues. Receivers must bear what it does to the order of packets. A member that comes back is used at
/// once.
#[derive(Debug)]
pub(crate) struct PerPacket {
    random: bool,
    order: Order,
}

impl PerPacket {
    pub(super) fn new(config: &SchemeConfig, pick: Pick) -> PerPacket {
        PerPacket {
            random: pick == Pick::Random,
            order: Order::new(config, pick, For::Packet),
        }
    }

    pub(crate) fn compares(&self) -> bool {
        !self.random
    }
}

impl PathChoice for PerPacket {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        Choice::stay(match self.random {
            true => paths.at_random(),
            false => self.order.best(packet, paths),
        })
    }

    fn members_changed(&mut self, _: &[Option<u16>], _: &mut Paths<'_>) {}
}
