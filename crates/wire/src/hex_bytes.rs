//! Bytes as text in hexadecimal digits.

/// Parses bytes in hexadecimal digits. Blanks, colons, dashes and underscores are ignored. Returns `None` for
/// other characters and for an odd number of digits.
pub fn parse_hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|letter| !matches!(letter, ' ' | ':' | '-' | '_'))
        .map(|letter| letter.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::parse_hex_bytes;

    #[test]
    fn separators_are_ignored_and_digits_come_in_pairs() {
        assert_eq!(
            parse_hex_bytes("01:80-c2 00_0F"),
            Some(vec![1, 0x80, 0xc2, 0, 15])
        );
        assert_eq!(parse_hex_bytes(""), Some(Vec::new()));
        for wrong in ["123", "1g", "0x12", "+1"] {
            assert_eq!(parse_hex_bytes(wrong), None, "{wrong}");
        }
    }
}
