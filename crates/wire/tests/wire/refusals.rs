//! Frames that are not valid RoCEv2, and the error of the reader.

use xoff_wire::{Cnp, Error, RoceView, icrc};

use crate::common::{VECTOR_S1, VECTOR_S2, hex};

fn error_after_change(at: usize, bytes: &[u8]) -> Error {
    let mut frame = hex(VECTOR_S1);
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    let error = RoceView::new_checked(&frame).expect_err("a malformed frame");
    assert_eq!(
        icrc::compute_icrc(&frame),
        Err(error),
        "both readers give the same reason"
    );
    error
}

#[test]
fn errors_name_the_malformed_layer() {
    assert_eq!(
        error_after_change(12, &[0x08, 0x06]),
        Error::NotIp { ethertype: 0x0806 }
    );
    assert_eq!(
        error_after_change(14, &[0x65]),
        Error::IpVersion {
            expected: 4,
            found: 6
        }
    );
    assert_eq!(
        error_after_change(14, &[0x46]),
        Error::Ipv4Options { header_len: 24 }
    );
    assert_eq!(
        error_after_change(14, &[0x44]),
        Error::Length {
            header: "IPv4",
            value: 16,
            min: 20,
            max: 60
        }
    );
    assert_eq!(
        error_after_change(16, &[0, 69]),
        Error::Length {
            header: "IPv4",
            value: 69,
            min: 20,
            max: 68
        }
    );
    assert_eq!(
        error_after_change(16, &[0, 19]),
        Error::Length {
            header: "IPv4",
            value: 19,
            min: 20,
            max: 68
        }
    );
    assert_eq!(error_after_change(20, &[0x20, 0]), Error::Fragment);
    assert_eq!(error_after_change(20, &[0, 1]), Error::Fragment);
    assert_eq!(error_after_change(23, &[6]), Error::NotUdp { protocol: 6 });
    assert_eq!(error_after_change(36, &[0, 80]), Error::NotRoce { port: 80 });
    assert_eq!(
        error_after_change(38, &[0, 47]),
        Error::Length {
            header: "UDP",
            value: 47,
            min: 48,
            max: 48
        }
    );
}

#[test]
fn errors_name_the_malformed_ipv6_field() {
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
            value: 1,
            min: 0,
            max: 0
        }
    );
}

#[test]
fn padding_and_extension_headers_must_fit() {
    // The ACK has an AETH and no payload, so three pad bytes do not fit.
    let mut frame = hex(VECTOR_S2);
    frame[43] |= 0x30;
    assert_eq!(
        RoceView::new_checked(&frame).unwrap_err(),
        Error::Padding { pad: 3, available: 0 }
    );
    // As a compare-and-swap, the packet would need 28 bytes of extension headers.
    frame[42] = 0x13;
    let expected = Error::Truncated {
        header: "extension headers",
        needed: 28,
        available: 4,
    };
    assert_eq!(RoceView::new_checked(&frame).unwrap_err(), expected);
    assert!(
        icrc::compute_icrc(&frame).is_ok(),
        "the ICRC does not depend on the opcode"
    );
}

#[test]
fn other_packets_are_not_parsed_as_cnp() {
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
fn errors_have_readable_messages() {
    assert_eq!(
        error_after_change(38, &[0, 47]).to_string(),
        "UDP: length field is 47 bytes, expected 48 to 48"
    );
    assert_eq!(
        error_after_change(14, &[0x46]).to_string(),
        "IPv4 header of 24 bytes: the ICRC is not defined for options"
    );
}
