//! Assigned flows: a flow chooses once, and stays until its member dies.

use crate::balance::flowset::Known;
use crate::balance::order::{For, Order};
use crate::balance::places::Places;
use crate::balance::{Choice, MoveReason, Packet, PathChoice, Paths, Placed, TableUse};
use crate::config::{Pick, SchemeConfig};
use xoff_units::Picos;

/// Each flow has a place of its own in a table. It is kept until another flow needs it and its own has been silent for a second; a flow that
/// finds no place is hashed. A member that comes back gets new flows only.
#[derive(Debug)]
pub(crate) struct Fixed {
    places: Places,
    random: bool,
    order: Order,
    overflow_packets: u64,
}

impl Fixed {
    pub(super) fn new(config: &SchemeConfig, pick: Pick) -> Fixed {
        Fixed {
            places: Places::new(config.flowset_entries),
            random: pick == Pick::Random,
            order: Order::new(config, pick, For::Flow),
            overflow_packets: 0,
        }
    }

    pub(super) fn compares(&self) -> bool {
        !self.random
    }

    /// The member of a flow that has its place.
    #[inline]
    pub(crate) fn known(&mut self, now: Picos, hash: u32) -> Option<u16> {
        match self.places.look(hash, now) {
            Some((place, Known::On(member, _))) => {
                self.places.enter(place, hash, now, member);
                Some(member)
            }
            _ => None,
        }
    }

    fn place(&self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        if self.random {
            return paths.at_random();
        }
        let best = self.order.best(packet, paths);
        self.order.placed(packet, best, paths);
        best
    }
}

impl PathChoice for Fixed {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        let Some((place, known)) = self.places.look(packet.hash, packet.now) else {
            self.overflow_packets += 1;
            return Choice::stay(paths.by_hash(packet.hash));
        };
        let (member, placed) = match known {
            Known::On(member, _) => (member, None),
            Known::New => (self.place(packet, paths), Some((MoveReason::New, None))),
            Known::Lost(from) => (self.place(packet, paths), Some((MoveReason::LinkDown, from))),
        };
        self.places.enter(place, packet.hash, packet.now, member);
        Choice {
            member,
            placed: placed.map(|(reason, from)| Placed { reason, from }),
        }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        self.places.renumber(renumbered, |member| paths.is_usable(member));
    }

    fn table(&self) -> Option<TableUse> {
        Some(TableUse {
            overflow_packets: self.overflow_packets,
            ..self.places.in_use()
        })
    }
}
