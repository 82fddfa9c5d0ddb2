//! Checks of all tables: required fields, references, and settings without an effect.

use super::context::Context;
use super::{acl, balancing};
use crate::db::Entry;
use crate::natural::Name;
use crate::problem::Problem;
use crate::schema::{self, Effect, Field, Fields, Kind, Part, Table};

/// Reason for SONiC fields that no table of the schema has.
const NOT_MODELLED: &str = "not part of this switch's model";

/// Checks all entries of the configuration.
pub(super) fn check(context: &mut Context<'_>) {
    let db = context.db;
    for (name, entries) in &db.tables {
        let name = name.as_str();
        for (key, entry) in entries {
            match schema::table_with_key(name, key.as_str()) {
                Some(table) => entry_of(context, table, key.as_str(), entry),
                None => foreign_entry(context, name, key.as_str()),
            }
        }
    }
}

/// Checks the key and the fields of an entry.
fn entry_of(context: &mut Context<'_>, table: &Table, key: &str, entry: &Entry) {
    for (part, text) in table.key.iter().zip(key.split('|')) {
        key_part(context, table.name, key, *part, text);
    }
    let fields = match table.fields {
        Fields::Named(fields) => fields,
        Fields::Map { .. } => return,
        Fields::ByPort(_) => return ports_of(context, table, key, entry),
    };
    for field in fields {
        match entry.get(&Name::from(field.name)) {
            Some(value) => field_of(context, table, key, field, &value.text()),
            None if field.required => {
                let why = "the field is missing".to_owned();
                context.own_problem(Problem::at(table.name, key, field.name, why));
            }
            None => {}
        }
    }
    for name in entry
        .keys()
        .map(Name::as_str)
        .filter(|name| table.has_unused_field(name))
    {
        context.note_without_effect(NOT_MODELLED, table.name, name.to_owned());
    }
}

/// Checks that all fields of an entry are ports of the switch.
fn ports_of(context: &mut Context<'_>, table: &Table, key: &str, entry: &Entry) {
    for port in entry.keys().map(Name::as_str) {
        if context.port(port).is_none() {
            no_port(context, Problem::at(table.name, key, port, ""), port);
        }
    }
}

/// Checks that the object exists to which a part of a key refers.
fn key_part(context: &mut Context<'_>, table: &str, key: &str, part: Part, text: &str) {
    match part {
        Part::PortOrGlobal if text == "global" => {}
        Part::Port | Part::PortOrGlobal if context.port(text).is_none() => {
            if context.lag(text).is_some() {
                let why = format!("{text} is a LAG, and this concerns ports");
                context.own_problem(Problem::at(table, key, "", why).fix("name its members instead"));
                return;
            }
            no_port(context, Problem::at(table, key, "", ""), text);
        }
        Part::PortOrLag if context.port(text).is_none() && context.lag(text).is_none() => {
            no_port(context, Problem::at(table, key, "", ""), text);
        }
        Part::LagReference if context.lag(text).is_none() => {
            let problem = Problem::at(table, key, "", format!("there is no LAG {text}"));
            context.own_problem(problem.fix(format!("add {text} to PORTCHANNEL")));
        }
        Part::VlanReference if context.db.entry("VLAN", text).is_none() => {
            let problem = Problem::at(table, key, "", format!("there is no VLAN {text}"));
            context.own_problem(problem.fix(format!("add {text} to VLAN")));
        }
        _ => {}
    }
}

/// Reports a missing port, with a similar name if one exists.
fn no_port(context: &mut Context<'_>, place: Problem, text: &str) {
    let nearest = schema::nearest(text, context.ports.iter().map(String::as_str)).map(str::to_owned);
    let problem = Problem {
        why: format!("there is no port {text}"),
        ..place
    };
    context.own_problem(problem.fix(match nearest {
        Some(port) => format!("did you mean {port}? Otherwise add it to PORT"),
        None => "add it to PORT, or name it on the command line (--port)".to_owned(),
    }));
}

/// Checks the references in the value of a field, and registers fields without an effect.
fn field_of(context: &mut Context<'_>, table: &Table, key: &str, field: &Field, value: &str) {
    let (target, names) = match field.kind {
        Kind::Reference(target) => (target, vec![value]),
        Kind::ReferenceOrNull(target) if value != "NULL" => (target, vec![value]),
        Kind::References(target) => (target, schema::items(value).collect()),
        _ => ("", Vec::new()),
    };
    for value in names {
        if context.db.entry(target, value).is_some() {
            continue;
        }
        let nearest = schema::nearest(value, context.db.keys(target));
        let problem = Problem::at(
            table.name,
            key,
            field.name,
            format!("{target} has no entry {value}"),
        );
        context.own_problem(problem.value(value).fix(match nearest {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("add {value} to {target}"),
        }));
    }
    if field.kind == Kind::Scheme && !balancing::exists(context, value) {
        let why = format!("there is no load-balancing scheme {value}");
        let problem = Problem::at(table.name, key, field.name, why).value(value);
        let fix = balancing::unknown(context, value);
        context.own_problem(problem.fix(fix));
    }
    match field.effect {
        Effect::Full | Effect::Label => {}
        Effect::OnlyAs(same, _) if says_only(field.kind, value, same) => {}
        Effect::None(why) => context.note_without_effect(why, table.name, field.name.to_owned()),
        Effect::OnlyAs(_, why) => {
            context.note_without_effect(why, table.name, format!("{} {value:?}", field.name));
        }
    }
}

/// Whether a value, or every item of a list, is `expected`.
fn says_only(kind: Kind, value: &str, same: &str) -> bool {
    match kind {
        Kind::Each(_) => schema::items(value).all(|item| item == same || item.is_empty()),
        _ => value == same,
    }
}

/// Registers an entry of a table that the switch does not read.
fn foreign_entry(context: &mut Context<'_>, table: &str, key: &str) {
    if acl::acts_on(context, table, key) {
        return;
    }
    let why = schema::why_no_effect(table);
    match acl::is_acted_on_in_part(context, table) {
        true => context.warn_entry(table, key, format!("no effect: {why}")),
        false => context.note_without_effect(why, table, String::new()),
    }
}
