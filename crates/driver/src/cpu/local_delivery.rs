//! Replies to packets for the switch itself, from a smoltcp stack without sockets.
//!
//! The stack answers echo requests, reassembles IPv4 fragments and sends long replies in fragments. The stack
//! answers TCP segments with a reset and refuses packets of all remaining kinds. The stack has these limits:
//!
//! - IPv6 fragments are ignored, because smoltcp 0.14 can neither reassemble nor fragment IPv6 packets. An
//!   IPv6 echo request is therefore answered only if the reply fits into the MTU.
//! - Replies have DSCP 0, whatever the DSCP of the request is.
//! - When smoltcp quotes a packet in an ICMP error, smoltcp changes the packet. The module [`super::icmp`]
//!   therefore builds most errors. smoltcp builds only two kinds of errors: about packets that arrived in
//!   fragments, and about unknown IPv6 headers.

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
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6};

use super::addresses::InterfaceAddresses;
use super::counters::ReplyKind;
use super::icmp::{IcmpError, UpperLayerProtocol, is_ipv4_host, is_ipv6_host};
use super::{PuntedBytes, build_frame_with_zero_payload};

/// Time limit for the reassembly of a packet, as Linux's default for `ipfrag_time`.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(30);
/// MTU in bytes for packets without an ingress interface.
const MTU_MAX: u32 = 9_216;

/// Result of a packet that was sent to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalDeliveryResult {
    /// The stack has built replies.
    Replied(ReplyKind),
    /// The switch does not accept the packet. The sender gets an ICMP error.
    Refused(IcmpError),
    /// The packet has no reply, or a fragment is still missing.
    Ignored,
}

/// The smoltcp stacks of a switch. A smoltcp interface has a fixed MTU, so the switch has one stack for each
/// MTU of its router interfaces.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// A stack is created with its first packet. Most switches of a fabric get no packet for their own addresses.
    stacks: BTreeMap<u32, Option<SmoltcpStack>>,
}

impl Endpoint {
    pub(super) fn new(addresses: &InterfaceAddresses) -> Endpoint {
        let mut endpoint = Endpoint {
            stacks: BTreeMap::new(),
        };
        endpoint.reconfigure(addresses);
        endpoint
    }

    /// Changes the set of MTUs. If an MTU stays in use, its stack keeps the fragments of incomplete packets.
    pub(super) fn reconfigure(&mut self, addresses: &InterfaceAddresses) {
        let mut previous = std::mem::take(&mut self.stacks);
        self.stacks = addresses
            .mtus()
            .chain([MTU_MAX])
            .map(|mtu| (mtu, previous.remove(&mtu).flatten()))
            .collect();
    }

    /// Processes a packet and adds the replies to `packets`, which must be empty. Each reply starts with an
    /// Ethernet header. The MAC addresses in this header are zero.
    pub(super) fn receive(
        &mut self,
        now: Picos,
        punt: &PuntedBytes<'_>,
        addresses: &InterfaceAddresses,
        packets: &mut Vec<Vec<u8>>,
    ) -> LocalDeliveryResult {
        let l3 = punt.layer3_bytes();
        let mtu = punt
            .interface
            .and_then(|id| addresses.interface(id))
            .map_or(MTU_MAX, |own| own.mtu);
        let Some(stack) = self.stacks.get_mut(&mtu) else {
            return LocalDeliveryResult::Ignored;
        };
        if punt.has_group_mac_destination() || !can_be_answered(l3, punt, addresses) {
            return LocalDeliveryResult::Ignored;
        }
        let stack = stack.get_or_insert_with(|| SmoltcpStack::new(mtu));
        stack.process_packet(now, l3, packets);
        let Some(first) = packets.first() else {
            return LocalDeliveryResult::Ignored;
        };
        match classify_output(&first[ETHERNET_LEN..]) {
            StackOutput::Reply(kind) => LocalDeliveryResult::Replied(kind),
            StackOutput::Error(error) if is_unfragmented(l3) => LocalDeliveryResult::Refused(error),
            StackOutput::Error(_) => LocalDeliveryResult::Replied(ReplyKind::Other),
        }
    }
}

/// Returns whether the stack must process a packet. The source must be a single host, the destination must be
/// an address of the switch, and the packet must be of a kind that can get a reply.
fn can_be_answered(l3: &[u8], punt: &PuntedBytes<'_>, addresses: &InterfaceAddresses) -> bool {
    let is_own = |to| addresses.is_own_address(to, punt.interface);
    match l3.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Packet::new_checked(l3).is_ok_and(|packet| {
            let source = packet.src_addr();
            is_own(IpAddr::V4(packet.dst_addr()))
                && is_ipv4_host(source)
                && !addresses.is_directed_broadcast(source)
        }),
        Some(6) => Ipv6Packet::new_checked(l3).is_ok_and(|packet| {
            // smoltcp treats "no next header" as an error, but RFC 8200 4.7 allows it.
            is_own(IpAddr::V6(packet.dst_addr()))
                && is_ipv6_host(packet.src_addr())
                && UpperLayerProtocol::find(l3)
                    .is_some_and(|upper| !upper.is_fragment && upper.protocol != IpProtocol::Ipv6NoNxt)
        }),
        _ => false,
    }
}

/// Returns whether a packet is not an IPv4 fragment. IPv6 fragments were already ignored.
fn is_unfragmented(l3: &[u8]) -> bool {
    let packet = Ipv4Packet::new_unchecked(l3);
    packet.version() != 4 || (!packet.more_frags() && packet.frag_offset() == 0)
}

/// The kind of a packet that a smoltcp stack sends.
enum StackOutput {
    Reply(ReplyKind),
    Error(IcmpError),
}

/// Returns the kind of a packet from a smoltcp stack.
fn classify_output(packet: &[u8]) -> StackOutput {
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
        IpProtocol::Tcp => StackOutput::Reply(ReplyKind::TcpReset),
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_unchecked(payload);
            match (message.msg_type(), message.msg_code()) {
                (Icmpv4Message::EchoReply, _) => StackOutput::Reply(ReplyKind::Echo),
                (Icmpv4Message::DstUnreachable, 3) => StackOutput::Error(IcmpError::PortUnreachable),
                (Icmpv4Message::DstUnreachable, 2) => StackOutput::Error(IcmpError::ProtocolUnreachable),
                _ => StackOutput::Reply(ReplyKind::Other),
            }
        }
        IpProtocol::Icmpv6 => match Icmpv6Packet::new_unchecked(payload).msg_type() {
            Icmpv6Message::EchoReply => StackOutput::Reply(ReplyKind::Echo),
            Icmpv6Message::DstUnreachable => StackOutput::Error(IcmpError::PortUnreachable),
            _ => StackOutput::Reply(ReplyKind::Other),
        },
        _ => StackOutput::Reply(ReplyKind::Other),
    }
}

/// A smoltcp interface that accepts every packet. The caller has already checked the addresses.
struct SmoltcpStack {
    mtu: u32,
    interface: Box<Interface>,
    sockets: SocketSet<'static>,
}

impl fmt::Debug for SmoltcpStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmoltcpStack")
            .field("mtu", &self.mtu)
            .finish_non_exhaustive()
    }
}

impl SmoltcpStack {
    fn new(mtu: u32) -> SmoltcpStack {
        let mut sent = Vec::new();
        let mut device = OnePacketDevice {
            received: None,
            sent: &mut sent,
            mtu,
        };
        // The random seed only affects fragment identifiers. The seed is always zero, so that replays have
        // equal results.
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::ZERO);
        interface.set_any_ip(true);
        interface.set_reassembly_timeout(REASSEMBLY_TIMEOUT);
        SmoltcpStack {
            mtu,
            interface: Box::new(interface),
            sockets: SocketSet::new(Vec::new()),
        }
    }

    /// Processes one received packet and appends the sent packets to `sent`.
    fn process_packet(&mut self, now: Picos, packet: &[u8], sent: &mut Vec<Vec<u8>>) {
        let now = Instant::from_micros((now.as_nanos() / 1_000) as i64);
        let mut device = OnePacketDevice {
            received: Some(packet),
            sent,
            mtu: self.mtu,
        };
        self.interface
            .poll_ingress_single(now, &mut device, &mut self.sockets);
        // Each call sends one fragment. The loop sends all of them.
        loop {
            let sent_before = device.sent.len();
            self.interface.poll_egress(now, &mut device, &mut self.sockets);
            if device.sent.len() == sent_before {
                break;
            }
        }
    }
}

/// A smoltcp device that receives one packet and collects the sent packets.
struct OnePacketDevice<'a> {
    received: Option<&'a [u8]>,
    sent: &'a mut Vec<Vec<u8>>,
    mtu: u32,
}

/// Token for the received packet.
struct ReceiveToken<'a>(&'a [u8]);

/// Token for a packet to send.
struct TransmitToken<'a>(&'a mut Vec<Vec<u8>>);

impl Device for OnePacketDevice<'_> {
    type RxToken<'b>
        = ReceiveToken<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = TransmitToken<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(ReceiveToken<'_>, TransmitToken<'_>)> {
        let packet = self.received.take()?;
        Some((ReceiveToken(packet), TransmitToken(self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TransmitToken<'_>> {
        Some(TransmitToken(self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu as usize;
        capabilities
    }
}

impl RxToken for ReceiveToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read_packet: F) -> R {
        read_packet(self.0)
    }
}

impl TxToken for TransmitToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write_packet: F) -> R {
        let mut frame = build_frame_with_zero_payload(ETHERTYPE_IPV4, len);
        let result = write_packet(&mut frame[ETHERNET_LEN..]);
        if frame.get(ETHERNET_LEN).is_some_and(|byte| byte >> 4 == 6) {
            frame[12..14].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
        }
        self.0.push(frame);
        result
    }
}
