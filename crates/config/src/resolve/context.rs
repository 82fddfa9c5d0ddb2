//! What every step of resolving shares: the configuration, and what is found wrong or worth saying.

use std::collections::{BTreeMap, BTreeSet};

use super::Resolve;
use crate::db::{ConfigDb, Value};
use crate::follow_up::Findings;
use crate::natural::{self, Name};
use crate::problem::Problem;
use crate::schema::BYTES_MAX;

/// Places named in a warning before it says "and more".
const PLACES_NAMED: usize = 4;

pub(super) struct Context<'a> {
    pub(super) db: &'a ConfigDb,
    pub(super) how: &'a Resolve,
    /// Every port, in natural order: the index is the port's number.
    pub(super) ports: Vec<String>,
    /// Every LAG, in natural order: the index is the LAG's number.
    pub(super) lags: Vec<&'a str>,
    /// Priority groups that a note has already called lossless without headroom, by port.
    pub(super) noted_groups: BTreeMap<String, u8>,
    findings: Findings,
    /// Warnings by table and text, with the places they hold for: a file repeats itself port by port.
    warnings: BTreeMap<(String, String), Vec<String>>,
    /// Tables and fields without effect, by reason: a table's name, and a field with or without its value, or nothing
    /// where the whole table has none.
    without_effect: BTreeMap<&'static str, BTreeSet<(Name, String)>>,
}

impl<'a> Context<'a> {
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

    /// A value as it stands; a list has no single text.
    pub(super) fn text(&self, table: &str, key: &str, field: &str) -> Option<&'a str> {
        match self.db.entry(table, key)?.get(&Name::from(field))? {
            Value::Text(text) => Some(text),
            Value::List(_) => None,
        }
    }

    /// A value that the schema knows to be a number without a sign.
    pub(super) fn number(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        self.text(table, key, field)?.parse().ok()
    }

    /// A size in bytes, cut down to [`BYTES_MAX`].
    pub(super) fn bytes(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        Some(self.number(table, key, field)?.min(BYTES_MAX))
    }

    pub(super) fn port(&self, name: &str) -> Option<usize> {
        self.ports
            .binary_search_by(|port| natural::compare(port, name))
            .ok()
    }

    pub(super) fn lag(&self, name: &str) -> Option<usize> {
        self.lags.binary_search_by(|lag| natural::compare(lag, name)).ok()
    }

    /// The name of the switch.
    pub(super) fn hostname(&self) -> &str {
        let configured = self.text("DEVICE_METADATA", super::LOCALHOST, "hostname");
        configured.or(self.how.hostname.as_deref()).unwrap_or("xoff")
    }

    /// Whether a port is named on the command line: frames pass it in real time.
    pub(super) fn is_attached(&self, port: &str) -> bool {
        self.how.ports.iter().any(|name| name == port)
    }

    /// A contradiction between fields or entries.
    pub(super) fn problem(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.derived.push(problem);
    }

    /// A value that is refused.
    pub(super) fn value_problem(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.values.push(problem);
    }

    /// A missing field, or a reference to nothing.
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

    /// A warning about an entry of a table.
    pub(super) fn warn_entry(&mut self, table: &str, key: &str, text: impl Into<String>) {
        let places = self.warnings.entry((table.to_owned(), text.into())).or_default();
        if places.last().is_none_or(|last| last != key) {
            places.push(key.to_owned());
        }
    }

    /// A warning about a port.
    pub(super) fn warn_port(&mut self, port: &str, text: impl Into<String>) {
        let places = self.warnings.entry((String::new(), text.into())).or_default();
        if places.last().is_none_or(|last| last != port) {
            places.push(port.to_owned());
        }
    }

    /// Names a table or a field in the one note of all that has no effect.
    pub(super) fn note_without_effect(&mut self, why: &'static str, table: &str, field: String) {
        let names = self.without_effect.entry(why).or_default();
        names.insert((table.into(), field));
    }

    /// Takes over what an earlier step over the same configuration found.
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

/// `no effect: AAA, NTP (outside the data path of a switch); PORT fec (these ports have no transceiver)`.
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

/// `a, b, c, d and 28 more`.
fn some_of(places: &[String]) -> String {
    let named = places[..places.len().min(PLACES_NAMED)].join(", ");
    match places.len().saturating_sub(PLACES_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
