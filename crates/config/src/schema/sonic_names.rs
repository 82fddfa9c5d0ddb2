//! The names of all SONiC tables and fields, from a generated list.
//!
//! The file `sonic-names.txt` has one line for each table, with the name of the table and the names of its
//! fields. The field name `*` means that all names are valid. `cargo run -p field -- schema` writes the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

const NAME_LIST: &str = include_str!("sonic-names.txt");

/// The valid field names of a table.
enum FieldNames {
    /// All names are valid.
    Any,
    /// Exactly these names are valid.
    Exactly(BTreeSet<&'static str>),
}

/// Returns the parsed list: the valid field names by table name.
fn parsed_names() -> &'static BTreeMap<&'static str, FieldNames> {
    static TABLES: OnceLock<BTreeMap<&str, FieldNames>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let lines = NAME_LIST.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let mut words = line.split(' ');
                let table = words.next()?;
                let fields: BTreeSet<&str> = words.collect();
                let has_free_names = fields.contains("*");
                Some((
                    table,
                    match has_free_names {
                        true => FieldNames::Any,
                        false => FieldNames::Exactly(fields),
                    },
                ))
            })
            .collect()
    })
}

/// Returns whether SONiC has a table of this name.
pub(crate) fn has_sonic_table(table: &str) -> bool {
    parsed_names().contains_key(table)
}

/// Returns whether a table of SONiC has this field.
pub(crate) fn has_sonic_field(table: &str, field: &str) -> bool {
    match parsed_names().get(table) {
        Some(FieldNames::Any) => true,
        Some(FieldNames::Exactly(fields)) => fields.contains(field),
        None => false,
    }
}

/// Returns the names of all SONiC tables.
pub(super) fn table_names() -> impl Iterator<Item = &'static str> {
    parsed_names().keys().copied()
}

/// Returns the names of the fields of a SONiC table. The result is empty if SONiC has no such table, or if
/// the table accepts all field names.
pub(super) fn field_names(table: &str) -> impl Iterator<Item = &'static str> {
    let fields = match parsed_names().get(table) {
        Some(FieldNames::Exactly(fields)) => Some(fields),
        _ => None,
    };
    fields.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_names_from_every_source() {
        // One table of each source: YANG model, its template, sample configuration, port file, frrcfgd and
        // schema.h.
        let tables = [
            "FIPS",
            "ACL_TABLE",
            "DHCP_SERVER_IPV4_PORT",
            "OSPFV2_ROUTER",
            "SEND_TO_INGRESS_PORT",
        ];
        for table in tables {
            assert!(has_sonic_table(table), "{table}");
        }
        for field in ["dom_polling", "valid_speeds", "preemphasis"] {
            assert!(has_sonic_field("PORT", field), "{field}");
        }
        assert!(has_sonic_field("DSCP_TO_TC_MAP", "17"));
        // Only the commands of sonic-utilities write these fields.
        for (table, field) in [
            ("LLR_PORT", "llr_mode"),
            ("SNMP_TRAP_CONFIG", "vrf"),
            ("STP_MST_INST", "vlan_list"),
        ] {
            assert!(has_sonic_field(table, field), "{table} {field}");
        }
        for (table, field) in [
            ("PORT", "dom_poling"),
            ("PORT", "Fec"),
            ("port", "fec"),
            ("DEVICE_METADATA", "timezome"),
        ] {
            assert!(!has_sonic_field(table, field), "{table} {field}");
        }
    }

    #[test]
    fn list_is_sorted_and_names_its_sources() {
        let (head, lines): (Vec<&str>, Vec<&str>) = NAME_LIST.lines().partition(|line| line.starts_with('#'));
        assert!(lines.is_sorted());
        for repository in [
            "sonic-buildimage",
            "sonic-swss-common",
            "sonic-swss",
            "sonic-utilities",
        ] {
            let prefix = format!("# sonic-net/{repository} ");
            let commit = head
                .iter()
                .find_map(|line| line.strip_prefix(&prefix))
                .expect(repository);
            assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()));
        }
    }
}
