//! A figure of a bench: one measured quantity with all its samples.

use serde::{Deserialize, Serialize};

/// The direction in which a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImprovementDirection {
    /// Larger values are better, such as a rate.
    Bigger,
    /// Smaller values are better, such as a time or a loss.
    Smaller,
}

impl ImprovementDirection {
    /// Returns `bigger` or `smaller`.
    pub fn name(self) -> &'static str {
        match self {
            ImprovementDirection::Bigger => "bigger",
            ImprovementDirection::Smaller => "smaller",
        }
    }
}

/// A figure: one measured quantity with all its samples, such as a rate or a latency.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BenchFigure {
    /// Name of the figure (measured quantity), such as `1082/ndr/rate`. The most general part comes first. A
    /// bench uses the same names in every run.
    pub name: String,
    /// Unit, such as `frames/s`, `ns`, `percent` or `bytes`.
    pub unit: String,
    /// Direction in which the figure improves.
    pub better: ImprovementDirection,
    /// Whether the figure only explains a result, such as the losses of a control run with too little headroom. A
    /// comparison shows such a figure, and its gate ignores it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diagnostic: bool,
    /// One value for each repetition, in the order of measurement. Never empty.
    pub samples: Vec<f64>,
}

/// The median of the samples and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// Median: the middle sample, or the mean of the two middle samples.
    pub median: f64,
    /// Lower bound of the 95 % confidence interval of the median. The interval is computed from order
    /// statistics (binomial distribution), so the samples may have any distribution. With fewer than nine
    /// samples, the bounds are the smallest and the largest sample. With fewer than six samples, the
    /// confidence is below 95 %.
    pub low: f64,
    /// Upper bound of the 95 % confidence interval of the median.
    pub high: f64,
}

impl BenchFigure {
    /// Creates a figure from its samples.
    ///
    /// # Panics
    /// `samples` is empty.
    pub fn new(
        name: impl Into<String>,
        unit: &str,
        better: ImprovementDirection,
        samples: Vec<f64>,
    ) -> BenchFigure {
        assert!(!samples.is_empty(), "a figure has a sample");
        BenchFigure {
            name: name.into(),
            unit: unit.to_owned(),
            better,
            diagnostic: false,
            samples,
        }
    }

    /// Marks a figure that only explains a result ([`BenchFigure::diagnostic`]).
    #[must_use]
    pub fn as_diagnostic(self) -> BenchFigure {
        BenchFigure {
            diagnostic: true,
            ..self
        }
    }

    /// Returns the median of the samples and its 95 % confidence interval.
    pub fn spread(&self) -> MedianInterval {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let below = trimmed_samples_per_tail(count);
        MedianInterval {
            median,
            low: sorted[below],
            high: sorted[count - 1 - below],
        }
    }
}

/// Returns how many samples are left out at each end of the sorted samples. This is the largest number for
/// which the remaining range contains the true median with a probability of at least 95 %. Returns 0 if even
/// the full range has a lower probability.
fn trimmed_samples_per_tail(sample_count: usize) -> usize {
    // The probability that fewer than k of n samples are below the median is the sum of C(n, i) / 2^n for i <
    // k. It must be at most 2.5 % at each end.
    let mut term = 0.5f64.powi(sample_count as i32);
    let mut sum = 0.0;
    for left_out in 0..sample_count / 2 {
        sum += term;
        if sum > 0.025 {
            return left_out.saturating_sub(1);
        }
        term *= (sample_count - left_out) as f64 / (left_out + 1) as f64;
    }
    (sample_count / 2).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval_of(samples: &[f64]) -> MedianInterval {
        BenchFigure::new("a", "ns", ImprovementDirection::Smaller, samples.to_vec()).spread()
    }

    #[test]
    fn interval_ranks_match_published_tables() {
        // Ranks of the 95 % interval of a median (Conover, Practical Nonparametric Statistics).
        // n = 10: 2nd to 9th. n = 20: 6th to 15th.
        for (count, first) in [
            (1, 1),
            (5, 1),
            (6, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (12, 3),
            (20, 6),
            (50, 18),
        ] {
            assert_eq!(trimmed_samples_per_tail(count) + 1, first, "{count} samples");
        }
    }

    #[test]
    fn median_of_odd_and_even_sample_counts() {
        assert_eq!(
            interval_of(&[3.0]),
            MedianInterval {
                median: 3.0,
                low: 3.0,
                high: 3.0
            }
        );
        assert_eq!(interval_of(&[4.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(
            interval_of(&[4.0, 1.0, 2.0, 3.0]),
            MedianInterval {
                median: 2.5,
                low: 1.0,
                high: 4.0
            }
        );
    }
}
