//! Whether a value is what its field may hold.

use super::Kind;

impl Kind {
    /// `Err` says what the value should have been.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        let fits = match *self {
            Kind::Number { min, max, .. } => {
                parse_number(value).is_some_and(|number| (min..=max).contains(&number))
            }
            Kind::Choice(words) => words.contains(&value),
            Kind::Text(longest) => value.chars().count() <= longest && !value.chars().any(char::is_control),
            Kind::Mac => parse_mac(value).is_some(),
            Kind::Reference(_) => is_object_name(value),
            Kind::ReferenceOrNull(_) => value == "NULL" || is_object_name(value),
            Kind::Priorities => parse_priorities(value).is_some(),
            Kind::Any => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("expected {}", self.expected()))
        }
    }

    fn expected(&self) -> String {
        match *self {
            Kind::Number { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            Kind::Number { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
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
            Kind::Any => "anything".to_owned(),
        }
    }
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

/// `3` or `3-4`, within 0 to 7, as first and last.
pub(crate) fn parse_numbers(text: &str) -> Option<(u8, u8)> {
    match text.as_bytes() {
        [n @ b'0'..=b'7'] => Some((n - b'0', n - b'0')),
        [a @ b'0'..=b'7', b'-', b @ b'0'..=b'7'] if a <= b => Some((a - b'0', b - b'0')),
        _ => None,
    }
}

/// `Vlan2` to `Vlan4094`, as the number.
pub(crate) fn parse_vlan(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("Vlan")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|id| plain && (2..=4094).contains(id))
}

/// Port, map, pool and profile names: 1 to 128 letters, digits and `. _ - / :`.
pub(crate) fn is_object_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    (1..=128).contains(&text.len()) && text.chars().all(allowed)
}

/// `[BUFFER_POOL|x]`, the form of references in old files, as table and name.
pub(crate) fn old_reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.strip_suffix(']')?.split_once('|')
}
