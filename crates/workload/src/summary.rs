//! Statistics of a list of numbers.

use serde::{Deserialize, Serialize};

/// Statistics of a list of values: durations in nanoseconds, or ratios. All fields except `count` have the
/// unit of the values. A quantile is always a value of the list (nearest rank method).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DistributionSummary {
    /// Number of values.
    pub count: u64,
    /// The smallest value.
    pub min: f64,
    /// The arithmetic mean.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest value.
    pub max: f64,
    /// Standard deviation of the population: the divisor is the count, as in nccl-tests.
    pub stdev: f64,
}

impl DistributionSummary {
    /// Computes the statistics of values in any order. Returns `None` for an empty list.
    pub fn of(mut values: Vec<f64>) -> Option<DistributionSummary> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let count = values.len();
        let avg = values.iter().sum::<f64>() / count as f64;
        let variance = values.iter().map(|x| (x - avg) * (x - avg)).sum::<f64>() / count as f64;
        // The smallest value with at least this many thousandths of all values at or below it.
        let quantile = |thousandths: usize| values[(count * thousandths).div_ceil(1000).max(1) - 1];
        Some(DistributionSummary {
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
        let summary = DistributionSummary::of((1..=1000).rev().map(f64::from).collect()).unwrap();
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
        let one = DistributionSummary::of(vec![7.0]).unwrap();
        assert_eq!((one.p50, one.p999, one.stdev), (7.0, 7.0, 0.0));
        assert_eq!(DistributionSummary::of(Vec::new()), None);
    }
}
