//! MAC addresses as integers, for fast comparison, classification and hashing.

/// A MAC address, stored in the low 48 bits. The first byte of the address is the most significant byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub(crate) u64);

impl MacAddress {
    pub(crate) const BITS: u64 = (1 << 48) - 1;

    /// Reads the destination and source addresses of a frame. Returns `None` if the frame is shorter than an
    /// Ethernet header.
    #[inline]
    pub fn destination_and_source(frame: &[u8]) -> Option<(MacAddress, MacAddress)> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l, _, _] = frame.first_chunk::<14>()?;
        Some((
            MacAddress(u64::from_be_bytes([0, 0, a, b, c, d, e, f])),
            MacAddress(u64::from_be_bytes([0, 0, g, h, i, j, k, l])),
        ))
    }

    /// Creates an address from its six bytes in transmission order.
    pub fn from_bytes([a, b, c, d, e, f]: [u8; 6]) -> MacAddress {
        MacAddress(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Returns true for multicast and broadcast addresses.
    #[inline]
    pub(crate) const fn is_group(self) -> bool {
        self.0 & 1 << 40 != 0
    }

    /// Returns true for the addresses 01-80-C2-00-00-00 to 01-80-C2-00-00-0F. A bridge does not forward
    /// frames to these addresses (IEEE 802.1Q table 8-1).
    #[inline]
    pub(crate) const fn is_reserved(self) -> bool {
        self.0 & !0x0f == 0x0180_c200_0000
    }

    /// Returns the six bytes of the address in transmission order.
    pub(crate) fn to_bytes(self) -> [u8; 6] {
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
        let (dst, src) = MacAddress::destination_and_source(&frame).unwrap();
        assert_eq!((dst.is_group(), dst.is_reserved()), (true, true));
        assert_eq!((src.is_group(), src.is_reserved()), (false, false));
        assert_eq!(src.to_bytes(), [2, 3, 4, 5, 6, 7]);
        assert!(!MacAddress(dst.0 + 1).is_reserved(), "01-80-C2-00-00-10");
        assert_eq!(MacAddress::destination_and_source(&frame[..13]), None);
    }
}
