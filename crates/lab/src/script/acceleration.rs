//! Checks whether a script can run with `--accelerate`. A script that observes every frame needs all frames.

use super::super::expr::{CounterOwner, Expression};
use super::super::plan::{ActionPlan, LabPlan, StepPlan};
use super::arrivals::HostArrivals;
use super::script_names::{ScriptNames, step_conditions};
use xoff_telemetry::failure::Failure;

/// Checks that no step of a script needs frames or times of skipped steps.
///
/// # Errors
/// Returns an error that names the first such step.
pub(super) fn check_script(plan: &LabPlan, names: &ScriptNames) -> Result<(), Failure> {
    let steps = plan.script.steps.iter();
    let mut found = steps.filter_map(|step| Some((step, find_reason(step, names)?)));
    let Some((step, why)) = found.next() else {
        return Ok(());
    };
    Err(Failure::usage("--accelerate cannot skip steps of this lab")
        .at(&step.source)
        .because(why)
        .fix("run the lab without --accelerate, or remove this step"))
}

/// Returns the reason why a step needs all frames.
fn find_reason(step: &StepPlan, names: &ScriptNames) -> Option<String> {
    match &step.action {
        ActionPlan::WaitUntil { .. } => {
            return Some("`wait: {until: ...}` observes the whole run".to_owned());
        }
        ActionPlan::Send(_) | ActionPlan::Inject(_) | ActionPlan::Pause(_) => {
            return Some("a host sends frames that are not part of a job".to_owned());
        }
        _ => {}
    }
    let mut conditions = step.when.iter().chain(step_conditions(&step.action));
    conditions.find_map(|condition| find_observed_name(condition, names))
}

/// Returns the first name of a condition that is read from observed frames.
fn find_observed_name(condition: &Expression, names: &ScriptNames) -> Option<String> {
    for name in condition.name_references() {
        if name.is_event {
            return Some(format!("the event {} can occur in a skipped step", name.path));
        }
        let paths = match name.path.contains('*') {
            true => names.directory.matching_names(name.path).unwrap_or_default(),
            false => vec![name.path.to_owned()],
        };
        let is_observed = |path: &String| {
            let reference = names.directory.find_counter(path);
            reference.is_ok_and(|reference| match reference.owner {
                CounterOwner::Arrivals(..) => true,
                CounterOwner::Host(_) => HostArrivals::has_counter(reference.counter),
                _ => false,
            })
        };
        if let Some(path) = paths.iter().find(|path| is_observed(path)) {
            return Some(format!("{path} is counted from each frame"));
        }
    }
    None
}
