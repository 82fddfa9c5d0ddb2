//! How long messages take that are too many to be kept one by one.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use xoff_units::Picos;

/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Quantiles of a latency in nanoseconds, to three digits; the largest is exact to the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

/// Latencies of a job's messages. Memory grows with their range, not with their number.
#[derive(Debug, Default)]
pub(super) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    pub(super) fn add(&mut self, span: Picos) {
        let histogram = self.0.get_or_insert_with(|| {
            let mut histogram = Histogram::new(DIGITS).expect("three digits are allowed");
            histogram.auto(true);
            histogram
        });
        // It grows with what it is given; only memory could refuse.
        let _ = histogram.record(span.as_nanos());
    }

    /// `None` if there are none.
    pub(super) fn summary(&self) -> Option<Latency> {
        let histogram = self.0.as_ref()?;
        // The histogram answers with the upper end of a bucket, which may lie above all that was recorded.
        let quantile = |quantile: f64| histogram.value_at_quantile(quantile).min(histogram.max());
        Some(Latency {
            count: histogram.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_three_digits() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.summary(), None);
        (1..=1_000).for_each(|us| latencies.add(Picos::from_micros(us)));
        let summary = latencies.summary().unwrap();
        let near = |value: u64, exact: u64| value.abs_diff(exact) * 1_000 <= exact;
        assert_eq!(summary.count, 1_000);
        assert!(
            near(summary.p50, 500_000) && near(summary.p99, 990_000),
            "{summary:?}"
        );
        assert!(
            near(summary.p999, 999_000) && near(summary.max, 1_000_000),
            "{summary:?}"
        );
    }
}
