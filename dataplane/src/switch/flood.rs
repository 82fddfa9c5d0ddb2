//! Flooding of a frame to all ports of its VLAN.

use super::Switch;
use super::ingress::{FLOOD_PREFIX_BYTES, Transit};
use super::queueing::Leg;
use crate::drops::DropReason;
use crate::egress::Charge;
use crate::frame::Store;
use crate::ids::QueueId;
use crate::outputs::{Drop, Outputs, Verdict};

impl Switch {
    #[inline(never)]
    pub(super) fn flood<S: Store>(
        &mut self,
        transit: &Transit,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let vlan = transit.vlan.unwrap_or_default();
        let members = self.vlans.members(vlan).len();
        let admitted = transit.refuse_stormed();
        let mut plan = match admitted.and_then(|()| self.plan_ingress(transit, transit.cells, members)) {
            Ok(plan) => plan,
            Err(drop) => return self.discard(drop, transit.frame, store),
        };
        let mut legs = core::mem::take(&mut self.legs);
        legs.clear();
        let refused = self.flood_legs(transit, &mut legs, store);
        if legs.is_empty() {
            self.legs = legs;
            let drop = refused.unwrap_or_else(|| transit.drop(DropReason::L2LoopbackFilter));
            return self.discard(drop, transit.frame, store);
        }
        if let Some(drop) = refused {
            self.ports[drop.port.index()].count_drop(&drop);
        }
        let copies = legs.len() as u16;
        let mut cells = transit.cells;
        if legs.iter().all(|leg| leg.trim.is_some()) {
            let longest = legs.iter().map(|leg| leg.cells).max().unwrap_or(cells);
            if let Ok(shorter) = self.plan_ingress(transit, longest.min(cells), 0) {
                (plan, cells) = (shorter, longest.min(cells));
            }
        }
        let charge = match copies {
            1 => Charge::Own {
                pg: transit.pg,
                cells,
            },
            n => self.frames.share_charge(transit.pg, cells, u32::from(n)),
        };
        let xoff = self.mmu.commit_ingress(transit.pg, plan);
        self.accept(transit, xoff, outputs, store);
        for leg in &legs {
            self.enqueue(transit, leg, charge, store);
        }
        for leg in &legs {
            self.kick(transit.now, leg.to, store, outputs);
        }
        self.legs = legs;
        Verdict::Forwarded { copies }
    }

    /// Plans and charges the egress targets of a flooded frame and makes its copies. The last target uses the
    /// frame itself. Drops are counted, except the last one, which is returned.
    fn flood_legs<S: Store>(
        &mut self,
        transit: &Transit,
        legs: &mut Vec<Leg>,
        store: &mut S,
    ) -> Option<Drop> {
        let mut refused: Option<Drop> = None;
        let vlan = transit.vlan.unwrap_or_default();
        for index in 0..self.vlans.members(vlan).len() {
            let member = self.vlans.members(vlan)[index];
            // A packet that was routed into the VLAN may have arrived at any of its ports.
            if member == transit.logical && transit.rewrite.is_none() {
                continue;
            }
            let Some(to) = self.lags.select(member, transit.parsed.flow_hash) else {
                continue;
            };
            if !self.ports[to.index()].up {
                continue;
            }
            let leg = self
                .leg(transit, to)
                .map_err(|reason| transit.drop_at(to, reason));
            let result = leg.and_then(|mut leg| {
                let plan = self.plan_egress(transit, &mut leg, store)?;
                self.mmu.commit_egress(QueueId::new(to, leg.queue as u8), plan);
                Ok(leg)
            });
            match result {
                Ok(leg) => legs.push(leg),
                Err(drop) => {
                    if let Some(earlier) = refused.replace(drop) {
                        self.ports[earlier.port.index()].count_drop(&earlier);
                    }
                }
            }
        }
        self.copy_to_legs(transit, legs, store);
        refused
    }

    /// Makes a copy for every target but the last. A target without a free slot is dropped and counted.
    fn copy_to_legs<S: Store>(&mut self, transit: &Transit, legs: &mut Vec<Leg>, store: &mut S) {
        let mut index = 0;
        for _ in 1..legs.len() {
            if let Some(copy) = store.copy(transit.frame, FLOOD_PREFIX_BYTES) {
                legs[index].frame = copy;
                index += 1;
                continue;
            }
            let leg = legs.remove(index);
            self.mmu
                .release_egress(QueueId::new(leg.to, leg.queue as u8), leg.cells);
            let drop = transit.drop_at(leg.to, DropReason::NoBufferSpace);
            self.ports[leg.to.index()].count_drop(&drop);
        }
    }
}
