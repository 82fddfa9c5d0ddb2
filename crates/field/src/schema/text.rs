//! Finds names of tables and fields in files that are not YANG.

use serde_json::Value;

/// Returns the table names of CONFIG_DB in `schema.h`, such as `#define CFG_PORT_TABLE_NAME
/// "PORT"`.
pub(super) fn table_constants(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        words.next().filter(|constant| constant.starts_with("CFG_"))?;
        words.next()?.strip_prefix('"')?.strip_suffix('"')
    })
}

/// Returns the tables for which a Python program has a handler, such as `('VRF',
/// self.vrf_handler),`.
pub(super) fn handled_tables(program: &str) -> impl Iterator<Item = &str> {
    program.lines().filter_map(|line| {
        let (table, handler) = line.trim_start().strip_prefix("('")?.split_once("',")?;
        handler.trim_start().starts_with("self.").then_some(table)
    })
}

/// Returns the fields of `PORT` in `portschema.h`, such as `speed` of `#define PORT_SPEED "speed"`. Constants
/// for values of fields, such as `PORT_FEC_RS`, are skipped.
pub(super) fn port_fields(header: &str) -> Vec<&str> {
    let constants: Vec<(&str, &str)> = header
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            Some((words.next()?, words.next()?.strip_prefix('"')?.strip_suffix('"')?))
        })
        .collect();
    let is_value = |name: &str| {
        let mut fields = constants
            .iter()
            .map(|(field, _)| *field)
            .chain(["PORT_STATUS", "PORT_ADV"]);
        fields.any(|field| {
            let value = name.strip_prefix(field).and_then(|rest| rest.strip_prefix('_'));
            value.is_some()
                && !name.ends_with("_TEMPLATE")
                && !matches!(name, "PORT_ADV_SPEEDS" | "PORT_ADV_INTERFACE_TYPES")
        })
    };
    let fields = constants
        .iter()
        .filter(|(name, _)| name.starts_with("PORT_") && !is_value(name));
    fields.map(|(_, field)| *field).collect()
}

/// Returns the fields of `ACL_RULE` in `aclorch.h`, such as `SRC_IP` of `#define MATCH_SRC_IP "SRC_IP"`. The
/// names of these constants begin with `MATCH_`, `ACTION_` or `RULE_`.
pub(super) fn acl_rule_fields(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let is_field = |name: &&str| {
            ["MATCH_", "ACTION_", "RULE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        words.next().filter(is_field)?;
        words.next()?.strip_prefix('"')?.strip_suffix('"')
    })
}

/// Returns the fenced code blocks of a Markdown document.
pub(super) fn code_blocks(document: &str) -> impl Iterator<Item = &str> {
    document
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.strip_prefix("json").unwrap_or(block))
}

/// Returns the tables of an example with their field names. The outer braces of the example may be missing.
/// If the example is inside an object `SAMPLE_CONFIG_DB_JSON`, the result contains the tables of this object.
/// If the text is not JSON, the result is empty.
pub(super) fn example_tables(example: &str) -> Vec<(String, Vec<String>)> {
    let parsed = serde_json::from_str(example).or_else(|_| serde_json::from_str(&format!("{{{example}}}")));
    let Ok(Value::Object(mut tables)) = parsed else {
        return Vec::new();
    };
    if let Some(Value::Object(sample)) = tables.remove("SAMPLE_CONFIG_DB_JSON") {
        tables = sample;
    }
    let fields_of = |entries: &Value| -> Vec<String> {
        let entries = entries.as_object().into_iter().flat_map(serde_json::Map::values);
        let fields = entries
            .filter_map(Value::as_object)
            .flat_map(serde_json::Map::keys);
        fields
            .filter(|field| *field != "NULL")
            .map(|field| field.trim_end_matches('@').to_owned())
            .collect()
    };
    let is_table = |name: &str| {
        name.bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    tables
        .iter()
        .filter(|(name, entries)| is_table(name) && entries.is_object())
        .map(|(name, entries)| (name.clone(), fields_of(entries)))
        .collect()
}

/// Returns the column titles of `port_config.ini` without the column of the port name.
pub(super) fn port_file_columns(file: &str) -> impl Iterator<Item = &str> {
    let titles = file.lines().find_map(|line| {
        let titles = line.trim().strip_prefix('#')?.trim_start();
        titles.starts_with("name").then_some(titles)
    });
    titles.unwrap_or("").split_whitespace().skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_files_are_found() {
        let header = "#define CFG_A_NAME  \"A\"\n#define APP_B \"B\"\n#define CFG_C CFG_A_NAME\n";
        assert_eq!(table_constants(header).collect::<Vec<_>>(), ["A"]);
        let program = "x = [\n    ('VRF', self.vrf_handler),\n    ('a', 'b'),\n";
        assert_eq!(handled_tables(program).collect::<Vec<_>>(), ["VRF"]);
        let schema = "#define PORT_FEC_RS \"rs\"\n#define PORT_STATUS_UP \"up\"\n#define PORT_FEC  \"fec\"\n";
        assert_eq!(port_fields(schema), ["fec"]);
        let rules = "#define MATCH_TC \"TC\"\n#define TABLE_TYPE \"TYPE\"\n";
        assert_eq!(acl_rule_fields(rules).collect::<Vec<_>>(), ["TC"]);
        let document =
            "text\n```json\n\"T\": {\"k\": {\"f@\": \"1\", \"NULL\": \"NULL\"}}\n```\n```\nnot json\n```\n";
        let blocks: Vec<_> = code_blocks(document).flat_map(example_tables).collect();
        assert_eq!(blocks, [("T".to_owned(), vec!["f".to_owned()])]);
        let sample = r#"{"SAMPLE_CONFIG_DB_JSON": {"T": {"k": {"f": []}}, "asic0": {}}}"#;
        assert_eq!(example_tables(sample), [("T".to_owned(), vec!["f".to_owned()])]);
        assert_eq!(
            port_file_columns("# comment\n# name lanes alias\nEthernet0 1 a\n").collect::<Vec<_>>(),
            ["lanes", "alias"]
        );
    }
}
