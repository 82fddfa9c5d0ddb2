//! Expands a script: evaluates `let`, `repeat` and `$(...)` and returns the list of steps to run.

use std::collections::BTreeMap;

use serde_saphyr::{Location, Spanned};

use super::super::LabResolver;
use super::formula::{Constant, ConstantScope, substitute};
use xoff_lab_file::{StepFields, YamlTree};

/// The maximum number of steps of a script after expansion.
const STEPS_MAX: usize = 100_000;
/// The maximum number of combinations of `repeat` values in a script, counted over all `repeat` steps. Also limits
/// scripts whose combinations have no steps.
const COMBINATIONS_MAX: usize = 1_000_000;
/// The maximum length of an expanded script in bytes. `repeat` copies each text of its steps.
const EXPANDED_BYTES_MAX: usize = 128 << 20;
/// The bytes that count for each value of an expanded script in addition to its text.
const BYTES_PER_VALUE: usize = 64;
/// The maximum nesting depth of `repeat`.
const DEPTH_MAX: usize = 8;

/// The expanded steps of a script.
#[derive(Default)]
pub(super) struct ExpandedSteps {
    pub(super) steps: Vec<Spanned<StepFields>>,
    /// The number of combinations of `repeat` values so far.
    combinations: usize,
    /// Whether a limit has been exceeded.
    is_full: bool,
}

impl ExpandedSteps {
    /// Returns whether the script has more steps or combinations than allowed.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}

impl LabResolver<'_> {
    /// Checks the number of steps before the expansion, as far as it is known without formulas. Reports a script
    /// that is too long and returns false.
    pub(super) fn check_script_size(&mut self, steps: &[Spanned<YamlTree>]) -> bool {
        let count = count_steps(steps, 0);
        let Some(last) = steps.last().filter(|_| count > STEPS_MAX) else {
            return true;
        };
        let longest = steps
            .iter()
            .max_by_key(|step| count_steps(std::slice::from_ref(*step), 0))
            .unwrap_or(last);
        self.report_too_many_steps(longest.referenced, &format!("{count} steps"));
        false
    }

    fn report_too_many_steps(&mut self, at: Location, count: &str) {
        self.report_problem(
            at,
            format!("the script has {count}, and at most {STEPS_MAX} are possible"),
            "repeat less often, or send more frames in one step",
        );
    }

    /// Expands steps and adds the results to `expanded`. `depth` is the number of `repeat` steps that enclose
    /// these steps.
    pub(super) fn expand_steps(
        &mut self,
        steps: &[Spanned<YamlTree>],
        scope: &mut ConstantScope,
        depth: usize,
        expanded: &mut ExpandedSteps,
    ) {
        for step in steps {
            if expanded.is_full {
                return;
            }
            if let Some(repeat) = step.value.get("repeat") {
                self.check_only_key(step, "repeat");
                self.expand_repeat(repeat, scope, depth, expanded);
                continue;
            }
            if let Some(constants) = step.value.get("let") {
                self.check_only_key(step, "let");
                self.define_constants(constants, scope);
                if !self.check_expanded_bytes(step.referenced, expanded) {
                    return;
                }
                continue;
            }
            if expanded.steps.len() >= STEPS_MAX {
                expanded.is_full = true;
                self.report_too_many_steps(step.referenced, &format!("more than {STEPS_MAX} steps"));
                return;
            }
            let substituted = self.substitute_tree(step, scope);
            if !self.check_expanded_bytes(step.referenced, expanded) {
                return;
            }
            let Some(substituted) = substituted else {
                continue;
            };
            match xoff_lab_file::parse_step(&substituted) {
                Ok(read) => expanded
                    .steps
                    .push(Spanned::new(read, step.referenced, step.defined)),
                Err(errors) => errors
                    .into_iter()
                    .for_each(|error| self.report_problem(error.at, error.what, error.fix)),
            }
        }
    }

    /// Checks the length of the expanded script. Reports a script that is too long and returns false.
    fn check_expanded_bytes(&mut self, at: Location, expanded: &mut ExpandedSteps) -> bool {
        let bytes = self.expanded_text_bytes + self.expanded_values * BYTES_PER_VALUE;
        if bytes <= EXPANDED_BYTES_MAX {
            return true;
        }
        expanded.is_full = true;
        self.report_problem(
            at,
            format!(
                "the script is longer than {} MiB after the expansion of `repeat`",
                EXPANDED_BYTES_MAX >> 20
            ),
            "repeat less often, or write shorter steps and lists",
        );
        false
    }

    /// Checks that a step has no other key than `key`.
    fn check_only_key(&mut self, step: &Spanned<YamlTree>, key: &str) {
        if let YamlTree::Map(entries) = &step.value
            && let Some((other, _)) = entries.iter().find(|(other, _)| other.value != key)
        {
            let what = format!(
                "`{key}` must be the only key of its step, and this step also has `{}`",
                other.value
            );
            self.report_problem(other.referenced, what, "write two steps");
        }
    }

    /// Expands `repeat: {for: {NAME: VALUES, ...}, steps: [...]}` for each combination of the values.
    fn expand_repeat(
        &mut self,
        repeat: &Spanned<YamlTree>,
        scope: &mut ConstantScope,
        depth: usize,
        expanded: &mut ExpandedSteps,
    ) {
        let shape =
            "write {for: {NAME: [VALUE, ...]}, steps: [...]}, or a range such as \"0..7\" for the values";
        let keys = match &repeat.value {
            YamlTree::Map(entries) => entries.iter().map(|(key, _)| key.value.as_str()).collect(),
            _ => Vec::new(),
        };
        let names = match repeat.value.get("for").map(|names| &names.value) {
            Some(YamlTree::Map(names)) => names,
            _ => return self.report_problem(repeat.referenced, "`repeat` has no mapping `for`", shape),
        };
        let steps = match repeat.value.get("steps").map(|steps| &steps.value) {
            Some(YamlTree::List(steps)) => steps,
            _ => return self.report_problem(repeat.referenced, "`repeat` has no list `steps`", shape),
        };
        if keys.len() != 2 || names.is_empty() {
            return self.report_problem(
                repeat.referenced,
                "`repeat` must have exactly the keys `for` and `steps`",
                shape,
            );
        }
        if depth >= DEPTH_MAX {
            let what = format!("`repeat` is nested deeper than {DEPTH_MAX} levels");
            return self.report_problem(
                repeat.referenced,
                what,
                "write one with several names: {for: {a: ..., b: ...}}",
            );
        }
        self.expand_combinations(names, steps, scope, depth, expanded);
    }

    /// Expands the steps once for each combination of the values of `names`. The last name changes fastest.
    fn expand_combinations(
        &mut self,
        names: &[(Spanned<String>, Spanned<YamlTree>)],
        steps: &[Spanned<YamlTree>],
        scope: &mut ConstantScope,
        depth: usize,
        expanded: &mut ExpandedSteps,
    ) {
        let Some(((name, values), others)) = names.split_first() else {
            return self.expand_steps(steps, scope, depth + 1, expanded);
        };
        self.check_constant_name(name);
        let listed = self.list_repeat_values(values, scope);
        if !self.check_expanded_bytes(name.referenced, expanded) {
            return;
        }
        for value in listed {
            if expanded.is_full {
                return;
            }
            expanded.combinations += 1;
            if expanded.combinations > COMBINATIONS_MAX {
                expanded.is_full = true;
                let what = format!("`repeat` has more than {COMBINATIONS_MAX} combinations of values");
                return self.report_problem(name.referenced, what, "repeat less often");
            }
            let scope_len = scope.len();
            scope.define(&name.value, value);
            self.expand_combinations(others, steps, scope, depth, expanded);
            scope.truncate(scope_len);
        }
    }

    /// Returns the values of a list or of a range. For example, the range `"0..7"` has the eight values 0
    /// to 7.
    fn list_repeat_values(&mut self, values: &Spanned<YamlTree>, scope: &ConstantScope) -> Vec<Constant> {
        let Some(substituted) = self.substitute_tree(values, scope) else {
            return Vec::new();
        };
        match &substituted.value {
            YamlTree::List(items) => items
                .iter()
                .filter_map(|item| self.resolve_constant(item))
                .collect(),
            YamlTree::Text(text) => {
                let ends = text.split_once("..").and_then(|(first, last)| {
                    Some((
                        first.trim().parse::<i64>().ok()?,
                        last.trim().parse::<i64>().ok()?,
                    ))
                });
                match ends {
                    Some((first, last)) if first <= last && last.saturating_sub(first) < STEPS_MAX as i64 => {
                        (first..=last).map(|n| Constant::Number(n as f64)).collect()
                    }
                    Some((first, last)) if first <= last => {
                        let what = format!("\"{text}\" has more than {STEPS_MAX} values");
                        self.report_problem(values.referenced, what, "repeat less often");
                        Vec::new()
                    }
                    _ => {
                        self.report_problem(
                            values.referenced,
                            format!("\"{text}\" is not a range"),
                            "write the first and the last number, such as \"0..63\", or a list",
                        );
                        Vec::new()
                    }
                }
            }
            _ => {
                self.report_problem(
                    values.referenced,
                    "this is not a list of values",
                    "write a list, or a range such as \"0..63\"",
                );
                Vec::new()
            }
        }
    }

    /// Adds the names of a `let` step to the scope.
    fn define_constants(&mut self, constants: &Spanned<YamlTree>, scope: &mut ConstantScope) {
        let YamlTree::Map(entries) = &constants.value else {
            return self.report_problem(
                constants.referenced,
                "`let` has no mapping from names to values",
                "write let: {NAME: VALUE}",
            );
        };
        for (name, value) in entries {
            self.check_constant_name(name);
            let substituted = self.substitute_tree(value, scope);
            if let Some(value) = substituted.and_then(|value| self.resolve_constant(&value)) {
                scope.define(&name.value, value);
            }
        }
    }

    fn check_constant_name(&mut self, name: &Spanned<String>) {
        let text = &name.value;
        let is_valid = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        if !is_valid {
            self.report_problem(
                name.referenced,
                format!("\"{text}\" is not a valid name of a constant"),
                "use letters, digits and _, the first a letter",
            );
        }
    }

    fn resolve_constant(&mut self, value: &Spanned<YamlTree>) -> Option<Constant> {
        Some(match &value.value {
            YamlTree::Integer(number) => Constant::Number(*number as f64),
            YamlTree::Float(number) if number.is_finite() => Constant::Number(*number),
            YamlTree::Text(text) => Constant::Text(text.clone()),
            YamlTree::Map(entries) => {
                let mut row = BTreeMap::new();
                for (name, value) in entries {
                    self.check_constant_name(name);
                    row.insert(name.value.clone(), self.resolve_constant(value)?);
                }
                Constant::Row(row)
            }
            _ => {
                let fix = "write a number, a text, or a row {NAME: VALUE, ...}";
                self.report_problem(value.referenced, "this value has the wrong type", fix);
                return None;
            }
        })
    }

    /// Replaces every `$(...)` in a tree. Returns `None` after an error.
    fn substitute_tree(
        &mut self,
        tree: &Spanned<YamlTree>,
        scope: &ConstantScope,
    ) -> Option<Spanned<YamlTree>> {
        self.expanded_values += 1;
        if let YamlTree::Text(text) = &tree.value {
            self.expanded_text_bytes += text.len();
        }
        let at = tree.referenced;
        let value = match &tree.value {
            YamlTree::Text(text) if text.contains("$(") => match self.substitute_text(text, at, scope)? {
                Constant::Number(number) if number.fract() == 0.0 => YamlTree::Integer(number as i64),
                Constant::Number(number) => YamlTree::Float(number),
                Constant::Text(text) => YamlTree::Text(text),
                Constant::Row(_) => {
                    self.report_problem(
                        at,
                        format!("\"{text}\" is a row"),
                        "select one of its values: $(row.column)",
                    );
                    return None;
                }
            },
            YamlTree::List(items) => {
                let items: Vec<Option<Spanned<YamlTree>>> = items
                    .iter()
                    .map(|item| self.substitute_tree(item, scope))
                    .collect();
                YamlTree::List(items.into_iter().collect::<Option<_>>()?)
            }
            YamlTree::Map(entries) => {
                let mut substituted = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    self.expanded_text_bytes += key.value.len();
                    let name = match key.value.contains("$(") {
                        true => self
                            .substitute_text(&key.value, key.referenced, scope)?
                            .to_string(),
                        false => key.value.clone(),
                    };
                    let name = Spanned::new(name, key.referenced, key.defined);
                    substituted.push((name, self.substitute_tree(value, scope)?));
                }
                YamlTree::Map(substituted)
            }
            other => other.clone(),
        };
        Some(Spanned::new(value, tree.referenced, tree.defined))
    }

    /// Replaces every `$(...)` in a text by its value. Reports an invalid formula and returns `None`.
    fn substitute_text(&mut self, text: &str, at: Location, scope: &ConstantScope) -> Option<Constant> {
        match substitute(text, scope) {
            Ok(value) => {
                if let Constant::Text(text) = &value {
                    self.expanded_text_bytes += text.len();
                }
                Some(value)
            }
            Err((what, fix)) => {
                self.report_problem(at, what, fix);
                None
            }
        }
    }
}

/// Returns the number of steps after the expansion, without the steps of formulas: a range or a list with `$(...)`
/// counts as one value. The work grows with the number of steps as written.
fn count_steps(steps: &[Spanned<YamlTree>], depth: usize) -> usize {
    let count_step = |step: &Spanned<YamlTree>| {
        let Some(repeat) = step.value.get("repeat") else {
            return usize::from(step.value.get("let").is_none());
        };
        let (Some(YamlTree::Map(names)), Some(YamlTree::List(steps))) = (
            repeat.value.get("for").map(|names| &names.value),
            repeat.value.get("steps").map(|steps| &steps.value),
        ) else {
            return 0;
        };
        if depth >= DEPTH_MAX {
            return 0;
        }
        let combinations = names
            .iter()
            .map(|(_, values)| count_values(&values.value))
            .fold(1, usize::saturating_mul);
        combinations.saturating_mul(count_steps(steps, depth + 1))
    };
    steps.iter().map(count_step).fold(0, usize::saturating_add)
}

/// Returns the number of values of a list or a range such as `0..7`. The number is 1 if formulas decide it.
fn count_values(values: &YamlTree) -> usize {
    match values {
        YamlTree::List(items) => items.len(),
        YamlTree::Text(text) => text
            .split_once("..")
            .and_then(|(first, last)| {
                let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                usize::try_from(i128::from(last) - i128::from(first) + 1).ok()
            })
            .unwrap_or(1),
        _ => 1,
    }
}
