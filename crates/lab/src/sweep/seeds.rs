//! The option `--seeds`: the seeds of a sweep.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::command::RUNS_MAX;

/// Advice about the syntax of seeds in error messages.
const SYNTAX_HINT: &str = "write numbers from 0 and ranges such as 1..=32 or 1,2,5";

/// The seeds of a sweep, in the order of the command line, such as `1..=32` or `1,2,5`. A parsed list has at
/// least one seed, at most [`RUNS_MAX`] seeds and no duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (first, last) = parse_seed_range(part.trim())?;
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

/// Parses `5`, `1..=32` or `1..33` into the first and the last seed.
fn parse_seed_range(part: &str) -> Result<(u64, u64), String> {
    let number = |digits: &str| {
        let digits = digits.trim();
        digits
            .parse::<u64>()
            .map_err(|_| format!("'{digits}' is not a seed; {SYNTAX_HINT}"))
    };
    let Some((first, last)) = part.split_once("..") else {
        return number(part).map(|seed| (seed, seed));
    };
    let empty = || format!("the range {part} is empty: it ends before it begins; {SYNTAX_HINT}");
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
    fn numbers_and_ranges_keep_their_order() {
        let seeds = |text: &str| text.parse::<Seeds>().unwrap().0;
        assert_eq!(seeds("7"), [7]);
        assert_eq!(seeds("1..=4"), [1, 2, 3, 4]);
        assert_eq!(seeds("1..4, 9,5"), [1, 2, 3, 9, 5]);
        assert_eq!(seeds("18446744073709551615"), [u64::MAX]);
    }

    #[test]
    fn an_invalid_list_of_seeds_is_rejected_with_a_reason() {
        for (text, why) in [
            ("5..=1", "the range 5..=1 is empty"),
            ("3..3", "the range 3..3 is empty"),
            ("0..0", "is empty"),
            ("1,2,1", "twice"),
            ("1..=3,2", "twice"),
            ("", "not a seed"),
            ("a", "'a' is not a seed"),
            ("1..=x", "'x' is not a seed"),
            ("-1", "not a seed"),
            ("0..=18446744073709551615", "more than"),
            ("1..=1000000,2000000", "more than"),
        ] {
            let error = text.parse::<Seeds>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
