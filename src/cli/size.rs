//! Sizes in bytes on the command line.

/// Parses a size in bytes, such as `4096`, `500M`, `4G` or `4GiB`. The units are powers of 1024.
///
/// # Errors
/// The text is not a size, or the size is 0 or does not fit in 64 bits.
pub(super) fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write bytes, or a number with a unit, such as 500M or 4G");
    let digits = text.len()
        - text
            .trim_start_matches(|digit: char| digit.is_ascii_digit())
            .len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size_bytes;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("1k", 1024),
            ("500M", 500 << 20),
            ("4G", 4 << 30),
            ("4GiB", 4 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size_bytes(text), Ok(bytes));
        }
        for wrong in [
            "",
            "G",
            "0",
            "-1",
            "1.5G",
            "1X",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(parse_size_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
