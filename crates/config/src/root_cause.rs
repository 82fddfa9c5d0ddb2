//! Reduces the errors of a configuration to their root causes.
//!
//! An error in a buffer pool makes every profile and every priority group of the pool invalid too. The user
//! sees only the error of the pool, and not the errors that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use super::db::ConfigDb;
use super::problem::{Problem, Problems};
use super::schema::{self, TableFields, TableSchema};

/// Tables and entries that the reader did not accept.
#[derive(Debug, Default)]
pub(crate) struct RefusedObjects {
    pub(crate) tables: BTreeSet<String>,
    pub(crate) entries: BTreeSet<ObjectKey>,
}

/// A table and a key of this table.
pub(crate) type ObjectKey = (String, String);

/// All errors of a configuration, grouped by their possible causes.
#[derive(Debug, Default)]
pub(crate) struct FoundErrors {
    /// Invalid names and invalid values.
    pub(crate) values: Vec<Problem>,
    /// Missing fields, invalid references and contradictions within one entry. An error of this kind is never
    /// the consequence of an error in a different entry.
    pub(crate) own: Vec<Problem>,
    /// Contradictions between two entries. Such an error can be the consequence of an error in one of the
    /// two entries.
    pub(crate) derived: Vec<Problem>,
}

impl FoundErrors {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.own.is_empty() && self.derived.is_empty()
    }
}

/// Dependencies between tables. The first name is the dependent table. The dependent table contains no
/// reference to the listed tables and fields. Nevertheless, an error in one of them can cause an error in the
/// dependent table.
///
/// An empty field name stands for all fields of the listed table.
const TABLE_DEPENDENCIES: &[(&str, &[(&str, &str)])] = &[
    ("STATIC_ROUTE", INTERFACE_TABLES),
    ("NEIGH", INTERFACE_TABLES),
    ("ARS_NEXTHOPS", INTERFACE_TABLES),
    ("ARS_NEXTHOPS", ARS_DEFAULTS),
    ("ARS_INTERFACES", ARS_DEFAULTS),
    ("ARS_PORTCHANNELS", ARS_DEFAULTS),
    ("XOFF_ROUTE", &[("STATIC_ROUTE", "")]),
    ("ACL_TABLE", &[("ACL_RULE", ""), ("ACL_TABLE_TYPE", "")]),
    ("BUFFER_POOL", BUFFER_MODEL),
    ("BUFFER_POOL", &[("BUFFER_POOL", "")]),
    ("BUFFER_PROFILE", BUFFER_MODEL),
    ("BUFFER_PG", BUFFER_MODEL),
    ("BUFFER_QUEUE", BUFFER_MODEL),
    ("CABLE_LENGTH", BUFFER_MODEL),
    (
        "XOFF_SWITCH",
        &[
            ("BUFFER_POOL", ""),
            ("BUFFER_PROFILE", ""),
            ("BUFFER_PG", ""),
            ("BUFFER_QUEUE", ""),
            ("CABLE_LENGTH", ""),
            ("PORT", "speed"),
        ],
    ),
];

const INTERFACE_TABLES: &[(&str, &str)] = &[
    ("INTERFACE", ""),
    ("LOOPBACK_INTERFACE", ""),
    ("MGMT_INTERFACE", ""),
    ("PORTCHANNEL_INTERFACE", ""),
    ("VLAN_INTERFACE", ""),
];

/// Tables with defaults for the other ARS tables.
const ARS_DEFAULTS: &[(&str, &str)] = &[("ARS_PROFILE", ""), ("ARS_OBJECT", "")];

/// Tables and fields that select the buffer model and its parameters.
const BUFFER_MODEL: &[(&str, &str)] = &[
    ("DEVICE_METADATA", "buffer_model"),
    ("DEFAULT_LOSSLESS_BUFFER_PARAMETER", ""),
    ("LOSSLESS_TRAFFIC_PATTERN", ""),
];

/// Removes all errors that are consequences of other errors.
///
/// - A reference to a refused entry is removed.
/// - The error about a missing field is removed if the value of the field was refused.
/// - A contradiction between entries is removed if the reported entry also has an error of its own. The
///   contradiction is also removed if the reported entry refers to an entry with an error, directly or
///   through intermediate entries.
///
/// `found` contains the errors of all layers. `refused` lists the tables and entries that the reader refused.
/// They are therefore missing in `db`.
pub(crate) fn remove_consequences(db: &ConfigDb, refused: &RefusedObjects, found: FoundErrors) -> Problems {
    let FoundErrors { values, own, derived } = found;
    let misspelt: BTreeSet<&str> = values.iter().filter_map(suggested_table_name).collect();
    let mut graph = ReferenceGraph {
        db,
        broken: refused.entries.clone(),
        broken_fields: BTreeSet::new(),
        broken_tables: refused.tables.clone(),
    };
    let misspelt_tables = misspelt.iter().map(|table| (*table).to_owned());
    graph.broken_tables.extend(misspelt_tables);
    values
        .iter()
        .chain(&own)
        .for_each(|problem| graph.record_object_with_error(problem));
    let of_missing: BTreeSet<ObjectKey> = refused
        .entries
        .iter()
        .cloned()
        .chain(derived.iter().map(object_of_problem))
        .collect();
    let mut refused_values: BTreeMap<ObjectKey, Vec<&Problem>> = BTreeMap::new();
    for value in &values {
        refused_values
            .entry(object_of_problem(value))
            .or_default()
            .push(value);
    }
    let is_covered = |problem: &Problem| {
        let of_entry = refused_values.get(&object_of_problem(problem));
        of_entry.is_some_and(|values| values.iter().any(|value| concern_same_field(value, problem)))
            || misspelt.iter().any(|table| mentions_table(problem, table))
    };
    let refers_to_refused = |problem: &&Problem| graph.refers_to_any(problem, &of_missing);
    let values = values.iter().filter(|problem| !refers_to_refused(problem));
    let own = own
        .iter()
        .filter(|problem| !is_covered(problem) && !refers_to_refused(problem));
    let derived: Vec<&Problem> = derived.iter().filter(|problem| !is_covered(problem)).collect();
    let kept = values
        .chain(own)
        .chain(graph.select_independent_errors(&derived))
        .cloned()
        .collect();
    Problems::new(kept)
}

/// Returns the entry to which an error belongs.
fn object_of_problem(problem: &Problem) -> ObjectKey {
    (problem.table.clone(), problem.key.clone())
}

/// Returns whether two errors of an entry concern the same field. An error about the whole entry concerns
/// all fields.
fn concern_same_field(cause: &Problem, consequence: &Problem) -> bool {
    cause.field == consequence.field || cause.field.is_empty() || consequence.field.is_empty()
}

/// Returns whether the location or the text of an error contains the name of a table.
fn mentions_table(problem: &Problem, table: &str) -> bool {
    let fix = problem.fix.as_deref().unwrap_or_default();
    let texts = [&problem.table, &problem.why, fix];
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    texts
        .iter()
        .any(|text| text.split(|c| !is_of_name(c)).any(|word| word == table))
}

/// The references between entries, and the entries with errors.
struct ReferenceGraph<'a> {
    db: &'a ConfigDb,
    /// Entries with errors.
    broken: BTreeSet<ObjectKey>,
    /// Tables and fields with errors.
    broken_fields: BTreeSet<(String, String)>,
    /// Tables that were refused, or that have an error without a key.
    broken_tables: BTreeSet<String>,
}

impl ReferenceGraph<'_> {
    /// Registers the entry, the field and the table of an error.
    fn record_object_with_error(&mut self, problem: &Problem) {
        let field = (problem.table.clone(), problem.field.clone());
        self.broken_fields.insert(field);
        match problem.key.is_empty() {
            true => self.broken_tables.insert(problem.table.clone()),
            false => self.broken.insert(object_of_problem(problem)),
        };
    }

    /// Returns the contradictions between entries that no other error causes.
    fn select_independent_errors<'b>(&self, derived: &[&'b Problem]) -> Vec<&'b Problem> {
        let mut reached: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = BTreeMap::new();
        for problem in derived {
            let object = object_of_problem(problem);
            let causes = self.reachable_objects(&object);
            reached.insert(object, causes);
        }
        let is_independent = |own: &ObjectKey, causes: &BTreeSet<ObjectKey>| {
            // Two entries that refer to each other are not causes of each other.
            let is_cause = |object: &ObjectKey| {
                object != own && reached.get(object).is_some_and(|causes| !causes.contains(own))
            };
            !self.contains_broken(causes) && !causes.iter().any(is_cause)
        };
        let objects = reached.iter().filter(|(own, causes)| is_independent(own, causes));
        let independent: BTreeSet<&ObjectKey> = objects.map(|(own, _)| own).collect();
        let kept = derived.iter().copied();
        kept.filter(|problem| independent.contains(&object_of_problem(problem)))
            .collect()
    }

    /// Returns whether the key or the value of an error names an object that is missing because it
    /// was refused.
    fn refers_to_any(&self, problem: &Problem, refused: &BTreeSet<ObjectKey>) -> bool {
        let Some(table) = schema::find_table_for_key(&problem.table, &problem.key) else {
            return false;
        };
        let value = problem.value.as_deref();
        let objects = match (value, problem.field.is_empty()) {
            (None, true) => objects_in_key(table, &problem.key),
            _ => objects_in_field(table, &problem.field, value.unwrap_or_default()),
        };
        let own = object_of_problem(problem);
        let is_refused = |object: &ObjectKey| {
            let is_missing = self.db.entry(&object.0, &object.1).is_none();
            is_missing && (refused.contains(object) || self.broken_tables.contains(&object.0))
        };
        objects.iter().any(|object| *object != own && is_refused(object))
    }

    /// Returns all objects to which an entry refers.
    fn referenced_objects(&self, (table, key): &ObjectKey) -> Vec<ObjectKey> {
        let mut objects = Vec::new();
        if let Some(known) = schema::find_table_for_key(table, key) {
            objects = objects_in_key(known, key);
            for (field, value) in self.db.entry(table, key).into_iter().flatten() {
                objects.extend(objects_in_field(known, field.as_str(), &value.text()));
            }
        }
        // An address depends on its interface, and an ACL rule depends on its table.
        if let Some((owner, _)) = key.split_once('|') {
            objects.push((table.clone(), owner.to_owned()));
            if table == "ACL_RULE" {
                objects.push(("ACL_TABLE".to_owned(), owner.to_owned()));
            }
        }
        if table == "PFC_WD" {
            objects.push((table.clone(), schema::GLOBAL.to_owned()));
        }
        let members = match table.as_str() {
            "VLAN" => Some("VLAN_MEMBER"),
            "PORTCHANNEL" => Some("PORTCHANNEL_MEMBER"),
            _ => None,
        };
        if let Some(members) = members {
            let keys = self.db.keys(members);
            let of_owner =
                keys.filter(|member| member.split_once('|').is_some_and(|(owner, _)| owner == key));
            objects.extend(of_owner.map(|member| (members.to_owned(), member.to_owned())));
        }
        objects
    }

    /// Returns an entry and all entries to which it refers, directly or through intermediate entries.
    fn reachable_objects(&self, from: &ObjectKey) -> BTreeSet<ObjectKey> {
        let (mut reached, mut open) = (BTreeSet::from([from.clone()]), vec![from.clone()]);
        while let Some(object) = open.pop() {
            for next in self.referenced_objects(&object) {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    }

    /// Returns whether one of these objects has an error. The result is also true if a table on which the
    /// objects depend ([`TABLE_DEPENDENCIES`]) has an error.
    fn contains_broken(&self, reached: &BTreeSet<ObjectKey>) -> bool {
        let is_broken =
            |object: &ObjectKey| self.broken.contains(object) || self.broken_tables.contains(&object.0);
        let is_reached = |table: &str| reached.iter().any(|(name, _)| name == table);
        let has_error = |(table, field): &(&str, &str)| {
            let in_table = |(name, of): &(String, String)| name == table && (field.is_empty() || of == field);
            self.broken_tables.contains(*table) || self.broken_fields.iter().any(in_table)
        };
        let of_tables = || {
            let reached = TABLE_DEPENDENCIES.iter().filter(|(table, _)| is_reached(table));
            reached.flat_map(|(_, causes)| *causes).any(has_error)
        };
        reached.iter().any(is_broken) || of_tables()
    }
}

/// Returns the objects whose names are in the parts of a key.
fn objects_in_key(table: &TableSchema, key: &str) -> Vec<ObjectKey> {
    let parts = table.key.iter().zip(key.split('|'));
    let objects = parts.filter_map(|(part, text)| part.referenced_object(text));
    objects
        .map(|(table, name)| (table.to_owned(), name.to_owned()))
        .collect()
}

/// Returns the objects whose names are in the value of a field. In a table with one field for each port,
/// returns the port with the name of the field.
fn objects_in_field(table: &TableSchema, field: &str, value: &str) -> Vec<ObjectKey> {
    let own = |(table, name): (&str, &str)| (table.to_owned(), name.to_owned());
    match table.fields {
        TableFields::Map { .. } => Vec::new(),
        TableFields::ByPort(_) => vec![own(("PORT", field))],
        TableFields::Named(_) => {
            let kind = table.find_field(field).map(|field| field.kind);
            kind.map_or_else(Vec::new, |kind| {
                kind.referenced_objects(value).into_iter().map(own).collect()
            })
        }
    }
}

/// Text of the error about a table that exists neither in SONiC nor in xoff.
pub(crate) const NO_SUCH_TABLE: &str = "no such table";

/// Returns the table name that an error about an unknown table suggests. Returns `None` if the error is not
/// about an unknown table.
fn suggested_table_name(problem: &Problem) -> Option<&str> {
    let suggestion = problem.fix.as_deref()?.strip_prefix("did you mean ")?;
    (problem.why == NO_SUCH_TABLE).then(|| suggestion.trim_end_matches('?'))
}
