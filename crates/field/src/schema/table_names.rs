//! The names of tables and fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The names of tables and their fields.
#[derive(Debug, Default)]
pub(super) struct TableNames(BTreeMap<String, TableFields>);

#[derive(Debug, Default)]
struct TableFields {
    fields: BTreeSet<String>,
    has_free_fields: bool,
}

impl TableNames {
    pub(super) fn add_table(&mut self, table: &str) {
        self.0.entry(table.to_owned()).or_default();
    }

    pub(super) fn add_field(&mut self, table: &str, field: &str) {
        let table = self.0.entry(table.to_owned()).or_default();
        table.fields.insert(field.to_owned());
    }

    /// Records that the fields of a table may have any name.
    pub(super) fn allow_any_field(&mut self, table: &str) {
        self.0.entry(table.to_owned()).or_default().has_free_fields = true;
    }

    pub(super) fn has_table(&self, table: &str) -> bool {
        self.0.contains_key(table)
    }

    pub(super) fn has_field(&self, table: &str, field: &str) -> bool {
        let table = self.0.get(table);
        table.is_some_and(|table| table.has_free_fields || table.fields.contains(field))
    }

    /// Returns whether the name of a field in the table differs from `field` in one letter.
    pub(super) fn has_similar_field(&self, table: &str, field: &str) -> bool {
        let table = self.0.get(table);
        table.is_some_and(|table| {
            let mut names = table.fields.iter();
            names.any(|name| strsim::damerau_levenshtein(name, field) == 1)
        })
    }
}

/// Writes one line for each table with the name of the table and its fields. `*` instead of the fields means
/// that fields may have any name.
impl fmt::Display for TableNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, table) in &self.0 {
            f.write_str(name)?;
            if table.has_free_fields {
                f.write_str(" *")?;
            } else {
                for field in &table.fields {
                    write!(f, " {field}")?;
                }
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
