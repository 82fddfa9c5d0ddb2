//! What is done with a frame of the ring, by its header alone; and how a VLAN tag comes back.

use xoff_dataplane::DropReason;

use crate::judge::{ADDRESSES_BYTES, Found, harm};

const TAG_BYTES: usize = 4;
/// The tag protocol of a kernel that does not say which.
const DOT1Q: u16 = 0x8100;

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Copy it, with this tag put back, to `frame_len` octets.
    Deliver {
        tag: Option<[u8; TAG_BYTES]>,
        frame_len: usize,
    },
    /// It would not leave as it came.
    Drop(DropReason),
}

/// Judges a frame of which the ring holds `stored` octets; frames of more than `longest` octets are none of this link.
pub(super) fn judge(header: &libc::tpacket2_hdr, stored: usize, longest: u32) -> Verdict {
    let tag = tag(header);
    let found = Found {
        len: u64::from(header.tp_len),
        tag_bytes: tag.map_or(0, |tag| tag.len() as u64),
        stored,
    };
    let is_unfinished = || header.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
    match harm(found, longest, is_unfinished) {
        Some(reason) => Verdict::Drop(reason),
        None => Verdict::Deliver {
            tag,
            frame_len: (found.len + found.tag_bytes) as usize,
        },
    }
}

/// The tag the kernel took off. The flag decides, not the value: a priority tag of VID 0 and PCP 0 is 0.
fn tag(header: &libc::tpacket2_hdr) -> Option<[u8; TAG_BYTES]> {
    if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = match header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => DOT1Q,
        _ => header.tp_vlan_tpid,
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

/// Copies a frame of the ring to `to`, whose length [`judge`] has given, with its tag behind the addresses.
pub(super) fn restore(stored: &[u8], tag: Option<[u8; TAG_BYTES]>, to: &mut [u8]) {
    match tag {
        None => to.copy_from_slice(&stored[..to.len()]),
        Some(tag) => {
            const BEHIND: usize = ADDRESSES_BYTES + TAG_BYTES;
            to[..ADDRESSES_BYTES].copy_from_slice(&stored[..ADDRESSES_BYTES]);
            to[ADDRESSES_BYTES..BEHIND].copy_from_slice(&tag);
            let behind = to.len() - BEHIND;
            to[BEHIND..].copy_from_slice(&stored[ADDRESSES_BYTES..ADDRESSES_BYTES + behind]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{TP_STATUS_CSUMNOTREADY, TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID};

    fn header(status: u32, len: u32, tpid: u16, tci: u16) -> libc::tpacket2_hdr {
        libc::tpacket2_hdr {
            tp_status: TP_STATUS_USER | status,
            tp_len: len,
            tp_snaplen: len,
            tp_mac: 66,
            tp_net: 80,
            tp_sec: 0,
            tp_nsec: 0,
            tp_vlan_tci: tci,
            tp_vlan_tpid: tpid,
            tp_padding: [0; 4],
        }
    }

    #[test]
    fn an_untagged_frame_is_delivered_as_it_is() {
        // The fields of the tag hold what was there before: only the flag counts.
        let verdict = judge(&header(0, 60, 0x8100, 5), 60, 1522);
        assert_eq!(
            verdict,
            Verdict::Deliver {
                tag: None,
                frame_len: 60
            }
        );
        let mut to = [0; 60];
        restore(&[7; 60], None, &mut to);
        assert_eq!(to, [7; 60]);
    }

    #[test]
    fn a_priority_tag_of_zeros_comes_back() {
        let both = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        for (tpid, tci) in [(0x8100, 0), (0x88a8, 0xe123)] {
            let Verdict::Deliver { tag, frame_len } = judge(&header(both, 60, tpid, tci), 60, 1522) else {
                panic!("dropped");
            };
            assert_eq!(frame_len, 64);
            let stored: Vec<u8> = (0..60).collect();
            let mut to = vec![0; frame_len];
            restore(&stored, tag, &mut to);
            let restored = [&tpid.to_be_bytes()[..], &u16::to_be_bytes(tci)].concat();
            assert_eq!(to, [&stored[..12], &restored, &stored[12..]].concat());
        }
    }

    #[test]
    fn an_old_kernel_that_names_no_protocol_means_802_1q() {
        let verdict = judge(&header(TP_STATUS_VLAN_VALID, 60, 0, 9), 60, 1522);
        assert_eq!(
            verdict,
            Verdict::Deliver {
                tag: Some([0x81, 0, 0, 9]),
                frame_len: 64
            }
        );
    }

    #[test]
    fn what_cannot_pass_unharmed_is_dropped_by_reason() {
        let dropped = |reason| Verdict::Drop(reason);
        let unfinished = header(TP_STATUS_CSUMNOTREADY, 100, 0, 0);
        assert_eq!(
            judge(&unfinished, 100, 1522),
            dropped(DropReason::ChecksumUnfinished)
        );
        let superframe = header(TP_STATUS_CSUMNOTREADY, 20_042, 0, 0);
        assert_eq!(judge(&superframe, 1978, 1522), dropped(DropReason::Oversized));
        assert_eq!(
            judge(&header(0, 1523, 0, 0), 1523, 1522),
            dropped(DropReason::Oversized)
        );
        let tagged = header(TP_STATUS_VLAN_VALID, 1519, 0, 0);
        assert_eq!(judge(&tagged, 1519, 1522), dropped(DropReason::Oversized));
        assert_eq!(
            judge(&header(0, 100, 0, 0), 60, 1522),
            dropped(DropReason::Oversized)
        );
        assert_eq!(
            judge(&header(0, 8, 0, 0), 8, 1522),
            dropped(DropReason::Truncated)
        );
        assert_eq!(
            judge(&header(0, u32::MAX, 0, 0), 60, 1522),
            dropped(DropReason::Oversized)
        );
    }
}
