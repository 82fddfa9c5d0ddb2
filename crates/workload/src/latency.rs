//! Histogram of the latencies of messages without a flow record.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use xoff_units::Picos;

/// Number of significant digits of a latency.
const DIGITS: u8 = 3;

/// Quantiles of latencies in nanoseconds. They have three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyQuantiles {
    /// Number of messages with a latency.
    pub count: u64,
    /// The median in nanoseconds.
    pub p50: u64,
    /// The 99th percentile in nanoseconds.
    pub p99: u64,
    /// The 99.9th percentile in nanoseconds.
    pub p999: u64,
    /// The largest latency in nanoseconds.
    pub max: u64,
}

/// Histogram of the message latencies of a job. Its memory depends on the range of the latencies and not on
/// their number.
#[derive(Clone, Debug, Default)]
pub(super) struct LatencyHistogram(Option<Histogram<u64>>);

impl LatencyHistogram {
    pub(super) fn add(&mut self, span: Picos) {
        let histogram = self.0.get_or_insert_with(|| {
            let mut histogram = Histogram::new(DIGITS).expect("three digits are allowed");
            histogram.auto(true);
            histogram
        });
        // The histogram resizes itself, so recording does not fail.
        let _ = histogram.record(span.as_nanos());
    }

    /// Adds the latencies since `earlier`, an older state of this histogram, `times` times more. Numbers of messages
    /// are rounded.
    pub(super) fn repeat_since(&mut self, earlier: &LatencyHistogram, times: f64) {
        let Some(histogram) = &mut self.0 else {
            return;
        };
        let counted_before = |value| earlier.0.as_ref().map_or(0, |earlier| earlier.count_at(value));
        let repeated: Vec<(u64, u64)> = histogram
            .iter_recorded()
            .map(|entry| (entry.value_iterated_to(), entry.count_at_value()))
            .map(|(value, count)| (value, count - counted_before(value).min(count)))
            .collect();
        for (value, count) in repeated {
            // The histogram has these values, so recording does not fail.
            let _ = histogram.record_n(value, (count as f64 * times).round() as u64);
        }
    }

    /// Returns the quantiles, or `None` if there is no latency.
    pub(super) fn summary(&self) -> Option<LatencyQuantiles> {
        let histogram = self.0.as_ref()?;
        // The histogram returns the upper end of a bucket, which can exceed the largest latency.
        let quantile = |quantile: f64| histogram.value_at_quantile(quantile).min(histogram.max());
        Some(LatencyQuantiles {
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
        let mut latencies = LatencyHistogram::default();
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
