//! `script`: steps with everything that they name resolved.

mod actions;
mod expand;
mod formula;

use serde_saphyr::{Location, Spanned};

use super::super::expr::{Expression, UnknownName};
use super::super::file::{OneOrMore, Step, Tree, Wait};
use super::super::plan::{ActionPlan, LabPlan, ScriptPlan, StepPlan};
use super::super::units;
use super::LabResolver;
use super::node_kinds::entry_location;
use expand::Unrolled;
use formula::Scope;

/// What a step may do.
const VERBS: &str = "send, inject, start, stop, block, unblock, pause, link, fault, heal, configure, clear, wait, expect, let, repeat";

/// Conditions, with their places: what they name is checked when all steps are known.
#[derive(Default)]
struct Conditions(Vec<(Location, Expression)>);

impl LabResolver<'_> {
    /// Adds the script to a plan that has everything else.
    pub(super) fn script(&mut self, steps: &[Spanned<Tree>], plan: &mut LabPlan) {
        let mut unrolled = Unrolled::default();
        self.unroll(steps, &mut Scope::default(), 0, &mut unrolled);
        if unrolled.steps.is_empty() {
            return;
        }
        let mut conditions = Conditions::default();
        let mut latest = 0;
        for step in &unrolled.steps {
            let at_ns = self.step_time(&step.value, &mut latest);
            let source = self.file_and_line(step.referenced);
            let name = step.value.name.as_ref().map(|name| name.value.clone());
            let when = step.value.when.as_ref();
            let when = when.and_then(|when| self.condition(&when.value, when.referenced, &mut conditions));
            let actions = self.actions(step, plan, &mut conditions);
            for (nth, action) in actions.into_iter().enumerate() {
                plan.script.steps.push(StepPlan {
                    at_ns: at_ns.filter(|_| nth == 0),
                    name: name.clone(),
                    when: when.clone(),
                    action,
                    source: source.clone(),
                });
            }
        }
        self.send_names(&plan.script);
        self.names_in(&conditions, plan);
    }

    fn step_time(&mut self, step: &Step, latest: &mut u64) -> Option<u64> {
        let at = step.at.as_ref()?;
        let at_ns = self.parse_quantity(Some(at), 0, units::parse_duration_ns, units::DURATION);
        if at_ns < *latest {
            let what = format!("this step is at {}, before one that stands above it", at.value);
            self.report_problem(at.referenced, what, "steps are in the order of time: move it up");
        }
        *latest = at_ns.max(*latest);
        Some(at_ns)
    }

    /// What a step does: one thing, or, of `clear`, two.
    fn actions(
        &mut self,
        step: &Spanned<Step>,
        plan: &LabPlan,
        conditions: &mut Conditions,
    ) -> Vec<ActionPlan> {
        let (at, step) = (step.referenced, &step.value);
        let mut verbs = 0;
        let mut actions = Vec::new();
        macro_rules! verb {
            ($field:ident, $name:ident => $action:expr) => {
                if let Some($name) = &step.$field {
                    verbs += 1;
                    actions.extend($action);
                }
            };
        }
        verb!(send, send => self.send(send, plan).map(ActionPlan::Send));
        verb!(inject, inject => self.inject(inject, plan).map(ActionPlan::Inject));
        verb!(start, names => Some(ActionPlan::Start(self.targets(names, plan))));
        verb!(stop, names => Some(ActionPlan::Stop(self.targets(names, plan))));
        verb!(block, block => self.block(&block.value, plan).map(ActionPlan::Block));
        verb!(unblock, block => self.block(&block.value, plan).map(ActionPlan::Unblock));
        verb!(pause, pause => self.pause(pause).map(ActionPlan::Pause));
        verb!(link, state => {
            let up = state.value.up;
            let direction = self.direction(&state.value.on, plan);
            direction.map(|direction| ActionPlan::Link { link: direction.link, up })
        });
        verb!(fault, fault => self.fault(fault, plan).map(ActionPlan::Fault));
        verb!(heal, on => self.direction(on, plan).map(ActionPlan::Heal));
        verb!(configure, configure => self.configure(&configure.value));
        verb!(clear, what => self.clear(what));
        verb!(wait, wait => self.wait(wait, conditions));
        verb!(expect, list => {
            let expected = self.expectations(list, conditions);
            (!expected.is_empty()).then_some(ActionPlan::Expect(expected))
        });
        if verbs != 1 {
            let what = format!("a step does one thing, this one {verbs}");
            self.report_problem(
                at,
                what,
                format!("write one of {VERBS}, and further ones as further steps"),
            );
        }
        actions
    }

    fn wait(&mut self, wait: &Spanned<Wait>, conditions: &mut Conditions) -> Option<ActionPlan> {
        match &wait.value {
            Wait::For(text) => {
                let text = Spanned::new(text.clone(), wait.referenced, wait.defined);
                let ns = self.parse_quantity(Some(&text), 0, units::parse_duration_ns, units::DURATION);
                Some(ActionPlan::Wait { ns })
            }
            Wait::Until(until) => {
                let at_most_ns =
                    self.parse_quantity(Some(&until.at_most), 0, units::parse_duration_ns, units::DURATION);
                let condition = self.condition(&until.until.value, until.until.referenced, conditions)?;
                Some(ActionPlan::WaitUntil {
                    condition,
                    at_most_ns,
                })
            }
        }
    }

    fn expectations(&mut self, list: &Spanned<OneOrMore>, conditions: &mut Conditions) -> Vec<Expression> {
        let conditions = list.value.0.iter().map(|text| {
            let at = entry_location(text.referenced, list.referenced);
            self.condition(&text.value, at, conditions)
        });
        conditions.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn condition(&mut self, text: &str, at: Location, conditions: &mut Conditions) -> Option<Expression> {
        match Expression::parse(text) {
            Ok(expression) => {
                conditions.0.push((at, expression.clone()));
                Some(expression)
            }
            Err(error) => {
                self.report_problem(at, format!("\"{text}\": {error}"), error.fix);
                None
            }
        }
    }

    /// Flows, sends and reports are told apart by name.
    fn send_names(&mut self, script: &ScriptPlan) {
        let mut seen = std::collections::HashSet::new();
        for step in &script.steps {
            let ActionPlan::Send(send) = &step.action else {
                continue;
            };
            if !seen.insert(&send.flow.name) {
                let what = format!(
                    "{}: there are two sends called \"{}\"",
                    step.source, send.flow.name
                );
                self.report_problem(Location::UNKNOWN, what, "use another name");
            }
        }
    }

    fn names_in(&mut self, conditions: &Conditions, plan: &LabPlan) {
        for word in ["flow", "job", "link"] {
            if self.nodes.contains_key(word) {
                let what = format!("a node is called {word}, which means something else in scripts");
                self.report_problem(Location::UNKNOWN, what, "use another name for the node");
            }
        }
        let directory = plan.directory();
        for (at, condition) in &conditions.0 {
            for name in condition.names() {
                let found = match (name.is_event, name.path.contains('*')) {
                    (true, _) => directory.find_event(name.path).map(drop),
                    (false, true) => directory.matching(name.path).map(drop),
                    (false, false) => directory.find(name.path).map(drop),
                };
                if let Err(UnknownName { name, known }) = found {
                    self.report_problem(*at, format!("nothing is called \"{name}\""), known);
                }
            }
        }
    }
}
