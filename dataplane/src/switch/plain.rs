//! The way of a plain frame, from its arrival into its queue, in one go.
//!
//! Nearly all frames are plain: untagged, IP, known addresses, one port to leave by, room under every limit. What could become of
//! other frames is not carried along here, which is most of what a frame costs: whatever is not plain is left to
//! [`Switch::receive_any`], which knows every case. Nothing is done before it is certain that a frame is plain, but for two things:
//! an address is learnt (learning it again changes nothing), and a next hop is chosen, which is not done twice: such a frame goes
//! on from there ([`Decided`]). What is decided is decided by the same rules, called from both; `tests/plain_frames.rs` holds
//! one against the other.

use super::Switch;
use super::port::Entrance;
use crate::balance::Asked;
use crate::bridge::{Mac, TagEdit};
use crate::egress::{Charge, QueuedFrame};
use crate::frame::{Arrival, Store};
use crate::ids::{LogicalPort, NextHopId, PgId, PortId, QueueId, TRAFFIC_CLASSES};
use crate::outputs::{Outputs, Verdict};
use crate::route::RouteAhead;
use crate::route::packet::{self, Destination, Scope};
use xoff_units::Picos;
use xoff_wire::ETHERNET_LEN;
use xoff_wire::parse::Payload;
use xoff_wire::rewrite::{self, LinkAddresses};

/// What a plain frame counts as where it comes in.
#[derive(Clone, Copy)]
struct Class {
    tc: u8,
    mac_len: u32,
}

/// The way of a plain frame that is routed.
#[derive(Clone, Copy)]
struct RoutedWay {
    to: PortId,
    /// Its new link addresses.
    addresses: LinkAddresses,
}

/// The way of a plain frame that is bridged.
#[derive(Clone, Copy)]
struct BridgedWay {
    to: PortId,
    vlan: u16,
}

/// How much has been decided on a frame that has turned out not to be plain.
pub(super) enum Decided {
    /// Nothing.
    Nothing,
    /// Its next hop; `None`: none can be reached now.
    NextHop(Option<NextHopId>),
}

/// What has become of a frame whose way is plain.
enum Entered {
    /// It stands in its queue, and will be called for.
    Waits,
    /// It stands in its queue, and the link is free.
    FindsLinkFree,
    /// It stands in no queue: it may leave at once.
    FindsPortAtRest(QueueId, QueuedFrame),
    /// Nothing: it is not plain what becomes of it there.
    Not,
}

impl Switch {
    /// Takes a frame that has arrived on `port` (its last bit at `now`), and says what became of it.
    #[inline(always)]
    pub fn receive<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        self.receive_ahead(now, port, arrival, RouteAhead::NONE, store, outputs)
    }

    /// What the routes say of an IPv4 destination, for a packet that will be handed to [`Switch::receive_ahead`]. Good until
    /// [`Switch::set_fib`]: one of an earlier generation is the caller's mistake. A look-up is a chain of loads that wait for each
    /// other, and most of a packet's way waits for it: those of several packets in a row overlap.
    #[inline(always)]
    pub fn look_ahead(&self, destination: u32) -> RouteAhead {
        RouteAhead::new(self.router.fib.find_v4(destination))
    }

    /// As [`Switch::receive`], of a frame of which is known what the routes say of its destination.
    #[inline(always)]
    pub fn receive_ahead<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        ahead: RouteAhead,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        // What becomes of nearly all frames. A result would need a register all the way for where to write it.
        let mut verdict = Verdict::Forwarded { copies: 1 };
        self.receive_into(now, port, (arrival, ahead), store, outputs, &mut verdict);
        verdict
    }

    /// As [`Switch::receive`], whose result is there already unless it is another.
    #[inline(never)] // one body for every driver
    fn receive_into<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        (arrival, ahead): (&Arrival, RouteAhead),
        store: &mut S,
        outputs: &mut Outputs,
        verdict: &mut Verdict,
    ) {
        self.marked_on_arrival.clear();
        let frame = store.prefix_mut(arrival.frame);
        let Some((entrance, class, destination, source)) = self.plain_start(port, arrival, frame) else {
            *verdict = self.receive_any(now, port, arrival, store, outputs);
            return;
        };
        // What follows is there twice, once for each kind of port: so neither carries along what the other needs.
        if entrance.interface.is_none() {
            let Some(way) = self.plain_bridge(now, entrance, destination, source) else {
                *verdict = self.receive_any(now, port, arrival, store, outputs);
                return;
            };
            match self.enter_plainly(now, port, arrival, (class, way.to, None), frame, outputs) {
                Entered::Waits => {}
                Entered::FindsPortAtRest(id, frame) => self.pass_through(now, id, &frame, store, outputs),
                Entered::FindsLinkFree => self.serve_at_once(now, way.to, store, outputs),
                Entered::Not => *verdict = self.receive_bridged(now, port, arrival, way, store, outputs),
            }
            return;
        }
        if destination != entrance.mac {
            *verdict = self.receive_any(now, port, arrival, store, outputs);
            return;
        }
        let way = match self.plain_route(now, port, (arrival, ahead), class, frame) {
            Ok(way) => way,
            Err(Decided::Nothing) => {
                *verdict = self.receive_any(now, port, arrival, store, outputs);
                return;
            }
            Err(Decided::NextHop(hop)) => {
                *verdict = self.receive_towards(now, port, arrival, hop, store, outputs);
                return;
            }
        };
        let addresses = Some(way.addresses);
        match self.enter_plainly(now, port, arrival, (class, way.to, addresses), frame, outputs) {
            Entered::Waits => {}
            Entered::FindsPortAtRest(id, frame) => self.pass_through(now, id, &frame, store, outputs),
            Entered::FindsLinkFree => self.serve_at_once(now, way.to, store, outputs),
            Entered::Not => *verdict = self.receive_routed(now, port, arrival, way, store, outputs),
        }
    }

    /// What a frame is by its port and addresses; `None`: it is not plain.
    #[inline(always)]
    fn plain_start(
        &self,
        port: PortId,
        arrival: &Arrival,
        frame: &[u8],
    ) -> Option<(Entrance, Class, Mac, Mac)> {
        let ingress = &self.ports[port.index()];
        let parsed = &arrival.parsed;
        if !matches!(parsed.payload, Payload::Ipv4 | Payload::Ipv6)
            || parsed.tag.is_some()
            || ingress.refuses(arrival.frame_len, ETHERNET_LEN as u8).is_some()
            || self.reordering.is_some()
        {
            return None;
        }
        let class = Class {
            tc: ingress.traffic_class(parsed),
            mac_len: ingress.link.mac_len(arrival.frame_len),
        };
        let (destination, source) = Mac::of_frame(frame)?;
        if source.is_group() || source == destination {
            return None;
        }
        Some((ingress.entrance, class, destination, source))
    }

    /// The way of a frame between two ports of one VLAN that have no tags there.
    #[inline(always)]
    fn plain_bridge(
        &mut self,
        now: Picos,
        entrance: Entrance,
        destination: Mac,
        source: Mac,
    ) -> Option<BridgedWay> {
        let from = entrance.logical;
        let vlan = self.vlans.ingress(from, None)?;
        self.fdb.learn(now, vlan, source, from);
        let own = |interface| self.router.interface(interface).mac == destination;
        if destination.is_group() || self.router.of_vlan(vlan).is_some_and(own) {
            return None;
        }
        let to = self.fdb.lookup(now, vlan, destination)?;
        let keeps = self.vlans.egress(from, to, vlan, None) == Some(TagEdit::Keep);
        if to == from || !keeps || self.lags.index_of(to).is_some() {
            return None;
        }
        Some(BridgedWay {
            to: PortId(to.0),
            vlan,
        })
    }

    /// The way of an IPv4 packet from one port to another, by a next hop that is known.
    #[inline(always)]
    fn plain_route(
        &mut self,
        now: Picos,
        port: PortId,
        (arrival, ahead): (&Arrival, RouteAhead),
        class: Class,
        frame: &[u8],
    ) -> Result<RoutedWay, Decided> {
        let parsed = &arrival.parsed;
        let l3 = frame.get(ETHERNET_LEN..).unwrap_or(&[]);
        if parsed.payload != Payload::Ipv4 || usize::from(parsed.l3_offset) != ETHERNET_LEN {
            return Err(Decided::Nothing);
        }
        let Ok(packet) = packet::ipv4(l3) else {
            return Err(Decided::Nothing);
        };
        let Destination::V4(destination) = packet.destination else {
            return Err(Decided::Nothing);
        };
        if packet.scope != Scope::Global || packet.ttl <= 1 {
            return Err(Decided::Nothing);
        }
        let found = match ahead.leaf() {
            Some(found) => found,
            None => self.router.fib.find_v4(destination),
        };
        debug_assert_eq!(
            found,
            self.router.fib.find_v4(destination),
            "looked up for another packet"
        );
        let hop = if let Some(group) = found.group() {
            let asked = || Asked {
                now,
                mac_len: class.mac_len,
                tc: class.tc,
                parsed,
                l3,
            };
            match self.group_member(port, group, parsed, l3, asked) {
                Some(hop) => Ok(hop),
                None => return Err(Decided::NextHop(None)),
            }
        } else if let Some(hop) = found.next_hop() {
            Ok(hop)
        } else if let Some(interface) = found.connected() {
            Err(interface)
        } else {
            return Err(Decided::Nothing);
        };
        let adjacency = match hop {
            Ok(hop) => self.router.adjacency(hop),
            Err(interface) => self.router.adjacency_on(interface, destination),
        };
        if packet.len > adjacency.mtu {
            return Err(match hop {
                Ok(hop) => Decided::NextHop(Some(hop)),
                Err(_) => Decided::Nothing,
            });
        }
        Ok(RoutedWay {
            to: PortId(adjacency.port),
            addresses: adjacency.addresses,
        })
    }

    /// Charges, counts and queues a frame whose way is known, if it is plain what becomes of it there; if not, nothing is done.
    #[inline(always)]
    fn enter_plainly(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        (Class { tc, mac_len }, to, rewrite): (Class, PortId, Option<LinkAddresses>),
        frame: &mut [u8],
        outputs: &mut Outputs,
    ) -> Entered {
        let (parsed, frame_len) = (&arrival.parsed, arrival.frame_len);
        let places = [port.index(), to.index()];
        let Ok([ingress, egress]) = self.ports.get_disjoint_mut(places) else {
            return Entered::Not;
        };
        let group = ingress.priority_group(tc);
        let queue = egress.queue(tc);
        let pg = PgId::new(port, group);
        let early = match self.mmu.lossless(pg) {
            true => egress.early_lossless,
            false => egress.early_queues,
        };
        if ingress.dropping_groups & 1 << group != 0
            || !egress.up
            || frame_len > egress.mtu + ETHERNET_LEN as u32
            || early & 1 << queue != 0
            || self.frames.room() == 0
            || !egress.link.has_lengths_of(&ingress.link)
        {
            return Entered::Not;
        }
        let cells = self.mmu.cells(mac_len);
        let id = QueueId::new(to, queue as u8);
        if !self.mmu.admit(pg, id, cells) {
            return Entered::Not;
        }
        let counters = &mut ingress.counters;
        counters.rx_packets += 1;
        counters.rx_bytes += u64::from(mac_len);
        counters.rx_class_packets[usize::from(tc) % TRAFFIC_CLASSES] += 1;
        let counters = &mut counters.pgs[usize::from(group)];
        counters.packets += 1;
        counters.bytes += u64::from(mac_len);
        if let Some(addresses) = rewrite {
            let whole = rewrite::forward_untagged_ipv4(frame, addresses);
            debug_assert!(whole, "its header has been read");
        }
        let mut queued = QueuedFrame::new(arrival.frame, mac_len, cells, Charge::Own { pg, cells });
        queued.ready_at = now.saturating_add(self.pipeline_latency);
        queued.tc = tc;
        queued.l3_offset = parsed.l3_offset;
        queued.payload = parsed.payload;
        queued.set_ecn_capable(parsed.ecn_capable());
        if self.pipeline_latency == Picos::ZERO && egress.is_at_rest(now, queue) {
            return Entered::FindsPortAtRest(id, queued);
        }
        egress.enqueue(&mut self.frames, to, queue, queued);
        match egress.is_busy(now, to, outputs) {
            true => Entered::Waits,
            false => Entered::FindsLinkFree,
        }
    }

    /// As [`Switch::receive_any`], of a frame whose way through the bridge is known.
    #[inline(never)]
    fn receive_bridged<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        way: BridgedWay,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let mut transit = self.arrives(now, port, arrival);
        transit.vlan = Some(way.vlan);
        let leaves = transit.leaves_by(LogicalPort(way.to.0));
        self.send_on_its_way(&mut transit, Ok(leaves), store, outputs)
    }

    /// As [`Switch::receive_any`], of a frame that has been routed.
    #[inline(never)]
    fn receive_routed<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        way: RoutedWay,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let mut transit = self.arrives(now, port, arrival);
        transit.rewrite = Some(way.addresses);
        transit.interface = self.ports[port.index()].entrance.interface;
        let leaves = transit.leaves_by(LogicalPort(way.to.0));
        self.send_on_its_way(&mut transit, Ok(leaves), store, outputs)
    }

    /// As [`Switch::receive_any`], where the next hop of the frame has been chosen.
    #[inline(never)]
    fn receive_towards<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &Arrival,
        hop: Option<NextHopId>,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Verdict {
        let mut transit = self.arrives(now, port, arrival);
        transit.interface = self.ports[port.index()].entrance.interface;
        let way = self.forward_by(&mut transit, hop, store);
        self.send_on_its_way(&mut transit, way, store, outputs)
    }
}
