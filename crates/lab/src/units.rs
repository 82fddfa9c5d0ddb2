//! Quantities as people write them in a lab file.

/// What a quantity may look like, for messages.
pub const DURATION: &str = "a duration such as 20s, 500ms, 10us or 2m";
/// The same of a speed.
pub const SPEED: &str = "a speed from 10m to 1.6t, such as 100m, 1g, 25g or 400g";
/// The same of a rate.
pub const RATE: &str =
    "a share of the link from above 0 to 100 %, such as 40%, or bits per second, such as 250m or 1g";
/// The same of a hardware address.
pub const MAC: &str = "a unicast address of six bytes, such as 02:00:00:00:00:01";
/// The same of a guest's memory.
pub(crate) const MEMORY: &str = "an amount of memory from 16M to 1T, such as 384M or 2G";
/// The same of an amount of data.
pub const BYTES: &str = "a number of bytes such as 4096, 64K or 64M (powers of 1024), or 64MB (of 1000)";
/// The same of a rate that is no share of a link.
pub(crate) const BIT_RATE: &str = "bits per second from 1k to 10t, such as 250m or 40g";

/// Splits `20.5ms` into the number and its unit, in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// Model time is 64 bits of picoseconds; this is 5000 hours.
const DURATION_MAX_NS: f64 = 1.8e16;

/// Nanoseconds of a duration. A number needs its unit, except for zero.
pub fn duration_ns(text: &str) -> Option<u64> {
    duration(text).ok()
}

/// The same, or what is wrong with it.
pub fn duration(text: &str) -> Result<u64, String> {
    let ns = nanoseconds(text).ok_or_else(|| format!("write {DURATION}"))?;
    if ns > DURATION_MAX_NS {
        return Err("that is longer than 5000h, which is as far as time is counted".to_owned());
    }
    Ok(ns as u64)
}

fn nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = number_and_unit(text)?;
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

/// Bytes in hexadecimal digits; blanks, colons, dashes and underscores may stand between them.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
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

fn bits_per_second(text: &str) -> Option<f64> {
    let (number, unit) = number_and_unit(text)?;
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

/// Mb/s of a link speed, 10 to 1 600 000.
pub fn speed_mbps(text: &str) -> Option<u32> {
    let mbps = bits_per_second(text)? / 1e6;
    ((10.0..=1_600_000.0).contains(&mbps) && mbps.fract() == 0.0).then_some(mbps as u32)
}

/// A flow's rate.
pub fn rate(text: &str) -> Option<super::plan::RatePlan> {
    use super::plan::RatePlan;
    if let Some(percent) = text.trim().strip_suffix('%') {
        let millionths = (percent.trim().parse::<f64>().ok()? * 1e4).round();
        return (1.0..=1e6)
            .contains(&millionths)
            .then_some(RatePlan::LinkShare(millionths as u32));
    }
    let bps = bits_per_second(text)?.round();
    (1.0..=1.6e12)
        .contains(&bps)
        .then_some(RatePlan::WireBitsPerSecond(bps as u64))
}

/// Bits per second, 1000 to 10^13.
pub(crate) fn bit_rate(text: &str) -> Option<u64> {
    let bps = bits_per_second(text)?.round();
    (1e3..=1e13).contains(&bps).then_some(bps as u64)
}

/// Bytes: K, M, G and T are powers of 1024 as in nccl-tests, with B behind them of 1000, with iB of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
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
    // Beyond this a double has no whole bytes.
    (bytes.fract() == 0.0 && bytes <= 9e15).then_some(bytes as u64)
}

/// A share as a fraction: 40% is 0.4. More than 100 % is possible.
pub(crate) fn percent(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 10_000.0).then_some(percent / 100.0)
}

/// Memory in MiB, which is the unit where there is none, as for QEMU's `-m`.
pub(crate) fn memory_mib(text: &str) -> Option<u32> {
    let (number, unit) = number_and_unit(text)?;
    let scale = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" | "m" => 1.0,
        "g" => 1024.0,
        "t" => 1024.0 * 1024.0,
        _ => return None,
    };
    let mib = number * scale;
    ((16.0..=1_048_576.0).contains(&mib) && mib.fract() == 0.0).then_some(mib as u32)
}

/// A unicast hardware address.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.trim().split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next()?;
        let hex = part.len() <= 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| hex)?;
    }
    (parts.next().is_none() && bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::plan::RatePlan;
    use super::*;

    #[test]
    fn durations_need_their_unit() {
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
            assert_eq!(duration_ns(text), ns, "{text:?}");
        }
        assert!(duration("5001h").unwrap_err().contains("longer than 5000h"));
        assert!(duration("20").unwrap_err().contains("such as 20s"));
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
            assert_eq!(speed_mbps(text), mbps, "{text:?}");
        }
    }

    #[test]
    fn rates_are_shares_or_bits_per_second() {
        for (text, value) in [
            ("100%", Some(RatePlan::LinkShare(1_000_000))),
            ("0.5 %", Some(RatePlan::LinkShare(5_000))),
            ("250m", Some(RatePlan::WireBitsPerSecond(250_000_000))),
            ("0%", None),
            ("101%", None),
            ("-4%", None),
            ("NaN%", None),
            ("0g", None),
            ("12", None),
        ] {
            assert_eq!(rate(text), value, "{text:?}");
        }
    }

    #[test]
    fn amounts_of_data_are_binary_unless_they_end_in_b() {
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
        ] {
            assert_eq!(bytes(text), value, "{text:?}");
        }
        assert_eq!(
            (percent("40%"), percent("0%"), percent("0.4")),
            (Some(0.4), None, None)
        );
        assert_eq!(
            (bit_rate("40g"), bit_rate("40"), bit_rate("20t")),
            (Some(40_000_000_000), None, None)
        );
    }

    #[test]
    fn hardware_addresses_are_unicast() {
        assert_eq!(mac("02:00:0a:ff:00:1"), Some([2, 0, 10, 255, 0, 1]));
        assert_eq!(mac("02-00-00-00-00-01"), Some([2, 0, 0, 0, 0, 1]));
        for bad in [
            "01:00:00:00:00:01",
            "00:00:00:00:00:00",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "x",
            "+2:0:0:0:0:1",
        ] {
            assert_eq!(mac(bad), None, "{bad:?}");
        }
    }
}
