//! One figure of a bench, with every sample of it.

use serde::{Deserialize, Serialize};

/// Which way a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate, a share.
    Bigger,
    /// A time, a cost, a loss.
    Smaller,
}

impl Better {
    /// `bigger` or `smaller`.
    pub fn word(self) -> &'static str {
        match self {
            Better::Bigger => "bigger",
            Better::Smaller => "smaller",
        }
    }
}

/// A figure: what was measured, and how often.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Figure {
    /// Parts from the general to the special, divided by `/`: `ndr/1082/rate`. The same in every run of the same bench.
    pub name: String,
    /// `frames/s`, `ns`, `percent`, `bytes`.
    pub unit: String,
    /// Which way it improves.
    pub better: Better,
    /// One value per repetition, in the order of measuring; never empty.
    pub samples: Vec<f64>,
}

/// Where the samples of a figure lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// Bounds of the median's interval of 95 %, by order statistics (the binomial distribution of how many samples lie below it; no
    /// shape is assumed). With fewer than six samples there is none of that level: the smallest and the largest stand here.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Figure {
    /// A figure of these samples.
    ///
    /// # Panics
    /// No sample.
    pub fn new(name: impl Into<String>, unit: &str, better: Better, samples: Vec<f64>) -> Figure {
        assert!(!samples.is_empty(), "a figure has a sample");
        Figure {
            name: name.into(),
            unit: unit.to_owned(),
            better,
            samples,
        }
    }

    /// Median and interval.
    pub fn spread(&self) -> Spread {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let below = rank(count);
        Spread {
            median,
            low: sorted[below],
            high: sorted[count - 1 - below],
        }
    }
}

/// The number of samples left out at each end: the most for which the outer two still hold the median with 95 %.
fn rank(count: usize) -> usize {
    // P(fewer than k of n samples lie below the median) = sum of C(n, i) / 2^n for i < k; at most 2.5 % at either end.
    let mut term = 0.5f64.powi(count as i32);
    let mut sum = 0.0;
    for left_out in 0..count / 2 {
        sum += term;
        if sum > 0.025 {
            return left_out.saturating_sub(1);
        }
        term *= (count - left_out) as f64 / (left_out + 1) as f64;
    }
    (count / 2).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(samples: &[f64]) -> Spread {
        Figure::new("a", "ns", Better::Smaller, samples.to_vec()).spread()
    }

    #[test]
    fn intervals_are_those_of_tables_of_order_statistics() {
        // Ranks of the 95 % interval of a median (Conover, Practical Nonparametric Statistics): n = 10: 2nd to 9th, n = 20: 6th to 15th.
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
            assert_eq!(rank(count) + 1, first, "{count} samples");
        }
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(
            spread(&[3.0]),
            Spread {
                median: 3.0,
                low: 3.0,
                high: 3.0
            }
        );
        assert_eq!(spread(&[4.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(
            spread(&[4.0, 1.0, 2.0, 3.0]),
            Spread {
                median: 2.5,
                low: 1.0,
                high: 4.0
            }
        );
    }
}
