//! The host's place in the network: it says who it is, answers who asks, and asks for those it sends to.
//!
//! Rare frames, so they are built with smoltcp's representations and may allocate.

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

/// Frames that wait for the link; further ones are not sent (the asker asks again).
const OUTBOX_MAX: usize = 64;
/// Echo requests longer than this are not answered.
pub(super) const ANSWER_LEN_MAX: usize = 1518;
/// Destinations asked for at once.
const UNRESOLVED_MAX: usize = 4096;
/// An unanswered question is asked again after this (RFC 4861 `RETRANS_TIMER`), and the announcement of the start is
/// repeated once: a port may still have been coming up.
const RETRY: Picos = Picos::from_millis(1_000);

const BROADCAST: [u8; 6] = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ETHERTYPE_ARP: u16 = 0x0806;

/// A frame of the host's own, and since when it waits.
#[derive(Clone, Debug)]
pub(super) struct ControlFrame {
    pub(super) created: Picos,
    pub(super) bytes: Vec<u8>,
}

/// A destination whose address became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) ip: IpAddr,
    pub(super) mac: [u8; 6],
}

/// ARP, neighbour discovery, echo.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    mac: [u8; 6],
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    vlan: Option<VlanTag>,
    interval: Picos,
    next_announcement: Picos,
    announced: bool,
    unresolved: Vec<(IpAddr, Picos)>,
    /// When the next announcement or question is due.
    deadline: Picos,
    outbox: VecDeque<ControlFrame>,
    /// Frames that were not sent: too many waited, or the echo request was too long to be answered.
    pub(super) dropped_frames: u64,
}

impl Neighbours {
    pub(super) fn new(config: &HostConfig) -> Neighbours {
        Neighbours {
            mac: config.mac,
            ipv4: config.ipv4,
            ipv6: config.ipv6,
            vlan: config.vlan,
            interval: config.announce_interval,
            next_announcement: Picos::ZERO,
            announced: false,
            unresolved: Vec::new(),
            deadline: Picos::ZERO,
            outbox: VecDeque::new(),
            dropped_frames: 0,
        }
    }

    /// Asks for `ip` until it answers.
    pub(super) fn resolve(&mut self, ip: IpAddr) {
        let known = self.unresolved.iter().any(|(other, _)| *other == ip);
        if !known && self.unresolved.len() < UNRESOLVED_MAX {
            self.unresolved.push((ip, Picos::ZERO));
            self.note_deadline();
        }
    }

    /// Announces itself anew, as at the start.
    pub(super) fn announce_again(&mut self, now: Picos) {
        self.next_announcement = now;
        self.announced = false;
        self.note_deadline();
    }

    /// Addresses that have not answered yet.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.unresolved.iter().map(|(ip, _)| *ip)
    }

    /// Puts what is due at `now` into the outbox.
    #[inline]
    pub(super) fn advance(&mut self, now: Picos) {
        if self.deadline <= now {
            self.speak(now);
        }
    }

    #[inline(never)]
    fn speak(&mut self, now: Picos) {
        if now >= self.next_announcement {
            self.announce(now);
            self.next_announcement = match (self.announced, self.interval) {
                (false, _) => now.saturating_add(RETRY),
                (true, Picos::ZERO) => Picos::NEVER,
                (true, interval) => now.saturating_add(interval),
            };
            self.announced = true;
        }
        let mut questions = Vec::new();
        for (ip, at) in &mut self.unresolved {
            if *at <= now {
                *at = now.saturating_add(RETRY);
                questions.push(*ip);
            }
        }
        for ip in questions {
            self.ask(now, ip);
        }
        self.note_deadline();
    }

    /// When [`Neighbours::advance`] has something to do next.
    #[inline]
    pub(super) fn next_deadline(&self) -> Picos {
        self.deadline
    }

    fn note_deadline(&mut self) {
        let question = self.unresolved.iter().map(|(_, at)| *at).min();
        self.deadline = self.next_announcement.min(question.unwrap_or(Picos::NEVER));
    }

    /// The frame that waits longest.
    #[inline]
    pub(super) fn front(&self) -> Option<&ControlFrame> {
        self.outbox.front()
    }

    /// Takes the frame that waits longest.
    pub(super) fn pop(&mut self) -> Option<ControlFrame> {
        self.outbox.pop_front()
    }

    fn post(&mut self, now: Picos, bytes: Vec<u8>) {
        match self.outbox.len() < OUTBOX_MAX && bytes.len() <= ANSWER_LEN_MAX {
            true => self.outbox.push_back(ControlFrame { created: now, bytes }),
            false => self.dropped_frames += 1,
        }
    }

    /// Takes a frame that is not RoCE: answers it if it asks for us, and says what it resolves.
    pub(super) fn receive(&mut self, now: Picos, frame: &[u8], parsed: &ParsedHeaders) -> Option<Resolved> {
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

    fn receive_arp(&mut self, now: Picos, l3: &[u8]) -> Option<Resolved> {
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
            let reply = self.arp(ArpOperation::Reply, source_hardware_addr.0, source_protocol_addr);
            self.post(now, reply);
        }
        self.learn(IpAddr::V4(source_protocol_addr), source_hardware_addr.0)
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
        self.return_to_sender(&mut reply);
        // Swapped addresses leave the header's checksum as it is.
        let mut packet = Ipv4Packet::new_unchecked(&mut reply[l3_offset..]);
        packet.set_src_addr(target);
        packet.set_dst_addr(source);
        let mut message = Icmpv4Packet::new_unchecked(packet.payload_mut());
        message.set_msg_type(Icmpv4Message::EchoReply);
        message.fill_checksum();
        self.post(now, reply);
        Some(())
    }

    fn receive_ipv6(&mut self, now: Picos, frame: &[u8], l3: &[u8]) -> Option<Resolved> {
        let packet = Ipv6Packet::new_checked(l3).ok()?;
        if packet.next_header() != IpProtocol::Icmpv6 {
            return None;
        }
        let (source, target) = (packet.src_addr(), packet.dst_addr());
        let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
        if !message.verify_checksum(&source, &target) {
            return None;
        }
        let asker = *frame.get(6..12)?.first_chunk::<6>()?;
        match message.msg_type() {
            Icmpv6Message::NeighborSolicit if Some(message.target_addr()) == self.ipv6 => {
                // Duplicate address detection asks from the unspecified address; the answer goes to all nodes.
                let (to_mac, to_ip) = if source.is_unspecified() {
                    (multicast_mac(ALL_NODES), ALL_NODES)
                } else {
                    (asker, source)
                };
                let advert = self.neighbour_advert(to_mac, to_ip, !source.is_unspecified());
                self.post(now, advert);
                None
            }
            Icmpv6Message::NeighborAdvert => self.learn(IpAddr::V6(message.target_addr()), asker),
            Icmpv6Message::EchoRequest if Some(target) == self.ipv6 => {
                let l3_offset = frame.len() - l3.len();
                let mut reply = frame.to_vec();
                self.return_to_sender(&mut reply);
                let mut packet = Ipv6Packet::new_unchecked(&mut reply[l3_offset..]);
                packet.set_src_addr(target);
                packet.set_dst_addr(source);
                let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
                message.set_msg_type(Icmpv6Message::EchoReply);
                message.fill_checksum(&target, &source);
                self.post(now, reply);
                None
            }
            _ => None,
        }
    }

    fn learn(&mut self, ip: IpAddr, mac: [u8; 6]) -> Option<Resolved> {
        let at = self.unresolved.iter().position(|(other, _)| *other == ip)?;
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        unicast.then(|| {
            self.unresolved.swap_remove(at);
            self.note_deadline();
            Resolved { ip, mac }
        })
    }

    fn return_to_sender(&self, frame: &mut [u8]) {
        frame.copy_within(6..12, 0);
        frame[6..12].copy_from_slice(&self.mac);
    }

    fn announce(&mut self, now: Picos) {
        if let Some(ip) = self.ipv4 {
            // RFC 5227: an ARP announcement is a request for one's own address.
            let frame = self.arp(ArpOperation::Request, BROADCAST, ip);
            self.post(now, frame);
        }
        if self.ipv6.is_some() {
            let frame = self.neighbour_advert(multicast_mac(ALL_NODES), ALL_NODES, false);
            self.post(now, frame);
        }
    }

    fn ask(&mut self, now: Picos, ip: IpAddr) {
        let frame = match ip {
            IpAddr::V4(ip) => self.arp(ArpOperation::Request, BROADCAST, ip),
            IpAddr::V6(ip) => self.neighbour_solicit(ip),
        };
        self.post(now, frame);
    }

    fn arp(&self, operation: ArpOperation, to: [u8; 6], target: Ipv4Addr) -> Vec<u8> {
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.mac),
            source_protocol_addr: self.ipv4.unwrap_or(Ipv4Addr::UNSPECIFIED),
            target_hardware_addr: EthernetAddress(if to == BROADCAST { [0; 6] } else { to }),
            target_protocol_addr: target,
        };
        let (mut frame, at) = self.frame(to, ETHERTYPE_ARP, repr.buffer_len());
        repr.emit(&mut ArpPacket::new_unchecked(&mut frame[at..]));
        frame
    }

    fn neighbour_solicit(&self, target: Ipv6Addr) -> Vec<u8> {
        let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
        group[13..].copy_from_slice(&target.octets()[13..]);
        let group = Ipv6Addr::from(group);
        let lladdr = Some(EthernetAddress(self.mac).into());
        self.ndisc(
            multicast_mac(group),
            group,
            NdiscRepr::NeighborSolicit {
                target_addr: target,
                lladdr,
            },
        )
    }

    fn neighbour_advert(&self, to_mac: [u8; 6], to: Ipv6Addr, solicited: bool) -> Vec<u8> {
        let mut flags = NdiscNeighborFlags::OVERRIDE;
        flags.set(NdiscNeighborFlags::SOLICITED, solicited);
        let target_addr = self.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let lladdr = Some(EthernetAddress(self.mac).into());
        self.ndisc(
            to_mac,
            to,
            NdiscRepr::NeighborAdvert {
                flags,
                target_addr,
                lladdr,
            },
        )
    }

    fn ndisc(&self, to_mac: [u8; 6], to: Ipv6Addr, repr: NdiscRepr<'_>) -> Vec<u8> {
        let message = Icmpv6Repr::Ndisc(repr);
        let source = self.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        // RFC 4861: receivers ignore neighbour discovery with any other hop limit.
        let ip = Ipv6Repr {
            src_addr: source,
            dst_addr: to,
            next_header: IpProtocol::Icmpv6,
            payload_len: message.buffer_len(),
            hop_limit: 255,
        };
        let (mut frame, at) = self.frame(to_mac, ETHERTYPE_IPV6, ip.buffer_len() + message.buffer_len());
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

    /// An empty frame of at least minimum length, and where its payload begins.
    fn frame(&self, to: [u8; 6], ethertype: u16, payload_len: usize) -> (Vec<u8>, usize) {
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

/// The group address of an IPv6 multicast address (RFC 2464, 7).
fn multicast_mac(ip: Ipv6Addr) -> [u8; 6] {
    let octets = ip.octets();
    [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]
}
