//! Defines the columns of result tables. A column shows a figure (a measured quantity, such as the job
//! completion time). This module also computes and formats the median and the range of a figure over
//! several runs.

use super::report::{JobMeasurements, RunMeasurements, round_to_six_decimals};
use xoff_telemetry::{
    format_bit_rate, format_gbytes_per_second, format_nanos, format_percent, group_thousands,
};

/// A column of a result table: one figure of a run or of one of its jobs.
pub(crate) struct MeasurementColumn {
    /// Title of the column in tables.
    pub(crate) title: &'static str,
    /// Name of the figure in files. If the figure has a unit, the name ends in the unit.
    pub(crate) name: &'static str,
    /// Returns the value of the figure for a run, or for the given job of the run. Returns `None` if the run
    /// or the job does not have this figure.
    pub(crate) value: fn(&RunMeasurements, Option<&JobMeasurements>) -> Option<f64>,
    /// Formats a value for tables.
    pub(crate) format: fn(f64) -> String,
}

/// All figures of result tables. A table selects the figures that it shows.
impl MeasurementColumn {
    /// Job completion time.
    pub(crate) const JCT: Self = Self {
        title: "JCT",
        name: "jct_ns",
        value: |_, job| job?.jct_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    };
    /// Job completion time divided by the roofline of the job.
    pub(crate) const JCT_RATIO: Self = Self {
        title: "JCT ratio",
        name: "jct_ratio",
        value: |_, job| job?.jct_ratio,
        format: |ratio| format!("{ratio:.3}"),
    };
    /// Bus bandwidth of a collective.
    pub(crate) const BUS_BANDWIDTH: Self = Self {
        title: "Busbw GB/s",
        name: "bus_bandwidth_gbytes_per_s",
        value: |_, job| job?.bus_bandwidth_gbytes_per_s,
        format: format_gbytes_per_second,
    };
    /// Bus bandwidth, job completion time or goodput, in percent of the run with a single switch.
    pub(crate) const PERCENT_OF_ONE_SWITCH: Self = Self {
        title: "% of one switch",
        name: "percent_of_one_switch",
        value: |run, job| match job {
            Some(job) => job.percent_of_one_switch,
            None => run.percent_of_one_switch,
        },
        format: |percent| format!("{percent:.1}"),
    };
    /// 99th percentile of the slowdown of the flows of a job.
    pub(crate) const SLOWDOWN_P99: Self = Self {
        title: "p99 slowdown",
        name: "slowdown_p99",
        value: |_, job| job?.slowdown_p99,
        format: |slowdown| format!("{slowdown:.2}"),
    };
    /// 99.9th percentile of the slowdown of the flows of a job.
    pub(crate) const SLOWDOWN_P999: Self = Self {
        title: "P99.9 slowdown",
        name: "slowdown_p999",
        value: |_, job| job?.slowdown_p999,
        format: |slowdown| format!("{slowdown:.2}"),
    };
    /// Jain's index of the throughputs of the flows of a job.
    pub(crate) const FLOW_JAIN_INDEX: Self = Self {
        title: "Jain",
        name: "jain_index",
        value: |_, job| job?.jain_index,
        format: |index| format!("{index:.3}"),
    };
    /// 99.9th percentile of the latency of the messages of a collective.
    pub(crate) const MESSAGE_LATENCY_P999: Self = Self {
        title: "P99.9 message",
        name: "message_latency_p999_ns",
        value: |_, job| job?.message_latency_p999_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    };
    /// 99.9th percentile of the latency of the frames of open-loop flows.
    pub(crate) const FRAME_LATENCY_P999: Self = Self {
        title: "P99.9 frame",
        name: "frame_latency_p999_ns",
        value: |run, _| run.frame_latency_p999_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    };
    /// Payload per second of all open-loop flows.
    pub(crate) const GOODPUT: Self = Self {
        title: "Goodput",
        name: "goodput_bps",
        value: |run, _| (run.totals.sent_frames > 0).then_some(run.goodput_bps as f64),
        format: |bps| format_bit_rate(bps as u64),
    };
    /// Frames of open-loop flows that no host received.
    pub(crate) const LOST_FRAMES: Self = Self {
        title: "Lost",
        name: "lost_frames",
        value: |run, _| (run.totals.sent_frames > 0).then_some(run.totals.lost_frames as f64),
        format: |frames| group_thousands(frames as u64),
    };
    /// Model time of the run.
    pub(crate) const MODEL_TIME: Self = Self {
        title: "Model time",
        name: "model_time_ns",
        value: |run, _| Some(run.model_time_ns as f64),
        format: |ns| format_nanos(ns as u64),
    };
    /// Largest load of a link between switches divided by the mean load.
    pub(crate) const LINK_MAX_MEAN_RATIO: Self = Self {
        title: "Max/mean",
        name: "link_max_mean_ratio",
        value: |run, _| run.link_max_mean_ratio,
        format: |ratio| format!("{ratio:.2}"),
    };
    /// Jain's index of the loads of the links between switches.
    pub(crate) const LINK_JAIN_INDEX: Self = Self {
        title: "Jain",
        name: "link_jain_index",
        value: |run, _| run.link_jain_index,
        format: |index| format!("{index:.3}"),
    };
    /// Time for which switches paused their peers, summed over ports and priorities.
    pub(crate) const PAUSING_TIME: Self = Self {
        title: "Paused",
        name: "pausing_ns",
        value: |run, _| Some(run.totals.pausing_ns as f64),
        format: |ns| format_nanos(ns as u64),
    };
    /// Frames that the switches dropped.
    pub(crate) const DROPPED_FRAMES: Self = Self {
        title: "Drops",
        name: "dropped_frames",
        value: |run, _| Some(run.totals.dropped_frames as f64),
        format: |frames| group_thousands(frames as u64),
    };
    /// PFC frames that the switches sent.
    pub(crate) const PFC_FRAMES: Self = Self {
        title: "PFC frames",
        name: "pfc_tx_frames",
        value: |run, _| Some(run.totals.pfc_tx_frames as f64),
        format: |frames| group_thousands(frames as u64),
    };
    /// Frames that the switches marked CE.
    pub(crate) const MARKED_FRAMES: Self = Self {
        title: "Marked",
        name: "ecn_marked_frames",
        value: |run, _| Some(run.totals.ecn_marked_frames as f64),
        format: |frames| group_thousands(frames as u64),
    };
    /// Share of the data packets that arrived marked CE.
    pub(crate) const ECN_MARKED_RATIO: Self = Self {
        title: "ECN-marked",
        name: "ecn_marked_ratio",
        value: |run, _| ratio_to_data_packets(run, run.totals.ce_marked_packets),
        format: |ratio| format_percent(Some(ratio)),
    };
    /// Share of the data packets that arrived out of order.
    pub(crate) const OUT_OF_ORDER_RATIO: Self = Self {
        title: "Reordered",
        name: "out_of_order_ratio",
        value: |run, _| ratio_to_data_packets(run, run.totals.out_of_order_packets),
        format: |ratio| format_percent(Some(ratio)),
    };
}

/// Returns the ratio of `packets` to all data packets that arrived at hosts.
fn ratio_to_data_packets(run: &RunMeasurements, packets: u64) -> Option<f64> {
    let all = run.totals.data_packets;
    (all > 0).then(|| round_to_six_decimals(packets as f64 / all as f64))
}

impl MeasurementColumn {
    /// Returns the smallest value, the median and the largest value of this figure. The median is one of the values.
    /// For an even number of values, it is the lower of the two middle values, and for a bandwidth the upper one. The
    /// median of a bandwidth then belongs to the same run as the median of the completion time. Returns `None` for an
    /// empty list.
    pub(crate) fn min_median_max(&self, values: impl Iterator<Item = f64>) -> Option<[f64; 3]> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = match self.falls_with_time() {
            true => values.len() / 2,
            false => (values.len() - 1) / 2,
        };
        Some([min, values[middle], max])
    }

    /// Returns whether the figure is smaller in a run that takes longer.
    fn falls_with_time(&self) -> bool {
        let bandwidths = [Self::BUS_BANDWIDTH, Self::PERCENT_OF_ONE_SWITCH, Self::GOODPUT];
        bandwidths.iter().any(|column| column.name == self.name)
    }
}

/// Formats the median and the range of a figure as `median [smallest, largest]`. If the formatted numbers are
/// equal, only one number is printed. Without values, the text is `-`.
pub(crate) fn format_median_and_range(min_median_max: Option<[f64; 3]>, format: fn(f64) -> String) -> String {
    match min_median_max {
        None => "-".to_owned(),
        Some([min, median, max]) => {
            let (low, middle, high) = (format(min), format(median), format(max));
            match low == high {
                true => middle,
                false => format!("{middle} [{low}, {high}]"),
            }
        }
    }
}

/// Formats a text as a field of a CSV file (RFC 4180).
pub(crate) fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_time_and_bandwidth_belong_to_the_same_run() {
        let times = [1.0, 2.0, 4.0, 8.0];
        let time = MeasurementColumn::JCT.min_median_max(times.into_iter());
        let bandwidth =
            MeasurementColumn::BUS_BANDWIDTH.min_median_max(times.map(|time| 8.0 / time).into_iter());
        assert_eq!((time, bandwidth), (Some([1.0, 2.0, 8.0]), Some([1.0, 4.0, 8.0])));
        let odd = MeasurementColumn::GOODPUT.min_median_max([3.0, 1.0, 2.0].into_iter());
        assert_eq!(odd, Some([1.0, 2.0, 3.0]));
        assert_eq!(MeasurementColumn::JCT.min_median_max(std::iter::empty()), None);
    }

    #[test]
    fn ratios_are_relative_to_data_packets() {
        let mut figures = RunMeasurements::default();
        assert_eq!(ratio_to_data_packets(&figures, 5), None);
        figures.totals.data_packets = 200;
        assert_eq!(ratio_to_data_packets(&figures, 5), Some(0.025));
    }
}
