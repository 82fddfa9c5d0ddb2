//! Resolves the `script` of a lab file into a `ScriptPlan`.

mod actions;
mod expand;
mod formula;
mod names;

use serde_saphyr::{Location, Spanned};

use super::super::config::links_of_switches;
use super::super::expr::{Expression, UnknownName};
use super::super::plan::{ActionPlan, ConfigLayer, LabPlan, ScriptPlan, StepPlan};
use super::super::units;
use super::LabResolver;
use super::node_kinds::entry_location;
use expand::ExpandedSteps;
use formula::ConstantScope;
use names::ScriptNames;
use xoff_lab_file::{OneOrMore, StepFields, WaitFields, YamlTree};

/// The keys of a step that select its action.
const ACTION_KEYS: &str = "send, inject, start, stop, block, unblock, pause, link, fault, heal, configure, clear, wait, expect, let, repeat";

/// The maximum length of all configurations that the `configure` steps of a script apply, in bytes. A step resolves the
/// whole configuration of its switch, with the layers of all steps before it. This takes about 0.1 us for each byte.
const CONFIGURED_BYTES_MAX: usize = 32 << 20;
/// The length of a preset for one port in bytes, rounded up.
const PRESET_BYTES_PER_PORT: usize = 1_000;

/// The configurations that the `configure` steps of a script apply.
struct ConfigurationWork {
    /// The length of the configuration of each switch in bytes: the lab file and the steps so far.
    bytes_of_switch: Vec<usize>,
    /// The number of ports with a link of each switch.
    port_counts: Vec<usize>,
    /// The length of all configurations of steps so far, in bytes.
    configured_bytes: usize,
}

impl ConfigurationWork {
    fn new(plan: &LabPlan) -> ConfigurationWork {
        let links = links_of_switches(plan.switches.len(), &plan.links);
        let port_counts: Vec<usize> = links.iter().map(Vec::len).collect();
        let of_file = plan.switches.iter().zip(&port_counts);
        ConfigurationWork {
            bytes_of_switch: of_file
                .map(|(switch, ports)| layers_len(&switch.config, *ports))
                .collect(),
            port_counts,
            configured_bytes: 0,
        }
    }

    /// Adds a step. Returns whether the steps exceed the limit.
    fn add_step(&mut self, switch: usize, layers: &[ConfigLayer]) -> bool {
        let own = layers_len(layers, self.port_counts[switch]);
        let bytes = &mut self.bytes_of_switch[switch];
        *bytes = bytes.saturating_add(own);
        self.configured_bytes = self.configured_bytes.saturating_add(*bytes);
        self.configured_bytes > CONFIGURED_BYTES_MAX
    }
}

/// Returns the length of layers in bytes. For a preset, the length is an estimate.
fn layers_len(layers: &[ConfigLayer], port_count: usize) -> usize {
    let len = |layer: &ConfigLayer| match layer {
        ConfigLayer::Text { text, .. } => text.len(),
        ConfigLayer::Preset { .. } => port_count * PRESET_BYTES_PER_PORT,
        ConfigLayer::Computed(layer) => layer.tables.len(),
    };
    layers.iter().map(len).sum()
}

/// All conditions of a script with their locations. A later `send` step can define a name that a condition
/// contains. The names are therefore checked after all steps have been read.
#[derive(Default)]
struct ScriptConditions(Vec<(Location, Expression)>);

impl LabResolver<'_> {
    /// Resolves the script and adds it to a plan. All other parts of the plan must already be complete.
    pub(super) fn resolve_script(&mut self, steps: &[Spanned<YamlTree>], plan: &mut LabPlan) {
        let mut expanded = ExpandedSteps::default();
        if self.check_script_size(steps) {
            self.expand_steps(steps, &mut ConstantScope::default(), 0, &mut expanded);
        }
        if expanded.steps.is_empty() || expanded.is_full() {
            return;
        }
        let mut conditions = ScriptConditions::default();
        let mut work = ConfigurationWork::new(plan);
        let names = &mut ScriptNames::new(plan);
        let resolved = self.resolve_steps(&expanded, names, &mut conditions, &mut work);
        plan.script.steps = resolved;
        self.check_send_names(&plan.script);
        self.check_condition_names(&conditions, plan);
    }

    /// Resolves the expanded steps.
    fn resolve_steps(
        &mut self,
        expanded: &ExpandedSteps,
        names: &mut ScriptNames<'_>,
        conditions: &mut ScriptConditions,
        work: &mut ConfigurationWork,
    ) -> Vec<StepPlan> {
        let mut resolved = Vec::with_capacity(expanded.steps.len());
        let mut latest_ns = 0;
        for step in &expanded.steps {
            let at_ns = self.resolve_step_time(&step.value, &mut latest_ns);
            let source = self.file_and_line(step.referenced);
            let name = step.value.name.as_ref().map(|name| name.value.clone());
            let when = step.value.when.as_ref();
            let when = when.and_then(|when| self.parse_condition(&when.value, when.referenced, conditions));
            let actions = self.resolve_actions(step, names, conditions);
            for (nth, action) in actions.into_iter().enumerate() {
                if let ActionPlan::Configure { switch, layers } = &action
                    && work.add_step(*switch, layers)
                {
                    self.report_problem(
                        step.referenced,
                        format!(
                            "the `configure` steps of the script apply more than {} MiB of configuration",
                            CONFIGURED_BYTES_MAX >> 20
                        ),
                        "each step applies the whole configuration of its switch: use fewer `configure` steps",
                    );
                    return resolved;
                }
                resolved.push(StepPlan {
                    at_ns: at_ns.filter(|_| nth == 0),
                    name: name.clone(),
                    when: when.clone(),
                    action,
                    source: source.clone(),
                });
            }
        }
        resolved
    }

    /// Returns the time in the field `at` of a step. Reports an error if this time is before `latest_ns`, the
    /// time of an earlier step.
    fn resolve_step_time(&mut self, step: &StepFields, latest_ns: &mut u64) -> Option<u64> {
        let at = step.at.as_ref()?;
        let at_ns = self.parse_quantity(Some(at), 0, units::parse_duration_ns, units::DURATION);
        if at_ns < *latest_ns {
            let what = format!("this step is at {}, before the time of an earlier step", at.value);
            self.report_problem(at.referenced, what, "put the steps in the order of their times");
        }
        *latest_ns = at_ns.max(*latest_ns);
        Some(at_ns)
    }

    /// Resolves the actions of a step. Only a `clear` step can have two actions.
    fn resolve_actions(
        &mut self,
        step: &Spanned<StepFields>,
        names: &mut ScriptNames<'_>,
        conditions: &mut ScriptConditions,
    ) -> Vec<ActionPlan> {
        let (at, step) = (step.referenced, &step.value);
        let mut action_count = 0;
        let mut actions = Vec::new();
        macro_rules! resolve_key {
            ($field:ident, $name:ident => $action:expr) => {
                if let Some($name) = &step.$field {
                    action_count += 1;
                    actions.extend($action);
                }
            };
        }
        resolve_key!(send, send => self.resolve_send(send, names).map(ActionPlan::Send));
        resolve_key!(inject, inject => self.resolve_inject(inject, names).map(ActionPlan::Inject));
        resolve_key!(start, targets => Some(ActionPlan::Start(self.resolve_targets(targets, names))));
        resolve_key!(stop, targets => Some(ActionPlan::Stop(self.resolve_targets(targets, names))));
        resolve_key!(block, block => self.resolve_block(&block.value, names).map(ActionPlan::Block));
        resolve_key!(unblock, block => self.resolve_block(&block.value, names).map(ActionPlan::Unblock));
        resolve_key!(pause, pause => self.resolve_pause(pause).map(ActionPlan::Pause));
        resolve_key!(link, state => {
            let up = state.value.up;
            let direction = self.resolve_direction(&state.value.on, names);
            direction.map(|direction| ActionPlan::Link { link: direction.link, up })
        });
        resolve_key!(fault, fault => self.resolve_fault(fault, names).map(ActionPlan::Fault));
        resolve_key!(heal, on => self.resolve_direction(on, names).map(ActionPlan::Heal));
        resolve_key!(configure, configure => self.resolve_configure(&configure.value));
        resolve_key!(clear, objects => self.resolve_clear(objects));
        resolve_key!(wait, wait => self.resolve_wait(wait, conditions));
        resolve_key!(expect, list => {
            let expected = self.parse_expected_conditions(list, conditions);
            (!expected.is_empty()).then_some(ActionPlan::Expect(expected))
        });
        if action_count != 1 {
            let what = format!("a step has one action, this step has {action_count}");
            self.report_problem(
                at,
                what,
                format!("write one of {ACTION_KEYS}, and other actions as separate steps"),
            );
        }
        actions
    }

    fn resolve_wait(
        &mut self,
        wait: &Spanned<WaitFields>,
        conditions: &mut ScriptConditions,
    ) -> Option<ActionPlan> {
        match &wait.value {
            WaitFields::For(text) => {
                let text = Spanned::new(text.clone(), wait.referenced, wait.defined);
                let ns = self.parse_quantity(Some(&text), 0, units::parse_duration_ns, units::DURATION);
                Some(ActionPlan::Wait { ns })
            }
            WaitFields::Until(until) => {
                let at_most_ns =
                    self.parse_quantity(Some(&until.at_most), 0, units::parse_duration_ns, units::DURATION);
                let condition =
                    self.parse_condition(&until.until.value, until.until.referenced, conditions)?;
                Some(ActionPlan::WaitUntil {
                    condition,
                    at_most_ns,
                })
            }
        }
    }

    fn parse_expected_conditions(
        &mut self,
        list: &Spanned<OneOrMore>,
        conditions: &mut ScriptConditions,
    ) -> Vec<Expression> {
        let conditions = list.value.0.iter().map(|text| {
            let at = entry_location(text.referenced, list.referenced);
            self.parse_condition(&text.value, at, conditions)
        });
        conditions.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn parse_condition(
        &mut self,
        text: &str,
        at: Location,
        conditions: &mut ScriptConditions,
    ) -> Option<Expression> {
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

    /// Checks that all `send` steps have different names, because results refer to a step by name.
    fn check_send_names(&mut self, script: &ScriptPlan) {
        let mut seen = std::collections::HashSet::new();
        for step in &script.steps {
            let ActionPlan::Send(send) = &step.action else {
                continue;
            };
            if !seen.insert(&send.flow.name) {
                let what = format!(
                    "{}: two `send` steps are called \"{}\"",
                    step.source, send.flow.name
                );
                self.report_problem(Location::UNKNOWN, what, "use another name");
            }
        }
    }

    /// Returns whether a name in a condition contains an object that is missing because of a reported error.
    fn names_rejected(&self, path: &str) -> bool {
        let is_pattern = path.contains('*');
        path.split('.').any(|part| self.is_rejected(part))
            || is_pattern && !(self.rejected_traffic.is_empty() && self.left_out.keys.is_empty())
    }

    /// Checks that all names in conditions exist. Also reports nodes with the name `flow`, `job` or `link`,
    /// because these words are prefixes of names.
    fn check_condition_names(&mut self, conditions: &ScriptConditions, plan: &LabPlan) {
        for word in ["flow", "job", "link"] {
            if self.nodes.contains_key(word) {
                let what = format!("a node is called {word}, and this word has another meaning in scripts");
                self.report_problem(Location::UNKNOWN, what, "use another name for the node");
            }
        }
        let directory = plan.name_directory();
        // A script that repeats its steps has equal conditions.
        let mut checked = std::collections::HashSet::new();
        for (at, condition) in &conditions.0 {
            // The search for similar names takes time, and no further error would be printed.
            if self.problems.is_next_hidden() {
                return;
            }
            for name in condition.name_references() {
                if !checked.insert((*at, name.is_event, name.path)) || self.names_rejected(name.path) {
                    continue;
                }
                let found = match (name.is_event, name.path.contains('*')) {
                    (true, _) => directory.find_event(name.path).map(drop),
                    (false, true) => directory.matching_names(name.path).map(drop),
                    (false, false) => directory.find_counter(name.path).map(drop),
                };
                if let Err(UnknownName { name, hint }) = found {
                    self.report_problem(*at, format!("nothing is called \"{name}\""), hint);
                }
            }
        }
    }
}
