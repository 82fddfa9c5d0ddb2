//! Validation of lab files: the part of `xoff lab check` that runs nothing.
//!
//! A lab without conditions is only validated. It is valid if it can run in virtual time or in real time. The
//! validation needs no privilege, and starts no process.

use std::path::Path;

use super::super::config::{SwitchSetup, resolve_switch_setups};
use super::super::jobs::create_jobs;
use super::super::lab_fields::read_lab_file;
use super::super::load_options::LoadOptions;
use super::super::notes::lab_notes;
use super::super::options::LabOptions;
use super::super::plan::{ActionPlan, LabPlan, ScriptPlan, TimeMode};
use super::super::problem::Problems;
use super::super::reordering::reordering_warnings;
use super::super::resolve::parse_lab_text;
use super::super::signals::check_congestion_signals;
use super::super::virtual_run::{VirtualLab, fabric_plan_of};
use super::verdict::{CheckResult, LabCheckResult};
use xoff_fabric::{Fabric, ObservedFabric};
use xoff_telemetry::MemoryLimit;
use xoff_telemetry::failure::Failure;

/// The only check of a lab without conditions.
const VALIDITY: &str = "the lab file is valid";
/// The note about a script that cannot fail.
const NO_CONDITION: &str =
    "the script was not run, because it has no condition such as `expect: sw1.dropped_packets == 0`";

/// A lab file without errors in its text.
pub(super) struct ReadLab {
    pub(super) plan: LabPlan,
    /// The mode in which the lab can run. A lab that can run in both modes is in virtual time.
    pub(super) time: TimeMode,
}

impl ReadLab {
    /// Returns whether the lab has a script with a condition.
    pub(super) fn has_conditions(&self) -> bool {
        has_conditions(&self.plan)
    }
}

fn has_conditions(plan: &LabPlan) -> bool {
    let mut steps = plan.script.steps.iter();
    steps.any(|step| matches!(step.action, ActionPlan::Expect(_) | ActionPlan::WaitUntil { .. }))
}

/// Reads a lab file and checks everything that its text decides.
///
/// # Errors
/// Fails if the file cannot be read, or if the lab is invalid both in virtual time and in real time. The failure
/// has the errors of the mode with fewer errors, or of both modes if their numbers are equal.
pub(super) fn read_lab(file: &Path, memory: MemoryLimit) -> Result<ReadLab, Failure> {
    let text = read_lab_file(file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let parse = |time: TimeMode| {
        let options = LoadOptions { time, memory };
        parse_lab_text(&text, &file.display().to_string(), folder, &options)
    };
    let in_virtual_time = match parse(TimeMode::Virtual) {
        Ok(plan) => {
            return Ok(ReadLab {
                plan,
                time: TimeMode::Virtual,
            });
        }
        Err(problems) => problems,
    };
    let problems = match parse(TimeMode::RealTime) {
        // Scripts run in virtual time only.
        Ok(plan) if has_conditions(&plan) => in_virtual_time,
        Ok(plan) => {
            return Ok(ReadLab {
                plan,
                time: TimeMode::RealTime,
            });
        }
        Err(in_real_time) => select_problems(in_virtual_time, in_real_time),
    };
    Err(invalid_lab_failure(&problems))
}

/// Returns the errors that a user must correct so that the lab can run in one of the modes.
fn select_problems(in_virtual_time: Problems, in_real_time: Problems) -> Problems {
    match in_virtual_time.len().cmp(&in_real_time.len()) {
        std::cmp::Ordering::Less => in_virtual_time,
        std::cmp::Ordering::Greater => in_real_time,
        std::cmp::Ordering::Equal => in_virtual_time.union(in_real_time),
    }
}

fn invalid_lab_failure(problems: &Problems) -> Failure {
    let errors: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure {
        errors: errors.into(),
        ..Failure::configuration(problems.to_string())
    }
}

/// Checks everything that a run of the lab checks before it starts: the configurations of the switches, addresses,
/// paths, jobs and congestion control. Returns the result with one passed check.
///
/// # Errors
/// Fails if the lab is invalid.
pub(super) fn validate_lab(lab: ReadLab, file: &Path, seed: u64) -> Result<LabCheckResult, Failure> {
    let ReadLab { mut plan, time } = lab;
    let has_script = !plan.script.steps.is_empty();
    // The script is not run, so its jobs do not wait for a step.
    plan.script = ScriptPlan::default();
    let name = plan.name.clone();
    let options = LabOptions {
        seed,
        ..LabOptions::default()
    };
    let (mut notes, warnings) = match time {
        TimeMode::Virtual => {
            let lab = VirtualLab::new(plan, options)?;
            (lab.notes.clone(), lab.warnings())
        }
        TimeMode::RealTime => validate_real_time_lab(&plan, &options)?,
    };
    notes.extend(has_script.then(|| NO_CONDITION.to_owned()));
    let file = file.display().to_string();
    Ok(LabCheckResult {
        lab: name,
        seed,
        model_time_ns: 0,
        notes,
        warnings,
        checks: vec![CheckResult {
            name: None,
            condition: VALIDITY.to_owned(),
            source: file.clone(),
            model_time_ns: 0,
            passed: true,
            reason: None,
            values: Vec::new(),
        }],
        aborted: None,
        file,
    })
}

/// Validates a lab that runs in real time only. Returns its notes and warnings.
fn validate_real_time_lab(
    plan: &LabPlan,
    options: &LabOptions,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let workers = options.driver_options(plan.model_host_count(), plan.switches.len());
    let setups = resolve_switch_setups(plan, options.seed, &workers)?;
    let fabric_plan = fabric_plan_of(plan, options, setups.iter().map(SwitchSetup::to_fabric_switch))?;
    // The paths and jobs of real time are those of a fabric in virtual time.
    let mut fabric = Fabric::new(fabric_plan.clone(), options.seed)
        .map_err(|error| Failure::configuration(error.to_string()).at(&plan.name))?;
    let jobs = create_jobs(
        plan,
        &fabric_plan,
        options.seed,
        &mut ObservedFabric(&mut fabric, &mut ()),
    )?;
    let configs: Vec<_> = setups.iter().map(|setup| &setup.loaded.resolved.config).collect();
    let mut warnings = reordering_warnings(plan, &configs);
    warnings.extend(check_congestion_signals(plan, &fabric_plan, jobs.workload())?);
    Ok((lab_notes(plan, &setups), warnings))
}
