//! ARP, IPv6 neighbour discovery and echo replies of a host.
//!
//! The host announces its addresses, answers requests and resolves the addresses of its destinations. These
//! frames are rare. They are therefore built with the types of smoltcp, and building a frame may allocate
//! memory.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv4Message, Icmpv4Packet, Icmpv6Message,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
};
use xoff_units::Picos;
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{ETHERTYPE_IPV6, MIN_FRAME_LEN, VlanTag};

use super::config::HostConfig;

/// Largest number of frames that wait for the link. Further frames are dropped, because the other side
/// repeats its requests.
const OUTBOX_MAX: usize = 64;
/// Longest echo reply in bytes. Longer echo requests get no reply.
pub(super) const REPLY_LEN_MAX: usize = 1518;
/// Largest number of addresses that the host resolves at a time.
const UNRESOLVED_MAX: usize = 4096;
/// Interval between requests without a reply (RFC 4861 `RETRANS_TIMER`). The first announcement is repeated
/// once after this interval, because a port may still be coming up.
const RETRY_INTERVAL: Picos = Picos::from_millis(1_000);

const BROADCAST: [u8; 6] = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ETHERTYPE_ARP: u16 = 0x0806;

/// A frame of the host itself, with the time since which it waits.
#[derive(Clone, Debug)]
pub(super) struct ControlFrame {
    pub(super) created: Picos,
    pub(super) bytes: Vec<u8>,
}

/// A destination whose MAC address became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolvedAddress {
    pub(super) ip: IpAddr,
    pub(super) mac: [u8; 6],
}

/// State of ARP and neighbour discovery, with the frames to send.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    mac: [u8; 6],
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    vlan: Option<VlanTag>,
    announce_interval: Picos,
    next_announcement: Picos,
    has_announced: bool,
    unresolved: Vec<(IpAddr, Picos)>,
    /// Time of the next announcement or request.
    deadline: Picos,
    outbox: VecDeque<ControlFrame>,
    /// Number of frames that were not sent, because too many frames waited or an echo request was too long.
    pub(super) dropped_frames: u64,
}

impl Neighbours {
    pub(super) fn new(config: &HostConfig) -> Neighbours {
        Neighbours {
            mac: config.mac,
            ipv4: config.ipv4,
            ipv6: config.ipv6,
            vlan: config.vlan,
            announce_interval: config.announce_interval,
            next_announcement: Picos::ZERO,
            has_announced: false,
            unresolved: Vec::new(),
            deadline: Picos::ZERO,
            outbox: VecDeque::new(),
            dropped_frames: 0,
        }
    }

    /// Starts to resolve `ip`. The request is repeated until a reply arrives.
    pub(super) fn resolve(&mut self, ip: IpAddr) {
        let is_pending = self.unresolved.iter().any(|(other, _)| *other == ip);
        if !is_pending && self.unresolved.len() < UNRESOLVED_MAX {
            self.unresolved.push((ip, Picos::ZERO));
            self.update_deadline();
        }
    }

    /// Restarts the announcements, as at the start of the host.
    pub(super) fn announce_again(&mut self, now: Picos) {
        self.next_announcement = now;
        self.has_announced = false;
        self.update_deadline();
    }

    /// Returns the addresses without a reply.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.unresolved.iter().map(|(ip, _)| *ip)
    }

    /// Appends the frames that are due at `now` to the outbox.
    #[inline]
    pub(super) fn advance(&mut self, now: Picos) {
        if self.deadline <= now {
            self.queue_due_frames(now);
        }
    }

    #[inline(never)]
    fn queue_due_frames(&mut self, now: Picos) {
        if now >= self.next_announcement {
            self.announce(now);
            self.next_announcement = match (self.has_announced, self.announce_interval) {
                (false, _) => now.saturating_add(RETRY_INTERVAL),
                (true, Picos::ZERO) => Picos::NEVER,
                (true, interval) => now.saturating_add(interval),
            };
            self.has_announced = true;
        }
        let mut due = Vec::new();
        for (ip, retry_at) in &mut self.unresolved {
            if *retry_at <= now {
                *retry_at = now.saturating_add(RETRY_INTERVAL);
                due.push(*ip);
            }
        }
        for ip in due {
            self.send_request(now, ip);
        }
        self.update_deadline();
    }

    /// Returns the time at which [`Neighbours::advance`] must be called next.
    #[inline]
    pub(super) fn next_deadline(&self) -> Picos {
        self.deadline
    }

    fn update_deadline(&mut self) {
        let retry_at = self.unresolved.iter().map(|(_, retry_at)| *retry_at).min();
        self.deadline = self.next_announcement.min(retry_at.unwrap_or(Picos::NEVER));
    }

    /// Returns the frame that waits longest.
    #[inline]
    pub(super) fn front(&self) -> Option<&ControlFrame> {
        self.outbox.front()
    }

    /// Removes and returns the frame that waits longest.
    pub(super) fn pop(&mut self) -> Option<ControlFrame> {
        self.outbox.pop_front()
    }

    fn queue_frame(&mut self, now: Picos, bytes: Vec<u8>) {
        match self.outbox.len() < OUTBOX_MAX && bytes.len() <= REPLY_LEN_MAX {
            true => self.outbox.push_back(ControlFrame { created: now, bytes }),
            false => self.dropped_frames += 1,
        }
    }

    /// Processes a received frame that is not RoCE. If the frame is a request for this host, queues a reply.
    /// Returns the address that the frame resolves, if any.
    pub(super) fn receive(
        &mut self,
        now: Picos,
        frame: &[u8],
        parsed: &ParsedHeaders,
    ) -> Option<ResolvedAddress> {
        let l3 = frame.get(usize::from(parsed.l3_offset)..)?;
        let ethertype = frame
            .get(usize::from(parsed.l3_offset).checked_sub(2)?..)?
            .first_chunk::<2>()?;
        match parsed.payload {
            Payload::Ipv4 => self.receive_ipv4(now, frame, l3),
            Payload::Ipv6 => return self.receive_ipv6(now, frame, l3),
            Payload::Other if u16::from_be_bytes(*ethertype) == ETHERTYPE_ARP => {
                return self.receive_arp(now, l3);
            }
            _ => None,
        };
        None
    }

    fn receive_arp(&mut self, now: Picos, l3: &[u8]) -> Option<ResolvedAddress> {
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        } = ArpRepr::parse(&ArpPacket::new_checked(l3).ok()?).ok()?
        else {
            return None;
        };
        if operation == ArpOperation::Request && Some(target_protocol_addr) == self.ipv4 {
            let reply = self.build_arp(ArpOperation::Reply, source_hardware_addr.0, source_protocol_addr);
            self.queue_frame(now, reply);
        }
        self.resolve_address(IpAddr::V4(source_protocol_addr), source_hardware_addr.0)
    }

    fn receive_ipv4(&mut self, now: Picos, frame: &[u8], l3: &[u8]) -> Option<()> {
        let packet = Ipv4Packet::new_checked(l3).ok()?;
        let echo = packet.next_header() == IpProtocol::Icmp
            && Some(packet.dst_addr()) == self.ipv4
            && !packet.more_frags()
            && packet.frag_offset() == 0;
        let request = Icmpv4Packet::new_checked(packet.payload()).ok()?;
        if !echo || request.msg_type() != Icmpv4Message::EchoRequest {
            return None;
        }
        let (source, target) = (packet.src_addr(), packet.dst_addr());
        let l3_offset = frame.len() - l3.len();
        let mut reply = frame.to_vec();
        self.set_reply_macs(&mut reply);
        // Swapping the addresses does not change the header checksum.
        let mut packet = Ipv4Packet::new_unchecked(&mut reply[l3_offset..]);
        packet.set_src_addr(target);
        packet.set_dst_addr(source);
        let mut message = Icmpv4Packet::new_unchecked(packet.payload_mut());
        message.set_msg_type(Icmpv4Message::EchoReply);
        message.fill_checksum();
        self.queue_frame(now, reply);
        Some(())
    }

    fn receive_ipv6(&mut self, now: Picos, frame: &[u8], l3: &[u8]) -> Option<ResolvedAddress> {
        let packet = Ipv6Packet::new_checked(l3).ok()?;
        if packet.next_header() != IpProtocol::Icmpv6 {
            return None;
        }
        let (source, target) = (packet.src_addr(), packet.dst_addr());
        let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
        if !message.verify_checksum(&source, &target) {
            return None;
        }
        let requester_mac = *frame.get(6..12)?.first_chunk::<6>()?;
        match message.msg_type() {
            Icmpv6Message::NeighborSolicit if Some(message.target_addr()) == self.ipv6 => {
                // Duplicate address detection uses the unspecified source address. The reply goes to all
                // nodes.
                let (to_mac, to_ip) = if source.is_unspecified() {
                    (multicast_mac(ALL_NODES), ALL_NODES)
                } else {
                    (requester_mac, source)
                };
                let advert = self.build_advertisement(to_mac, to_ip, !source.is_unspecified());
                self.queue_frame(now, advert);
                None
            }
            Icmpv6Message::NeighborAdvert => {
                self.resolve_address(IpAddr::V6(message.target_addr()), requester_mac)
            }
            Icmpv6Message::EchoRequest if Some(target) == self.ipv6 => {
                let l3_offset = frame.len() - l3.len();
                let mut reply = frame.to_vec();
                self.set_reply_macs(&mut reply);
                let mut packet = Ipv6Packet::new_unchecked(&mut reply[l3_offset..]);
                packet.set_src_addr(target);
                packet.set_dst_addr(source);
                let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
                message.set_msg_type(Icmpv6Message::EchoReply);
                message.fill_checksum(&target, &source);
                self.queue_frame(now, reply);
                None
            }
            _ => None,
        }
    }

    fn resolve_address(&mut self, ip: IpAddr, mac: [u8; 6]) -> Option<ResolvedAddress> {
        let at = self.unresolved.iter().position(|(other, _)| *other == ip)?;
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        unicast.then(|| {
            self.unresolved.swap_remove(at);
            self.update_deadline();
            ResolvedAddress { ip, mac }
        })
    }

    fn set_reply_macs(&self, frame: &mut [u8]) {
        frame.copy_within(6..12, 0);
        frame[6..12].copy_from_slice(&self.mac);
    }

    fn announce(&mut self, now: Picos) {
        if let Some(ip) = self.ipv4 {
            // An ARP announcement is a request for the sender's own address (RFC 5227).
            let frame = self.build_arp(ArpOperation::Request, BROADCAST, ip);
            self.queue_frame(now, frame);
        }
        if self.ipv6.is_some() {
            let frame = self.build_advertisement(multicast_mac(ALL_NODES), ALL_NODES, false);
            self.queue_frame(now, frame);
        }
    }

    fn send_request(&mut self, now: Picos, ip: IpAddr) {
        let frame = match ip {
            IpAddr::V4(ip) => self.build_arp(ArpOperation::Request, BROADCAST, ip),
            IpAddr::V6(ip) => self.build_solicitation(ip),
        };
        self.queue_frame(now, frame);
    }

    fn build_arp(&self, operation: ArpOperation, to: [u8; 6], target: Ipv4Addr) -> Vec<u8> {
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.mac),
            source_protocol_addr: self.ipv4.unwrap_or(Ipv4Addr::UNSPECIFIED),
            target_hardware_addr: EthernetAddress(if to == BROADCAST { [0; 6] } else { to }),
            target_protocol_addr: target,
        };
        let (mut frame, at) = self.build_frame(to, ETHERTYPE_ARP, repr.buffer_len());
        repr.emit(&mut ArpPacket::new_unchecked(&mut frame[at..]));
        frame
    }

    fn build_solicitation(&self, target: Ipv6Addr) -> Vec<u8> {
        let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
        group[13..].copy_from_slice(&target.octets()[13..]);
        let group = Ipv6Addr::from(group);
        let lladdr = Some(EthernetAddress(self.mac).into());
        self.build_ndisc(
            multicast_mac(group),
            group,
            NdiscRepr::NeighborSolicit {
                target_addr: target,
                lladdr,
            },
        )
    }

    fn build_advertisement(&self, to_mac: [u8; 6], to: Ipv6Addr, solicited: bool) -> Vec<u8> {
        let mut flags = NdiscNeighborFlags::OVERRIDE;
        flags.set(NdiscNeighborFlags::SOLICITED, solicited);
        let target_addr = self.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let lladdr = Some(EthernetAddress(self.mac).into());
        self.build_ndisc(
            to_mac,
            to,
            NdiscRepr::NeighborAdvert {
                flags,
                target_addr,
                lladdr,
            },
        )
    }

    fn build_ndisc(&self, to_mac: [u8; 6], to: Ipv6Addr, repr: NdiscRepr<'_>) -> Vec<u8> {
        let message = Icmpv6Repr::Ndisc(repr);
        let source = self.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        // Receivers ignore neighbour discovery with another hop limit (RFC 4861).
        let ip = Ipv6Repr {
            src_addr: source,
            dst_addr: to,
            next_header: IpProtocol::Icmpv6,
            payload_len: message.buffer_len(),
            hop_limit: 255,
        };
        let (mut frame, at) =
            self.build_frame(to_mac, ETHERTYPE_IPV6, ip.buffer_len() + message.buffer_len());
        ip.emit(&mut Ipv6Packet::new_unchecked(&mut frame[at..]));
        let body = &mut frame[at + ip.buffer_len()..at + ip.buffer_len() + message.buffer_len()];
        message.emit(
            &source,
            &to,
            &mut Icmpv6Packet::new_unchecked(body),
            &ChecksumCapabilities::default(),
        );
        frame
    }

    /// Builds a frame of at least the minimum length. Returns the frame and the offset of its payload.
    fn build_frame(&self, to: [u8; 6], ethertype: u16, payload_len: usize) -> (Vec<u8>, usize) {
        let mut frame = Vec::with_capacity(MIN_FRAME_LEN.max(18 + payload_len));
        frame.extend_from_slice(&to);
        frame.extend_from_slice(&self.mac);
        if let Some(tag) = self.vlan {
            frame.extend_from_slice(&tag.tpid.to_be_bytes());
            frame.extend_from_slice(&tag.tci.to_be_bytes());
        }
        frame.extend_from_slice(&ethertype.to_be_bytes());
        let at = frame.len();
        frame.resize(MIN_FRAME_LEN.max(at + payload_len), 0);
        (frame, at)
    }
}

/// Returns the multicast MAC address of an IPv6 multicast address (RFC 2464 section 7).
fn multicast_mac(ip: Ipv6Addr) -> [u8; 6] {
    let octets = ip.octets();
    [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]
}
