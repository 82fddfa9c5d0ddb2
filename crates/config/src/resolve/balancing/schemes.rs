//! `XOFF_LB_SCHEME`, and the list of the schemes that the switch uses.

use std::collections::BTreeMap;

use xoff_dataplane::config::{HashFields, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind};
use xoff_units::{Picos, nearest_name};

use super::super::context::ResolveContext;
use super::DEFAULT_SCHEME;
use crate::balancing::{BUILT_IN_SCHEMES, BuiltInScheme, built_in_scheme};
use crate::natural::NaturalName;
use crate::problem::Problem;

const TABLE: &str = "XOFF_LB_SCHEME";
/// Default probability in percent that a packet moves its flow, if `quality_delta` is set.
const PROBABILITY_PERCENT: u64 = 1;

/// All known schemes by name, and the list of the schemes that the configuration uses.
pub(super) struct SchemeList {
    known: BTreeMap<String, SchemeConfig>,
    used: Vec<SchemeConfig>,
}

impl SchemeList {
    /// Collects the built-in schemes and the schemes of `XOFF_LB_SCHEME`. The list of used schemes is empty.
    pub(super) fn from_config(context: &mut ResolveContext<'_>) -> SchemeList {
        let mut known: BTreeMap<_, _> = BUILT_IN_SCHEMES
            .iter()
            .map(|scheme| (scheme.name.to_owned(), scheme.default_config()))
            .collect();
        for name in context.db.keys(TABLE) {
            if let Some(scheme) = resolve_scheme_entry(context, name) {
                known.insert(name.to_owned(), scheme);
            }
        }
        SchemeList {
            known,
            used: Vec::new(),
        }
    }

    /// Returns true if `name` is the default scheme and this scheme hashes the five-tuple. An entry of
    /// `XOFF_LB_SCHEME` can change the default scheme.
    pub(super) fn is_default_scheme(&self, name: &str) -> bool {
        let plain =
            |scheme: &SchemeConfig| scheme.kind == SchemeKind::Hash && scheme.hash == HashFields::FiveTuple;
        name == DEFAULT_SCHEME && self.known.get(name).is_some_and(plain)
    }

    /// Returns the index of a scheme in the list of used schemes, and adds the scheme if necessary. Returns
    /// `None` for an unknown name, which the check of references reports.
    pub(super) fn index_of_name(&mut self, name: &str) -> Option<u16> {
        let scheme = self.known.get(name)?.clone();
        Some(self.index_of_scheme(scheme))
    }

    /// Returns the index of a scheme in the list of used schemes, and adds the scheme if necessary.
    pub(super) fn index_of_scheme(&mut self, scheme: SchemeConfig) -> u16 {
        let index = self.used.iter().position(|used| *used == scheme);
        index.unwrap_or_else(|| {
            self.used.push(scheme);
            self.used.len() - 1
        }) as u16
    }

    /// Returns the list of used schemes, in the order of their indices.
    pub(super) fn into_list(self) -> Vec<SchemeConfig> {
        self.used
    }
}

/// Resolves an entry of `XOFF_LB_SCHEME`. Returns `None` after an error.
fn resolve_scheme_entry(context: &mut ResolveContext<'_>, name: &str) -> Option<SchemeConfig> {
    let base = match context.text(TABLE, name, "scheme") {
        Some(base) => built_in_scheme(base)?,
        None => match built_in_scheme(name) {
            Some(base) => base,
            // The check of values has already reported an invalid value.
            None => {
                let why = "the field is missing: it selects the built-in scheme";
                let problem = Problem::at_field(TABLE, name, "scheme", why);
                context.report_error_within_entry(
                    problem.with_fix(format!("one of {}", built_in_scheme_names())),
                );
                return None;
            }
        },
    };
    warn_unsupported_fields(context, name, base);
    let mut scheme = SchemeConfig {
        name: name.to_owned(),
        ..base.default_config()
    };
    let number = |field: &str| {
        let has = base.fields.contains(&field);
        context.number(TABLE, name, field).filter(|_| has)
    };
    match context.text(TABLE, name, "hash_fields") {
        Some("five-tuple") => scheme.hash = HashFields::FiveTuple,
        Some("five-tuple-qp") => scheme.hash = HashFields::FiveTupleQp,
        Some("symmetric") => scheme.hash = HashFields::Symmetric,
        _ => {}
    }
    if let Some(threshold) = number("primary_threshold") {
        scheme.primary_threshold = threshold as u8;
    }
    if let Some(cost) = number("alternate_cost") {
        scheme.alternate_cost = cost as u8;
    }
    let entries = number("flowset_size");
    apply_parameters(&mut scheme.kind, number);
    if let Some(entries) = entries {
        if !entries.is_power_of_two() {
            let why = "expected a power of two from 256 to 32768";
            let problem = Problem::at_field(TABLE, name, "flowset_size", why).with_value(entries.to_string());
            let fix = format!("write {}", entries.next_power_of_two().clamp(256, 32_768));
            context.report_error_within_entry(problem.with_fix(fix));
        }
        scheme.flowset_entries = entries as u32;
    }
    Some(scheme)
}

/// Applies the parameters of an entry to its scheme. `number` returns the value of a field.
fn apply_parameters(kind: &mut SchemeKind, number: impl Fn(&str) -> Option<u64>) {
    match kind {
        SchemeKind::Flowlet {
            idle,
            pick,
            rebalance,
        } => {
            set_idle_time(idle, number("idle_time"));
            if let (MemberSelection::Global { remote_percent }, Some(percent)) =
                (pick, number("remote_weight"))
            {
                *remote_percent = percent as u8;
            }
            let percent = number("probability").unwrap_or(PROBABILITY_PERCENT);
            *rebalance = number("quality_delta")
                .filter(|delta| *delta > 0)
                .map(|delta| RebalanceRule {
                    quality_delta: delta as u8,
                    probability: ((percent << 32) / 100).min(u64::from(u32::MAX)) as u32,
                });
        }
        SchemeKind::Drill { samples, memory } => {
            if let Some(most) = number("samples") {
                *samples = most as u8;
            }
            if let Some(most) = number("memory") {
                *memory = most as u8;
            }
        }
        SchemeKind::Cluster { flows_max, idle } => {
            set_idle_time(idle, number("idle_time"));
            if let Some(most) = number("flows_max") {
                *flows_max = most as u32;
            }
        }
        _ => {}
    }
}

/// Sets an idle time in microseconds. `None` changes nothing.
fn set_idle_time(idle: &mut Picos, micros: Option<u64>) {
    if let Some(micros) = micros {
        *idle = Picos::from_micros(micros);
    }
}

/// Warns about fields that the built-in scheme `base` does not read.
fn warn_unsupported_fields(context: &mut ResolveContext<'_>, name: &str, base: &BuiltInScheme) {
    let db = context.db;
    let Some(entry) = db.entry(TABLE, name) else {
        return;
    };
    let others = entry
        .keys()
        .map(|field| field.as_str())
        .filter(|field| *field != "scheme" && !base.fields.contains(field));
    for field in others {
        let text = match base.fields {
            [] => format!("{field} has no effect: {} has no parameters", base.name),
            fields => format!(
                "{field} has no effect: the parameters of {} are {}",
                base.name,
                fields.join(", ")
            ),
        };
        context.warn_entry(TABLE, name, text);
    }
    let alone = |field: &str, with: &str| {
        entry.contains_key(&field as &dyn NaturalName) && !entry.contains_key(&with as &dyn NaturalName)
    };
    if base.fields.contains(&"probability") && alone("probability", "quality_delta") {
        let text = "probability has no effect: quality_delta is 0";
        context.warn_entry(TABLE, name, text);
    }
}

/// Returns the names of all built-in schemes, separated by commas.
fn built_in_scheme_names() -> String {
    let names: Vec<&str> = BUILT_IN_SCHEMES.iter().map(|scheme| scheme.name).collect();
    names.join(", ")
}

/// Returns a suggestion for a reference to the unknown scheme `name`.
pub(in super::super) fn suggest_scheme(context: &ResolveContext<'_>, name: &str) -> String {
    let configured = context.db.keys(TABLE);
    let known = BUILT_IN_SCHEMES
        .iter()
        .map(|scheme| scheme.name)
        .chain(configured);
    match nearest_name(name, known) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("one of {}, or add {name} to {TABLE}", built_in_scheme_names()),
    }
}

/// Returns whether a built-in scheme or an entry of `XOFF_LB_SCHEME` has this name.
pub(in super::super) fn scheme_exists(context: &ResolveContext<'_>, name: &str) -> bool {
    built_in_scheme(name).is_some() || context.db.entry(TABLE, name).is_some()
}
