//! Properties of every valid packet.

use proptest::prelude::*;
use xoff_wire::parse::{Payload, parse};
use xoff_wire::{
    Addresses, Bth, BuildError, Ecn, Error, Extension, ExtensionKind, MacControl, Pfc, RocePacket, RoceView,
    icrc, mark_ce, set_dscp, vlan,
};

use crate::common::{VECTOR_A, VECTOR_B, VECTOR_S1, VECTOR_S2, VECTOR_S3, VECTOR_V6, hex, icrc_bitwise};
use crate::packets::{Packet, bth, extension, packet};

/// Whether the ICRC ignores bit `bit` of byte `at`. Bit 7 is the first on the wire. `at` counts from
/// the IP header.
fn is_masked(v6: bool, at: usize, bit: u8) -> bool {
    let udp = if v6 { 40 } else { 20 };
    let in_ip = match (v6, at) {
        (false, 1 | 8 | 10 | 11) | (true, 1..=3 | 7) => true,
        (true, 0) => bit < 4,
        _ => false,
    };
    in_ip || [udp + 6, udp + 7, udp + 8 + 4].contains(&at)
}

/// Flips every bit from the IP header to the pad, one at a time, and checks the ICRC.
fn flip_every_bit(frame: &[u8]) {
    let view = RoceView::new_checked(frame).expect("a RoCEv2 frame");
    let (ip, v6) = (view.ip_offset(), view.is_ipv6());
    assert_eq!(icrc::verify_icrc(frame), Ok(true));
    let mut flipped = frame.to_vec();
    for at in ip..frame.len() - xoff_wire::ICRC_LEN {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            let holds = icrc::verify_icrc(&flipped) == Ok(true);
            assert_eq!(
                holds,
                is_masked(v6, at - ip, bit),
                "byte {} of IP, bit {bit}: {view}",
                at - ip
            );
            flipped[at] ^= 1 << bit;
        }
    }
}

#[test]
fn only_masked_bits_of_the_vectors_may_change() {
    for vector in [VECTOR_A, VECTOR_B, VECTOR_S1, VECTOR_S2, VECTOR_S3, VECTOR_V6] {
        flip_every_bit(&hex(vector));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_masked_bits_of_any_packet_may_change(packet in packet()) {
        flip_every_bit(&packet.frame());
    }

    #[test]
    fn every_truncation_of_any_packet_is_refused(packet in packet()) {
        let frame = packet.frame();
        for len in 0..frame.len() {
            let refused = RoceView::new_checked(&frame[..len]).unwrap_err();
            let plausible =
                matches!(refused, Error::Truncated { .. } | Error::Length { .. } | Error::NotIp { .. });
            prop_assert!(plausible, "{}", refused);
            prop_assert!(icrc::verify_icrc(&frame[..len]).is_err());
            prop_assert!(icrc::write_icrc(&mut frame[..len].to_vec()).is_err());
        }
    }

    #[test]
    fn too_small_buffer_is_refused_and_unchanged(packet in packet()) {
        let Packet { headers, bth, extensions, payload } = packet;
        let build = RocePacket { headers: &headers, bth, extensions: &extensions };
        let needed = build.frame_len(payload.len());
        for available in [0, 1, needed / 2, needed - 1] {
            let mut room = vec![0x55; available];
            let refused = build.emit(&mut room, payload.len(), |_| panic!("no payload is asked for"));
            prop_assert_eq!(refused, Err(BuildError::NoRoom { needed, available }));
            prop_assert_eq!(room, vec![0x55; available]);
        }
    }
}

proptest! {
    #[test]
    fn packets_round_trip(packet in packet()) {
        let frame = packet.frame();
        let view = RoceView::new_checked(&frame).unwrap();
        prop_assert_eq!(view.bth().fields(), packet.bth);
        prop_assert_eq!(view.bth().version(), 0);
        prop_assert!(view.extensions().eq(packet.extensions.iter().copied()));
        prop_assert_eq!(view.payload(), &packet.payload[..]);
        let pad = usize::from(view.bth().pad());
        prop_assert_eq!((packet.payload.len() + pad) % 4, 0);
        prop_assert_eq!(&frame[frame.len() - xoff_wire::ICRC_LEN - pad..frame.len() - xoff_wire::ICRC_LEN], &[0; 3][..pad]);
        prop_assert_eq!(view.tos(), packet.headers.dscp << 2 | packet.headers.ecn as u8);
        prop_assert_eq!(view.udp().src_port(), packet.headers.udp_src_port);
        prop_assert_eq!(icrc::read_icrc(&frame), Ok(icrc_bitwise(&frame, view.ip_offset())));

        let parsed = parse(&frame);
        prop_assert_eq!(parsed.tag, packet.headers.tag);
        prop_assert_eq!(parsed.tos, view.tos());
        prop_assert_eq!(usize::from(parsed.l3_offset), view.ip_offset());
        let expected = match packet.headers.addresses {
            Addresses::V4 { .. } => Payload::Ipv4,
            Addresses::V6 { .. } => Payload::Ipv6,
        };
        prop_assert_eq!(parsed.payload, expected);
    }

    #[test]
    fn rewriting_by_a_switch_keeps_the_icrc_valid(packet in packet(), dscp in 0..64_u8, tci: u16) {
        let mut frame = packet.frame();
        let parsed = parse(&frame);
        let l3 = usize::from(parsed.l3_offset);
        let ect = packet.headers.ecn != Ecn::NotEct;
        prop_assert_eq!(mark_ce(&mut frame[l3..], parsed.payload), ect);
        prop_assert!(set_dscp(&mut frame[l3..], parsed.payload, dscp));
        let bth = l3 + if parsed.payload == Payload::Ipv6 { 48 } else { 28 };
        let mut header = Bth::new_checked(&mut frame[bth..]).unwrap();
        header.set_fecn(true);
        header.set_becn(true);
        frame.splice(0..0, [0; vlan::TAG_LEN]);
        let tag = vlan::VlanTag { tpid: vlan::TPID_STAG, tci };
        prop_assert!(vlan::write_outer_tag(&mut frame, tag));

        let view = RoceView::new_checked(&frame).unwrap();
        prop_assert!(view.icrc_is_valid());
        prop_assert_eq!(view.tos(), dscp << 2 | if ect { 3 } else { 0 });
        prop_assert_eq!(view.payload(), &packet.payload[..]);
        if parsed.payload == Payload::Ipv4 {
            let header = xoff_wire::Ipv4Packet::new_checked(&frame[l3 + vlan::TAG_LEN..]).unwrap();
            prop_assert!(header.verify_checksum());
        }
    }

    #[test]
    fn rewriting_the_icrc_after_an_edit_makes_it_valid(packet in packet(), psn in 0..1_u32 << 24) {
        let mut frame = packet.frame();
        let bth = RoceView::new_checked(&frame).unwrap().ip_offset()
            + if matches!(packet.headers.addresses, Addresses::V6 { .. }) { 48 } else { 28 };
        Bth::new_checked(&mut frame[bth..]).unwrap().set_psn(psn);
        prop_assert_eq!(icrc::verify_icrc(&frame), Ok(psn == packet.bth.psn));
        icrc::write_icrc(&mut frame).unwrap();
        prop_assert_eq!(icrc::verify_icrc(&frame), Ok(true));
        prop_assert_eq!(RoceView::new_checked(&frame).unwrap().bth().psn(), psn);
    }

    #[test]
    fn ethernet_padding_is_not_part_of_the_packet(
        packet in packet(),
        padding in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let frame = packet.frame();
        let padded = [&frame[..], &padding].concat();
        prop_assert_eq!(icrc::compute_icrc(&padded), icrc::read_icrc(&frame));
        prop_assert_eq!(RoceView::new_checked(&padded).unwrap().payload(), &packet.payload[..]);
        prop_assert_eq!(parse(&padded), parse(&frame));
    }

    #[test]
    fn wrong_extension_headers_are_refused(
        packet in packet(),
        extra in extension(ExtensionKind::Feth),
    ) {
        let extensions = [&packet.extensions[..], &[extra]].concat();
        let build = RocePacket { headers: &packet.headers, bth: packet.bth, extensions: &extensions };
        let refused = build.emit(&mut [0; 2048], 0, |_| {});
        prop_assert_eq!(refused, Err(BuildError::Extensions { opcode: packet.bth.opcode }));
    }

    #[test]
    fn base_headers_round_trip(fields in bth(), pad in 0..4_u8) {
        let mut header = [0x55; 12];
        fields.emit(pad, &mut header);
        let read = Bth::new_checked(&header[..]).unwrap();
        prop_assert_eq!((read.fields(), read.pad(), read.version()), (fields, pad, 0));
    }

    #[test]
    fn extension_headers_round_trip(
        (kind, extension) in prop::sample::select(&ExtensionKind::ALL[..])
            .prop_flat_map(|kind| (Just(kind), extension(kind))),
    ) {
        let mut bytes = [0x55; 32];
        prop_assert_eq!(extension.emit(&mut bytes), Ok(kind.header_len()));
        prop_assert_eq!(Extension::parse(kind, &bytes), Ok(extension));
        prop_assert!(bytes[kind.header_len()..].iter().all(|&byte| byte == 0x55));
    }

    #[test]
    fn mac_control_round_trips(enable: u8, quanta: [u16; 8], source: [u8; 6]) {
        for control in [MacControl::Pfc(Pfc { enable, quanta }), MacControl::Pause { quanta: quanta[0] }] {
            let frame = control.to_frame(source);
            prop_assert_eq!(MacControl::parse(&frame), Ok(control));
            prop_assert_eq!(&frame[6..12], &source[..]);
            prop_assert_eq!(parse(&frame).payload, Payload::MacControl);
        }
    }
}

#[test]
fn too_long_payload_is_refused() {
    let frame = hex(VECTOR_S1);
    let fields = RoceView::new_checked(&frame).unwrap().bth().fields();
    let bth = xoff_wire::BthFields {
        opcode: xoff_wire::Opcode::RcSendOnly,
        ..fields
    };
    let addresses = Addresses::V4 {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
    };
    let headers = xoff_wire::FlowHeaders::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], addresses);
    let build = RocePacket {
        headers: &headers,
        bth,
        extensions: &[],
    };
    let mut room = vec![0; 70_000];
    // 65535 minus the headers of IPv4, UDP and BTH and the ICRC, rounded down to a multiple of four.
    let most = 65_488;
    let len = build.emit(&mut room, most, |payload| payload.fill(7)).unwrap();
    assert!(RoceView::new_checked(&room[..len]).unwrap().icrc_is_valid());
    for payload_len in [most + 1, 65_536, usize::MAX] {
        assert_eq!(
            build.emit(&mut room, payload_len, |_| {}),
            Err(BuildError::TooLong { payload_len })
        );
    }
}
