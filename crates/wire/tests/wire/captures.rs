//! Frames of real devices. The tests read every capture file in `tests/data/`. A new file needs no
//! new code.

use std::path::{Path, PathBuf};

use xoff_wire::parse::{Payload, parse};
use xoff_wire::{Error, RoceView, icrc, mark_ce};

/// Reads the frames of a classic pcap file: either byte order, microseconds or nanoseconds,
/// link type Ethernet.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let word = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).expect("four bytes");
    let big_endian = match word(0) {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => true,
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => false,
        magic => panic!("{}: no pcap file, it begins with {magic:02x?}", file.display()),
    };
    let number = |at: usize| match big_endian {
        true => u32::from_be_bytes(word(at)) as usize,
        false => u32::from_le_bytes(word(at)) as usize,
    };
    assert_eq!(
        number(20) & 0xffff,
        1,
        "{}: the link type is not Ethernet",
        file.display()
    );
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let (stored, original) = (number(at + 8), number(at + 12));
        assert_eq!(
            stored,
            original,
            "{}: frame {} is cut",
            file.display(),
            frames.len() + 1
        );
        frames.push(bytes[at + 16..at + 16 + stored].to_vec());
        at += 16 + stored;
    }
    frames
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Parses every frame and verifies every ICRC. Returns the number of RoCEv2 frames and the number of other
/// frames (ARP, neighbour discovery, TCP).
fn check_capture(file: &Path) -> (usize, usize) {
    let (mut roce, mut other) = (0, 0);
    for (n, frame) in frames(file).iter().enumerate() {
        let place = format!("{}, frame {}", file.display(), n + 1);
        let parsed = parse(frame);
        assert_ne!(parsed.payload, Payload::Truncated, "{place}");
        let view = match RoceView::new_checked(frame) {
            Ok(view) => view,
            Err(Error::NotIp { .. } | Error::NotUdp { .. } | Error::NotRoce { .. }) => {
                other += 1;
                continue;
            }
            Err(error) => panic!("{place}: {error}"),
        };
        let expected = if view.is_ipv6() {
            Payload::Ipv6
        } else {
            Payload::Ipv4
        };
        assert_eq!(parsed.payload, expected, "{place}");
        assert_eq!(parsed.tos, view.tos(), "{place}");
        assert_eq!(usize::from(parsed.l3_offset), view.ip_offset(), "{place}");
        assert_eq!(
            view.extensions().count(),
            view.bth().opcode().extensions().len(),
            "{place}"
        );
        assert!(view.icrc_is_valid(), "{place}: {view}");
        roce += 1;
    }
    (roce, other)
}

#[test]
fn soft_roce_frames_parse_and_their_icrc_verifies() {
    assert_eq!(check_capture(&data("softroce.pcap")), (262, 0));
}

#[test]
fn soft_roce_frames_are_not_ect_and_stay_unmarked() {
    for frame in frames(&data("softroce.pcap")) {
        let parsed = parse(&frame);
        assert!(!parsed.is_ecn_capable());
        let mut marked = frame.clone();
        assert!(!mark_ce(
            &mut marked[usize::from(parsed.l3_offset)..],
            parsed.payload
        ));
        assert_eq!(marked, frame);
    }
}

#[test]
fn soft_roce_frames_made_ect_are_marked_and_stay_valid() {
    for mut frame in frames(&data("softroce.pcap")) {
        let before = icrc::read_icrc(&frame).unwrap();
        let at = usize::from(parse(&frame).l3_offset);
        let payload = parse(&frame).payload;
        frame[at + 1] |= 2;
        assert!(mark_ce(&mut frame[at..], payload));
        assert_eq!(parse(&frame).tos & 3, 3);
        assert_eq!(icrc::compute_icrc(&frame), Ok(before));
    }
}

#[test]
fn every_capture_parses_and_its_icrc_verifies() {
    let mut captures = 0;
    for entry in std::fs::read_dir(data("")).expect("tests/data exists") {
        let file = entry.expect("a readable folder").path();
        if file.extension().is_some_and(|extension| extension == "pcap") {
            assert_ne!(check_capture(&file).0, 0, "{}: no RoCEv2 frame", file.display());
            captures += 1;
        }
    }
    assert_ne!(captures, 0, "tests/data has no capture");
}
