//! Flow hashes over the header fields that a scheme uses.

use super::packet::{multiply_and_fold, queue_pair};
use crate::balance::config::HashFields;
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_TCP, PROTOCOL_UDP};

/// Returns the hash of a packet's flow, without a seed. `l3` starts at the layer-3 header. If the packet does
/// not have the requested fields, the result is the five-tuple hash.
#[inline]
pub(crate) fn flow_hash(fields: HashFields, parsed: &ParsedHeaders, l3: &[u8]) -> u32 {
    match fields {
        HashFields::FiveTuple => parsed.flow_hash,
        HashFields::FiveTupleQp => match queue_pair(parsed.payload, l3) {
            Some(pair) => fold_to_u32(u64::from(parsed.flow_hash), u64::from(pair.destination_qp)),
            None => parsed.flow_hash,
        },
        HashFields::Symmetric => symmetric_flow_hash(parsed.payload, l3).unwrap_or(parsed.flow_hash),
    }
}

/// Folds two values into 32 bits.
#[inline]
fn fold_to_u32(a: u64, b: u64) -> u32 {
    let hash = multiply_and_fold(a, b);
    hash as u32 ^ (hash >> 32) as u32
}

/// Returns a hash that is equal for both directions of a flow. For this purpose, the lower of the two
/// endpoints is hashed first. Returns `None` if the packet has no IP header.
fn symmetric_flow_hash(payload: Payload, l3: &[u8]) -> Option<u32> {
    let (source, destination, protocol, ports) = match payload {
        Payload::Ipv4 => {
            let header = l3.first_chunk::<IPV4_LEN>()?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            let ports = l3.get(usize::from(header[0] & 0x0f) * 4..).filter(|_| !fragment);
            (
                address_bits(&header[12..16]),
                address_bits(&header[16..20]),
                header[9],
                ports,
            )
        }
        Payload::Ipv6 => {
            let header = l3.first_chunk::<IPV6_LEN>()?;
            (
                address_bits(&header[8..24]),
                address_bits(&header[24..40]),
                header[6],
                l3.get(IPV6_LEN..),
            )
        }
        _ => return None,
    };
    let ports = ports
        .filter(|_| matches!(protocol, PROTOCOL_UDP | PROTOCOL_TCP))
        .and_then(|l4| l4.first_chunk::<4>())
        .map_or((0, 0), |&[a, b, c, d]| {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        });
    let ends = [(source, ports.0), (destination, ports.1)];
    let [low, high] = if ends[0] <= ends[1] {
        ends
    } else {
        [ends[1], ends[0]]
    };
    let end = |(address, port): (u128, u16)| {
        multiply_and_fold(address as u64 ^ u64::from(port) << 48, (address >> 64) as u64)
    };
    Some(fold_to_u32(
        end(low).rotate_left(1) ^ u64::from(protocol),
        end(high),
    ))
}

/// Converts the bytes of an IP address to an integer.
fn address_bits(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0, |address, octet| address << 8 | u128::from(*octet))
}

/// Mixes the hash of a flow with the seed of a switch. Switches with different seeds distribute flows
/// independently. If all seeds were equal, each tier of a fabric would receive only flows with similar hashes
/// from the previous tier, and would use few of its links (hash polarisation).
///
/// The function is one step of the generator splitmix64 (Steele, Lea and Flood 2014). The seed selects the
/// start of the sequence, and the hash selects the position in the sequence.
#[inline]
pub fn seeded_hash(hash: u32, seed: u64) -> u32 {
    let mut mixed = seed.wrapping_add(u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 32) as u32
}
