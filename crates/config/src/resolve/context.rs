//! The shared state of all resolve steps: the configuration, errors and warnings.

use std::collections::{BTreeMap, BTreeSet};

use super::ResolveOptions;
use crate::db::{ConfigDb, FieldValue};
use crate::invariants::PORTS_MAX;
use crate::natural::{self, NaturalName, NaturalSortKey};
use crate::problem::Problem;
use crate::root_cause::FoundErrors;
use crate::schema::{self, BYTES_MAX};

/// Number of locations that a warning lists. Further locations are only counted ("and N more").
const LOCATIONS_NAMED: usize = 4;

/// The table of the LAGs.
pub(super) const LAG_TABLE: &str = "PORTCHANNEL";

/// The configuration that is resolved, with the errors and warnings found so far.
pub(super) struct ResolveContext<'a> {
    pub(super) db: &'a ConfigDb,
    pub(super) options: &'a ResolveOptions,
    /// Names of all ports in natural order (`Ethernet2` before `Ethernet10`). The position is the index of
    /// the port.
    pub(super) ports: Vec<String>,
    /// Names of all LAGs in natural order. The position is the index of the LAG.
    pub(super) lags: Vec<&'a str>,
    /// Bit mask of priority groups by port. A set bit means that a warning has already reported missing
    /// headroom for this priority group.
    pub(super) noted_groups: BTreeMap<String, u8>,
    findings: FoundErrors,
    /// The locations of each warning, by table and text. A file often has the same entry for each port, so a
    /// warning can have many locations. The table is empty for a warning about a port.
    warnings: BTreeMap<(String, String), Vec<String>>,
    /// Tables and fields without an effect, grouped by reason. The field name is empty if the whole table has
    /// no effect.
    without_effect: BTreeMap<&'static str, BTreeSet<(NaturalSortKey, String)>>,
}

impl<'a> ResolveContext<'a> {
    /// Creates the state for a configuration, and determines the names of its ports and LAGs.
    pub(super) fn new(db: &'a ConfigDb, options: &'a ResolveOptions) -> ResolveContext<'a> {
        let mut context = ResolveContext {
            db,
            options,
            ports: Vec::new(),
            lags: db.keys(LAG_TABLE).collect(),
            noted_groups: BTreeMap::new(),
            findings: FoundErrors::default(),
            warnings: BTreeMap::new(),
            without_effect: BTreeMap::new(),
        };
        context.ports = port_names(&mut context);
        context
    }

    /// Returns the value of a field. Returns `None` if the field is missing or is a list.
    pub(super) fn text(&self, table: &str, key: &str, field: &str) -> Option<&'a str> {
        match self.db.entry(table, key)?.get(&field as &dyn NaturalName)? {
            FieldValue::Text(text) => Some(text),
            FieldValue::List(_) => None,
        }
    }

    /// Returns the value of a field as an unsigned number. Returns `None` if the field is missing or its
    /// value is not an unsigned number.
    pub(super) fn number(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        self.text(table, key, field)?.parse().ok()
    }

    /// Returns the value of a field as a size in bytes, at most [`BYTES_MAX`]. Returns `None` if the field
    /// is missing.
    pub(super) fn bytes(&self, table: &str, key: &str, field: &str) -> Option<u64> {
        Some(self.number(table, key, field)?.min(BYTES_MAX))
    }

    /// Returns the index of a port. Returns `None` if the port does not exist.
    pub(super) fn port_index(&self, name: &str) -> Option<usize> {
        self.ports
            .binary_search_by(|port| natural::compare_naturally(port, name))
            .ok()
    }

    /// Returns the index of a LAG. Returns `None` if the LAG does not exist.
    pub(super) fn lag_index(&self, name: &str) -> Option<usize> {
        self.lags
            .binary_search_by(|lag| natural::compare_naturally(lag, name))
            .ok()
    }

    /// Returns the name of the switch: the configured host name, the name in the options, or `xoff`.
    pub(super) fn hostname(&self) -> &str {
        let configured = self.text("DEVICE_METADATA", super::LOCALHOST, "hostname");
        configured.or(self.options.hostname.as_deref()).unwrap_or("xoff")
    }

    /// Returns whether a device or a link is attached to a port.
    pub(super) fn is_attached(&self, port: &str) -> bool {
        self.options.ports.iter().any(|name| name == port)
    }

    /// Reports a contradiction between entries. The error is dropped if it follows from another error.
    pub(super) fn report_entry_contradiction(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.derived.push(problem);
    }

    /// Reports an invalid value.
    pub(super) fn report_invalid_value(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.values.push(problem);
    }

    /// Reports a missing field, an invalid reference or a contradiction within one entry.
    pub(super) fn report_error_within_entry(&mut self, problem: Problem) {
        let problem = self.with_source(problem);
        self.findings.own.push(problem);
    }

    fn with_source(&self, problem: Problem) -> Problem {
        Problem {
            source: self.db.source.clone(),
            ..problem
        }
    }

    /// Adds a warning about an entry of a table. Warnings with the same table and text are printed together.
    pub(super) fn warn_entry(&mut self, table: &str, key: &str, text: impl Into<String>) {
        let locations = self.warnings.entry((table.to_owned(), text.into())).or_default();
        if locations.last().is_none_or(|last| last != key) {
            locations.push(key.to_owned());
        }
    }

    /// Adds a warning about a port. Warnings with the same text are printed together.
    pub(super) fn warn_port(&mut self, port: &str, text: impl Into<String>) {
        let locations = self.warnings.entry((String::new(), text.into())).or_default();
        if locations.last().is_none_or(|last| last != port) {
            locations.push(port.to_owned());
        }
    }

    /// Adds a table or a field to the note about settings without an effect. If the whole table has no
    /// effect, `field` is empty.
    pub(super) fn note_without_effect(&mut self, why: &'static str, table: &str, field: String) {
        let names = self.without_effect.entry(why).or_default();
        names.insert((table.into(), field));
    }

    /// Adds the errors and warnings of an earlier step for the same configuration.
    pub(super) fn take_results_of(&mut self, earlier: ResolveContext<'_>) {
        self.findings.values.extend(earlier.findings.values);
        self.findings.own.extend(earlier.findings.own);
        self.findings.derived.extend(earlier.findings.derived);
        self.noted_groups.extend(earlier.noted_groups);
        for (what, locations) in earlier.warnings {
            self.warnings.entry(what).or_default().extend(locations);
        }
        for (why, names) in earlier.without_effect {
            self.without_effect.entry(why).or_default().extend(names);
        }
    }

    /// Returns all warnings, sorted by table and location, and all errors.
    pub(super) fn into_results(self) -> (Vec<String>, FoundErrors) {
        let mut by_location: Vec<_> = self.warnings.into_iter().collect();
        by_location.sort_by(
            |((table_a, text_a), locations_a), ((table_b, text_b), locations_b)| {
                let first = |locations: &[String]| locations.first().cloned().unwrap_or_default();
                let by_table = natural::compare_naturally(table_a, table_b);
                by_table
                    .then_with(|| natural::compare_naturally(&first(locations_a), &first(locations_b)))
                    .then_with(|| text_a.cmp(text_b))
            },
        );
        let mut warnings = self.db.notes.clone();
        warnings.extend(format_note_without_effect(&self.without_effect));
        for ((table, text), locations) in by_location {
            let separator = if table.is_empty() { "" } else { "|" };
            warnings.push(format!(
                "{table}{separator}{}: {text}",
                join_first_locations(&locations)
            ));
        }
        (warnings, self.findings)
    }
}

/// Formats the note `no effect: AAA, NTP (outside the data path of a switch); PORT fec (...)`.
fn format_note_without_effect(
    by_reason: &BTreeMap<&'static str, BTreeSet<(NaturalSortKey, String)>>,
) -> Option<String> {
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
fn join_first_locations(locations: &[String]) -> String {
    let named = locations[..locations.len().min(LOCATIONS_NAMED)].join(", ");
    match locations.len().saturating_sub(LOCATIONS_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Returns the names of the ports in `PORT` and of the attached ports, in natural order. Reports invalid and
/// duplicate names.
fn port_names(context: &mut ResolveContext<'_>) -> Vec<String> {
    let mut names: Vec<String> = context.db.keys("PORT").map(str::to_owned).collect();
    let mut seen = std::collections::BTreeSet::new();
    for name in &context.options.ports {
        if !schema::is_object_name(name) {
            let why = "a port's name is 1 to 128 letters, digits and . _ - / :";
            context.report_error_within_entry(
                Problem::at_field("PORT", name, "", why).with_fix("rename it on the command line"),
            );
        } else if !seen.insert(name) {
            let why = "the port is named twice on the command line";
            context.report_error_within_entry(
                Problem::at_field("PORT", name, "", why).with_fix("give each port one device"),
            );
        } else {
            names.push(name.clone());
        }
    }
    for name in names
        .iter()
        .filter(|name| schema::is_reserved_interface_name(name))
    {
        let why = "a port cannot have the name of a VLAN, a LAG or a loopback interface";
        context.report_error_within_entry(
            Problem::at_field("PORT", name, "", why).with_fix("rename it, for example to EthernetN"),
        );
    }
    names.sort_by(|a, b| natural::compare_naturally(a, b));
    names.dedup();
    if names.len() > PORTS_MAX {
        let why = format!("{} ports, at most {PORTS_MAX} are possible", names.len());
        context.report_entry_contradiction(Problem::at_field("PORT", "", "", why));
        names.truncate(PORTS_MAX);
    }
    names
}
