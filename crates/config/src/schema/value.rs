//! Whether a value is what its field may hold.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Kind;
use crate::balancing::{SCHEMES, built_in};

impl Kind {
    /// `Err` says what the value should have been.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        let fits = match *self {
            Kind::Number { min, max, .. } => {
                parse_number(value).is_some_and(|number| (min..=max).contains(&number))
            }
            Kind::NumberOr(max, word) => {
                value == word || parse_number(value).is_some_and(|number| (0..=max).contains(&number))
            }
            Kind::Choice(words) => words.contains(&value),
            Kind::Text(longest) => value.chars().count() <= longest && !value.chars().any(char::is_control),
            Kind::Mac => parse_mac(value).is_some(),
            Kind::Reference(_) => is_object_name(value),
            Kind::ReferenceOrNull(_) => value == "NULL" || is_object_name(value),
            Kind::Priorities => parse_priorities(value).is_some(),
            Kind::Address => is_address(value),
            Kind::Interface => is_object_name(value),
            Kind::Vrf => is_vrf(value),
            Kind::Each(kind) => items(value).all(|item| item.is_empty() || kind.check(item).is_ok()),
            Kind::Words(words) => items(value).all(|item| words.contains(&item)),
            Kind::References(_) => items(value).all(is_object_name) && items(value).next().is_some(),
            Kind::Ports => items(value).all(is_object_name),
            Kind::Scheme => is_object_name(value),
            Kind::BuiltInScheme => built_in(value).is_some(),
            Kind::Tpid => parse_tpid(value).is_some(),
            Kind::Cable => parse_cable(value).is_some(),
            Kind::Any => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("expected {}", self.expected()))
        }
    }

    pub(super) fn expected(&self) -> String {
        match *self {
            Kind::Number { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            Kind::Number { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
            Kind::NumberOr(max, word) => format!("a whole number from 0 to {max}, or {word}"),
            Kind::Choice(words) => match words {
                [last] => last.to_string(),
                [first @ .., last] => format!("{} or {last}", first.join(", ")),
                [] => "nothing".to_owned(),
            },
            Kind::Text(longest) => format!("at most {longest} printable characters"),
            Kind::Mac => "a unicast MAC address such as 02:00:00:00:10:01".to_owned(),
            Kind::Reference(table) => format!("the name of an entry of {table}"),
            Kind::ReferenceOrNull(table) => format!("the name of an entry of {table}, or NULL"),
            Kind::Priorities => "priorities from 0 to 7 separated by commas, or \"\" for none".to_owned(),
            Kind::Address => "an IP address such as 10.0.0.1 or 2001:db8::1".to_owned(),
            Kind::Interface => "an interface such as Ethernet0 or Vlan10".to_owned(),
            Kind::Vrf => "default, mgmt or a name that begins with Vrf".to_owned(),
            Kind::Each(kind) => format!("{}; several separated by commas", kind.expected()),
            Kind::Words(words) => format!("a list of {}", words.join(", ")),
            Kind::References(table) => format!("a list of names of entries of {table}"),
            Kind::Ports => "names of ports separated by commas".to_owned(),
            Kind::Scheme => format!("{}, or the name of an entry of XOFF_LB_SCHEME", built_in_names()),
            Kind::BuiltInScheme => built_in_names(),
            Kind::Tpid => "an EtherType in hexadecimal digits such as 0x8100".to_owned(),
            Kind::Cable => "a length in whole metres such as 5m".to_owned(),
            Kind::Any => "anything".to_owned(),
        }
    }
}

fn built_in_names() -> String {
    let names: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
    names.join(", ")
}

/// The items of a list in one string; an empty string is an empty list.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|_| !text.trim().is_empty())
}

pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// `10.0.0.1/31`: an address of a network, with the network's length. An address alone is that of a host, /32 or /128, as
/// SONiC's `IpPrefix` reads it.
pub(crate) fn parse_prefix(text: &str) -> Option<IpNet> {
    // Not by `IpNet` itself: it takes 010 for 10, where others take it for 8.
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    let plain = length == "0" || !length.starts_with(['0', '+']);
    IpNet::new(address.parse().ok()?, length.parse().ok().filter(|_| plain)?).ok()
}

/// The YANG model's pattern: a prefix, then this many digits.
fn is_numbered(text: &str, prefix: &str, digits: std::ops::RangeInclusive<usize>) -> bool {
    let is_number = |rest: &str| digits.contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_digit());
    text.strip_prefix(prefix).is_some_and(is_number)
}

pub(super) fn is_lag(text: &str) -> bool {
    is_numbered(text, "PortChannel", 1..=4)
}

pub(super) fn is_loopback(text: &str) -> bool {
    is_numbered(text, "Loopback", 1..=3)
}

/// Whether a name means something that is not a port, wherever it stands.
pub(crate) fn is_reserved_for_others(port: &str) -> bool {
    is_lag(port) || is_loopback(port) || parse_vlan(port).is_some()
}

pub(super) fn is_vrf(text: &str) -> bool {
    let named = text.strip_prefix("Vrf").is_some_and(|rest| !rest.is_empty());
    matches!(text, "default" | "mgmt") || (named && is_object_name(text))
}

/// A decimal number without sign, blanks or fraction, except for a leading minus.
pub(crate) fn parse_number(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // 25 digits exceed every range of the schema and cannot overflow.
    if digits.is_empty() || digits.len() > 25 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Six octets in hexadecimal, separated by colons or dashes; neither a group address nor all zero.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut octets = text.split([':', '-']);
    for octet in &mut mac {
        let digits = octets.next()?;
        if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u8::from_str_radix(digits, 16).ok()?;
    }
    let unicast = mac[0] & 1 == 0 && mac != [0; 6];
    (unicast && octets.next().is_none()).then_some(mac)
}

/// `"3,4"` as a bit mask; empty is none.
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

/// `0x88a8`, of any value, as orchagent reads it.
pub(crate) fn parse_tpid(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x")?;
    let is_hex = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// `40m`, as metres. Nothing on Earth is as long as the limit of 32 bits.
pub(crate) fn parse_cable(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('m')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let metres = digits.parse().ok().filter(|_| plain)?;
    (metres <= u64::from(u32::MAX)).then_some(metres)
}

/// `3` or `3-4`, within 0 to 7, as first and last.
pub(crate) fn parse_numbers(text: &str) -> Option<(u8, u8)> {
    match text.as_bytes() {
        [n @ b'0'..=b'7'] => Some((n - b'0', n - b'0')),
        [a @ b'0'..=b'7', b'-', b @ b'0'..=b'7'] if a <= b => Some((a - b'0', b - b'0')),
        _ => None,
    }
}

/// `8` or `0-9`, within 0 to 15, as first and last: the queues of SONiC's models.
pub(crate) fn parse_queues(text: &str) -> Option<(u8, u8)> {
    let queue = |text: &str| {
        let is_plain = text == "0" || !text.starts_with('0');
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n: &u8| is_plain && digits && *n <= 15)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (queue(first)?, queue(last)?);
    (first <= last).then_some((first, last))
}

/// `Vlan2` to `Vlan4094`, as the number.
pub(crate) fn parse_vlan(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("Vlan")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|id| plain && (2..=4094).contains(id))
}

/// Names of ports, maps, pools, profiles and schedulers: 1 to 128 printable characters other than those that separate
/// names (`,`, `|`, brackets, quotes).
pub(crate) fn is_object_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@#+~%&=*".contains(c);
    (1..=128).contains(&text.len()) && text.chars().all(allowed)
}

/// `[BUFFER_POOL|x]`, the form of references in old files, as table and name.
pub(crate) fn old_reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.strip_suffix(']')?.split_once('|')
}
