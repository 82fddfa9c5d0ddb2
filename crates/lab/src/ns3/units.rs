//! Times and rates as ns-3 writes and understands them.

use xoff_units::ns3_nanos;

/// A duration such as `0.001ms`, in nanoseconds, cut off. Seconds without a unit (ns-3, `Time::Time`).
pub(super) fn duration_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 5] = [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("", 1_000_000_000),
    ];
    let (number, unit) = number_and_unit(text)?;
    if unit == "ps" {
        return ns3_nanos(number / 1_000.0, 1);
    }
    let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    ns3_nanos(number, *unit_ns)
}

/// A rate such as `100Gbps` or `20Mb/s`, in bits per second, cut off. Bits per second without a unit (ns-3, `DataRate::DoParse`).
pub(super) fn rate_bps(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "" => 1.0,
        unit => unit_factor(unit)?,
    };
    let bps = number * factor;
    (0.0..1e15).contains(&bps).then_some(bps as u64)
}

fn unit_factor(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s"))?;
    let (prefix, bits) = match unit.strip_suffix('b') {
        Some(prefix) => (prefix, 1.0),
        None => (unit.strip_suffix('B')?, 8.0),
    };
    let factor = match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return None,
    };
    Some(factor * bits)
}

fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_have_units() {
        assert_eq!(duration_ns("0.001ms"), Some(1_000));
        assert_eq!(duration_ns("1us"), Some(1_000));
        assert_eq!(duration_ns("250ns"), Some(250));
        assert_eq!(duration_ns("1.5s"), Some(1_500_000_000));
        assert_eq!(duration_ns("2"), Some(2_000_000_000), "seconds");
        assert_eq!(duration_ns("1500ps"), Some(1));
        for text in ["", "ms", "1m", "-1ms", "1 ms", "1e3ns"] {
            assert_eq!(duration_ns(text), None, "{text}");
        }
        assert_eq!(rate_bps("100Gbps"), Some(100_000_000_000));
        assert_eq!(rate_bps("20Mb/s"), Some(20_000_000));
        assert_eq!(rate_bps("2.5GBps"), Some(20_000_000_000));
        assert_eq!(rate_bps("7bps"), Some(7));
        assert_eq!(rate_bps("100"), Some(100), "bits per second");
        assert_eq!(rate_bps("1KiB/s"), Some(8_192));
        for text in ["", "Gbps", "1Xbps", "1G", "1Gb", "9999999Gbps"] {
            assert_eq!(rate_bps(text), None, "{text}");
        }
    }
}
