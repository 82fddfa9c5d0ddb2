//! The invariant CRC (ICRC) of RoCEv2 over IPv4 and IPv6 (IBTA annex A17). Frames may have any number
//! of VLAN tags.
//!
//! The ICRC is the CRC-32 of Ethernet over these bytes:
//!
//! 1. Eight bytes 0xFF in place of the InfiniBand link header.
//! 2. The IP, UDP and transport headers. Every bit of a field that a switch may change is replaced by 1.
//! 3. All bytes after the headers up to the ICRC.
//!
//! A switch may therefore rewrite DSCP, ECN, hop limit, both checksums, the flow label, FECN, BECN
//! and VLAN tags.
//!
//! The functions return the CRC as a number. The frame stores it with the least significant byte first.

use super::bth;
use super::roce_layout::RoceLayout;
use super::{Error, ICRC_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN};

/// CRC-32 of eight bytes 0xFF. After these bytes, the CRC register contains 0xDEBB20E3. The CRC-32 is the
/// complement of the register.
const SEED: u32 = 0x2144_df1c;

/// Offsets of the fields that a switch may change, counted from the start of the IP, UDP or BTH header.
mod masked {
    use core::ops::Range;

    pub(super) const V4_TOS: usize = 1;
    pub(super) const V4_TTL: usize = 8;
    pub(super) const V4_CHECKSUM: Range<usize> = 10..12;
    pub(super) const V6_CLASS_HIGH: usize = 0;
    /// Low half of the traffic class, and the flow label.
    pub(super) const V6_CLASS_AND_LABEL: Range<usize> = 1..4;
    pub(super) const V6_HOP_LIMIT: usize = 7;
    pub(super) const UDP_CHECKSUM: Range<usize> = 6..8;
    /// FECN, BECN and six reserved bits.
    pub(super) const BTH_CONGESTION: usize = 4;
}

/// Computes the invariant CRC (ICRC, IBTA annex A17) of a frame without FCS. The stored ICRC is not read.
///
/// # Errors
///
/// Returns the error of the first layer that is not valid RoCEv2. IPv4 options and IPv4 fragments are errors
/// too ([`Error::Ipv4Options`], [`Error::Fragment`]), because no ICRC is defined for such packets. The opcode
/// and the extension headers are not checked.
pub fn compute_icrc(frame: &[u8]) -> Result<u32, Error> {
    Ok(compute_icrc_at_layout(frame, &RoceLayout::of_frame(frame)?))
}

/// Reads the ICRC that is stored in a frame.
///
/// # Errors
///
/// The same errors as [`compute_icrc`].
pub fn read_icrc(frame: &[u8]) -> Result<u32, Error> {
    Ok(read_icrc_at_layout(frame, &RoceLayout::of_frame(frame)?))
}

/// Returns whether the stored ICRC of a frame is correct.
///
/// # Errors
///
/// The same errors as [`compute_icrc`].
pub fn verify_icrc(frame: &[u8]) -> Result<bool, Error> {
    Ok(is_stored_icrc_valid(frame, &RoceLayout::of_frame(frame)?))
}

/// Computes the ICRC of a frame and stores it in the frame.
///
/// # Errors
///
/// The same errors as [`compute_icrc`]. The frame is unchanged in this case.
pub fn write_icrc(frame: &mut [u8]) -> Result<(), Error> {
    let layout = RoceLayout::of_frame(frame)?;
    let value = compute_icrc_at_layout(frame, &layout);
    frame[layout.icrc..layout.icrc + ICRC_LEN].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

pub(super) fn is_stored_icrc_valid(frame: &[u8], layout: &RoceLayout) -> bool {
    read_icrc_at_layout(frame, layout) == compute_icrc_at_layout(frame, layout)
}

fn read_icrc_at_layout(frame: &[u8], layout: &RoceLayout) -> u32 {
    u32::from_le_bytes(super::read_array(frame, layout.icrc..layout.icrc + ICRC_LEN))
}

/// Computes the ICRC of a frame whose layout is known.
pub(super) fn compute_icrc_at_layout(frame: &[u8], layout: &RoceLayout) -> u32 {
    let mut headers = [0; IPV6_LEN + UDP_LEN + bth::LEN];
    let ip_len = layout.udp - layout.ip;
    let headers = &mut headers[..ip_len + UDP_LEN + bth::LEN];
    headers.copy_from_slice(&frame[layout.ip..layout.bth + bth::LEN]);
    if ip_len == IPV4_LEN {
        headers[masked::V4_TOS] = 0xff;
        headers[masked::V4_TTL] = 0xff;
        headers[masked::V4_CHECKSUM].fill(0xff);
    } else {
        headers[masked::V6_CLASS_HIGH] |= 0x0f;
        headers[masked::V6_CLASS_AND_LABEL].fill(0xff);
        headers[masked::V6_HOP_LIMIT] = 0xff;
    }
    headers[ip_len..][masked::UDP_CHECKSUM].fill(0xff);
    headers[ip_len + UDP_LEN..][masked::BTH_CONGESTION] = 0xff;

    let mut crc = crc32fast::Hasher::new_with_initial(SEED);
    crc.update(headers);
    crc.update(&frame[layout.bth + bth::LEN..layout.icrc]);
    crc.finalize()
}
