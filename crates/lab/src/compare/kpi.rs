//! The figures of a comparison.

use super::super::sweep::{Column, RunFigures, rounded};
use crate::report::Report;
use xoff_telemetry::{
    format_bit_rate, format_gbytes_per_second, format_nanos, format_percent, group_thousands,
};

/// In the order of the table. `docs/compare.md` defines them.
pub(super) const KPIS: [Column; 14] = [
    Column {
        title: "Busbw GB/s",
        name: "bus_bandwidth_gbytes_per_s",
        value: |_, job| job?.bus_bandwidth_gbytes_per_s,
        show: format_gbytes_per_second,
    },
    Column {
        title: "Goodput",
        name: "goodput_bps",
        value: |run, _| (run.totals.sent_frames > 0).then_some(run.goodput_bps as f64),
        show: |bps| format_bit_rate(bps as u64),
    },
    Column {
        title: "% of one switch",
        name: "percent_of_one_switch",
        value: |run, job| match job {
            Some(job) => job.percent_of_one_switch,
            None => run.percent_of_one_switch,
        },
        show: |percent| format!("{percent:.1}"),
    },
    Column {
        title: "JCT",
        name: "jct_ns",
        value: |_, job| job?.jct_ns.map(|ns| ns as f64),
        show: |ns| format_nanos(ns as u64),
    },
    Column {
        title: "JCT ratio",
        name: "jct_ratio",
        value: |_, job| job?.jct_ratio,
        show: |ratio| format!("{ratio:.3}"),
    },
    Column {
        title: "P99.9 slowdown",
        name: "slowdown_p999",
        value: |_, job| job?.slowdown_p999,
        show: |slowdown| format!("{slowdown:.2}"),
    },
    Column {
        title: "P99.9 message",
        name: "message_latency_p999_ns",
        value: |_, job| job?.message_latency_p999_ns.map(|ns| ns as f64),
        show: |ns| format_nanos(ns as u64),
    },
    Column {
        title: "P99.9 frame",
        name: "frame_latency_p999_ns",
        value: |run, _| run.frame_latency_p999_ns.map(|ns| ns as f64),
        show: |ns| format_nanos(ns as u64),
    },
    Column {
        title: "Max/mean",
        name: "link_max_mean_ratio",
        value: |run, _| run.link_max_mean_ratio,
        show: |ratio| format!("{ratio:.2}"),
    },
    Column {
        title: "Jain",
        name: "link_jain_index",
        value: |run, _| run.link_jain_index,
        show: |index| format!("{index:.3}"),
    },
    Column {
        title: "Paused",
        name: "pausing_ns",
        value: |run, _| Some(run.totals.pausing_ns as f64),
        show: |ns| format_nanos(ns as u64),
    },
    Column {
        title: "ECN-marked",
        name: "ecn_marked_ratio",
        value: |run, _| of_data(run, run.totals.ce_marked_packets),
        show: |ratio| format_percent(Some(ratio)),
    },
    Column {
        title: "Reordered",
        name: "out_of_order_ratio",
        value: |run, _| of_data(run, run.totals.out_of_order_packets),
        show: |ratio| format_percent(Some(ratio)),
    },
    Column {
        title: "Drops",
        name: "dropped_frames",
        value: |run, _| Some(run.totals.dropped_frames as f64),
        show: |frames| group_thousands(frames as u64),
    },
];

/// A figure of a run by its name in files, of a job or of the run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFigure {
    /// The job; `None`: the figure is of the run.
    pub job: Option<String>,
    /// Its name in `docs/compare.md`.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// All figures that a run has, but for those that take a second run to compare with.
pub fn figures_of(report: &Report) -> Vec<NamedFigure> {
    let run = RunFigures::new(0, Vec::new(), report);
    let mut figures = Vec::new();
    for column in &KPIS {
        let whole = (column.value)(&run, None);
        let named = |job: Option<String>| {
            move |value: f64| NamedFigure {
                job,
                name: column.name,
                value,
            }
        };
        figures.extend(whole.map(named(None)));
        if whole.is_none() {
            let of_jobs = run.jobs.iter().filter_map(|job| {
                let value = (column.value)(&run, Some(job))?;
                Some(named(Some(job.name.clone()))(value))
            });
            figures.extend(of_jobs);
        }
    }
    figures
}

/// Of the packets with data that arrived at hosts.
fn of_data(run: &RunFigures, packets: u64) -> Option<f64> {
    let all = run.totals.data_packets;
    (all > 0).then(|| rounded(packets as f64 / all as f64))
}

/// Enters how a run compares with one on one switch.
pub(super) fn compare(run: &mut RunFigures, one: &RunFigures) {
    let percent = |part: f64, whole: f64| (whole > 0.0).then(|| rounded(100.0 * part / whole));
    run.percent_of_one_switch = percent(run.goodput_bps as f64, one.goodput_bps as f64);
    for (job, one) in run.jobs.iter_mut().zip(&one.jobs) {
        let bandwidths = (job.bus_bandwidth_gbytes_per_s, one.bus_bandwidth_gbytes_per_s);
        job.percent_of_one_switch = match bandwidths {
            (Some(here), Some(there)) => percent(here, there),
            _ => match (job.jct_ns, one.jct_ns) {
                (Some(here), Some(there)) => percent(there as f64, here as f64),
                _ => None,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sweep::JobFigures;
    use super::*;

    fn run(goodput_bps: u64, busbw: Option<f64>, jct_ns: Option<u64>) -> RunFigures {
        RunFigures {
            goodput_bps,
            jobs: vec![JobFigures {
                bus_bandwidth_gbytes_per_s: busbw,
                jct_ns,
                ..JobFigures::default()
            }],
            ..RunFigures::default()
        }
    }

    #[test]
    fn percentages_are_of_bandwidths_or_of_times() {
        for (here, there, expected) in [
            (
                run(0, Some(6.0), Some(9)),
                run(0, Some(12.0), Some(5)),
                Some(50.0),
            ),
            (run(0, None, Some(400)), run(0, None, Some(100)), Some(25.0)),
            (run(0, None, None), run(0, None, Some(100)), None),
            (run(0, None, Some(100)), run(0, None, None), None),
        ] {
            let mut here = here;
            compare(&mut here, &there);
            assert_eq!(here.jobs[0].percent_of_one_switch, expected);
            assert_eq!(here.percent_of_one_switch, None);
        }
        let mut open = run(90, None, None);
        compare(&mut open, &run(100, None, None));
        assert_eq!(open.percent_of_one_switch, Some(90.0));
    }

    #[test]
    fn ratios_are_of_packets_with_data() {
        let mut figures = RunFigures::default();
        assert_eq!(of_data(&figures, 5), None);
        figures.totals.data_packets = 200;
        assert_eq!(of_data(&figures, 5), Some(0.025));
    }
}
