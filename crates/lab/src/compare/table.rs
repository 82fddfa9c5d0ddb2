//! Formats the tables of a comparison. A table has a row for each scheme and a row for the lab with a
//! single switch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::sweep::{JobMeasurements, csv_field, format_median_and_range};
use super::figures::KPIS;
use super::report::{CompareReport, ComparisonRow, ComparisonRun, MedianAndRange};
use xoff_telemetry::{count_noun, format_nanos, group_thousands, simple_table};

/// Largest number of failed or tainted runs that are printed.
const RUNS_SHOWN_MAX: usize = 8;

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
            let figure = kpi
                .min_median_max(values)
                .map(|[min, median, max]| MedianAndRange { median, min, max });
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
    text.push_str(&format_taints(report));
    text.push_str(&format_runs_without_traffic(report));
    text
}

/// Returns the last key of a path.
pub(super) fn last_path_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn format_failures(report: &CompareReport) -> String {
    let runs = report
        .runs
        .iter()
        .filter_map(|run| Some((run, run.figures.failures.first()?.clone())));
    format_runs_with_reasons(report, "failed", runs.collect())
}

/// Formats the tainted runs, each with its first cause.
fn format_taints(report: &CompareReport) -> String {
    let runs = report.runs.iter().filter_map(|run| {
        let first = run.taints.first()?;
        let mut cause = format!("at {}: {}", format_nanos(first.since_ns), first.cause);
        if run.taints.len() > 1 {
            let _ = write!(cause, "; {} in all", count_noun(run.taints.len() as u64, "cause"));
        }
        Some((run, cause))
    });
    format_runs_with_reasons(
        report,
        "tainted, so the comparison proves nothing",
        runs.collect(),
    )
}

fn format_runs_without_traffic(report: &CompareReport) -> String {
    let runs = report.runs.iter().filter(|run| run.figures.without_traffic);
    let runs = runs.map(|run| (run, "no frame was offered, or none arrived".to_owned()));
    format_runs_with_reasons(report, "without traffic, which proves nothing", runs.collect())
}

/// Formats a paragraph with one line for each of `runs`: its variant, its seed and the reason. `state` follows the
/// number of the runs. Returns an empty text without runs.
fn format_runs_with_reasons(
    report: &CompareReport,
    state: &str,
    runs: Vec<(&ComparisonRun, String)>,
) -> String {
    let mut text = String::new();
    if runs.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{} {state}:", count_noun(runs.len() as u64, "run"));
    for (run, reason) in runs.iter().take(RUNS_SHOWN_MAX) {
        let mut options = String::new();
        for (parameter, value) in report.parameters.iter().zip(&run.figures.values) {
            let _ = write!(options, ", {}={value}", parameter.path);
        }
        let reason = reason.replace('\n', "\n    ");
        let _ = writeln!(
            text,
            "  {}{options}, seed {}: {reason}",
            run.variant_name(),
            run.figures.seed
        );
    }
    if let Some(more) = runs.len().checked_sub(RUNS_SHOWN_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more: see runs in --json FILE");
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

#[cfg(test)]
mod tests {
    use xoff_telemetry::Taint;

    use super::super::super::sweep::{RunMeasurements, VariedField};
    use super::super::report::COMPARE_SCHEMA;
    use super::*;

    fn run(scheme: &str, seed: u64) -> ComparisonRun {
        ComparisonRun {
            scheme: Some(scheme.to_owned()),
            one_switch_for: None,
            tainted: false,
            taints: Vec::new(),
            figures: RunMeasurements {
                seed,
                values: vec!["4".to_owned()],
                ..RunMeasurements::default()
            },
        }
    }

    fn report(runs: Vec<ComparisonRun>) -> CompareReport {
        let field = |path: &str| VariedField {
            path: path.to_owned(),
            values: Vec::new(),
        };
        CompareReport {
            schema: COMPARE_SCHEMA.to_owned(),
            xoff_version: String::new(),
            lab: "x".to_owned(),
            lab_crc32: String::new(),
            time: "real".to_owned(),
            until_ns: None,
            compared: field(super::super::LOAD_BALANCING),
            parameters: vec![field("jobs.a.qps")],
            seeds: vec![1, 2],
            warnings: Vec::new(),
            rows: Vec::new(),
            runs,
        }
    }

    #[test]
    fn runs_that_decide_the_exit_code_are_printed_with_their_reasons() {
        let taint = |since_ns, cause: &str| Taint {
            since_ns,
            cause: cause.to_owned(),
        };
        let tainted = ComparisonRun {
            tainted: true,
            taints: vec![
                taint(5_000_000, "a stall of 31.0 ms"),
                taint(6_000_000, "another stall"),
            ],
            ..run("ecmp", 1)
        };
        let mut idle = run("flowlet", 2);
        idle.figures.without_traffic = true;
        let text = render_comparison(&report(vec![tainted, run("flowlet", 1), idle]));
        for line in [
            "1 run tainted, so the comparison proves nothing:\n  \
             ecmp, jobs.a.qps=4, seed 1: at 5.00 ms: a stall of 31.0 ms; 2 causes in all\n",
            "1 run without traffic, which proves nothing:\n  \
             flowlet, jobs.a.qps=4, seed 2: no frame was offered, or none arrived\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        let clean = render_comparison(&report(vec![run("ecmp", 1)]));
        assert!(!clean.contains("proves nothing"), "{clean}");
    }

    #[test]
    fn a_long_list_of_tainted_runs_is_cut_with_their_number() {
        let runs = (1..=RUNS_SHOWN_MAX as u64 + 3).map(|seed| ComparisonRun {
            tainted: true,
            taints: vec![Taint {
                since_ns: 0,
                cause: "a stall".to_owned(),
            }],
            ..run("ecmp", seed)
        });
        let text = render_comparison(&report(runs.collect()));
        assert!(text.contains("11 runs tainted"), "{text}");
        assert!(
            text.contains("seed 8: at 0 ns: a stall\n  and 3 more: see runs in --json FILE\n"),
            "{text}"
        );
    }
}
