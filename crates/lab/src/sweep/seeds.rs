//! `--seeds`: which seeds a sweep has.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::run::RUNS_MAX;

/// How seeds may be written, for messages.
const FORM: &str = "write numbers and ranges such as 1..=32 or 1,2,5";

/// Seeds of a sweep, in the order in which they were written, each once, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (first, last) = range(part.trim())?;
            if last - first >= (RUNS_MAX - seeds.len()) as u64 {
                return Err(format!("'{text}' is more than {RUNS_MAX} seeds"));
            }
            seeds.extend(first..=last);
        }
        let different: BTreeSet<u64> = seeds.iter().copied().collect();
        if different.len() < seeds.len() {
            return Err(format!(
                "'{text}' has a seed twice: the same seed gives the same run"
            ));
        }
        Ok(Seeds(seeds))
    }
}

/// First and last seed of `5`, `1..=32` or `1..33`.
fn range(part: &str) -> Result<(u64, u64), String> {
    let number = |digits: &str| {
        let digits = digits.trim();
        digits
            .parse::<u64>()
            .map_err(|_| format!("'{digits}' is no seed; {FORM}"))
    };
    let Some((first, last)) = part.split_once("..") else {
        return number(part).map(|seed| (seed, seed));
    };
    let empty = || format!("the range {part} is empty: it ends before it begins; {FORM}");
    let first = number(first)?;
    let last = match last.strip_prefix('=') {
        Some(last) => number(last)?,
        None => number(last)?.checked_sub(1).ok_or_else(empty)?,
    };
    if last < first {
        return Err(empty());
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_in_their_order() {
        let seeds = |text: &str| text.parse::<Seeds>().unwrap().0;
        assert_eq!(seeds("7"), [7]);
        assert_eq!(seeds("1..=4"), [1, 2, 3, 4]);
        assert_eq!(seeds("1..4, 9,5"), [1, 2, 3, 9, 5]);
        assert_eq!(seeds("18446744073709551615"), [u64::MAX]);
    }

    #[test]
    fn what_is_no_list_of_seeds_says_why() {
        for (text, why) in [
            ("5..=1", "the range 5..=1 is empty"),
            ("3..3", "the range 3..3 is empty"),
            ("0..0", "is empty"),
            ("1,2,1", "twice"),
            ("1..=3,2", "twice"),
            ("", "no seed"),
            ("a", "'a' is no seed"),
            ("1..=x", "'x' is no seed"),
            ("-1", "no seed"),
            ("0..=18446744073709551615", "more than"),
            ("1..=1000000,2000000", "more than"),
        ] {
            let error = text.parse::<Seeds>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
