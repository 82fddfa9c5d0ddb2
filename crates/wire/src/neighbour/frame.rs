//! Frames of ARP and neighbour discovery: requests, replies and announcements.

use core::net::{IpAddr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Packet, Icmpv6Repr, Ipv6Repr,
    NdiscNeighborFlags, NdiscRepr,
};

use crate::vlan::{TAG_LEN, VlanTag};
use crate::{
    Addresses, ETHERNET_LEN, ETHERTYPE_ARP, ETHERTYPE_IPV6, IPV6_LEN, IpProtocol, Ipv6Packet, MIN_FRAME_LEN,
    emit_ethernet_header,
};

/// Hop limit of neighbour discovery: the largest possible value. A packet with a smaller hop limit has
/// crossed a router (RFC 4861 7.1).
pub(super) const NDISC_HOP_LIMIT: u8 = 255;
const BROADCAST: [u8; 6] = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Length of a solicitation or advertisement with its link-layer address option, in bytes.
const NDISC_LEN: usize = 32;

/// An ARP packet, a neighbour solicitation or a neighbour advertisement to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourFrame {
    /// True for an ARP request or a solicitation, false for an ARP reply or an advertisement.
    pub is_request: bool,
    /// The source is the IP address of the sender. In a request, the destination is the requested address. In
    /// a reply, the destination is the address of the requester.
    pub addresses: Addresses,
    /// MAC address of the receiver. If the value is `None`, an ARP packet is a broadcast, a solicitation goes
    /// to the solicited-node group, and an advertisement is unsolicited and goes to all nodes.
    pub receiver: Option<[u8; 6]>,
    /// The router flag of a neighbour advertisement (RFC 4861 4.4). Other frames do not use this field.
    pub is_router: bool,
}

impl NeighbourFrame {
    /// Builds the request for the MAC address of `target`. If `receiver` is given, the request goes only to
    /// this MAC address. Returns `None` if the addresses have different IP versions.
    pub fn request(source: IpAddr, target: IpAddr, receiver: Option<[u8; 6]>) -> Option<NeighbourFrame> {
        Some(NeighbourFrame {
            is_request: true,
            addresses: Addresses::new(source, target)?,
            receiver,
            is_router: false,
        })
    }

    /// Builds the announcement of an address: an ARP request for the own address (RFC 5227) or an unsolicited
    /// neighbour advertisement. The result is never `None`.
    pub fn announcement(address: IpAddr) -> Option<NeighbourFrame> {
        let mut frame = NeighbourFrame::request(address, address, None)?;
        frame.is_request = address.is_ipv4();
        Some(frame)
    }

    /// Returns the length of the frame with `tag` and padding but without FCS, in bytes.
    pub fn frame_len(&self, tag: Option<VlanTag>) -> usize {
        match self.addresses {
            Addresses::V4 { .. } => MIN_FRAME_LEN,
            Addresses::V6 { .. } => ETHERNET_LEN + tag.map_or(0, |_| TAG_LEN) + IPV6_LEN + NDISC_LEN,
        }
    }

    /// Writes the frame of the station with the MAC address `mac` into `frame`. All bytes of `frame` must be
    /// 0, and its length must be [`NeighbourFrame::frame_len`].
    ///
    /// # Panics
    ///
    /// Panics if `frame` is shorter than that.
    pub fn emit(&self, mac: [u8; 6], tag: Option<VlanTag>, frame: &mut [u8]) {
        let own = EthernetAddress(mac);
        match self.addresses {
            Addresses::V4 { src, dst } => {
                let receiver = self.receiver.unwrap_or(BROADCAST);
                let is_known = !self.is_request && receiver != BROADCAST;
                let packet = ArpRepr::EthernetIpv4 {
                    operation: match self.is_request {
                        true => ArpOperation::Request,
                        false => ArpOperation::Reply,
                    },
                    source_hardware_addr: own,
                    source_protocol_addr: src,
                    target_hardware_addr: EthernetAddress(if is_known { receiver } else { [0; 6] }),
                    target_protocol_addr: dst,
                };
                let l3_offset = emit_ethernet_header(frame, receiver, mac, tag, ETHERTYPE_ARP);
                packet.emit(&mut ArpPacket::new_unchecked(&mut frame[l3_offset..]));
            }
            Addresses::V6 { src, dst } => {
                let lladdr = Some(own.into());
                let mut flags = NdiscNeighborFlags::OVERRIDE;
                flags.set(NdiscNeighborFlags::ROUTER, self.is_router);
                flags.set(NdiscNeighborFlags::SOLICITED, self.receiver.is_some());
                let (group, target_addr) = match self.is_request {
                    true => (solicited_node_address(dst), dst),
                    false => (ALL_NODES, src),
                };
                let message = match self.is_request {
                    true => NdiscRepr::NeighborSolicit { target_addr, lladdr },
                    false => NdiscRepr::NeighborAdvert {
                        flags,
                        target_addr,
                        lladdr,
                    },
                };
                let destination = self.receiver.map_or(group, |_| dst);
                let header = Ipv6Repr {
                    src_addr: src,
                    dst_addr: destination,
                    next_header: IpProtocol::Icmpv6,
                    payload_len: NDISC_LEN,
                    hop_limit: NDISC_HOP_LIMIT,
                };
                let receiver = self.receiver.unwrap_or_else(|| multicast_mac(group));
                let l3_offset = emit_ethernet_header(frame, receiver, mac, tag, ETHERTYPE_IPV6);
                let mut packet = Ipv6Packet::new_unchecked(&mut frame[l3_offset..]);
                header.emit(&mut packet);
                let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
                let checksums = ChecksumCapabilities::default();
                Icmpv6Repr::Ndisc(message).emit(&src, &destination, &mut icmp, &checksums);
            }
        }
    }
}

/// Returns the solicited-node multicast address (RFC 4291 2.7.1). The result has the prefix
/// ff02::1:ff00:0/104 and the low 24 bits of the address.
pub const fn solicited_node_address(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

/// Returns the multicast MAC address of an IPv6 multicast address (RFC 2464 section 7).
fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}
