//! The figures of a comparison.

use super::super::sweep::{FigureColumn, RunFigures, round_to_six_decimals};
use crate::report::Report;
use xoff_telemetry::{
    format_bit_rate, format_gbytes_per_second, format_nanos, format_percent, group_thousands,
};

/// The figures in the order of the columns of the table. `docs/compare.md` defines them.
pub(super) const KPIS: [FigureColumn; 14] = [
    FigureColumn {
        title: "Busbw GB/s",
        name: "bus_bandwidth_gbytes_per_s",
        value: |_, job| job?.bus_bandwidth_gbytes_per_s,
        format: format_gbytes_per_second,
    },
    FigureColumn {
        title: "Goodput",
        name: "goodput_bps",
        value: |run, _| (run.totals.sent_frames > 0).then_some(run.goodput_bps as f64),
        format: |bps| format_bit_rate(bps as u64),
    },
    FigureColumn {
        title: "% of one switch",
        name: "percent_of_one_switch",
        value: |run, job| match job {
            Some(job) => job.percent_of_one_switch,
            None => run.percent_of_one_switch,
        },
        format: |percent| format!("{percent:.1}"),
    },
    FigureColumn {
        title: "JCT",
        name: "jct_ns",
        value: |_, job| job?.jct_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    },
    FigureColumn {
        title: "JCT ratio",
        name: "jct_ratio",
        value: |_, job| job?.jct_ratio,
        format: |ratio| format!("{ratio:.3}"),
    },
    FigureColumn {
        title: "P99.9 slowdown",
        name: "slowdown_p999",
        value: |_, job| job?.slowdown_p999,
        format: |slowdown| format!("{slowdown:.2}"),
    },
    FigureColumn {
        title: "P99.9 message",
        name: "message_latency_p999_ns",
        value: |_, job| job?.message_latency_p999_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    },
    FigureColumn {
        title: "P99.9 frame",
        name: "frame_latency_p999_ns",
        value: |run, _| run.frame_latency_p999_ns.map(|ns| ns as f64),
        format: |ns| format_nanos(ns as u64),
    },
    FigureColumn {
        title: "Max/mean",
        name: "link_max_mean_ratio",
        value: |run, _| run.link_max_mean_ratio,
        format: |ratio| format!("{ratio:.2}"),
    },
    FigureColumn {
        title: "Jain",
        name: "link_jain_index",
        value: |run, _| run.link_jain_index,
        format: |index| format!("{index:.3}"),
    },
    FigureColumn {
        title: "Paused",
        name: "pausing_ns",
        value: |run, _| Some(run.totals.pausing_ns as f64),
        format: |ns| format_nanos(ns as u64),
    },
    FigureColumn {
        title: "ECN-marked",
        name: "ecn_marked_ratio",
        value: |run, _| ratio_to_data_packets(run, run.totals.ce_marked_packets),
        format: |ratio| format_percent(Some(ratio)),
    },
    FigureColumn {
        title: "Reordered",
        name: "out_of_order_ratio",
        value: |run, _| ratio_to_data_packets(run, run.totals.out_of_order_packets),
        format: |ratio| format_percent(Some(ratio)),
    },
    FigureColumn {
        title: "Drops",
        name: "dropped_frames",
        value: |run, _| Some(run.totals.dropped_frames as f64),
        format: |frames| group_thousands(frames as u64),
    },
];

/// A named figure of a run or of one of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFigure {
    /// Name of the job. `None`: the figure applies to the whole run.
    pub job: Option<String>,
    /// Name of the figure, as in `docs/compare.md`.
    pub name: &'static str,
    /// Value of the figure, in the unit of its name.
    pub value: f64,
}

/// Returns all figures of a run, except figures relative to a second run.
pub fn figures_of_report(report: &Report) -> Vec<NamedFigure> {
    let run = RunFigures::of_report(0, Vec::new(), report);
    let mut figures = Vec::new();
    for column in &KPIS {
        let run_value = (column.value)(&run, None);
        let figure_of = |job: Option<String>| {
            move |value: f64| NamedFigure {
                job,
                name: column.name,
                value,
            }
        };
        figures.extend(run_value.map(figure_of(None)));
        if run_value.is_none() {
            let job_figures = run.jobs.iter().filter_map(|job| {
                let value = (column.value)(&run, Some(job))?;
                Some(figure_of(Some(job.name.clone()))(value))
            });
            figures.extend(job_figures);
        }
    }
    figures
}

/// Returns the ratio of `packets` to all data packets that arrived at hosts.
fn ratio_to_data_packets(run: &RunFigures, packets: u64) -> Option<f64> {
    let all = run.totals.data_packets;
    (all > 0).then(|| round_to_six_decimals(packets as f64 / all as f64))
}

/// Sets the percentages of a run and of its jobs relative to the run on one switch.
pub(super) fn set_percent_of_one_switch(run: &mut RunFigures, one_switch: &RunFigures) {
    let percent = |part: f64, whole: f64| (whole > 0.0).then(|| round_to_six_decimals(100.0 * part / whole));
    run.percent_of_one_switch = percent(run.goodput_bps as f64, one_switch.goodput_bps as f64);
    for (job, reference) in run.jobs.iter_mut().zip(&one_switch.jobs) {
        let bandwidths = (
            job.bus_bandwidth_gbytes_per_s,
            reference.bus_bandwidth_gbytes_per_s,
        );
        job.percent_of_one_switch = match bandwidths {
            (Some(bandwidth), Some(reference)) => percent(bandwidth, reference),
            _ => match (job.jct_ns, reference.jct_ns) {
                (Some(jct_ns), Some(reference_ns)) => percent(reference_ns as f64, jct_ns as f64),
                _ => None,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sweep::JobFigures;
    use super::*;

    fn run_figures(goodput_bps: u64, busbw: Option<f64>, jct_ns: Option<u64>) -> RunFigures {
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
    fn percentages_compare_bandwidths_or_completion_times() {
        for (run, one_switch, expected) in [
            (
                run_figures(0, Some(6.0), Some(9)),
                run_figures(0, Some(12.0), Some(5)),
                Some(50.0),
            ),
            (
                run_figures(0, None, Some(400)),
                run_figures(0, None, Some(100)),
                Some(25.0),
            ),
            (run_figures(0, None, None), run_figures(0, None, Some(100)), None),
            (run_figures(0, None, Some(100)), run_figures(0, None, None), None),
        ] {
            let mut run = run;
            set_percent_of_one_switch(&mut run, &one_switch);
            assert_eq!(run.jobs[0].percent_of_one_switch, expected);
            assert_eq!(run.percent_of_one_switch, None);
        }
        let mut open_loop = run_figures(90, None, None);
        set_percent_of_one_switch(&mut open_loop, &run_figures(100, None, None));
        assert_eq!(open_loop.percent_of_one_switch, Some(90.0));
    }

    #[test]
    fn ratios_are_relative_to_data_packets() {
        let mut figures = RunFigures::default();
        assert_eq!(ratio_to_data_packets(&figures, 5), None);
        figures.totals.data_packets = 200;
        assert_eq!(ratio_to_data_packets(&figures, 5), Some(0.025));
    }
}
