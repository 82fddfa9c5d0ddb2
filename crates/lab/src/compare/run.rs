//! The command.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::sweep::{Parameter, Pooled, RunFigures, Setting, named, progress_bar, run_all};
use super::super::virtual_run::{Format, print};
use super::kpi::compare;
use super::plots;
use super::report::{COMPARE_SCHEMA, CompareReport, ComparedRun};
use super::subjects::{Compared, Subject, subjects};
use super::warnings::warnings;
use super::way::Way;
use super::{LOAD_BALANCING, table};
use crate::plot::Watched;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{self, Verdict};

/// What the command asks for.
#[derive(Clone, Debug)]
pub struct CompareArgs {
    /// The lab file.
    pub file: PathBuf,
    /// What differs between the rows.
    pub compared: Compared,
    /// Fields of the lab file and their values.
    pub settings: Vec<Setting>,
    /// Seeds, at least one.
    pub seeds: Vec<u64>,
    /// How a run is made.
    pub way: Way,
    /// What is printed.
    pub format: Format,
    /// Where the result goes, as JSON.
    pub json: Option<PathBuf>,
    /// Where its table goes, as CSV.
    pub csv: Option<PathBuf>,
    /// Folder of the plots.
    pub plots: Option<PathBuf>,
}

/// A run's figures, and where it was watched, what happened over time.
type Made = (ComparedRun, Option<Watched>);

/// Runs a comparison, and prints its table. `stop` ends it early.
///
/// # Errors
/// A lab or a scheme that cannot be, before anything is run; a file that cannot be written.
pub fn run(arguments: &CompareArgs, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    let CompareArgs { file, seeds, way, .. } = arguments;
    let made = subjects(
        file,
        &arguments.compared,
        &arguments.settings,
        way.time(),
        seeds.len(),
    )?;
    if let Some(folder) = &arguments.plots {
        plots::make_folder("--plots", folder)?;
    }
    let all = Arc::new(made.all);
    let count = all.len() * seeds.len();
    let bar = progress_bar(count);
    let (shared, each, watched) = (Arc::clone(&all), seeds.clone(), arguments.plots.is_some());
    let (making, path) = (way.clone(), file.clone());
    let work = move |run: usize| {
        let subject = &shared[run / each.len()];
        let seed = each[run % each.len()];
        let watched = watched && run.is_multiple_of(each.len());
        one(&making, subject, run as u64, seed, watched)
            .map_err(|failure| named(failure, &path, &subject.chosen, seed))
    };
    let pooled = run_all(count, way.at_once(), work, stop, |done| {
        bar.set_position(done as u64)
    })?;
    bar.finish_and_clear();
    let runs = match pooled {
        Pooled::Done(runs) => runs,
        Pooled::Interrupted(done) => {
            eprintln!("interrupted: {done} of {count} runs were done; nothing is written");
            return Ok(Exit::Interrupted.into());
        }
    };
    let (mut runs, kept): (Vec<ComparedRun>, Vec<Option<Watched>>) = runs.into_iter().unzip();
    compare_all(&all, &mut runs, seeds.len());
    let mut report = head(arguments, &made.text, &all);
    report.warnings = made.warnings;
    for (subject, runs) in all.iter().zip(runs.chunks(seeds.len())) {
        report.rows.extend(table::rows(runs));
        report.warnings.extend(warnings(subject, runs));
    }
    report.runs = runs;
    finish(arguments, &report, kept)
}

/// One run. One switch that cannot be is a failed run, not the end of the comparison.
fn one(way: &Way, subject: &Subject, run: u64, seed: u64, watched: bool) -> Result<Made, Failure> {
    let watched = watched && subject.scheme.is_some();
    let (figures, tainted, kept) = match way.run(subject.plan.clone(), seed, watched) {
        Ok((report, kept)) => (
            RunFigures::new(run, subject.values.clone(), &report),
            report.verdict == Verdict::Tainted,
            kept,
        ),
        Err(failure) if subject.scheme.is_some() => return Err(failure),
        Err(failure) => {
            let figures = RunFigures {
                run,
                values: subject.values.clone(),
                seed,
                failures: vec![failure.to_string()],
                ..RunFigures::default()
            };
            (figures, false, None)
        }
    };
    let run = ComparedRun {
        scheme: subject.scheme.clone(),
        one_switch_for: subject.one_switch_for.clone(),
        tainted,
        figures,
    };
    Ok((run, kept))
}

/// Enters percentages: of a run those of the same seed on one switch.
fn compare_all(subjects: &[Subject], runs: &mut [ComparedRun], seeds: usize) {
    for (at, subject) in subjects.iter().enumerate() {
        let Some(one) = subject.one_switch else { continue };
        for seed in 0..seeds {
            let there = runs[one * seeds + seed].figures.clone();
            compare(&mut runs[at * seeds + seed].figures, &there);
        }
    }
}

fn head(arguments: &CompareArgs, text: &str, subjects: &[Subject]) -> CompareReport {
    let parameter = |setting: Setting| Parameter {
        path: setting.path,
        values: setting.values,
    };
    let (time, until_ns) = match &arguments.way {
        Way::Virtual { run, .. } => ("virtual", run.until.map(|until| until.as_nanos())),
        Way::RealTime(_) => ("real", None),
    };
    CompareReport {
        schema: COMPARE_SCHEMA.to_owned(),
        xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
        lab: subjects
            .first()
            .map_or(String::new(), |subject| subject.plan.name.clone()),
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

/// Writes and prints what came of it.
fn finish(
    arguments: &CompareArgs,
    report: &CompareReport,
    kept: Vec<Option<Watched>>,
) -> Result<ExitCode, Failure> {
    match arguments.format {
        Format::Json => print(&report.to_json())?,
        Format::Table | Format::Nccl => print(&table::render(report))?,
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(path) = &arguments.json {
        xoff_telemetry::write_result_file("--json", path, &report.to_json())?;
    }
    if let Some(path) = &arguments.csv {
        xoff_telemetry::write_result_file("--csv", path, &table::csv(report))?;
    }
    if let Some(folder) = &arguments.plots {
        plots::write(folder, report, &kept)?;
    }
    let failed = |run: &ComparedRun| !run.figures.failures.is_empty();
    Ok(match () {
        () if report.runs.iter().any(|run| run.tainted) => Exit::Inconclusive,
        () if report.runs.iter().any(failed) => Exit::CheckFailed,
        () => Exit::Ok,
    }
    .into())
}

/// What the compared field is called on axes.
pub(super) fn axis(report: &CompareReport) -> String {
    match report.compared.path == LOAD_BALANCING {
        true => "Load-balancing scheme".to_owned(),
        false => report.compared.path.clone(),
    }
}
