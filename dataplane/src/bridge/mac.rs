//! MAC addresses as numbers: compared, classified and hashed without a loop over octets.

/// A MAC address in the low 48 bits, the first octet highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub(crate) u64);

impl Mac {
    pub(crate) const BITS: u64 = (1 << 48) - 1;

    /// Destination and source of a frame; `None` if it is shorter than an Ethernet header.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Option<(Mac, Mac)> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l, _, _] = frame.first_chunk::<14>()?;
        Some((
            Mac(u64::from_be_bytes([0, 0, a, b, c, d, e, f])),
            Mac(u64::from_be_bytes([0, 0, g, h, i, j, k, l])),
        ))
    }

    /// From its six octets, as they are sent.
    pub fn of_octets([a, b, c, d, e, f]: [u8; 6]) -> Mac {
        Mac(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Multicast or broadcast.
    #[inline]
    pub(crate) const fn is_group(self) -> bool {
        self.0 & 1 << 40 != 0
    }

    /// 01-80-C2-00-00-00 to -0F, which a bridge keeps (IEEE 802.1Q table 8-1).
    #[inline]
    pub(crate) const fn is_reserved(self) -> bool {
        self.0 & !0x0f == 0x0180_c200_0000
    }

    pub(crate) fn octets(self) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        [a, b, c, d, e, f]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_classified() {
        let mut frame = [0; 14];
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0f]);
        frame[6..12].copy_from_slice(&[2, 3, 4, 5, 6, 7]);
        let (dst, src) = Mac::of_frame(&frame).unwrap();
        assert_eq!((dst.is_group(), dst.is_reserved()), (true, true));
        assert_eq!((src.is_group(), src.is_reserved()), (false, false));
        assert_eq!(src.octets(), [2, 3, 4, 5, 6, 7]);
        assert!(!Mac(dst.0 + 1).is_reserved(), "01-80-C2-00-00-10");
        assert_eq!(Mac::of_frame(&frame[..13]), None);
    }
}
