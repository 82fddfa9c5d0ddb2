//! The stack behind the CPU port. The stack replies to ARP, neighbour discovery and echo requests, and sends
//! the ICMP errors of a router.
//!
//! The data plane sends two kinds of frames to the CPU port ([`PuntReason`]): frames for the switch itself,
//! and dropped packets about which the stack sends an ICMP error. The stack returns two kinds of replies
//! ([`Reply`]): frames for a router interface, and packets that the data plane routes.
//!
//! The stack has no clock and no sockets. Equal frames at equal model times get equal replies, in real time,
//! in replays and in virtual time. Each call builds its replies immediately, so the stack needs no timers.
//! Between calls, the stack stores only IPv4 fragments of incomplete packets. The data plane limits the rate
//! of frames to the CPU port, and resolves the neighbours of forwarded packets.
//!
//! - `arp_nd` answers ARP and neighbour discovery. An interface answers only for its own addresses, so hosts
//!   must route packets to a loopback address. Linux differs: by default, a Linux machine answers ARP for any
//!   of its addresses on any of its interfaces.
//! - `local_delivery` passes packets for the switch to a smoltcp stack without sockets. The stack answers
//!   echo requests. It refuses UDP with "port unreachable" and TCP with a reset.
//! - `icmp` builds ICMP errors according to RFC 1812 4.3 and RFC 4443 2.4. If a rule of these RFCs forbids an
//!   error, no error is sent and [`CpuCounters::suppressed`] counts the rule.
//!
//! The LLDP agent ([`LldpAgent`]) is not part of the stack. It has timers, which [`CpuPort`](crate::CpuPort) requests
//! from the switch.

mod addresses;
mod arp_nd;
mod counters;
mod icmp;
mod lldp;
mod local_delivery;

use std::net::IpAddr;

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::{Picos, PuntReason};
use xoff_wire::{ETHERNET_LEN, NeighbourMessage};

use addresses::InterfaceAddresses;
pub use counters::CpuCounters;
pub use icmp::{IcmpError, IcmpErrorSuppressionReason};
pub use lldp::LldpAgent;
use local_delivery::{Endpoint, LocalDeliveryResult};

/// TTL of packets from the switch. RFC 1700, smoltcp and Linux use the same default.
const TTL: u8 = 64;

/// A frame that the data plane sent to the CPU port, with its bytes. See [`xoff_dataplane::PuntedFrame`].
#[derive(Clone, Copy, Debug)]
pub struct PuntedBytes<'a> {
    /// The router interface that received the frame. `None` if no router interface belongs to its port
    /// and VLAN.
    pub interface: Option<InterfaceId>,
    /// The reason for which the data plane sent the frame to the CPU port.
    pub reason: PuntReason,
    /// Offset of the layer-3 header from the start of the frame, in bytes. VLAN tags may precede this header.
    pub l3_offset: u8,
    /// The received frame. The end of a long frame may be missing.
    pub bytes: &'a [u8],
}

impl<'a> PuntedBytes<'a> {
    /// Returns the bytes that start at the layer-3 header. If the frame has no layer-3 header, returns an
    /// empty slice.
    fn layer3_bytes(&self) -> &'a [u8] {
        self.bytes.get(usize::from(self.l3_offset)..).unwrap_or_default()
    }

    /// Returns the source MAC address of the frame. Returns `None` if the frame is too short.
    fn source_mac(&self) -> Option<[u8; 6]> {
        self.bytes.get(6..12)?.first_chunk().copied()
    }

    /// Returns whether the destination MAC address is a broadcast or multicast address.
    fn has_group_mac_destination(&self) -> bool {
        self.bytes.first().is_some_and(|byte| byte & 1 != 0)
    }
}

/// A frame or an IP packet that the CPU stack sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An Ethernet frame without a tag, to be sent through a router interface.
    Frame {
        /// The egress interface.
        interface: InterfaceId,
        /// The frame from the destination MAC address on, without FCS.
        bytes: Vec<u8>,
    },
    /// An IP packet that the data plane must route. An Ethernet header with the ethertype precedes the
    /// packet. The MAC addresses in this header are zero.
    Packet {
        /// The interface that received the request, if any. A packet to a link-local address leaves through
        /// this interface.
        interface: Option<InterfaceId>,
        /// The Ethernet header and the packet.
        bytes: Vec<u8>,
    },
}

impl Reply {
    /// Returns the bytes to send, which start with an Ethernet header.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Frame { bytes, .. } | Reply::Packet { bytes, .. } => bytes,
        }
    }
}

/// The stack behind the CPU port of one switch.
#[derive(Debug)]
pub struct CpuStack {
    addresses: InterfaceAddresses,
    endpoint: Endpoint,
    counters: CpuCounters,
    /// Reused buffer for packets that become replies. The buffer is empty between calls.
    packets: Vec<Vec<u8>>,
}

impl CpuStack {
    /// Creates a stack for the router interfaces of a switch.
    pub fn new(config: &RoutingConfig) -> CpuStack {
        let addresses = InterfaceAddresses::new(config);
        CpuStack {
            endpoint: Endpoint::new(&addresses),
            addresses,
            counters: CpuCounters::default(),
            packets: Vec::new(),
        }
    }

    /// Changes the router interfaces and their addresses. The counters are kept. Fragments of incomplete
    /// packets are kept if the MTU of their interface stays in use.
    pub fn reconfigure(&mut self, config: &RoutingConfig) {
        self.addresses = InterfaceAddresses::new(config);
        self.endpoint.reconfigure(&self.addresses);
    }

    /// Returns the counters of replies, ignored frames and ICMP errors.
    pub fn counters(&self) -> &CpuCounters {
        &self.counters
    }

    /// Counts a reply that was not sent for lack of a free frame slot or an egress port.
    pub fn count_unsent_reply(&mut self) {
        self.counters.unsent += 1;
    }

    /// Processes a frame that the data plane sent to the CPU port at the model time `now`. The replies are
    /// appended to `replies`.
    pub fn handle_punt(&mut self, now: Picos, punt: &PuntedBytes<'_>, replies: &mut Vec<Reply>) {
        let error = match punt.reason {
            // The stack does not implement LACP and similar protocols. The LLDP agent has processed LLDP frames.
            PuntReason::Protocol => return self.counters.protocol_ignored += 1,
            PuntReason::Neighbour => return self.answer_neighbour(punt, replies),
            PuntReason::Local => return self.answer_local(now, punt, replies),
            PuntReason::TimeExceeded => IcmpError::TimeExceeded,
            PuntReason::NetUnreachable => IcmpError::NetUnreachable,
            PuntReason::HostUnreachable => IcmpError::HostUnreachable,
            PuntReason::TooBig { mtu } => IcmpError::TooBig { mtu },
            // Such an entry has no frame, and the CPU port does not pass it on.
            PuntReason::Timer | PuntReason::LinkChange => return,
        };
        self.send_error(error, punt, replies);
    }

    fn answer_neighbour(&mut self, punt: &PuntedBytes<'_>, replies: &mut Vec<Reply>) {
        let message = NeighbourMessage::parse(punt.bytes, usize::from(punt.l3_offset));
        let reply = punt.interface.zip(message).and_then(|(interface, request)| {
            let own = self.addresses.interface(interface)?;
            let bytes = arp_nd::answer_request(own, &request, punt.source_mac())?;
            Some((interface, request.target.is_ipv4(), bytes))
        });
        let Some((interface, is_arp, bytes)) = reply else {
            return self.counters.neighbour_ignored += 1;
        };
        match is_arp {
            true => self.counters.arp_replies += 1,
            false => self.counters.neighbour_adverts += 1,
        }
        replies.push(Reply::Frame { interface, bytes });
    }

    fn answer_local(&mut self, now: Picos, punt: &PuntedBytes<'_>, replies: &mut Vec<Reply>) {
        let mut packets = std::mem::take(&mut self.packets);
        match self.endpoint.receive(now, punt, &self.addresses, &mut packets) {
            // An error from smoltcp would quote a changed header.
            LocalDeliveryResult::Refused(error) => self.send_error(error, punt, replies),
            LocalDeliveryResult::Replied(kind) => {
                *self.counters.reply_counter_mut(kind) += 1;
                let interface = punt.interface;
                replies.extend(packets.drain(..).map(|bytes| Reply::Packet { interface, bytes }));
            }
            LocalDeliveryResult::Ignored => self.counters.local_ignored += 1,
        }
        packets.clear();
        self.packets = packets;
    }

    fn send_error(&mut self, error: IcmpError, punt: &PuntedBytes<'_>, replies: &mut Vec<Reply>) {
        match icmp::build_error(error, punt, &self.addresses) {
            Ok(bytes) => {
                self.counters.errors[error.index()] += 1;
                let interface = punt.interface;
                replies.push(Reply::Packet { interface, bytes });
            }
            Err(rule) => self.counters.suppressed[rule as usize] += 1,
        }
    }
}

/// Returns whether an address is an IPv6 link-local address. The result is false for IPv4 link-local
/// addresses (169.254.0.0/16), which are routed like ordinary addresses.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Builds an Ethernet header for a packet that the data plane routes, followed by `packet_len` zero bytes.
fn build_frame_with_zero_payload(ethertype: u16, packet_len: usize) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET_LEN + packet_len];
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests;
