//! The figures of a comparison: measured quantities, such as the job completion time.

use super::super::sweep::{MeasurementColumn, RunMeasurements, round_to_six_decimals};
use crate::report::Report;

/// The figures, in the order of the table columns. `docs/compare.md` defines them.
pub(super) const KPIS: [MeasurementColumn; 14] = [
    MeasurementColumn::BUS_BANDWIDTH,
    MeasurementColumn::GOODPUT,
    MeasurementColumn::PERCENT_OF_ONE_SWITCH,
    MeasurementColumn::JCT,
    MeasurementColumn::JCT_RATIO,
    MeasurementColumn::SLOWDOWN_P999,
    MeasurementColumn::MESSAGE_LATENCY_P999,
    MeasurementColumn::FRAME_LATENCY_P999,
    MeasurementColumn::LINK_MAX_MEAN_RATIO,
    MeasurementColumn::LINK_JAIN_INDEX,
    MeasurementColumn::PAUSING_TIME,
    MeasurementColumn::ECN_MARKED_RATIO,
    MeasurementColumn::OUT_OF_ORDER_RATIO,
    MeasurementColumn::DROPPED_FRAMES,
];

/// A named figure of a run or of one of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRunMeasurement {
    /// Name of the job. `None`: the figure applies to the whole run.
    pub job: Option<String>,
    /// Name of the figure, as in `docs/compare.md`.
    pub name: &'static str,
    /// Value of the figure. The end of the name gives the unit, such as `_ns`.
    pub value: f64,
}

/// Returns all figures of a run, in the order of the table columns. Figures that compare the run with a
/// second run are left out, such as the percentage of a single switch. Missing figures are also left out.
pub fn measurements_of_report(report: &Report) -> Vec<NamedRunMeasurement> {
    let run = RunMeasurements::of_report(0, Vec::new(), report);
    let mut figures = Vec::new();
    for column in &KPIS {
        let run_value = (column.value)(&run, None);
        let figure_of = |job: Option<String>| {
            move |value: f64| NamedRunMeasurement {
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

/// Computes the percentages of a run and of its jobs. The run with a single switch, `one_switch`, is 100 %.
pub(super) fn set_single_switch_percentages(run: &mut RunMeasurements, one_switch: &RunMeasurements) {
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
    use super::super::super::sweep::JobMeasurements;
    use super::*;

    fn run_figures(goodput_bps: u64, busbw: Option<f64>, jct_ns: Option<u64>) -> RunMeasurements {
        RunMeasurements {
            goodput_bps,
            jobs: vec![JobMeasurements {
                bus_bandwidth_gbytes_per_s: busbw,
                jct_ns,
                ..JobMeasurements::default()
            }],
            ..RunMeasurements::default()
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
            set_single_switch_percentages(&mut run, &one_switch);
            assert_eq!(run.jobs[0].percent_of_one_switch, expected);
            assert_eq!(run.percent_of_one_switch, None);
        }
        let mut open_loop = run_figures(90, None, None);
        set_single_switch_percentages(&mut open_loop, &run_figures(100, None, None));
        assert_eq!(open_loop.percent_of_one_switch, Some(90.0));
    }
}
