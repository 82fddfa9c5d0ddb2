//! The way of a frame from its arrival into the egress queues.

use super::Switch;
use super::timers::TimerKind;
use crate::bridge::TagEdit;
use crate::config::MarkPoint;
use crate::drops::DropReason;
use crate::egress::{Charge, QueuedFrame};
use crate::frame::{Arrival, Handle, Store};
use crate::ids::{PRIORITIES, PgId, PortId, QueueId};
use crate::outputs::{Drop, Outputs, Punt, Verdict};
use crate::parse::{Payload, Tag};
use crate::time::Picos;
use crate::wire::mac_control::{MacControl, Pfc};
use crate::wire::vlan;

/// Octets that a flooded copy stores for itself: all headers the switch may edit, tags included.
pub const FLOOD_PREFIX_BYTES: usize = 128;
const ETHERNET_HEADER: u32 = 14;
const TAG: u32 = 4;

/// One way out for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    to: PortId,
    queue: usize,
    edit: TagEdit,
    mac_len: u32,
    cells: u32,
    mark: bool,
    frame: Handle,
}

/// What is known of an arrival on its way through.
#[derive(Clone, Copy)]
struct Transit {
    now: Picos,
    from: PortId,
    vlan: u16,
    tc: u8,
    lossless: bool,
    tag: Option<Tag>,
    frame_len: u32,
    ecn_capable: bool,
}

impl Switch {
    /// Takes a frame that has arrived on `port` (its last bit at `now`), and says what became of it.
    pub fn receive<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        if arrival.parsed.payload == Payload::MacControl {
            return self.receive_control(now, port, arrival, store, outputs);
        }
        let ingress = &mut self.ports[port.index()];
        let mac_len = ingress.link.mac_len(arrival.frame_len);
        let tc = ingress.traffic_class(&arrival.parsed);
        ingress.counters.rx_packets += 1;
        ingress.counters.rx_bytes += u64::from(mac_len);
        ingress.counters.rx_class_packets[usize::from(tc)] += 1;
        match self.forward(now, port, arrival, mac_len, tc, store, outputs) {
            Ok(verdict) => verdict,
            Err(drop) => {
                self.ports[drop.port.index()].count_drop(&drop);
                store.release(arrival.frame);
                Verdict::Dropped(drop)
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // one call site; a struct would only rename the list
    fn forward<S: Store>(
        &mut self,
        now: Picos,
        from: PortId,
        arrival: &Arrival,
        mac_len: u32,
        tc: u8,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Verdict, Drop> {
        let parsed = &arrival.parsed;
        let ingress = &self.ports[from.index()];
        let refuse = |reason| Drop {
            reason,
            port: from,
            tc,
            refusal: None,
        };
        if !ingress.up() {
            return Err(refuse(DropReason::PortDown));
        }
        let Some((destination, source)) = addresses(store.prefix(arrival.frame)) else {
            return Err(refuse(DropReason::Truncated));
        };
        if arrival.frame_len > ingress.mtu + u32::from(parsed.l3_offset) {
            return Err(refuse(DropReason::ExceedsL2Mtu));
        }
        check_addresses(destination, source).map_err(refuse)?;
        if is_reserved(destination) {
            if !self.cpu_attached {
                return Err(refuse(DropReason::DmacReserved));
            }
            outputs.punts.push(Punt {
                port: from,
                frame: arrival.frame,
            });
            return Ok(Verdict::Punted);
        }
        let vlan = self
            .vlans
            .ingress(from, parsed.tag)
            .ok_or_else(|| refuse(DropReason::IngressVlanFilter))?;
        self.fdb.learn(now, vlan, source, from);
        let pg = PgId::new(from, ingress.priority_group(tc));
        let transit = Transit {
            now,
            from,
            vlan,
            tc,
            lossless: self.mmu.lossless(pg),
            tag: parsed.tag,
            frame_len: arrival.frame_len,
            ecn_capable: parsed.ecn_capable(),
        };
        let known = if is_group(destination) {
            None
        } else {
            self.fdb.lookup(now, vlan, destination)
        };
        match known {
            Some(to) if to == from => Err(refuse(DropReason::L2LoopbackFilter)),
            Some(to) => self.unicast(&transit, pg, to, arrival, mac_len, store, outputs),
            None => self.flood(&transit, pg, arrival, mac_len, store, outputs),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn unicast<S: Store>(
        &mut self,
        transit: &Transit,
        pg: PgId,
        to: PortId,
        arrival: &Arrival,
        mac_len: u32,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Verdict, Drop> {
        let leg = self.leg(transit, to, arrival.frame)?;
        let cells = self.mmu.cells(mac_len);
        let plan = self.plan_ingress(transit, pg, cells, 1)?;
        let queue = QueueId::new(to, leg.queue as u8);
        let egress = self
            .mmu
            .plan_egress(queue, leg.cells, transit.lossless)
            .map_err(|refusal| queue_drop(to, transit.tc, refusal))?;
        self.mmu.commit_egress(queue, egress);
        let xoff = self.mmu.commit_ingress(pg, plan);
        self.accept(transit, pg, mac_len, xoff, outputs, store);
        self.enqueue(transit, leg, Charge::Own { pg, cells }, arrival, store);
        self.kick(transit.now, to, store, outputs);
        Ok(Verdict::Forwarded { copies: 1 })
    }

    fn flood<S: Store>(
        &mut self,
        transit: &Transit,
        pg: PgId,
        arrival: &Arrival,
        mac_len: u32,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Verdict, Drop> {
        let cells = self.mmu.cells(mac_len);
        let members = self.vlans.members(transit.vlan).len();
        let plan = self.plan_ingress(transit, pg, cells, members)?;
        let mut legs = core::mem::take(&mut self.legs);
        legs.clear();
        let refused = self.flood_legs(transit, arrival.frame, &mut legs, store);
        if legs.is_empty() {
            self.legs = legs;
            let none = Drop {
                reason: DropReason::L2LoopbackFilter,
                port: transit.from,
                tc: transit.tc,
                refusal: None,
            };
            return Err(refused.unwrap_or(none));
        }
        if let Some(drop) = refused {
            self.ports[drop.port.index()].count_drop(&drop);
        }
        let copies = legs.len() as u16;
        let charge = match copies {
            1 => Charge::Own { pg, cells },
            n => self.frames.share_charge(pg, cells, u32::from(n)),
        };
        let xoff = self.mmu.commit_ingress(pg, plan);
        self.accept(transit, pg, mac_len, xoff, outputs, store);
        for leg in &legs {
            self.enqueue(transit, *leg, charge, arrival, store);
        }
        for leg in &legs {
            self.kick(transit.now, leg.to, store, outputs);
        }
        self.legs = legs;
        Ok(Verdict::Forwarded { copies })
    }

    /// Finds the ports a flooded frame can leave by, charges their queues and makes the copies; the last leg
    /// takes the frame itself. Refusals are counted, but for the last one, which is returned.
    fn flood_legs<S: Store>(
        &mut self,
        transit: &Transit,
        original: Handle,
        legs: &mut Vec<Leg>,
        store: &mut S,
    ) -> Option<Drop> {
        let mut refused: Option<Drop> = None;
        for index in 0..self.vlans.members(transit.vlan).len() {
            let to = self.vlans.members(transit.vlan)[index];
            if to == transit.from || !self.ports[to.index()].up() {
                continue;
            }
            let result = self.leg(transit, to, original).and_then(|leg| {
                let queue = QueueId::new(to, leg.queue as u8);
                let plan = self
                    .mmu
                    .plan_egress(queue, leg.cells, transit.lossless)
                    .map_err(|refusal| queue_drop(to, transit.tc, refusal))?;
                self.mmu.commit_egress(queue, plan);
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
        let originals = legs.len().saturating_sub(1);
        let mut index = 0;
        for _ in 0..originals {
            match store.copy(original, FLOOD_PREFIX_BYTES) {
                Some(copy) => {
                    legs[index].frame = copy;
                    index += 1;
                }
                None => {
                    let leg = legs.remove(index);
                    self.mmu
                        .release_egress(QueueId::new(leg.to, leg.queue as u8), leg.cells);
                    let reason = DropReason::NoBufferSpace;
                    let drop = Drop {
                        reason,
                        port: leg.to,
                        tc: transit.tc,
                        refusal: None,
                    };
                    self.ports[leg.to.index()].count_drop(&drop);
                }
            }
        }
        refused
    }

    fn plan_ingress(
        &self,
        transit: &Transit,
        pg: PgId,
        cells: u32,
        copies: usize,
    ) -> Result<crate::mmu::IngressPlan, Drop> {
        let drop = |reason, refusal| Drop {
            reason,
            port: transit.from,
            tc: transit.tc,
            refusal,
        };
        if self.frames.room() < copies {
            return Err(drop(DropReason::NoBufferSpace, None));
        }
        self.mmu
            .plan_ingress(pg, cells)
            .map_err(|refusal| drop(DropReason::PriorityGroupDropped, Some(refusal)))
    }

    /// Counts an accepted frame, and asks the sender to stop if it was the one that filled its group.
    fn accept<S: Store>(
        &mut self,
        transit: &Transit,
        pg: PgId,
        mac_len: u32,
        xoff: bool,
        outputs: &mut Outputs,
        store: &mut S,
    ) {
        let ingress = &mut self.ports[transit.from.index()];
        let group = &mut ingress.counters.pgs[usize::from(pg.number())];
        group.packets += 1;
        group.bytes += u64::from(mac_len);
        if xoff {
            group.xoff_transitions += 1;
            let priorities = ingress.signalling(pg.number());
            ingress.generator.xoff(transit.now, priorities);
            self.kick_control(transit.now, transit.from, store, outputs);
        }
    }

    /// What leaving by `to` means for this frame, or why it cannot.
    fn leg(&mut self, transit: &Transit, to: PortId, frame: Handle) -> Result<Leg, Drop> {
        let drop = |reason| Drop {
            reason,
            port: to,
            tc: transit.tc,
            refusal: None,
        };
        let mark_point = self.mark_point;
        let egress = &mut self.ports[to.index()];
        if !egress.up() {
            return Err(drop(DropReason::L3EgressLinkDown));
        }
        let edit = self
            .vlans
            .egress(transit.from, to, transit.vlan, transit.tag)
            .ok_or_else(|| drop(DropReason::EgressVlanFilter))?;
        let frame_len = match edit {
            TagEdit::Pop => transit.frame_len - TAG,
            TagEdit::Push { .. } => transit.frame_len + TAG,
            TagEdit::Keep | TagEdit::Rewrite { .. } => transit.frame_len,
        };
        if frame_len > egress.mtu + ETHERNET_HEADER + 2 * TAG {
            return Err(drop(DropReason::ExceedsL2Mtu));
        }
        let queue = egress.queue(transit.tc);
        let mut mark = false;
        if let Some(wred) = &egress.wred[queue] {
            let early_drop = wred.drop && !transit.lossless && !(wred.ecn && transit.ecn_capable);
            let mark_here = mark_point == MarkPoint::Enqueue && wred.ecn && transit.ecn_capable;
            if early_drop || mark_here {
                let queued = self.frames.queued_bytes(to.index() * PRIORITIES + queue);
                let hit = egress.marker.hit(wred, queued);
                if hit && early_drop {
                    egress.counters.queues[queue].wred_dropped_packets += 1;
                    return Err(drop(DropReason::WredDropped));
                }
                mark = hit;
            }
        }
        let mac_len = egress.link.mac_len(frame_len);
        Ok(Leg {
            to,
            queue,
            edit,
            mac_len,
            cells: self.mmu.cells(mac_len),
            mark,
            frame,
        })
    }

    fn enqueue<S: Store>(
        &mut self,
        transit: &Transit,
        leg: Leg,
        charge: Charge,
        arrival: &Arrival,
        store: &mut S,
    ) {
        edit_tag(leg.edit, leg.frame, store);
        let shift = match leg.edit {
            TagEdit::Push { .. } => TAG as u8,
            TagEdit::Pop => (TAG as u8).wrapping_neg(),
            _ => 0,
        };
        let queued = QueuedFrame {
            frame: leg.frame,
            next: crate::egress::NO_FRAME,
            mac_len: leg.mac_len,
            cells: leg.cells,
            charge,
            ready_at: transit.now.saturating_add(self.pipeline_latency),
            tc: transit.tc,
            l3_offset: arrival.parsed.l3_offset.wrapping_add(shift),
            payload: arrival.parsed.payload,
            ecn_capable: transit.ecn_capable,
            mark: leg.mark,
        };
        self.frames.push(leg.to.index() * PRIORITIES + leg.queue, queued);
        self.ports[leg.to.index()].backlog |= 1 << leg.queue;
    }

    fn receive_control<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let bytes = store.prefix(arrival.frame);
        self.control_log.record(now, port, bytes);
        let ingress = &mut self.ports[port.index()];
        let verdict = match MacControl::parse(bytes) {
            _ if !ingress.up() => Err(DropReason::PortDown),
            Err(_) => Err(DropReason::MacControlUnknown),
            // 802.3x: ignored while PFC is on, and without PFC nothing here obeys it yet.
            Ok(MacControl::Pause { .. }) => {
                ingress.counters.pause_rx += 1;
                Ok(false)
            }
            Ok(MacControl::Pfc(Pfc { enable, quanta })) => {
                ingress.counters.pfc_rx_frames += 1;
                crate::pfc::bits(enable).for_each(|n| ingress.counters.pfc_rx[n] += 1);
                ingress
                    .receiver
                    .receive(now, enable, &quanta, ingress.pfc.honoured(), &ingress.link);
                Ok(ingress.refresh_paused_queues())
            }
        };
        store.release(arrival.frame);
        match verdict {
            Ok(resumed) => {
                let expiry = self.ports[port.index()].receiver.next_expiry();
                self.timers.arm(port, TimerKind::PauseExpiry, expiry, outputs);
                if resumed {
                    self.kick(now, port, store, outputs);
                }
                Verdict::Control
            }
            Err(reason) => {
                let drop = Drop {
                    reason,
                    port,
                    tc: 0,
                    refusal: None,
                };
                self.ports[port.index()].count_drop(&drop);
                Verdict::Dropped(drop)
            }
        }
    }
}

fn queue_drop(port: PortId, tc: u8, refusal: crate::mmu::Refusal) -> Drop {
    Drop {
        reason: DropReason::QueueDropped,
        port,
        tc,
        refusal: Some(refusal),
    }
}

/// Destination and source address.
fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    let header: &[u8; 14] = frame.first_chunk()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, _, _] = *header;
    Some(([a, b, c, d, e, f], [g, h, i, j, k, l]))
}

fn check_addresses(destination: [u8; 6], source: [u8; 6]) -> Result<(), DropReason> {
    if is_group(source) {
        return Err(DropReason::SmacMulticast);
    }
    if source == destination {
        return Err(DropReason::SmacEqualsDmac);
    }
    Ok(())
}

fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 != 0
}

/// 01-80-C2-00-00-00 to -0F (IEEE 802.1Q table 8-1).
fn is_reserved(address: [u8; 6]) -> bool {
    matches!(address, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

fn edit_tag<S: Store>(edit: TagEdit, frame: Handle, store: &mut S) {
    match edit {
        TagEdit::Keep => {}
        TagEdit::Rewrite { tpid, tci } => {
            let [a, b] = tpid.to_be_bytes();
            let [c, d] = tci.to_be_bytes();
            store.prefix_mut(frame)[12..16].copy_from_slice(&[a, b, c, d]);
        }
        TagEdit::Push { tpid, tci } => {
            store.push_front(frame, TAG as usize);
            vlan::write_pushed(store.prefix_mut(frame), Tag { tpid, tci });
        }
        TagEdit::Pop => {
            vlan::prepare_pull(store.prefix_mut(frame));
            store.pull_front(frame, TAG as usize);
        }
    }
}
