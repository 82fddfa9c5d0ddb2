//! The text of `docs/xoff-tables.md`, generated from the schemas.

use std::fmt::Write as _;

use super::{FieldSchema, KeyPart, TableFields, TableSchema, all_tables};

/// Start of the page, before the tables.
const INTRODUCTION: &str = "\
# Tables of xoff

With this page you can change the settings of a switch that SONiC's tables do not have. Each section describes one table
with its fields, their values, defaults and examples. The tables belong in `config_db.json` beside SONiC's tables, in
which all values are strings. [Configuration fields](configuration-fields.md) lists the fields of SONiC's tables.

The page is generated from the schema of xoff. This command writes it again:

    UPDATE_DOCUMENTS=1 cargo test -p xoff-config xoff_tables
";

/// Number of fields in the example of a table.
const EXAMPLE_FIELDS: usize = 3;

/// Returns the text of `docs/xoff-tables.md`. This Markdown page describes all tables with a name that begins
/// with `XOFF_`, and all fields of these tables.
pub fn xoff_tables_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (table, fields) in xoff_tables() {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n    {}\n\n",
            table.name,
            table.documentation,
            example_json(table, fields)
        );
        page.push_str("| field | values | default | example | meaning |\n|---|---|---|---|---|\n");
        for field in fields {
            let documentation = field.documentation;
            let default = match documentation.default {
                "" => "required",
                default => default,
            };
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | `{}` | {} |",
                field.name,
                field.kind.describe().replace('|', "\\|"),
                documentation.example,
                documentation.meaning
            );
        }
    }
    page
}

/// Returns the tables of xoff and their fields. The tables for load balancing come last.
fn xoff_tables() -> Vec<(&'static TableSchema, &'static [FieldSchema])> {
    let tables = all_tables().filter_map(|table| match table.fields {
        TableFields::Named(fields) if table.name.starts_with("XOFF_") => Some((table, fields)),
        _ => None,
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|(table, _)| table.name.starts_with("XOFF_LB"));
    tables
}

/// Returns an example entry of a table in one line of JSON, with the first fields of the table.
fn example_json(table: &TableSchema, fields: &[FieldSchema]) -> String {
    let field = |field: &FieldSchema| format!("\"{}\": \"{}\"", field.name, field.documentation.example);
    let fields: Vec<String> = fields.iter().take(EXAMPLE_FIELDS).map(field).collect();
    format!(
        "\"{}\": {{\"{}\": {{{}}}}}",
        table.name,
        example_key(table),
        fields.join(", ")
    )
}

fn example_key(table: &TableSchema) -> &'static str {
    match table.key {
        [KeyPart::Only(word)] => word,
        [KeyPart::Port] => "Ethernet0",
        [KeyPart::LagReference] => "PortChannel1",
        [KeyPart::Prefix] => "10.1.0.0/16",
        _ => "my-scheme",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};
    use xoff_testing::{read_document, repository_root};

    use super::*;
    use crate::{ResolveOptions, load};

    const PAGE: &str = "docs/xoff-tables.md";

    #[test]
    fn page_of_xoff_tables_is_up_to_date() {
        let page = xoff_tables_markdown();
        if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
            std::fs::write(repository_root().join(PAGE), &page).expect("the repository is writable");
        }
        assert!(
            page == read_document(PAGE),
            "{PAGE} differs from the schema: UPDATE_DOCUMENTS=1 cargo test -p xoff-config xoff_tables"
        );
    }

    #[test]
    fn every_field_of_xoff_tables_is_documented() {
        for (table, fields) in xoff_tables() {
            assert!(table.documentation.ends_with('.'), "{}", table.name);
            for FieldSchema {
                name,
                required,
                documentation,
                ..
            } in fields
            {
                assert!(!documentation.meaning.is_empty(), "{} {name}", table.name);
                assert_eq!(
                    documentation.default.is_empty(),
                    *required,
                    "{} {name}",
                    table.name
                );
            }
        }
    }

    #[test]
    fn examples_of_xoff_tables_are_valid() {
        for (table, fields) in xoff_tables() {
            let example =
                |field: &FieldSchema| (field.name.to_owned(), Value::from(field.documentation.example));
            let entry: Map<String, Value> = fields.iter().map(example).collect();
            let mut config = json!({
                "PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": {"speed": "100000"}},
                "PORTCHANNEL": {"PortChannel1": {"admin_status": "up"}},
                "STATIC_ROUTE": {"10.1.0.0/16": {"nexthop": "10.0.0.2,10.0.0.3", "ifname": "Ethernet0,Ethernet0"}},
                "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.1/24": {}},
            });
            config[table.name] = json!({ (example_key(table)): entry });
            if let Err(problems) = load(&[("example", &config.to_string())], &ResolveOptions::default()) {
                panic!("{}: {problems}", table.name);
            }
        }
    }
}
