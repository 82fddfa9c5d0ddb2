//! Parsers of the values of `xoff pfc`.

use std::str::FromStr;

/// Largest rate in frames per second.
const RATE_MAX: f64 = 100e6;

/// The value of `--class`: a set of classes. Bit *n* is class *n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassSet(pub u8);

impl FromStr for ClassSet {
    type Err = String;

    fn from_str(text: &str) -> Result<ClassSet, String> {
        if text == "all" {
            return Ok(ClassSet(u8::MAX));
        }
        let wrong = || format!("'{text}' is no set of classes; write 3, 3,4, 0-7 or all");
        let class = |digits: &str| match digits.as_bytes() {
            [digit @ b'0'..=b'7'] => Ok(digit - b'0'),
            _ => Err(wrong()),
        };
        let mut set = 0;
        for entry in text.split(',') {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            let range = class(first)?..=class(last)?;
            if range.is_empty() {
                return Err(wrong());
            }
            set |= range.fold(0, |set, class| set | 1 << class);
        }
        Ok(ClassSet(set))
    }
}

/// The value of `--quanta`: pause times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantaArgument {
    /// The same pause time for all enabled classes.
    Same(u16),
    /// The pause times of single classes. `None`: no pause time is given for the class.
    EachClass([Option<u16>; 8]),
}

impl FromStr for QuantaArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<QuantaArgument, String> {
        if !text.contains('=') {
            return parse_u16(text).map(QuantaArgument::Same);
        }
        let mut quanta = [None; 8];
        for entry in text.split(',') {
            let form =
                || format!("'{entry}' is no pause time of a class; write CLASS=QUANTA, such as 3=65535");
            let (class, value) = entry.split_once('=').ok_or_else(form)?;
            let class = class.parse::<usize>().map_err(|_| form())?;
            let slot = quanta
                .get_mut(class)
                .ok_or_else(|| format!("class {class} does not exist; classes are 0 to 7"))?;
            if slot.replace(parse_u16(value)?).is_some() {
                return Err(format!("class {class} is given twice"));
            }
        }
        Ok(QuantaArgument::EachClass(quanta))
    }
}

/// Parses a number of 16 bits, decimal or with `0x`.
pub(super) fn parse_u16(text: &str) -> Result<u16, String> {
    parse_number(text)
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| {
            format!("'{text}' is not a number from 0 to 65535, decimal or hexadecimal such as 0x0101")
        })
}

/// Parses a number of eight bits, decimal or with `0x`.
pub(super) fn parse_u8(text: &str) -> Result<u8, String> {
    parse_number(text)
        .and_then(|number| u8::try_from(number).ok())
        .ok_or_else(|| format!("'{text}' is not a number from 0 to 255, decimal or hexadecimal such as 0xff"))
}

fn parse_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number)
}

/// Parses a MAC address, which may be a group address.
pub(super) fn parse_any_mac(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("'{text}' is no MAC address such as 01:80:c2:00:00:01");
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    let bytes: [&str; 6] = bytes.try_into().map_err(|_| wrong())?;
    let mut mac = [0; 6];
    for (byte, digits) in mac.iter_mut().zip(bytes) {
        let is_hex = (1..=2).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = u8::from_str_radix(digits, 16)
            .ok()
            .filter(|_| is_hex)
            .ok_or_else(wrong)?;
    }
    Ok(mac)
}

/// The bytes of `--parameters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterBytes(pub Vec<u8>);

impl FromStr for ParameterBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<ParameterBytes, String> {
        let bytes = xoff_wire::parse_hex_bytes(text);
        bytes.map(ParameterBytes).ok_or_else(|| {
            format!("'{text}' is no sequence of bytes; write two hexadecimal digits for each byte, such as 0008ffff")
        })
    }
}

/// Parses a number of frames per second.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'm') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let is_decimal = digits
        .bytes()
        .all(|digit| digit.is_ascii_digit() || digit == b'.');
    let rate = digits
        .parse::<f64>()
        .ok()
        .filter(|_| is_decimal)
        .map(|rate| rate * factor);
    rate.filter(|rate| *rate >= 0.001 && *rate <= RATE_MAX)
        .ok_or_else(|| {
            format!("'{text}' is no rate in frames per second; write 0.001 to 100m, such as 30 or 1k")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_classes_are_parsed() {
        for (text, set) in [
            ("3", 8),
            ("3,4", 0x18),
            ("0-7", 0xff),
            ("all", 0xff),
            ("0,2-3,3", 0x0d),
        ] {
            assert_eq!(text.parse(), Ok(ClassSet(set)), "{text}");
        }
        for wrong in ["", "8", "3,", "4-3", "-1", "x", "3-", "03"] {
            assert!(wrong.parse::<ClassSet>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pause_times_are_parsed() {
        assert_eq!("65535".parse(), Ok(QuantaArgument::Same(65_535)));
        assert_eq!("0x10".parse(), Ok(QuantaArgument::Same(16)));
        let each = QuantaArgument::EachClass([None, None, None, Some(9), Some(255), None, None, None]);
        assert_eq!("3=9,4=0xff".parse(), Ok(each));
        for wrong in ["", "65536", "-1", "3=", "8=1", "3=1,3=2", "x=1", "3=1,4", "0x"] {
            assert!(wrong.parse::<QuantaArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_rates_and_bytes_are_parsed() {
        assert_eq!(parse_any_mac("01:80:c2:0:00:01"), Ok([1, 0x80, 0xc2, 0, 0, 1]));
        for wrong in [
            "01:80:c2:00:00",
            "01:80:c2:00:00:01:02",
            "01:80:c2:00:00:",
            "+1:0:0:0:0:0",
        ] {
            assert!(parse_any_mac(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (parse_rate("30"), parse_rate("1.5k"), parse_rate("2m")),
            (Ok(30.0), Ok(1_500.0), Ok(2e6))
        );
        for wrong in ["", "0", "-1", "1e9", "k", "1000m", "nan", "inf"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!("0008 ffff".parse(), Ok(ParameterBytes(vec![0, 8, 0xff, 0xff])));
        assert!("0".parse::<ParameterBytes>().is_err());
        assert_eq!((parse_u8("0xee"), parse_u8("256").is_err()), (Ok(0xee), true));
    }
}
