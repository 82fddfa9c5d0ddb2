//! The flow hash: a multiply-and-fold mixer in the manner of wyhash.
//!
//! Fixed: what a seed of a run means, and which path a flow takes, must not change between machines or
//! releases. A golden test holds it. The constants are the first digits of pi, so there is nothing up the
//! sleeve.

use crate::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN};

const K0: u64 = 0x243f_6a88_85a3_08d3;
const K1: u64 = 0x1319_8a2e_0370_7344;
const K2: u64 = 0xa409_3822_299f_31d0;

/// Every bit of the product depends on every bit of both factors; folding keeps both halves.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn finish(state: u64) -> u32 {
    let mixed = fold(state ^ K2, K0);
    mixed as u32 ^ (mixed >> 32) as u32
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |octets| u64::from_be_bytes(*octets))
}

/// Source and destination MAC address.
pub(super) fn ethernet(header: &[u8; ETHERNET_LEN]) -> u32 {
    finish(fold(word(header, 0) ^ K0, (word(header, 4) & 0xffff_ffff) ^ K1))
}

/// Addresses, protocol and `ports` (0 for none).
#[inline(always)]
pub(super) fn ipv4(header: &[u8; IPV4_LEN], ports: u32) -> u32 {
    let last = u64::from(ports) << 8 | u64::from(header[9]);
    finish(fold(word(header, 12) ^ K0, last ^ K1))
}

/// Addresses, next header and `ports` (0 for none).
pub(super) fn ipv6(header: &[u8; IPV6_LEN], ports: u32) -> u32 {
    let last = u64::from(ports) << 8 | u64::from(header[6]);
    let source = fold(word(header, 8) ^ K0, word(header, 16) ^ K1);
    let destination = fold(word(header, 24) ^ K1, word(header, 32) ^ K2);
    finish(fold(source ^ K0, destination ^ last ^ K1))
}
