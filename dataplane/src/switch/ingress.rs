//! The way of a frame from its arrival into the egress queues.

use super::Switch;
use super::departure::mark;
use super::trimming::Trim;
use crate::bridge::{Mac, TagEdit};
use crate::config::MarkPoint;
use crate::drops::DropReason;
use crate::egress::{Charge, QueuedFrame};
use crate::frame::{Arrival, Handle, Store};
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PgId, PortId, QueueId};
use crate::mmu::{EgressPlan, IngressPlan, Refusal};
use crate::outputs::{Drop, Outputs, Punt, PuntReason, Verdict};
use crate::parse::{Parsed, Payload, Tag};
use crate::route::{Held, NeighbourId};
use crate::time::Picos;
use crate::wire::LinkQuality;
use crate::wire::rewrite;
use crate::wire::vlan::{self, TAG_LEN};

/// Octets that a flooded copy stores for itself: all headers the switch may edit, tags included.
pub const FLOOD_PREFIX_BYTES: usize = 128;

/// One way out for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) to: PortId,
    pub(super) queue: usize,
    pub(super) edit: TagEdit,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
    pub(super) mark: bool,
    /// What is left of the frame, if its queue was full.
    pub(super) trim: Option<Trim>,
    pub(super) frame: Handle,
}

/// What is known of an arrival on its way through.
#[derive(Clone, Copy)]
pub(super) struct Transit<'a> {
    pub(super) now: Picos,
    pub(super) from: PortId,
    /// The port or LAG it came in on.
    pub(super) logical: LogicalPort,
    pub(super) pg: PgId,
    /// The VLAN it is forwarded in; `None`: it is routed out of a port of its own.
    pub(super) vlan: Option<u16>,
    /// The router interface it came in on, if it was for the router.
    pub(super) interface: Option<InterfaceId>,
    /// What becomes of its header if it is routed.
    pub(super) rewrite: Option<Rewrite>,
    /// The port or LAG it leaves by, once that is known: [`Way::Unicast`].
    pub(super) to: LogicalPort,
    /// What its sender is to be told if it is dropped.
    pub(super) tell: Option<PuntReason>,
    pub(super) tc: u8,
    pub(super) lossless: bool,
    pub(super) parsed: &'a Parsed,
    pub(super) frame: Handle,
    pub(super) frame_len: u32,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
}

impl Transit<'_> {
    /// The frame is dropped where it came in.
    #[cold]
    pub(super) fn drop(&self, reason: DropReason) -> Drop {
        Drop {
            reason,
            port: self.from,
            tc: self.tc,
            mac_len: self.mac_len,
            refusal: None,
        }
    }

    /// The frame as the CPU port hands it on.
    pub(super) fn punt(&self, reason: PuntReason) -> Punt {
        Punt {
            port: self.from,
            interface: self.interface,
            reason,
            frame: self.frame,
            l3_offset: self.parsed.l3_offset,
        }
    }

    /// The frame as it waits for a neighbour.
    pub(super) fn held(&self) -> Held {
        Held {
            from: Some(self.from),
            interface: self.interface,
            frame: self.frame,
            frame_len: self.frame_len,
            parsed: *self.parsed,
        }
    }

    /// The frame goes out of one port or LAG.
    #[inline(always)]
    pub(super) fn leaves_by(&mut self, to: LogicalPort) -> Way {
        self.to = to;
        Way::Unicast
    }

    /// The frame is dropped on its way out.
    #[cold]
    pub(super) fn drop_at(&self, port: PortId, reason: DropReason) -> Drop {
        Drop {
            port,
            ..self.drop(reason)
        }
    }
}

/// New link addresses of a routed packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewrite {
    pub(super) destination: [u8; 6],
    pub(super) source: [u8; 6],
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Out of one port or LAG: [`Transit::to`]. Not in here, where it would be moved about in memory octet by octet.
    Unicast,
    /// Out of every other port of its VLAN.
    Flood,
    /// To what stands behind the CPU port.
    Cpu(PuntReason),
    /// Nowhere: the switch itself has read it.
    Consumed,
    /// It waits for a neighbour.
    Hold(NeighbourId),
}

/// What the bridge makes of a frame.
enum Bridged {
    /// It is for the router on the VLAN's interface.
    ToRouter(InterfaceId),
    /// It goes this way.
    Onward(Way),
}

impl Switch {
    /// Takes a frame that has arrived on `port` (its last bit at `now`), and says what became of it.
    #[inline(never)]
    pub fn receive<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        match arrival.parsed.payload {
            Payload::MacControl => return self.receive_control(now, port, arrival, store, outputs),
            Payload::Other if LinkQuality::is(store.prefix(arrival.frame)) => {
                return self.receive_link_quality(now, port, arrival, store, outputs);
            }
            _ => {}
        }
        self.marked_on_arrival.clear();
        let mut transit = self.transit(now, port, arrival.frame, arrival.frame_len, &arrival.parsed);
        let counters = &mut self.ports[port.index()].counters;
        counters.rx_packets += 1;
        counters.rx_bytes += u64::from(transit.mac_len);
        counters.rx_class_packets[usize::from(transit.tc)] += 1;
        self.note_order(&transit, store);
        let way = self.find_way(&mut transit, store, outputs);
        let verdict = self.send_on_its_way(&mut transit, way, store, outputs);
        if !self.found.is_empty() {
            self.let_go(now, store, outputs);
        }
        verdict
    }

    /// What is known of a frame before anything is decided.
    #[inline(always)]
    pub(super) fn transit<'a>(
        &self,
        now: Picos,
        from: PortId,
        frame: Handle,
        frame_len: u32,
        parsed: &'a Parsed,
    ) -> Transit<'a> {
        let ingress = &self.ports[from.index()];
        let mac_len = ingress.link.mac_len(frame_len);
        let tc = ingress.traffic_class(parsed);
        let pg = PgId::new(from, ingress.priority_group(tc));
        Transit {
            now,
            from,
            logical: self.lags.logical(from),
            pg,
            vlan: None,
            interface: None,
            rewrite: None,
            to: self.lags.logical(from),
            tell: None,
            tc,
            lossless: self.mmu.lossless(pg),
            parsed,
            frame,
            frame_len,
            mac_len,
            cells: self.mmu.cells(mac_len),
        }
    }

    /// Carries out what was decided on a frame.
    #[inline(always)]
    pub(super) fn send_on_its_way<S: Store>(
        &mut self,
        transit: &mut Transit,
        way: Result<Way, DropReason>,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        match way {
            Ok(Way::Unicast) => match self.unicast(transit, store, outputs) {
                Ok(()) => Verdict::Forwarded { copies: 1 },
                Err(drop) => self.discard(drop, transit.frame, store),
            },
            Ok(Way::Flood) => self.flood(transit, store, outputs),
            Ok(Way::Hold(neighbour)) => self.hold(transit, neighbour, store, outputs),
            Ok(Way::Consumed) => {
                self.ports[transit.from.index()].counters.rx_own_packets += 1;
                store.release(transit.frame);
                Verdict::Punted
            }
            Ok(Way::Cpu(reason)) => {
                self.ports[transit.from.index()].counters.rx_own_packets += 1;
                outputs.punts.push(transit.punt(reason));
                Verdict::Punted
            }
            Err(reason) => self.refuse(transit, reason, store, outputs),
        }
    }

    #[cold]
    pub(super) fn discard<S: Store>(&mut self, drop: Drop, frame: Handle, store: &mut S) -> Verdict {
        self.ports[drop.port.index()].count_drop(&drop);
        store.release(frame);
        Verdict::Dropped(drop)
    }

    /// Drops a frame where it came in. If its sender is to be told, the CPU gets it: as often as the limit lets it.
    #[cold]
    pub(super) fn refuse<S: Store>(
        &mut self,
        transit: &Transit,
        reason: DropReason,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let drop = transit.drop(reason);
        if reason == DropReason::L3EgressLinkDown {
            self.tell_who_sent_here(transit.now, outputs);
        }
        if let Some(tell) = transit.tell
            && self.cpu_attached
            && self.router.icmp_limit.allow(transit.now)
        {
            self.ports[drop.port.index()].count_drop(&drop);
            outputs.punts.push(transit.punt(tell));
            return Verdict::Dropped(drop);
        }
        self.discard(drop, transit.frame, store)
    }

    /// Where the frame goes, by its addresses and its VLAN; the sender is learnt on the way.
    #[inline(always)]
    fn find_way<S: Store>(
        &mut self,
        transit: &mut Transit,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Way, DropReason> {
        let from = transit.logical;
        let ingress = &self.ports[transit.from.index()];
        if !ingress.forwards() {
            return Err(DropReason::PortDown);
        }
        let Some((destination, source)) = Mac::of_frame(store.prefix(transit.frame)) else {
            return Err(DropReason::Truncated);
        };
        if transit.frame_len > ingress.mtu + u32::from(transit.parsed.l3_offset) {
            return Err(DropReason::ExceedsL2Mtu);
        }
        if source.is_group() {
            return Err(DropReason::SmacMulticast);
        }
        if source == destination {
            return Err(DropReason::SmacEqualsDmac);
        }
        if destination.is_reserved() {
            return match self.protocols_attached {
                true => Ok(Way::Cpu(PuntReason::Protocol)),
                false => Err(DropReason::DmacReserved),
            };
        }
        let interface = match self.router.of_logical(from) {
            Some(interface) => match self.arrives_at_router(transit, interface, destination)? {
                true => interface,
                false => return self.not_addressed(transit, interface, destination, store),
            },
            None => match self.bridge(transit, destination, source, store, outputs)? {
                Bridged::Onward(way) => return Ok(way),
                Bridged::ToRouter(interface) => interface,
            },
        };
        self.route(transit, interface, store)
    }

    /// A frame on a port or LAG of the bridge.
    #[inline(always)]
    fn bridge<S: Store>(
        &mut self,
        transit: &mut Transit,
        destination: Mac,
        source: Mac,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Bridged, DropReason> {
        let (now, from) = (transit.now, transit.logical);
        let Some(vlan) = self.vlans.ingress(from, transit.parsed.tag) else {
            return Err(DropReason::IngressVlanFilter);
        };
        transit.vlan = Some(vlan);
        self.fdb.learn(now, vlan, source, from);
        if let Some(interface) = self.router.of_vlan(vlan) {
            if destination == self.router.interface(interface).mac {
                return Ok(Bridged::ToRouter(interface));
            }
            if destination.is_group() {
                self.overhear(transit, interface, store, &mut outputs.punts);
            }
        }
        if destination.is_group() {
            return Ok(Bridged::Onward(Way::Flood));
        }
        match self.fdb.lookup(now, vlan, destination) {
            Some(to) if to == from => Err(DropReason::L2LoopbackFilter),
            Some(to) => Ok(Bridged::Onward(transit.leaves_by(to))),
            None => Ok(Bridged::Onward(Way::Flood)),
        }
    }

    #[inline(always)]
    fn unicast<S: Store>(
        &mut self,
        transit: &Transit,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), Drop> {
        self.refuse_stormed_group(transit)?;
        let to = self
            .lag_member(transit, transit.to, store)
            .ok_or_else(|| transit.drop(DropReason::L3EgressLinkDown))?;
        let mut leg = self
            .leg(transit, to)
            .map_err(|reason| transit.drop_at(to, reason))?;
        if self.frames.room() == 0 {
            return Err(transit.drop(DropReason::NoBufferSpace));
        }
        let queue = QueueId::new(to, leg.queue as u8);
        let admitted = self
            .mmu
            .admit(transit.pg, queue, transit.cells, leg.cells, transit.lossless);
        let (xoff, cells) = match admitted {
            Some(xoff) => (xoff, transit.cells),
            None => self.admit_by_plan(transit, &mut leg, store)?,
        };
        self.accept(transit, xoff, outputs, store);
        let charge = Charge::Own {
            pg: transit.pg,
            cells,
        };
        self.enqueue(transit, &leg, charge, store);
        self.kick(transit.now, to, store, outputs);
        Ok(())
    }

    /// Charges a frame where more than its group's threshold and its queue's has a say. Whether its group has gone to XOFF, and
    /// the cells that it is charged for there: fewer if it was cut.
    #[inline(never)]
    fn admit_by_plan<S: Store>(
        &mut self,
        transit: &Transit,
        leg: &mut Leg,
        store: &S,
    ) -> Result<(bool, u32), Drop> {
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

    /// Where the cells of a leg would be charged on its egress port; the leg is cut short where only that finds room.
    #[inline]
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

    /// Where the frame's cells would be charged on its ingress port.
    #[inline]
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

    /// Counts an accepted frame, and asks the sender to stop if it was the one that filled its group.
    #[inline(always)]
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

    /// What leaving by `to` means for this frame, or why it cannot.
    #[inline(always)]
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
        // Tags do not count against the MTU, so that their edit does not matter.
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

    /// What the watchdog and WRED say on arrival: to mark the frame (true), to leave it, or to drop it.
    #[inline(never)]
    fn early(&mut self, transit: &Transit, to: PortId, queue: usize) -> Result<bool, DropReason> {
        let egress = &mut self.ports[to.index()];
        if egress.dropping_queues & 1 << queue != 0 {
            return Err(DropReason::WatchdogEgress);
        }
        let Some(wred) = &egress.wred[queue] else {
            return Ok(false);
        };
        let may_mark = wred.ecn && transit.parsed.ecn_capable();
        let early_drop = wred.drop && !transit.lossless && !may_mark;
        let mark_here = self.mark_point == MarkPoint::Enqueue && may_mark;
        if !early_drop && !mark_here {
            return Ok(false);
        }
        let queued = self.frames.queued_bytes(to.index() * PRIORITIES + queue);
        let hit = egress.marker.hit(wred, queued);
        if hit && early_drop {
            egress.counters.queues[queue].wred_dropped_packets += 1;
            return Err(DropReason::WredDropped);
        }
        Ok(hit)
    }

    #[inline(always)]
    pub(super) fn enqueue<S: Store>(&mut self, transit: &Transit, leg: &Leg, charge: Charge, store: &mut S) {
        let mut l3_offset = transit.parsed.l3_offset;
        if let Some(Rewrite { destination, source }) = transit.rewrite {
            let frame = store.prefix_mut(leg.frame);
            rewrite::forward(frame, l3_offset, transit.parsed.payload, destination, source);
        }
        if leg.edit != TagEdit::Keep {
            l3_offset = edit_tag(leg.edit, leg.frame, l3_offset, store);
        }
        if let Some(trim) = leg.trim {
            self.cut(leg, trim, (l3_offset, transit.parsed.payload), store);
        }
        let ecn_capable = transit.parsed.ecn_capable();
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
        queued.ecn_capable = ecn_capable;
        queued.trimmed = leg.trim.is_some();
        self.frames.push(leg.to.index() * PRIORITIES + leg.queue, queued);
        self.ports[leg.to.index()].backlog |= 1 << leg.queue;
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

/// Edits the outer tag of a frame; returns where its layer-3 header lies then.
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
            vlan::write_pushed(store.prefix_mut(frame), Tag { tpid, tci });
            l3_offset + TAG_LEN as u8
        }
        TagEdit::Pop => {
            vlan::prepare_pull(store.prefix_mut(frame));
            store.pull_front(frame, TAG_LEN);
            l3_offset - TAG_LEN as u8
        }
    }
}
