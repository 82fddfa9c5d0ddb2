//! Expectations of the user: how many frames or bytes must arrive.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::group_thousands;

/// A condition on the traffic that arrives, such as `frames>=1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expectation {
    quantity: Quantity,
    comparison: Comparison,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Frames,
    /// Payload bytes.
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    MoreThan,
    Equal,
    AtMost,
    LessThan,
}

/// All comparisons. An operator that begins with another operator comes first.
const COMPARISONS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("==", Comparison::Equal),
    ("=", Comparison::Equal),
    (">", Comparison::MoreThan),
    ("<", Comparison::LessThan),
];

/// A text that is no [`Expectation`]. The `Display` form describes the problem and the correct form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectationError(String);

impl fmt::Display for ExpectationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.0, ExpectationError::FORM)
    }
}

impl std::error::Error for ExpectationError {}

impl ExpectationError {
    /// The correct form of an expectation, for error messages.
    pub const FORM: &str = "write frames or bytes, a comparison and a number, such as frames>=1000";
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    /// Parses `frames>=1000`, `bytes > 1M`, or a number alone, which means `frames>=`. The suffixes k, M and G
    /// are powers of 1000.
    fn from_str(text: &str) -> Result<Expectation, ExpectationError> {
        let invalid = || ExpectationError(format!("'{text}' is not an expectation"));
        let (quantity, rest) = match text.trim() {
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let value = parse_count(word).ok_or_else(invalid)?;
                return Ok(Expectation::at_least_frames(value));
            }
            word => {
                let end = word
                    .find(|c: char| !c.is_ascii_alphabetic())
                    .unwrap_or(word.len());
                (&word[..end], word[end..].trim_start())
            }
        };
        let quantity = match quantity {
            "frames" => Quantity::Frames,
            "bytes" => Quantity::Bytes,
            other => return Err(ExpectationError(format!("'{other}' is not a quantity"))),
        };
        let (comparison, number) = COMPARISONS
            .iter()
            .find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)))
            .ok_or_else(invalid)?;
        let value = parse_count(number.trim()).ok_or_else(invalid)?;
        Ok(Expectation {
            quantity,
            comparison,
            value,
        })
    }
}

/// Parses a decimal number with an optional suffix k, M or G. Returns `None` for other texts and for numbers
/// above `u64::MAX`.
fn parse_count(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        b'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = COMPARISONS
            .iter()
            .find(|(_, comparison)| *comparison == self.comparison)
            .map_or("", |(sign, _)| sign);
        write!(f, "{}{sign}{}", self.quantity.name(), self.value)
    }
}

impl From<Expectation> for String {
    fn from(expectation: Expectation) -> String {
        expectation.to_string()
    }
}

impl TryFrom<String> for Expectation {
    type Error = ExpectationError;

    fn try_from(text: String) -> Result<Expectation, ExpectationError> {
        text.parse()
    }
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Frames => "frames",
            Quantity::Bytes => "bytes",
        }
    }
}

impl Expectation {
    /// Creates the expectation that at least `frames` frames arrive.
    pub fn at_least_frames(frames: u64) -> Expectation {
        Expectation {
            quantity: Quantity::Frames,
            comparison: Comparison::AtLeast,
            value: frames,
        }
    }

    /// Compares the expectation with the traffic that arrived at `location`, such as `h1 to h2`. `bytes` is the
    /// payload.
    pub fn compare(&self, location: &str, frames: u64, bytes: u64) -> ExpectationResult {
        let actual = match self.quantity {
            Quantity::Frames => frames,
            Quantity::Bytes => bytes,
        };
        let holds = match self.comparison {
            Comparison::AtLeast => actual >= self.value,
            Comparison::MoreThan => actual > self.value,
            Comparison::Equal => actual == self.value,
            Comparison::AtMost => actual <= self.value,
            Comparison::LessThan => actual < self.value,
        };
        ExpectationResult {
            location: location.to_owned(),
            expectation: self.to_string(),
            actual,
            holds,
        }
    }
}

/// An expectation and the traffic that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectationResult {
    /// The receiver or flow of the expectation.
    pub location: String,
    /// The expectation, such as `frames>=1000`.
    pub expectation: String,
    /// The number of frames or payload bytes that arrived.
    pub actual: u64,
    /// Whether the expectation holds.
    pub holds: bool,
}

impl ExpectationResult {
    /// Describes an expectation that does not hold. Returns `None` if it holds.
    pub fn failure(&self) -> Option<String> {
        (!self.holds).then(|| {
            format!(
                "{}: expected {}, and {} arrived",
                self.location,
                self.expectation,
                group_thousands(self.actual)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_parsed_and_printed() {
        for (text, printed) in [
            ("frames>=1000", "frames>=1000"),
            (" bytes > 2M ", "bytes>2000000"),
            ("frames=5", "frames==5"),
            ("frames<=3k", "frames<=3000"),
            ("frames<3", "frames<3"),
            ("17", "frames>=17"),
        ] {
            let parsed: Expectation = text.parse().expect(text);
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(printed.parse::<Expectation>(), Ok(parsed));
        }
        for text in [
            "",
            "frames",
            "frames>=",
            "frames>=-1",
            "packets>=1",
            "1x",
            "frames>=99999999999G",
        ] {
            let error = text.parse::<Expectation>().expect_err(text).to_string();
            assert!(error.contains("frames>=1000"), "{error}");
        }
    }

    #[test]
    fn frames_that_do_not_arrive_are_a_failure() {
        let expected: Expectation = "frames>=10".parse().expect("an expectation");
        assert_eq!(
            expected.compare("eth1", 9, 9_000).failure().as_deref(),
            Some("eth1: expected frames>=10, and 9 arrived")
        );
        assert_eq!(expected.compare("eth1", 10, 0).failure(), None);
        let bytes: Expectation = "bytes==0".parse().expect("an expectation");
        assert!(bytes.compare("eth1", 1, 0).holds && !bytes.compare("eth1", 1, 64).holds);
    }
}
