//! Routing of a packet from its ingress interface to its next hop or to the CPU port.

use super::Switch;
use super::ingress::{FLOOD_PREFIX_BYTES, Transit, Way};
use crate::bridge::Mac;
use crate::config::Attachment;
use crate::drops::DropReason;
use crate::frame::Store;
use crate::ids::{InterfaceId, LogicalPort, NextHopId};
use crate::outputs::{Punt, PuntReason};
use crate::route::packet::{self, Destination, Packet, Scope};
use crate::route::{Entry, Hop, NeighbourId, Talk, read_arp, read_discovery};
use xoff_wire::parse::Payload;
use xoff_wire::rewrite::LinkAddresses;
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, vlan::TAG_LEN};

impl Switch {
    /// True if a frame on a routed port or LAG is addressed to the router's MAC address `own`.
    pub(super) fn arrives_at_router(
        &self,
        transit: &Transit,
        own: Mac,
        destination: Mac,
    ) -> Result<bool, DropReason> {
        if !self.vlans.untagged(transit.logical, transit.parsed.tag) {
            return Err(DropReason::IngressVlanFilter);
        }
        Ok(destination == own)
    }

    /// Handles a frame on a routed port that is not addressed to the router's MAC address.
    #[cold]
    pub(super) fn not_addressed<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        destination: Mac,
        store: &S,
    ) -> Result<Way, DropReason> {
        if !destination.is_group() {
            return Err(DropReason::NotToRouter);
        }
        transit.interface = Some(interface);
        let l3 = layer3(transit, store);
        if let Some(talk) = talk(transit, store) {
            return self.converse(transit, interface, talk);
        }
        let unicast = match transit.parsed.payload {
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
    pub(super) fn route<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        store: &S,
    ) -> Result<Way, DropReason> {
        transit.interface = Some(interface);
        let l3 = layer3(transit, store);
        let l3_offset = transit.parsed.l3_offset;
        // The router would forward a second tag, or a tag with another TPID, as part of the packet.
        let tagged = self.vlans.recognises(transit.logical, transit.parsed.tag);
        if usize::from(l3_offset) != ETHERNET_LEN + if tagged { TAG_LEN } else { 0 } {
            return Err(DropReason::NoL3Header);
        }
        if !matches!(transit.parsed.payload, Payload::Ipv4 | Payload::Ipv6) {
            return self.no_ip(transit, interface, store);
        }
        let packet = read(transit, l3)?;
        if let Scope::Link(reason) = packet.scope {
            return self.link_scope(transit, interface, packet, reason, store);
        }
        let found = match packet.destination {
            Destination::V4(address) => self.router.fib.find_v4(address),
            Destination::V6(address) => self.router.fib.find_v6(address),
        };
        let hop = if let Some(group) = found.group() {
            self.next_hop_in(transit, group, l3)
        } else if let Some(hop) = found.next_hop() {
            Some(hop)
        } else {
            return self.route_at_hand(transit, interface, packet, found.entry(), store);
        };
        self.forward_to(transit, packet, hop)
    }

    /// Forwards a packet whose next hop has been selected. `None`: no next hop is reachable.
    pub(super) fn forward_by<S: Store>(
        &mut self,
        transit: &mut Transit,
        hop: Option<NextHopId>,
        store: &S,
    ) -> Result<Way, DropReason> {
        let packet = read(transit, layer3(transit, store))?;
        self.forward_to(transit, packet, hop)
    }

    fn forward_to(
        &mut self,
        transit: &mut Transit,
        packet: Packet,
        hop: Option<NextHopId>,
    ) -> Result<Way, DropReason> {
        let (egress, neighbour) = self.router.via(hop.ok_or(DropReason::L3EgressLinkDown)?);
        self.forward(transit, packet, egress, neighbour)
    }

    /// Handles a packet without a next hop: its destination is on a connected network, is the switch, or has
    /// no route.
    fn route_at_hand<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        packet: Packet,
        entry: Option<Entry>,
        store: &S,
    ) -> Result<Way, DropReason> {
        let Some(entry) = entry else {
            transit.tell = Some(PuntReason::NetUnreachable);
            return Err(match packet.destination {
                Destination::V4(_) => DropReason::Lpm4Miss,
                Destination::V6(_) => DropReason::Lpm6Miss,
            });
        };
        let flow_hash = transit.parsed.flow_hash;
        match self.router.hop(entry, packet.destination.address(), flow_hash) {
            Hop::Neighbour(egress, neighbour) => self.forward(transit, packet, egress, neighbour),
            Hop::Local => self.deliver(transit, interface, store),
            Hop::Down => Err(DropReason::L3EgressLinkDown),
            Hop::Blackhole => Err(DropReason::BlackholeRoute),
        }
    }

    fn forward(
        &mut self,
        transit: &mut Transit,
        packet: Packet,
        egress: InterfaceId,
        neighbour: Option<NeighbourId>,
    ) -> Result<Way, DropReason> {
        if packet.ttl <= 1 {
            transit.tell = Some(PuntReason::TimeExceeded);
            return Err(DropReason::Ttl);
        }
        let out = self.router.interface(egress);
        if !out.up {
            return Err(DropReason::L3EgressLinkDown);
        }
        if packet.len > out.mtu {
            transit.tell = packet.tell_too_big.then_some(PuntReason::TooBig { mtu: out.mtu });
            return Err(DropReason::ExceedsL3Mtu);
        }
        let Some(neighbour) = neighbour else {
            return Err(DropReason::UnresolvedNextHop);
        };
        let Some(known) = self.router.neighbours.resolved(neighbour) else {
            return Ok(Way::Hold(neighbour));
        };
        transit.rewrite = Some(LinkAddresses::new(known.mac, out.octets));
        match out.attachment {
            Attachment::Port(port) => {
                transit.vlan = None;
                Ok(transit.leaves_by(LogicalPort(port)))
            }
            other => self.towards(transit, other, Mac::of_octets(known.mac), known.port),
        }
    }

    /// Selects the port, LAG or VLAN for a neighbour.
    fn towards(
        &self,
        transit: &mut Transit,
        attachment: Attachment,
        mac: Mac,
        heard_behind: Option<LogicalPort>,
    ) -> Result<Way, DropReason> {
        transit.vlan = None;
        match attachment {
            Attachment::Port(port) => Ok(transit.leaves_by(LogicalPort(port))),
            Attachment::Lag(lag) => Ok(transit.leaves_by(self.lags.group(lag))),
            Attachment::Vlan(vlan) => {
                transit.vlan = Some(vlan);
                let behind = self.fdb.lookup(transit.now, vlan, mac);
                let member = |port: &LogicalPort| self.vlans.members(vlan).contains(port);
                match behind.or(heard_behind.filter(member)) {
                    Some(to) => Ok(transit.leaves_by(to)),
                    None => Ok(Way::Flood),
                }
            }
            Attachment::Loopback => Err(DropReason::NonRoutable),
        }
    }

    /// Handles frames to the router that are not IP: ARP, and frames with a malformed IP header.
    #[cold]
    fn no_ip<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        store: &S,
    ) -> Result<Way, DropReason> {
        if let Some(talk) = talk(transit, store) {
            return self.converse(transit, interface, talk);
        }
        Err(match ethertype(transit, store) {
            Some(ETHERTYPE_IPV4 | ETHERTYPE_IPV6) => DropReason::IpHeaderError,
            _ => DropReason::NoL3Header,
        })
    }

    /// Handles a packet with a link-local address. Such a packet is for the router or is dropped.
    #[cold]
    fn link_scope<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        packet: Packet,
        reason: DropReason,
        store: &S,
    ) -> Result<Way, DropReason> {
        let own = |address| self.router.interface(interface).has(address) || self.is_own(address);
        match own(packet.destination.address()) {
            true => self.deliver(transit, interface, store),
            false => Err(reason),
        }
    }

    fn is_own(&self, address: std::net::IpAddr) -> bool {
        self.router
            .interfaces()
            .iter()
            .any(|interface| interface.has(address))
    }

    /// Handles a packet to an address of the switch.
    #[cold]
    fn deliver<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        store: &S,
    ) -> Result<Way, DropReason> {
        match talk(transit, store) {
            Some(talk) => self.converse(transit, interface, talk),
            None if !self.cpu_attached => Err(DropReason::DipLocal),
            None => self.hand_over(transit, PuntReason::Local),
        }
    }

    /// Handles ARP and neighbour discovery for the router: learns from the message and passes questions to
    /// the CPU.
    fn converse(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        talk: Talk,
    ) -> Result<Way, DropReason> {
        match self.listen(transit, interface, talk) && self.cpu_attached {
            true => self.hand_over(transit, PuntReason::Neighbour),
            false => Ok(Way::Consumed),
        }
    }

    fn hand_over(&mut self, transit: &Transit, reason: PuntReason) -> Result<Way, DropReason> {
        match self.router.cpu_limit.allow(transit.now) {
            true => Ok(Way::Cpu(reason)),
            false => Err(DropReason::CpuRate),
        }
    }

    /// Reads a group frame in a VLAN with a router interface. The frame is flooded as well. If it asks for an
    /// address of the router, the CPU gets a copy.
    #[cold]
    pub(super) fn overhear<S: Store>(
        &mut self,
        transit: &mut Transit,
        interface: InterfaceId,
        store: &mut S,
        punts: &mut Vec<Punt>,
    ) {
        let Some(talk) = talk(transit, store) else {
            return;
        };
        let asked = self.listen(transit, interface, talk) && self.cpu_attached;
        if asked
            && self.router.cpu_limit.allow(transit.now)
            && let Some(copy) = store.copy(transit.frame, FLOOD_PREFIX_BYTES)
        {
            punts.push(Punt {
                port: transit.from,
                interface: Some(interface),
                reason: PuntReason::Neighbour,
                frame: copy,
                l3_offset: transit.parsed.l3_offset,
            });
        }
    }

    /// Learns from ARP and neighbour discovery. Returns true if the message asks for an address of the
    /// router.
    fn listen(&mut self, transit: &Transit, interface: InterfaceId, talk: Talk) -> bool {
        let heard_on = self.router.interface(interface);
        let asked = talk.question && heard_on.has(talk.target);
        if let Some((address, mac)) = talk.sender
            && heard_on.on_link(address)
        {
            let found = self.router.neighbours.heard(
                transit.now,
                interface,
                address,
                mac,
                transit.logical,
                // A station that asks for the router, or announces itself, will receive packets. Resolve it
                // now, so that the first frame of a lossless class does not wait.
                !(asked || talk.announcement),
            );
            self.found.extend(found);
        }
        asked
    }
}

/// Parses the IP header of a frame.
fn read(transit: &Transit, l3: &[u8]) -> Result<Packet, DropReason> {
    match transit.parsed.payload {
        Payload::Ipv4 => packet::ipv4(l3),
        _ => packet::ipv6(l3, transit.frame_len - u32::from(transit.parsed.l3_offset)),
    }
}

/// The stored bytes from the layer 3 header on.
#[inline(always)]
fn layer3<'a, S: Store>(transit: &Transit, store: &'a S) -> &'a [u8] {
    let prefix = store.prefix(transit.frame);
    prefix.get(usize::from(transit.parsed.l3_offset)..).unwrap_or(&[])
}

fn ethertype<S: Store>(transit: &Transit, store: &S) -> Option<u16> {
    let at = usize::from(transit.parsed.l3_offset).checked_sub(2)?;
    let octets = store.prefix(transit.frame).get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}

/// Parses ARP or neighbour discovery. `None` for other frames.
fn talk<S: Store>(transit: &Transit, store: &S) -> Option<Talk> {
    let l3 = layer3(transit, store);
    match (transit.parsed.payload, ethertype(transit, store)) {
        (Payload::Ipv6, _) => read_discovery(l3),
        (Payload::Other, Some(ETHERTYPE_ARP)) => read_arp(l3),
        _ => None,
    }
}
