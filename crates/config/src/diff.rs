//! Differences between two configurations.

use std::collections::BTreeSet;
use std::fmt;

use super::db::{ConfigDb, FieldValue, TableEntries};
use super::merge::split_overlapping_ranges;
use super::natural::NaturalSortKey;
use super::schema;

/// A field that was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Name of the table.
    pub table: String,
    /// Key of the entry.
    pub key: String,
    /// Name of the field. Empty if an entry without fields was added or removed.
    pub field: String,
    /// The value in the old configuration. `None` if the field was added.
    pub old: Option<String>,
    /// The value in the new configuration. `None` if the field was removed.
    pub new: Option<String>,
}

impl fmt::Display for FieldChange {
    /// Writes a line that starts with `-` for the old value, and a line that starts with `+` for the new
    /// value, as in a unified diff.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, sign, value: &str| {
            write!(f, "{sign}{}|{}", self.table, self.key)?;
            if self.field.is_empty() {
                Ok(())
            } else {
                write!(f, " {} {value:?}", self.field)
            }
        };
        if let Some(old) = &self.old {
            line(f, '-', old)?;
        }
        if let Some(new) = &self.new {
            if self.old.is_some() {
                f.write_str("\n")?;
            }
            line(f, '+', new)?;
        }
        Ok(())
    }
}

/// Returns the changes from `old` to `new`, sorted by table, key and field in natural order.
///
/// A range of numbers in a key is equal to its single numbers. For example, replacing the key `Ethernet0|3-4`
/// by the keys `Ethernet0|3` and `Ethernet0|4` is no change.
pub fn diff_configs(old: &ConfigDb, new: &ConfigDb) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let names: BTreeSet<&NaturalSortKey> = old.tables.keys().chain(new.tables.keys()).collect();
    for name in names {
        let entries = |db: &ConfigDb| db.tables.get(name).cloned().unwrap_or_default();
        let (mut before, mut after) = (entries(old), entries(new));
        if schema::find_table(name.as_str()).is_some_and(schema::TableSchema::has_number_range) {
            split_overlapping_ranges(&mut before, &mut after);
        }
        diff_table(name, &before, &after, &mut changes);
    }
    changes
}

/// Appends the changes of one table.
fn diff_table(
    table: &NaturalSortKey,
    before: &TableEntries,
    after: &TableEntries,
    changes: &mut Vec<FieldChange>,
) {
    let keys: BTreeSet<&NaturalSortKey> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        let mut push = |field: &str, old: Option<String>, new: Option<String>| {
            if old != new {
                let (table, key) = (table.as_str().to_owned(), key.as_str().to_owned());
                changes.push(FieldChange {
                    table,
                    key,
                    field: field.to_owned(),
                    old,
                    new,
                });
            }
        };
        let fields: BTreeSet<&NaturalSortKey> = old
            .into_iter()
            .chain(new)
            .flat_map(|entry| entry.keys())
            .collect();
        if fields.is_empty() {
            push("", old.map(|_| String::new()), new.map(|_| String::new()));
        }
        for field in fields {
            let text = |entry: Option<&super::db::ConfigEntry>| {
                entry.and_then(|e| e.get(field)).map(FieldValue::text)
            };
            push(field.as_str(), text(old), text(new));
        }
    }
}
