//! A configuration as tables of entries of fields: what a file says, in canonical form, not yet resolved.

use std::collections::BTreeMap;

use serde::Serialize;

use super::merge::Removals;
use super::natural::Name;
use super::problem::{Problem, Problems};
use super::schema;

/// The fields of one entry.
pub(crate) type Entry = BTreeMap<Name, Value>;
/// The entries of one table.
pub(crate) type Entries = BTreeMap<Name, Entry>;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
}

impl Value {
    /// As one text, lists joined by commas, as SONiC's Redis holds them.
    pub(crate) fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::List(items) => items.join(","),
        }
    }

    /// A text as the value of a field of this kind.
    pub(crate) fn of(kind: schema::Kind, text: &str) -> Value {
        match kind {
            schema::Kind::Words(_) | schema::Kind::References(_) => {
                Value::List(schema::items(text).map(str::to_owned).collect())
            }
            _ => Value::Text(text.to_owned()),
        }
    }
}

/// A `config_db.json` whose tables, keys, fields and single values are known to be allowed. References and
/// rules between fields are checked when it is [resolved](super::resolve()), because several layers may
/// complete each other.
///
/// Two are equal if their tables are equal, whatever files they came from.
#[derive(Clone, Debug, Default)]
pub struct ConfigDb {
    pub(crate) tables: BTreeMap<Name, Entries>,
    /// The file, or the files of the layers.
    pub(crate) source: String,
    /// What should be known about how the text was read.
    pub(crate) notes: Vec<String>,
    /// The tables are those of one ASIC, out of a file that configures several.
    pub(crate) is_asic_part: bool,
    /// What the text, as a layer, removes from the layers below it. Empty in a merged configuration.
    pub(crate) removals: Removals,
}

impl PartialEq for ConfigDb {
    fn eq(&self, other: &ConfigDb) -> bool {
        self.tables == other.tables
    }
}

impl ConfigDb {
    /// The value of a field; lists joined by commas.
    pub fn get(&self, table: &str, key: &str, field: &str) -> Option<String> {
        self.entry(table, key)?.get(&Name::from(field)).map(Value::text)
    }

    /// The keys of a table, in natural order.
    pub fn keys<'a>(&'a self, table: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries(table).map(|(key, _)| key)
    }

    /// Sets one field, or with an empty field name makes the entry exist.
    ///
    /// # Errors
    /// The table, key, field or value is not allowed.
    pub fn set(&mut self, table: &str, key: &str, field: &str, value: &str) -> Result<(), Problems> {
        self.try_set(table, key, field, value)
            .map_err(|problem| Problems::new(vec![*problem]))
    }

    fn try_set(&mut self, table: &str, key: &str, field: &str, value: &str) -> Result<(), Box<Problem>> {
        if !schema::is_table_name(table) {
            return Err(Box::new(Problem::at(table, key, field, "no such table")));
        }
        let Some(known) = schema::table_with_key(table, key) else {
            if !field.is_empty() {
                schema::check_foreign_field(table, field)
                    .map_err(|why| Problem::at(table, key, field, why).value(value))?;
            }
            self.insert(table, key, field, value);
            return Ok(());
        };
        known
            .check_key(key)
            .map_err(|why| Problem::at(table, key, "", why))?;
        if !field.is_empty() {
            known
                .check_field(field, value)
                .map_err(|why| Problem::at(table, key, field, why).value(value))?;
        }
        self.insert(table, key, field, value);
        Ok(())
    }

    /// As [`ConfigDb::set`], for names that are right by construction.
    pub fn insert(&mut self, table: &str, key: &str, field: &str, value: &str) {
        let entry = self
            .tables
            .entry(table.into())
            .or_default()
            .entry(key.into())
            .or_default();
        if !field.is_empty() {
            let known = schema::table_with_key(table, key).and_then(|table| table.field(field));
            let kind = known.map_or(schema::Kind::Any, |field| field.kind);
            entry.insert(field.into(), Value::of(kind, value));
        }
    }

    /// Adds the fields of `other` that are not there.
    pub fn complete_by(&mut self, other: &ConfigDb) {
        for (name, entries) in &other.tables {
            let table = self.tables.entry(name.clone()).or_default();
            for (key, fields) in entries {
                let entry = table.entry(key.clone()).or_default();
                for (field, value) in fields {
                    entry.entry(field.clone()).or_insert_with(|| value.clone());
                }
            }
        }
    }

    /// Takes out the fields that `other` has with the same value, and entries that have none left by it.
    pub fn remove_equal(&mut self, other: &ConfigDb) {
        for (name, entries) in &other.tables {
            let Some(table) = self.tables.get_mut(name) else {
                continue;
            };
            for (key, fields) in entries {
                let Some(entry) = table.get_mut(key) else { continue };
                entry.retain(|field, value| fields.get(field) != Some(value));
                if entry.is_empty() {
                    table.remove(key);
                }
            }
            if table.is_empty() {
                self.tables.remove(name);
            }
        }
    }

    pub(crate) fn entry(&self, table: &str, key: &str) -> Option<&Entry> {
        self.tables.get(&Name::from(table))?.get(&Name::from(key))
    }

    pub(crate) fn entries<'a>(&'a self, table: &str) -> impl Iterator<Item = (&'a str, &'a Entry)> + use<'a> {
        let entries = self.tables.get(&Name::from(table));
        entries
            .into_iter()
            .flatten()
            .map(|(key, entry)| (key.as_str(), entry))
    }

    /// The file this came from, or the files of its layers.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The canonical form as a JSON value: natural order, every scalar a string, no old forms.
    pub fn to_value(&self) -> serde_json::Value {
        let object = |pairs: Vec<(&Name, serde_json::Value)>| {
            serde_json::Value::Object(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name.as_str().to_owned(), value))
                    .collect(),
            )
        };
        let entry = |entry: &Entry| {
            object(
                entry
                    .iter()
                    .map(|(field, value)| (field, value.to_json()))
                    .collect(),
            )
        };
        let entries =
            |entries: &Entries| object(entries.iter().map(|(key, fields)| (key, entry(fields))).collect());
        object(
            self.tables
                .iter()
                .map(|(name, table)| (name, entries(table)))
                .collect(),
        )
    }

    /// The canonical form as text, indented as SONiC does, ending in a line feed. Reading it again gives an
    /// equal configuration.
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
        // Writing strings and objects to memory cannot fail; an empty result would show at once if it did.
        if self.to_value().serialize(&mut serializer).is_err() {
            text.clear();
        }
        text.push(b'\n');
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Value {
    fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Text(text) => serde_json::Value::from(text.as_str()),
            Value::List(items) => serde_json::Value::from(items.clone()),
        }
    }
}
