//! Checks and parsers of field values.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ValueKind;
use crate::balancing::{BUILT_IN_SCHEMES, built_in_scheme};

impl ValueKind {
    /// Checks a value. The error contains the expected values.
    pub(crate) fn check_value(&self, value: &str) -> Result<(), String> {
        let fits = match *self {
            ValueKind::Number { min, max, .. } => {
                parse_number(value).is_some_and(|number| (min..=max).contains(&number))
            }
            ValueKind::NumberOr(max, word) => {
                value == word || parse_number(value).is_some_and(|number| (0..=max).contains(&number))
            }
            ValueKind::Choice(words) => words.contains(&value),
            ValueKind::Text(longest) => {
                value.chars().count() <= longest && !value.chars().any(char::is_control)
            }
            ValueKind::Mac => parse_mac(value).is_some(),
            ValueKind::Reference(_) => is_object_name(value),
            ValueKind::ReferenceOrNull(_) => value == "NULL" || is_object_name(value),
            ValueKind::Priorities => parse_priorities(value).is_some(),
            ValueKind::Address => is_ip_address(value),
            ValueKind::Interface => is_object_name(value),
            ValueKind::Vrf => is_vrf_name(value),
            ValueKind::Each(kind) => {
                split_list(value).all(|item| item.is_empty() || kind.check_value(item).is_ok())
            }
            ValueKind::Words(words) => split_list(value).all(|item| words.contains(&item)),
            ValueKind::References(_) => {
                split_list(value).all(is_object_name) && split_list(value).next().is_some()
            }
            ValueKind::Ports => split_list(value).all(is_object_name),
            ValueKind::Scheme => is_object_name(value),
            ValueKind::BuiltInScheme => built_in_scheme(value).is_some(),
            ValueKind::Tpid => parse_tpid(value).is_some(),
            ValueKind::Cable => parse_cable(value).is_some(),
            ValueKind::Any => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("expected {}", self.describe()))
        }
    }

    /// Describes the accepted values for messages and documents.
    pub(super) fn describe(&self) -> String {
        match *self {
            ValueKind::Number { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            ValueKind::Number { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
            ValueKind::NumberOr(max, word) => format!("a whole number from 0 to {max}, or {word}"),
            ValueKind::Choice(words) => match words {
                [last] => last.to_string(),
                [first @ .., last] => format!("{} or {last}", first.join(", ")),
                [] => "nothing".to_owned(),
            },
            ValueKind::Text(longest) => format!("at most {longest} printable characters"),
            ValueKind::Mac => "a unicast MAC address such as 02:00:00:00:10:01".to_owned(),
            ValueKind::Reference(table) => format!("the name of an entry of {table}"),
            ValueKind::ReferenceOrNull(table) => format!("the name of an entry of {table}, or NULL"),
            ValueKind::Priorities => {
                "priorities from 0 to 7 separated by commas, or \"\" for none".to_owned()
            }
            ValueKind::Address => "an IP address such as 10.0.0.1 or 2001:db8::1".to_owned(),
            ValueKind::Interface => "an interface such as Ethernet0 or Vlan10".to_owned(),
            ValueKind::Vrf => "default, mgmt or a name that begins with Vrf".to_owned(),
            ValueKind::Each(kind) => format!("{}; several separated by commas", kind.describe()),
            ValueKind::Words(words) => format!("a list of {}", words.join(", ")),
            ValueKind::References(table) => format!("a list of names of entries of {table}"),
            ValueKind::Ports => "names of ports separated by commas".to_owned(),
            ValueKind::Scheme => format!(
                "{}, or the name of an entry of XOFF_LB_SCHEME",
                built_in_scheme_names()
            ),
            ValueKind::BuiltInScheme => built_in_scheme_names(),
            ValueKind::Tpid => "an EtherType in hexadecimal digits such as 0x8100".to_owned(),
            ValueKind::Cable => "a length in whole metres such as 5m".to_owned(),
            ValueKind::Any => "anything".to_owned(),
        }
    }
}

/// Returns the names of all built-in load-balancing schemes, separated by commas.
fn built_in_scheme_names() -> String {
    let names: Vec<&str> = BUILT_IN_SCHEMES.iter().map(|scheme| scheme.name).collect();
    names.join(", ")
}

/// Splits a list in one string at its commas, and removes blanks around the items. An empty string is an
/// empty list.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|_| !text.trim().is_empty())
}

pub(super) fn is_ip_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Parses an address and its prefix length, such as `10.0.0.1/31`. An address without a length has the prefix
/// length /32 or /128, as in SONiC's `IpPrefix`. Returns `None` if the text is not valid.
pub(crate) fn parse_prefix(text: &str) -> Option<IpNet> {
    // `IpNet` accepts the prefix length 010 as 10, but other programs read it as 8.
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    let plain = length == "0" || !length.starts_with(['0', '+']);
    IpNet::new(address.parse().ok()?, length.parse().ok().filter(|_| plain)?).ok()
}

/// Returns whether the text is `prefix` followed by digits, as in the patterns of the YANG models. `digits`
/// is the range for the number of digits.
fn is_numbered_name(text: &str, prefix: &str, digits: std::ops::RangeInclusive<usize>) -> bool {
    let is_number = |rest: &str| digits.contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_digit());
    text.strip_prefix(prefix).is_some_and(is_number)
}

/// Returns whether the text is `PortChannel` and one to four digits.
pub(super) fn is_lag_name(text: &str) -> bool {
    is_numbered_name(text, "PortChannel", 1..=4)
}

/// Returns whether the text is `Loopback` and one to three digits.
pub(super) fn is_loopback_name(text: &str) -> bool {
    is_numbered_name(text, "Loopback", 1..=3)
}

/// Returns whether the name is reserved for LAGs, loopback interfaces or VLANs. A port cannot have such
/// a name.
pub(crate) fn is_reserved_interface_name(port: &str) -> bool {
    is_lag_name(port) || is_loopback_name(port) || parse_vlan_id(port).is_some()
}

/// Returns whether the text is `default`, `mgmt` or a name that begins with `Vrf`.
pub(super) fn is_vrf_name(text: &str) -> bool {
    let named = text.strip_prefix("Vrf").is_some_and(|rest| !rest.is_empty());
    matches!(text, "default" | "mgmt") || (named && is_object_name(text))
}

/// Parses a decimal number with an optional minus sign. Returns `None` for texts with blanks, a plus sign, a
/// fraction, or more than 25 digits.
pub(crate) fn parse_number(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A number of 25 digits is above every limit of the schema and fits into 128 bits.
    if digits.is_empty() || digits.len() > 25 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Parses a unicast MAC address: six bytes of two hexadecimal digits, separated by colons or dashes. Returns
/// `None` for an invalid text, a group address or the address 0.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    const LEN: usize = "02:00:00:00:00:01".len();
    xoff_wire::parse_unicast_mac(text).filter(|_| text.len() == LEN)
}

/// Parses a list of priorities such as `3,4` into a bit mask, in which bit n stands for priority n. An empty
/// text gives 0. Returns `None` if an item is not a number from 0 to 7.
pub(crate) fn parse_priorities(text: &str) -> Option<u8> {
    if text.is_empty() {
        return Some(0);
    }
    text.split(',')
        .try_fold(0, |mask, digit| match digit.trim().as_bytes() {
            [n @ b'0'..=b'7'] => Some(mask | 1 << (n - b'0')),
            _ => None,
        })
}

/// Parses a TPID such as `0x88a8`: `0x` and one to four hexadecimal digits. All values are accepted, as
/// in orchagent.
pub(crate) fn parse_tpid(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x")?;
    let is_hex = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// Parses a cable length such as `40m` into metres. Returns `None` for an invalid text or more than 2^32 -
/// 1 metres.
pub(crate) fn parse_cable(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('m')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let metres = digits.parse().ok().filter(|_| plain)?;
    (metres <= u64::from(u32::MAX)).then_some(metres)
}

/// Parses a number from 0 to 7, or a range such as `3-4`. Returns the first and the last number.
pub(crate) fn parse_number_range(text: &str) -> Option<(u8, u8)> {
    match text.as_bytes() {
        [n @ b'0'..=b'7'] => Some((n - b'0', n - b'0')),
        [a @ b'0'..=b'7', b'-', b @ b'0'..=b'7'] if a <= b => Some((a - b'0', b - b'0')),
        _ => None,
    }
}

/// Parses a queue from 0 to 15, or a range such as `0-9`, as in SONiC's models. Returns the first and the
/// last queue.
pub(crate) fn parse_queue_range(text: &str) -> Option<(u8, u8)> {
    let queue = |text: &str| {
        let is_plain = text == "0" || !text.starts_with('0');
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n: &u8| is_plain && digits && *n <= 15)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (queue(first)?, queue(last)?);
    (first <= last).then_some((first, last))
}

/// Parses the name of a VLAN, `Vlan2` to `Vlan4094`. Returns the number of the VLAN.
pub(crate) fn parse_vlan_id(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("Vlan")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|id| plain && (2..=4094).contains(id))
}

/// Returns whether the text can be the name of an object: 1 to 128 letters, digits and some punctuation
/// characters. Commas, bars, brackets and quotes are not allowed, because these characters separate or
/// enclose names in lists and keys.
pub(crate) fn is_object_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@#+~%&=*".contains(c);
    (1..=128).contains(&text.len()) && text.chars().all(allowed)
}

/// Splits a reference in old files, such as `[BUFFER_POOL|x]`, into the table and the name. Returns `None` if
/// the text does not have this form.
pub(crate) fn parse_old_reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.strip_suffix(']')?.split_once('|')
}
