//! Quantiles and indices of a list of numbers.

use serde::{Deserialize, Serialize};

/// A list of times in nanoseconds, or of ratios, in a few numbers. Quantiles are values of the list (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many there are.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub avg: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation of the whole list (divided by the count, as nccl-tests does).
    pub stdev: f64,
}

impl Summary {
    /// Of these values, in any order; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Summary> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let count = values.len();
        let avg = values.iter().sum::<f64>() / count as f64;
        let variance = values.iter().map(|x| (x - avg) * (x - avg)).sum::<f64>() / count as f64;
        // The smallest value that is at least as large as this many of a thousand.
        let quantile = |thousandths: usize| values[(count * thousandths).div_ceil(1000).max(1) - 1];
        Some(Summary {
            count: count as u64,
            min,
            avg,
            p50: quantile(500),
            p95: quantile(950),
            p99: quantile(990),
            p999: quantile(999),
            max,
            stdev: variance.sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let summary = Summary::of((1..=1000).rev().map(f64::from).collect()).unwrap();
        let quantiles = [
            summary.min,
            summary.p50,
            summary.p95,
            summary.p99,
            summary.p999,
            summary.max,
        ];
        assert_eq!(quantiles, [1.0, 500.0, 950.0, 990.0, 999.0, 1000.0]);
        assert_eq!(summary.avg, 500.5);
        assert!((summary.stdev - 288.675).abs() < 0.001);
        let one = Summary::of(vec![7.0]).unwrap();
        assert_eq!((one.p50, one.p999, one.stdev), (7.0, 7.0, 0.0));
        assert_eq!(Summary::of(Vec::new()), None);
    }
}
