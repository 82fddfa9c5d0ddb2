//! Published vectors, compared byte for byte.

use core::net::{Ipv4Addr, Ipv6Addr};

use xoff_wire::parse::{Payload, parse};
use xoff_wire::vlan::VlanTag;
use xoff_wire::{
    Addresses, Aeth, BthFields, Cnp, Deth, Ecn, Extension, FlowHeaders, Opcode, Reth, RocePacket, RoceView,
    Syndrome, icrc, mark_ce, vlan,
};

use crate::common::{VECTOR_A, VECTOR_B, VECTOR_S1, VECTOR_S2, VECTOR_S3, VECTOR_V6, hex, icrc_bitwise};

const HOST_1: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST_2: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn ipv4_addresses(from: u8, to: u8) -> Addresses {
    Addresses::V4 {
        src: Ipv4Addr::new(10, 0, 0, from),
        dst: Ipv4Addr::new(10, 0, 0, to),
    }
}

fn write_only() -> (BthFields, [Extension; 1]) {
    let bth = BthFields {
        ack_req: true,
        ..BthFields::new(Opcode::RcWriteOnly, 0x11, 0x100)
    };
    let reth = Reth {
        virtual_address: 0x1122_3344_5566_7788,
        rkey: 0xdead_beef,
        dma_len: 8,
    };
    (bth, [Extension::Reth(reth)])
}

fn build_frame(packet: RocePacket<'_>, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xaa; 2048];
    let len = packet
        .emit(&mut frame, payload.len(), |room| room.copy_from_slice(payload))
        .unwrap();
    assert_eq!(len, packet.frame_len(payload.len()));
    assert_eq!(frame[len..], vec![0xaa; 2048 - len], "bytes behind the frame");
    frame.truncate(len);
    frame
}

fn add_tags(frame: &[u8], tags: &[VlanTag]) -> Vec<u8> {
    let mut tagged = frame.to_vec();
    for &tag in tags.iter().rev() {
        tagged.splice(0..0, [0; 4]);
        assert!(vlan::write_outer_tag(&mut tagged, tag));
    }
    tagged
}

#[test]
fn public_and_synthetic_vectors_verify() {
    for (vector, stored) in [
        (VECTOR_A, "78f353f3"),
        (VECTOR_B, "82fd002a"),
        (VECTOR_S1, "3ca9826a"),
        (VECTOR_S2, "5c960775"),
        (VECTOR_S3, "69cebca0"),
    ] {
        let frame = hex(vector);
        assert_eq!(icrc::compute_icrc(&frame).unwrap().to_le_bytes(), hex(stored)[..]);
        assert_eq!(icrc::verify_icrc(&frame), Ok(true));
        assert!(RoceView::new_checked(&frame).unwrap().icrc_is_valid());
        assert_eq!(parse(&frame).payload, Payload::Ipv4);
    }
}

#[test]
fn the_builder_writes_s1_s2_and_s3() {
    let mut headers = FlowHeaders {
        udp_src_port: 0xc001,
        ..FlowHeaders::new(HOST_1, HOST_2, ipv4_addresses(1, 2))
    };
    let (bth, extensions) = write_only();
    let packet = RocePacket {
        headers: &headers,
        bth,
        extensions: &extensions,
    };
    assert_eq!(build_frame(packet, &[0, 1, 2, 3, 4, 5, 6, 7]), hex(VECTOR_S1));

    headers = FlowHeaders {
        udp_src_port: 0xc002,
        ..FlowHeaders::new(HOST_2, HOST_1, ipv4_addresses(2, 1))
    };
    let ack = [Extension::Aeth(Aeth {
        syndrome: Syndrome::ACK,
        msn: 1,
    })];
    let bth = BthFields::new(Opcode::RcAcknowledge, 0x12, 0x100);
    assert_eq!(
        build_frame(
            RocePacket {
                headers: &headers,
                bth,
                extensions: &ack
            },
            &[]
        ),
        hex(VECTOR_S2)
    );

    headers = FlowHeaders {
        dscp: 48,
        ecn: Ecn::NotEct,
        ..headers
    };
    let mut frame = [0xaa; 128];
    let len = Cnp {
        dest_qp: 0x12,
        becn: true,
    }
    .emit(&headers, &mut frame)
    .unwrap();
    assert_eq!(frame[..len], hex(VECTOR_S3));
    let view = RoceView::new_checked(&frame[..len]).unwrap();
    assert_eq!(
        Cnp::parse(&view),
        Ok(Cnp {
            dest_qp: 0x12,
            becn: true
        })
    );
}

#[test]
fn views_read_the_vectors() {
    let frame = hex(VECTOR_S1);
    let view = RoceView::new_checked(&frame).unwrap();
    let (bth, extensions) = write_only();
    assert_eq!(view.bth().fields(), bth);
    assert!(view.extensions().eq(extensions));
    assert_eq!(view.payload(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        view.to_string(),
        "IP 10.0.0.1.49153 > 10.0.0.2.4791: RoCEv2 tos 0x6a, RC_WRITE_ONLY qp 0x11 psn 256 AckReq, pad 0, \
         RETH va 0x1122334455667788 rkey 0xdeadbeef len 8, length 8"
    );
    let frame = hex(VECTOR_A);
    let view = RoceView::new_checked(&frame).unwrap();
    assert_eq!((view.bth().opcode(), view.bth().pad()), (Opcode::UcSendOnly, 2));
    assert_eq!(view.payload().len(), 18);
    assert_eq!(view.udp().checksum(), 0xaca2);
    let frame = hex(VECTOR_B);
    let view = RoceView::new_checked(&frame).unwrap();
    assert_eq!(
        Cnp::parse(&view),
        Ok(Cnp {
            dest_qp: 0x118,
            becn: true
        })
    );
}

#[test]
fn tags_and_ce_marking_keep_the_icrc() {
    let plain = hex(VECTOR_S1);
    let ctag = VlanTag::dot1q(3, 100);
    let stag = VlanTag {
        tpid: vlan::TPID_STAG,
        tci: 0x6064,
    };
    for tags in [
        &[][..],
        &[ctag],
        &[stag],
        &[stag, ctag],
        &[stag, stag, ctag, ctag],
    ] {
        let mut frame = add_tags(&plain, tags);
        assert_eq!(
            icrc::compute_icrc(&frame).unwrap().to_le_bytes(),
            [0x3c, 0xa9, 0x82, 0x6a],
            "{tags:?}"
        );
        let at = 14 + 4 * tags.len();
        assert!(mark_ce(&mut frame[at..], Payload::Ipv4));
        assert_eq!(RoceView::new_checked(&frame).unwrap().tos(), 0x6b);
        assert_eq!(icrc::verify_icrc(&frame), Ok(true), "{tags:?}");
    }
}

#[test]
fn the_builder_writes_the_ipv6_vector() {
    let addresses = Addresses::V6 {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    };
    let headers = FlowHeaders {
        flow_label: 0xabcde,
        udp_src_port: 0xc001,
        ..FlowHeaders::new(HOST_1, HOST_2, addresses)
    };
    let bth = BthFields::new(Opcode::UdSendOnly, 0x11, 0x100);
    let deth = [Extension::Deth(Deth {
        q_key: 0x1111_1111,
        source_qp: 0x123,
    })];
    let frame = build_frame(
        RocePacket {
            headers: &headers,
            bth,
            extensions: &deth,
        },
        b"xoff!",
    );
    assert_eq!(frame, hex(VECTOR_V6));
    assert_eq!(
        RoceView::new_checked(&frame).unwrap().to_string(),
        "IP6 fd00::1.49153 > fd00::2.4791: RoCEv2 tos 0x6a, UD_SEND_ONLY qp 0x11 psn 256, pad 3, \
         DETH qkey 0x11111111 from qp 0x123, length 5"
    );
}

/// The values were computed by hand from Linux `rdma_calc_flow_label` and `rdma_flow_label_to_udp_sport`.
#[test]
fn udp_source_port_equals_that_of_linux() {
    for (local, remote, label, port) in [(0x11, 0x12, 0x132, 0xc132), (0x123, 0x456, 0x4edc2, 0xedd1)] {
        assert_eq!(FlowHeaders::flow_label_of_queue_pairs(local, remote), label);
        assert_eq!(FlowHeaders::flow_label_of_queue_pairs(remote, local), label);
        assert_eq!(FlowHeaders::source_port_of_flow_label(label), port);
    }
}

#[test]
fn ipv6_agrees_with_the_independent_crc() {
    let addresses = Addresses::V6 {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    };
    let headers = FlowHeaders {
        flow_label: 0xabcde,
        ..FlowHeaders::new(HOST_1, HOST_2, addresses)
    };
    let (bth, extensions) = write_only();
    for len in [0, 1, 2, 3, 4, 1024] {
        let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let frame = build_frame(
            RocePacket {
                headers: &headers,
                bth,
                extensions: &extensions,
            },
            &payload,
        );
        assert_eq!(parse(&frame).payload, Payload::Ipv6);
        assert_eq!(
            icrc::read_icrc(&frame),
            Ok(icrc_bitwise(&frame, 14)),
            "{len} bytes"
        );
        assert_eq!(icrc::verify_icrc(&frame), Ok(true));
        assert_eq!(RoceView::new_checked(&frame).unwrap().payload(), payload);
        let tagged = add_tags(&frame, &[VlanTag::dot1q(3, 100), VlanTag::dot1q(0, 5)]);
        assert_eq!(icrc::compute_icrc(&tagged), icrc::read_icrc(&frame));
    }
}
