//! Fuzz tests: any punted bytes cause no panic, give well-formed replies, and give the same replies again.

use super::*;

fn reason_by_number(number: u8) -> PuntReason {
    match number % 7 {
        0 => PuntReason::Protocol,
        1 => PuntReason::Neighbour,
        2 => PuntReason::Local,
        3 => PuntReason::TimeExceeded,
        4 => PuntReason::NetUnreachable,
        5 => PuntReason::HostUnreachable,
        _ => PuntReason::TooBig {
            mtu: u32::from(number) << 6,
        },
    }
}

fn repair_packet(packet: &mut [u8]) {
    if packet.len() < 40 {
        return;
    }
    if packet[0] >> 4 == 6 {
        packet[8..24].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        packet[24..40].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let len = packet.len();
        let mut view = Ipv6Packet::new_unchecked(packet);
        view.set_payload_len((len - 40) as u16);
        let (from, to, protocol) = (view.src_addr(), view.dst_addr(), view.next_header());
        fill_upper_checksum(protocol, from.into(), to.into(), view.payload_mut());
    } else {
        packet[0] = 0x45;
        packet[12..20].copy_from_slice(&[10, 0, 0, 7, 10, 0, 0, 1]);
        let len = packet.len();
        let mut view = Ipv4Packet::new_unchecked(packet);
        view.set_total_len(len as u16);
        view.fill_checksum();
        let (from, to, protocol) = (view.src_addr(), view.dst_addr(), view.next_header());
        fill_upper_checksum(protocol, from.into(), to.into(), view.payload_mut());
    }
}

/// Corrects the checksum of the upper layer if the payload is long enough, so that the code after the
/// checksum runs.
fn fill_upper_checksum(protocol: IpProtocol, from: IpAddr, to: IpAddr, payload: &mut [u8]) {
    let len = payload.len();
    match (protocol, from, to) {
        (IpProtocol::Icmp, ..) if len >= 8 => Icmpv4Packet::new_unchecked(payload).fill_checksum(),
        (IpProtocol::Icmpv6, IpAddr::V6(from), IpAddr::V6(to)) if len >= 8 => {
            Icmpv6Packet::new_unchecked(payload).fill_checksum(&from, &to);
        }
        (IpProtocol::Tcp, ..) if len >= 20 => {
            TcpPacket::new_unchecked(payload).fill_checksum(&from.into(), &to.into());
        }
        (IpProtocol::Udp, ..) if len >= 8 => {
            let mut datagram = UdpPacket::new_unchecked(payload);
            datagram.set_len(len as u16);
            datagram.fill_checksum(&from.into(), &to.into());
        }
        _ => {}
    }
}

fn replies_to(frames: &[(u8, u8, Vec<u8>)], is_repaired: bool) -> (Vec<Reply>, CpuCounters) {
    let mut bench = CpuBench::new();
    let mut replies = Vec::new();
    for (n, (number, place, bytes)) in frames.iter().enumerate() {
        let mut bytes = bytes.clone();
        if is_repaired {
            let packet = frame_with_packet(&[0x45]);
            bytes.splice(..0, packet[..14].iter().copied());
            repair_packet(&mut bytes[14..]);
        }
        bench.now = Picos::from_millis(n as u64 * 1_000);
        let l3_offset = if is_repaired { 14 } else { *place };
        replies.extend(bench.punt(&PuntedBytes {
            interface: (place % 6 != 5).then_some(InterfaceId(u16::from(place % 6))),
            reason: reason_by_number(*number),
            l3_offset,
            bytes: &bytes,
        }));
    }
    (replies, bench.cpu.counters().clone())
}

#[test]
fn arbitrary_bytes_cause_no_panic_and_repeatable_replies() {
    bolero::check!()
        .with_type::<Vec<(u8, u8, Vec<u8>)>>()
        .for_each(|frames| assert_eq!(replies_to(frames, false), replies_to(frames, false)));
}

#[test]
fn arbitrary_packets_with_valid_checksums_cause_no_panic() {
    bolero::check!()
        .with_type::<Vec<(u8, u8, Vec<u8>)>>()
        .for_each(|frames| assert_eq!(replies_to(frames, true), replies_to(frames, true)));
}

#[test]
fn repeated_fragments_give_the_same_replies() {
    let mut packet = ipv4_packet([10, 0, 0, 7], [10, 0, 0, 1], 1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    packet.resize(60, 0);
    let frames: Vec<_> = (0..64u8)
        .map(|n| {
            let mut part = packet.clone();
            let mut view = Ipv4Packet::new_unchecked(&mut part);
            view.set_frag_offset(u16::from(n % 5) * 40);
            view.set_more_frags(n % 5 != 4);
            (2, 0, part)
        })
        .collect();
    assert_eq!(replies_to(&frames, true), replies_to(&frames, true));
}
