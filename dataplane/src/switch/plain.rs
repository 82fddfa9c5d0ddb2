//! The fast path: receives, charges and queues common frames in one function.
//!
//! Nearly all frames are untagged IP frames with known addresses, one egress port and space under every
//! limit. The fast path handles only such frames. All other frames go to [`Switch::receive_full_path`].
//! Before the fast path has decided, it changes nothing, with two exceptions. It learns the source address,
//! which may be repeated. It also selects a next hop, which must not be repeated. The full path therefore
//! continues with this next hop, see [`PartialDecision`]. Both paths call the same rules, and
//! `tests/fast_path.rs` compares their results.

use super::Switch;
use super::port::Entrance;
use crate::balance::LookupContext;
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

/// Traffic class and length of a frame at its ingress port.
#[derive(Clone, Copy)]
struct Class {
    tc: u8,
    mac_len: u32,
}

/// Egress port and new MAC addresses of a routed frame.
#[derive(Clone, Copy)]
struct RoutedWay {
    to: PortId,
    /// Its new link addresses.
    addresses: LinkAddresses,
}

/// Egress port and VLAN of a bridged frame.
#[derive(Clone, Copy)]
struct BridgedWay {
    to: PortId,
    vlan: u16,
}

/// What the fast path had decided when it gave a frame to the full path.
pub(super) enum Decided {
    /// Nothing.
    Nothing,
    /// The next hop. `None`: no next hop is reachable.
    NextHop(Option<NextHopId>),
}

/// The result of admission on the fast path.
enum Entered {
    /// The frame is queued, and a deadline is requested.
    Waits,
    /// The frame is queued, and the link is free.
    FindsLinkFree,
    /// The frame is not queued, because the port is idle and can send it at once.
    FindsPortAtRest(QueueId, QueuedFrame),
    /// The frame was not admitted and needs the full path.
    Not,
}

impl Switch {
    /// Receives a frame whose last bit arrived on `port` at `now`. Returns what the switch did with it.
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

    /// Looks up the route of an IPv4 destination for a later call of [`Switch::receive_with_route_hint`]. The
    /// result is valid until [`Switch::set_fib`]. Looking up several packets in advance overlaps the memory
    /// accesses of the lookups.
    #[inline(always)]
    pub fn look_ahead(&self, destination: u32) -> RouteAhead {
        RouteAhead::new(self.router.fib.find_v4(destination))
    }

    /// As [`Switch::receive`], for a frame whose route has been looked up.
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
        // The result of nearly all frames. Writing it here keeps a register free in the code below.
        let mut verdict = Verdict::Forwarded { copies: 1 };
        self.receive_into(now, port, (arrival, ahead), store, outputs, &mut verdict);
        verdict
    }

    /// As [`Switch::receive_with_route_hint`]. Writes `result` only if it differs from the common result.
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
        // This code exists twice, for bridged and for routed ports, so that neither carries the variables of
        // the other.
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

    /// Checks the port and the addresses of a frame, and classifies it. `None`: the frame needs the full
    /// path.
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

    /// Bridges a frame between two untagged ports of one VLAN.
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

    /// Routes an IPv4 packet from one port to another, by a resolved next hop.
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
            let asked = || LookupContext {
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

    /// Charges, counts and queues a frame whose egress port is known. Changes nothing if the full path is
    /// needed.
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
            let whole = rewrite::rewrite_routed_ipv4(frame, addresses);
            debug_assert!(whole, "its header has been read");
        }
        let mut queued = QueuedFrame::new(arrival.frame, mac_len, cells, Charge::Own { pg, cells });
        queued.ready_at = now.saturating_add(self.pipeline_latency);
        queued.tc = tc;
        queued.l3_offset = parsed.l3_offset;
        queued.payload = parsed.payload;
        queued.set_ecn_capable(parsed.is_ecn_capable());
        if self.pipeline_latency == Picos::ZERO && egress.is_at_rest(now, queue) {
            return Entered::FindsPortAtRest(id, queued);
        }
        egress.enqueue(&mut self.frames, to, queue, queued);
        match egress.is_busy(now, to, outputs) {
            true => Entered::Waits,
            false => Entered::FindsLinkFree,
        }
    }

    /// As [`Switch::receive_full_path`], for a frame that the fast path has bridged.
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

    /// As [`Switch::receive_full_path`], for a frame that the fast path has routed.
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

    /// As [`Switch::receive_full_path`], for a frame whose next hop the fast path has selected.
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
