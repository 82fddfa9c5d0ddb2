//! Runs a comparison: arguments, execution of all runs, and output.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::lab_fields::FieldSetting;
use super::super::load_options::LoadOptions;
use super::super::sweep::{
    ParallelRunsResult, RunMeasurements, VariedField, create_progress_bar, run_in_parallel, with_run_options,
};
use super::super::virtual_run::{OutputFormat, write_result_text};
use super::figures::set_single_switch_percentages;
use super::plots;
use super::report::{COMPARE_SCHEMA, CompareReport, ComparisonRun};
use super::run_mode::ComparisonRunMode;
use super::table;
use super::variants::{ComparedField, LabVariant, build_variants};
use super::warnings::VariantWarnings;
use crate::plot::RunTimeline;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{self, MemoryLimit, Verdict, count_noun};

/// Arguments of `xoff lab compare`.
#[derive(Clone, Debug)]
pub struct CompareArgs {
    /// Path of the lab file.
    pub file: PathBuf,
    /// The field of the lab file that differs between the rows of the result table, with its values.
    pub compared: ComparedField,
    /// Other fields of the lab file with their values (`--set`). The comparison runs all combinations of the
    /// values. May be empty.
    pub settings: Vec<FieldSetting>,
    /// The seeds, at least one. Each variant of the lab runs once with each seed.
    pub seeds: Vec<u64>,
    /// The mode of the runs: virtual time or real time.
    pub run_mode: ComparisonRunMode,
    /// Format of the printed result. [`OutputFormat::Nccl`] prints the same table as [`OutputFormat::Table`].
    pub format: OutputFormat,
    /// File for the report in JSON. `None`: no file.
    pub json: Option<PathBuf>,
    /// File for the table in CSV. `None`: no file.
    pub csv: Option<PathBuf>,
    /// Folder for the plots, which is created if it does not exist. `None`: no plots.
    pub plots: Option<PathBuf>,
    /// The memory that all runs at the same time may need (`--memory`).
    pub memory: MemoryLimit,
}

/// The figures of a run, and its timeline if it was recorded.
type RunWithTimeline = (ComparisonRun, Option<RunTimeline>);

/// Runs a comparison, writes the table to `out` and writes the requested files. If `stop` becomes true, the
/// comparison ends early without a result. Returns the exit code: "inconclusive" if the machine disturbed a
/// run, so that the run proves nothing. Otherwise "check failed" if a run failed, "inconclusive" if a run had no
/// traffic, or success.
///
/// # Errors
/// Fails before the first run if the lab or a scheme is invalid. Later, fails if a run cannot be set up or a
/// file cannot be written.
pub fn run_compare(
    arguments: &CompareArgs,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let CompareArgs {
        file,
        seeds,
        run_mode,
        ..
    } = arguments;
    let comparison = build_variants(
        file,
        &arguments.compared,
        &arguments.settings,
        LoadOptions {
            time: run_mode.time_mode(),
            memory: arguments.memory.divided_by(run_mode.parallel_runs()),
        },
        seeds.len(),
    )?;
    if let Some(folder) = &arguments.plots {
        plots::create_folder("--plots", folder)?;
    }
    let variants = Arc::new(comparison.variants);
    let count = variants.len() * seeds.len();
    let bar = create_progress_bar(count);
    let (shared, run_seeds, plots) = (Arc::clone(&variants), seeds.clone(), arguments.plots.is_some());
    let (mode, path) = (run_mode.clone(), file.clone());
    let work = move |run: usize| {
        let variant = &shared[run / run_seeds.len()];
        let seed = run_seeds[run % run_seeds.len()];
        let records_timeline = plots && run.is_multiple_of(run_seeds.len());
        run_variant(&mode, variant, run as u64, seed, records_timeline)
            .map_err(|failure| with_run_options(failure, &path, &variant.fields, seed))
    };
    let pooled = run_in_parallel(count, run_mode.parallel_runs(), work, stop, |done| {
        bar.set_position(done as u64)
    })?;
    bar.finish_and_clear();
    let runs = match pooled {
        ParallelRunsResult::Done(runs) => runs,
        ParallelRunsResult::Interrupted(done) => {
            log::error!(
                "interrupted after {done} of {}; no file was written",
                count_noun(count as u64, "run")
            );
            return Ok(Exit::Interrupted.into());
        }
    };
    let (mut runs, timelines): (Vec<ComparisonRun>, Vec<Option<RunTimeline>>) = runs.into_iter().unzip();
    set_percentages_of_runs(&variants, &mut runs, seeds.len());
    let mut report = report_without_runs(arguments, &comparison.text, &variants);
    report.warnings = comparison.warnings;
    let mut warnings = VariantWarnings::default();
    for (variant, runs) in variants.iter().zip(runs.chunks(seeds.len())) {
        report.rows.extend(table::comparison_rows(runs));
        warnings.add(variant, runs);
    }
    report.warnings.extend(warnings.into_lines());
    report.runs = runs;
    print_and_write(arguments, &report, timelines, out)
}

/// Runs one variant of the lab with one seed. If the reference lab with a single switch cannot be set up,
/// returns a failed run, so that the comparison continues.
fn run_variant(
    run_mode: &ComparisonRunMode,
    variant: &LabVariant,
    run: u64,
    seed: u64,
    records_timeline: bool,
) -> Result<RunWithTimeline, Failure> {
    let records_timeline = records_timeline && variant.scheme.is_some();
    let (figures, taints, timeline) = match run_mode.run(variant.plan.clone(), seed, records_timeline) {
        Ok((report, timeline)) => (
            RunMeasurements::of_report(run, variant.values.clone(), &report),
            report.taints,
            timeline,
        ),
        Err(failure) if variant.scheme.is_some() => return Err(failure),
        Err(failure) => {
            let figures = RunMeasurements {
                run,
                values: variant.values.clone(),
                seed,
                failures: vec![failure.to_string()],
                ..RunMeasurements::default()
            };
            (figures, Vec::new(), None)
        }
    };
    let run = ComparisonRun {
        scheme: variant.scheme.clone(),
        one_switch_for: variant.one_switch_for.clone(),
        tainted: !taints.is_empty(),
        taints,
        figures,
    };
    Ok((run, timeline))
}

/// Computes the percentages of each run. The run with a single switch and the same seed is 100 %.
fn set_percentages_of_runs(variants: &[LabVariant], runs: &mut [ComparisonRun], seed_count: usize) {
    for (index, variant) in variants.iter().enumerate() {
        let Some(one_switch) = variant.one_switch else {
            continue;
        };
        for seed in 0..seed_count {
            let reference = runs[one_switch * seed_count + seed].figures.clone();
            set_single_switch_percentages(&mut runs[index * seed_count + seed].figures, &reference);
        }
    }
}

/// Creates a report that contains only the options of the comparison. Rows and runs are added later. `text`
/// is the content of the lab file.
fn report_without_runs(arguments: &CompareArgs, text: &str, variants: &[LabVariant]) -> CompareReport {
    let parameter = |setting: FieldSetting| VariedField {
        path: setting.path,
        values: setting.values,
    };
    let (time, until_ns) = match &arguments.run_mode {
        ComparisonRunMode::Virtual { run, .. } => ("virtual", run.until.map(|until| until.as_nanos())),
        ComparisonRunMode::RealTime(_) => ("real", None),
    };
    CompareReport {
        schema: COMPARE_SCHEMA.to_owned(),
        xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
        lab: variants
            .first()
            .map_or(String::new(), |variant| variant.plan.name.clone()),
        lab_crc32: format!("{:08x}", crc32fast::hash(text.as_bytes())),
        time: time.to_owned(),
        until_ns,
        compared: parameter(arguments.compared.setting()),
        parameters: arguments.settings.iter().cloned().map(parameter).collect(),
        seeds: arguments.seeds.clone(),
        warnings: Vec::new(),
        rows: Vec::new(),
        runs: Vec::new(),
    }
}

/// Writes the report to `out`, writes the requested files, and returns the exit code.
fn print_and_write(
    arguments: &CompareArgs,
    report: &CompareReport,
    timelines: Vec<Option<RunTimeline>>,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match arguments.format {
        OutputFormat::Json => write_result_text(out, &report.to_json())?,
        OutputFormat::Table | OutputFormat::Nccl => {
            write_result_text(out, &table::render_comparison(report))?
        }
    }
    for warning in &report.warnings {
        log::warn!("{warning}");
    }
    if let Some(path) = &arguments.json {
        xoff_telemetry::write_result_file("--json", path, &report.to_json())?;
    }
    if let Some(path) = &arguments.csv {
        xoff_telemetry::write_result_file("--csv", path, &table::format_csv(report))?;
    }
    if let Some(folder) = &arguments.plots {
        plots::write_plots(folder, report, &timelines)?;
    }
    Ok(verdict_of_runs(&report.runs).exit().into())
}

/// Decides the verdict of a comparison from its runs, by the rules of a single run: a tainted run proves nothing,
/// failures count more than missing traffic, and a run without traffic proves nothing.
fn verdict_of_runs(runs: &[ComparisonRun]) -> Verdict {
    match () {
        () if runs.iter().any(|run| run.tainted) => Verdict::Tainted,
        () if runs.iter().any(|run| !run.figures.failures.is_empty()) => Verdict::Failed,
        () if runs.iter().any(|run| run.figures.without_traffic) => Verdict::NoTraffic,
        () => Verdict::Clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_runs_count_more_than_missing_traffic() {
        let run = |tainted, has_failure: bool, without_traffic| ComparisonRun {
            scheme: None,
            one_switch_for: None,
            tainted,
            taints: Vec::new(),
            figures: RunMeasurements {
                failures: vec!["not done".to_owned(); usize::from(has_failure)],
                without_traffic,
                ..RunMeasurements::default()
            },
        };
        let clean = || run(false, false, false);
        for (other, verdict) in [
            (clean(), Verdict::Clean),
            (run(false, false, true), Verdict::NoTraffic),
            (run(false, true, false), Verdict::Failed),
            (run(false, true, true), Verdict::Failed),
            (run(true, true, false), Verdict::Tainted),
        ] {
            assert_eq!(verdict_of_runs(&[clean(), other]), verdict);
        }
    }
}
