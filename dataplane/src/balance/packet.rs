//! The packet for which a scheme selects a member.

use std::net::IpAddr;

use xoff_units::Picos;
use xoff_wire::parse::Payload;
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, bth};

/// A packet for which a scheme selects a member.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Present model time.
    pub now: Picos,
    /// Hash of the flow over the fields of the scheme ([`HashFields`](crate::config::HashFields)), mixed with
    /// the hash seed of the switch.
    pub hash: u32,
    /// Length in bytes at the ingress port, as the MMU counts it (`mac_len`).
    pub mac_len: u32,
    /// Traffic class, 0 to 15.
    pub tc: u8,
    /// Site of the destination, from its route ([`crate::route::RouteTag::site`]). 0 means no site.
    pub site: u16,
    /// Kind of the packet above the Ethernet header.
    pub payload: Payload,
    /// The stored bytes of the packet from the layer-3 header on.
    pub l3: &'a [u8],
}

/// Fields of a RoCEv2 packet: the destination queue pair and the position of the packet in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Hash of both IP addresses and the destination queue pair, without a seed. The two directions of a
    /// connection have different keys.
    pub key: u64,
    /// Number of the destination queue pair, 24 bits.
    pub destination_qp: u32,
    /// Opcode of the base transport header (BTH).
    pub opcode: u8,
    /// Packet sequence number (PSN), 24 bits.
    pub psn: u32,
}

/// UDP destination port of RoCEv2.
const ROCE_PORT: [u8; 2] = 4791u16.to_be_bytes();

/// Length of a UDP header in bytes.
const UDP_LEN: usize = 8;

impl Packet<'_> {
    /// Parses the queue pair of a RoCEv2 packet. Returns `None` if the packet is not RoCEv2, or if its base
    /// transport header is not stored.
    #[inline]
    pub fn queue_pair(&self) -> Option<QueuePair> {
        queue_pair(self.payload, self.l3)
    }
}

/// Parses the queue pair of a RoCEv2 packet. Returns `None` if the packet is not RoCEv2. The function is
/// always inlined, so that the result stays in registers.
#[inline(always)]
pub(crate) fn queue_pair(payload: Payload, l3: &[u8]) -> Option<QueuePair> {
    let (addresses, protocol, header_len) = match payload {
        Payload::Ipv4 => {
            let header = l3.first_chunk::<IPV4_LEN>()?;
            // Later fragments have no UDP header.
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            (read_u64(header, 12), header[9], usize::from(header[0] & 0x0f) * 4)
        }
        Payload::Ipv6 => {
            let header = l3.first_chunk::<IPV6_LEN>()?;
            let (source, destination) = (ipv6_address_at(header, 8), ipv6_address_at(header, 24));
            (fold_ipv6_addresses(source, destination), header[6], IPV6_LEN)
        }
        _ => return None,
    };
    let udp = l3.get(header_len..)?;
    if protocol != PROTOCOL_UDP || udp.get(2..4)? != ROCE_PORT {
        return None;
    }
    let bth = udp.get(UDP_LEN..)?.first_chunk::<{ bth::LEN }>()?;
    let destination_qp = u32::from_be_bytes([0, bth[5], bth[6], bth[7]]);
    Some(QueuePair {
        key: multiply_and_fold(addresses, u64::from(destination_qp)),
        destination_qp,
        opcode: bth[0],
        psn: u32::from_be_bytes([0, bth[9], bth[10], bth[11]]),
    })
}

/// Returns the key of the queue pair `destination_qp` at `destination` for packets from `source`
/// ([`QueuePair::key`]). Returns `None` if the IP versions of the addresses differ.
pub(crate) fn queue_pair_key(source: IpAddr, destination: IpAddr, destination_qp: u32) -> Option<u64> {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            fold_ipv6_addresses(source.octets(), destination.octets())
        }
        _ => return None,
    };
    Some(multiply_and_fold(
        addresses,
        u64::from(destination_qp & bth::MASK_24),
    ))
}

/// Folds two IPv6 addresses into 64 bits.
#[inline]
fn fold_ipv6_addresses(source: [u8; 16], destination: [u8; 16]) -> u64 {
    let source = multiply_and_fold(read_u64(&source, 0), read_u64(&source, 8));
    let destination = multiply_and_fold(
        read_u64(&destination, 0).rotate_left(1),
        read_u64(&destination, 8),
    );
    source ^ destination.rotate_left(32)
}

/// Multiplies two values and folds the halves of the product, in the same way as the flow hash. The constants
/// are digits of pi.
#[inline]
pub(crate) fn multiply_and_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x243f_6a88_85a3_08d3) * u128::from(b ^ 0x1319_8a2e_0370_7344);
    product as u64 ^ (product >> 64) as u64
}

/// Reads an IPv6 address from a header.
#[inline]
fn ipv6_address_at(header: &[u8; IPV6_LEN], offset: usize) -> [u8; 16] {
    header[offset..].first_chunk().copied().unwrap_or_default()
}

/// Reads a big-endian 64-bit value.
#[inline]
fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..]
        .first_chunk()
        .map_or(0, |octets| u64::from_be_bytes(*octets))
}
