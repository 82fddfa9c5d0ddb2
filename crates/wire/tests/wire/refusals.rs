//! What is not RoCEv2, and the reason given.

use xoff_wire::{Cnp, Error, RoceView, icrc};

use crate::common::{VECTOR_S1, VECTOR_S2, hex};

fn refused(at: usize, octets: &[u8]) -> Error {
    let mut frame = hex(VECTOR_S1);
    frame[at..at + octets.len()].copy_from_slice(octets);
    let error = RoceView::new_checked(&frame).expect_err("a malformed frame");
    assert_eq!(
        icrc::compute(&frame),
        Err(error),
        "both readers give the same reason"
    );
    error
}

#[test]
fn every_layer_names_its_reason() {
    assert_eq!(refused(12, &[0x08, 0x06]), Error::NotIp { ethertype: 0x0806 });
    assert_eq!(
        refused(14, &[0x65]),
        Error::IpVersion {
            expected: 4,
            found: 6
        }
    );
    assert_eq!(refused(14, &[0x46]), Error::Ipv4Options { header_len: 24 });
    assert_eq!(
        refused(14, &[0x44]),
        Error::Length {
            header: "IPv4",
            says: 16,
            least: 20,
            most: 60
        }
    );
    assert_eq!(
        refused(16, &[0, 69]),
        Error::Length {
            header: "IPv4",
            says: 69,
            least: 20,
            most: 68
        }
    );
    assert_eq!(
        refused(16, &[0, 19]),
        Error::Length {
            header: "IPv4",
            says: 19,
            least: 20,
            most: 68
        }
    );
    assert_eq!(refused(20, &[0x20, 0]), Error::Fragment);
    assert_eq!(refused(20, &[0, 1]), Error::Fragment);
    assert_eq!(refused(23, &[6]), Error::NotUdp { protocol: 6 });
    assert_eq!(refused(36, &[0, 80]), Error::NotRoce { port: 80 });
    assert_eq!(
        refused(38, &[0, 47]),
        Error::Length {
            header: "UDP",
            says: 47,
            least: 48,
            most: 48
        }
    );
}

#[test]
fn ipv6_names_its_reason() {
    let mut frame = hex(VECTOR_S1)[..12].to_vec();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 44, 64]);
    frame.extend([0; 32]);
    let reason = |frame: &[u8]| RoceView::new_checked(frame).unwrap_err();
    assert_eq!(
        reason(&frame),
        Error::NotUdp { protocol: 44 },
        "a fragment header"
    );
    frame[14] = 0x40;
    assert_eq!(
        reason(&frame),
        Error::IpVersion {
            expected: 6,
            found: 4
        }
    );
    frame[14] = 0x60;
    frame[19] = 1;
    assert_eq!(
        reason(&frame),
        Error::Length {
            header: "IPv6",
            says: 1,
            least: 0,
            most: 0
        }
    );
}

#[test]
fn padding_and_extension_headers_must_fit() {
    // The ACK carries an AETH and nothing else: three octets of pad have no room.
    let mut frame = hex(VECTOR_S2);
    frame[43] |= 0x30;
    assert_eq!(
        RoceView::new_checked(&frame).unwrap_err(),
        Error::Padding { pad: 3, available: 0 }
    );
    // As a compare-and-swap it would need 28 octets.
    frame[42] = 0x13;
    let expected = Error::Truncated {
        header: "extension headers",
        needed: 28,
        available: 4,
    };
    assert_eq!(RoceView::new_checked(&frame).unwrap_err(), expected);
    assert!(
        icrc::compute(&frame).is_ok(),
        "the ICRC does not depend on the opcode"
    );
}

#[test]
fn a_notification_is_told_from_other_packets() {
    let frame = hex(VECTOR_S2);
    let view = RoceView::new_checked(&frame).unwrap();
    assert_eq!(Cnp::parse(&view), Err(Error::Opcode { found: 0x11 }));
    let mut frame = frame;
    frame[42] = 0x81;
    let view = RoceView::new_checked(&frame).unwrap();
    let expected = Error::Truncated {
        header: "CNP",
        needed: 16,
        available: 4,
    };
    assert_eq!(Cnp::parse(&view), Err(expected));
}

#[test]
fn reasons_are_sentences() {
    assert_eq!(
        refused(38, &[0, 47]).to_string(),
        "UDP: length field says 47 octets, possible are 48 to 48"
    );
    assert_eq!(
        refused(14, &[0x46]).to_string(),
        "IPv4 header of 24 octets: an ICRC over options is not defined"
    );
}
