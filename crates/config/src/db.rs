//! The tables, entries and fields of a configuration, as they are in a file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::natural::{NaturalName, NaturalSortKey};
use super::problem::{Problem, Problems};
use super::schema;

/// The fields of one entry and their values.
pub(crate) type ConfigEntry = BTreeMap<NaturalSortKey, FieldValue>;
/// The entries of one table by their keys.
pub(crate) type TableEntries = BTreeMap<NaturalSortKey, ConfigEntry>;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Text(String),
    List(Vec<String>),
}

impl FieldValue {
    /// Returns the value as one text. Commas separate the items of a list, as in SONiC's Redis database.
    pub(crate) fn text(&self) -> String {
        match self {
            FieldValue::Text(text) => text.clone(),
            FieldValue::List(items) => items.join(","),
        }
    }

    /// Converts a text into the value of a field of this kind.
    pub(crate) fn from_text(kind: schema::ValueKind, text: &str) -> FieldValue {
        match kind {
            schema::ValueKind::Words(_) | schema::ValueKind::References(_) => {
                FieldValue::List(schema::split_list(text).map(str::to_owned).collect())
            }
            _ => FieldValue::Text(text.to_owned()),
        }
    }
}

/// The tables of a `config_db.json`.
///
/// Every table name, key, field name and value is valid by itself. References between entries, and rules
/// about several fields, are not checked yet, because a later layer can add a missing entry.
/// [`resolve`](super::resolve()) checks them.
///
/// Two configurations are equal if their tables are equal, even if their source files differ.
#[derive(Clone, Debug, Default)]
pub struct ConfigDb {
    pub(crate) tables: BTreeMap<NaturalSortKey, TableEntries>,
    /// The name of the file, or the names of the files of all layers, joined by ` + `.
    pub(crate) source: String,
    /// Notes for the user about the text, for example about values without quotes.
    pub(crate) notes: Vec<String>,
    /// Whether the tables are one part of a file that configures several ASICs.
    pub(crate) is_asic_part: bool,
    /// Tables, entries and fields that this layer removes from lower layers. Empty in a merged configuration.
    pub(crate) removals: LayerRemovals,
}

impl PartialEq for ConfigDb {
    fn eq(&self, other: &ConfigDb) -> bool {
        self.tables == other.tables
    }
}

impl ConfigDb {
    /// Returns the value of a field. Commas separate the items of a list. Returns `None` if the table, the
    /// entry or the field does not exist.
    pub fn get(&self, table: &str, key: &str, field: &str) -> Option<String> {
        self.entry(table, key)?
            .get(&field as &dyn NaturalName)
            .map(FieldValue::text)
    }

    /// Returns the keys of a table in natural order (`Ethernet2` before `Ethernet10`). The result is empty if
    /// the table does not exist.
    pub fn keys<'a>(&'a self, table: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries(table).map(|(key, _)| key)
    }

    /// Sets the field `field` of the entry `key` to `value`. If the field name is empty, the method only
    /// creates the entry.
    ///
    /// # Errors
    ///
    /// Returns one error if the table, key, field or value is not valid.
    pub fn set(&mut self, table: &str, key: &str, field: &str, value: &str) -> Result<(), Problems> {
        self.set_checked(table, key, field, value)
            .map_err(|problem| Problems::new(vec![*problem]))
    }

    fn set_checked(&mut self, table: &str, key: &str, field: &str, value: &str) -> Result<(), Box<Problem>> {
        if !schema::is_table_name(table) {
            return Err(Box::new(Problem::at_field(table, key, field, "no such table")));
        }
        let Some(known) = schema::find_table_for_key(table, key) else {
            if !field.is_empty() {
                schema::check_ignored_field(table, field)
                    .map_err(|why| Problem::at_field(table, key, field, why).with_value(value))?;
            }
            self.insert(table, key, field, value);
            return Ok(());
        };
        known
            .check_key(key)
            .map_err(|why| Problem::at_field(table, key, "", why))?;
        if !field.is_empty() {
            known
                .check_field(field, value)
                .map_err(|why| Problem::at_field(table, key, field, why).with_value(value))?;
        }
        self.insert(table, key, field, value);
        Ok(())
    }

    /// Sets a field like [`ConfigDb::set`], but without any check. The caller guarantees that the names and
    /// the value are valid.
    pub fn insert(&mut self, table: &str, key: &str, field: &str, value: &str) {
        let entry = self
            .tables
            .entry(table.into())
            .or_default()
            .entry(key.into())
            .or_default();
        if !field.is_empty() {
            let known = schema::find_table_for_key(table, key).and_then(|table| table.find_field(field));
            let kind = known.map_or(schema::ValueKind::Any, |field| field.kind);
            entry.insert(field.into(), FieldValue::from_text(kind, value));
        }
    }

    /// Removes a field. Does nothing if the field does not exist.
    pub(crate) fn remove_field(&mut self, table: &str, key: &str, field: &str) {
        let entries = self.tables.get_mut(&table as &dyn NaturalName);
        if let Some(entry) = entries.and_then(|entries| entries.get_mut(&key as &dyn NaturalName)) {
            entry.remove(&field as &dyn NaturalName);
        }
    }

    /// Adds all fields of `other` that this configuration does not have. Existing fields keep their values.
    pub fn add_missing_fields(&mut self, other: &ConfigDb) {
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

    /// Removes each field that has the same value in `other`. Entries and tables that become empty are
    /// removed too.
    pub fn remove_equal_fields(&mut self, other: &ConfigDb) {
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

    /// Returns the fields of an entry. Returns `None` if the entry does not exist.
    pub(crate) fn entry(&self, table: &str, key: &str) -> Option<&ConfigEntry> {
        self.tables
            .get(&table as &dyn NaturalName)?
            .get(&key as &dyn NaturalName)
    }

    /// Returns the entries of a table in natural order of their keys.
    pub(crate) fn entries<'a>(
        &'a self,
        table: &str,
    ) -> impl Iterator<Item = (&'a str, &'a ConfigEntry)> + use<'a> {
        let entries = self.tables.get(&table as &dyn NaturalName);
        entries
            .into_iter()
            .flatten()
            .map(|(key, entry)| (key.as_str(), entry))
    }

    /// Returns the name of the source file, or the names of the files of all layers, joined by ` + `.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Converts the configuration to canonical JSON. Names are in natural order, and every scalar is
    /// a string.
    pub fn to_value(&self) -> serde_json::Value {
        let object = |pairs: Vec<(&NaturalSortKey, serde_json::Value)>| {
            serde_json::Value::Object(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name.as_str().to_owned(), value))
                    .collect(),
            )
        };
        let entry = |entry: &ConfigEntry| {
            object(
                entry
                    .iter()
                    .map(|(field, value)| (field, value.to_json()))
                    .collect(),
            )
        };
        let entries = |entries: &TableEntries| {
            object(entries.iter().map(|(key, fields)| (key, entry(fields))).collect())
        };
        object(
            self.tables
                .iter()
                .map(|(name, table)| (name, entries(table)))
                .collect(),
        )
    }

    /// Returns the configuration as canonical JSON text. As in SONiC, the indentation is four spaces, and the
    /// text ends with a line feed.
    ///
    /// [`parse`](super::parse) converts the text back to an equal configuration.
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
        // Serialising strings to memory cannot fail. If it fails anyway, the result is empty.
        if self.to_value().serialize(&mut serializer).is_err() {
            text.clear();
        }
        text.push(b'\n');
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl FieldValue {
    fn to_json(&self) -> serde_json::Value {
        match self {
            FieldValue::Text(text) => serde_json::Value::from(text.as_str()),
            FieldValue::List(items) => serde_json::Value::from(items.clone()),
        }
    }
}

/// Tables, entries and fields that a layer removes by setting them to `null`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerRemovals {
    pub(crate) tables: BTreeSet<NaturalSortKey>,
    /// Each element is a table and a key.
    pub(crate) entries: BTreeSet<(NaturalSortKey, NaturalSortKey)>,
    /// Each element is a table, a key and a field.
    pub(crate) fields: BTreeSet<(NaturalSortKey, NaturalSortKey, NaturalSortKey)>,
}

impl LayerRemovals {
    pub(crate) fn add_table(&mut self, table: &str) {
        self.tables.insert(table.into());
    }

    pub(crate) fn add_entry(&mut self, table: &str, key: &str) {
        self.entries.insert((table.into(), key.into()));
    }

    pub(crate) fn add_field(&mut self, table: &str, key: &str, field: &str) {
        self.fields.insert((table.into(), key.into(), field.into()));
    }

    pub(crate) fn has_table(&self, table: &str) -> bool {
        self.tables.contains(&table as &dyn NaturalName)
    }

    pub(crate) fn has_entry(&self, table: &str, key: &str) -> bool {
        self.entries.contains(&(table.into(), key.into()))
    }
}
