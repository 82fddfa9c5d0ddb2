//! ICRC computed from the text of the standard (IBTA annex A17.3.3), bit by bit and independent
//! of the codecs.

/// Returns whether an untagged or single-tagged RoCEv2 frame has the correct ICRC.
pub(super) fn has_valid_icrc(frame: &[u8]) -> bool {
    let ip = if frame[12..14] == [0x81, 0x00] { 18 } else { 14 };
    let v6 = frame[ip] >> 4 == 6;
    let ip_len = if v6 { 40 } else { 20 };
    let end = if v6 {
        ip + 40 + usize::from(frame[ip + 4]) * 256 + usize::from(frame[ip + 5])
    } else {
        ip + usize::from(frame[ip + 2]) * 256 + usize::from(frame[ip + 3])
    };
    let mut covered = vec![0xff; 8];
    covered.extend_from_slice(&frame[ip..end - 4]);
    let masked = if v6 {
        covered[8] |= 0x0f;
        vec![9, 10, 11, 15]
    } else {
        vec![9, 16, 18, 19]
    };
    let udp = 8 + ip_len;
    for at in masked.into_iter().chain([udp + 6, udp + 7, udp + 8 + 4]) {
        covered[at] = 0xff;
    }
    let mut register = u32::MAX;
    for byte in covered {
        register ^= u32::from(byte);
        for _ in 0..8 {
            register = if register & 1 == 1 {
                register >> 1 ^ 0xedb8_8320
            } else {
                register >> 1
            };
        }
    }
    frame[end - 4..end] == (!register).to_le_bytes()
}

#[test]
fn the_reference_matches_published_frames() {
    // UC SEND_ONLY of scapy, and a CNP captured from a ConnectX-4 Lx.
    let send = hex(
        "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff\
         000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3",
    );
    let cnp = hex(
        "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff\
         40000118000000000000000000000000000000000000000082fd002a",
    );
    assert!(has_valid_icrc(&send));
    assert!(has_valid_icrc(&cnp));
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}
