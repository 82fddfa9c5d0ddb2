//! Parses the quantities of a lab file, such as durations, speeds, rates, sizes and MAC addresses.

/// Description of a valid duration, for messages.
pub const DURATION: &str = "a duration from 0 to 5000h, such as 20s, 500ms, 10us or 2m";
/// Description of a valid link speed, for messages.
pub const SPEED: &str = "a speed from 10m to 1.6t, such as 100m, 1g, 25g or 400g";
/// Description of a valid rate of a flow, for messages.
pub const RATE: &str = "a share of the link from 0.0001% to 100%, such as 40%, or bits per second up to 1.6t, such as 250m or 1g";
/// Description of a valid MAC address, for messages.
pub const MAC: &str = "a unicast address of six bytes, such as 02:00:00:00:00:01";
/// Description of a valid memory size of a guest, for messages.
pub(crate) const MEMORY: &str = "an amount of memory from 16M to 1T, such as 384M or 2G";
/// Description of a valid size in bytes, for messages.
pub const BYTES: &str =
    "a whole number of bytes up to 9000TB, such as 4096, 64K or 64M (powers of 1024), or 64MB (of 1000)";
/// Description of a valid bit rate, for messages.
pub(crate) const BIT_RATE: &str = "bits per second from 1k to 10t, such as 250m or 40g";

/// Returns whether a text that `parse` rejects is a number with a unit that `parse` accepts. The number is then out
/// of range. A negative number without a unit has a valid form too, because no quantity is negative.
pub(crate) fn has_valid_form<T>(text: &str, parse: fn(&str) -> Option<T>) -> bool {
    /// Numbers of which one is in the range of every unit of every quantity.
    const PROBES: [&str; 9] = ["0", "0.001", "0.01", "1", "10", "16", "100", "1000", "100000"];
    let (text, is_negative) = match text.trim().strip_prefix('-') {
        Some(text) => (text, true),
        None => (text.trim(), false),
    };
    let Some((number, unit)) = split_number_and_unit(text) else {
        return false;
    };
    // An address is no number with a unit.
    if unit.contains(':') {
        return false;
    }
    let accepts = |number: &str| parse(&format!("{number}{unit}")).is_some();
    // A fraction of the smallest step is not out of range.
    if !is_negative && number.fract() != 0.0 && accepts(&number.trunc().to_string()) {
        return false;
    }
    let is_bare_negative = is_negative && unit.is_empty();
    // Only 0 needs no unit in quantities that have a unit.
    let has_unit = !unit.is_empty() || accepts("16");
    is_bare_negative || has_unit && PROBES.into_iter().any(accepts)
}

/// Splits a text such as `20.5ms` into the number and the unit, in lower case. Returns `None` if no number is
/// at the start.
fn split_number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let unit_start = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// Longest duration: 5000 hours. Model time has 64 bits and counts picoseconds.
const DURATION_MAX_NS: f64 = 1.8e16;

/// Parses a duration such as `10us` into nanoseconds, rounded. The units are ns, us, ms, s, m (or min) and h.
/// Only 0 needs no unit. Returns `None` for an invalid text and for more than 5000 hours.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    try_parse_duration_ns(text).ok()
}

/// Parses a duration like [`parse_duration_ns`], but returns a reason for an invalid text.
///
/// # Errors
/// Returns the reason as text if the text is not a duration, or if the duration is longer than 5000 hours.
pub fn try_parse_duration_ns(text: &str) -> Result<u64, String> {
    let ns = parse_nanoseconds(text).ok_or_else(|| format!("write {DURATION}"))?;
    if ns > DURATION_MAX_NS {
        return Err("the duration is longer than 5000h, the limit of model time".to_owned());
    }
    Ok(ns as u64)
}

fn parse_nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = split_number_and_unit(text)?;
    let scale = match unit.as_str() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "" if number == 0.0 => 1.0,
        _ => return None,
    };
    Some((number * scale).round())
}

fn parse_bits_per_second(text: &str) -> Option<f64> {
    let (number, unit) = split_number_and_unit(text)?;
    let unit = unit
        .strip_suffix("bit/s")
        .or(unit.strip_suffix("bps"))
        .or(unit.strip_suffix("b/s"))
        .unwrap_or(&unit);
    let scale = match unit {
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        _ => return None,
    };
    Some(number * scale)
}

/// Parses a link speed such as `25g` into Mb/s. The units are k, m, g and t, optionally with `bit/s`,
/// `b/s` or `bps`. Returns `None` for an invalid text, a fraction of 1 Mb/s, and a speed outside 10 to 1
/// 600 000 Mb/s.
pub fn parse_speed_mbps(text: &str) -> Option<u32> {
    let mbps = parse_bits_per_second(text)? / 1e6;
    ((10.0..=1_600_000.0).contains(&mbps) && mbps.fract() == 0.0).then_some(mbps as u32)
}

/// Parses the rate of a flow. The text is a share of the link speed, such as `40%`, or a bit rate, such as
/// `1g`. Returns `None` for an invalid text, a share outside 0.0001 % to 100 %, and a bit rate outside 1 b/s
/// to 1.6 Tb/s.
pub fn parse_rate(text: &str) -> Option<super::plan::OfferedRate> {
    use super::plan::OfferedRate;
    if let Some(percent) = text.trim().strip_suffix('%') {
        let millionths = (percent.trim().parse::<f64>().ok()? * 1e4).round();
        return (1.0..=1e6)
            .contains(&millionths)
            .then_some(OfferedRate::LinkShare(millionths as u32));
    }
    let bps = parse_bits_per_second(text)?.round();
    (1.0..=1.6e12)
        .contains(&bps)
        .then_some(OfferedRate::WireBitsPerSecond(bps as u64))
}

/// Parses a bit rate such as `40g` into bits per second, 1000 to 10^13.
pub(crate) fn parse_bit_rate(text: &str) -> Option<u64> {
    let bps = parse_bits_per_second(text)?.round();
    (1e3..=1e13).contains(&bps).then_some(bps as u64)
}

/// Parses a size such as `64K` into bytes. Without a unit, the number is in bytes. Returns `None` for an
/// invalid text, a fraction of a byte, and a size above 9 * 10^15 bytes.
///
/// As in nccl-tests, the units K, M, G and T are powers of 1024. KiB, MiB, GiB and TiB have the same meaning.
/// KB, MB, GB and TB are powers of 1000. A lower-case `b` stands for bits and is invalid ([`explain_bits`]).
pub fn parse_bytes(text: &str) -> Option<u64> {
    if text.trim_end().ends_with('b') {
        return None;
    }
    let (number, unit) = split_number_and_unit(text)?;
    let (prefix, base) = match unit.strip_suffix('b') {
        None => (unit.as_str(), 1024.0),
        Some("") => ("", 1024.0),
        Some(prefix) => match prefix.strip_suffix('i') {
            Some(prefix) => (prefix, 1024.0),
            None => (prefix, 1000.0),
        },
    };
    let power = ["", "k", "m", "g", "t"]
        .iter()
        .position(|known| *known == prefix)?;
    let bytes = (0..power).fold(number, |bytes, _| bytes * base);
    // Above this limit, an `f64` cannot represent every whole number.
    (bytes.fract() == 0.0 && bytes <= 9e15).then_some(bytes as u64)
}

/// Parses a percentage into a fraction. For example, `40%` becomes 0.4. Valid percentages are above 0 and at
/// most 10000 %.
pub(crate) fn parse_percent(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 10_000.0).then_some(percent / 100.0)
}

/// Returns the correction for a size in bits, such as `4Mb`. `parse` parses sizes in bytes. Returns `None` for other
/// texts, and for quantities that `parse` does not accept in bytes.
pub fn explain_bits<T>(text: &str, parse: fn(&str) -> Option<T>) -> Option<String> {
    let text = text.trim();
    let stem = ["b", "bit", "bits"]
        .iter()
        .find_map(|unit| text.strip_suffix(unit))?;
    let bytes = format!("{stem}B");
    parse(&bytes)?;
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit = &text[unit_start..];
    let bits = match unit.as_bytes() {
        [_, b'i', ..] if !unit.starts_with('b') => "binary multiples of bits",
        [b'k' | b'K', ..] => "kilobits",
        [b'm' | b'M', ..] => "megabits",
        [b'g' | b'G', ..] => "gigabits",
        [b't' | b'T', ..] => "terabits",
        _ => return Some(format!("write {bytes}; {unit} are bits")),
    };
    let (number, prefix) = stem.split_at(unit_start);
    let prefix = prefix.trim_end_matches('i').to_ascii_uppercase();
    Some(format!(
        "write {number}{prefix}B or {number}{prefix}iB; {unit} are {bits}"
    ))
}

/// Parses a memory size into MiB, 16 to 1 048 576. The default unit is MiB, as in the option `-m` of QEMU.
pub(crate) fn parse_memory_mib(text: &str) -> Option<u32> {
    if text.trim_end().ends_with('b') {
        return None;
    }
    let (number, unit) = split_number_and_unit(text)?;
    let scale = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" | "m" => 1.0,
        "g" => 1024.0,
        "t" => 1024.0 * 1024.0,
        _ => return None,
    };
    let mib = number * scale;
    ((16.0..=1_048_576.0).contains(&mib) && mib.fract() == 0.0).then_some(mib as u32)
}

/// Parses a unicast MAC address of six bytes with `:` or `-` between them. Returns `None` for an invalid text,
/// for a group address and for zeros.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    xoff_wire::parse_unicast_mac(text.trim())
}

#[cfg(test)]
mod tests {
    use super::super::plan::OfferedRate;
    use super::*;

    #[test]
    fn numbers_with_a_valid_unit_are_out_of_range_and_other_texts_have_a_wrong_form() {
        for (text, is_speed, is_duration, is_size, is_load) in [
            ("-1", true, true, true, true),
            ("-1g", true, false, true, false),
            ("0g", true, false, true, false),
            ("2t", true, false, true, false),
            ("1k", true, false, true, false),
            ("10.5m", false, false, false, false),
            ("01:00:5e:00:00:01", false, false, false, false),
            ("9999999999h", false, true, false, false),
            ("-5us", false, true, false, false),
            ("20", false, false, true, false),
            ("99999999T", true, false, true, false),
            ("0%", false, false, false, true),
            ("20000%", false, false, false, true),
            ("fast", false, false, false, false),
            ("", false, false, false, false),
            ("1e400g", false, false, false, false),
            ("10 parsecs", false, false, false, false),
        ] {
            let found = (
                has_valid_form(text, parse_speed_mbps),
                has_valid_form(text, parse_duration_ns),
                has_valid_form(text, parse_bytes),
                has_valid_form(text, parse_percent),
            );
            assert_eq!(found, (is_speed, is_duration, is_size, is_load), "{text:?}");
        }
    }

    #[test]
    fn sizes_in_bits_are_explained() {
        for (text, fix) in [
            ("4Mb", Some("write 4MB or 4MiB; Mb are megabits")),
            ("64 kbit", Some("write 64 KB or 64 KiB; kbit are kilobits")),
            ("1.5gb", Some("write 1.5GB or 1.5GiB; gb are gigabits")),
            (
                "2Gib",
                Some("write 2GB or 2GiB; Gib are binary multiples of bits"),
            ),
            ("7b", Some("write 7B; b are bits")),
            ("4MB", None),
            ("xb", None),
            ("4", None),
        ] {
            assert_eq!(explain_bits(text, parse_bytes).as_deref(), fix, "{text:?}");
        }
        assert_eq!(explain_bits("4Mb", parse_speed_mbps), None);
        assert_eq!(
            explain_bits("64Mb", parse_memory_mib).as_deref(),
            Some("write 64MB or 64MiB; Mb are megabits")
        );
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ns) in [
            ("20s", Some(20_000_000_000)),
            ("1.5 ms", Some(1_500_000)),
            ("2m", Some(120_000_000_000)),
            ("10us", Some(10_000)),
            ("0", Some(0)),
            ("20", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1e3s", None),
            ("9999999999h", None),
        ] {
            assert_eq!(parse_duration_ns(text), ns, "{text:?}");
        }
        assert!(
            try_parse_duration_ns("5001h")
                .unwrap_err()
                .contains("longer than 5000h")
        );
        assert!(try_parse_duration_ns("20").unwrap_err().contains("such as 20s"));
    }

    #[test]
    fn speeds_are_whole_megabits_in_range() {
        for (text, mbps) in [
            ("10m", Some(10)),
            ("1g", Some(1000)),
            ("2.5G", Some(2500)),
            ("1.6t", Some(1_600_000)),
            ("100Mbps", Some(100)),
            ("400 Gbit/s", Some(400_000)),
            ("9m", None),
            ("1.7t", None),
            ("1000", None),
            ("10.5m", None),
            ("fast", None),
        ] {
            assert_eq!(parse_speed_mbps(text), mbps, "{text:?}");
        }
    }

    #[test]
    fn rates_are_shares_or_bits_per_second() {
        for (text, value) in [
            ("100%", Some(OfferedRate::LinkShare(1_000_000))),
            ("0.5 %", Some(OfferedRate::LinkShare(5_000))),
            ("250m", Some(OfferedRate::WireBitsPerSecond(250_000_000))),
            ("0%", None),
            ("101%", None),
            ("-4%", None),
            ("NaN%", None),
            ("0g", None),
            ("12", None),
        ] {
            assert_eq!(parse_rate(text), value, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024_unless_they_end_in_b() {
        for (text, value) in [
            ("4096", Some(4096)),
            ("0", Some(0)),
            ("64K", Some(65_536)),
            ("1.5M", Some(1_572_864)),
            ("2 GiB", Some(1 << 31)),
            ("64kB", Some(64_000)),
            ("7B", Some(7)),
            ("1.5", None),
            ("1x", None),
            ("-1", None),
            ("1e30", None),
            ("10000T", None),
            ("i", None),
            ("4Mb", None),
            ("4mib", None),
            ("7b", None),
        ] {
            assert_eq!(parse_bytes(text), value, "{text:?}");
        }
        assert_eq!(
            (parse_memory_mib("64MB"), parse_memory_mib("64Mb")),
            (Some(64), None)
        );
        assert_eq!(
            (parse_percent("40%"), parse_percent("0%"), parse_percent("0.4")),
            (Some(0.4), None, None)
        );
        assert_eq!(
            (parse_bit_rate("40g"), parse_bit_rate("40"), parse_bit_rate("20t")),
            (Some(40_000_000_000), None, None)
        );
    }
}
