//! The flow hash. It multiplies and folds 64-bit words in the manner of wyhash.
//!
//! The hash must be the same on all machines and in all releases, because the path of a flow depends on it.
//! If the hash function changed, a run with the same seed would have different results. A test compares the
//! hash with recorded values. The constants are the first digits of pi.

use crate::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN};

const K0: u64 = 0x243f_6a88_85a3_08d3;
const K1: u64 = 0x1319_8a2e_0370_7344;
const K2: u64 = 0xa409_3822_299f_31d0;

/// Multiplies two numbers and combines the upper and the lower half of the product. Every bit of the result
/// can depend on every bit of both factors.
fn multiply_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn finish_hash(state: u64) -> u32 {
    let mixed = multiply_fold(state ^ K2, K0);
    mixed as u32 ^ (mixed >> 32) as u32
}

fn read_word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Hashes the source and the destination MAC address.
pub(super) fn hash_ethernet(header: &[u8; ETHERNET_LEN]) -> u32 {
    finish_hash(multiply_fold(
        read_word(header, 0) ^ K0,
        (read_word(header, 4) & 0xffff_ffff) ^ K1,
    ))
}

/// Hashes addresses, protocol and `ports`. `ports` is 0 for a packet without ports.
#[inline(always)]
pub(super) fn hash_ipv4(header: &[u8; IPV4_LEN], ports: u32) -> u32 {
    let last = u64::from(ports) << 8 | u64::from(header[9]);
    finish_hash(multiply_fold(read_word(header, 12) ^ K0, last ^ K1))
}

/// Hashes addresses, next header and `ports`. `ports` is 0 for a packet without ports.
pub(super) fn hash_ipv6(header: &[u8; IPV6_LEN], ports: u32) -> u32 {
    let last = u64::from(ports) << 8 | u64::from(header[6]);
    let source = multiply_fold(read_word(header, 8) ^ K0, read_word(header, 16) ^ K1);
    let destination = multiply_fold(read_word(header, 24) ^ K1, read_word(header, 32) ^ K2);
    finish_hash(multiply_fold(source ^ K0, destination ^ last ^ K1))
}
