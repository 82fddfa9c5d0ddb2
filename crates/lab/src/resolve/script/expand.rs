//! `let`, `repeat` and `$(...)`: from steps as they are written to steps that happen.

use std::collections::BTreeMap;

use serde_saphyr::{Location, Spanned};

use super::super::super::file::{Step, Tree, read};
use super::super::LabResolver;
use super::formula::{Constant, Scope, fill};

/// Most steps of a script once its repeats are unrolled.
const STEPS_MAX: usize = 100_000;
/// Deepest nesting of repeats.
const DEPTH_MAX: usize = 8;

/// Steps that happen, and whether there were too many.
#[derive(Default)]
pub(super) struct Unrolled {
    pub(super) steps: Vec<Spanned<Step>>,
    is_full: bool,
}

impl LabResolver<'_> {
    /// Unrolls steps into `out`. `depth` is that of repeats around them.
    pub(super) fn unroll(
        &mut self,
        steps: &[Spanned<Tree>],
        scope: &mut Scope,
        depth: usize,
        out: &mut Unrolled,
    ) {
        for step in steps {
            if let Some(repeat) = step.value.get("repeat") {
                self.alone(step, "repeat");
                self.repeat(repeat, scope, depth, out);
                continue;
            }
            if let Some(constants) = step.value.get("let") {
                self.alone(step, "let");
                self.constants(constants, scope);
                continue;
            }
            if out.steps.len() >= STEPS_MAX {
                if !out.is_full {
                    out.is_full = true;
                    let what = format!("the script has more than {STEPS_MAX} steps");
                    self.report_problem(
                        step.referenced,
                        what,
                        "repeat less often, or send more frames in one step",
                    );
                }
                return;
            }
            let Some(filled) = self.filled(step, scope) else {
                continue;
            };
            match read::<Step>(&filled) {
                Ok(read) => out.steps.push(Spanned::new(read, step.referenced, step.defined)),
                Err(error) => self.report_problem(error.at, error.what, ""),
            }
        }
    }

    fn alone(&mut self, step: &Spanned<Tree>, verb: &str) {
        if let Tree::Map(entries) = &step.value
            && let Some((other, _)) = entries.iter().find(|(key, _)| key.value != verb)
        {
            let what = format!("`{verb}` stands alone in its step, without `{}`", other.value);
            self.report_problem(other.referenced, what, "make two steps of it");
        }
    }

    /// `repeat: {for: {NAME: VALUES, ...}, steps: [...]}`: the steps for each value, of several names for each combination.
    fn repeat(&mut self, repeat: &Spanned<Tree>, scope: &mut Scope, depth: usize, out: &mut Unrolled) {
        let shape =
            "write {for: {NAME: [VALUE, ...]}, steps: [...]}, or a range such as \"0..7\" for the values";
        let keys = match &repeat.value {
            Tree::Map(entries) => entries.iter().map(|(key, _)| key.value.as_str()).collect(),
            _ => Vec::new(),
        };
        let names = match repeat.value.get("for").map(|names| &names.value) {
            Some(Tree::Map(names)) => names,
            _ => return self.report_problem(repeat.referenced, "a repeat says for what", shape),
        };
        let steps = match repeat.value.get("steps").map(|steps| &steps.value) {
            Some(Tree::List(steps)) => steps,
            _ => return self.report_problem(repeat.referenced, "a repeat has steps", shape),
        };
        if keys.len() != 2 || names.is_empty() {
            return self.report_problem(
                repeat.referenced,
                "a repeat has `for` and `steps` and nothing else",
                shape,
            );
        }
        if depth >= DEPTH_MAX {
            let what = format!("repeats are nested deeper than {DEPTH_MAX}");
            return self.report_problem(
                repeat.referenced,
                what,
                "write one with several names: {for: {a: ..., b: ...}}",
            );
        }
        self.each(names, steps, scope, depth, out);
    }

    fn each(
        &mut self,
        names: &[(Spanned<String>, Spanned<Tree>)],
        steps: &[Spanned<Tree>],
        scope: &mut Scope,
        depth: usize,
        out: &mut Unrolled,
    ) {
        let Some(((name, values), others)) = names.split_first() else {
            return self.unroll(steps, scope, depth + 1, out);
        };
        self.constant_name(name);
        for value in self.values(values, scope) {
            if out.is_full {
                return;
            }
            let mark = scope.mark();
            scope.set(&name.value, value);
            self.each(others, steps, scope, depth, out);
            scope.reset(mark);
        }
    }

    /// A list, or a range of whole numbers, both ends in it.
    fn values(&mut self, values: &Spanned<Tree>, scope: &Scope) -> Vec<Constant> {
        let Some(filled) = self.filled(values, scope) else {
            return Vec::new();
        };
        match &filled.value {
            Tree::List(items) => items.iter().filter_map(|item| self.constant(item)).collect(),
            Tree::Text(text) => {
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
                    _ => {
                        self.report_problem(
                            values.referenced,
                            format!("\"{text}\" is no range"),
                            "write the first and the last number, such as \"0..63\", or a list",
                        );
                        Vec::new()
                    }
                }
            }
            _ => {
                self.report_problem(
                    values.referenced,
                    "these are no values",
                    "write a list, or a range such as \"0..63\"",
                );
                Vec::new()
            }
        }
    }

    fn constants(&mut self, constants: &Spanned<Tree>, scope: &mut Scope) {
        let Tree::Map(entries) = &constants.value else {
            return self.report_problem(
                constants.referenced,
                "`let` gives values to names",
                "write let: {NAME: VALUE}",
            );
        };
        for (name, value) in entries {
            self.constant_name(name);
            let filled = self.filled(value, scope);
            if let Some(value) = filled.and_then(|value| self.constant(&value)) {
                scope.set(&name.value, value);
            }
        }
    }

    fn constant_name(&mut self, name: &Spanned<String>) {
        let text = &name.value;
        let is_good = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        if !is_good {
            self.report_problem(
                name.referenced,
                format!("\"{text}\" cannot be such a name"),
                "use letters, digits and _, the first a letter",
            );
        }
    }

    fn constant(&mut self, value: &Spanned<Tree>) -> Option<Constant> {
        Some(match &value.value {
            Tree::Integer(number) => Constant::Number(*number as f64),
            Tree::Float(number) if number.is_finite() => Constant::Number(*number),
            Tree::Text(text) => Constant::Text(text.clone()),
            Tree::Map(entries) => {
                let mut row = BTreeMap::new();
                for (name, value) in entries {
                    self.constant_name(name);
                    row.insert(name.value.clone(), self.constant(value)?);
                }
                Constant::Row(row)
            }
            _ => {
                let fix = "write a number, a text, or a row {NAME: VALUE, ...}";
                self.report_problem(value.referenced, "this is no value for a name", fix);
                return None;
            }
        })
    }

    /// A tree with everything in `$(...)` put in; `None` if something is wrong with that.
    fn filled(&mut self, tree: &Spanned<Tree>, scope: &Scope) -> Option<Spanned<Tree>> {
        let at = tree.referenced;
        let value = match &tree.value {
            Tree::Text(text) if text.contains("$(") => match self.put_in(text, at, scope)? {
                Constant::Number(number) if number.fract() == 0.0 => Tree::Integer(number as i64),
                Constant::Number(number) => Tree::Float(number),
                Constant::Text(text) => Tree::Text(text),
                Constant::Row(_) => {
                    self.report_problem(
                        at,
                        format!("\"{text}\" is a row"),
                        "choose one of its parts: $(row.column)",
                    );
                    return None;
                }
            },
            Tree::List(items) => {
                let items: Vec<Option<Spanned<Tree>>> =
                    items.iter().map(|item| self.filled(item, scope)).collect();
                Tree::List(items.into_iter().collect::<Option<_>>()?)
            }
            Tree::Map(entries) => {
                let mut filled = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let name = match key.value.contains("$(") {
                        true => self.put_in(&key.value, key.referenced, scope)?.to_string(),
                        false => key.value.clone(),
                    };
                    let name = Spanned::new(name, key.referenced, key.defined);
                    filled.push((name, self.filled(value, scope)?));
                }
                Tree::Map(filled)
            }
            other => other.clone(),
        };
        Some(Spanned::new(value, tree.referenced, tree.defined))
    }

    fn put_in(&mut self, text: &str, at: Location, scope: &Scope) -> Option<Constant> {
        match fill(text, scope) {
            Ok(value) => Some(value),
            Err((what, fix)) => {
                self.report_problem(at, what, fix);
                None
            }
        }
    }
}
