//! Charges and queues a frame at its egress ports.

use super::Switch;
use super::departure::mark;
use super::ingress::Transit;
use super::trimming::Trim;
use crate::bridge::TagEdit;
use crate::config::MarkPoint;
use crate::drops::DropReason;
use crate::egress::{Charge, QueuedFrame};
use crate::frame::{Handle, Store};
use crate::ids::{PortId, QueueId};
use crate::mmu::{EgressPlan, IngressPlan, Refusal};
use crate::outputs::{Drop, Outputs};
use xoff_wire::parse::VlanTag;
use xoff_wire::rewrite;
use xoff_wire::vlan::{self, TAG_LEN};

/// An egress port and queue of a frame, and how the frame leaves there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) to: PortId,
    pub(super) queue: usize,
    pub(super) edit: TagEdit,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
    pub(super) mark: bool,
    /// How the frame is trimmed, if its queue was full.
    pub(super) trim: Option<Trim>,
    pub(super) frame: Handle,
}

impl Switch {
    pub(super) fn unicast<S: Store>(
        &mut self,
        transit: &Transit,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), Drop> {
        transit.refuse_stormed()?;
        let to = self
            .lag_member(transit, transit.to, store)
            .ok_or_else(|| transit.drop(DropReason::L3EgressLinkDown))?;
        let mut leg = self
            .leg(transit, to)
            .map_err(|reason| transit.drop_at(to, reason))?;
        if self.frames.room() == 0 {
            return Err(transit.drop(DropReason::NoBufferSpace));
        }
        let (xoff, cells) = self.admit(transit, &mut leg, store)?;
        self.accept(transit, xoff, outputs, store);
        let charge = Charge::Own {
            pg: transit.pg,
            cells,
        };
        self.enqueue(transit, &leg, charge, store);
        self.kick(transit.now, to, store, outputs);
        Ok(())
    }

    /// Charges a frame at ingress and egress. Returns whether the priority group entered XOFF, and the
    /// charged ingress cells. A trimmed frame is charged for fewer cells.
    fn admit<S: Store>(&mut self, transit: &Transit, leg: &mut Leg, store: &S) -> Result<(bool, u32), Drop> {
        let mut plan = self.plan_ingress(transit, transit.cells, 1)?;
        let egress = self.plan_egress(transit, leg, store)?;
        let mut cells = transit.cells;
        if leg.trim.is_some() {
            cells = cells.min(leg.cells);
            plan = self.plan_ingress(transit, cells, 1)?;
        }
        self.mmu
            .commit_egress(QueueId::new(leg.to, leg.queue as u8), egress);
        Ok((self.mmu.commit_ingress(transit.pg, plan), cells))
    }

    /// Plans the egress cells of a frame. The frame is trimmed if only the trimmed frame fits.
    pub(super) fn plan_egress<S: Store>(
        &mut self,
        transit: &Transit,
        leg: &mut Leg,
        store: &S,
    ) -> Result<EgressPlan, Drop> {
        let queue = QueueId::new(leg.to, leg.queue as u8);
        match self.mmu.plan_egress(queue, leg.cells, transit.lossless) {
            Ok(plan) => Ok(plan),
            Err(refusal) => self.trim(transit, leg, refusal, store),
        }
    }

    /// Plans the ingress cells of a frame.
    pub(super) fn plan_ingress(
        &self,
        transit: &Transit,
        cells: u32,
        copies: usize,
    ) -> Result<IngressPlan, Drop> {
        if self.frames.room() < copies {
            return Err(transit.drop(DropReason::NoBufferSpace));
        }
        let plan = self.mmu.plan_ingress(transit.pg, cells);
        plan.map_err(|refusal| Drop {
            refusal: Some(refusal),
            ..transit.drop(DropReason::PriorityGroupDropped)
        })
    }

    /// Counts an accepted frame, and pauses the sender if the frame put its priority group into XOFF.
    pub(super) fn accept<S: Store>(
        &mut self,
        transit: &Transit,
        xoff: bool,
        outputs: &mut Outputs,
        store: &mut S,
    ) {
        let ingress = &mut self.ports[transit.from.index()];
        let group = &mut ingress.counters.pgs[usize::from(transit.pg.number())];
        group.packets += 1;
        group.bytes += u64::from(transit.mac_len);
        if xoff {
            self.signal_xoff(transit, store, outputs);
        }
    }

    #[cold]
    fn signal_xoff<S: Store>(&mut self, transit: &Transit, store: &mut S, outputs: &mut Outputs) {
        let ingress = &mut self.ports[transit.from.index()];
        let pg = transit.pg.number();
        ingress.counters.pgs[usize::from(pg)].xoff_transitions += 1;
        let stopped = ingress.asks_for(pg);
        ingress.generator.xoff(transit.now, stopped);
        self.kick_control(transit.now, transit.from, store, outputs);
    }

    /// Checks whether the frame may leave by port `to`, and how.
    pub(super) fn leg(&mut self, transit: &Transit, to: PortId) -> Result<Leg, DropReason> {
        let egress = &self.ports[to.index()];
        if !egress.up {
            return Err(DropReason::L3EgressLinkDown);
        }
        let edit = match transit.vlan {
            Some(vlan) => {
                let behind = self.lags.logical(to);
                self.vlans
                    .egress(transit.logical, behind, vlan, transit.parsed.tag)
                    .ok_or(DropReason::EgressVlanFilter)?
            }
            None => self.vlans.untagged_egress(transit.logical, transit.parsed.tag),
        };
        // Tags do not count against the MTU, so the tag edit does not matter.
        if transit.frame_len > egress.mtu + u32::from(transit.parsed.l3_offset) {
            return Err(DropReason::ExceedsL2Mtu);
        }
        let mac_len = match edit {
            TagEdit::Keep | TagEdit::Rewrite { .. } => egress.link.mac_len(transit.frame_len),
            TagEdit::Pop => egress.link.mac_len(transit.frame_len - TAG_LEN as u32),
            TagEdit::Push { .. } => egress.link.mac_len(transit.frame_len + TAG_LEN as u32),
        };
        let queue = egress.queue(transit.tc);
        let mark = egress.early_queues & 1 << queue != 0 && self.early(transit, to, queue)?;
        Ok(Leg {
            to,
            queue,
            edit,
            mac_len,
            cells: match mac_len == transit.mac_len {
                true => transit.cells,
                false => self.mmu.cells(mac_len),
            },
            mark,
            trim: None,
            frame: transit.frame,
        })
    }

    /// Applies the watchdog and WRED on arrival. Returns whether to mark the frame, or a drop.
    #[inline(never)]
    fn early(&mut self, transit: &Transit, to: PortId, queue: usize) -> Result<bool, DropReason> {
        let egress = &mut self.ports[to.index()];
        if egress.dropping_queues & 1 << queue != 0 {
            return Err(DropReason::WatchdogEgress);
        }
        let Some(wred) = &egress.wred[queue] else {
            return Ok(false);
        };
        let may_mark = wred.ecn && transit.parsed.is_ecn_capable();
        let early_drop = wred.drop && !transit.lossless && !may_mark;
        let mark_here = self.mark_point == MarkPoint::Enqueue && may_mark;
        if !early_drop && !mark_here {
            return Ok(false);
        }
        let hit = egress.marker.hit(wred, egress.fifos[queue].bytes());
        if hit && early_drop {
            egress.counters.queues[queue].wred_dropped_packets += 1;
            return Err(DropReason::WredDropped);
        }
        Ok(hit)
    }

    /// Appends a frame to its egress queue. The caller starts the transmission.
    pub(super) fn enqueue<S: Store>(&mut self, transit: &Transit, leg: &Leg, charge: Charge, store: &mut S) {
        let queued = self.prepare(transit, leg, charge, store);
        let egress = &mut self.ports[leg.to.index()];
        egress.enqueue(&mut self.frames, leg.to, leg.queue, queued);
    }

    /// Edits a frame for its egress port. ECN marks at departure are set later.
    fn prepare<S: Store>(
        &mut self,
        transit: &Transit,
        leg: &Leg,
        charge: Charge,
        store: &mut S,
    ) -> QueuedFrame {
        let mut l3_offset = transit.parsed.l3_offset;
        if let Some(addresses) = transit.rewrite {
            let frame = store.prefix_mut(leg.frame);
            rewrite::rewrite_routed(frame, l3_offset, transit.parsed.payload, addresses);
        }
        if leg.edit != TagEdit::Keep {
            l3_offset = edit_tag(leg.edit, leg.frame, l3_offset, store);
        }
        if let Some(trim) = leg.trim {
            self.cut(leg, trim, (l3_offset, transit.parsed.payload), store);
        }
        let ecn_capable = transit.parsed.is_ecn_capable();
        if leg.mark {
            let egress = &mut self.ports[leg.to.index()];
            let header = (l3_offset, transit.parsed.payload);
            if mark(egress, leg.queue, leg.frame, leg.mac_len, header, store) {
                self.marked_on_arrival.push(leg.to);
            }
        }
        let mut queued = QueuedFrame::new(leg.frame, leg.mac_len, leg.cells, charge);
        queued.ready_at = transit.now.saturating_add(self.pipeline_latency);
        queued.tc = transit.tc;
        queued.l3_offset = l3_offset;
        queued.payload = transit.parsed.payload;
        queued.set_ecn_capable(ecn_capable);
        if let Some(trim) = leg.trim {
            queued.set_trimmed_for(trim.refused_by);
        }
        queued
    }
}

pub(super) fn queue_drop(transit: &Transit, leg: &Leg, refusal: Refusal) -> Drop {
    Drop {
        port: leg.to,
        mac_len: leg.mac_len,
        refusal: Some(refusal),
        ..transit.drop(DropReason::QueueDropped)
    }
}

/// Edits the outer VLAN tag of a frame. Returns the new offset of the layer 3 header.
#[inline(never)]
pub(super) fn edit_tag<S: Store>(edit: TagEdit, frame: Handle, l3_offset: u8, store: &mut S) -> u8 {
    match edit {
        TagEdit::Keep => l3_offset,
        TagEdit::Rewrite { tpid, tci } => {
            if let Some(octets) = store.prefix_mut(frame).get_mut(12..16) {
                octets[..2].copy_from_slice(&tpid.to_be_bytes());
                octets[2..].copy_from_slice(&tci.to_be_bytes());
            }
            l3_offset
        }
        TagEdit::Push { tpid, tci } => {
            store.push_front(frame, TAG_LEN);
            vlan::write_outer_tag(store.prefix_mut(frame), VlanTag { tpid, tci });
            l3_offset + TAG_LEN as u8
        }
        TagEdit::Pop => {
            vlan::prepare_tag_removal(store.prefix_mut(frame));
            store.pull_front(frame, TAG_LEN);
            l3_offset - TAG_LEN as u8
        }
    }
}
