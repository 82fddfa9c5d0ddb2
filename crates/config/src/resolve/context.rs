//! The shared state of all resolve steps: the configuration, errors and warnings.

use std::collections::{BTreeMap, BTreeSet};

use super::Resolve;
use crate::db::{ConfigDb, Value};
use crate::follow_up::Findings;
use crate::natural::{self, Name};
use crate::problem::Problem;
use crate::schema::BYTES_MAX;

/// Number of locations in a warning before it says "and N more".
const PLACES_NAMED: usize = 4;

/// The configuration that is resolved, with the errors and warnings found so far.
pub(super) struct Context<'a> {
    pub(super) db: &'a ConfigDb,
    pub(super) how: &'a Resolve,
    /// All ports in natural order. The index is the number of the port.
    pub(super) ports: Vec<String>,
    /// All LAGs in natural order. The index is the number of the LAG.
    pub(super) lags: Vec<&'a str>,
    /// For each port, a mask of the priority groups for which a note has already reported missing headroom.
    pub(super) noted_groups: BTreeMap<String, u8>,
    findings: Findings,
    /// Locations by table and text of a warning. A file often repeats the same entry for each port.
    warnings: BTreeMap<(String, String), Vec<String>>,
    /// Tables and fields without an effect, by the reason. The field is empty if the whole table has no
    /// effect.
    without_effect: BTreeMap<&'static str, BTreeSet<(Name, String)>>,
}

impl<'a> Context<'a> {
    /// Creates the state for a configuration, and determines its ports.
    pub(super) fn new(db: &'a ConfigDb, how: &'a Resolve) -> Context<'a> {
        let mut context = Context {
            db,
            how,
            ports: Vec::new(),
            lags: db.keys("PORTCHANNEL").collect(),
            noted_groups: BTreeMap::new(),
            findings: Findings::default(),
            warnings: BTreeMap::new(),
            without_effect: BTreeMap::new(),
        };
        context.ports = super::ports::names(&mut context);
        context
    }

    /// Returns the value of a field, or `None` if the field is missing or a list.
    pub(super) fn text(&self, table: &str, key: &str, field: &str) -> Option<&'a str> {
        match self.db.entry(table, key)?.get(&Name::from(field))? {
            Value::Text(text) => Some(text),
            Value::List(_) => None,
        }
    }

    /// Returns the value of a field that the schema defines as a number without a sign.
    pub(super) fn number(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        self.text(table, key, field)?.parse().ok()
    }

    /// Returns a size in bytes, at most [`BYTES_MAX`].
    pub(super) fn bytes(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        Some(self.number(table, key, field)?.min(BYTES_MAX))
    }

    /// Returns the number of a port.
    pub(super) fn port(&self, name: &str) -> Option<usize> {
        self.ports
            .binary_search_by(|port| natural::compare(port, name))
            .ok()
    }

    /// Returns the number of a LAG.
    pub(super) fn lag(&self, name: &str) -> Option<usize> {
        self.lags.binary_search_by(|lag| natural::compare(lag, name)).ok()
    }

    /// Returns the name of the switch.
    pub(super) fn hostname(&self) -> &str {
        let configured = self.text("DEVICE_METADATA", super::LOCALHOST, "hostname");
        configured.or(self.how.hostname.as_deref()).unwrap_or("xoff")
    }

    /// Whether a device or a link is attached to a port.
    pub(super) fn is_attached(&self, port: &str) -> bool {
        self.how.ports.iter().any(|name| name == port)
    }

    /// Reports a contradiction between fields or entries.
    pub(super) fn problem(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.derived.push(problem);
    }

    /// Reports a value that is refused.
    pub(super) fn value_problem(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.values.push(problem);
    }

    /// Reports a missing field or an invalid reference.
    pub(super) fn own_problem(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.own.push(problem);
    }

    fn with_source(&self, problem: Problem) -> Problem {
        Problem {
            source: self.db.source.clone(),
            ..problem
        }
    }

    /// Adds a warning about an entry of a table.
    pub(super) fn warn_entry(&mut self, table: &str, key: &str, text: impl Into<String>) {
        let places = self.warnings.entry((table.to_owned(), text.into())).or_default();
        if places.last().is_none_or(|last| last != key) {
            places.push(key.to_owned());
        }
    }

    /// Adds a warning about a port.
    pub(super) fn warn_port(&mut self, port: &str, text: impl Into<String>) {
        let places = self.warnings.entry((String::new(), text.into())).or_default();
        if places.last().is_none_or(|last| last != port) {
            places.push(port.to_owned());
        }
    }

    /// Adds a table or a field to the note about settings without an effect.
    pub(super) fn note_without_effect(&mut self, why: &'static str, table: &str, field: String) {
        let names = self.without_effect.entry(why).or_default();
        names.insert((table.into(), field));
    }

    /// Takes over the errors and warnings of an earlier step for the same configuration.
    pub(super) fn absorb(&mut self, earlier: Context<'_>) {
        self.findings.values.extend(earlier.findings.values);
        self.findings.own.extend(earlier.findings.own);
        self.findings.derived.extend(earlier.findings.derived);
        self.noted_groups.extend(earlier.noted_groups);
        for (what, places) in earlier.warnings {
            self.warnings.entry(what).or_default().extend(places);
        }
        for (why, names) in earlier.without_effect {
            self.without_effect.entry(why).or_default().extend(names);
        }
    }

    /// Returns all warnings in order, and the errors.
    pub(super) fn finish(self) -> (Vec<String>, Findings) {
        let mut by_place: Vec<_> = self.warnings.into_iter().collect();
        by_place.sort_by(|((table_a, text_a), places_a), ((table_b, text_b), places_b)| {
            let first = |places: &[String]| places.first().cloned().unwrap_or_default();
            let by_table = natural::compare(table_a, table_b);
            by_table
                .then_with(|| natural::compare(&first(places_a), &first(places_b)))
                .then_with(|| text_a.cmp(text_b))
        });
        let mut warnings = self.db.notes.clone();
        warnings.extend(names_without_effect(&self.without_effect));
        for ((table, text), places) in by_place {
            let separator = if table.is_empty() { "" } else { "|" };
            warnings.push(format!("{table}{separator}{}: {text}", some_of(&places)));
        }
        (warnings, self.findings)
    }
}

/// Formats the note `no effect: AAA, NTP (outside the data path of a switch); PORT fec (...)`.
fn names_without_effect(by_reason: &BTreeMap<&'static str, BTreeSet<(Name, String)>>) -> Option<String> {
    let mut reasons: Vec<_> = by_reason.iter().collect();
    reasons.sort_by_key(|(_, names)| names.first());
    let groups: Vec<String> = reasons
        .into_iter()
        .map(|(why, names)| {
            let names: Vec<String> = names
                .iter()
                .map(|(table, field)| format!("{} {field}", table.as_str()).trim_end().to_owned())
                .collect();
            format!("{} ({why})", names.join(", "))
        })
        .collect();
    (!groups.is_empty()).then(|| format!("no effect: {}", groups.join("; ")))
}

/// Formats a list as `a, b, c, d and 28 more`.
fn some_of(places: &[String]) -> String {
    let named = places[..places.len().min(PLACES_NAMED)].join(", ");
    match places.len().saturating_sub(PLACES_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
