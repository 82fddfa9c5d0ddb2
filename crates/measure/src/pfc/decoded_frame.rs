//! Decodes received MAC control frames.

use xoff_wire::mac_control::{DESTINATION, FRAME_LEN, OPCODE_PAUSE, OPCODE_PFC};
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_MAC_CONTROL, MacControl, MacControlError, VlanTag, vlan};

use super::deviation::Deviation;

/// Offset of the class-enable vector of an untagged PFC frame.
const VECTOR: usize = 16;
/// Offset of the pause times of an untagged PFC frame.
const QUANTA: usize = 18;

/// A decoded MAC control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedFrame {
    /// Source address: the MAC address of the sending port.
    pub source: [u8; 6],
    /// Destination address.
    pub destination: [u8; 6],
    /// Opcode. `None` if the frame ends before the opcode.
    pub opcode: Option<u16>,
    /// The whole class-enable vector of a PFC frame, reserved bits included.
    pub enable: Option<u16>,
    /// Length of the frame in bytes, without FCS.
    pub frame_len: usize,
    /// The effect on a receiver that follows the standard. `None` if it ignores the frame.
    pub effect: Option<MacControl>,
    /// Deviations from the standard, in the order of the bytes of the frame.
    pub deviations: Vec<Deviation>,
}

impl DecodedFrame {
    /// Decodes a frame without FCS. Returns `None` if the ethertype after all VLAN tags is not 0x8808.
    ///
    /// `removed_tag` is a VLAN tag (TPID and TCI) that the kernel has removed. `own_mac` is the MAC address of the
    /// receiving port, which PAUSE frames may have as their destination.
    pub fn decode(frame: &[u8], removed_tag: Option<[u8; 4]>, own_mac: [u8; 6]) -> Option<DecodedFrame> {
        let inner_tag = vlan::tags(frame).next();
        let tags_len = vlan::tags(frame).count() * vlan::TAG_LEN;
        let untagged = remove_tags(frame, tags_len)?;
        if untagged[12..14] != ETHERTYPE_MAC_CONTROL.to_be_bytes() {
            return None;
        }
        let tag = removed_tag.map_or(inner_tag, |[a, b, c, d]| {
            Some(VlanTag {
                tpid: u16::from_be_bytes([a, b]),
                tci: u16::from_be_bytes([c, d]),
            })
        });
        let read = |at: usize| {
            let bytes = untagged.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let opcode = read(ETHERNET_LEN);
        let mut decoded = DecodedFrame {
            source: array(&untagged, 6),
            destination: array(&untagged, 0),
            opcode,
            enable: read(VECTOR).filter(|_| opcode == Some(OPCODE_PFC)),
            frame_len: frame.len() + removed_tag.map_or(0, |tag| tag.len()),
            effect: None,
            deviations: Vec::new(),
        };
        decoded.check(&untagged, tag, own_mac);
        Some(decoded)
    }

    /// Finds the deviations and the effect.
    fn check(&mut self, untagged: &[u8], tag: Option<VlanTag>, own_mac: [u8; 6]) {
        let found = &mut self.deviations;
        if self.destination != DESTINATION {
            found.push(Deviation::Destination(self.destination));
        }
        if self.source[0] & 1 != 0 {
            found.push(Deviation::GroupSource(self.source));
        }
        if let Some(tag) = tag {
            let (pcp, vid) = (tag.pcp(), tag.vid());
            found.push(Deviation::VlanTag { pcp, vid });
        }
        let parsed = MacControl::parse_for_station(untagged, own_mac);
        match parsed {
            Err(MacControlError::Truncated { needed, available }) => {
                found.push(Deviation::Truncated { needed, available });
            }
            Err(MacControlError::Opcode(opcode)) => found.push(Deviation::Opcode(opcode)),
            _ => {}
        }
        self.check_parameters(untagged);
        if self.frame_len != FRAME_LEN {
            self.deviations.push(Deviation::Length(self.frame_len));
        }
        self.effect = parsed.ok().filter(|control| {
            let has_class = !matches!(control, MacControl::Pfc(pfc) if pfc.enable == 0);
            tag.is_none() && has_class
        });
    }

    /// Finds the deviations of the parameters and the padding of PAUSE and PFC frames.
    fn check_parameters(&mut self, untagged: &[u8]) {
        let parameters_end = match self.opcode {
            Some(OPCODE_PAUSE) => VECTOR + 2,
            Some(OPCODE_PFC) => QUANTA + 16,
            _ => return,
        };
        let found = &mut self.deviations;
        if let Some(enable) = self.enable {
            let [high, low] = enable.to_be_bytes();
            if high != 0 {
                found.push(Deviation::ReservedVectorBits(high));
            }
            if low == 0 {
                found.push(Deviation::NoClass);
            }
            let classes = untagged.get(QUANTA..).unwrap_or_default().chunks_exact(2);
            for (class, bytes) in (0_u8..8).zip(classes) {
                let quanta = u16::from_be_bytes([bytes[0], bytes[1]]);
                if quanta != 0 && low & 1 << class == 0 {
                    found.push(Deviation::QuantaWithoutEnable { class, quanta });
                }
            }
        }
        let padding = untagged.get(parameters_end..).unwrap_or_default();
        let bytes = padding.iter().filter(|&&byte| byte != 0).count();
        if bytes > 0 {
            found.push(Deviation::Padding { bytes });
        }
    }
}

/// Returns the frame without its VLAN tags. Returns `None` if the frame ends before its ethertype.
fn remove_tags(frame: &[u8], tags_len: usize) -> Option<Vec<u8>> {
    if frame.len() < ETHERNET_LEN + tags_len {
        return None;
    }
    Some([&frame[..12], &frame[12 + tags_len..]].concat())
}

fn array(bytes: &[u8], at: usize) -> [u8; 6] {
    core::array::from_fn(|index| bytes.get(at + index).copied().unwrap_or_default())
}
