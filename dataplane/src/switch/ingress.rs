//! The full packet path from the arrival of a frame to its forwarding decision. Rare frames take this path,
//! and [`fast_path`](super::fast_path) handles common frames.

use super::Switch;
use super::port::Port;
use crate::bridge::MacAddress;
use crate::drops::DropReason;
use crate::frame::{FrameHandle, FrameStore, ReceivedFrame};
use crate::ids::{InterfaceId, LogicalPort, PgId, PortId};
use crate::mmu::Mmu;
use crate::outputs::{DroppedFrame, ForwardingResult, Outputs, PuntReason, PuntedFrame};
use crate::route::{HeldFrame, NeighbourId};
use xoff_units::Picos;
use xoff_wire::LinkQuality;
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::rewrite::LinkAddresses;

/// Number of bytes that each copy of a flooded frame stores for itself. These bytes contain all headers that
/// the switch may edit, including VLAN tags. The copies share the remaining bytes.
pub const FLOOD_PREFIX_BYTES: usize = 128;

/// A received frame and the decisions of the switch about this frame.
#[derive(Clone, Copy)]
pub(super) struct FrameContext<'a> {
    pub(super) now: Picos,
    pub(super) from: PortId,
    /// The ingress port, or the LAG of which it is a member.
    pub(super) logical: LogicalPort,
    pub(super) pg: PgId,
    /// The VLAN in which the frame is forwarded. The value is `None` if the frame is routed to a port or LAG
    /// without a VLAN.
    pub(super) vlan: Option<u16>,
    /// The ingress router interface, if the frame was addressed to the router.
    pub(super) interface: Option<InterfaceId>,
    /// The new MAC addresses of a routed frame.
    pub(super) rewrite: Option<LinkAddresses>,
    /// The egress port or LAG of [`ForwardingDecision::Unicast`].
    pub(super) to: LogicalPort,
    /// The ICMP error that the sender receives if the frame is dropped. `None`: no ICMP error.
    pub(super) icmp_error: Option<PuntReason>,
    pub(super) tc: u8,
    pub(super) lossless: bool,
    /// True if the watchdog drops the frames of the priority group `pg`.
    pub(super) is_group_dropped: bool,
    pub(super) parsed: &'a ParsedHeaders,
    pub(super) frame: FrameHandle,
    pub(super) frame_len: u32,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
}

impl FrameContext<'_> {
    /// Returns the drop of this frame at its ingress port.
    #[cold]
    pub(super) fn ingress_drop_record(&self, reason: DropReason) -> DroppedFrame {
        DroppedFrame {
            reason,
            port: self.from,
            tc: self.tc,
            mac_len: self.mac_len,
            refusal: None,
        }
    }

    /// Returns an entry of [`Outputs::punts`] for the frame.
    pub(super) fn punted_frame(&self, reason: PuntReason) -> PuntedFrame {
        PuntedFrame {
            port: self.from,
            interface: self.interface,
            reason,
            frame: self.frame,
            l3_offset: self.parsed.l3_offset,
        }
    }

    /// Returns the entry of this frame in the list of frames that wait for a neighbour.
    pub(super) fn held_frame(&self) -> HeldFrame {
        HeldFrame {
            from: Some(self.from),
            interface: self.interface,
            frame: self.frame,
            frame_len: self.frame_len,
            parsed: *self.parsed,
        }
    }

    /// Returns a drop if the watchdog drops the frames of the priority group.
    #[inline(always)]
    pub(super) fn check_watchdog_drop(&self) -> Result<(), DroppedFrame> {
        match self.is_group_dropped {
            false => Ok(()),
            true => Err(self.ingress_drop_record(DropReason::WatchdogIngress)),
        }
    }

    /// Sets the egress port or LAG of a unicast frame.
    #[inline(always)]
    pub(super) fn set_unicast_egress(&mut self, to: LogicalPort) -> ForwardingDecision {
        self.to = to;
        ForwardingDecision::Unicast
    }

    /// Returns the drop of this frame at the egress port `port`.
    #[cold]
    pub(super) fn egress_drop_record(&self, port: PortId, reason: DropReason) -> DroppedFrame {
        DroppedFrame {
            port,
            ..self.ingress_drop_record(reason)
        }
    }
}

/// Where a frame is forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) enum ForwardingDecision {
    /// The frame leaves through one port or LAG, which is [`FrameContext::to`]. The port is not stored here,
    /// so that this enum stays small.
    Unicast,
    /// To every other port of its VLAN.
    Flood,
    /// To the CPU port.
    Cpu(PuntReason),
    /// To no port, because the switch itself has processed the frame.
    Consumed,
    /// To the list of frames that wait for this neighbour.
    Hold(NeighbourId),
}

/// The result of bridging a frame.
enum BridgeResult {
    /// The destination is the MAC address of the VLAN's router interface.
    ToRouter(InterfaceId),
    /// The frame is forwarded within its VLAN.
    Forward(ForwardingDecision),
}

impl Switch {
    /// Like [`Switch::receive`], but handles all kinds of frames.
    #[inline(never)]
    pub(super) fn receive_on_full_path<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        match arrival.parsed.payload {
            Payload::MacControl => return self.receive_mac_control(now, port, arrival, store, outputs),
            Payload::Other if LinkQuality::is_link_quality(store.prefix(arrival.frame)) => {
                return self.receive_link_quality(now, port, arrival, store, outputs);
            }
            _ => {}
        }
        let mut context = self.count_arrival(now, port, arrival);
        self.count_reordering(&context, store);
        let ingress = &self.ports[port.index()];
        let decision = match ingress.ingress_drop_reason(arrival.frame_len, arrival.parsed.l3_offset) {
            None => self.decide_forwarding(&mut context, store, outputs),
            Some(reason) => Err(reason),
        };
        let result = self.execute_decision(&mut context, decision, store, outputs);
        if !self.found.is_empty() {
            self.forward_held_frames(now, store, outputs);
        }
        result
    }

    /// Counts a received frame and creates its context.
    pub(super) fn count_arrival<'a>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &'a ReceivedFrame,
    ) -> FrameContext<'a> {
        let ingress = &mut self.ports[port.index()];
        let (frame, frame_len) = (arrival.frame, arrival.frame_len);
        let context = frame_context(ingress, &self.mmu, now, port, frame, frame_len, &arrival.parsed);
        let counters = &mut ingress.counters;
        counters.rx_packets += 1;
        counters.rx_bytes += u64::from(context.mac_len);
        counters.rx_class_packets[usize::from(context.tc)] += 1;
        context
    }

    /// Creates the context of a frame that waited for a neighbour.
    pub(super) fn context_of_held_frame<'a>(
        &self,
        now: Picos,
        from: PortId,
        held: &'a HeldFrame,
    ) -> FrameContext<'a> {
        let ingress = &self.ports[from.index()];
        frame_context(
            ingress,
            &self.mmu,
            now,
            from,
            held.frame,
            held.frame_len,
            &held.parsed,
        )
    }

    /// Executes a forwarding decision, or drops the frame if `decision` is an error.
    pub(super) fn execute_decision<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        decision: Result<ForwardingDecision, DropReason>,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        match decision {
            Ok(ForwardingDecision::Unicast) => match self.forward_unicast(context, store, outputs) {
                Ok(()) => ForwardingResult::Forwarded { copies: 1 },
                Err(drop) => self.discard_frame(drop, context.frame, store),
            },
            Ok(ForwardingDecision::Flood) => self.flood_frame(context, store, outputs),
            Ok(ForwardingDecision::Hold(neighbour)) => {
                self.hold_for_neighbour(context, neighbour, store, outputs)
            }
            Ok(ForwardingDecision::Consumed) => {
                self.ports[context.from.index()].counters.rx_own_packets += 1;
                store.release(context.frame);
                ForwardingResult::Punted
            }
            Ok(ForwardingDecision::Cpu(reason)) => {
                self.ports[context.from.index()].counters.rx_own_packets += 1;
                outputs.punts.push(context.punted_frame(reason));
                ForwardingResult::Punted
            }
            Err(reason) => self.drop_and_report(context, reason, store, outputs),
        }
    }

    #[cold]
    pub(super) fn discard_frame<S: FrameStore>(
        &mut self,
        drop: DroppedFrame,
        frame: FrameHandle,
        store: &mut S,
    ) -> ForwardingResult {
        self.ports[drop.port.index()].count_drop(&drop);
        store.release(frame);
        ForwardingResult::Dropped(drop)
    }

    /// Drops a frame at its ingress port. If an ICMP error is required and the rate limit permits it, the
    /// frame is sent to the CPU.
    #[cold]
    pub(super) fn drop_and_report<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        reason: DropReason,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let drop = context.ingress_drop_record(reason);
        if reason == DropReason::L3EgressLinkDown {
            self.readvertise_missing_path(context.now, outputs);
        }
        if let Some(icmp_error) = context.icmp_error
            && self.cpu_attached
            && self.router.icmp_limit.allow(context.now)
        {
            self.ports[drop.port.index()].count_drop(&drop);
            outputs.punts.push(context.punted_frame(icmp_error));
            return ForwardingResult::Dropped(drop);
        }
        self.discard_frame(drop, context.frame, store)
    }

    /// Decides how a frame is forwarded, from its addresses and its VLAN. Also learns the source address of a
    /// bridged frame.
    fn decide_forwarding<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<ForwardingDecision, DropReason> {
        let Some((destination, source)) = MacAddress::destination_and_source(store.prefix(context.frame))
        else {
            return Err(DropReason::Truncated);
        };
        if source.is_group() {
            return Err(DropReason::SmacMulticast);
        }
        if source == destination {
            return Err(DropReason::SmacEqualsDmac);
        }
        if destination.is_group() {
            self.ports[context.from.index()].counters.rx_non_unicast_packets += 1;
        }
        if destination.is_reserved() {
            return match self.protocols_attached {
                true => Ok(ForwardingDecision::Cpu(PuntReason::Protocol)),
                false => Err(DropReason::DmacReserved),
            };
        }
        let interface = match self.ports[context.from.index()].interface() {
            Some(interface) => {
                let own = self.router.interface(interface).mac;
                match self.is_addressed_to_router(context, own, destination)? {
                    true => interface,
                    false => return self.handle_frame_not_to_router(context, interface, destination, store),
                }
            }
            None => match self.bridge_frame(context, destination, source, store, outputs)? {
                BridgeResult::Forward(decision) => return Ok(decision),
                BridgeResult::ToRouter(interface) => interface,
            },
        };
        self.route_packet(context, interface, store)
    }

    /// Bridges a frame that arrived on a port or LAG without a router interface.
    fn bridge_frame<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        destination: MacAddress,
        source: MacAddress,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<BridgeResult, DropReason> {
        let (now, from) = (context.now, context.logical);
        let Some(vlan) = self.vlans.ingress_vlan(from, context.parsed.tag) else {
            return Err(DropReason::IngressVlanFilter);
        };
        context.vlan = Some(vlan);
        if let Some(moved) = self.fdb.learn_and_count_moves(now, vlan, source, from) {
            self.report_frequent_move(now, context.from, &moved, outputs);
        }
        if let Some(interface) = self.router.interface_of_vlan(vlan) {
            if destination == self.router.interface(interface).mac {
                return Ok(BridgeResult::ToRouter(interface));
            }
            if destination.is_group() {
                self.learn_from_group_frame(context, interface, store, &mut outputs.punts);
            }
        }
        if destination.is_group() {
            return Ok(BridgeResult::Forward(ForwardingDecision::Flood));
        }
        match self.fdb.lookup(now, vlan, destination) {
            Some(to) if to == from => Err(DropReason::L2LoopbackFilter),
            Some(to) => Ok(BridgeResult::Forward(context.set_unicast_egress(to))),
            None => Ok(BridgeResult::Forward(ForwardingDecision::Flood)),
        }
    }
}

/// Creates the context of a frame before any decision.
fn frame_context<'a>(
    ingress: &Port,
    mmu: &Mmu,
    now: Picos,
    from: PortId,
    frame: FrameHandle,
    frame_len: u32,
    parsed: &'a ParsedHeaders,
) -> FrameContext<'a> {
    let mac_len = ingress.link.mac_len(frame_len);
    let tc = ingress.traffic_class(parsed);
    let group = ingress.priority_group(tc);
    let pg = PgId::new(from, group);
    FrameContext {
        now,
        from,
        logical: ingress.ingress_binding().logical,
        pg,
        vlan: None,
        interface: None,
        rewrite: None,
        to: ingress.ingress_binding().logical,
        icmp_error: None,
        tc,
        lossless: mmu.is_lossless(pg),
        is_group_dropped: ingress.dropping_groups & 1 << group != 0,
        parsed,
        frame,
        frame_len,
        mac_len,
        cells: mmu.frame_cells(mac_len),
    }
}
