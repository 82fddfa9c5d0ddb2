//! Mutations of the structure of JSON.

use serde_json::{Map, Value, json};

use super::super::random::Random;
use super::{MUTANT_BYTES_MAX, lines};

/// Changes the tree of a JSON document. A text that is not JSON gets changes of lines.
pub(super) fn change_structure(text: &str, other: &str, random: &mut Random) -> (String, &'static str) {
    let Ok(mut root) = serde_json::from_str::<Value>(text) else {
        return lines::change_lines(text, other, random);
    };
    if random.one_in(12) {
        let depth = [100, 127, 128, 5_000][random.below(4)];
        return (format!("{{\"A\": {}", "[".repeat(depth)), "nest JSON deeply");
    }
    let other: Value = serde_json::from_str(other).unwrap_or(Value::Null);
    let node_count = count_nodes(&root);
    let foreign = nth_node(&other, random.below(count_nodes(&other))).cloned();
    let own = nth_node(&root, random.below(node_count))
        .cloned()
        .unwrap_or_default();
    let mut at = random.below(node_count);
    let Some(node) = nth_node_mut(&mut root, &mut at) else {
        return (text.to_owned(), "no change");
    };
    let name = match random.below(8) {
        0 => {
            remove_entry(node, random);
            "remove a JSON entry"
        }
        1 => {
            *node = own;
            "copy a JSON value"
        }
        2 => {
            *node = foreign.unwrap_or_default();
            "set a JSON value of another file"
        }
        3 => {
            *node = json!({ "x": node.take() });
            "nest a JSON value"
        }
        4 => {
            *node = json!([node.take()]);
            "put a JSON value into a list"
        }
        5 => {
            duplicate_entries(node, [1, 50, 3_000][random.below(3)], random);
            "duplicate JSON entries"
        }
        6 => {
            let values = [
                json!(null),
                json!(true),
                json!(-1),
                json!(1e300),
                json!(""),
                json!({}),
                json!([]),
            ];
            *node = values[random.below(values.len())].clone();
            "set a JSON value of another type"
        }
        _ => {
            rename_entry(node, random);
            "rename a JSON key"
        }
    };
    (root.to_string(), name)
}

fn children(node: &Value) -> Vec<&Value> {
    match node {
        Value::Array(items) => items.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    }
}

fn count_nodes(node: &Value) -> usize {
    1 + children(node).into_iter().map(count_nodes).sum::<usize>()
}

/// Returns node `at` in the order of the text.
fn nth_node(root: &Value, at: usize) -> Option<&Value> {
    let mut stack = vec![root];
    let mut left = at;
    while let Some(node) = stack.pop() {
        if left == 0 {
            return Some(node);
        }
        left -= 1;
        stack.extend(children(node));
    }
    None
}

fn nth_node_mut<'a>(node: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(node);
    }
    *left -= 1;
    match node {
        Value::Array(items) => items.iter_mut().find_map(|item| nth_node_mut(item, left)),
        Value::Object(entries) => entries.values_mut().find_map(|value| nth_node_mut(value, left)),
        _ => None,
    }
}

fn remove_entry(node: &mut Value, random: &mut Random) {
    match node {
        Value::Array(items) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
        Value::Object(entries) => {
            let key = entries.keys().nth(random.below(entries.len())).cloned();
            key.map(|key| entries.shift_remove(&key));
        }
        _ => *node = Value::Null,
    }
}

/// The largest number of values that the copies of an entry contain together. The memory of this program must stay
/// small: the kernel counts the peak of the parent in the peak of each command that starts.
const COPIED_VALUES_MAX: usize = 100_000;

/// Adds copies of an entry, fewer for a large entry. The keys of the copies end with other numbers.
fn duplicate_entries(node: &mut Value, count: usize, random: &mut Random) {
    let copies_of = |entry: &Value| {
        let bytes_max = MUTANT_BYTES_MAX / entry.to_string().len().max(1) + 1;
        count.min(COPIED_VALUES_MAX / count_nodes(entry)).min(bytes_max)
    };
    match node {
        Value::Array(items) if !items.is_empty() => {
            let item = items[random.below(items.len())].clone();
            let count = copies_of(&item);
            items.extend(std::iter::repeat_n(item, count));
        }
        Value::Object(entries) if !entries.is_empty() => {
            let Some((key, value)) = entries.iter().nth(random.below(entries.len())) else {
                return;
            };
            let (key, value) = (
                key.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
                value.clone(),
            );
            let copies: Map<String, Value> = (0..copies_of(&value))
                .map(|n| (format!("{key}{}", 4 * n), value.clone()))
                .collect();
            entries.extend(copies);
        }
        _ => {}
    }
}

fn rename_entry(node: &mut Value, random: &mut Random) {
    const NAMES: [&str; 8] = [
        "",
        "Ethernet0",
        "Ethernet0|3-4",
        "a|b|c",
        "PORT",
        "null",
        "é",
        "Vlan4095",
    ];
    if let Value::Object(entries) = node {
        let key = entries.keys().nth(random.below(entries.len())).cloned();
        let value = key.and_then(|key| entries.shift_remove(&key));
        entries.insert(
            NAMES[random.below(NAMES.len())].to_owned(),
            value.unwrap_or_default(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_large_entry_are_limited() {
        let large: Vec<u32> = (0..60_000).collect();
        let mut lists = json!([large]);
        duplicate_entries(&mut lists, 3_000, &mut Random::new(1, 1));
        assert_eq!(lists.as_array().map(Vec::len), Some(2));
        let mut object = json!({ "PORT1": { "mtu": 9100 } });
        duplicate_entries(&mut object, 50, &mut Random::new(1, 1));
        assert_eq!(object.as_object().map(Map::len), Some(51));
    }
}
