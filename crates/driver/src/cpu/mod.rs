//! What stands behind the CPU port: answers to ARP, neighbour discovery and pings, and the ICMP errors of a router.
//!
//! The data plane hands over frames that concern the switch itself and copies of packets whose sender is to be told why
//! they went nowhere ([`PuntReason`]); what comes back are frames for a router interface and packets for the data plane
//! to route ([`Reply`]). Like the data plane this has no clock and no sockets: the same punts at the same model times give
//! the same replies, in real time, in replay and in virtual time. Everything is answered in the call that asks, so that
//! no deadline is needed; the only state kept between calls are IPv4 fragments that wait for their rest. Limiting the
//! rate of punts is the data plane's part, and so is finding neighbours for what is forwarded.
//!
//! - ARP and neighbour discovery: an interface answers for its own addresses alone, so a loopback address is reached by
//!   routing. (Linux by itself answers ARP for any address of the machine, on any interface.) See `neighbour`.
//! - Packets to the switch go through a smoltcp stack that knows no sockets: echo requests are answered, UDP is
//!   refused by "port unreachable", TCP by a reset. See `local`, also for what smoltcp cannot do.
//! - Errors are composed by RFC 1812 4.3 and RFC 4443 2.4, or suppressed and counted by rule. See `icmp`.

mod addresses;
mod counters;
mod icmp;
mod local;
mod neighbour;

use std::net::IpAddr;

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::{Picos, PuntReason};

use addresses::Addresses;
pub use counters::CpuCounters;
pub use icmp::{IcmpError, Suppression};
use local::Endpoint;

/// Octets of an Ethernet header without a tag.
const ETHERNET_HEADER_LEN: usize = 14;
/// Shortest frame without its FCS.
const MIN_FRAME_LEN: usize = 60;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Time to live of packets of the switch's own (RFC 1700's recommendation, and what smoltcp and Linux send).
const TTL: u8 = 64;

/// A frame for the CPU: [`xoff_dataplane::PuntedFrame`] with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Punted<'a> {
    /// The router interface it came in on, if it did.
    pub interface: Option<InterfaceId>,
    /// What is wanted.
    pub reason: PuntReason,
    /// Where its layer-3 header begins; tags may stand in front of it.
    pub l3_offset: u8,
    /// The frame as it came in, or as much of it as is stored.
    pub bytes: &'a [u8],
}

impl<'a> Punted<'a> {
    /// From the layer-3 header on; empty if there is none.
    fn l3(&self) -> &'a [u8] {
        self.bytes.get(usize::from(self.l3_offset)..).unwrap_or_default()
    }

    /// Its ethertype, behind any tags.
    fn ethertype(&self) -> Option<u16> {
        let end = usize::from(self.l3_offset);
        let field = self.bytes.get(end.checked_sub(2)?..end)?;
        Some(u16::from_be_bytes(*field.first_chunk()?))
    }

    /// Whose frame it is on the link.
    fn source_mac(&self) -> Option<[u8; 6]> {
        self.bytes.get(6..12)?.first_chunk().copied()
    }

    /// Sent to a group on the link: broadcast or multicast.
    fn is_to_link_group(&self) -> bool {
        self.bytes.first().is_some_and(|octet| octet & 1 != 0)
    }
}

/// What the CPU wants to have sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An Ethernet frame without a tag, by a router interface.
    Frame {
        /// Which.
        interface: InterfaceId,
        /// From the destination address on.
        bytes: Vec<u8>,
    },
    /// A packet for the data plane to route: an Ethernet header whose ethertype is set and whose addresses are zero,
    /// then the packet.
    Packet {
        /// Where the question came in, which is where a link-local destination is.
        interface: Option<InterfaceId>,
        /// All of it.
        bytes: Vec<u8>,
    },
}

impl Reply {
    /// The octets to be sent.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Frame { bytes, .. } | Reply::Packet { bytes, .. } => bytes,
        }
    }
}

/// What stands behind the CPU port of one switch.
#[derive(Debug)]
pub struct Cpu {
    addresses: Addresses,
    endpoint: Endpoint,
    counters: CpuCounters,
    /// Scratch: packets that wait to become replies.
    packets: Vec<Vec<u8>>,
}

impl Cpu {
    /// For a switch with these router interfaces.
    pub fn new(config: &RoutingConfig) -> Cpu {
        let addresses = Addresses::new(config);
        Cpu {
            endpoint: Endpoint::new(&addresses),
            addresses,
            counters: CpuCounters::default(),
            packets: Vec::new(),
        }
    }

    /// Takes new interfaces and addresses. Counters go on, and so do fragments under reassembly.
    pub fn reconfigure(&mut self, config: &RoutingConfig) {
        self.addresses = Addresses::new(config);
        self.endpoint.reconfigure(&self.addresses);
    }

    /// What has been answered so far, and what has not.
    pub fn counters(&self) -> &CpuCounters {
        &self.counters
    }

    /// A reply that could not be sent: no slot for it, no way out.
    pub fn note_unsent(&mut self) {
        self.counters.unsent += 1;
    }

    /// Takes a frame and appends what is to be answered.
    pub fn handle(&mut self, now: Picos, punted: &Punted<'_>, replies: &mut Vec<Reply>) {
        let error = match punted.reason {
            // Nothing listens to LLDP, LACP and their like.
            PuntReason::Protocol => return self.counters.protocol_ignored += 1,
            PuntReason::Neighbour => return self.neighbour(punted, replies),
            PuntReason::Local => return self.local(now, punted, replies),
            PuntReason::TimeExceeded => IcmpError::TimeExceeded,
            PuntReason::NetUnreachable => IcmpError::NetUnreachable,
            PuntReason::HostUnreachable => IcmpError::HostUnreachable,
            PuntReason::TooBig { mtu } => IcmpError::TooBig { mtu },
        };
        self.report(error, punted, replies);
    }

    fn neighbour(&mut self, punted: &Punted<'_>, replies: &mut Vec<Reply>) {
        let Some(interface) = punted.interface else {
            return self.counters.neighbour_ignored += 1;
        };
        let answer = self.addresses.interface(interface).and_then(|own| {
            let arp = punted.ethertype() == Some(ETHERTYPE_ARP);
            let answered = match arp {
                true => neighbour::answer_arp(own, punted.l3()),
                false => neighbour::answer_solicitation(own, punted),
            };
            Some((arp, answered?))
        });
        let Some((arp, bytes)) = answer else {
            return self.counters.neighbour_ignored += 1;
        };
        match arp {
            true => self.counters.arp_replies += 1,
            false => self.counters.neighbour_adverts += 1,
        }
        replies.push(Reply::Frame { interface, bytes });
    }

    fn local(&mut self, now: Picos, punted: &Punted<'_>, replies: &mut Vec<Reply>) {
        let mut packets = std::mem::take(&mut self.packets);
        let outcome = self.endpoint.receive(now, punted, &self.addresses, &mut packets);
        match outcome {
            // smoltcp's own report would quote a header that it has composed anew.
            local::Outcome::Refused(error) => self.report(error, punted, replies),
            local::Outcome::Replied(kind) => {
                *self.counters.of(kind) += 1;
                let interface = punted.interface;
                replies.extend(packets.drain(..).map(|bytes| Reply::Packet { interface, bytes }));
            }
            local::Outcome::Ignored => self.counters.local_ignored += 1,
        }
        packets.clear();
        self.packets = packets;
    }

    fn report(&mut self, error: IcmpError, punted: &Punted<'_>, replies: &mut Vec<Reply>) {
        match icmp::compose(error, punted, &self.addresses) {
            Ok(bytes) => {
                self.counters.errors[error.index()] += 1;
                let interface = punted.interface;
                replies.push(Reply::Packet { interface, bytes });
            }
            Err(rule) => self.counters.suppressed[rule as usize] += 1,
        }
    }
}

/// IPv6 alone: 169.254.0.0/16 is routed like any other network that an interface has an address of.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// An Ethernet header for a packet that the data plane is to route, with room for `len` octets behind it.
fn packet_frame(ethertype: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET_HEADER_LEN + len];
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests;
