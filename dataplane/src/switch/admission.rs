//! Charges and queues a frame at its egress ports.

use super::Switch;
use super::egress_target::EgressTarget;
use super::ingress::FrameContext;
use super::transmission::mark_ce;
use crate::bridge::VlanTagAction;
use crate::config::EcnMarkPoint;
use crate::drops::DropReason;
use crate::egress::{IngressCharge, QueuedFrame};
use crate::frame::{FrameHandle, FrameStore};
use crate::ids::{PortId, QueueId};
use crate::mmu::{EgressPlan, IngressPlan};
use crate::outputs::{DroppedFrame, Outputs};
use xoff_wire::parse::VlanTag;
use xoff_wire::rewrite;
use xoff_wire::vlan::{self, TAG_LEN};

impl Switch {
    pub(super) fn forward_unicast<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), DroppedFrame> {
        context.check_watchdog_drop()?;
        let to = self
            .select_lag_port(context, context.to, store)
            .ok_or_else(|| context.ingress_drop_record(DropReason::L3EgressLinkDown))?;
        let mut target = self
            .egress_target(context, to)
            .map_err(|reason| context.egress_drop_record(to, reason))?;
        if self.frames.free_entries() == 0 {
            return Err(context.ingress_drop_record(DropReason::NoBufferSpace));
        }
        let (xoff, cells) = self.charge_frame(context, &mut target, store)?;
        self.count_accepted_and_signal_xoff(context, xoff, outputs, store);
        let charge = IngressCharge::Own {
            pg: context.pg,
            cells,
        };
        self.enqueue_at_target(context, &target, charge, store);
        self.try_transmit(context.now, to, store, outputs);
        Ok(())
    }

    /// Adds the cells of a frame to the use of its priority group and of its egress queue. Returns two
    /// values: true if the priority group has now paused its peer (XOFF), and the number of added ingress
    /// cells. A trimmed frame has fewer cells than the original frame.
    fn charge_frame<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        target: &mut EgressTarget,
        store: &S,
    ) -> Result<(bool, u32), DroppedFrame> {
        let mut plan = self.plan_ingress(context, context.cells, 1)?;
        let egress = self.plan_egress(context, target, store)?;
        let mut cells = context.cells;
        if target.trim.is_some() {
            cells = cells.min(target.cells);
            plan = self.plan_ingress(context, cells, 1)?;
        }
        self.mmu
            .commit_egress(QueueId::new(target.to, target.queue as u8), egress);
        Ok((self.mmu.commit_ingress(context.pg, plan), cells))
    }

    /// Plans the egress cells of a frame. If the queue has no space for the whole frame but for a trimmed
    /// frame, `target` is changed to the trimmed frame. Otherwise, the drop is returned.
    pub(super) fn plan_egress<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        target: &mut EgressTarget,
        store: &S,
    ) -> Result<EgressPlan, DroppedFrame> {
        let queue = QueueId::new(target.to, target.queue as u8);
        match self.mmu.plan_egress(queue, target.cells, context.lossless) {
            Ok(plan) => Ok(plan),
            Err(refusal) => self.try_trim(context, target, refusal, store),
        }
    }

    /// Plans the ingress cells of a frame, and checks that the frame table has free entries for
    /// `copies` copies.
    pub(super) fn plan_ingress(
        &self,
        context: &FrameContext,
        cells: u32,
        copies: usize,
    ) -> Result<IngressPlan, DroppedFrame> {
        if self.frames.free_entries() < copies {
            return Err(context.ingress_drop_record(DropReason::NoBufferSpace));
        }
        let plan = self.mmu.plan_ingress(context.pg, cells);
        plan.map_err(|refusal| DroppedFrame {
            refusal: Some(refusal),
            ..context.ingress_drop_record(DropReason::PriorityGroupDropped)
        })
    }

    /// Counts an accepted frame. If the priority group has reached its XOFF threshold with this frame, also
    /// pauses the peer.
    pub(super) fn count_accepted_and_signal_xoff<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        xoff: bool,
        outputs: &mut Outputs,
        store: &mut S,
    ) {
        let ingress = &mut self.ports[context.from.index()];
        let group = &mut ingress.counters.pgs[usize::from(context.pg.number())];
        group.packets += 1;
        group.bytes += u64::from(context.mac_len);
        if xoff {
            self.signal_xoff(context, store, outputs);
        }
    }

    #[cold]
    fn signal_xoff<S: FrameStore>(&mut self, context: &FrameContext, store: &mut S, outputs: &mut Outputs) {
        let ingress = &mut self.ports[context.from.index()];
        let pg = context.pg.number();
        ingress.counters.pgs[usize::from(pg)].xoff_transitions += 1;
        let stopped = ingress.pause_targets_of_group(pg);
        ingress.change_control_frames(|frames| frames.generator.enter_xoff(context.now, stopped));
        self.try_transmit_control(context.now, context.from, store, outputs);
    }

    /// Checks whether the frame may leave through port `to`, and selects the queue, the edit of the VLAN tag
    /// and the ECN mark.
    pub(super) fn egress_target(
        &mut self,
        context: &FrameContext,
        to: PortId,
    ) -> Result<EgressTarget, DropReason> {
        let egress = &self.ports[to.index()];
        if !egress.up {
            return Err(DropReason::L3EgressLinkDown);
        }
        let edit = match context.vlan {
            Some(vlan) => {
                let behind = self.lags.logical_port(to);
                self.vlans
                    .egress_tag_action(context.logical, behind, vlan, context.parsed.tag)
                    .ok_or(DropReason::EgressVlanFilter)?
            }
            None => self.vlans.routed_port_egress(context.logical, context.parsed.tag),
        };
        // Tags do not count against the MTU, so the length before the edit of the tag can be checked.
        if egress.exceeds_mtu(context.frame_len, context.parsed.l3_offset) {
            return Err(DropReason::ExceedsL2Mtu);
        }
        let mac_len = match edit {
            VlanTagAction::Keep | VlanTagAction::Rewrite { .. } => egress.link.mac_len(context.frame_len),
            VlanTagAction::Pop => egress.link.mac_len(context.frame_len - TAG_LEN as u32),
            VlanTagAction::Push { .. } => egress.link.mac_len(context.frame_len + TAG_LEN as u32),
        };
        let queue = egress.egress_queue(context.tc);
        let mark = egress.arrival_rule_queues & 1 << queue != 0
            && self.apply_watchdog_and_wred(context, to, queue)?;
        Ok(EgressTarget {
            to,
            queue,
            edit,
            mac_len,
            cells: match mac_len == context.mac_len {
                true => context.cells,
                false => self.mmu.frame_cells(mac_len),
            },
            mark,
            trim: None,
            frame: context.frame,
        })
    }

    /// Applies the watchdog and WRED to an arriving frame. Returns true if the frame must be marked CE, and
    /// an error if the frame must be dropped.
    #[inline(never)]
    fn apply_watchdog_and_wred(
        &mut self,
        context: &FrameContext,
        to: PortId,
        queue: usize,
    ) -> Result<bool, DropReason> {
        let egress = &mut self.ports[to.index()];
        if egress.dropping_queues & 1 << queue != 0 {
            return Err(DropReason::WatchdogEgress);
        }
        let Some(wred) = &egress.rules.wred[queue] else {
            return Ok(false);
        };
        let may_mark = wred.ecn && context.parsed.is_ecn_capable();
        let early_drop = wred.drop && !context.lossless && !may_mark;
        let mark_here = self.mark_point == EcnMarkPoint::Enqueue && may_mark;
        if !early_drop && !mark_here {
            return Ok(false);
        }
        let hit = egress
            .marker
            .decide_mark_or_drop(wred, egress.fifos[queue].bytes());
        if hit && early_drop {
            egress.counters.queues[queue].wred_dropped_packets += 1;
            return Err(DropReason::WredDropped);
        }
        Ok(hit)
    }

    /// Appends a frame to its egress queue. The caller starts the transmission.
    pub(super) fn enqueue_at_target<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        target: &EgressTarget,
        charge: IngressCharge,
        store: &mut S,
    ) {
        let queued = self.build_queued_frame(context, target, charge, store);
        let egress = &mut self.ports[target.to.index()];
        egress.enqueue(&mut self.frames, target.to, target.queue, queued);
    }

    /// Edits a frame for its egress port and creates its queue entry. With [`EcnMarkPoint::Dequeue`], the ECN
    /// mark is set later.
    fn build_queued_frame<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        target: &EgressTarget,
        charge: IngressCharge,
        store: &mut S,
    ) -> QueuedFrame {
        let mut l3_offset = context.parsed.l3_offset;
        if let Some(addresses) = context.rewrite {
            let frame = store.prefix_mut(target.frame);
            rewrite::rewrite_routed(frame, l3_offset, context.parsed.payload, addresses);
        }
        if target.edit != VlanTagAction::Keep {
            l3_offset = edit_tag(target.edit, target.frame, l3_offset, store);
        }
        if let Some(trim) = target.trim {
            self.trim_frame(target, trim, (l3_offset, context.parsed.payload), store);
        }
        let ecn_capable = context.parsed.is_ecn_capable();
        if target.mark {
            let egress = &mut self.ports[target.to.index()];
            let header = (l3_offset, context.parsed.payload);
            if mark_ce(egress, target.queue, target.frame, target.mac_len, header, store) {
                self.marked_on_arrival.push(target.to);
            }
        }
        let mut queued = QueuedFrame::new(target.frame, target.mac_len, target.cells, charge);
        queued.ready_at = context.now.saturating_add(self.pipeline_latency);
        queued.tc = context.tc;
        queued.l3_offset = l3_offset;
        queued.payload = context.parsed.payload;
        queued.set_ecn_capable(ecn_capable);
        if let Some(trim) = target.trim {
            queued.set_refusing_queue(trim.refused_by);
        }
        queued
    }
}

/// Edits the outer VLAN tag of a frame. Returns the new offset of the layer 3 header.
#[inline(never)]
pub(super) fn edit_tag<S: FrameStore>(
    edit: VlanTagAction,
    frame: FrameHandle,
    l3_offset: u8,
    store: &mut S,
) -> u8 {
    match edit {
        VlanTagAction::Keep => l3_offset,
        VlanTagAction::Rewrite { tpid, tci } => {
            if let Some(octets) = store.prefix_mut(frame).get_mut(12..16) {
                octets[..2].copy_from_slice(&tpid.to_be_bytes());
                octets[2..].copy_from_slice(&tci.to_be_bytes());
            }
            l3_offset
        }
        VlanTagAction::Push { tpid, tci } => {
            store.push_front(frame, TAG_LEN);
            vlan::write_outer_tag(store.prefix_mut(frame), VlanTag { tpid, tci });
            l3_offset + TAG_LEN as u8
        }
        VlanTagAction::Pop => {
            vlan::prepare_tag_removal(store.prefix_mut(frame));
            store.pull_front(frame, TAG_LEN);
            l3_offset - TAG_LEN as u8
        }
    }
}
