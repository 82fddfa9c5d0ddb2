//! `XOFF_LB_SCHEME`, and which schemes a switch has: those that something names.

use std::collections::BTreeMap;

use xoff_dataplane::config::{HashFields, Pick, Rebalance, SchemeConfig, SchemeKind};
use xoff_units::Picos;

use super::super::context::Context;
use super::PLAIN;
use crate::balancing::{BuiltIn, SCHEMES, built_in};
use crate::problem::Problem;
use crate::schema;

const TABLE: &str = "XOFF_LB_SCHEME";
/// Chance of a packet to move its flow where `quality_delta` alone is given.
const PROBABILITY_PERCENT: u64 = 1;

/// All schemes that there could be, and those that are used.
pub(super) struct Schemes {
    known: BTreeMap<String, SchemeConfig>,
    used: Vec<SchemeConfig>,
}

impl Schemes {
    /// Built-in schemes, and those of the configuration over them.
    pub(super) fn read(context: &mut Context<'_>) -> Schemes {
        let mut known: BTreeMap<_, _> = SCHEMES
            .iter()
            .map(|scheme| (scheme.name.to_owned(), scheme.config()))
            .collect();
        for name in context.db.keys(TABLE) {
            if let Some(scheme) = configured(context, name) {
                known.insert(name.to_owned(), scheme);
            }
        }
        Schemes {
            known,
            used: Vec::new(),
        }
    }

    /// Whether a name means what the router does anyway.
    pub(super) fn is_plain(&self, name: &str) -> bool {
        let plain =
            |scheme: &SchemeConfig| scheme.kind == SchemeKind::Hash && scheme.hash == HashFields::FiveTuple;
        name == PLAIN && self.known.get(name).is_some_and(plain)
    }

    /// The index of the scheme of this name; `None` if there is none, which is said where references are checked.
    pub(super) fn index(&mut self, name: &str) -> Option<u16> {
        let scheme = self.known.get(name)?.clone();
        Some(self.add(scheme))
    }

    /// The index of a scheme, which is used from now on.
    pub(super) fn add(&mut self, scheme: SchemeConfig) -> u16 {
        let at = self.used.iter().position(|used| *used == scheme);
        at.unwrap_or_else(|| {
            self.used.push(scheme);
            self.used.len() - 1
        }) as u16
    }

    pub(super) fn into_list(self) -> Vec<SchemeConfig> {
        self.used
    }
}

/// An entry of the table; `None` if it is no scheme, which has been said.
fn configured(context: &mut Context<'_>, name: &str) -> Option<SchemeConfig> {
    let base = match context.text(TABLE, name, "scheme") {
        Some(base) => built_in(base)?,
        None => match built_in(name) {
            Some(base) => base,
            // A value that could not be read is told where it stands.
            None => {
                let why = "the field is missing: it says which built-in scheme this is";
                let problem = Problem::at(TABLE, name, "scheme", why);
                context.own_problem(problem.fix(format!("one of {}", names())));
                return None;
            }
        },
    };
    fields_of_others(context, name, base);
    let mut scheme = SchemeConfig {
        name: name.to_owned(),
        ..base.config()
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
    tune(&mut scheme.kind, number);
    if let Some(entries) = entries {
        if !entries.is_power_of_two() {
            let why = "expected a power of two from 256 to 32768";
            let problem = Problem::at(TABLE, name, "flowset_size", why).value(entries.to_string());
            let fix = format!("write {}", entries.next_power_of_two().clamp(256, 32_768));
            context.own_problem(problem.fix(fix));
        }
        scheme.flowset_entries = entries as u32;
    }
    Some(scheme)
}

/// Puts the figures of an entry into its scheme.
fn tune(kind: &mut SchemeKind, number: impl Fn(&str) -> Option<u64>) {
    match kind {
        SchemeKind::Flowlet {
            idle,
            pick,
            rebalance,
        } => {
            set_idle(idle, number("idle_time"));
            if let (Pick::Global { remote_percent }, Some(percent)) = (pick, number("remote_weight")) {
                *remote_percent = percent as u8;
            }
            let percent = number("probability").unwrap_or(PROBABILITY_PERCENT);
            *rebalance = number("quality_delta")
                .filter(|delta| *delta > 0)
                .map(|delta| Rebalance {
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
            set_idle(idle, number("idle_time"));
            if let Some(most) = number("flows_max") {
                *flows_max = most as u32;
            }
        }
        _ => {}
    }
}

fn set_idle(idle: &mut Picos, micros: Option<u64>) {
    if let Some(micros) = micros {
        *idle = Picos::from_micros(micros);
    }
}

/// Names the fields that a scheme does not have.
fn fields_of_others(context: &mut Context<'_>, name: &str, base: &BuiltIn) {
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
            [] => format!("{field} has no effect: {} has no figures", base.name),
            fields => format!("{field} has no effect: {} has {}", base.name, fields.join(", ")),
        };
        context.warn_entry(TABLE, name, text);
    }
    let alone =
        |field: &str, with: &str| entry.contains_key(&field.into()) && !entry.contains_key(&with.into());
    if base.fields.contains(&"probability") && alone("probability", "quality_delta") {
        let text = "probability has no effect: quality_delta is 0";
        context.warn_entry(TABLE, name, text);
    }
}

fn names() -> String {
    let names: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
    names.join(", ")
}

/// What a reference to a scheme that there is not is told.
pub(in super::super) fn unknown(context: &Context<'_>, name: &str) -> String {
    let configured = context.db.keys(TABLE);
    let known = SCHEMES.iter().map(|scheme| scheme.name).chain(configured);
    match schema::nearest(name, known) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("one of {}, or add {name} to {TABLE}", names()),
    }
}

/// Whether there is a scheme of this name.
pub(in super::super) fn exists(context: &Context<'_>, name: &str) -> bool {
    built_in(name).is_some() || context.db.entry(TABLE, name).is_some()
}
