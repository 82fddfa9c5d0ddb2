//! The frame check sequence (IEEE 802.3 3.2.9).

/// CRC-32 of a frame with a right frame check sequence.
const RESIDUE: u32 = 0x2144_df1c;

/// Appends the frame check sequence of the octets.
pub fn append_fcs(octets: &mut Vec<u8>) {
    let fcs = crc32fast::hash(octets);
    octets.extend_from_slice(&fcs.to_le_bytes());
}

/// Returns whether the last four octets are the right frame check sequence.
pub fn has_right_fcs(octets: &[u8]) -> bool {
    octets.len() > 4 && crc32fast::hash(octets) == RESIDUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_makes_the_fcs_wrong() {
        let mut octets: Vec<u8> = (0..60).collect();
        append_fcs(&mut octets);
        assert!(has_right_fcs(&octets));
        for bit in 0..8 * octets.len() {
            octets[bit / 8] ^= 1 << (bit % 8);
            assert!(!has_right_fcs(&octets), "bit {bit}");
            octets[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!has_right_fcs(&octets[..4]));
    }

    #[test]
    fn the_fcs_of_the_check_string_is_that_of_crc_32() {
        let mut octets = b"123456789".to_vec();
        append_fcs(&mut octets);
        assert_eq!(octets[9..], 0xcbf4_3926_u32.to_le_bytes());
    }
}
