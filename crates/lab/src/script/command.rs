//! `xoff lab check FILE... --virtual`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::super::options::LabOptions;
use super::super::plan::{ActionPlan, LabPlan, TimeMode};
use super::super::resolve::load_lab;
use super::super::sweep::{PoolResult, run_in_parallel};
use super::format;
use super::run::Script;
use super::verdict::Checked;
use crate::report::Report;
use xoff_telemetry::failure::{Exit, Failure};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckFormat {
    /// Test Anything Protocol, version 14.
    #[default]
    Tap,
    /// JUnit's XML.
    Junit,
    /// JSON.
    Json,
    /// A table: a row for each lab.
    Table,
}

/// What the command asks for.
#[derive(Clone, Debug)]
pub struct CheckArgs {
    /// The lab files, one at least.
    pub files: Vec<PathBuf>,
    /// In virtual time; the only one in which scripts run.
    pub virtual_time: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Most events of each lab; one that needs more is given up.
    pub events_max: u64,
    /// So many labs run at once; `None`: one on each core.
    pub jobs: Option<usize>,
    /// How results are printed.
    pub format: CheckFormat,
    /// Where the report of the lab goes, as JSON, if there is one lab.
    pub report: Option<PathBuf>,
}

/// Runs the scripts of labs and prints what came of them.
///
/// # Errors
/// A lab that cannot be, has no script, or one that expects nothing; all labs are read before the first one runs.
pub fn check(arguments: &CheckArgs) -> Result<ExitCode, Failure> {
    let plans = arguments
        .files
        .iter()
        .map(|file| Ok((file.clone(), read(file, arguments.virtual_time)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let (count, own) = (plans.len(), arguments.clone());
    let work = move |at: usize| {
        let (file, plan) = &plans[at];
        let (checked, report) = run(plan.clone(), file, &own)?;
        if let Some(path) = &own.report {
            report.write(path)?;
        }
        Ok(checked)
    };
    let threads = arguments
        .jobs
        .unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1));
    let PoolResult::Done(labs) = run_in_parallel(count, threads, work, &AtomicBool::new(false), |_| ())?
    else {
        return Ok(Exit::Interrupted.into());
    };
    print_notes(&labs);
    print!(
        "{}",
        match arguments.format {
            CheckFormat::Tap => format::tap(&labs),
            CheckFormat::Junit => format::junit(&labs),
            CheckFormat::Json => format::json(&labs),
            CheckFormat::Table => format::table(&labs),
        }
    );
    Ok(match labs.iter().all(Checked::passed) {
        true => Exit::Ok.into(),
        false => Exit::CheckFailed.into(),
    })
}

/// Prints notes and warnings of labs on standard error, those of several labs behind the names of their files.
fn print_notes(labs: &[Checked]) {
    for lab in labs {
        let place = match labs {
            [_] => String::new(),
            _ => format!("{}: ", lab.file),
        };
        for note in &lab.notes {
            eprintln!("note: {place}{note}");
        }
        for warning in &lab.warnings {
            eprintln!("warning: {place}{warning}");
        }
    }
}

/// Runs the script of a plan in virtual time.
///
/// # Errors
/// What cannot be set up, and configurations of steps that cannot be.
fn run(plan: LabPlan, file: &Path, arguments: &CheckArgs) -> Result<(Checked, Report), Failure> {
    let options = LabOptions {
        seed: arguments.seed,
        ..LabOptions::default()
    };
    Script::new(plan, options, arguments.events_max)?.run(&file.display().to_string())
}

fn read(file: &Path, virtual_time: bool) -> Result<LabPlan, Failure> {
    let plan =
        load_lab(file, TimeMode::Virtual).map_err(|problems| Failure::configuration(problems.to_string()))?;
    let place = file.display().to_string();
    let Some(first) = plan.script.steps.first() else {
        return Err(Failure::configuration("the lab has no script")
            .at(place)
            .fix("add `script:` (docs/script.md), or run it with `xoff lab run`"));
    };
    if !virtual_time {
        let verb = verb(&first.action);
        return Err(
            Failure::configuration(format!("this script needs --virtual: step 1 ({verb})"))
                .at(&first.source)
                .because("in real time nothing stands still while conditions are looked at")
                .fix(format!("xoff lab check {place} --virtual")),
        );
    }
    let expects =
        |action: &ActionPlan| matches!(action, ActionPlan::Expect(_) | ActionPlan::WaitUntil { .. });
    if !plan.script.steps.iter().any(|step| expects(&step.action)) {
        return Err(
            Failure::configuration("the script expects nothing, so it cannot fail")
                .at(place)
                .fix("add a step such as `expect: sw1.dropped_packets == 0`"),
        );
    }
    Ok(plan)
}

fn verb(action: &ActionPlan) -> &'static str {
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
        ActionPlan::ClearWatermarks | ActionPlan::ClearCounters => "clear",
        ActionPlan::Wait { .. } | ActionPlan::WaitUntil { .. } => "wait",
        ActionPlan::Expect(_) => "expect",
    }
}
