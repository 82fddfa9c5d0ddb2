//! `show buffer configuration | information`, in the layout of SONiC's `mmuconfig`.

use serde_json::Value;

use super::{ShowBuffer, connect, print};
use xoff_telemetry::failure::{Exit, Failure};

/// Tables of named objects, and what `mmuconfig` calls one.
const OBJECTS: &[(&str, &str)] = &[("BUFFER_POOL", "Pool"), ("BUFFER_PROFILE", "Profile")];

pub(super) fn buffer(command: &ShowBuffer) -> Result<Exit, Failure> {
    let (options, running) = match command {
        ShowBuffer::Configuration(options) => (options, false),
        ShowBuffer::Information(options) => (options, true),
    };
    let tables = connect(&options.target)?.buffers(running)?;
    print(options.json, &tables, describe)
}

fn describe(tables: &Value) -> String {
    let entries = |name: &str| tables[name].as_object().into_iter().flatten();
    let mut text = String::new();
    for name in ["DEFAULT_LOSSLESS_BUFFER_PARAMETER", "LOSSLESS_TRAFFIC_PATTERN"] {
        for (_, fields) in entries(name) {
            let title = match name {
                "LOSSLESS_TRAFFIC_PATTERN" => "Lossless traffic pattern:\n",
                _ => "",
            };
            text.push_str(&format!("{title}{}\n", plain(fields)));
        }
    }
    for (table, title) in OBJECTS {
        for (name, fields) in entries(table) {
            text.push_str(&format!("{title}: {name}\n{}\n", plain(fields)));
        }
    }
    text
}

/// Names and values without a header between two dashed lines, as `tabulate` prints it.
fn plain(fields: &Value) -> String {
    let rows: Vec<(&str, &str)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    let width = |of: fn(&(&str, &str)) -> usize| rows.iter().map(of).max().unwrap_or(0);
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
    fn a_pool_and_a_profile() {
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
        assert_eq!(describe(&tables), expected);
    }
}
