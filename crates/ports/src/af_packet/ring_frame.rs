//! Decides for each frame in the receive ring whether it is delivered or dropped. Also inserts the VLAN tag
//! that the kernel has removed.

use xoff_dataplane::DropReason;

use crate::frame_check::{ADDRESSES_BYTES, CapturedLengths, find_drop_reason};

const TAG_BYTES: usize = 4;
/// TPID of a removed tag. This value is used if the kernel does not report the TPID.
const DOT1Q: u16 = 0x8100;

/// The decision about a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameAction {
    /// Copy the frame and insert its VLAN tag, if any. The result has `frame_len` bytes.
    Deliver {
        tag: Option<[u8; TAG_BYTES]>,
        frame_len: usize,
    },
    /// Drop and count the frame, because the switch cannot forward it unchanged.
    Drop(DropReason),
}

/// Decides from the ring header of a frame whether the frame is delivered or dropped. The ring contains
/// `stored_len` bytes of the frame. `frame_len_max` is the length of the longest frame of the link, in bytes.
pub(super) fn choose_action(
    header: &libc::tpacket2_hdr,
    stored_len: usize,
    frame_len_max: u32,
) -> FrameAction {
    let tag = removed_tag(header);
    let lengths = CapturedLengths {
        frame_len: u64::from(header.tp_len),
        tag_len: tag.map_or(0, |tag| tag.len() as u64),
        stored_len,
    };
    let is_unfinished = || header.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
    match find_drop_reason(lengths, frame_len_max, is_unfinished) {
        Some(reason) => FrameAction::Drop(reason),
        None => FrameAction::Deliver {
            tag,
            frame_len: (lengths.frame_len + lengths.tag_len) as usize,
        },
    }
}

/// Returns the VLAN tag that the kernel has removed, or `None`. The function reads the status flag and not
/// the tag value. A tag value of 0 is possible: a priority tag with VID 0 and PCP 0.
pub(crate) fn removed_tag(header: &libc::tpacket2_hdr) -> Option<[u8; TAG_BYTES]> {
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

/// Returns the 802.1p priority of the VLAN tag that the kernel has removed. Returns `None` if it has removed none.
pub(super) fn removed_tag_pcp(header: &libc::tpacket2_hdr) -> Option<u8> {
    removed_tag(header).map(|[_, _, high, _]| high >> 5)
}

/// Copies a frame from the ring to `output`, and inserts the VLAN tag after the MAC addresses. `output` must
/// have the length `frame_len` that [`choose_action`] has returned.
pub(super) fn copy_with_tag(stored: &[u8], tag: Option<[u8; TAG_BYTES]>, output: &mut [u8]) {
    match tag {
        None => output.copy_from_slice(&stored[..output.len()]),
        Some(tag) => {
            const TAG_END: usize = ADDRESSES_BYTES + TAG_BYTES;
            output[..ADDRESSES_BYTES].copy_from_slice(&stored[..ADDRESSES_BYTES]);
            output[ADDRESSES_BYTES..TAG_END].copy_from_slice(&tag);
            let rest_len = output.len() - TAG_END;
            output[TAG_END..].copy_from_slice(&stored[ADDRESSES_BYTES..ADDRESSES_BYTES + rest_len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{TP_STATUS_CSUMNOTREADY, TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID};

    fn ring_header(status: u32, len: u32, tpid: u16, tci: u16) -> libc::tpacket2_hdr {
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
    fn an_untagged_frame_is_delivered_unchanged() {
        // The tag fields hold old values. Only the status flag is valid.
        let action = choose_action(&ring_header(0, 60, 0x8100, 5), 60, 1522);
        assert_eq!(
            action,
            FrameAction::Deliver {
                tag: None,
                frame_len: 60
            }
        );
        let mut to = [0; 60];
        copy_with_tag(&[7; 60], None, &mut to);
        assert_eq!(to, [7; 60]);
    }

    #[test]
    fn a_priority_tag_with_value_zero_is_inserted() {
        let both = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        for (tpid, tci) in [(0x8100, 0), (0x88a8, 0xe123)] {
            let FrameAction::Deliver { tag, frame_len } =
                choose_action(&ring_header(both, 60, tpid, tci), 60, 1522)
            else {
                panic!("dropped");
            };
            assert_eq!(frame_len, 64);
            let stored: Vec<u8> = (0..60).collect();
            let mut to = vec![0; frame_len];
            copy_with_tag(&stored, tag, &mut to);
            let restored = [&tpid.to_be_bytes()[..], &u16::to_be_bytes(tci)].concat();
            assert_eq!(to, [&stored[..12], &restored, &stored[12..]].concat());
        }
    }

    #[test]
    fn a_tag_without_tpid_gets_the_tpid_of_802_1q() {
        let action = choose_action(&ring_header(TP_STATUS_VLAN_VALID, 60, 0, 9), 60, 1522);
        assert_eq!(
            action,
            FrameAction::Deliver {
                tag: Some([0x81, 0, 0, 9]),
                frame_len: 64
            }
        );
    }

    #[test]
    fn frames_that_cannot_leave_unchanged_are_dropped_by_reason() {
        let dropped = |reason| FrameAction::Drop(reason);
        let unfinished = ring_header(TP_STATUS_CSUMNOTREADY, 100, 0, 0);
        assert_eq!(
            choose_action(&unfinished, 100, 1522),
            dropped(DropReason::ChecksumUnfinished)
        );
        let superframe = ring_header(TP_STATUS_CSUMNOTREADY, 20_042, 0, 0);
        assert_eq!(
            choose_action(&superframe, 1978, 1522),
            dropped(DropReason::Oversized)
        );
        assert_eq!(
            choose_action(&ring_header(0, 1523, 0, 0), 1523, 1522),
            dropped(DropReason::Oversized)
        );
        let tagged = ring_header(TP_STATUS_VLAN_VALID, 1519, 0, 0);
        assert_eq!(choose_action(&tagged, 1519, 1522), dropped(DropReason::Oversized));
        assert_eq!(
            choose_action(&ring_header(0, 100, 0, 0), 60, 1522),
            dropped(DropReason::Oversized)
        );
        assert_eq!(
            choose_action(&ring_header(0, 8, 0, 0), 8, 1522),
            dropped(DropReason::Truncated)
        );
        assert_eq!(
            choose_action(&ring_header(0, u32::MAX, 0, 0), 60, 1522),
            dropped(DropReason::Oversized)
        );
    }
}
