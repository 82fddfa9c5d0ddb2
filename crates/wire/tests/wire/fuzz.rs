//! Fuzz targets. Under `cargo test` they run on random bytes for a short time. Start libFuzzer
//! with these commands:
//!
//! ```text
//! cargo install cargo-bolero
//! cargo +nightly bolero test -p xoff-wire fuzz::any_bytes      # or another function of this file
//! ```
//!
//! Every function asserts relations that hold for any input.

use bolero::check;
use xoff_wire::parse::{Payload, parse, parse_prefix};
use xoff_wire::{
    Bth, Cnp, Extension, ExtensionKind, FrameSummary, LinkQuality, MacControl, Opcode, RoceView, icrc,
    link_quality, mark_ce, set_dscp, vlan,
};

use crate::common::{VECTOR_A, VECTOR_B, VECTOR_S1, VECTOR_S2, VECTOR_S3, VECTOR_V6, hex};

/// A link quality message about two sites.
const LINK_QUALITY: &str = "0180c200000e 02000000000a 88b5 5851 01 00 0028 0000 00000007 000000c8
    0002 015e 012c 0000 000186a0 0304 ffff ffff 0000 00000000";

/// An LLDP frame with all DCBX TLVs.
const LLDP: &str = "0180c200000e02000000000a88cc 02070402000000000a 040a0545746865726e657430 06020078
    fe190080c209 83 00010020 3232000000000000 0202000000000000
    fe190080c20a 00 00010020 3232000000000000 0202000000000000
    fe060080c20b 8808 fe0b0080c20c 00 6312b7 c50030 0000";

/// Runs every reader over a frame and checks the promises of each reader.
fn read_everything(frame: &[u8]) {
    check_parser(frame);
    check_roce(frame);
    if let Ok(control) = MacControl::parse(frame) {
        assert_eq!(parse(frame).payload, Payload::MacControl);
        assert_eq!(MacControl::parse(&control.to_frame([2; 6])), Ok(control));
    }
    check_link_quality(frame);
    crate::lldp::read(frame);
    for kind in ExtensionKind::ALL {
        assert_eq!(
            Extension::parse(kind, frame).is_ok(),
            frame.len() >= kind.header_len()
        );
    }
    assert_eq!(Bth::new_checked(frame).is_ok(), frame.len() >= 12);
    assert!(!FrameSummary(frame).to_string().is_empty());
}

/// A parsed message is written again with the same bytes, except for reserved bytes and padding.
fn check_link_quality(frame: &[u8]) {
    let Ok(message) = LinkQuality::parse(frame) else {
        return;
    };
    assert!(LinkQuality::is_link_quality(frame));
    assert_eq!(parse(frame).payload, Payload::Other);
    let (sequence, hold_us) = (message.sequence, message.hold_us);
    let mut again = vec![0; link_quality::frame_len(message.entries().len())];
    link_quality::emit(&mut again, [2; 6], sequence, hold_us, message.entries());
    let read = LinkQuality::parse(&again).expect("what was written can be read");
    assert!(read.entries().eq(message.entries()) && message.entries().len() <= link_quality::ENTRIES_MAX);
    assert_eq!((read.sequence, read.hold_us), (sequence, hold_us));
    assert!(message.entries().all(|entry| entry.site > 0));
}

fn check_parser(frame: &[u8]) {
    let parsed = parse(frame);
    let l3 = usize::from(parsed.l3_offset);
    assert!(l3 <= frame.len());
    assert_eq!(parsed.payload == Payload::Truncated, frame.len() < 14);
    assert_eq!(parsed.tag, vlan::tags(frame).next(), "two readers of tags agree");
    assert_eq!(parsed, parse_prefix(frame, frame.len()));

    let mut rewritten = frame.to_vec();
    let marked = mark_ce(&mut rewritten[l3..], parsed.payload);
    assert_eq!(marked, parsed.is_ecn_capable());
    assert!(marked || rewritten == frame, "what is not marked is not touched");
    let again = parse(&rewritten);
    assert_eq!(again.tos, if marked { parsed.tos | 3 } else { parsed.tos });
    assert_eq!(
        (again.payload, again.flow_hash),
        (parsed.payload, parsed.flow_hash)
    );
    set_dscp(&mut rewritten[l3..], parsed.payload, 46);
    assert_eq!(
        icrc::verify_icrc(&rewritten),
        icrc::verify_icrc(frame),
        "rewriting does not touch the ICRC"
    );
}

fn check_roce(frame: &[u8]) {
    let verdict = icrc::verify_icrc(frame);
    let mut finished = frame.to_vec();
    assert_eq!(icrc::write_icrc(&mut finished).is_ok(), verdict.is_ok());
    if verdict.is_ok() {
        assert_eq!(icrc::verify_icrc(&finished), Ok(true));
    } else {
        assert_eq!(finished, frame, "a refused frame is left alone");
    }
    if let Ok(view) = RoceView::new_checked(frame) {
        assert_eq!(Ok(view.icrc_is_valid()), verdict);
        assert_eq!(view.extensions().count(), view.bth().opcode().extensions().len());
        assert!(view.payload().len() + 4 + 12 + 8 + 20 + 14 <= frame.len());
        if Cnp::parse(&view).is_ok() {
            assert_eq!(view.bth().opcode(), Opcode::Cnp);
        }
    }
}

#[test]
fn any_bytes() {
    check!().for_each(|frame: &[u8]| read_everything(frame));
}

/// Random bytes rarely form an IP packet. This target starts from valid frames, and then changes, cuts and
/// extends them.
#[test]
fn frames_with_faults() {
    let seeds = [
        VECTOR_A,
        VECTOR_B,
        VECTOR_S1,
        VECTOR_S2,
        VECTOR_S3,
        VECTOR_V6,
        LINK_QUALITY,
        LLDP,
    ]
    .map(hex);
    check!()
        .with_type::<(u8, Vec<(u8, u8)>, u8, u8)>()
        .for_each(|(seed, faults, cut, tags)| {
            let mut frame = seeds[usize::from(*seed) % seeds.len()].clone();
            for tag in 0..tags % 4 {
                frame.splice(0..0, [0; vlan::TAG_LEN]);
                assert!(vlan::write_outer_tag(&mut frame, vlan::VlanTag::dot1q(tag, 5)));
            }
            for (at, value) in faults {
                let at = usize::from(*at) % frame.len();
                frame[at] ^= value;
            }
            read_everything(&frame);
            frame.truncate(usize::from(*cut));
            read_everything(&frame);
            frame.resize(frame.len() + 40, *cut);
            read_everything(&frame);
        });
}
