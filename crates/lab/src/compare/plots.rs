//! Plots of a comparison.

use std::path::Path;

use super::report::{CompareReport, ComparedRow};
use super::run::axis;
use super::table::last_key;
use crate::plot::{self, Bar, BarPanel, Watched, write_bars, write_links, write_waiting};
use xoff_telemetry::failure::Failure;

pub(super) use plot::make_folder;

/// `jct.svg`, `links.svg`, and of each scheme `SCHEME-queues.svg` and `SCHEME-pauses.svg`. What happens over time is that of the
/// first seed.
pub(super) fn write(
    folder: &Path,
    report: &CompareReport,
    watched: &[Option<Watched>],
) -> Result<(), Failure> {
    let panels = panels(report);
    if !panels.is_empty() {
        write_bars(
            &folder.join("jct.svg"),
            &panels,
            &axis(report),
            "Job completion time",
        )?;
    }
    let mut runs: Vec<(String, &Watched)> = Vec::new();
    for (run, watched) in report.runs.iter().zip(watched) {
        let Some(watched) = watched else { continue };
        let name = label(
            report,
            run.scheme.as_deref().unwrap_or_default(),
            &run.figures.values,
        );
        let title = format!("{}, {name}, seed {}", report.lab, run.figures.seed);
        write_waiting(folder, &format!("{}-", in_file(&name)), &title, watched)?;
        runs.push((title, watched));
    }
    match runs.is_empty() {
        true => Ok(()),
        false => write_links(&folder.join("links.svg"), &runs),
    }
}

/// A panel for each job and combination of values.
fn panels(report: &CompareReport) -> Vec<BarPanel> {
    let mut panels: Vec<(Option<&str>, &[String], BarPanel)> = Vec::new();
    for row in report.rows.iter().filter(|row| row.job.is_some()) {
        let job = row.job.as_deref();
        let known = panels
            .iter()
            .position(|(of, values, _)| *of == job && *values == row.values);
        let at = known.unwrap_or_else(|| {
            let what = label(report, job.unwrap_or_default(), &row.values);
            let panel = BarPanel {
                title: format!("{}: {what}", report.lab),
                bars: Vec::new(),
            };
            panels.push((job, &row.values, panel));
            panels.len() - 1
        });
        panels[at].2.bars.push(bar(row));
    }
    panels.into_iter().map(|(.., panel)| panel).collect()
}

fn bar(row: &ComparedRow) -> Bar {
    let spread = row.figures.get("jct_ns").copied().flatten();
    Bar {
        name: row.name(),
        spread: spread.map(|of| [of.median, of.min, of.max]),
        reference: row.scheme.is_none(),
    }
}

/// A name with the values that it has beside it.
fn label(report: &CompareReport, name: &str, values: &[String]) -> String {
    let mut label = name.to_owned();
    for (parameter, value) in report.parameters.iter().zip(values) {
        label.push_str(&format!(", {} {value}", last_key(&parameter.path)));
    }
    label
}

/// A name as part of a file's.
fn in_file(name: &str) -> String {
    let safe = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
        true => c,
        false => '_',
    };
    name.chars().map(safe).collect()
}
