//! Executes a script. The steps run one after the other. A step changes the lab, advances model time or
//! checks conditions.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_units::Picos;

use super::super::expr::{Expression, UnknownName, ValueSource};
use super::super::options::LabOptions;
use super::super::plan::{ActionPlan, LabPlan, StepPlan, WorkloadTarget};
use super::super::virtual_run::{VirtualLab, describe_frame_memory_limit};
use super::acceleration::check_script;
use super::events::EventRecorder;
use super::repeated_frames::RepeatedFrames;
use super::script_names::ScriptNames;
use super::values::{CounterBaseline, LabValues, VALUES_READ_MAX};
use super::verdict::{CheckResult, LabCheckResult};
use crate::report::Report;
use xoff_fabric::{Observer, SIMULTANEOUS_EVENTS_MAX, SimulationEnd};
use xoff_telemetry::failure::Failure;

/// The minimum interval between two evaluations of a `wait: {until: ...}`.
const EVALUATION_INTERVAL_MIN: Picos = Picos::from_nanos(100);
/// The maximum number of evaluations of one `wait: {until: ...}`.
const EVALUATIONS_MAX: u64 = 10_000;

/// The number of events between two checks for an interruption. It does not change any result.
const EVENTS_PER_STEP: u64 = 200_000;

/// A lab that a script controls.
#[derive(Debug)]
pub(super) struct ScriptRun {
    pub(super) lab: VirtualLab,
    pub(super) events: EventRecorder,
    pub(super) repeated_frames: RepeatedFrames,
    pub(super) baseline: CounterBaseline,
    pub(super) names: ScriptNames,
    /// The end of the automatically started flows, on the clock of the fabric.
    flows_until: Picos,
    /// The number and the sender of each automatically started flow.
    automatic_flows: Vec<(u32, usize)>,
    checks: Vec<CheckResult>,
    /// The number of `send` steps so far.
    pub(super) send_count: usize,
    limits: ScriptLimits,
    /// The number of values and conditions that the script has read.
    pub(super) values_read: Cell<u64>,
}

/// The limits of a [`ScriptRun`].
#[derive(Clone, Debug)]
pub(super) struct ScriptLimits {
    /// The maximum number of simulation events.
    pub(super) events_max: u64,
    /// Becomes true when the user interrupts the run.
    pub(super) stop: Arc<AtomicBool>,
}

/// The reason why model time cannot advance.
#[derive(Clone, Copy, Debug)]
pub(super) enum AbortReason {
    /// More than [`SIMULTANEOUS_EVENTS_MAX`] events have the same time.
    TooManySimultaneousEvents,
    /// The limit of events of the run has been reached.
    EventLimit,
    /// The frames in flight need more memory than the limit allows.
    FrameMemoryLimit,
    /// The script has read too many values.
    ValueLimit,
    /// The user has interrupted the run.
    Interrupted,
}

impl ScriptRun {
    /// Sets up a lab. Starts all jobs and flows, except those that a step of the script starts.
    ///
    /// # Errors
    /// Returns an error if the [`VirtualLab`] cannot be created, or if a condition contains an unknown name.
    pub(super) fn new(
        plan: LabPlan,
        options: LabOptions,
        limits: ScriptLimits,
    ) -> Result<ScriptRun, Failure> {
        let lab_name = plan.name.clone();
        let mut lab = VirtualLab::new(plan, options)?;
        lab.simulation.fabric.set_events_max(limits.events_max);
        let names = ScriptNames::new(&lab).map_err(|unknown| unknown_name_failure(&unknown, &lab_name))?;
        if lab.options.accelerate {
            check_script(&lab.plan, &names)?;
        }
        let mut events = EventRecorder::new(&lab.simulation.fabric);
        lab.resolve_addresses(&mut events)?;
        // The address resolution of the hosts is not part of the run, so its events are removed.
        events.clear();
        let baseline = CounterBaseline::new(&lab, &names);
        lab.start_workload(&mut events);
        let started = lab.plan.script.started_targets();
        let flows = lab.plan.workload.flows.iter().enumerate();
        let automatic_flows = flows
            .filter(|(id, _)| !started.contains(&WorkloadTarget::Flow(*id)))
            .map(|(id, flow)| (id as u32, flow.from))
            .collect();
        let duration = Picos::from_nanos(lab.plan.workload.duration_ns);
        Ok(ScriptRun {
            baseline,
            flows_until: lab.workload_start.saturating_add(duration),
            automatic_flows,
            lab,
            events,
            repeated_frames: RepeatedFrames::default(),
            names,
            checks: Vec::new(),
            send_count: 0,
            limits,
            values_read: Cell::new(0),
        })
    }

    /// Runs all steps of the script.
    ///
    /// # Errors
    /// Returns an error if a step has an invalid configuration.
    pub(super) fn run(mut self, file: &str) -> Result<(LabCheckResult, Report), Failure> {
        let steps = std::mem::take(&mut self.lab.plan.script.steps);
        let mut aborted = None;
        for (number, step) in steps.iter().enumerate() {
            if let Err(reason) = self.run_step(step)? {
                let now = xoff_telemetry::format_nanos(self.lab.elapsed().as_nanos());
                let description = match reason {
                    AbortReason::TooManySimultaneousEvents => {
                        let events = xoff_telemetry::group_thousands(SIMULTANEOUS_EVENTS_MAX);
                        format!("model time does not advance: more than {events} events at {now}")
                    }
                    AbortReason::EventLimit => {
                        let events = xoff_telemetry::count_noun(self.lab.simulation.fabric.events(), "event");
                        format!("stopped after {events}, at {now}; --events-max N allows more")
                    }
                    AbortReason::ValueLimit => format!(
                        "stopped at {now}: the conditions of the script have read more than {}; use fewer \
                         conditions, patterns or waits",
                        xoff_telemetry::count_noun(VALUES_READ_MAX, "value")
                    ),
                    AbortReason::FrameMemoryLimit => describe_frame_memory_limit(&self.lab),
                    AbortReason::Interrupted => format!("interrupted at {now}"),
                };
                aborted = Some(format!("step {} ({}): {description}", number + 1, step.source));
                break;
            }
        }
        let mut report = self.lab.report();
        report.add_failures(aborted.clone());
        let result = LabCheckResult {
            file: file.to_owned(),
            lab: self.lab.plan.name.clone(),
            seed: self.lab.options.seed,
            model_time_ns: self.lab.elapsed().as_nanos(),
            notes: self.lab.notes.clone(),
            warnings: self.lab.warnings(),
            checks: self.checks,
            aborted,
        };
        Ok((result, report))
    }

    /// Runs one step, including its waiting time.
    pub(super) fn run_step(&mut self, step: &StepPlan) -> Result<Result<(), AbortReason>, Failure> {
        if let Some(at_ns) = step.at_ns
            && let Err(reason) = self.advance_to_step(step, Picos::from_nanos(at_ns))
        {
            return Ok(Err(reason));
        }
        if let Some(when) = &step.when
            && self.evaluate(when)? != Some(true)
        {
            if self.has_read_too_much() {
                return Ok(Err(AbortReason::ValueLimit));
            }
            self.skip_action(&step.action);
            return Ok(Ok(()));
        }
        match &step.action {
            ActionPlan::Wait { ns } => {
                let to = self.lab.elapsed().saturating_add(Picos::from_nanos(*ns));
                return Ok(self.advance_to(to));
            }
            ActionPlan::WaitUntil {
                condition,
                at_most_ns,
            } => return self.wait_until(step, condition, Picos::from_nanos(*at_most_ns)),
            ActionPlan::Expect(conditions) => {
                for condition in conditions {
                    let holds = self.evaluate(condition)?;
                    if self.has_read_too_much() {
                        return Ok(Err(AbortReason::ValueLimit));
                    }
                    let reason = undecided_reason(holds);
                    self.add_check(
                        step,
                        condition.to_string(),
                        holds == Some(true),
                        reason,
                        condition,
                    )?;
                }
            }
            action => self.perform_action(action, &step.source)?,
        }
        Ok(Ok(()))
    }

    /// Advances model time to the time of a step. If this time is in the past, adds a failed check to
    /// the results.
    fn advance_to_step(&mut self, step: &StepPlan, at: Picos) -> Result<(), AbortReason> {
        if at >= self.lab.elapsed() {
            return self.advance_to(at);
        }
        let condition = format!("at {}", xoff_telemetry::format_nanos(at.as_nanos()));
        self.checks.push(CheckResult {
            name: step.name.clone(),
            condition,
            source: step.source.clone(),
            model_time_ns: self.lab.elapsed().as_nanos(),
            passed: false,
            reason: Some("the steps before it ended later".to_owned()),
            values: Vec::new(),
        });
        Ok(())
    }

    /// Advances model time until a condition is true, but at most by `at_most`.
    fn wait_until(
        &mut self,
        step: &StepPlan,
        condition: &Expression,
        at_most: Picos,
    ) -> Result<Result<(), AbortReason>, Failure> {
        let deadline = self.lab.elapsed().saturating_add(at_most);
        let interval = Picos(at_most.0 / EVALUATIONS_MAX).max(EVALUATION_INTERVAL_MIN);
        let holds = loop {
            let holds = self.evaluate(condition)?;
            if self.has_read_too_much() {
                return Ok(Err(AbortReason::ValueLimit));
            }
            let now = self.lab.elapsed();
            if holds == Some(true) || now >= deadline {
                break holds;
            }
            if let Err(reason) = self.advance_to(now.saturating_add(interval).min(deadline)) {
                return Ok(Err(reason));
            }
        };
        let text = format!(
            "{condition} within {}",
            xoff_telemetry::format_nanos(at_most.as_nanos())
        );
        self.add_check(
            step,
            text,
            holds == Some(true),
            undecided_reason(holds),
            condition,
        )?;
        Ok(Ok(()))
    }

    /// Advances model time to `to`, which is relative to the start of the workload.
    fn advance_to(&mut self, to: Picos) -> Result<(), AbortReason> {
        let to = self.lab.workload_start.saturating_add(to);
        loop {
            let next = to.min(self.repeated_frames.next_time()).min(self.flows_until);
            self.run_fabric_to(next)?;
            let now = self.lab.simulation.fabric.result_now();
            for (host, frame) in self.repeated_frames.take_due_frames(now) {
                // The first frame was sent, so the length is valid. A full queue is not an error.
                let sent = self.send_frame(host, &frame);
                debug_assert!(sent.is_ok(), "{sent:?}");
            }
            if self.flows_until <= now {
                self.flows_until = Picos::NEVER;
                self.stop_automatic_flows();
            }
            if now >= to {
                return Ok(());
            }
        }
    }

    /// Advances model time to `at`. The run continues even if all jobs are
    /// finished or no frame can move. A later step can start jobs or unblock frames.
    fn run_fabric_to(&mut self, at: Picos) -> Result<(), AbortReason> {
        let elapsed = at.since(self.lab.workload_start);
        loop {
            if self.limits.stop.load(Ordering::Relaxed) {
                return Err(AbortReason::Interrupted);
            }
            let fabric = &mut self.lab.simulation.fabric;
            let step_end = fabric.events().saturating_add(EVENTS_PER_STEP);
            fabric.set_step_end(step_end);
            // An accelerated script reads no events.
            let mut nothing = ();
            let observer: &mut dyn Observer = match self.lab.options.accelerate {
                true => &mut nothing,
                false => &mut self.events,
            };
            match self.lab.run(elapsed, false, observer) {
                SimulationEnd::TimeReached => return Ok(()),
                SimulationEnd::Standstill(_) => {}
                SimulationEnd::Stuck => return Err(AbortReason::TooManySimultaneousEvents),
                SimulationEnd::EventLimit if self.lab.simulation.fabric.events() < self.limits.events_max => {
                }
                SimulationEnd::EventLimit => return Err(AbortReason::EventLimit),
                SimulationEnd::FrameMemoryLimit => return Err(AbortReason::FrameMemoryLimit),
                SimulationEnd::Finished | SimulationEnd::Idle => {
                    self.lab.advance_idle(elapsed);
                    return Ok(());
                }
            }
        }
    }

    /// Stops the automatically started flows at the end of the duration of the workload.
    fn stop_automatic_flows(&mut self) {
        for (flow, host) in self.automatic_flows.clone() {
            // The flow was started at this host.
            let stopped = self.change_host(host, |host, _| host.stop_flow(flow));
            debug_assert!(stopped, "flow {flow} is not at host {host}");
        }
    }

    fn evaluate(&self, condition: &Expression) -> Result<Option<bool>, Failure> {
        // A condition without names has a cost, too.
        self.values_read.set(self.values_read.get() + 1);
        condition
            .holds(&self.values())
            .map_err(|unknown| unknown_name_failure(&unknown, &self.lab.plan.name))
    }

    fn has_read_too_much(&self) -> bool {
        self.values_read.get() > VALUES_READ_MAX
    }

    pub(super) fn values(&self) -> LabValues<'_> {
        LabValues {
            values_read: &self.values_read,
            lab: &self.lab,
            names: &self.names,
            events: &self.events,
            baseline: &self.baseline,
            results: OnceCell::new(),
        }
    }

    /// Adds the result of a condition to the results of the script. A failed condition is stored with the
    /// values of all its names.
    fn add_check(
        &mut self,
        step: &StepPlan,
        text: String,
        passed: bool,
        reason: Option<String>,
        condition: &Expression,
    ) -> Result<(), Failure> {
        let current = self.values();
        let failed_values = match passed {
            true => Ok(Vec::new()),
            false => condition.values_of_names(&current as &dyn ValueSource),
        };
        let values = failed_values.map_err(|unknown| unknown_name_failure(&unknown, &self.lab.plan.name))?;
        self.checks.push(CheckResult {
            name: step.name.clone(),
            condition: text,
            source: step.source.clone(),
            model_time_ns: self.lab.elapsed().as_nanos(),
            passed,
            reason: reason.filter(|_| !passed),
            values,
        });
        Ok(())
    }
}

fn undecided_reason(holds: Option<bool>) -> Option<String> {
    holds
        .is_none()
        .then(|| "it is undecided: a value is missing".to_owned())
}

fn unknown_name_failure(unknown: &UnknownName, lab: &str) -> Failure {
    Failure::configuration(format!("nothing is called \"{}\"", unknown.name))
        .at(format!("the script of {lab}"))
        .because(&unknown.hint)
        .fix("docs/script.md lists all names")
}
