//! Test vectors, and an ICRC implementation that shares no code with the tested one.

/// UC SEND_ONLY over IPv4 with ECT(1), from a unit test of scapy.
pub(crate) const VECTOR_A: &str = "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d3 \
     00cf17104630818be28935d90e9a95505401be885e50000078f353f3";
/// CNP of a ConnectX-4 Lx with DSCP 48, ECT(0) and UDP source port 0, from a unit test of scapy.
pub(crate) const VECTOR_B: &str = "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118 \
     000000000000000000000000000000000000000082fd002a";
/// RC WRITE_ONLY of 8 bytes with DSCP 26 and ECT(0).
pub(crate) const VECTOR_S1: &str = "0200000000020200000000010800456a0044000040004011263d0a0000010a000002c00112b7003000000a40ffff00000011 \
     800001001122334455667788deadbeef0000000800010203040506073ca9826a";
/// RC ACKNOWLEDGE without payload.
pub(crate) const VECTOR_S2: &str = "0200000000010200000000020800456a003000004000401126510a0000020a000001c00212b7001c00001140ffff00000012 \
     000001001f0000015c960775";
/// CNP with DSCP 48.
pub(crate) const VECTOR_S3: &str = "020000000001020000000002080045c0003c00004000401125ef0a0000020a000001c00212b7002800008100ffff40000012 \
     000000000000000000000000000000000000000069cebca0";

/// UD SEND_ONLY of 5 bytes over IPv6 with DSCP 26, ECT(0) and flow label 0xABCDE. A script computed the ICRC
/// with zlib.
pub(crate) const VECTOR_V6: &str = "02000000000202000000000186dd66aabcde00281140fd000000000000000000000000000001fd000000000000000000 \
     000000000002c00112b7002800006470ffff00000011000001001111111100000123786f66662100000097f2e24e";

/// Decodes a hexadecimal string. White space is ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Computes CRC-32 bit by bit from the polynomial. The tested crate uses tables instead.
fn crc32_bitwise(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut register = 0xffff_ffff_u32;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = register & 1 != u32::from(byte >> bit & 1);
            register >>= 1;
            if feedback {
                register ^= 0xedb8_8320;
            }
        }
    }
    !register
}

/// Computes the ICRC of a frame by the list of fields in IBTA annex A17. `ip` is the offset of the IP header.
/// The frame must be valid.
pub(crate) fn icrc_bitwise(frame: &[u8], ip: usize) -> u32 {
    let v6 = frame[ip] >> 4 == 6;
    let mut packet = frame[ip..].to_vec();
    let length = usize::from(u16::from_be_bytes(match v6 {
        true => [packet[4], packet[5]],
        false => [packet[2], packet[3]],
    }));
    let udp = if v6 { 40 } else { 20 };
    packet.truncate(if v6 { 40 + length } else { length } - 4);
    let ones: &[(usize, u8)] = match v6 {
        true => &[(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff), (7, 0xff)],
        false => &[(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)],
    };
    for &(at, mask) in ones {
        packet[at] |= mask;
    }
    for at in [udp + 6, udp + 7, udp + 8 + 4] {
        packet[at] = 0xff;
    }
    crc32_bitwise([0xff; 8].into_iter().chain(packet))
}

#[test]
fn the_independent_crc_is_the_ethernet_crc() {
    assert_eq!(
        crc32_bitwise(*b"123456789"),
        0xcbf4_3926,
        "check value of CRC-32/ISO-HDLC"
    );
    assert_eq!(
        !crc32_bitwise([0xff; 8]),
        0xdebb_20e3,
        "register after the stand-in for the link header"
    );
}

#[test]
fn the_independent_icrc_reproduces_the_public_vectors() {
    for vector in [VECTOR_A, VECTOR_B, VECTOR_S1, VECTOR_S2, VECTOR_S3, VECTOR_V6] {
        let frame = hex(vector);
        assert_eq!(icrc_bitwise(&frame, 14).to_le_bytes(), frame[frame.len() - 4..]);
    }
}
