//! A comparison as a table: a row for each scheme, and one for the one switch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::sweep::{JobFigures, quoted, spread, spread_text};
use super::kpi::KPIS;
use super::report::{CompareReport, ComparedRow, ComparedRun, Spread};
use xoff_telemetry::{group_thousands, simple_table};

/// Most failures that are printed.
const FAILURES_SHOWN: usize = 8;

/// The rows of one subject, whose runs these are: one for each job, or one without a job.
pub(super) fn rows(runs: &[ComparedRun]) -> Vec<ComparedRow> {
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
        .map(|name| ComparedRow {
            scheme: first.scheme.clone(),
            one_switch_for: first.one_switch_for.clone(),
            values: first.figures.values.clone(),
            job: name.map(str::to_owned),
            runs: runs.len() as u64,
            failed: failed as u64,
            figures: figures(runs, name),
        })
        .collect()
}

fn figures(runs: &[ComparedRun], name: Option<&str>) -> BTreeMap<String, Option<Spread>> {
    let job = |run: &'_ ComparedRun| -> Option<JobFigures> {
        let mut jobs = run.figures.jobs.iter();
        jobs.find(|job| Some(job.name.as_str()) == name).cloned()
    };
    KPIS.iter()
        .map(|kpi| {
            let values = runs
                .iter()
                .filter_map(|run| (kpi.value)(&run.figures, job(run).as_ref()));
            let spread = spread(values).map(|[min, median, max]| Spread { median, min, max });
            (kpi.name.to_owned(), spread)
        })
        .collect()
}

/// The table for people: median, and [smallest, largest] where seeds differ. Columns without a value are left out.
pub(super) fn render(report: &CompareReport) -> String {
    let with_jobs = report.rows.iter().filter_map(|row| row.job.as_ref());
    let with_jobs = with_jobs.collect::<std::collections::BTreeSet<_>>().len() > 1;
    let has = |name: &str| report.rows.iter().any(|row| row.figures[name].is_some());
    let shown: Vec<_> = KPIS.iter().filter(|kpi| has(kpi.name)).collect();
    let mut header: Vec<&str> = report.parameters.iter().map(|of| of.path.as_str()).collect();
    header.push(match report.compared.path == super::LOAD_BALANCING {
        true => "Scheme",
        false => last_key(&report.compared.path),
    });
    header.extend(with_jobs.then_some("Job"));
    let text_columns = header.len();
    let any_failed = report.rows.iter().any(|row| row.failed > 0);
    header.extend(any_failed.then_some("Failed"));
    header.extend(shown.iter().map(|kpi| kpi.title));
    let cells = |row: &ComparedRow| {
        let mut cells = row.values.clone();
        cells.push(row.name());
        cells.extend(with_jobs.then(|| row.job.clone().unwrap_or_default()));
        cells.extend(any_failed.then(|| format!("{} of {}", row.failed, row.runs)));
        cells.extend(shown.iter().map(|kpi| {
            let spread = row.figures[kpi.name].map(|of| [of.min, of.median, of.max]);
            // The range under the median: a terminal is not as wide as all of them.
            spread_text(spread, kpi.show).replacen(" [", "\n[", 1)
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
    text.push_str(&failures(report));
    text
}

/// The last key of a path.
pub(super) fn last_key(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn failures(report: &CompareReport) -> String {
    let failed: Vec<&ComparedRun> = report
        .runs
        .iter()
        .filter(|run| !run.figures.failures.is_empty())
        .collect();
    let mut text = String::new();
    if failed.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{} runs failed:", group_thousands(failed.len() as u64));
    for run in failed.iter().take(FAILURES_SHOWN) {
        let mut options = String::new();
        for (parameter, value) in report.parameters.iter().zip(&run.figures.values) {
            let _ = write!(options, ", {}={value}", parameter.path);
        }
        let first = run.figures.failures[0].replace('\n', "\n    ");
        let _ = writeln!(
            text,
            "  {}{options}, seed {}: {first}",
            run.name(),
            run.figures.seed
        );
    }
    if let Some(more) = failed.len().checked_sub(FAILURES_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more: see failures in --json FILE");
    }
    text
}

/// The same rows for programs: every figure with median, smallest and largest. The scheme of the one switch is empty.
pub(super) fn csv(report: &CompareReport) -> String {
    let mut header: Vec<String> = report.parameters.iter().map(|of| quoted(&of.path)).collect();
    header.extend(["scheme", "one_switch_for", "job", "runs", "failed"].map(str::to_owned));
    for kpi in &KPIS {
        header.extend(["median", "min", "max"].map(|of| format!("{}_{of}", kpi.name)));
    }
    let mut text = header.join(",");
    text.push('\n');
    for row in &report.rows {
        let mut cells: Vec<String> = row.values.iter().map(|value| quoted(value)).collect();
        cells.push(quoted(row.scheme.as_deref().unwrap_or_default()));
        cells.push(quoted(row.one_switch_for.as_deref().unwrap_or_default()));
        cells.push(quoted(row.job.as_deref().unwrap_or_default()));
        cells.push(row.runs.to_string());
        cells.push(row.failed.to_string());
        for kpi in &KPIS {
            match row.figures[kpi.name] {
                Some(of) => cells.extend([of.median, of.min, of.max].map(|value| value.to_string())),
                None => cells.extend([const { String::new() }; 3]),
            }
        }
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
