//! A script that runs: its steps in order, time between them, conditions.

use std::cell::OnceCell;

use xoff_units::Picos;

use super::super::expr::{Expression, UnknownName, ValueSource};
use super::super::options::LabOptions;
use super::super::plan::{ActionPlan, LabPlan, StepPlan, TargetPlan};
use super::super::virtual_run::VirtualLab;
use super::events::EventTimes;
use super::storms::Storms;
use super::values::{Base, Names, Reading};
use super::verdict::{Check, Checked};
use crate::report::Report;
use xoff_fabric::{SIMULTANEOUS_EVENTS_MAX, SimulationEnd};
use xoff_telemetry::failure::Failure;

/// Finest step at which a `wait: {until: ...}` looks.
const LOOK_MIN: Picos = Picos::from_nanos(100);
/// Most looks of one `wait: {until: ...}`.
const LOOKS_MAX: u64 = 10_000;

/// A lab and its script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) lab: VirtualLab,
    pub(super) events: EventTimes,
    pub(super) storms: Storms,
    pub(super) base: Base,
    pub(super) names: Names,
    /// Until when the flows of the workload that started by themselves send, as model time of the fabric.
    flows_until: Picos,
    /// Those flows: number and sender.
    own_flows: Vec<(u32, usize)>,
    checks: Vec<Check>,
    /// How many sends have been.
    pub(super) sends: usize,
}

/// Why time does not go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stuck {
    /// More than [`SIMULTANEOUS_EVENTS_MAX`] events at one time.
    AtOnce,
    /// As many events as the run may have.
    Spent,
}

impl Script {
    /// Sets a lab up, and starts what its script does not.
    ///
    /// # Errors
    /// What [`VirtualLab`] does not take, and names that mean nothing.
    pub(super) fn new(plan: LabPlan, options: LabOptions, events_max: u64) -> Result<Script, Failure> {
        let lab_name = plan.name.clone();
        let mut lab = VirtualLab::new(plan, options)?;
        lab.simulation.fabric.set_events_max(events_max);
        let names = Names::new(&lab).map_err(|unknown| no_such_name(&unknown, &lab_name))?;
        let mut events = EventTimes::new(&lab.simulation.fabric);
        lab.resolve_addresses(&mut events)?;
        // What hosts said to find each other is no part of it; the first frame of the workload is.
        events.clear();
        let base = Base::new(&lab, &names);
        lab.start_workload(&mut events);
        let flows = lab.plan.workload.flows.iter().enumerate();
        let own_flows = flows
            .filter(|(id, _)| !lab.plan.script.starts(TargetPlan::Flow(*id)))
            .map(|(id, flow)| (id as u32, flow.from))
            .collect();
        let duration = Picos::from_nanos(lab.plan.workload.duration_ns);
        Ok(Script {
            base,
            flows_until: lab.workload_start.saturating_add(duration),
            own_flows,
            lab,
            events,
            storms: Storms::default(),
            names,
            checks: Vec::new(),
            sends: 0,
        })
    }

    /// Runs the script to its end.
    ///
    /// # Errors
    /// A configuration of a step that cannot be.
    pub(super) fn run(mut self, file: &str) -> Result<(Checked, Report), Failure> {
        let steps = std::mem::take(&mut self.lab.plan.script.steps);
        let mut aborted = None;
        for (number, step) in steps.iter().enumerate() {
            if let Err(stuck) = self.step(step)? {
                let now = xoff_telemetry::format_nanos(self.lab.elapsed().as_nanos());
                let why = match stuck {
                    Stuck::AtOnce => {
                        let events = xoff_telemetry::group_thousands(SIMULTANEOUS_EVENTS_MAX);
                        format!("model time does not advance: more than {events} events at {now}")
                    }
                    Stuck::Spent => {
                        let events = xoff_telemetry::group_thousands(self.lab.simulation.fabric.events());
                        format!("stopped after {events} events, at {now}; --events-max N allows more")
                    }
                };
                aborted = Some(format!("step {} ({}): {why}", number + 1, step.source));
                break;
            }
        }
        let checked = Checked {
            file: file.to_owned(),
            lab: self.lab.plan.name.clone(),
            seed: self.lab.options.seed,
            model_time_ns: self.lab.elapsed().as_nanos(),
            notes: self.lab.notes.clone(),
            warnings: self.lab.warnings(),
            checks: self.checks,
            aborted,
        };
        Ok((checked, self.lab.report()))
    }

    /// One step, waiting included.
    pub(super) fn step(&mut self, step: &StepPlan) -> Result<Result<(), Stuck>, Failure> {
        if let Some(at_ns) = step.at_ns
            && let Err(stuck) = self.reach(step, Picos::from_nanos(at_ns))
        {
            return Ok(Err(stuck));
        }
        if let Some(when) = &step.when
            && self.holds(when)? != Some(true)
        {
            self.pass_over(&step.action);
            return Ok(Ok(()));
        }
        match &step.action {
            ActionPlan::Wait { ns } => {
                let to = self.lab.elapsed().saturating_add(Picos::from_nanos(*ns));
                return Ok(self.advance(to));
            }
            ActionPlan::WaitUntil {
                condition,
                at_most_ns,
            } => return self.wait_until(step, condition, Picos::from_nanos(*at_most_ns)),
            ActionPlan::Expect(conditions) => {
                for condition in conditions {
                    let holds = self.holds(condition)?;
                    let reason = undecided(holds);
                    self.enter(
                        step,
                        condition.to_string(),
                        holds == Some(true),
                        reason,
                        condition,
                    )?;
                }
            }
            action => self.act(action, &step.source)?,
        }
        Ok(Ok(()))
    }

    /// Lets time go on to a step's own time; a step that comes too late is a failed check.
    fn reach(&mut self, step: &StepPlan, at: Picos) -> Result<(), Stuck> {
        if at >= self.lab.elapsed() {
            return self.advance(at);
        }
        let condition = format!("at {}", xoff_telemetry::format_nanos(at.as_nanos()));
        self.checks.push(Check {
            name: step.name.clone(),
            condition,
            source: step.source.clone(),
            model_time_ns: self.lab.elapsed().as_nanos(),
            passed: false,
            reason: Some("the steps above it were not over".to_owned()),
            values: Vec::new(),
        });
        Ok(())
    }

    fn wait_until(
        &mut self,
        step: &StepPlan,
        condition: &Expression,
        at_most: Picos,
    ) -> Result<Result<(), Stuck>, Failure> {
        let deadline = self.lab.elapsed().saturating_add(at_most);
        let look = Picos(at_most.0 / LOOKS_MAX).max(LOOK_MIN);
        let holds = loop {
            let holds = self.holds(condition)?;
            let now = self.lab.elapsed();
            if holds == Some(true) || now >= deadline {
                break holds;
            }
            if let Err(stuck) = self.advance(now.saturating_add(look).min(deadline)) {
                return Ok(Err(stuck));
            }
        };
        let text = format!(
            "{condition} within {}",
            xoff_telemetry::format_nanos(at_most.as_nanos())
        );
        self.enter(step, text, holds == Some(true), undecided(holds), condition)?;
        Ok(Ok(()))
    }

    /// Lets time go on to `to`, counted from the start of the workload.
    fn advance(&mut self, to: Picos) -> Result<(), Stuck> {
        let to = self.lab.workload_start.saturating_add(to);
        loop {
            let next = to.min(self.storms.next()).min(self.flows_until);
            self.run_to(next)?;
            let now = self.lab.simulation.fabric.now();
            for (host, frame) in self.storms.due(now) {
                // Its first frame was sent, so the length is good; a full queue is counted.
                let sent = self.send_frame(host, &frame);
                debug_assert!(sent.is_ok(), "{sent:?}");
            }
            if self.flows_until <= now {
                self.flows_until = Picos::NEVER;
                self.stop_flows();
            }
            if now >= to {
                return Ok(());
            }
        }
    }

    /// Lets time go on to `at`, on the fabric's clock. Jobs that are done and frames that stand still end nothing: the script
    /// may have held them up.
    fn run_to(&mut self, at: Picos) -> Result<(), Stuck> {
        let elapsed = at.since(self.lab.workload_start);
        loop {
            match self.lab.run(elapsed, false, &mut self.events) {
                SimulationEnd::TimeReached => return Ok(()),
                SimulationEnd::Standstill(_) => {}
                SimulationEnd::Stuck => return Err(Stuck::AtOnce),
                SimulationEnd::EventLimit => return Err(Stuck::Spent),
                SimulationEnd::Finished | SimulationEnd::Idle => {
                    self.lab.simulation.fabric.advance_idle(at);
                    return Ok(());
                }
            }
        }
    }

    /// The flows that started by themselves end with the workload's duration.
    fn stop_flows(&mut self) {
        for (flow, host) in self.own_flows.clone() {
            // The flow was started at this host, so it is there.
            let stopped = self.change_host(host, |host, _| host.stop_flow(flow));
            debug_assert!(stopped, "flow {flow} is not at host {host}");
        }
    }

    fn holds(&self, condition: &Expression) -> Result<Option<bool>, Failure> {
        condition
            .holds(&self.reading())
            .map_err(|unknown| no_such_name(&unknown, &self.lab.plan.name))
    }

    fn reading(&self) -> Reading<'_> {
        Reading {
            lab: &self.lab,
            names: &self.names,
            events: &self.events,
            base: &self.base,
            results: OnceCell::new(),
        }
    }

    fn enter(
        &mut self,
        step: &StepPlan,
        text: String,
        passed: bool,
        reason: Option<String>,
        condition: &Expression,
    ) -> Result<(), Failure> {
        let reading = self.reading();
        let explained = match passed {
            true => Ok(Vec::new()),
            false => condition.explain(&reading as &dyn ValueSource),
        };
        let values = explained.map_err(|unknown| no_such_name(&unknown, &self.lab.plan.name))?;
        self.checks.push(Check {
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

fn undecided(holds: Option<bool>) -> Option<String> {
    holds
        .is_none()
        .then(|| "it is undecided: a value is missing".to_owned())
}

fn no_such_name(unknown: &UnknownName, lab: &str) -> Failure {
    Failure::configuration(format!("nothing is called \"{}\"", unknown.name))
        .at(format!("the script of {lab}"))
        .because(&unknown.known)
        .fix("docs/script.md has all names")
}
