//! Packets to the switch itself: a smoltcp stack without sockets.
//!
//! It answers echo requests, puts IPv4 fragments together and sends long answers in fragments, resets TCP and refuses
//! what else comes. What it does not do:
//!
//! - IPv6 fragments: they are ignored, so a ping over IPv6 is answered up to the MTU (smoltcp 0.14 knows neither
//!   reassembly nor fragmentation of IPv6);
//! - DSCP: answers have 0, whatever was asked with;
//! - quoting a packet as it came: errors are composed by [`super::icmp`] instead, except about packets that came in
//!   fragments and for IPv6 headers that nobody knows.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    HardwareAddress, Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv4Packet,
    Ipv6Packet,
};
use xoff_units::Picos;

use super::addresses::Addresses;
use super::counters::Answer;
use super::icmp::{IcmpError, Upper, is_v4_host, is_v6_host};
use super::{ETHERNET_HEADER_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Punted, packet_frame};

/// How long the rest of a packet is waited for: Linux's `ipfrag_time`.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(30);
/// MTU for packets that came in by no interface.
const MTU_MAX: u32 = 9_216;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answered: there are packets to send.
    Replied(Answer),
    /// Nothing here takes it; its sender is to be told.
    Refused(IcmpError),
    /// Not answered, or not yet.
    Ignored,
}

/// The stacks: one per MTU, since smoltcp fixes that when a stack is made.
#[derive(Debug)]
pub(super) struct Endpoint {
    stacks: BTreeMap<u32, Stack>,
}

impl Endpoint {
    pub(super) fn new(addresses: &Addresses) -> Endpoint {
        let mut endpoint = Endpoint {
            stacks: BTreeMap::new(),
        };
        endpoint.reconfigure(addresses);
        endpoint
    }

    /// Stacks of MTUs that remain keep their fragments.
    pub(super) fn reconfigure(&mut self, addresses: &Addresses) {
        let mut before = std::mem::take(&mut self.stacks);
        self.stacks = addresses
            .mtus()
            .chain([MTU_MAX])
            .map(|mtu| (mtu, before.remove(&mtu)))
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(mtu, stack)| (mtu, stack.unwrap_or_else(|| Stack::new(mtu))))
            .collect();
    }

    /// Takes a packet. Answers are appended to `packets`, each behind an Ethernet header without addresses.
    pub(super) fn receive(
        &mut self,
        now: Picos,
        punted: &Punted<'_>,
        addresses: &Addresses,
        packets: &mut Vec<Vec<u8>>,
    ) -> Outcome {
        let l3 = punted.l3();
        let mtu = punted
            .interface
            .and_then(|id| addresses.interface(id))
            .map_or(MTU_MAX, |own| own.mtu);
        let Some(stack) = self.stacks.get_mut(&mtu) else {
            return Outcome::Ignored;
        };
        if punted.is_to_link_group() || !is_for(l3, punted, addresses) {
            return Outcome::Ignored;
        }
        stack.exchange(now, l3, packets);
        let Some(first) = packets.first() else {
            return Outcome::Ignored;
        };
        let answer = classify(&first[ETHERNET_HEADER_LEN..]);
        match answer {
            Kind::Answer(answer) => Outcome::Replied(answer),
            Kind::Error(error) if is_whole(l3) => Outcome::Refused(error),
            Kind::Error(_) => Outcome::Replied(Answer::Other),
        }
    }
}

/// From a host, to an address of the switch, and something that can be answered.
fn is_for(l3: &[u8], punted: &Punted<'_>, addresses: &Addresses) -> bool {
    let own = |to| addresses.own(to, punted.interface);
    match l3.first().map(|octet| octet >> 4) {
        Some(4) => Ipv4Packet::new_checked(l3).is_ok_and(|packet| {
            let source = packet.src_addr();
            own(IpAddr::V4(packet.dst_addr())) && is_v4_host(source) && !addresses.directed_broadcast(source)
        }),
        Some(6) => Ipv6Packet::new_checked(l3).is_ok_and(|packet| {
            // "No next header" is no error (RFC 8200 4.7), which smoltcp takes it for.
            own(IpAddr::V6(packet.dst_addr()))
                && is_v6_host(packet.src_addr())
                && Upper::of(l3)
                    .is_some_and(|upper| !upper.fragment && upper.protocol != IpProtocol::Ipv6NoNxt)
        }),
        _ => false,
    }
}

/// Not a fragment of IPv4. (Those of IPv6 do not come here.)
fn is_whole(l3: &[u8]) -> bool {
    let packet = Ipv4Packet::new_unchecked(l3);
    packet.version() != 4 || (!packet.more_frags() && packet.frag_offset() == 0)
}

enum Kind {
    Answer(Answer),
    Error(IcmpError),
}

/// What smoltcp wants to say.
fn classify(packet: &[u8]) -> Kind {
    let (protocol, payload) = match packet[0] >> 4 {
        4 => {
            let packet = Ipv4Packet::new_unchecked(packet);
            (packet.next_header(), packet.payload())
        }
        _ => {
            let packet = Ipv6Packet::new_unchecked(packet);
            (packet.next_header(), packet.payload())
        }
    };
    match protocol {
        IpProtocol::Tcp => Kind::Answer(Answer::Reset),
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_unchecked(payload);
            match (message.msg_type(), message.msg_code()) {
                (Icmpv4Message::EchoReply, _) => Kind::Answer(Answer::Echo),
                (Icmpv4Message::DstUnreachable, 3) => Kind::Error(IcmpError::PortUnreachable),
                (Icmpv4Message::DstUnreachable, 2) => Kind::Error(IcmpError::ProtocolUnreachable),
                _ => Kind::Answer(Answer::Other),
            }
        }
        IpProtocol::Icmpv6 => match Icmpv6Packet::new_unchecked(payload).msg_type() {
            Icmpv6Message::EchoReply => Kind::Answer(Answer::Echo),
            Icmpv6Message::DstUnreachable => Kind::Error(IcmpError::PortUnreachable),
            _ => Kind::Answer(Answer::Other),
        },
        _ => Kind::Answer(Answer::Other),
    }
}

/// A smoltcp interface that takes every packet for its own; which ones are has been decided before.
struct Stack {
    mtu: u32,
    interface: Box<Interface>,
    sockets: SocketSet<'static>,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("mtu", &self.mtu)
            .finish_non_exhaustive()
    }
}

impl Stack {
    fn new(mtu: u32) -> Stack {
        let mut nothing = Vec::new();
        let mut wire = Wire {
            arriving: None,
            leaving: &mut nothing,
            mtu,
        };
        // The seed is of identifiers of fragments alone. Zero everywhere: replays are to agree.
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        interface.set_any_ip(true);
        interface.set_reassembly_timeout(REASSEMBLY_TIMEOUT);
        Stack {
            mtu,
            interface: Box::new(interface),
            sockets: SocketSet::new(Vec::new()),
        }
    }

    fn exchange(&mut self, now: Picos, packet: &[u8], leaving: &mut Vec<Vec<u8>>) {
        let now = Instant::from_micros((now.as_nanos() / 1_000) as i64);
        let mut wire = Wire {
            arriving: Some(packet),
            leaving,
            mtu: self.mtu,
        };
        self.interface
            .poll_ingress_single(now, &mut wire, &mut self.sockets);
        // One fragment leaves at a time; nothing is kept for later.
        loop {
            let before = wire.leaving.len();
            self.interface.poll_egress(now, &mut wire, &mut self.sockets);
            if wire.leaving.len() == before {
                break;
            }
        }
    }
}

/// The stack's link: one packet in, any number out.
struct Wire<'a> {
    arriving: Option<&'a [u8]>,
    leaving: &'a mut Vec<Vec<u8>>,
    mtu: u32,
}

struct Arriving<'a>(&'a [u8]);

struct Leaving<'a>(&'a mut Vec<Vec<u8>>);

impl Device for Wire<'_> {
    type RxToken<'b>
        = Arriving<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Leaving<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(Arriving<'_>, Leaving<'_>)> {
        let packet = self.arriving.take()?;
        Some((Arriving(packet), Leaving(self.leaving)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu as usize;
        capabilities
    }
}

impl RxToken for Arriving<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = packet_frame(ETHERTYPE_IPV4, len);
        let result = fill(&mut frame[ETHERNET_HEADER_LEN..]);
        if frame
            .get(ETHERNET_HEADER_LEN)
            .is_some_and(|octet| octet >> 4 == 6)
        {
            frame[12..14].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
        }
        self.0.push(frame);
        result
    }
}
