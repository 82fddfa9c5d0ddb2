//! Flooding of a frame to all ports of its VLAN.

use super::Switch;
use super::egress_target::EgressTarget;
use super::ingress::{FLOOD_PREFIX_BYTES, FrameContext};
use crate::drops::DropReason;
use crate::egress::IngressCharge;
use crate::frame::FrameStore;
use crate::ids::QueueId;
use crate::outputs::{DroppedFrame, ForwardingResult, Outputs};

impl Switch {
    #[inline(never)]
    pub(super) fn flood_frame<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let vlan = context.vlan.unwrap_or_default();
        let members = self.vlans.members(vlan).len();
        let admitted = context.check_watchdog_drop();
        let mut plan = match admitted.and_then(|()| self.plan_ingress(context, context.cells, members)) {
            Ok(plan) => plan,
            Err(drop) => return self.discard_frame(drop, context.frame, store),
        };
        let mut targets = core::mem::take(&mut self.targets);
        targets.clear();
        let refused = self.plan_flood_targets(context, &mut targets, store);
        if targets.is_empty() {
            self.targets = targets;
            let drop = refused.unwrap_or_else(|| context.ingress_drop_record(DropReason::L2LoopbackFilter));
            return self.discard_frame(drop, context.frame, store);
        }
        if let Some(drop) = refused {
            self.ports[drop.port.index()].count_drop(&drop);
        }
        let copies = targets.len() as u16;
        let mut cells = context.cells;
        if targets.iter().all(|target| target.trim.is_some()) {
            let longest = targets.iter().map(|target| target.cells).max().unwrap_or(cells);
            if let Ok(shorter) = self.plan_ingress(context, longest.min(cells), 0) {
                (plan, cells) = (shorter, longest.min(cells));
            }
        }
        let charge = match copies {
            1 => IngressCharge::Own {
                pg: context.pg,
                cells,
            },
            n => self.frames.add_shared_charge(context.pg, cells, u32::from(n)),
        };
        let xoff = self.mmu.commit_ingress(context.pg, plan);
        self.count_accepted_and_signal_xoff(context, xoff, outputs, store);
        for target in &targets {
            self.enqueue_at_target(context, target, charge, store);
        }
        for target in &targets {
            self.try_transmit(context.now, target.to, store, outputs);
        }
        self.targets = targets;
        ForwardingResult::Forwarded { copies }
    }

    /// For each egress port of a flooded frame, makes a copy of the frame and adds its cells to the use of
    /// the egress queue. The last target uses the frame itself. Drops at egress ports are counted here,
    /// except for the last drop, which is returned.
    fn plan_flood_targets<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        targets: &mut Vec<EgressTarget>,
        store: &mut S,
    ) -> Option<DroppedFrame> {
        let mut refused: Option<DroppedFrame> = None;
        let vlan = context.vlan.unwrap_or_default();
        for index in 0..self.vlans.members(vlan).len() {
            let member = self.vlans.members(vlan)[index];
            // A packet that was routed into the VLAN may have arrived at any of its ports.
            if member == context.logical && context.rewrite.is_none() {
                continue;
            }
            let Some(to) = self.lags.select_member(member, context.parsed.flow_hash) else {
                continue;
            };
            if !self.ports[to.index()].up {
                continue;
            }
            let target = self
                .egress_target(context, to)
                .map_err(|reason| context.egress_drop_record(to, reason));
            let result = target.and_then(|mut target| {
                let plan = self.plan_egress(context, &mut target, store)?;
                self.mmu.commit_egress(QueueId::new(to, target.queue as u8), plan);
                Ok(target)
            });
            match result {
                Ok(target) => targets.push(target),
                Err(drop) => {
                    if let Some(earlier) = refused.replace(drop) {
                        self.ports[earlier.port.index()].count_drop(&earlier);
                    }
                }
            }
        }
        self.copy_to_targets(context, targets, store);
        refused
    }

    /// Makes a copy of the frame for each target except the last target. If no frame slot is free for a copy,
    /// its target is removed and the drop is counted.
    fn copy_to_targets<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        targets: &mut Vec<EgressTarget>,
        store: &mut S,
    ) {
        let mut index = 0;
        for _ in 1..targets.len() {
            if let Some(copy) = store.copy(context.frame, FLOOD_PREFIX_BYTES) {
                targets[index].frame = copy;
                index += 1;
                continue;
            }
            let target = targets.remove(index);
            self.mmu
                .release_egress(QueueId::new(target.to, target.queue as u8), target.cells);
            let drop = context.egress_drop_record(target.to, DropReason::NoBufferSpace);
            self.ports[target.to.index()].count_drop(&drop);
        }
    }
}
