//! The frame check sequence (IEEE 802.3 3.2.9).

/// CRC-32 of a frame with a right frame check sequence.
const RESIDUE: u32 = 0x2144_df1c;

/// Appends the frame check sequence of the bytes.
pub fn append_fcs(bytes: &mut Vec<u8>) {
    let fcs = crc32fast::hash(bytes);
    bytes.extend_from_slice(&fcs.to_le_bytes());
}

/// Returns whether the last four bytes are the right frame check sequence.
pub fn has_right_fcs(bytes: &[u8]) -> bool {
    bytes.len() > 4 && crc32fast::hash(bytes) == RESIDUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_makes_the_fcs_wrong() {
        let mut bytes: Vec<u8> = (0..60).collect();
        append_fcs(&mut bytes);
        assert!(has_right_fcs(&bytes));
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!has_right_fcs(&bytes), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!has_right_fcs(&bytes[..4]));
    }

    #[test]
    fn the_fcs_of_the_check_string_is_that_of_crc_32() {
        let mut bytes = b"123456789".to_vec();
        append_fcs(&mut bytes);
        assert_eq!(bytes[9..], 0xcbf4_3926_u32.to_le_bytes());
    }
}
