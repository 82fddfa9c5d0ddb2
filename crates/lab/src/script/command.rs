//! The command `xoff lab check FILE... --virtual`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::super::load_options::LoadOptions;
use super::super::options::LabOptions;
use super::super::plan::{ActionPlan, LabPlan, TimeMode};
use super::super::resolve::load_lab;
use super::super::sweep::{ParallelRunsResult, run_in_parallel};
use super::super::virtual_run::write_result_text;
use super::format;
use super::run::ScriptRun;
use super::verdict::LabCheckResult;
use crate::report::Report;
use xoff_telemetry::MemoryLimit;
use xoff_telemetry::failure::{Exit, Failure};

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
    /// Whether the labs run in virtual time (`--virtual`). Scripts need virtual time, so false is an error.
    pub virtual_time: bool,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The maximum number of simulation events of each lab. If a lab reaches the limit, its script
    /// is aborted.
    pub events_max: u64,
    /// The number of labs that run at the same time, at least 1. `None` means the number of CPUs that the
    /// process may use.
    pub jobs: Option<usize>,
    /// The output format of the results.
    pub format: CheckFormat,
    /// The path of the JSON report of the run. `None`: no report is written. Use this option with a single
    /// lab file, because each lab replaces the report.
    pub report: Option<PathBuf>,
    /// The memory that all labs that run at the same time may need (`--memory`).
    pub memory: MemoryLimit,
}

impl CheckArgs {
    /// Returns the number of labs that run at the same time.
    fn threads(&self) -> usize {
        self.jobs
            .unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1))
    }
}

/// Runs the scripts of labs and writes the results to `out`, in the order of the files. Returns
/// [`Exit::CheckFailed`] as exit code if a condition failed or a script was aborted.
///
/// # Errors
/// Fails if a lab file is invalid, or if its script is missing or has no condition. All labs are
/// checked before the first lab runs. Later, fails if a step has an invalid configuration or a file
/// cannot be written.
pub fn check_labs(arguments: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let plans = arguments
        .files
        .iter()
        .map(|file| Ok((file.clone(), read_checked_lab(file, arguments)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let (count, arguments_copy) = (plans.len(), arguments.clone());
    let work = move |index: usize| {
        let (file, plan) = &plans[index];
        let (checked, report) = run_script(plan.clone(), file, &arguments_copy)?;
        if let Some(path) = &arguments_copy.report {
            report.write(path)?;
        }
        Ok(checked)
    };
    let threads = arguments.threads();
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
        ..LabOptions::default()
    };
    ScriptRun::new(plan, options, arguments.events_max)?.run(&file.display().to_string())
}

fn read_checked_lab(file: &Path, arguments: &CheckArgs) -> Result<LabPlan, Failure> {
    let threads = arguments.threads().min(arguments.files.len());
    let options = LoadOptions {
        time: TimeMode::Virtual,
        memory: arguments.memory.divided_by(threads),
    };
    let plan = load_lab(file, options).map_err(|problems| Failure::configuration(problems.to_string()))?;
    let place = file.display().to_string();
    let Some(first) = plan.script.steps.first() else {
        return Err(Failure::configuration("the lab has no script")
            .at(place)
            .fix("add `script:` (docs/script.md), or run it with `xoff lab run`"));
    };
    if !arguments.virtual_time {
        let action = action_name(&first.action);
        return Err(
            Failure::configuration(format!("this script needs --virtual: step 1 ({action})"))
                .at(&first.source)
                .because("in real time, counters change while conditions are evaluated")
                .fix(format!("xoff lab check {place} --virtual")),
        );
    }
    let is_check =
        |action: &ActionPlan| matches!(action, ActionPlan::Expect(_) | ActionPlan::WaitUntil { .. });
    if !plan.script.steps.iter().any(|step| is_check(&step.action)) {
        return Err(
            Failure::configuration("the script has no condition, so it cannot fail")
                .at(place)
                .fix("add a step such as `expect: sw1.dropped_packets == 0`"),
        );
    }
    Ok(plan)
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
