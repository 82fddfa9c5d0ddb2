//! Formats the tables of a comparison. A table has a row for each scheme and a row for the lab with a
//! single switch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::sweep::{JobMeasurements, csv_field, format_median_and_range, min_median_max};
use super::figures::KPIS;
use super::report::{CompareReport, ComparisonRow, ComparisonRun, MedianAndRange};
use xoff_telemetry::{count_noun, group_thousands, simple_table};

/// Largest number of failed runs that are printed.
const FAILURES_SHOWN_MAX: usize = 8;

/// Builds the rows of one variant from its runs. Each job has one row. A lab without jobs has one row
/// in total.
pub(super) fn comparison_rows(runs: &[ComparisonRun]) -> Vec<ComparisonRow> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let names: Vec<&str> = runs
        .iter()
        .map(|run| &run.figures.jobs)
        .max_by_key(|jobs| jobs.len())
        .map(|jobs| jobs.iter().map(|job| job.name.as_str()).collect())
        .unwrap_or_default();
    let jobs: Vec<Option<&str>> = match names.is_empty() {
        true => vec![None],
        false => names.into_iter().map(Some).collect(),
    };
    let failed = runs.iter().filter(|run| !run.figures.failures.is_empty()).count();
    jobs.into_iter()
        .map(|name| ComparisonRow {
            scheme: first.scheme.clone(),
            one_switch_for: first.one_switch_for.clone(),
            values: first.figures.values.clone(),
            job: name.map(str::to_owned),
            runs: runs.len() as u64,
            failed: failed as u64,
            figures: median_and_range_over_seeds(runs, name),
        })
        .collect()
}

/// Returns the median and the range of each figure over the runs of a variant. `job_name` selects the job.
fn median_and_range_over_seeds(
    runs: &[ComparisonRun],
    job_name: Option<&str>,
) -> BTreeMap<String, Option<MedianAndRange>> {
    let job = |run: &'_ ComparisonRun| -> Option<JobMeasurements> {
        let mut jobs = run.figures.jobs.iter();
        jobs.find(|job| Some(job.name.as_str()) == job_name).cloned()
    };
    KPIS.iter()
        .map(|kpi| {
            let values = runs
                .iter()
                .filter_map(|run| (kpi.value)(&run.figures, job(run).as_ref()));
            let figure = min_median_max(values).map(|[min, median, max]| MedianAndRange { median, min, max });
            (kpi.name.to_owned(), figure)
        })
        .collect()
}

/// Formats the table for a terminal. A cell shows the median. If the values differ, the cell also shows the
/// range as `[smallest, largest]`. Columns without a value are omitted.
pub(super) fn render_comparison(report: &CompareReport) -> String {
    let jobs = report.rows.iter().filter_map(|row| row.job.as_ref());
    let has_several_jobs = jobs.collect::<std::collections::BTreeSet<_>>().len() > 1;
    let has = |name: &str| report.rows.iter().any(|row| row.figures[name].is_some());
    let shown: Vec<_> = KPIS.iter().filter(|kpi| has(kpi.name)).collect();
    let mut header: Vec<&str> = report
        .parameters
        .iter()
        .map(|parameter| parameter.path.as_str())
        .collect();
    header.push(match report.compared.path == super::LOAD_BALANCING {
        true => "Scheme",
        false => last_path_segment(&report.compared.path),
    });
    header.extend(has_several_jobs.then_some("Job"));
    let text_columns = header.len();
    let any_failed = report.rows.iter().any(|row| row.failed > 0);
    header.extend(any_failed.then_some("Failed"));
    header.extend(shown.iter().map(|kpi| kpi.title));
    let cells = |row: &ComparisonRow| {
        let mut cells = row.values.clone();
        cells.push(row.variant_name());
        cells.extend(has_several_jobs.then(|| row.job.clone().unwrap_or_default()));
        cells.extend(any_failed.then(|| format!("{} of {}", row.failed, row.runs)));
        cells.extend(shown.iter().map(|kpi| {
            let figure = row.figures[kpi.name].map(|figure| [figure.min, figure.median, figure.max]);
            // The range is on a line of its own because a terminal is too narrow for one line.
            format_median_and_range(figure, kpi.format).replacen(" [", "\n[", 1)
        }));
        cells
    };
    let seeds = match report.seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        seeds => format!(
            "median [smallest, largest] of {} seeds",
            group_thousands(seeds.len() as u64)
        ),
    };
    let mut text = format!("lab {}, {} time: {seeds}\n\n", report.lab, report.time);
    let rows = report.rows.iter().map(cells).collect();
    text.push_str(&simple_table(&header, text_columns, rows));
    text.push_str(&format_failures(report));
    text
}

/// Returns the last key of a path.
pub(super) fn last_path_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn format_failures(report: &CompareReport) -> String {
    let failed: Vec<&ComparisonRun> = report
        .runs
        .iter()
        .filter(|run| !run.figures.failures.is_empty())
        .collect();
    let mut text = String::new();
    if failed.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{} failed:", count_noun(failed.len() as u64, "run"));
    for run in failed.iter().take(FAILURES_SHOWN_MAX) {
        let mut options = String::new();
        for (parameter, value) in report.parameters.iter().zip(&run.figures.values) {
            let _ = write!(options, ", {}={value}", parameter.path);
        }
        let first = run.figures.failures[0].replace('\n', "\n    ");
        let _ = writeln!(
            text,
            "  {}{options}, seed {}: {first}",
            run.variant_name(),
            run.figures.seed
        );
    }
    if let Some(more) = failed
        .len()
        .checked_sub(FAILURES_SHOWN_MAX)
        .filter(|more| *more > 0)
    {
        let _ = writeln!(text, "  and {more} more: see failures in --json FILE");
    }
    text
}

/// Formats the rows as CSV. Each figure has three columns: median, smallest and largest value. In the rows of
/// the lab with a single switch, the scheme is empty.
pub(super) fn format_csv(report: &CompareReport) -> String {
    let mut header: Vec<String> = report
        .parameters
        .iter()
        .map(|parameter| csv_field(&parameter.path))
        .collect();
    header.extend(["scheme", "one_switch_for", "job", "runs", "failed"].map(str::to_owned));
    for kpi in &KPIS {
        header.extend(["median", "min", "max"].map(|suffix| format!("{}_{suffix}", kpi.name)));
    }
    let mut text = header.join(",");
    text.push('\n');
    for row in &report.rows {
        let mut cells: Vec<String> = row.values.iter().map(|value| csv_field(value)).collect();
        cells.push(csv_field(row.scheme.as_deref().unwrap_or_default()));
        cells.push(csv_field(row.one_switch_for.as_deref().unwrap_or_default()));
        cells.push(csv_field(row.job.as_deref().unwrap_or_default()));
        cells.push(row.runs.to_string());
        cells.push(row.failed.to_string());
        for kpi in &KPIS {
            match row.figures[kpi.name] {
                Some(figure) => {
                    cells.extend([figure.median, figure.min, figure.max].map(|value| value.to_string()))
                }
                None => cells.extend([const { String::new() }; 3]),
            }
        }
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
