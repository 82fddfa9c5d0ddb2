//! Tests of the parser and of the frames.

use core::net::IpAddr;

use super::*;
use crate::VlanTag;
use crate::vlan::write_outer_tag;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn emit_frame(frame: NeighbourFrame, tag: Option<VlanTag>) -> Vec<u8> {
    let mut bytes = vec![0; frame.frame_len(tag)];
    frame.emit(OWN, tag, &mut bytes);
    bytes
}

fn request(source: &str, target: &str, receiver: Option<[u8; 6]>) -> NeighbourFrame {
    NeighbourFrame::request(source.parse().unwrap(), target.parse().unwrap(), receiver).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_arp_request_has_the_expected_bytes() {
    let bytes = emit_frame(request("10.0.0.1", "10.0.0.2", None), None);
    let expected = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1,
        10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    assert_eq!(bytes[..42], expected);
    assert_eq!(bytes[42..], [0; 18]);
    let unicast = emit_frame(request("10.0.0.1", "10.0.0.2", Some(OTHER)), None);
    assert_eq!((&unicast[..6], &unicast[6..]), (&OTHER[..], &bytes[6..]));
    let message = NeighbourMessage::parse(&bytes, 14).unwrap();
    let expected = NeighbourMessage {
        is_request: true,
        is_announcement: false,
        sender: ip("10.0.0.1"),
        link_address: Some(OWN),
        target: ip("10.0.0.2"),
        destination: ip("10.0.0.2"),
        is_valid: true,
    };
    assert_eq!(message, expected);
}

#[test]
fn an_arp_reply_exchanges_the_addresses() {
    let bytes = emit_frame(request("10.0.0.1", "10.0.0.2", None), None);
    let message = NeighbourMessage::parse(&bytes, 14).unwrap();
    let reply = emit_frame(message.reply(OTHER, false).unwrap(), None);
    assert_eq!((&reply[..6], reply.len()), (&OTHER[..], 60));
    let reply = NeighbourMessage::parse(&reply, 14).unwrap();
    assert_eq!(
        (reply.is_request, reply.sender, reply.target),
        (false, ip("10.0.0.2"), ip("10.0.0.1"))
    );
}

#[test]
fn a_reply_to_a_broadcast_address_has_no_target_hardware_address() {
    let mut reply = request("10.0.0.1", "10.0.0.2", Some([0xff; 6]));
    reply.is_request = false;
    assert_eq!(emit_frame(reply, None)[32..38], [0; 6]);
}

#[test]
fn an_arp_request_for_the_own_address_is_an_announcement() {
    let frame = NeighbourFrame::announcement(ip("10.0.0.1")).unwrap();
    assert_eq!(frame, request("10.0.0.1", "10.0.0.1", None));
    let bytes = emit_frame(frame, None);
    assert!(NeighbourMessage::parse(&bytes, 14).unwrap().is_announcement);
}

#[test]
fn a_solicitation_is_parsed_with_its_fields() {
    let bytes = emit_frame(request("fe80::1", "2001:db8::1:2:3", None), None);
    assert_eq!(bytes[..6], [0x33, 0x33, 0xff, 2, 0, 3]);
    let message = NeighbourMessage::parse(&bytes, 14).unwrap();
    let expected = NeighbourMessage {
        is_request: true,
        is_announcement: false,
        sender: ip("fe80::1"),
        link_address: Some(OWN),
        target: ip("2001:db8::1:2:3"),
        destination: ip("ff02::1:ff02:3"),
        is_valid: true,
    };
    assert_eq!(message, expected);
    let unicast = emit_frame(request("fe80::1", "2001:db8::1:2:3", Some(OTHER)), None);
    assert_eq!(unicast[..6], OTHER);
    let expected = NeighbourMessage {
        destination: expected.target,
        ..expected
    };
    assert_eq!(NeighbourMessage::parse(&unicast, 14), Some(expected));
}

#[test]
fn a_solicitation_with_a_wrong_checksum_is_refused() {
    let bytes = emit_frame(request("fe80::1", "2001:db8::1", None), None);
    for bit in 8 * (14 + 40)..8 * bytes.len() {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(NeighbourMessage::parse(&bad, 14), None, "bit {bit}");
    }
}

#[test]
fn a_message_from_beyond_a_router_is_not_valid() {
    let mut bytes = emit_frame(request("fe80::1", "2001:db8::1", None), None);
    bytes[14 + 7] = 254;
    let message = NeighbourMessage::parse(&bytes, 14).unwrap();
    assert!(!message.is_valid);
    assert_eq!((message.sender, message.link_address), (ip("fe80::1"), Some(OWN)));
}

#[test]
fn advertisements_have_the_flags_of_their_receiver() {
    for (receiver, is_router, flags, to) in [
        (None, false, 0x20, "ff02::1"),
        (Some(OTHER), false, 0x60, "fe80::2"),
        (Some(OTHER), true, 0xe0, "fe80::2"),
    ] {
        let frame = NeighbourFrame {
            is_request: false,
            is_router,
            ..request("2001:db8::1", "fe80::2", receiver)
        };
        let bytes = emit_frame(frame, None);
        assert_eq!(bytes[14 + 40 + 4], flags);
        let message = NeighbourMessage::parse(&bytes, 14).unwrap();
        assert_eq!((message.sender, message.destination), (ip("2001:db8::1"), ip(to)));
        assert_eq!((message.link_address, message.is_valid), (Some(OWN), true));
        assert_eq!(message.is_announcement, receiver.is_none());
    }
}

#[test]
fn duplicate_address_detection_gets_an_advertisement_to_all_nodes() {
    let bytes = emit_frame(request("::", "2001:db8::1", None), None);
    let message = NeighbourMessage::parse(&bytes, 14).unwrap();
    let reply = emit_frame(message.reply(OTHER, true).unwrap(), None);
    assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
    let reply = NeighbourMessage::parse(&reply, 14).unwrap();
    assert_eq!(
        (reply.sender, reply.destination),
        (ip("2001:db8::1"), ip("ff02::1"))
    );
    assert!(reply.is_announcement);
}

#[test]
fn a_tag_changes_only_the_ethernet_header() {
    let tag = VlanTag::dot1q(3, 20);
    for (source, target) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")] {
        let mut expected = emit_frame(request(source, target, None), None);
        expected.splice(0..0, [0; 4]);
        assert!(write_outer_tag(&mut expected, tag));
        let tagged = emit_frame(request(source, target, None), Some(tag));
        assert!(tagged.len() >= 60);
        assert_eq!(tagged, expected[..tagged.len()]);
        assert!(
            expected[tagged.len()..].iter().all(|byte| *byte == 0),
            "only padding"
        );
    }
}

#[test]
fn truncated_messages_are_refused() {
    let arp = emit_frame(request("10.0.0.1", "10.0.0.2", None), None);
    (14..42).for_each(|end| assert_eq!(NeighbourMessage::parse(&arp[..end], 14), None));
    let ndisc = emit_frame(request("fe80::1", "fe80::2", None), None);
    (14..ndisc.len()).for_each(|end| assert_eq!(NeighbourMessage::parse(&ndisc[..end], 14), None));
}
