//! Comparison of frames before and after a switch: only the permitted fields may differ.

use std::ops::Range;

use xoff_wire::parse::{Payload, parse};

use crate::captures::{InputFrame, OutputFrame};

/// The fields that a switch may change in a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewrites {
    /// The TCI of the 802.1Q tag that untagged frames get.
    pub(crate) pushed_tci: Option<u16>,
    /// Both ECN bits and the IPv4 header checksum.
    pub(crate) ecn: bool,
    /// Both MAC addresses, the TTL or hop limit, and the IPv4 header checksum.
    pub(crate) routed: bool,
}

impl Rewrites {
    /// Returns the bytes of a sent frame that may differ, each with a mask of its bits.
    fn rewritten_bits(self, frame: &[u8]) -> Vec<(Range<usize>, u8)> {
        let parsed = parse(frame);
        let l3 = usize::from(parsed.l3_offset);
        let mut masks = Vec::new();
        if self.routed {
            masks.push((0..12, 0xff));
        }
        match parsed.payload {
            Payload::Ipv4 => {
                masks.extend(self.ecn.then_some((l3 + 1..l3 + 2, 0x03)));
                masks.extend(self.routed.then_some((l3 + 8..l3 + 9, 0xff)));
                masks.extend((self.ecn || self.routed).then_some((l3 + 10..l3 + 12, 0xff)));
            }
            Payload::Ipv6 => {
                masks.extend(self.ecn.then_some((l3 + 1..l3 + 2, 0x30)));
                masks.extend(self.routed.then_some((l3 + 7..l3 + 8, 0xff)));
            }
            _ => {}
        }
        masks
    }

    /// Returns an error if `after` differs from `before` in more than these rewrites.
    pub(crate) fn compare_frames(self, before: &InputFrame, after: &OutputFrame) -> Result<(), String> {
        let mut expected = before.data.clone();
        if let Some(tci) = self.pushed_tci {
            let [a, b] = tci.to_be_bytes();
            expected.splice(12..12, [0x81, 0x00, a, b]);
        }
        let grown = (expected.len() - before.data.len()) as u32;
        if after.len != before.len + grown || after.data.len() != expected.len() {
            return Err(format!(
                "{} octets of {} became {} of {}",
                before.data.len(),
                before.len,
                after.data.len(),
                after.len
            ));
        }
        let masks = self.rewritten_bits(&after.data);
        let may = |at: usize| {
            let mine = masks.iter().filter(|(octets, _)| octets.contains(&at));
            mine.fold(0, |bits, (_, mask)| bits | mask)
        };
        let differs = |at: &usize| (expected[*at] ^ after.data[*at]) & !may(*at) != 0;
        match (0..expected.len()).find(differs) {
            None => Ok(()),
            Some(at) => Err(format!(
                "octet {at} was {:#04x} and is {:#04x}",
                expected[at], after.data[at]
            )),
        }
    }
}

/// Returns the checksum of an IPv4 header whose checksum field is zero.
pub(crate) fn ipv4_checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Panics unless every input frame left once, in the order of its flow (source and destination address), with
/// only the permitted changes. Frames of the switch itself are ignored.
pub(crate) fn assert_same_frames(before: &[InputFrame], after: &[OutputFrame], rewrites: Rewrites) {
    let of_capture: Vec<&OutputFrame> = after.iter().filter(|frame| frame.id.is_some()).collect();
    let mut seen = vec![false; before.len()];
    let mut latest = std::collections::BTreeMap::new();
    for frame in &of_capture {
        let number = frame.id.expect("frames with one were chosen") as usize;
        let original = &before[number - 1];
        if let Err(why) = rewrites.compare_frames(original, frame) {
            panic!("frame {number}: {why}");
        }
        assert!(
            !std::mem::replace(&mut seen[number - 1], true),
            "frame {number} came out twice"
        );
        let flow = original.data[..12].to_vec();
        if let Some(earlier) = latest.insert(flow, number) {
            assert!(
                earlier < number,
                "frame {number} of a flow came out behind frame {earlier}"
            );
        }
    }
    assert!(
        seen.iter().all(|seen| *seen),
        "{} of {} frames came out",
        of_capture.len(),
        before.len()
    );
}

#[test]
fn the_comparison_finds_forbidden_changes() {
    let before = InputFrame {
        at_ns: 0,
        data: [&[2; 12][..], &[0x08, 0x00, 0x45, 0x02], &[0; 44]].concat(),
        len: 60,
    };
    let mut data = before.data.clone();
    data[16..18].copy_from_slice(&[0, 46]);
    let before = InputFrame {
        data: data.clone(),
        ..before
    };
    let after = |data: Vec<u8>| OutputFrame {
        interface: 0,
        at_ns: 0,
        len: data.len() as u32,
        data,
        comment: String::new(),
        flags: 2,
        id: Some(1),
        queue: None,
    };
    let with = |at: usize, octet: u8| {
        let mut data = data.clone();
        data[at] = octet;
        after(data)
    };
    let ecn = Rewrites {
        ecn: true,
        ..Rewrites::default()
    };
    assert!(
        Rewrites::default()
            .compare_frames(&before, &after(data.clone()))
            .is_ok()
    );
    assert!(Rewrites::default().compare_frames(&before, &with(15, 3)).is_err());
    assert!(ecn.compare_frames(&before, &with(15, 3)).is_ok());
    assert!(ecn.compare_frames(&before, &with(15, 7)).is_err(), "DSCP");
    assert!(ecn.compare_frames(&before, &with(22, 1)).is_err(), "TTL");
    let routed = Rewrites {
        routed: true,
        ..Rewrites::default()
    };
    assert!(routed.compare_frames(&before, &with(22, 1)).is_ok());
    assert!(routed.compare_frames(&before, &with(59, 1)).is_err(), "payload");
    let tagged = Rewrites {
        pushed_tci: Some(10),
        ..Rewrites::default()
    };
    assert!(tagged.compare_frames(&before, &after(data)).is_err());
}
