//! Writes the plots of a comparison.

use std::path::Path;

use super::report::{CompareReport, ComparisonRow};
use super::table::last_path_segment;
use super::variants::LOAD_BALANCING;
use crate::plot::{
    self, BarPanel, ChartBar, RunTimeline, write_link_plot, write_queue_and_pause_plots, write_time_bars,
};
use xoff_telemetry::failure::Failure;

pub(super) use plot::create_folder;

/// Writes the plots of a comparison: `jct.svg` (job completion times), `links.svg` (link loads), and
/// `SCHEME-queues.svg` and `SCHEME-pauses.svg` for each scheme. All plots over time show the run with the
/// first seed.
///
/// # Errors
/// Fails if a file cannot be written.
pub(super) fn write_plots(
    folder: &Path,
    report: &CompareReport,
    timelines: &[Option<RunTimeline>],
) -> Result<(), Failure> {
    let panels = job_panels(report);
    if !panels.is_empty() {
        write_time_bars(
            &folder.join("jct.svg"),
            &panels,
            &compared_field_label(report),
            "Job completion time",
        )?;
    }
    let mut runs: Vec<(String, &RunTimeline)> = Vec::new();
    for (run, timeline) in report.runs.iter().zip(timelines) {
        let Some(timeline) = timeline else { continue };
        let name = label_with_values(
            report,
            run.scheme.as_deref().unwrap_or_default(),
            &run.figures.values,
        );
        let title = format!("{}, {name}, seed {}", report.lab, run.figures.seed);
        write_queue_and_pause_plots(folder, &format!("{}-", file_name_part(&name)), &title, timeline)?;
        runs.push((title, timeline));
    }
    match runs.is_empty() {
        true => Ok(()),
        false => write_link_plot(&folder.join("links.svg"), &runs),
    }
}

/// Creates a panel of bars for each job and combination of values.
fn job_panels(report: &CompareReport) -> Vec<BarPanel> {
    let mut panels: Vec<(Option<&str>, &[String], BarPanel)> = Vec::new();
    for row in report.rows.iter().filter(|row| row.job.is_some()) {
        let job = row.job.as_deref();
        let known = panels
            .iter()
            .position(|(panel_job, values, _)| *panel_job == job && *values == row.values);
        let at = known.unwrap_or_else(|| {
            let name = label_with_values(report, job.unwrap_or_default(), &row.values);
            let panel = BarPanel {
                title: format!("{}: {name}", report.lab),
                bars: Vec::new(),
            };
            panels.push((job, &row.values, panel));
            panels.len() - 1
        });
        panels[at].2.bars.push(jct_bar(row));
    }
    panels.into_iter().map(|(.., panel)| panel).collect()
}

fn jct_bar(row: &ComparisonRow) -> ChartBar {
    let spread = row.figures.get("jct_ns").copied().flatten();
    ChartBar {
        name: row.variant_name(),
        median_min_max: spread.map(|spread| [spread.median, spread.min, spread.max]),
        is_reference: row.scheme.is_none(),
    }
}

/// Appends the values of the parameters to a name.
fn label_with_values(report: &CompareReport, name: &str, values: &[String]) -> String {
    let mut label = name.to_owned();
    for (parameter, value) in report.parameters.iter().zip(values) {
        label.push_str(&format!(", {} {value}", last_path_segment(&parameter.path)));
    }
    label
}

/// Replaces the characters of a name that are not safe in a file name.
fn file_name_part(name: &str) -> String {
    let safe = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
        true => c,
        false => '_',
    };
    name.chars().map(safe).collect()
}

/// Returns the name of the compared field for the axes of plots.
fn compared_field_label(report: &CompareReport) -> String {
    match report.compared.path == LOAD_BALANCING {
        true => "Load-balancing scheme".to_owned(),
        false => report.compared.path.clone(),
    }
}
