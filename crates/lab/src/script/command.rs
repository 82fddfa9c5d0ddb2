//! The command `xoff lab check FILE...`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::options::{LabOptions, ThreadCount};
use super::super::plan::{ActionPlan, LabPlan};
use super::super::sweep::{ParallelRunsResult, run_in_parallel};
use super::super::virtual_run::write_result_text;
use super::format;
use super::run::{ScriptLimits, ScriptRun};
use super::validation;
use super::verdict::LabCheckResult;
use crate::report::Report;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{MemoryLimit, count_noun};

/// The output format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckFormat {
    /// Test Anything Protocol (TAP), version 14.
    #[default]
    Tap,
    /// JUnit XML.
    Junit,
    /// One JSON object with all results.
    Json,
    /// A table with one row for each lab.
    Table,
}

/// The arguments of `xoff lab check`.
#[derive(Clone, Debug)]
pub struct CheckArgs {
    /// The lab files, at least one.
    pub files: Vec<PathBuf>,
    /// Whether scripts run in virtual time (`--virtual`). False is an error if a lab has a script with conditions. Labs
    /// without conditions are validated in the same way.
    pub virtual_time: bool,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The maximum number of simulation events of each lab. If a lab reaches the limit, its script
    /// is aborted.
    pub events_max: u64,
    /// The number of labs that run at the same time, at least 1. `None` means the number of CPUs that the
    /// process may use.
    pub jobs: Option<usize>,
    /// The number of threads for each lab (`--threads`). It changes no result.
    pub threads: ThreadCount,
    /// Whether steps of jobs that repeat are skipped (`--accelerate`).
    pub accelerate: bool,
    /// The output format of the results.
    pub format: CheckFormat,
    /// The path of the JSON report of the run. `None`: no report is written. Use this option with a single
    /// lab file, because each lab replaces the report, and only with a lab whose script has conditions.
    pub report: Option<PathBuf>,
    /// The memory that all labs that run at the same time may need (`--memory`).
    pub memory: MemoryLimit,
    /// Becomes true when the user interrupts the command. The scripts then end soon, and their results are written.
    pub stop: Arc<AtomicBool>,
}

impl CheckArgs {
    /// Returns the number of labs that run at the same time.
    fn parallel_labs(&self) -> usize {
        let jobs = self.jobs.unwrap_or_else(|| xoff_telemetry::allowed_cpus().len());
        jobs.min(self.files.len()).max(1)
    }
}

/// A lab that was read without errors.
#[derive(Clone)]
enum CheckedLab {
    /// A lab whose script runs.
    WithScript(PathBuf, Box<LabPlan>),
    /// A lab without conditions, with its result.
    Validated(Box<LabCheckResult>),
}

/// Validates labs, runs the scripts that have conditions, and writes the results to `out`, in the order of the files.
/// Returns [`Exit::CheckFailed`] as exit code if a condition failed or a script was aborted.
///
/// # Errors
/// Fails if a lab file is invalid, or if `virtual_time` is missing for a script. All labs are
/// checked before the first script runs, and the failure has the errors of all labs. Later, fails if a step has an
/// invalid configuration or a file cannot be written.
pub fn check_labs(arguments: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let checked = read_all_labs(arguments)?;
    let (count, arguments_copy) = (checked.len(), arguments.clone());
    let work = move |index: usize| {
        let (file, plan) = match &checked[index] {
            CheckedLab::Validated(result) => return Ok((**result).clone()),
            CheckedLab::WithScript(file, plan) => (file, plan),
        };
        if arguments_copy.stop.load(Ordering::Relaxed) {
            return Ok(LabCheckResult::interrupted_before_start(
                &file.display().to_string(),
                &plan.name,
                arguments_copy.seed,
            ));
        }
        let (checked, report) = run_script((**plan).clone(), file, &arguments_copy)?;
        if let Some(path) = &arguments_copy.report {
            report.write(path)?;
        }
        Ok(checked)
    };
    let threads = arguments.parallel_labs();
    // After an interruption, the scripts end by themselves, so that the results are complete.
    let ParallelRunsResult::Done(labs) =
        run_in_parallel(count, threads, work, &AtomicBool::new(false), |_| ())?
    else {
        return Ok(Exit::Interrupted.into());
    };
    log_notes(&labs);
    let text = match arguments.format {
        CheckFormat::Tap => format::format_test_anything_protocol(&labs),
        CheckFormat::Junit => format::format_junit(&labs),
        CheckFormat::Json => format::format_json(&labs),
        CheckFormat::Table => format::format_table(&labs),
    };
    write_result_text(out, &text)?;
    if arguments.stop.load(Ordering::Relaxed) {
        let complete = labs.iter().filter(|lab| lab.aborted.is_none()).count();
        log::error!(
            "interrupted after {complete} of {}",
            count_noun(labs.len() as u64, "lab")
        );
        return Ok(Exit::Interrupted.into());
    }
    Ok(match labs.iter().all(LabCheckResult::has_passed) {
        true => Exit::Ok.into(),
        false => Exit::CheckFailed.into(),
    })
}

/// Logs the notes and warnings of labs. With several labs, each line starts with the name of the lab file.
fn log_notes(labs: &[LabCheckResult]) {
    for lab in labs {
        let prefix = match labs {
            [_] => String::new(),
            _ => format!("{}: ", lab.file),
        };
        for note in &lab.notes {
            log::info!("{prefix}{note}");
        }
        for warning in &lab.warnings {
            log::warn!("{prefix}{warning}");
        }
    }
}

/// Runs the script of a plan in virtual time.
///
/// # Errors
/// Returns an error if the lab cannot be set up, or if a step has an invalid configuration.
fn run_script(
    plan: LabPlan,
    file: &Path,
    arguments: &CheckArgs,
) -> Result<(LabCheckResult, Report), Failure> {
    let options = LabOptions {
        seed: arguments.seed,
        threads: arguments.threads.for_each_of(arguments.parallel_labs()),
        memory: arguments.memory.divided_by(arguments.parallel_labs()),
        accelerate: arguments.accelerate,
        ..LabOptions::default()
    };
    let limits = ScriptLimits {
        events_max: arguments.events_max,
        stop: Arc::clone(&arguments.stop),
    };
    ScriptRun::new(plan, options, limits)?.run(&file.display().to_string())
}

/// Reads and validates all labs.
///
/// # Errors
/// Fails with the errors of all invalid labs.
fn read_all_labs(arguments: &CheckArgs) -> Result<Vec<CheckedLab>, Failure> {
    let mut labs = Vec::with_capacity(arguments.files.len());
    let mut failures = Vec::new();
    for file in &arguments.files {
        match read_checked_lab(file, arguments) {
            Ok(lab) => labs.push(lab),
            Err(failure) => failures.push((file, failure)),
        }
    }
    if failures.len() > 1 {
        return Err(join_failures(&failures));
    }
    match failures.pop() {
        None => Ok(labs),
        Some((_, failure)) => Err(failure),
    }
}

/// Returns one failure with the errors of several lab files.
fn join_failures(failures: &[(&PathBuf, Failure)]) -> Failure {
    let text_of = |(file, failure): &(&PathBuf, Failure)| {
        let text = failure.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        match failure.location.is_none() && !text.starts_with(&file.display().to_string()) {
            true => format!("{}: {text}", file.display()),
            false => text.to_owned(),
        }
    };
    let texts: Vec<String> = failures.iter().map(text_of).collect();
    let errors =
        failures
            .iter()
            .zip(&texts)
            .flat_map(|((_, failure), text)| match failure.errors.is_empty() {
                true => vec![text.clone()],
                false => failure.errors.to_vec(),
            });
    let invalid = format!("{} are invalid", count_noun(failures.len() as u64, "lab file"));
    Failure {
        exit: failures[0].1.exit,
        errors: errors.collect(),
        ..Failure::configuration(invalid).because(texts.join("\n"))
    }
}

/// Reads a lab. A lab without conditions is also validated.
fn read_checked_lab(file: &Path, arguments: &CheckArgs) -> Result<CheckedLab, Failure> {
    let threads = arguments.parallel_labs();
    let lab = validation::read_lab(file, arguments.memory.divided_by(threads))?;
    let place = file.display().to_string();
    if !lab.has_conditions() {
        if arguments.report.is_some() {
            return Err(Failure::usage("a report needs a lab with a script")
                .at(format!("--report, {place}"))
                .because("a lab without conditions is not run")
                .fix("leave --report out, or run the lab with `xoff lab run`"));
        }
        let result = validation::validate_lab(lab, file, arguments.seed)?;
        return Ok(CheckedLab::Validated(Box::new(result)));
    }
    if let (false, Some(first)) = (arguments.virtual_time, lab.plan.script.steps.first()) {
        let action = action_name(&first.action);
        return Err(
            Failure::configuration(format!("this script needs --virtual: step 1 ({action})"))
                .at(&first.source)
                .because("in real time, counters change while conditions are evaluated")
                .fix(format!("xoff lab check {place} --virtual")),
        );
    }
    Ok(CheckedLab::WithScript(file.to_owned(), Box::new(lab.plan)))
}

/// Returns the key of an action in a lab file.
fn action_name(action: &ActionPlan) -> &'static str {
    match action {
        ActionPlan::Send(_) => "send",
        ActionPlan::Inject(_) => "inject",
        ActionPlan::Start(_) => "start",
        ActionPlan::Stop(_) => "stop",
        ActionPlan::Block(_) => "block",
        ActionPlan::Unblock(_) => "unblock",
        ActionPlan::Pause(_) => "pause",
        ActionPlan::Link { .. } => "link",
        ActionPlan::Fault(_) => "fault",
        ActionPlan::Heal(_) => "heal",
        ActionPlan::Configure { .. } => "configure",
        ActionPlan::ClearWatermarkCommand | ActionPlan::ClearCounters => "clear",
        ActionPlan::Wait { .. } | ActionPlan::WaitUntil { .. } => "wait",
        ActionPlan::Expect(_) => "expect",
    }
}
