//! `show buffer configuration | information`, in the layout of SONiC's `mmuconfig`.

use serde_json::Value;

use super::{ShowBuffer, connect, print};
use xoff_telemetry::failure::{Exit, Failure};

/// Names of the tables with named objects, and the title of such an object in `mmuconfig`.
const OBJECT_TABLES: &[(&str, &str)] = &[("BUFFER_POOL", "Pool"), ("BUFFER_PROFILE", "Profile")];

/// Runs `show buffer`.
pub(super) fn show_buffer(command: &ShowBuffer) -> Result<Exit, Failure> {
    let (options, with_computed_fields) = match command {
        ShowBuffer::Configuration(options) => (options, false),
        ShowBuffer::Information(options) => (options, true),
    };
    let tables = connect(&options.target)?.buffers(with_computed_fields)?;
    print(options.json, &tables, |tables| match buffer_tables(tables) {
        text if text.is_empty() => format!("{NO_BUFFER_TABLES}\n"),
        text => text,
    })
}

/// The text for a configuration without buffer tables.
const NO_BUFFER_TABLES: &str = "No buffer pools and profiles: the configuration has no tables BUFFER_POOL and \
     BUFFER_PROFILE. No class is lossless, and all ports share the default pools (`xoff show buffer_pool watermark`). \
     `xoff switch run --preset roce-lossless` has these tables.";

/// Returns the text of `mmuconfig` for tables of the configuration.
fn buffer_tables(tables: &Value) -> String {
    let entries = |name: &str| tables[name].as_object().into_iter().flatten();
    let mut text = String::new();
    for name in ["DEFAULT_LOSSLESS_BUFFER_PARAMETER", "LOSSLESS_TRAFFIC_PATTERN"] {
        for (_, fields) in entries(name) {
            let title = match name {
                "LOSSLESS_TRAFFIC_PATTERN" => "Lossless traffic pattern:\n",
                _ => "",
            };
            text.push_str(&format!("{title}{}\n", field_table(fields)));
        }
    }
    for (table, title) in OBJECT_TABLES {
        for (name, fields) in entries(table) {
            text.push_str(&format!("{title}: {name}\n{}\n", field_table(fields)));
        }
    }
    text
}

/// Returns the names and values of fields between two dashed lines, in the format of Python's `tabulate`.
fn field_table(fields: &Value) -> String {
    let rows: Vec<(&str, &str)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    let width = |length: fn(&(&str, &str)) -> usize| rows.iter().map(length).max().unwrap_or(0);
    let (names, values) = (width(|row| row.0.len()), width(|row| row.1.len()));
    let line = format!("{}  {}\n", "-".repeat(names), "-".repeat(values));
    let mut text = line.clone();
    for (name, value) in &rows {
        text.push_str(&format!("{name:<names$}  {value}\n"));
    }
    text + &line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_configuration_without_buffer_tables_has_no_text() {
        assert_eq!(buffer_tables(&serde_json::json!({})), "");
        assert_ne!(buffer_tables(&serde_json::json!({"BUFFER_POOL": {"in": {}}})), "");
    }

    #[test]
    fn pools_and_profiles_have_the_layout_of_mmuconfig() {
        let tables = serde_json::json!({
            "BUFFER_POOL": {"in": {"mode": "dynamic", "size": "1000", "type": "ingress"}},
            "BUFFER_PROFILE": {"p": {"pool": "in", "dynamic_th": "-1"}},
        });
        let expected = "\
Pool: in
----  -------
mode  dynamic
size  1000
type  ingress
----  -------

Profile: p
----------  --
pool        in
dynamic_th  -1
----------  --

";
        assert_eq!(buffer_tables(&tables), expected);
    }
}
