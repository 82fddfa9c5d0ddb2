//! MAC addresses as text.

use core::fmt;

/// Parses a unicast MAC address, such as `02:00:00:00:00:01`. The address has six bytes of one or two
/// hexadecimal digits, separated by `:` or `-`. Returns `None` for other texts, for group addresses and for
/// the address 0.
pub fn parse_unicast_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let digits = parts.next()?;
        let is_hex = digits.len() <= 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    }
    let is_unicast = mac[0] & 1 == 0 && mac != [0; 6];
    (is_unicast && parts.next().is_none()).then_some(mac)
}

/// Displays a MAC address as six bytes of two hexadecimal digits with `:` between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayMac(pub [u8; 6]);

impl fmt::Display for DisplayMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_unicast() {
        assert_eq!(parse_unicast_mac("02:00:0a:ff:00:1"), Some([2, 0, 10, 255, 0, 1]));
        assert_eq!(parse_unicast_mac("02-00-00-00-00-01"), Some([2, 0, 0, 0, 0, 1]));
        for bad in [
            "01:00:00:00:00:01",
            "00:00:00:00:00:00",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:",
            "x",
            "+2:0:0:0:0:1",
        ] {
            assert_eq!(parse_unicast_mac(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_displayed_address_is_parsed_to_the_same_bytes() {
        let mac = [2, 0, 10, 255, 0, 1];
        let text = DisplayMac(mac).to_string();
        assert_eq!(
            (text.as_str(), parse_unicast_mac(&text)),
            ("02:00:0a:ff:00:01", Some(mac))
        );
    }
}
