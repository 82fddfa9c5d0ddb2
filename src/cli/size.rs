//! Sizes in bytes on the command line.

use xoff_lab::units;

/// Parses a size in bytes, at least 1, such as `4096`, `500M`, `1.5G` or `4GiB`
/// ([`parse_bytes`](units::parse_bytes)).
///
/// # Errors
/// The text is not a size, or the size is 0.
pub(super) fn parse_size_bytes(text: &str) -> Result<u64, String> {
    units::parse_bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            units::explain_bits(text, units::parse_bytes).unwrap_or_else(|| format!("write {}", units::BYTES))
        })
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
            ("1.5G", 3 << 29),
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
            "1X",
            "99999999999999999999",
            "18446744073709551615G",
            "99999999T",
        ] {
            assert!(parse_size_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            parse_size_bytes("4Mb"),
            Err("write 4MB or 4MiB; Mb are megabits".to_owned())
        );
    }
}
