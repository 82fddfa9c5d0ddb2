//! Reads the JSON examples of SONiC's `Configuration.md`.
//!
//! An example shows one or two tables and can refer to objects in other tables, such as ports.
//! [`missing_objects`] returns the objects that the example does not contain. The missing objects are taken
//! from the remaining examples of the document. If none of these examples contains an object, a new port,
//! LAG, VLAN, interface or buffer profile without further settings is used.

use serde_json::{Map, Value, json};

/// A fenced code block of a document.
#[derive(Debug, PartialEq)]
pub(super) struct DocumentExample {
    /// Line number of the opening fence, from 1.
    pub(super) line: usize,
    /// Tables of the example, or the reason why the example is not JSON.
    pub(super) tables: Result<Value, String>,
    /// JSON error and its correction. `None` if the example was valid JSON.
    pub(super) repair: Option<String>,
}

/// Returns all fenced blocks that start like JSON. The outer braces of a block may be missing.
pub(super) fn parse_examples(text: &str) -> Vec<DocumentExample> {
    let mut examples = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut open, is_fence) {
            (None, true) => open = Some((number + 1, String::new())),
            (None, false) => {}
            (Some((_, block)), false) => {
                block.push_str(line);
                block.push('\n');
            }
            (Some(_), true) => {
                if let Some((line, block)) = open.take()
                    && block.trim_start().starts_with(['{', '"'])
                {
                    examples.push(parse_block(line, block.trim()));
                }
            }
        }
    }
    examples
}

fn parse_block(line: usize, block: &str) -> DocumentExample {
    let example = |tables, repair| DocumentExample { line, tables, repair };
    let braced = format!("{{{}}}", block.trim_end_matches(','));
    let whole = if block.starts_with('{') { block } else { &braced };
    let error = match serde_json::from_str(whole) {
        Ok(tables) => return example(Ok(tables), None),
        Err(error) => error,
    };
    let with_commas = with_missing_commas(&without_trailing_commas(whole));
    for (end, what) in [
        ("", "with commas corrected"),
        ("}", "with a closing brace added"),
        ("}}", "with two closing braces added"),
    ] {
        if let Ok(tables) = serde_json::from_str(&format!("{with_commas}{end}")) {
            return example(Ok(tables), Some(format!("not JSON ({error}), read {what}")));
        }
    }
    example(Err(format!("not JSON: {error}")), None)
}

/// Adds missing commas: a value needs a comma if the next line contains an entry.
fn with_missing_commas(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut corrected = String::new();
    for (number, line) in lines.iter().enumerate() {
        corrected.push_str(line);
        let next = lines.get(number + 1).map_or("", |next| next.trim_start());
        if next.starts_with('"') && line.trim_end().ends_with(['"', '}', ']']) {
            corrected.push(',');
        }
        corrected.push('\n');
    }
    corrected
}

/// Removes commas before a closing brace or bracket. No string of the document contains such a comma, so the
/// strings do not change.
fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(comma) = rest.find(',') {
        let (before, after) = (&rest[..comma], &rest[comma + 1..]);
        kept.push_str(before);
        if !after.trim_start().starts_with(['}', ']']) {
            kept.push(',');
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Returns tables with the objects that are missing according to the errors of an example. The result is
/// empty if no error is about a missing object.
pub(super) fn missing_objects(errors: &[String], document: &[DocumentExample]) -> Value {
    let mut tables = Map::new();
    let mut add = |table: &str, name: &str, fields: Value| {
        let entries = tables.entry(table).or_insert_with(|| json!({}));
        entries[name] = fields;
    };
    for error in errors {
        if let Some((before, after)) = error.split_once(" has no entry ") {
            let table = before.rsplit(' ').next().unwrap_or(before);
            let name = after.split([';', ' ']).next().unwrap_or(after);
            let mut defining = document
                .iter()
                .filter_map(|example| example.tables.as_ref().ok()?[table].get(name));
            if let Some(fields) = defining.next() {
                add(table, name, fields.clone());
            } else if table == "BUFFER_PROFILE" {
                let pool = format!("{name}_pool");
                let side = if name.contains("egress") {
                    "egress"
                } else {
                    "ingress"
                };
                add(
                    "BUFFER_POOL",
                    &pool,
                    json!({"type": side, "mode": "dynamic", "size": "1048576"}),
                );
                add(table, name, json!({"pool": pool, "size": "0", "dynamic_th": "0"}));
            }
            continue;
        }
        if let Some((_, after)) = error.split_once(" is no interface: ") {
            let entry = after.split(' ').next().unwrap_or(after);
            if let Some((table, name)) = entry.split_once('|') {
                add(table, name, json!({}));
            }
            continue;
        }
        if let Some((before, after)) = error.split_once(" cannot be a neighbour of ") {
            let address = before.rsplit(' ').next().unwrap_or(before);
            let interface = after.split(':').next().unwrap_or(after);
            if let Some((network, _)) = address.rsplit_once('.') {
                add(
                    "VLAN_INTERFACE",
                    &format!("{interface}|{network}.254/24"),
                    json!({}),
                );
            }
            continue;
        }
        for kind in ["port", "LAG", "VLAN", "interface"] {
            let Some((_, after)) = error.split_once(&format!("there is no {kind} ")) else {
                continue;
            };
            let name = after.split([';', ' ']).next().unwrap_or(after);
            let is_interface = kind == "interface";
            match name.strip_prefix("Vlan") {
                Some(number) => {
                    add("VLAN", name, json!({"vlanid": number}));
                    if is_interface {
                        add("VLAN_INTERFACE", name, json!({}));
                    }
                }
                None if name.starts_with("PortChannel") => {
                    add("PORTCHANNEL", name, json!({"admin_status": "up"}));
                }
                None => add("PORT", name, json!({})),
            }
        }
    }
    Value::Object(tables)
}

/// Adds the entries of `more` to `tables`. Entries that `tables` already contains stay unchanged.
pub(super) fn add_missing_objects(tables: &mut Value, more: &Value) {
    for (table, entries) in more.as_object().into_iter().flatten() {
        for (name, fields) in entries.as_object().into_iter().flatten() {
            if tables[table].get(name).is_none() {
                tables[table][name] = fields.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_blocks_with_and_without_braces_are_examples() {
        let text = "# A\n```\n{\"PORT\": {}}\n```\ntext\n```json\n\"VLAN\": {}\n```\n```\nredis-cli keys\n```\n```\n{\"X\": }\n```\n";
        let examples = parse_examples(text);
        let lines: Vec<usize> = examples.iter().map(|example| example.line).collect();
        assert_eq!(lines, [2, 6, 12]);
        assert_eq!(examples[0].tables, Ok(json!({"PORT": {}})));
        assert_eq!(examples[1].tables, Ok(json!({"VLAN": {}})));
        assert!(examples[2].tables.is_err());
    }

    #[test]
    fn invalid_json_is_corrected_and_reported() {
        for (block, tables, how) in [
            (
                "{\"A\": {\"b\": \"c\",},}",
                json!({"A": {"b": "c"}}),
                "with commas corrected",
            ),
            (
                "{\"A\": {\"b\": \"c\"}",
                json!({"A": {"b": "c"}}),
                "a closing brace",
            ),
            ("{\"A\": {\"b\": \"c\",", json!({"A": {"b": "c"}}), ""),
            (
                "\"A\": {\n\"b\": \"c\"\n\"d\": \"e\"\n}",
                json!({"A": {"b": "c", "d": "e"}}),
                "with commas corrected",
            ),
            ("{\"A\": {}} 2x100G {}", json!({}), ""),
        ] {
            let example = parse_block(1, block);
            if how.is_empty() {
                assert!(example.tables.is_err(), "{example:?}");
                continue;
            }
            assert_eq!(example.tables, Ok(tables));
            assert!(
                example.repair.as_ref().is_some_and(|repair| repair.contains(how)),
                "{example:?}"
            );
        }
    }

    #[test]
    fn objects_missing_in_an_example_are_added() {
        let document = parse_examples("```\n{\"BUFFER_PROFILE\": {\"p\": {\"size\": \"0\"}}}\n```\n");
        let errors = [
            "BUFFER_PG|Ethernet0|3-4: there is no port Ethernet0; add it to PORT".to_owned(),
            "BUFFER_PG|Ethernet0|3-4 profile \"p\": BUFFER_PROFILE has no entry p; add p".to_owned(),
            "BUFFER_PG|Ethernet0|3-4 profile \"q\": BUFFER_PROFILE has no entry q; add q".to_owned(),
            "VLAN_MEMBER|Vlan7|PortChannel1: there is no port PortChannel1; add".to_owned(),
            "NEIGH|Vlan7|1.1.1.1: there is no interface Vlan7; add".to_owned(),
            "NEIGH|Vlan7|1.1.1.1: 1.1.1.1 cannot be a neighbour of Vlan7: it is in no network".to_owned(),
            "INTERFACE|Ethernet4|10.0.0.2/31: Ethernet4 is no interface: INTERFACE|Ethernet4 is missing; add"
                .to_owned(),
        ];
        let more = missing_objects(&errors, &document);
        assert_eq!(
            more,
            json!({
                "PORT": {"Ethernet0": {}}, "BUFFER_PROFILE": {"p": {"size": "0"}, "q": {"pool": "q_pool", "size": "0", "dynamic_th": "0"}},
                "BUFFER_POOL": {"q_pool": {"type": "ingress", "mode": "dynamic", "size": "1048576"}}, "PORTCHANNEL": {"PortChannel1": {"admin_status": "up"}},
                "VLAN": {"Vlan7": {"vlanid": "7"}}, "VLAN_INTERFACE": {"Vlan7": {}, "Vlan7|1.1.1.254/24": {}}, "INTERFACE": {"Ethernet4": {}}
            })
        );
        let mut tables = json!({"PORT": {"Ethernet0": {"mtu": "9100"}}});
        add_missing_objects(&mut tables, &more);
        assert_eq!(tables["PORT"]["Ethernet0"], json!({"mtu": "9100"}));
        assert_eq!(tables["VLAN"], json!({"Vlan7": {"vlanid": "7"}}));
        assert_eq!(
            missing_objects(&["x: no such table".to_owned()], &document),
            json!({})
        );
    }
}
