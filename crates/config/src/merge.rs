//! Merging of configuration layers, as JSON merge patches (RFC 7386).

use super::db::{ConfigDb, LayerRemovals, TableEntries};
use super::natural::{NaturalName, NaturalSortKey};
use super::schema::{self, TableSchema};

/// Removes the tables, entries and fields of `removals` from the lower layer.
fn apply_removals(removals: &LayerRemovals, lower: &mut ConfigDb) {
    for table in &removals.tables {
        lower.tables.remove(table);
    }
    for (table, key) in &removals.entries {
        let Some(entries) = lower.tables.get_mut(table) else {
            continue;
        };
        for key in split_covered_keys(table, entries, key) {
            entries.remove(&key);
        }
    }
    for (table, key, field) in &removals.fields {
        let Some(entries) = lower.tables.get_mut(table) else {
            continue;
        };
        for key in split_covered_keys(table, entries, key) {
            if let Some(entry) = entries.get_mut(&key) {
                entry.remove(field);
            }
        }
    }
}

/// Splits all ranges in `entries` that overlap the range of `key` and differ from it. Returns `key`, or one
/// key for each number of its range if an overlapping range was split. For example, `Ethernet0|3-4` gives
/// `Ethernet0|3` and `Ethernet0|4` if `entries` contains `Ethernet0|3`.
fn split_covered_keys(
    table: &NaturalSortKey,
    entries: &mut TableEntries,
    key: &NaturalSortKey,
) -> Vec<NaturalSortKey> {
    if !schema::find_table(table.as_str()).is_some_and(TableSchema::has_number_range) {
        return vec![key.clone()];
    }
    let mut covering = TableEntries::from([(key.clone(), Default::default())]);
    split_overlapping_ranges(entries, &mut covering);
    covering.into_keys().collect()
}

/// Merges layers in order. Each layer is a JSON merge patch (RFC 7386) of the layers before it. An empty list
/// gives an empty configuration.
///
/// If several layers have the same field, the value of the last of these layers applies. The value `null`
/// removes a field, an entry or a table. If the field, entry or table does not exist, `null` has no effect. A
/// list replaces an earlier list as a whole.
///
/// Two rules extend the RFC:
/// - `dynamic_th` in a later layer removes `static_th` of an earlier layer. `static_th` in a later layer
///   removes `dynamic_th`.
/// - A key can name a part of a range of an earlier layer, such as `Ethernet0|3` if the earlier layer has
///   `Ethernet0|3-4`. The range is then split into its numbers.
pub fn merge_layers(layers: &[ConfigDb]) -> ConfigDb {
    let mut result = ConfigDb::default();
    for layer in layers {
        if !result.source.is_empty() && !layer.source.is_empty() {
            result.source.push_str(" + ");
        }
        result.source.push_str(&layer.source);
        result.notes.extend_from_slice(&layer.notes);
        result.is_asic_part |= layer.is_asic_part;
        apply_removals(&layer.removals, &mut result);
        for (table, entries) in &layer.tables {
            merge_table(
                table.as_str(),
                result.tables.entry(table.clone()).or_default(),
                entries,
            );
        }
    }
    result
}

/// Merges the entries of an upper layer into a table of the lower layer.
fn merge_table(table: &str, lower: &mut TableEntries, upper: &TableEntries) {
    let mut upper = upper.clone();
    if schema::find_table(table).is_some_and(TableSchema::has_number_range) {
        split_overlapping_ranges(lower, &mut upper);
    }
    for (key, fields) in upper {
        let entry = lower.entry(key).or_default();
        for (excluded, by) in [("dynamic_th", "static_th"), ("static_th", "dynamic_th")] {
            if table == "BUFFER_PROFILE" && fields.contains_key(&by as &dyn NaturalName) {
                entry.remove(&excluded as &dyn NaturalName);
            }
        }
        entry.extend(fields);
    }
}

/// Compares the number ranges in the keys of two tables. If a range of one table overlaps a different range
/// of the second table, the first range is split into single numbers.
pub(crate) fn split_overlapping_ranges(a: &mut TableEntries, b: &mut TableEntries) {
    let crossing = |one: &TableEntries, other: &TableEntries| -> Vec<NaturalSortKey> {
        let others: Vec<_> = other
            .keys()
            .filter_map(|key| parse_range_key(key.as_str()))
            .collect();
        let crosses = |key: &&NaturalSortKey| {
            parse_range_key(key.as_str()).is_some_and(|(owner, first, last)| {
                others
                    .iter()
                    .any(|&(o, f, l)| o == owner && (f, l) != (first, last) && f <= last && first <= l)
            })
        };
        one.keys().filter(crosses).cloned().collect()
    };
    let (of_a, of_b) = (crossing(a, b), crossing(b, a));
    expand_range_keys(a, &of_a);
    expand_range_keys(b, &of_b);
}

/// Replaces each of the `keys`, which have ranges, by one key for each number of the range.
fn expand_range_keys(entries: &mut TableEntries, keys: &[NaturalSortKey]) {
    for key in keys {
        let (Some((owner, first, last)), Some(entry)) = (parse_range_key(key.as_str()), entries.get(key))
        else {
            continue;
        };
        let entry = entry.clone();
        entries.remove(key);
        for number in first..=last {
            entries.insert(
                NaturalSortKey::from(format!("{owner}|{number}").as_str()),
                entry.clone(),
            );
        }
    }
}

/// Parses a key such as `Ethernet0|3-4` into its owner (`Ethernet0`), the first number and the last number.
/// Returns `None` if the key has no number or range at its end.
pub(crate) fn parse_range_key(key: &str) -> Option<(&str, u8, u8)> {
    let (owner, numbers) = key.rsplit_once('|')?;
    let (first, last) = schema::parse_number_range(numbers)?;
    Some((owner, first, last))
}
