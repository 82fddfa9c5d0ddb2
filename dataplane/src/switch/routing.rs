//! Routing of a packet from its ingress interface to its next hop or to the CPU port.

use super::Switch;
use super::ingress::{FLOOD_PREFIX_BYTES, ForwardingDecision, FrameContext};
use super::mtu::check_routed_mtu;
use crate::bridge::MacAddress;
use crate::config::InterfaceAttachment;
use crate::drops::DropReason;
use crate::frame::FrameStore;
use crate::ids::{InterfaceId, LogicalPort, NextHopId};
use crate::outputs::{PuntReason, PuntedFrame};
use crate::route::ip_header::{self, AddressScope, IpDestination, IpHeaderFields};
use crate::route::{FibEntry, NeighbourId, ResolvedHop};
use xoff_wire::parse::Payload;
use xoff_wire::rewrite::LinkAddresses;
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, NeighbourMessage, vlan::TAG_LEN};

impl Switch {
    /// Returns true if the destination of a frame on a routed port or LAG is the router's MAC address `own`.
    /// Returns an error if the port does not accept the VLAN tag.
    pub(super) fn is_addressed_to_router(
        &self,
        context: &FrameContext,
        own: MacAddress,
        destination: MacAddress,
    ) -> Result<bool, DropReason> {
        if !self
            .vlans
            .accepts_without_vlan(context.logical, context.parsed.tag)
        {
            return Err(DropReason::IngressVlanFilter);
        }
        Ok(destination == own)
    }

    /// Handles a frame on a routed port whose destination is not the MAC address of the router. Only ARP and
    /// neighbour discovery messages to group addresses are accepted.
    #[cold]
    pub(super) fn handle_frame_not_to_router<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        destination: MacAddress,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        if !destination.is_group() {
            return Err(DropReason::NotToRouter);
        }
        context.interface = Some(interface);
        let l3 = l3_bytes(context, store);
        if let Some(message) = parse_neighbour_message(context, store) {
            return self.handle_neighbour_message(context, interface, message);
        }
        let unicast = match context.parsed.payload {
            Payload::Ipv4 => l3.get(16).is_some_and(|first| (1..224).contains(first)),
            Payload::Ipv6 => l3.get(24).is_some_and(|first| *first != 0xff),
            _ => false,
        };
        Err(if unicast {
            DropReason::UcDipMcDmac
        } else {
            DropReason::NonRoutable
        })
    }

    /// Routes a frame that is addressed to the router.
    pub(super) fn route_packet<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        context.interface = Some(interface);
        let l3 = l3_bytes(context, store);
        let l3_offset = context.parsed.l3_offset;
        // A second tag, or a tag with another TPID, would be forwarded as part of the packet.
        let tagged = self.vlans.recognises_tag(context.logical, context.parsed.tag);
        if usize::from(l3_offset) != ETHERNET_LEN + if tagged { TAG_LEN } else { 0 } {
            return Err(DropReason::NoL3Header);
        }
        if !matches!(context.parsed.payload, Payload::Ipv4 | Payload::Ipv6) {
            return self.handle_non_ip(context, interface, store);
        }
        let packet = parse_packet(context, l3)?;
        if let AddressScope::Link(reason) = packet.scope {
            return self.handle_link_local(context, interface, packet, reason, store);
        }
        let found = match packet.destination {
            IpDestination::V4(address) => self.router.fib.find_leaf_v4(address),
            IpDestination::V6(address) => self.router.fib.find_leaf_v6(address),
        };
        let hop = if let Some(group) = found.group() {
            self.select_next_hop_in_group(context, group, l3)
        } else if let Some(hop) = found.next_hop() {
            Some(hop)
        } else {
            return self.route_without_next_hop(context, interface, packet, found.entry(), store);
        };
        self.forward_to_next_hop(context, packet, hop)
    }

    /// Forwards a packet whose next hop has been selected. If `hop` is `None`, no next hop is reachable and
    /// the packet is dropped.
    pub(super) fn forward_to_selected_hop<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        hop: Option<NextHopId>,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        let packet = parse_packet(context, l3_bytes(context, store))?;
        self.forward_to_next_hop(context, packet, hop)
    }

    fn forward_to_next_hop(
        &mut self,
        context: &mut FrameContext,
        packet: IpHeaderFields,
        hop: Option<NextHopId>,
    ) -> Result<ForwardingDecision, DropReason> {
        let (egress, neighbour) = self
            .router
            .neighbour_of_next_hop(hop.ok_or(DropReason::L3EgressLinkDown)?);
        self.forward_by_neighbour(context, packet, egress, neighbour)
    }

    /// Handles a packet whose route has no next hop. The destination is in a connected network, is the switch
    /// itself, has a blackhole route, or has no route.
    fn route_without_next_hop<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        packet: IpHeaderFields,
        entry: Option<FibEntry>,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        let Some(entry) = entry else {
            context.icmp_error = Some(PuntReason::NetUnreachable);
            return Err(match packet.destination {
                IpDestination::V4(_) => DropReason::Lpm4Miss,
                IpDestination::V6(_) => DropReason::Lpm6Miss,
            });
        };
        let flow_hash = context.parsed.flow_hash;
        match self
            .router
            .resolve_hop(entry, packet.destination.address(), flow_hash)
        {
            ResolvedHop::Neighbour(egress, neighbour) => {
                self.forward_by_neighbour(context, packet, egress, neighbour)
            }
            ResolvedHop::Local => self.deliver_to_switch(context, interface, store),
            ResolvedHop::Down => Err(DropReason::L3EgressLinkDown),
            ResolvedHop::Blackhole => Err(DropReason::BlackholeRoute),
        }
    }

    fn forward_by_neighbour(
        &mut self,
        context: &mut FrameContext,
        packet: IpHeaderFields,
        egress: InterfaceId,
        neighbour: Option<NeighbourId>,
    ) -> Result<ForwardingDecision, DropReason> {
        if packet.ttl <= 1 {
            context.icmp_error = Some(PuntReason::TimeExceeded);
            return Err(DropReason::Ttl);
        }
        let out = self.router.interface(egress);
        if !out.up {
            return Err(DropReason::L3EgressLinkDown);
        }
        check_routed_mtu(context, &packet, out.mtu)?;
        let Some(neighbour) = neighbour else {
            return Err(DropReason::UnresolvedNextHop);
        };
        let Some(known) = self.router.neighbours.resolved_link(neighbour) else {
            return Ok(ForwardingDecision::Hold(neighbour));
        };
        context.rewrite = Some(LinkAddresses::new(known.mac, out.mac_bytes));
        match out.attachment {
            InterfaceAttachment::Port(port) => {
                context.vlan = None;
                Ok(context.set_unicast_egress(LogicalPort(port)))
            }
            other => self.set_egress_port(context, other, MacAddress::from_bytes(known.mac), known.port),
        }
    }

    /// Selects the egress port or LAG for a neighbour. In a VLAN, the frame is flooded if the location of
    /// `mac` is unknown.
    fn set_egress_port(
        &self,
        context: &mut FrameContext,
        attachment: InterfaceAttachment,
        mac: MacAddress,
        heard_behind: Option<LogicalPort>,
    ) -> Result<ForwardingDecision, DropReason> {
        context.vlan = None;
        match attachment {
            InterfaceAttachment::Port(port) => Ok(context.set_unicast_egress(LogicalPort(port))),
            InterfaceAttachment::Lag(lag) => {
                Ok(context.set_unicast_egress(self.lags.logical_port_of_lag(lag)))
            }
            InterfaceAttachment::Vlan(vlan) => {
                context.vlan = Some(vlan);
                let behind = self.fdb.lookup(context.now, vlan, mac);
                let member = |port: &LogicalPort| self.vlans.members(vlan).contains(port);
                match behind.or(heard_behind.filter(member)) {
                    Some(to) => Ok(context.set_unicast_egress(to)),
                    None => Ok(ForwardingDecision::Flood),
                }
            }
            InterfaceAttachment::Loopback => Err(DropReason::NonRoutable),
        }
    }

    /// Handles frames to the router that are not valid IP packets. These are ARP frames and frames with a
    /// malformed IP header.
    #[cold]
    fn handle_non_ip<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        if let Some(message) = parse_neighbour_message(context, store) {
            return self.handle_neighbour_message(context, interface, message);
        }
        Err(match ethertype(context, store) {
            Some(ETHERTYPE_IPV4 | ETHERTYPE_IPV6) => DropReason::IpHeaderError,
            _ => DropReason::NoL3Header,
        })
    }

    /// Handles a packet with a link-local address. The packet is delivered to the switch if it is addressed
    /// to the switch. Otherwise it is dropped.
    #[cold]
    fn handle_link_local<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        packet: IpHeaderFields,
        reason: DropReason,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        let own =
            |address| self.router.interface(interface).owns_address(address) || self.is_own_address(address);
        match own(packet.destination.address()) {
            true => self.deliver_to_switch(context, interface, store),
            false => Err(reason),
        }
    }

    fn is_own_address(&self, address: std::net::IpAddr) -> bool {
        self.router
            .interfaces()
            .iter()
            .any(|interface| interface.owns_address(address))
    }

    /// Handles a packet to an address of the switch.
    #[cold]
    fn deliver_to_switch<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        store: &S,
    ) -> Result<ForwardingDecision, DropReason> {
        match parse_neighbour_message(context, store) {
            Some(message) => self.handle_neighbour_message(context, interface, message),
            None if !self.cpu_attached => Err(DropReason::DipLocal),
            None => self.punt_to_cpu(context, PuntReason::Local),
        }
    }

    /// Handles an ARP or neighbour discovery message for the router. The router learns the address of the
    /// sender. If a CPU is attached, requests for an address of the router are passed to the CPU.
    fn handle_neighbour_message(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        message: NeighbourMessage,
    ) -> Result<ForwardingDecision, DropReason> {
        match self.learn_neighbour(context, interface, message) && self.cpu_attached {
            true => self.punt_to_cpu(context, PuntReason::Neighbour),
            false => Ok(ForwardingDecision::Consumed),
        }
    }

    fn punt_to_cpu(
        &mut self,
        context: &FrameContext,
        reason: PuntReason,
    ) -> Result<ForwardingDecision, DropReason> {
        match self.router.cpu_limit.allow(context.now) {
            true => Ok(ForwardingDecision::Cpu(reason)),
            false => Err(DropReason::CpuRate),
        }
    }

    /// Learns from an ARP or neighbour discovery message to a group address, in a VLAN with a router
    /// interface. The caller also floods the frame. If the message is a request for an address of the router,
    /// the CPU receives a copy.
    #[cold]
    pub(super) fn learn_from_group_frame<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        interface: InterfaceId,
        store: &mut S,
        punts: &mut Vec<PuntedFrame>,
    ) {
        let Some(message) = parse_neighbour_message(context, store) else {
            return;
        };
        let asked = self.learn_neighbour(context, interface, message) && self.cpu_attached;
        if asked
            && self.router.cpu_limit.allow(context.now)
            && let Some(copy) = store.copy(context.frame, FLOOD_PREFIX_BYTES)
        {
            punts.push(PuntedFrame {
                port: context.from,
                interface: Some(interface),
                reason: PuntReason::Neighbour,
                frame: copy,
                l3_offset: context.parsed.l3_offset,
            });
        }
    }

    /// Learns the link address of the sender of an ARP or neighbour discovery message. Returns true if the
    /// message is a request for an address of the router.
    fn learn_neighbour(
        &mut self,
        context: &FrameContext,
        interface: InterfaceId,
        message: NeighbourMessage,
    ) -> bool {
        let heard_on = self.router.interface(interface);
        let asked = message.is_request && heard_on.owns_address(message.target);
        // An ARP probe and duplicate address detection have no sender address.
        let is_advertisement = message.sender.is_ipv6() && !message.is_request;
        let has_sender = is_advertisement || !message.sender.is_unspecified();
        if let Some(mac) = message.link_address
            && mac[0] & 1 == 0
            && has_sender
            && heard_on.is_on_link(message.sender)
        {
            let found = self.router.neighbours.update_from_message(
                context.now,
                interface,
                message.sender,
                mac,
                context.logical,
                // A station that asks for the router, or announces itself, will receive packets. Resolve it
                // now, so that the first frame of a lossless class does not wait.
                !(asked || message.is_announcement),
            );
            self.found.extend(found);
        }
        asked
    }
}

/// Parses the IP header of a frame.
fn parse_packet(context: &FrameContext, l3: &[u8]) -> Result<IpHeaderFields, DropReason> {
    match context.parsed.payload {
        Payload::Ipv4 => ip_header::parse_ipv4(l3),
        _ => ip_header::parse_ipv6(l3, context.frame_len - u32::from(context.parsed.l3_offset)),
    }
}

/// Returns the stored bytes from the layer 3 header on.
#[inline(always)]
fn l3_bytes<'a, S: FrameStore>(context: &FrameContext, store: &'a S) -> &'a [u8] {
    let prefix = store.prefix(context.frame);
    prefix.get(usize::from(context.parsed.l3_offset)..).unwrap_or(&[])
}

fn ethertype<S: FrameStore>(context: &FrameContext, store: &S) -> Option<u16> {
    let at = usize::from(context.parsed.l3_offset).checked_sub(2)?;
    let octets = store.prefix(context.frame).get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}

/// Parses an ARP or neighbour discovery message. Returns `None` if the frame is not such a message, or if the
/// message is invalid.
fn parse_neighbour_message<S: FrameStore>(context: &FrameContext, store: &S) -> Option<NeighbourMessage> {
    NeighbourMessage::parse(store.prefix(context.frame), usize::from(context.parsed.l3_offset))
        .filter(|message| message.is_valid)
}
