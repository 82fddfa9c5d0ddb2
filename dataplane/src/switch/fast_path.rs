//! The fast path: receives, charges and queues common frames in one function.
//!
//! Nearly all frames are untagged IP frames with known addresses, one egress port and space under every
//! limit. The fast path handles only such frames. All other frames go to [`Switch::receive_on_full_path`].
//! The fast path changes nothing until it has accepted a frame, with two exceptions. It learns the source
//! address, and it selects a next hop. The next hop must not be selected twice, because some schemes change
//! their state with each selection. The full path therefore continues with the same next hop
//! ([`PartialDecision`]). Both paths call the same functions for the rules, and `tests/fast_path.rs` compares
//! their results.

use super::Switch;
use super::port::IngressBinding;
use crate::balance::LookupContext;
use crate::bridge::{MacAddress, VlanTagAction};
use crate::egress::{IngressCharge, QueuedFrame};
use crate::frame::{FrameStore, ReceivedFrame};
use crate::ids::{LogicalPort, NextHopId, PgId, PortId, QueueId};
use crate::outputs::{ForwardingResult, Outputs};
use crate::route::RouteHint;
use crate::route::ip_header::{self, AddressScope, IpDestination};
use xoff_units::Picos;
use xoff_wire::ETHERNET_LEN;
use xoff_wire::parse::Payload;
use xoff_wire::rewrite::{self, LinkAddresses};

/// Traffic class and length of a frame at its ingress port.
#[derive(Clone, Copy)]
struct FrameClass {
    tc: u8,
    mac_len: u32,
}

/// Egress port and new MAC addresses of a routed frame.
#[derive(Clone, Copy)]
struct RoutedEgress {
    to: PortId,
    /// The new MAC addresses of the frame.
    addresses: LinkAddresses,
}

/// Egress port and VLAN of a bridged frame.
#[derive(Clone, Copy)]
struct BridgedEgress {
    to: PortId,
    vlan: u16,
}

/// The decisions that the fast path has already made for a frame when it passes the frame to the full path.
pub(super) enum PartialDecision {
    /// No decision.
    Nothing,
    /// The next hop is selected. `None`: no next hop is reachable.
    NextHop(Option<NextHopId>),
}

/// The result of admission on the fast path.
enum FastPathAdmission {
    /// The frame is queued. The link is busy, and a deadline is requested for its end.
    Queued,
    /// The frame is queued, and the link is free.
    QueuedLinkFree,
    /// The frame is not queued: the port is idle and sends the frame immediately.
    PortIdle(QueueId, QueuedFrame),
    /// The frame was not admitted. The full path must handle the frame.
    NeedsFullPath,
}

impl Switch {
    /// Receives a frame whose last bit arrived on `port` at `now`. The switch owns the frame from this call
    /// on. Returns how the switch handled the frame.
    #[inline(always)]
    pub fn receive<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        self.receive_with_route_hint(now, port, arrival, RouteHint::NONE, store, outputs)
    }

    /// Looks up the route of an IPv4 destination for a later call of [`Switch::receive_with_route_hint`].
    /// `destination` is the address as a number, such as `0x0a000001` for 10.0.0.1. The result is valid until
    /// [`Switch::set_fib`] or [`Switch::apply_config`]. If the caller looks up several packets in advance,
    /// the memory accesses of the look-ups overlap.
    #[inline(always)]
    pub fn lookup_route_hint(&self, destination: u32) -> RouteHint {
        RouteHint::new(self.router.fib.find_leaf_v4(destination))
    }

    /// Like [`Switch::receive`], but for a packet whose route has been looked up. With [`RouteHint::NONE`],
    /// the switch looks up the route itself. The caller must not pass a hint for a different destination, or
    /// a hint from an earlier version of the routes.
    #[inline(always)]
    pub fn receive_with_route_hint<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        ahead: RouteHint,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        // The result of nearly all frames. Writing it here keeps a register free in the code below.
        let mut result = ForwardingResult::Forwarded { copies: 1 };
        self.receive_and_set_result(now, port, (arrival, ahead), store, outputs, &mut result);
        result
    }

    /// Like [`Switch::receive_with_route_hint`]. Writes `result` only if it differs from the common result.
    #[inline(never)] // one body for every driver
    fn receive_and_set_result<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        (arrival, ahead): (&ReceivedFrame, RouteHint),
        store: &mut S,
        outputs: &mut Outputs,
        result: &mut ForwardingResult,
    ) {
        self.marked_on_arrival.clear();
        let frame = store.prefix_mut(arrival.frame);
        let Some((ingress_binding, class, destination, source)) =
            self.classify_on_fast_path(port, arrival, frame)
        else {
            *result = self.receive_on_full_path(now, port, arrival, store, outputs);
            return;
        };
        // This code exists twice, for bridged and for routed ports, so that neither copy needs the variables
        // of the other copy.
        if !ingress_binding.is_routed() {
            let Some(decision) = self.bridge_on_fast_path(now, ingress_binding, destination, source) else {
                *result = self.receive_on_full_path(now, port, arrival, store, outputs);
                return;
            };
            match self.admit_on_fast_path(now, port, arrival, (class, decision.to, None), frame, outputs) {
                FastPathAdmission::Queued => {}
                FastPathAdmission::PortIdle(id, frame) => {
                    self.transmit_unqueued(now, id, &frame, store, outputs)
                }
                FastPathAdmission::QueuedLinkFree => self.transmit_next_now(now, decision.to, store, outputs),
                FastPathAdmission::NeedsFullPath => {
                    *result = self.receive_bridged(now, port, arrival, decision, store, outputs)
                }
            }
            return;
        }
        if !ingress_binding.is_addressed_to_router(destination) {
            *result = self.receive_on_full_path(now, port, arrival, store, outputs);
            return;
        }
        let decision = match self.route_on_fast_path(now, port, (arrival, ahead), class, frame) {
            Ok(decision) => decision,
            Err(PartialDecision::Nothing) => {
                *result = self.receive_on_full_path(now, port, arrival, store, outputs);
                return;
            }
            Err(PartialDecision::NextHop(hop)) => {
                *result = self.receive_with_next_hop(now, port, arrival, hop, store, outputs);
                return;
            }
        };
        let addresses = Some(decision.addresses);
        match self.admit_on_fast_path(
            now,
            port,
            arrival,
            (class, decision.to, addresses),
            frame,
            outputs,
        ) {
            FastPathAdmission::Queued => {}
            FastPathAdmission::PortIdle(id, frame) => self.transmit_unqueued(now, id, &frame, store, outputs),
            FastPathAdmission::QueuedLinkFree => self.transmit_next_now(now, decision.to, store, outputs),
            FastPathAdmission::NeedsFullPath => {
                *result = self.receive_routed(now, port, arrival, decision, store, outputs)
            }
        }
    }

    /// Checks the port and the addresses of a frame, and classifies the frame. Returns `None` if the frame
    /// needs the full path.
    #[inline(always)]
    fn classify_on_fast_path(
        &self,
        port: PortId,
        arrival: &ReceivedFrame,
        frame: &[u8],
    ) -> Option<(IngressBinding, FrameClass, MacAddress, MacAddress)> {
        let ingress = &self.ports[port.index()];
        let parsed = &arrival.parsed;
        if !matches!(parsed.payload, Payload::Ipv4 | Payload::Ipv6)
            || parsed.tag.is_some()
            || ingress
                .ingress_drop_reason(arrival.frame_len, ETHERNET_LEN as u8)
                .is_some()
            || self.reordering.is_some()
        {
            return None;
        }
        let class = FrameClass {
            tc: ingress.traffic_class(parsed),
            mac_len: ingress.link.mac_len(arrival.frame_len),
        };
        let (destination, source) = MacAddress::destination_and_source(frame)?;
        if source.is_group() || source == destination {
            return None;
        }
        Some((ingress.ingress_binding(), class, destination, source))
    }

    /// Bridges a frame between two untagged ports of one VLAN. Returns `None` if the frame needs the
    /// full path.
    #[inline(always)]
    fn bridge_on_fast_path(
        &mut self,
        now: Picos,
        ingress_binding: IngressBinding,
        destination: MacAddress,
        source: MacAddress,
    ) -> Option<BridgedEgress> {
        let from = ingress_binding.logical;
        let vlan = self.vlans.ingress_vlan(from, None)?;
        // The full path counts moves of an address.
        if !self.fdb.learn_unless_moved(now, vlan, source, from) {
            return None;
        }
        let own = |interface| self.router.interface(interface).mac == destination;
        if destination.is_group() || self.router.interface_of_vlan(vlan).is_some_and(own) {
            return None;
        }
        let to = self.fdb.lookup(now, vlan, destination)?;
        let keeps = self.vlans.egress_tag_action(from, to, vlan, None) == Some(VlanTagAction::Keep);
        if to == from || !keeps || self.lags.lag_index(to).is_some() {
            return None;
        }
        Some(BridgedEgress {
            to: PortId(to.0),
            vlan,
        })
    }

    /// Routes an IPv4 packet to a resolved next hop at a port that is not the ingress port. Returns an error
    /// if the packet needs the full path.
    #[inline(always)]
    fn route_on_fast_path(
        &mut self,
        now: Picos,
        port: PortId,
        (arrival, ahead): (&ReceivedFrame, RouteHint),
        class: FrameClass,
        frame: &[u8],
    ) -> Result<RoutedEgress, PartialDecision> {
        let parsed = &arrival.parsed;
        let l3 = frame.get(ETHERNET_LEN..).unwrap_or(&[]);
        if parsed.payload != Payload::Ipv4 || usize::from(parsed.l3_offset) != ETHERNET_LEN {
            return Err(PartialDecision::Nothing);
        }
        let Ok(packet) = ip_header::parse_ipv4(l3) else {
            return Err(PartialDecision::Nothing);
        };
        let IpDestination::V4(destination) = packet.destination else {
            return Err(PartialDecision::Nothing);
        };
        if packet.scope != AddressScope::Global || packet.ttl <= 1 {
            return Err(PartialDecision::Nothing);
        }
        let found = match ahead.leaf() {
            Some(found) => found,
            None => self.router.fib.find_leaf_v4(destination),
        };
        debug_assert_eq!(
            found,
            self.router.fib.find_leaf_v4(destination),
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
            match self.select_group_member(port, group, parsed, l3, asked) {
                Some(hop) => Ok(hop),
                None => return Err(PartialDecision::NextHop(None)),
            }
        } else if let Some(hop) = found.next_hop() {
            Ok(hop)
        } else if let Some(interface) = found.connected() {
            Err(interface)
        } else {
            return Err(PartialDecision::Nothing);
        };
        let adjacency = match hop {
            Ok(hop) => self.router.adjacency(hop),
            Err(interface) => self.router.on_link_adjacency(interface, destination),
        };
        if packet.len > adjacency.mtu {
            return Err(match hop {
                Ok(hop) => PartialDecision::NextHop(Some(hop)),
                Err(_) => PartialDecision::Nothing,
            });
        }
        Ok(RoutedEgress {
            to: PortId(adjacency.port),
            addresses: adjacency.addresses,
        })
    }

    /// Adds the cells of a frame with a known egress port to the buffer use, counts the frame and queues it.
    /// If the frame needs the full path, this function changes nothing.
    #[inline(always)]
    fn admit_on_fast_path(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        (FrameClass { tc, mac_len }, to, rewrite): (FrameClass, PortId, Option<LinkAddresses>),
        frame: &mut [u8],
        outputs: &mut Outputs,
    ) -> FastPathAdmission {
        let (parsed, frame_len) = (&arrival.parsed, arrival.frame_len);
        let places = [port.index(), to.index()];
        let Ok([ingress, egress]) = self.ports.get_disjoint_mut(places) else {
            return FastPathAdmission::NeedsFullPath;
        };
        let group = ingress.priority_group(tc);
        let queue = egress.egress_queue(tc);
        let pg = PgId::new(port, group);
        let apply_arrival_rules = match self.mmu.is_lossless(pg) {
            true => egress.arrival_rule_queues_lossless,
            false => egress.arrival_rule_queues,
        };
        if ingress.dropping_groups & 1 << group != 0
            || !egress.up
            || egress.exceeds_mtu(frame_len, ETHERNET_LEN as u8)
            || apply_arrival_rules & 1 << queue != 0
            || self.frames.free_entries() == 0
            || !egress.link.has_same_frame_lengths(&ingress.link)
        {
            return FastPathAdmission::NeedsFullPath;
        }
        let cells = self.mmu.frame_cells(mac_len);
        let id = QueueId::new(to, queue as u8);
        if !self.mmu.try_admit(pg, id, cells) {
            return FastPathAdmission::NeedsFullPath;
        }
        ingress.traffic.count_received(tc, u64::from(mac_len));
        if let Some(addresses) = rewrite {
            let whole = rewrite::rewrite_routed_ipv4(frame, addresses);
            debug_assert!(whole, "its header has been read");
        }
        let mut queued = QueuedFrame::new(arrival.frame, mac_len, cells, IngressCharge::Own { pg, cells });
        queued.ready_at = now.saturating_add(self.pipeline_latency);
        queued.tc = tc;
        queued.l3_offset = parsed.l3_offset;
        queued.payload = parsed.payload;
        queued.set_ecn_capable(parsed.is_ecn_capable());
        if self.pipeline_latency == Picos::ZERO && egress.is_idle(now, queue) {
            return FastPathAdmission::PortIdle(id, queued);
        }
        egress.enqueue(&mut self.frames, to, queue, queued);
        match egress.is_link_busy(now, to, outputs) {
            true => FastPathAdmission::Queued,
            false => FastPathAdmission::QueuedLinkFree,
        }
    }

    /// Receives a frame like [`Switch::receive_on_full_path`]. The fast path has already found the egress
    /// port of this frame by bridging.
    #[inline(never)]
    fn receive_bridged<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        decision: BridgedEgress,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let mut context = self.count_arrival(now, port, arrival);
        context.vlan = Some(decision.vlan);
        let leaves = context.set_unicast_egress(LogicalPort(decision.to.0));
        self.execute_decision(&mut context, Ok(leaves), store, outputs)
    }

    /// Like [`Switch::receive_on_full_path`], but for a frame whose egress port the fast path has found
    /// by routing.
    #[inline(never)]
    fn receive_routed<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        decision: RoutedEgress,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let mut context = self.count_arrival(now, port, arrival);
        context.rewrite = Some(decision.addresses);
        context.interface = self.ports[port.index()].interface();
        let leaves = context.set_unicast_egress(LogicalPort(decision.to.0));
        self.execute_decision(&mut context, Ok(leaves), store, outputs)
    }

    /// Like [`Switch::receive_on_full_path`], but for a frame whose next hop the fast path has selected.
    #[inline(never)]
    fn receive_with_next_hop<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        hop: Option<NextHopId>,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let mut context = self.count_arrival(now, port, arrival);
        context.interface = self.ports[port.index()].interface();
        let decision = self.forward_to_selected_hop(&mut context, hop, store);
        self.execute_decision(&mut context, decision, store, outputs)
    }
}
