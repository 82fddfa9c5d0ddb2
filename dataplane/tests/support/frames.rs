//! Ethernet frames for tests, and a reader of capture files.

use std::path::Path;

use xoff_wire::{Ecn, ROCE_UDP_PORT};

/// Returns the MAC address of the station at port `n`.
pub const fn station_mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Returns an Ethernet frame of `len` bytes without FCS and without a protocol.
pub fn ethernet_frame(dst: [u8; 6], src: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&dst);
    frame[6..12].copy_from_slice(&src);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE 802: local experiments
    frame[14..]
        .iter_mut()
        .zip(1..)
        .for_each(|(octet, n)| *octet = n as u8);
    frame
}

/// Returns a UDP frame over IPv4 from the station at port `src` to the station at port `dst`, `len` bytes
/// without FCS.
pub fn udp_frame(src: u8, dst: u8, dscp: u8, ecn: Ecn, len: usize) -> Vec<u8> {
    let mut frame = ethernet_frame(station_mac(dst), station_mac(src), len);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut frame[14..];
    ip[..20].fill(0);
    ip[0] = 0x45;
    ip[1] = dscp << 2 | ecn as u8;
    ip[2..4].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&[10, 0, 0, src]);
    ip[16..20].copy_from_slice(&[10, 0, 0, dst]);
    let checksum = ipv4_checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[20..22].copy_from_slice(&0xc000_u16.to_be_bytes());
    ip[22..24].copy_from_slice(&ROCE_UDP_PORT.to_be_bytes());
    ip[24..26].copy_from_slice(&(len as u16 - 34).to_be_bytes());
    ip[26..28].fill(0);
    frame
}

/// Returns the shortest UDP frame. It occupies one cell if cells have 64 bytes or more.
pub fn shortest_udp_frame(src: u8, dst: u8, dscp: u8) -> Vec<u8> {
    udp_frame(src, dst, dscp, Ecn::NotEct, 60)
}

/// Returns the IPv4 header checksum of RFC 791: the one's complement of the one's complement sum.
pub fn ipv4_checksum(header: &[u8]) -> u16 {
    let word = |n: usize| match n {
        5 => 0,
        n => u32::from(header[2 * n]) << 8 | u32::from(header[2 * n + 1]),
    };
    let mut sum: u32 = (0..header.len() / 2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Inserts a VLAN tag before the ethertype of a frame.
pub fn insert_vlan_tag(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    [
        &frame[..12],
        &tpid.to_be_bytes(),
        &tci.to_be_bytes(),
        &frame[12..],
    ]
    .concat()
}

/// Reads the frames of a classic little-endian pcap file of the test data.
pub fn read_capture(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/wire/tests/data")
        .join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{}", path.display());
    let (mut rest, mut frames) = (&bytes[24..], Vec::new());
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        frames.push(behind[..len].to_vec());
        rest = &behind[len..];
    }
    frames
}
