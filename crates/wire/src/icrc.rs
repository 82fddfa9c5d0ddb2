//! The invariant CRC of RoCEv2 (IBTA annex A17), for IPv4 and IPv6, with any number of VLAN tags in front.
//!
//! An ordinary CRC-32 (that of Ethernet and zlib) over eight octets of ones in the place of the InfiniBand
//! link header, the IP, UDP and transport headers with every field that may change on the way set to ones,
//! and the rest up to the ICRC. So a switch may rewrite DSCP, ECN, hop limit, both checksums, the flow
//! label, FECN and BECN, and tags.
//!
//! The value is that of the CRC; on the wire it stands least significant octet first.

use super::bth;
use super::roce::Layout;
use super::{Error, IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Octets of the ICRC.
pub const LEN: usize = 4;

/// CRC-32 of eight octets of ones: its register is then 0xDEBB20E3, this is the complement.
const SEED: u32 = 0x2144_df1c;

/// Octets of each header that may change on the way.
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

/// The ICRC that a frame should carry.
///
/// # Errors The first layer that is not what RoCEv2 needs, and why: [`Error::Ipv4Options`] and
/// [`Error::Fragment`] among others, since no ICRC is defined for them. The opcode and what follows from it
/// are not looked at.
pub fn compute(frame: &[u8]) -> Result<u32, Error> {
    Ok(over(frame, &Layout::of(frame)?))
}

/// The ICRC that a frame carries.
///
/// # Errors
/// As [`compute`].
pub fn stored(frame: &[u8]) -> Result<u32, Error> {
    Ok(at_end(frame, &Layout::of(frame)?))
}

/// Whether a frame carries the ICRC that it should.
///
/// # Errors
/// As [`compute`].
pub fn verify(frame: &[u8]) -> Result<bool, Error> {
    Ok(matches(frame, &Layout::of(frame)?))
}

/// Computes the ICRC of a frame whose other octets are final, and stores it.
///
/// # Errors
/// As [`compute`]; the frame is then left alone.
pub fn write(frame: &mut [u8]) -> Result<(), Error> {
    let layout = Layout::of(frame)?;
    let value = over(frame, &layout);
    frame[layout.icrc..layout.icrc + LEN].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

pub(super) fn matches(frame: &[u8], layout: &Layout) -> bool {
    at_end(frame, layout) == over(frame, layout)
}

fn at_end(frame: &[u8], layout: &Layout) -> u32 {
    u32::from_le_bytes(super::array(frame, layout.icrc..layout.icrc + LEN))
}

/// The CRC of a frame whose parts lie as `layout` says.
pub(super) fn over(frame: &[u8], layout: &Layout) -> u32 {
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
