//! Checks of all tables: required fields, references, and settings without an effect.

use super::context::ResolveContext;
use super::{acl, balancing};
use crate::db::ConfigEntry;
use crate::natural::{NaturalName, NaturalSortKey};
use crate::problem::Problem;
use crate::schema::{self, FieldEffect, FieldSchema, KeyPart, TableFields, TableSchema, ValueKind};
use xoff_units::nearest_name;

/// Reason in the note about SONiC fields that the schema does not contain.
const NOT_MODELLED: &str = "not modelled by xoff";

/// Checks all entries of the configuration.
pub(super) fn check_entries(context: &mut ResolveContext<'_>) {
    let db = context.db;
    for (name, entries) in &db.tables {
        let name = name.as_str();
        for (key, entry) in entries {
            match schema::find_table_for_key(name, key.as_str()) {
                Some(table) => check_entry(context, table, key.as_str(), entry),
                None => note_ignored_entry(context, name, key.as_str()),
            }
        }
    }
}

/// Checks the key and the fields of an entry.
fn check_entry(context: &mut ResolveContext<'_>, table: &TableSchema, key: &str, entry: &ConfigEntry) {
    for (part, text) in table.key.iter().zip(key.split('|')) {
        check_key_part(context, table.name, key, *part, text);
    }
    let fields = match table.fields {
        TableFields::Named(fields) => fields,
        TableFields::Map { .. } => return,
        TableFields::ByPort(_) => return check_port_fields(context, table, key, entry),
    };
    for field in fields {
        match entry.get(&field.name as &dyn NaturalName) {
            Some(value) => check_field_references(context, table, key, field, &value.text()),
            None if field.required => {
                let why = "the field is missing".to_owned();
                context.report_error_within_entry(Problem::at_field(table.name, key, field.name, why));
            }
            None => {}
        }
    }
    for name in entry
        .keys()
        .map(NaturalSortKey::as_str)
        .filter(|name| table.has_ignored_field(name))
    {
        context.note_without_effect(NOT_MODELLED, table.name, name.to_owned());
    }
}

/// Checks that the name of each field of an entry is a port of the switch.
fn check_port_fields(context: &mut ResolveContext<'_>, table: &TableSchema, key: &str, entry: &ConfigEntry) {
    for port in entry.keys().map(NaturalSortKey::as_str) {
        if context.port_index(port).is_none() {
            report_missing_port(context, Problem::at_field(table.name, key, port, ""), port);
        }
    }
}

/// Checks that the port, LAG or VLAN in a part of a key exists.
fn check_key_part(context: &mut ResolveContext<'_>, table: &str, key: &str, part: KeyPart, text: &str) {
    match part {
        KeyPart::PortOrGlobal if text == "global" => {}
        KeyPart::Port | KeyPart::PortOrGlobal if context.port_index(text).is_none() => {
            if context.lag_index(text).is_some() {
                let why = format!("{text} is a LAG, but this table is for ports");
                context.report_error_within_entry(
                    Problem::at_field(table, key, "", why).with_fix("name its members instead"),
                );
                return;
            }
            report_missing_port(context, Problem::at_field(table, key, "", ""), text);
        }
        KeyPart::PortOrLag if context.port_index(text).is_none() && context.lag_index(text).is_none() => {
            report_missing_port(context, Problem::at_field(table, key, "", ""), text);
        }
        KeyPart::LagReference if context.lag_index(text).is_none() => {
            let problem = Problem::at_field(table, key, "", format!("there is no LAG {text}"));
            context.report_error_within_entry(problem.with_fix(format!("add {text} to PORTCHANNEL")));
        }
        KeyPart::VlanReference if context.db.entry("VLAN", text).is_none() => {
            let problem = Problem::at_field(table, key, "", format!("there is no VLAN {text}"));
            context.report_error_within_entry(problem.with_fix(format!("add {text} to VLAN")));
        }
        _ => {}
    }
}

/// Reports a missing port, and suggests a similar name if one exists. `place` is the location of the error.
fn report_missing_port(context: &mut ResolveContext<'_>, place: Problem, text: &str) {
    let nearest = nearest_name(text, context.ports.iter().map(String::as_str)).map(str::to_owned);
    let problem = Problem {
        why: format!("there is no port {text}"),
        missing_port: Some(text.to_owned()),
        ..place
    };
    let fix = match (nearest, context.options.port_source) {
        (Some(port), _) => format!("did you mean {port}? Otherwise add it to PORT"),
        (None, Some(source)) => format!("add it to PORT, or {source}"),
        (None, None) => "add it to PORT".to_owned(),
    };
    context.report_error_within_entry(problem.with_fix(fix));
}

/// Checks the references in the value of a field: each entry with a name in the value must exist. A field
/// without an effect in xoff is added to the note about such fields.
fn check_field_references(
    context: &mut ResolveContext<'_>,
    table: &TableSchema,
    key: &str,
    field: &FieldSchema,
    value: &str,
) {
    let (target, names) = match field.kind {
        ValueKind::Reference(target) => (target, vec![value]),
        ValueKind::ReferenceOrNull(target) if value != "NULL" => (target, vec![value]),
        ValueKind::References(target) => (target, schema::split_list(value).collect()),
        _ => ("", Vec::new()),
    };
    for value in names {
        if context.db.entry(target, value).is_some() {
            continue;
        }
        let nearest = nearest_name(value, context.db.keys(target));
        let problem = Problem::at_field(
            table.name,
            key,
            field.name,
            format!("{target} has no entry {value}"),
        );
        context.report_error_within_entry(problem.with_value(value).with_fix(match nearest {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("add {value} to {target}"),
        }));
    }
    if field.kind == ValueKind::Scheme && !balancing::scheme_exists(context, value) {
        let why = format!("there is no load-balancing scheme {value}");
        let problem = Problem::at_field(table.name, key, field.name, why).with_value(value);
        let fix = balancing::suggest_scheme(context, value);
        context.report_error_within_entry(problem.with_fix(fix));
    }
    match field.effect {
        FieldEffect::Full | FieldEffect::Label => {}
        FieldEffect::Fixed(fixed_value, _) if has_only_value(field.kind, value, fixed_value) => {}
        FieldEffect::None(why) => context.note_without_effect(why, table.name, field.name.to_owned()),
        FieldEffect::Fixed(_, why) => {
            context.note_without_effect(why, table.name, format!("{} {value:?}", field.name));
        }
    }
}

/// Returns whether a value is `fixed_value`. In a list, every item must be `fixed_value` or empty.
fn has_only_value(kind: ValueKind, value: &str, fixed_value: &str) -> bool {
    match kind {
        ValueKind::Each(_) => schema::split_list(value).all(|item| item == fixed_value || item.is_empty()),
        _ => value == fixed_value,
    }
}

/// Notes an entry of a table that the switch does not read. ACL entries with an effect are not noted.
fn note_ignored_entry(context: &mut ResolveContext<'_>, table: &str, key: &str) {
    if acl::has_effect(context, table, key) {
        return;
    }
    let why = schema::ignored_table_reason(table);
    match acl::has_mixed_effect(context, table) {
        true => context.warn_entry(table, key, format!("no effect: {why}")),
        false => context.note_without_effect(why, table, String::new()),
    }
}
