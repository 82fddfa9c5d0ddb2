//! Natural order of names with numbers: `Ethernet2` precedes `Ethernet10`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

/// Compares two names in natural order: `Ethernet2` precedes `Ethernet10`. Sequences of digits are compared
/// as numbers, and characters that are not digits by their code points. Two different names never compare
/// as equal.
pub fn compare_naturally(a: &str, b: &str) -> Ordering {
    // The order of UTF-8 bytes is the order of code points.
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        let common = x.iter().zip(y).take_while(|(p, q)| p == q).count();
        let start = common
            - x[..common]
                .iter()
                .rev()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
        let (nx, ny) = (leading_digits(&x[start..]), leading_digits(&y[start..]));
        if nx.is_empty() || ny.is_empty() {
            return match (x.get(common), y.get(common)) {
                (Some(p), Some(q)) => p.cmp(q),
                // "a01" and "a1" have the same number but are different names.
                _ => x.len().cmp(&y.len()).then_with(|| a.cmp(b)),
            };
        }
        let order = compare_numbers(nx, ny);
        if order != Ordering::Equal {
            return order;
        }
        (x, y) = (&x[start + nx.len()..], &y[start + ny.len()..]);
    }
}

/// Returns the digits at the start of a text.
fn leading_digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

/// Compares two numbers of any length by value.
fn compare_numbers(a: &[u8], b: &[u8]) -> Ordering {
    let without_zeros = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
    let (a, b) = (&a[without_zeros(a)..], &b[without_zeros(b)..]);
    // After leading zeros are removed, the longer run of digits is the larger number.
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// A name in natural order. Maps with [`NaturalSortKey`] as keys find an entry by `&str as &dyn NaturalName`
/// without a copy of the text.
pub(crate) trait NaturalName {
    fn text(&self) -> &str;
}

impl NaturalName for &str {
    fn text(&self) -> &str {
        self
    }
}

impl NaturalName for NaturalSortKey {
    fn text(&self) -> &str {
        &self.0
    }
}

impl PartialEq for dyn NaturalName + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for dyn NaturalName + '_ {}

impl PartialOrd for dyn NaturalName + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn NaturalName + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_naturally(self.text(), other.text())
    }
}

impl<'a> Borrow<dyn NaturalName + 'a> for NaturalSortKey {
    fn borrow(&self) -> &(dyn NaturalName + 'a) {
        self
    }
}

/// The name of a table, a key or a field. Maps of these names iterate in natural order.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct NaturalSortKey(String);

impl NaturalSortKey {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NaturalSortKey {
    fn from(text: &str) -> NaturalSortKey {
        NaturalSortKey(text.to_owned())
    }
}

impl fmt::Debug for NaturalSortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Ord for NaturalSortKey {
    fn cmp(&self, other: &NaturalSortKey) -> Ordering {
        compare_naturally(&self.0, &other.0)
    }
}

impl PartialOrd for NaturalSortKey {
    fn partial_cmp(&self, other: &NaturalSortKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_inside_names_count_by_value() {
        let mut names = [
            "Ethernet10|3-4",
            "Ethernet2",
            "Ethernet10|0",
            "global",
            "Ethernet1",
            "26",
            "8",
            "a01",
            "a1",
        ];
        names.sort_by(|a, b| compare_naturally(a, b));
        assert_eq!(
            names,
            [
                "8",
                "26",
                "Ethernet1",
                "Ethernet2",
                "Ethernet10|0",
                "Ethernet10|3-4",
                "a01",
                "a1",
                "global"
            ]
        );
    }

    /// The definition of the order, character by character.
    fn compare_by_definition(a: &str, b: &str) -> Ordering {
        fn split(text: &str) -> (&str, &str) {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let (digits, rest) = text.split_at(end);
            (digits.trim_start_matches('0'), rest)
        }
        let (mut x, mut y) = (a, b);
        while let (Some(cx), Some(cy)) = (x.chars().next(), y.chars().next()) {
            let order = if cx.is_ascii_digit() && cy.is_ascii_digit() {
                let (nx, ny);
                (nx, x) = split(x);
                (ny, y) = split(y);
                nx.len().cmp(&ny.len()).then_with(|| nx.cmp(ny))
            } else {
                x = &x[cx.len_utf8()..];
                y = &y[cy.len_utf8()..];
                cx.cmp(&cy)
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        x.len().cmp(&y.len()).then_with(|| a.cmp(b))
    }

    #[test]
    fn the_order_agrees_with_its_definition() {
        let parts = [
            "",
            "0",
            "00",
            "1",
            "01",
            "9",
            "10",
            "a",
            "b",
            "|",
            "\u{e9}",
            "\u{1f600}",
        ];
        let names: Vec<String> = (0..parts.len().pow(3))
            .map(|n| {
                let part = |place: usize| parts[n / parts.len().pow(place as u32) % parts.len()];
                [part(0), part(1), part(2)].concat()
            })
            .collect();
        for a in &names {
            for b in names.iter().step_by(7) {
                assert_eq!(
                    compare_naturally(a, b),
                    compare_by_definition(a, b),
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_too_large_for_a_machine_word_have_an_order() {
        assert_eq!(
            compare_naturally("x99999999999999999999999", "x100000000000000000000000"),
            Ordering::Less
        );
    }
}
