//! Distributions of flow sizes, in the format of the HPCC traffic generator.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A cumulative distribution of flow sizes, linear between its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeDistribution {
    /// Points of the distribution. A point is a size in bytes and the percentage of flows with at most this
    /// size. Both values never decrease from point to point. The last percentage is 100.
    points: Vec<(f64, f64)>,
}

/// The reason why a text is not a valid distribution.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {problem}")]
pub struct DistributionError {
    /// Line number, starting at 1. If the text as a whole is wrong, this is the last line with a point, or 1
    /// if there are no points.
    pub line: usize,
    /// Description of the problem.
    pub problem: String,
}

impl SizeDistribution {
    /// Parses lines of the form `bytes percent`, such as HPCC's `WebSearch_distribution.txt`. `percent` is
    /// the percentage of flows with at most `bytes` bytes. If the first percentage is above 0, this share of
    /// the flows has exactly the first size. Empty lines and text after a `#` are ignored.
    ///
    /// # Errors
    ///
    /// Returns the first wrong line. Both columns must be numbers of at least 0 that do not decrease. The
    /// last percentage must be 100, and at least one size must be above 0.
    pub fn parse(text: &str) -> Result<SizeDistribution, DistributionError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut last_line = 1;
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            if content.trim().is_empty() {
                continue;
            }
            last_line = index + 1;
            let point = parse_point(content, points.last()).map_err(|problem| DistributionError {
                line: last_line,
                problem,
            })?;
            points.push(point);
        }
        let distribution = SizeDistribution { points };
        let problem = match distribution.points.last() {
            None => "there are no points".to_owned(),
            Some((_, percent)) if *percent != 100.0 => format!("it ends at {percent} %, not at 100 %"),
            Some(_) if distribution.mean_bytes() <= 0.0 => "all sizes are 0".to_owned(),
            Some(_) => return Ok(distribution),
        };
        Err(DistributionError {
            line: last_line,
            problem,
        })
    }

    /// Returns a distribution in which all flows have the same size. The size 0 counts as 1.
    pub fn constant(bytes: u64) -> SizeDistribution {
        SizeDistribution {
            points: vec![(bytes.max(1) as f64, 100.0)],
        }
    }

    /// Returns the mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let first = self
            .points
            .first()
            .map_or(0.0, |(bytes, percent)| bytes * percent);
        let steps = self.points.windows(2);
        let rest = steps.map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1));
        (first + rest.sum::<f64>()) / 100.0
    }

    /// Returns the size in bytes at a cumulative probability from 0 to 1. The size is rounded down to whole
    /// bytes, but is at least 1.
    pub fn sample(&self, probability: f64) -> u64 {
        let percent = probability * 100.0;
        let above = self.points.partition_point(|point| point.1 < percent);
        let bytes = match (
            above.checked_sub(1).and_then(|below| self.points.get(below)),
            self.points.get(above),
        ) {
            (Some((low, from)), Some((high, to))) => low + (high - low) * (percent - from) / (to - from),
            (None, Some((bytes, _))) | (Some((bytes, _)), None) => *bytes,
            (None, None) => 0.0,
        };
        (bytes as u64).max(1)
    }
}

/// Parses one line. Neither value may be less than the same value of the previous point.
fn parse_point(content: &str, before: Option<&(f64, f64)>) -> Result<(f64, f64), String> {
    let fields: Vec<&str> = content.split_whitespace().collect();
    let [bytes, percent] = fields[..] else {
        return Err(format!(
            "{} where `bytes percent` are expected",
            xoff_units::count_noun(fields.len() as u64, "field")
        ));
    };
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{text}` is not a number of 0 or more")),
    };
    let (bytes, percent) = (number(bytes)?, number(percent)?);
    if percent > 100.0 {
        return Err(format!("{percent} % is more than 100 %"));
    }
    if let Some((bytes_before, percent_before)) = before
        && (bytes < *bytes_before || percent < *percent_before)
    {
        return Err(format!(
            "{bytes} {percent} falls behind {bytes_before} {percent_before}"
        ));
    }
    Ok((bytes, percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_quantiles_interpolate_linearly() {
        let sizes = SizeDistribution::parse("# a comment\n0 0\n100 50 # half\n\n300 100\n").unwrap();
        assert_eq!(sizes.mean_bytes(), 25.0 + 100.0);
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|p| sizes.sample(p)),
            [1, 50, 100, 200, 300]
        );
        let draws: u64 = (0..10_000)
            .map(|n| sizes.sample((f64::from(n) + 0.5) / 10_000.0))
            .sum();
        assert!((draws as f64 / 10_000.0 - 125.0).abs() < 1.0);
    }

    #[test]
    fn vertical_steps_are_single_sizes() {
        let sizes = SizeDistribution::parse("64 30\n64 60\n1000 60\n1000 100").unwrap();
        assert_eq!(
            [0.0, 0.3, 0.5, 0.6, 0.61, 1.0].map(|p| sizes.sample(p)),
            [64, 64, 64, 64, 1000, 1000]
        );
        assert!((sizes.mean_bytes() - (64.0 * 0.6 + 400.0)).abs() < 1e-9);
        assert_eq!(SizeDistribution::constant(4096).sample(0.3), 4096);
        assert_eq!(SizeDistribution::constant(4096).mean_bytes(), 4096.0);
    }

    #[test]
    fn errors_have_the_line_number() {
        for (text, message) in [
            ("", "line 1: there are no points"),
            ("0 0\n\n5", "line 3: 1 field where `bytes percent` are expected"),
            ("0 0\nx 5", "line 2: `x` is not a number of 0 or more"),
            ("0 0\n10 50\n5 100", "line 3: 5 100 falls behind 10 50"),
            ("0 0\n10 101", "line 2: 101 % is more than 100 %"),
            ("0 0\n10 1", "line 2: it ends at 1 %, not at 100 %"),
            ("0 100", "line 1: all sizes are 0"),
            ("1 nan", "line 1: `nan` is not a number of 0 or more"),
        ] {
            assert_eq!(SizeDistribution::parse(text).unwrap_err().to_string(), message);
        }
    }
}
