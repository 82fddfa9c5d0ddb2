//! The full packet path from the arrival of a frame to its forwarding decision.

use super::Switch;
use super::port::Port;
use crate::bridge::Mac;
use crate::drops::DropReason;
use crate::frame::{Arrival, Handle, Store};
use crate::ids::{InterfaceId, LogicalPort, PgId, PortId};
use crate::mmu::Mmu;
use crate::outputs::{Drop, Outputs, Punt, PuntReason, Verdict};
use crate::route::{Held, NeighbourId};
use xoff_units::Picos;
use xoff_wire::LinkQuality;
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::rewrite::LinkAddresses;

/// Bytes that a flooded copy stores for itself. They hold all headers that the switch may edit, with tags.
pub const FLOOD_PREFIX_BYTES: usize = 128;

/// A received frame and what the switch has decided about it.
#[derive(Clone, Copy)]
pub(super) struct Transit<'a> {
    pub(super) now: Picos,
    pub(super) from: PortId,
    /// The ingress port, or its LAG.
    pub(super) logical: LogicalPort,
    pub(super) pg: PgId,
    /// The VLAN in which the frame is forwarded. `None`: the frame is routed to a port without VLAN.
    pub(super) vlan: Option<u16>,
    /// The ingress router interface, if the frame was addressed to the router.
    pub(super) interface: Option<InterfaceId>,
    /// The new MAC addresses of a routed frame.
    pub(super) rewrite: Option<LinkAddresses>,
    /// The egress port or LAG of [`ForwardingDecision::Unicast`].
    pub(super) to: LogicalPort,
    /// The ICMP error for the sender if the frame is dropped.
    pub(super) tell: Option<PuntReason>,
    pub(super) tc: u8,
    pub(super) lossless: bool,
    /// True if the watchdog drops the frames of the priority group.
    pub(super) stormed: bool,
    pub(super) parsed: &'a ParsedHeaders,
    pub(super) frame: Handle,
    pub(super) frame_len: u32,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
}

impl Transit<'_> {
    /// Describes the drop of this frame at its ingress port.
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

    /// The frame as an entry of [`Outputs::punts`].
    pub(super) fn punt(&self, reason: PuntReason) -> Punt {
        Punt {
            port: self.from,
            interface: self.interface,
            reason,
            frame: self.frame,
            l3_offset: self.parsed.l3_offset,
        }
    }

    /// The frame as an entry of the frames that wait for a neighbour.
    pub(super) fn held(&self) -> Held {
        Held {
            from: Some(self.from),
            interface: self.interface,
            frame: self.frame,
            frame_len: self.frame_len,
            parsed: *self.parsed,
        }
    }

    /// Drops the frame if the watchdog drops the frames of its priority group.
    #[inline(always)]
    pub(super) fn refuse_stormed(&self) -> Result<(), Drop> {
        match self.stormed {
            false => Ok(()),
            true => Err(self.drop(DropReason::WatchdogIngress)),
        }
    }

    /// Sets the egress port or LAG of a unicast frame.
    #[inline(always)]
    pub(super) fn leaves_by(&mut self, to: LogicalPort) -> Way {
        self.to = to;
        Way::Unicast
    }

    /// Describes the drop of this frame at an egress port.
    #[cold]
    pub(super) fn drop_at(&self, port: PortId, reason: DropReason) -> Drop {
        Drop {
            port,
            ..self.drop(reason)
        }
    }
}

/// Where a frame is forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// To one port or LAG, [`FrameContext::to`]. The port is not stored here, so that this enum stays small.
    Unicast,
    /// To every other port of its VLAN.
    Flood,
    /// To the CPU port.
    Cpu(PuntReason),
    /// To no port: the switch itself has processed the frame.
    Consumed,
    /// The frame waits for a neighbour.
    Hold(NeighbourId),
}

/// The result of bridging a frame.
enum Bridged {
    /// The frame is addressed to the router on the VLAN's interface.
    ToRouter(InterfaceId),
    /// The frame is forwarded within its VLAN.
    Onward(Way),
}

impl Switch {
    /// As [`Switch::receive`], for frames of all kinds.
    #[inline(never)]
    pub(super) fn receive_any<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        match arrival.parsed.payload {
            Payload::MacControl => return self.receive_control(now, port, arrival, store, outputs),
            Payload::Other if LinkQuality::is_link_quality(store.prefix(arrival.frame)) => {
                return self.receive_link_quality(now, port, arrival, store, outputs);
            }
            _ => {}
        }
        let mut transit = self.arrives(now, port, arrival);
        self.note_order(&transit, store);
        let ingress = &self.ports[port.index()];
        let way = match ingress.refuses(arrival.frame_len, arrival.parsed.l3_offset) {
            None => self.find_way(&mut transit, store, outputs),
            Some(reason) => Err(reason),
        };
        let verdict = self.send_on_its_way(&mut transit, way, store, outputs);
        if !self.found.is_empty() {
            self.let_go(now, store, outputs);
        }
        verdict
    }

    /// Counts a received frame and creates its context.
    pub(super) fn arrives<'a>(&mut self, now: Picos, port: PortId, arrival: &'a Arrival) -> Transit<'a> {
        let ingress = &mut self.ports[port.index()];
        let (frame, frame_len) = (arrival.frame, arrival.frame_len);
        let transit = transit(ingress, &self.mmu, now, port, frame, frame_len, &arrival.parsed);
        let counters = &mut ingress.counters;
        counters.rx_packets += 1;
        counters.rx_bytes += u64::from(transit.mac_len);
        counters.rx_class_packets[usize::from(transit.tc)] += 1;
        transit
    }

    /// Creates the context of a frame that waited for a neighbour.
    pub(super) fn transit_again<'a>(&self, now: Picos, from: PortId, held: &'a Held) -> Transit<'a> {
        let ingress = &self.ports[from.index()];
        transit(
            ingress,
            &self.mmu,
            now,
            from,
            held.frame,
            held.frame_len,
            &held.parsed,
        )
    }

    /// Executes the forwarding decision or the drop.
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

    /// Drops a frame at its ingress port. If an ICMP error is due, the CPU gets the frame, within the rate
    /// limit.
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

    /// Decides where the frame goes, from its addresses and its VLAN, and learns the source address.
    fn find_way<S: Store>(
        &mut self,
        transit: &mut Transit,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<Way, DropReason> {
        let Some((destination, source)) = Mac::of_frame(store.prefix(transit.frame)) else {
            return Err(DropReason::Truncated);
        };
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
        let entrance = self.ports[transit.from.index()].entrance;
        let interface = match entrance.interface {
            Some(interface) => match self.arrives_at_router(transit, entrance.mac, destination)? {
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

    /// Bridges a frame of a bridged port or LAG.
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
}

/// Creates the context of a frame before any decision.
fn transit<'a>(
    ingress: &Port,
    mmu: &Mmu,
    now: Picos,
    from: PortId,
    frame: Handle,
    frame_len: u32,
    parsed: &'a ParsedHeaders,
) -> Transit<'a> {
    let mac_len = ingress.link.mac_len(frame_len);
    let tc = ingress.traffic_class(parsed);
    let group = ingress.priority_group(tc);
    let pg = PgId::new(from, group);
    Transit {
        now,
        from,
        logical: ingress.entrance.logical,
        pg,
        vlan: None,
        interface: None,
        rewrite: None,
        to: ingress.entrance.logical,
        tell: None,
        tc,
        lossless: mmu.lossless(pg),
        stormed: ingress.dropping_groups & 1 << group != 0,
        parsed,
        frame,
        frame_len,
        mac_len,
        cells: mmu.cells(mac_len),
    }
}
