//! Natural order of names with numbers: `Ethernet2` precedes `Ethernet10`.

use std::cmp::Ordering;
use std::fmt;

/// Compares two names in natural order: `Ethernet2` precedes `Ethernet10`. Sequences of digits are compared
/// as numbers, and characters that are not digits by their code points. Two different names never compare
/// as equal.
pub fn compare_naturally(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a, b);
    while let (Some(cx), Some(cy)) = (x.chars().next(), y.chars().next()) {
        let order = if cx.is_ascii_digit() && cy.is_ascii_digit() {
            let (nx, ny);
            (nx, x) = split_leading_number(x);
            (ny, y) = split_leading_number(y);
            // After leading zeros are removed, the longer run of digits is the larger number.
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
    // "a01" and "a1" have the same number but are different names.
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// Splits a text into its leading digits and the rest. Zeros before the number are removed.
fn split_leading_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (digits.trim_start_matches('0'), rest)
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

    #[test]
    fn numbers_too_large_for_a_machine_word_have_an_order() {
        assert_eq!(
            compare_naturally("x99999999999999999999999", "x100000000000000000000000"),
            Ordering::Less
        );
    }
}
