//! The format of TLVs (IEEE 802.1AB 8.4): seven bits of type, nine bits of length, the value.

use super::problem::{TlvName, TlvProblem};
use super::{DESTINATION, ETHERTYPE};
use crate::{ETHERNET_LEN, MIN_FRAME_LEN, read_be16};

/// Longest value of a TLV in bytes.
pub const TLV_LEN_MAX: usize = 511;

/// Types of TLVs (IEEE 802.1AB table 8-1).
pub mod kind {
    /// End of LLDPDU.
    pub const END: u8 = 0;
    /// Chassis ID, the first TLV.
    pub const CHASSIS_ID: u8 = 1;
    /// Port ID, the second TLV.
    pub const PORT_ID: u8 = 2;
    /// Time to live, the third TLV.
    pub const TIME_TO_LIVE: u8 = 3;
    /// Port description.
    pub const PORT_DESCRIPTION: u8 = 4;
    /// System name.
    pub const SYSTEM_NAME: u8 = 5;
    /// System description.
    pub const SYSTEM_DESCRIPTION: u8 = 6;
    /// System capabilities.
    pub const SYSTEM_CAPABILITIES: u8 = 7;
    /// Management address.
    pub const MANAGEMENT_ADDRESS: u8 = 8;
    /// Organisationally specific TLV: OUI, subtype, information.
    pub const ORGANISATION: u8 = 127;
}

/// A TLV as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTlv {
    /// Type of the TLV, 0 to 127 ([`kind`]).
    pub kind: u8,
    /// Value without the two bytes of type and length, at most [`TLV_LEN_MAX`] bytes.
    pub value: Vec<u8>,
}

impl RawTlv {
    /// Returns an organisationally specific TLV (IEEE 802.1AB 8.6).
    pub fn organisation(oui: [u8; 3], subtype: u8, information: &[u8]) -> RawTlv {
        let value = [&oui[..], &[subtype], information].concat();
        RawTlv {
            kind: kind::ORGANISATION,
            value,
        }
    }

    /// Returns OUI, subtype and information of an organisationally specific TLV. Returns `None` for other types
    /// and for values below four bytes.
    pub fn as_organisation(&self) -> Option<([u8; 3], u8, &[u8])> {
        split_organisation(&self.value).filter(|_| self.kind == kind::ORGANISATION)
    }
}

/// Splits the value of an organisationally specific TLV into OUI, subtype and information.
pub(super) fn split_organisation(value: &[u8]) -> Option<([u8; 3], u8, &[u8])> {
    let (&[a, b, c, subtype], information) = value.split_first_chunk::<4>()?;
    Some(([a, b, c], subtype, information))
}

/// Writes an LLDP frame of any TLVs in the given order, without a check and without an end TLV of its own. The
/// frame is padded to 60 bytes. `source` is the MAC address of the sending port. Only the low seven bits of each
/// type and the first [`TLV_LEN_MAX`] bytes of each value are written.
pub fn write_tlvs(source: [u8; 6], tlvs: &[RawTlv]) -> Vec<u8> {
    let mut frame = start_frame(source);
    for tlv in tlvs {
        push_tlv(&mut frame, tlv.kind, &[&tlv.value]);
    }
    pad_frame(&mut frame);
    frame
}

/// Returns the Ethernet header of an LLDP frame.
pub(super) fn start_frame(source: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    frame.extend_from_slice(&DESTINATION);
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}

/// Appends a TLV. The parts form the value.
pub(super) fn push_tlv(frame: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = len.min(TLV_LEN_MAX);
    let header = u16::from(kind & 0x7f) << 9 | len as u16;
    frame.extend_from_slice(&header.to_be_bytes());
    frame.extend(parts.iter().copied().flatten().take(len));
}

pub(super) fn pad_frame(frame: &mut Vec<u8>) {
    if frame.len() < MIN_FRAME_LEN {
        frame.resize(MIN_FRAME_LEN, 0);
    }
}

/// Reads the TLVs of an LLDPDU one after the other.
#[derive(Clone, Debug)]
pub(super) struct TlvReader<'a> {
    rest: &'a [u8],
}

const LLDPDU: TlvName = TlvName {
    name: "LLDPDU",
    clause: "IEEE 802.1AB 9.2.7.7.1",
};

impl<'a> TlvReader<'a> {
    /// Returns a reader of the TLVs of a frame. The destination and the ethertype must be those of LLDP.
    pub(super) fn of_frame(frame: &'a [u8]) -> Result<TlvReader<'a>, TlvProblem> {
        const FRAME: TlvName = TlvName {
            name: "LLDP frame",
            clause: "IEEE 802.1AB 7.1 to 7.4",
        };
        if frame.len() < ETHERNET_LEN {
            return Err(FRAME.problem("length in bytes", frame.len(), "at least 14"));
        }
        let ethertype = read_be16(frame, 12..14);
        if ethertype != ETHERTYPE {
            return Err(FRAME.problem("ethertype", usize::from(ethertype), "35020 (0x88cc)"));
        }
        if let Some(at) = (0..6).find(|&at| frame[at] != DESTINATION[at]) {
            let value = usize::from(frame[at]);
            return Err(FRAME.problem_at("destination byte", at, value, "01:80:c2:00:00:0e"));
        }
        Ok(TlvReader {
            rest: &frame[ETHERNET_LEN..],
        })
    }

    /// Returns type and value of the next TLV, or `None` at the end of the frame.
    ///
    /// # Errors
    ///
    /// The TLV ends behind the end of the frame.
    pub(super) fn next_tlv(&mut self) -> Result<Option<(u8, &'a [u8])>, TlvProblem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let Some((header, rest)) = self.rest.split_first_chunk::<2>() else {
            return Err(LLDPDU.problem("bytes of the last TLV header", 1, "2"));
        };
        let header = u16::from_be_bytes(*header);
        let len = usize::from(header & 0x1ff);
        let Some((value, rest)) = rest.split_at_checked(len) else {
            return Err(LLDPDU.problem(
                "length of the last TLV",
                len,
                "at most the bytes up to the end of the frame",
            ));
        };
        self.rest = rest;
        Ok(Some(((header >> 9) as u8, value)))
    }

    /// Returns the bytes after the last TLV that was read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
