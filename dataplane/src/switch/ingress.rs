//! The way of a frame from its arrival to the decision where it goes.

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
use xoff_wire::parse::{Parsed, Payload};
use xoff_wire::rewrite::LinkAddresses;

/// Octets that a flooded copy stores for itself: all headers the switch may edit, tags included.
pub const FLOOD_PREFIX_BYTES: usize = 128;

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
    /// Its new link addresses, if it is routed.
    pub(super) rewrite: Option<LinkAddresses>,
    /// The port or LAG it leaves by, once that is known: [`Way::Unicast`].
    pub(super) to: LogicalPort,
    /// What its sender is to be told if it is dropped.
    pub(super) tell: Option<PuntReason>,
    pub(super) tc: u8,
    pub(super) lossless: bool,
    /// The watchdog has what its group receives dropped.
    pub(super) stormed: bool,
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

    /// Nothing is taken from a priority group whose queue the watchdog makes drop.
    #[inline(always)]
    pub(super) fn refuse_stormed(&self) -> Result<(), Drop> {
        match self.stormed {
            false => Ok(()),
            true => Err(self.drop(DropReason::WatchdogIngress)),
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
    /// As [`Switch::receive`], of any frame.
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
            Payload::Other if LinkQuality::is(store.prefix(arrival.frame)) => {
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

    /// Counts a frame that has arrived.
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

    /// As [`transit`], of a frame that came in earlier.
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

    /// Carries out what was decided on a frame.
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

    /// A frame on a port or LAG of the bridge.
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

/// What is known of a frame before anything is decided.
fn transit<'a>(
    ingress: &Port,
    mmu: &Mmu,
    now: Picos,
    from: PortId,
    frame: Handle,
    frame_len: u32,
    parsed: &'a Parsed,
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
