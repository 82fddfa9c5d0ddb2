//! `show switch-trimming global`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{TableArguments, connect, print};
use xoff_telemetry::failure::{Exit, Failure};

/// Text of SONiC's table for a field without a value.
const NOT_SET: &str = "N/A";

/// Runs `show switch-trimming global`.
pub(super) fn show_global(options: &TableArguments) -> Result<Exit, Failure> {
    let config = connect(&options.target)?.config()?;
    let entry = config
        .pointer("/SWITCH_TRIMMING/GLOBAL")
        .and_then(Value::as_object);
    print(options.json, &trimming_fields(entry), |fields| match entry {
        Some(_) => trimming_table(fields),
        None => "No configuration is present in CONFIG DB\n".to_owned(),
    })
}

/// Returns the four fields of SONiC's JSON, or an empty map without a configuration.
fn trimming_fields(entry: Option<&Map<String, Value>>) -> Map<String, Value> {
    let Some(entry) = entry else {
        return Map::new();
    };
    let field = |name: &str| {
        let value = entry.get(name).and_then(Value::as_str).unwrap_or(NOT_SET);
        (name.to_owned(), Value::from(value))
    };
    ["size", "dscp_value", "tc_value", "queue_index"]
        .map(field)
        .into_iter()
        .collect()
}

/// Returns SONiC's table: a grid with names and values.
fn trimming_table(fields: &Map<String, Value>) -> String {
    let value = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or(NOT_SET);
    let rows = [
        ("Configuration", "Value"),
        ("Packet trimming size", value("size")),
        ("Packet trimming DSCP value", value("dscp_value")),
        ("Packet trimming TC value", value("tc_value")),
        ("Packet trimming queue index", value("queue_index")),
    ];
    let width = |cell: fn(&(&str, &str)) -> usize| rows.iter().map(cell).max().unwrap_or(0);
    let (left, right) = (width(|row| row.0.len()), width(|row| row.1.len()));
    let line = |fill: &str| format!("+{}+{}+\n", fill.repeat(left + 2), fill.repeat(right + 2));
    let mut text = line("-");
    for (index, (name, value)) in rows.into_iter().enumerate() {
        let _ = writeln!(text, "| {name:<left$} | {value:<right$} |");
        text.push_str(&line(if index == 0 { "=" } else { "-" }));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_four_fields_and_marks_missing_values() {
        let entry = serde_json::json!({"size": "128", "dscp_value": "from-tc", "queue_index": "6"});
        let fields = trimming_fields(entry.as_object());
        assert_eq!(
            trimming_table(&fields),
            "\
+-----------------------------+---------+
| Configuration               | Value   |
+=============================+=========+
| Packet trimming size        | 128     |
+-----------------------------+---------+
| Packet trimming DSCP value  | from-tc |
+-----------------------------+---------+
| Packet trimming TC value    | N/A     |
+-----------------------------+---------+
| Packet trimming queue index | 6       |
+-----------------------------+---------+
"
        );
        assert_eq!(
            Value::from(fields).to_string(),
            r#"{"size":"128","dscp_value":"from-tc","tc_value":"N/A","queue_index":"6"}"#
        );
        assert!(trimming_fields(None).is_empty());
    }
}
