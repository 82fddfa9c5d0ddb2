//! Formats the table of a sweep. For each combination of values, each job has one row. A cell has the median
//! and the range of a figure (a measured quantity) over all seeds.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::figure_column::{MeasurementColumn, csv_field, format_median_and_range};
use super::report::{JobMeasurements, RunMeasurements, SweepReport};
use xoff_telemetry::{count_noun, simple_table};

/// Largest number of failed runs that are printed.
const FAILURES_SHOWN_MAX: usize = 8;

/// The figures of the table, in the order of its columns.
const COLUMNS: [MeasurementColumn; 11] = [
    MeasurementColumn::JCT,
    MeasurementColumn::JCT_RATIO,
    MeasurementColumn::BUS_BANDWIDTH,
    MeasurementColumn::SLOWDOWN_P99,
    MeasurementColumn::FLOW_JAIN_INDEX,
    MeasurementColumn::GOODPUT,
    MeasurementColumn::LOST_FRAMES,
    MeasurementColumn::MODEL_TIME,
    MeasurementColumn::DROPPED_FRAMES,
    MeasurementColumn::PFC_FRAMES,
    MeasurementColumn::MARKED_FRAMES,
];

/// A row of the table: the runs of one combination of values, and the index of one job.
struct SweepRow<'a> {
    runs: &'a [RunMeasurements],
    job: Option<usize>,
}

impl SweepRow<'_> {
    fn job_of<'b>(&self, run: &'b RunMeasurements) -> Option<&'b JobMeasurements> {
        run.jobs.get(self.job?)
    }

    fn job_name(&self) -> &str {
        self.runs
            .iter()
            .find_map(|run| self.job_of(run))
            .map_or("-", |job| job.name.as_str())
    }

    fn failed_runs(&self) -> usize {
        self.runs.iter().filter(|run| !run.failures.is_empty()).count()
    }

    /// Returns the smallest value, the median and the largest value over the seeds.
    fn min_median_max(&self, column: &MeasurementColumn) -> Option<[f64; 3]> {
        let runs = self.runs.iter();
        column.min_median_max(runs.filter_map(|run| (column.value)(run, self.job_of(run))))
    }
}

/// Returns the rows in the order of the runs and jobs. The seed changes fastest, so the runs of a combination
/// follow each other.
fn sweep_rows(sweep: &SweepReport) -> Vec<SweepRow<'_>> {
    let mut rows = Vec::new();
    for runs in sweep.runs.chunk_by(|one, next| one.values == next.values) {
        match runs.iter().map(|run| run.jobs.len()).max().unwrap_or(0) {
            0 => rows.push(SweepRow { runs, job: None }),
            jobs => rows.extend((0..jobs).map(|job| SweepRow { runs, job: Some(job) })),
        }
    }
    rows
}

/// Formats the table for a terminal. A cell shows the median. If the values differ, the cell also shows the
/// range as `[smallest, largest]`. Columns without a value are omitted.
pub(super) fn render_sweep(sweep: &SweepReport) -> String {
    let rows = sweep_rows(sweep);
    let with_jobs = rows.iter().any(|row| row.job.is_some());
    let shown: Vec<&MeasurementColumn> = COLUMNS
        .iter()
        .filter(|column| rows.iter().any(|row| row.min_median_max(column).is_some()))
        .collect();
    let mut header: Vec<&str> = sweep
        .parameters
        .iter()
        .map(|parameter| parameter.path.as_str())
        .collect();
    header.extend(with_jobs.then_some("Job"));
    let text_columns = header.len();
    header.extend(["Runs", "Failed"]);
    header.extend(shown.iter().map(|column| column.title));
    let cells = |row: &SweepRow<'_>| {
        let mut cells: Vec<String> = row.runs.first().map_or(Vec::new(), |run| run.values.clone());
        cells.extend(with_jobs.then(|| row.job_name().to_owned()));
        cells.push(row.runs.len().to_string());
        cells.push(row.failed_runs().to_string());
        cells.extend(
            shown
                .iter()
                .map(|column| format_median_and_range(row.min_median_max(column), column.format)),
        );
        cells
    };
    let mut text = format!(
        "lab {}: {}",
        sweep.lab,
        count_noun(sweep.runs.len() as u64, "run")
    );
    if let Some(shard) = sweep.shard {
        let _ = write!(
            text,
            ", part {} of {} ({} in total)",
            shard.part,
            shard.of,
            count_noun(sweep.total_runs(), "run")
        );
    }
    text.push_str("\n\n");
    text.push_str(&simple_table(
        &header,
        text_columns,
        rows.iter().map(cells).collect(),
    ));
    text.push_str(&format_failures(sweep));
    text.push_str(&format_notes_and_warnings(sweep));
    text
}

/// Formats all notes and warnings. If several runs have the same note, it is printed once, with the field
/// values of the first of these runs.
fn format_notes_and_warnings(sweep: &SweepReport) -> String {
    let mut text = String::new();
    let mut shown = HashSet::new();
    for run in &sweep.runs {
        let notes = run.notes.iter().map(|note| ("note", note));
        let warnings = run.warnings.iter().map(|warning| ("warning", warning));
        for (kind, line) in notes.chain(warnings).filter(|line| shown.insert(*line)) {
            let _ = writeln!(text, "\n{kind}: {}{line}", format_set_options(sweep, run));
        }
    }
    text
}

/// Formats the values of a run as options of the command line.
fn format_set_options(sweep: &SweepReport, run: &RunMeasurements) -> String {
    let values = sweep.parameters.iter().zip(&run.values);
    values.fold(String::new(), |mut text, (parameter, value)| {
        let _ = write!(text, "--set {}={value} ", parameter.path);
        text
    })
}

fn format_failures(sweep: &SweepReport) -> String {
    let failed: Vec<&RunMeasurements> = sweep.runs.iter().filter(|run| !run.failures.is_empty()).collect();
    let mut text = String::new();
    if failed.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{} failed:", count_noun(failed.len() as u64, "run"));
    for run in failed.iter().take(FAILURES_SHOWN_MAX) {
        let options = format_set_options(sweep, run);
        let first = run.failures[0].replace('\n', "\n    ");
        let _ = writeln!(text, "  {options}--seed {}: {first}", run.seed);
    }
    if let Some(more) = failed
        .len()
        .checked_sub(FAILURES_SHOWN_MAX)
        .filter(|more| *more > 0)
    {
        let _ = writeln!(text, "  and {more} more: see failures in --report FILE");
    }
    text
}

/// Formats the rows as CSV. Each figure has three columns: the median, the smallest value and
/// the largest value.
pub(super) fn format_csv(sweep: &SweepReport) -> String {
    let mut header: Vec<String> = sweep
        .parameters
        .iter()
        .map(|parameter| csv_field(&parameter.path))
        .collect();
    header.extend(["job", "runs", "failed"].map(str::to_owned));
    for column in &COLUMNS {
        header.extend(["median", "min", "max"].map(|suffix| format!("{}_{suffix}", column.name)));
    }
    let mut text = header.join(",");
    text.push('\n');
    for row in sweep_rows(sweep) {
        let values = row.runs.first().map_or(&[][..], |run| &run.values);
        let mut cells: Vec<String> = values.iter().map(|value| csv_field(value)).collect();
        cells.push(row.job.map_or(String::new(), |_| csv_field(row.job_name())));
        cells.push(row.runs.len().to_string());
        cells.push(row.failed_runs().to_string());
        for column in &COLUMNS {
            match row.min_median_max(column) {
                Some([min, median, max]) => cells.extend([median, min, max].map(|value| value.to_string())),
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
    use super::super::report::{SWEEP_SCHEMA, VariedField};
    use super::*;

    fn sample_sweep() -> SweepReport {
        let run = |run: u64, value: &str, seed: u64, jct_ns: Option<u64>| RunMeasurements {
            run,
            values: vec![value.to_owned()],
            seed,
            failures: match jct_ns {
                None => vec!["deadlock".to_owned()],
                Some(_) => Vec::new(),
            },
            model_time_ns: 5_000,
            jobs: vec![JobMeasurements {
                name: "reduce".to_owned(),
                jct_ns,
                bus_bandwidth_gbytes_per_s: Some(12.5),
                ..JobMeasurements::default()
            }],
            ..RunMeasurements::default()
        };
        SweepReport {
            schema: SWEEP_SCHEMA.to_owned(),
            xoff_version: "0".to_owned(),
            lab: "a".to_owned(),
            lab_crc32: "0".to_owned(),
            until_ns: None,
            events_max: 1,
            parameters: vec![VariedField {
                path: "t.congestion".to_owned(),
                values: vec!["none".to_owned(), "dcqcn".to_owned()],
            }],
            seeds: vec![1, 2, 3],
            shard: None,
            runs: vec![
                run(0, "none", 1, Some(3_000)),
                run(1, "none", 2, Some(1_000)),
                run(2, "none", 3, Some(2_000)),
                run(3, "dcqcn", 1, None),
                run(4, "dcqcn", 2, Some(1_500)),
                run(5, "dcqcn", 3, Some(1_500)),
            ],
        }
    }

    #[test]
    fn a_row_has_median_and_range_over_the_seeds() {
        let text = render_sweep(&sample_sweep());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "lab a: 6 runs");
        assert!(lines[2].starts_with("t.congestion"), "{text}");
        assert!(!text.contains("Jain") && !text.contains("Goodput"), "{text}");
        assert!(
            lines[4].contains("none") && lines[4].contains("2.00 us [1.00 us, 3.00 us]"),
            "{text}"
        );
        assert!(
            lines[5].contains("dcqcn") && lines[5].contains("1.50 us") && !lines[5].contains('['),
            "{text}"
        );
        assert!(
            text.contains("1 run failed:\n  --set t.congestion=dcqcn --seed 1: deadlock"),
            "{text}"
        );
    }

    #[test]
    fn a_warning_of_several_runs_is_shown_once() {
        let mut sweep = sample_sweep();
        for run in &mut sweep.runs[3..] {
            run.warnings = vec!["dcqcn has no effect".to_owned()];
        }
        for run in &mut sweep.runs {
            run.notes = vec!["sw1: SYSLOG_SERVER has no effect".to_owned()];
        }
        let text = render_sweep(&sweep);
        let warning = "warning: --set t.congestion=dcqcn dcqcn has no effect\n";
        assert!(text.ends_with(warning), "{text}");
        assert_eq!(text.matches("warning: ").count(), 1, "{text}");
        assert_eq!(text.matches("note: ").count(), 1, "{text}");
    }

    #[test]
    fn each_row_of_the_csv_has_all_columns() {
        let text = format_csv(&sample_sweep());
        let fields: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, [4 + 3 * COLUMNS.len(); 3]);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .starts_with("none,reduce,3,0,2000,1000,3000,,,,12.5,12.5,12.5,"),
            "{text}"
        );
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
