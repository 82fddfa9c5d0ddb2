//! What a scheme is told of a packet.

use std::net::IpAddr;

use xoff_units::Picos;
use xoff_wire::parse::Payload;
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, bth};

/// A packet whose path is to be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The current model time.
    pub now: Picos,
    /// Hash of its flow, by the fields of the group's scheme, mixed with the switch's seed.
    pub hash: u32,
    /// Its length as buffers count it.
    pub mac_len: u32,
    /// Its traffic class.
    pub tc: u8,
    /// Where its destination is: the site of its route ([`crate::route::RouteTag::site`]).
    pub site: u16,
    /// What it carries.
    pub payload: Payload,
    /// From its layer-3 header on, as far as it is stored.
    pub l3: &'a [u8],
}

/// What a RoCEv2 packet says of its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Hash of both addresses and the destination queue pair, without a seed: tells queue pairs apart, and their directions.
    pub key: u64,
    /// Destination queue pair.
    pub destination_qp: u32,
    /// Opcode, as on the wire.
    pub opcode: u8,
    /// Packet sequence number.
    pub psn: u32,
}

/// UDP port of RoCEv2.
const ROCE_PORT: [u8; 2] = 4791u16.to_be_bytes();

const UDP_LEN: usize = 8;

impl Packet<'_> {
    /// Its queue pair, if it is a RoCEv2 packet whose base transport header is stored.
    #[inline]
    pub fn queue_pair(&self) -> Option<QueuePair> {
        queue_pair(self.payload, self.l3)
    }
}

/// As [`Packet::queue_pair`]. Always inlined: what it returns is taken apart at once, and need not lie in memory.
#[inline(always)]
pub(crate) fn queue_pair(payload: Payload, l3: &[u8]) -> Option<QueuePair> {
    let (addresses, protocol, header_len) = match payload {
        Payload::Ipv4 => {
            let header = l3.first_chunk::<IPV4_LEN>()?;
            // Later fragments have no ports.
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            (word(header, 12), header[9], usize::from(header[0] & 0x0f) * 4)
        }
        Payload::Ipv6 => {
            let header = l3.first_chunk::<IPV6_LEN>()?;
            let (source, destination) = (address(header, 8), address(header, 24));
            (of_v6(source, destination), header[6], IPV6_LEN)
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
        key: fold(addresses, u64::from(destination_qp)),
        destination_qp,
        opcode: bth[0],
        psn: u32::from_be_bytes([0, bth[9], bth[10], bth[11]]),
    })
}

/// The key of the queue pair of this number at `destination`, for packets from `source` ([`QueuePair::key`]).
pub(crate) fn pair_key(source: IpAddr, destination: IpAddr, destination_qp: u32) -> Option<u64> {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => of_v6(source.octets(), destination.octets()),
        _ => return None,
    };
    Some(fold(addresses, u64::from(destination_qp & bth::MASK_24)))
}

#[inline]
fn of_v6(source: [u8; 16], destination: [u8; 16]) -> u64 {
    let source = fold(word(&source, 0), word(&source, 8));
    let destination = fold(word(&destination, 0).rotate_left(1), word(&destination, 8));
    source ^ destination.rotate_left(32)
}

/// As the flow hash: a multiplication whose halves are folded; the constants are digits of pi.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x243f_6a88_85a3_08d3) * u128::from(b ^ 0x1319_8a2e_0370_7344);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn address(header: &[u8; IPV6_LEN], at: usize) -> [u8; 16] {
    header[at..].first_chunk().copied().unwrap_or_default()
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |octets| u64::from_be_bytes(*octets))
}
