//! The schema: all tables with their keys, fields and values, as constants. Each file describes a group
//! of tables.
//!
//! The parser and the checks use the schema. The notes about fields without an effect and the
//! suggestions for misspelt names also come from the schema. Only rules about several fields are code,
//! in the module `resolve`.

mod ars;
mod balancing;
mod buffer;
mod check;
mod device;
#[cfg(test)]
mod document;
mod ignored_tables;
mod lag;
mod lldp;
mod port;
mod qos;
mod references;
mod routing;
mod sonic_names;
mod trimming;
mod value;
mod vlan;
mod watchdog;
mod xoff_tables;
mod xoff_tables_document;

use xoff_units::nearest_name;

pub(crate) use balancing::LB_GLOBAL;
pub(crate) use ignored_tables::ignored_table_reason;
pub(crate) use routing::{DEST_QP, FIVE_TUPLE, HASH_FIELD_NAMES};
pub(crate) use value::{
    is_object_name, is_reserved_interface_name, parse_cable, parse_mac, parse_number_range,
    parse_old_reference, parse_prefix, parse_priorities, parse_queue_range, parse_tpid, parse_vlan_id,
    split_list,
};
pub(crate) use watchdog::GLOBAL;
pub use xoff_tables_document::xoff_tables_markdown;

/// The schema of a table. A table with two forms of keys has two schemas with the same name.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    /// The parts of a key, separated by `|`.
    pub(crate) key: &'static [KeyPart],
    pub(crate) fields: TableFields,
    /// The description of a table of xoff, in lines of at most 120 characters. Empty for the tables of SONiC.
    documentation: &'static str,
}

impl TableSchema {
    const fn new(name: &'static str, key: &'static [KeyPart], fields: TableFields) -> TableSchema {
        TableSchema {
            name,
            key,
            fields,
            documentation: "",
        }
    }

    /// Returns a table with named fields.
    const fn named(
        name: &'static str,
        key: &'static [KeyPart],
        fields: &'static [FieldSchema],
    ) -> TableSchema {
        TableSchema::new(name, key, TableFields::Named(fields))
    }

    /// Returns the table with a description.
    const fn documented(mut self, documentation: &'static str) -> TableSchema {
        self.documentation = documentation;
        self
    }
}

/// The form of one part of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum KeyPart {
    /// An existing port.
    Port,
    /// An existing port, or the word `global` for the whole switch.
    PortOrGlobal,
    /// An existing port or LAG.
    PortOrLag,
    /// A fixed word.
    Only(&'static str),
    /// The name of an object, such as a map, a pool or a profile.
    Object,
    /// A number from 0 to 7, or a range of such numbers (`3-4`).
    Numbers,
    /// A queue from 0 to 15, or a range of queues. The parser drops queues above 7 and adds a note.
    Queues,
    /// `Vlan2` to `Vlan4094`. The VLAN need not exist.
    Vlan,
    /// An existing VLAN.
    VlanReference,
    /// `PortChannel0` to `PortChannel9999`. The LAG need not exist.
    Lag,
    /// An existing LAG.
    LagReference,
    /// `Loopback0` to `Loopback999`.
    Loopback,
    /// The name of a port, LAG, VLAN or loopback interface.
    Interface,
    /// An IP address.
    Address,
    /// An IP address and its prefix length.
    Prefix,
    /// The word `default`, or the name of a VRF.
    Vrf,
}

/// The fields of the entries of a table.
#[derive(Debug)]
pub(crate) enum TableFields {
    /// Fields with fixed names.
    Named(&'static [FieldSchema]),
    /// A map from numbers to numbers. Field names are numbers from 0 to the limit in `from`. Values are
    /// numbers from 0 to the limit in `to`. Each limit has a name for messages, such as `traffic class`.
    Map {
        from: (&'static str, u64),
        to: (&'static str, u64),
        /// Largest value that has an effect. If a field has a larger value, the parser ignores the field and
        /// adds a note.
        used_max: u64,
    },
    /// One field for each port, with values of this kind.
    ByPort(ValueKind),
}

/// The schema of a field.
#[derive(Debug)]
pub(crate) struct FieldSchema {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) required: bool,
    pub(crate) effect: FieldEffect,
    /// The documentation of a field of a table of xoff. Empty for the fields of SONiC.
    documentation: FieldDocumentation,
}

/// The documentation of a field, for `docs/xoff-tables.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FieldDocumentation {
    /// The default value, or a description of it. Empty for a required field.
    default: &'static str,
    /// A valid value.
    example: &'static str,
    meaning: &'static str,
}

impl FieldDocumentation {
    const NONE: FieldDocumentation = FieldDocumentation {
        default: "",
        example: "",
        meaning: "",
    };
}

/// The effect of a field in xoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldEffect {
    /// The field has the effect that SONiC documents.
    Full,
    /// The field is a name or a description, and has no effect on forwarding.
    Label,
    /// The field has no effect in xoff. The text gives the reason. A note lists the field.
    None(&'static str),
    /// The field has only one supported value, the first text. The switch always behaves as if the field had
    /// this value. All remaining values have no effect, and the second text gives the reason.
    Fixed(&'static str, &'static str),
}

/// The values that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// A whole number from `min` to `max`. The unit is empty for a number without a unit.
    Number {
        min: i128,
        max: i128,
        unit: &'static str,
    },
    /// A whole number from 0 to this maximum, or this word.
    NumberOr(i128, &'static str),
    /// One of several words.
    Choice(&'static [&'static str]),
    /// Printable text with at most this number of characters.
    Text(usize),
    /// A unicast MAC address.
    Mac,
    /// The name of an entry of this table.
    Reference(&'static str),
    /// The name of an entry of this table, or the word `NULL`.
    ReferenceOrNull(&'static str),
    /// Numbers from 0 to 7, separated by commas. An empty text means none.
    Priorities,
    /// An IP address.
    Address,
    /// The name of an interface.
    Interface,
    /// The word `default`, or the name of a VRF.
    Vrf,
    /// A list of values of this kind in one string, separated by commas. An item can be empty.
    Each(&'static ValueKind),
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A list of names of entries of this table.
    References(&'static str),
    /// Names of existing ports, separated by commas.
    Ports,
    /// A load-balancing scheme: a built-in one, or an entry of `XOFF_LB_SCHEME`.
    Scheme,
    /// The name of a built-in load-balancing scheme.
    BuiltInScheme,
    /// The EtherType of VLAN tags: `0x` and one to four hexadecimal digits.
    Tpid,
    /// The length of a cable in whole metres, such as `5m`.
    Cable,
    /// Any value. No code reads the value.
    Any,
}

/// Largest size of a buffer in bytes. Larger sizes are reduced to this value. This size is about a thousand
/// times the buffer of chips with HBM. The sum of thousands of such sizes still fits into 64 bits.
pub(crate) const BYTES_MAX: u64 = 1 << 48;

impl ValueKind {
    pub(crate) const BYTES: ValueKind = ValueKind::Number {
        min: 0,
        max: u64::MAX as i128,
        unit: "bytes",
    };

    /// Returns the kind of a whole number from `min` to `max`. `unit` is empty for a number without a unit.
    pub(crate) const fn number(min: i128, max: i128, unit: &'static str) -> ValueKind {
        ValueKind::Number { min, max, unit }
    }
}

impl FieldSchema {
    /// Returns an optional field with an effect.
    pub(crate) const fn new(name: &'static str, kind: ValueKind) -> FieldSchema {
        FieldSchema {
            name,
            kind,
            required: false,
            effect: FieldEffect::Full,
            documentation: FieldDocumentation::NONE,
        }
    }

    /// Returns the field with its documentation: the default, an example and the meaning.
    const fn documented(
        mut self,
        default: &'static str,
        example: &'static str,
        meaning: &'static str,
    ) -> FieldSchema {
        self.documentation = FieldDocumentation {
            default,
            example,
            meaning,
        };
        self
    }

    /// Returns a required field with an effect.
    pub(crate) const fn required(name: &'static str, kind: ValueKind) -> FieldSchema {
        FieldSchema {
            name,
            kind,
            required: true,
            effect: FieldEffect::Full,
            documentation: FieldDocumentation::NONE,
        }
    }

    /// Returns a field that only describes an object.
    pub(crate) const fn label(name: &'static str, kind: ValueKind) -> FieldSchema {
        FieldSchema {
            name,
            kind,
            required: false,
            effect: FieldEffect::Label,
            documentation: FieldDocumentation::NONE,
        }
    }

    /// Returns a field without an effect. `why` is the reason.
    pub(crate) const fn without_effect(
        name: &'static str,
        kind: ValueKind,
        why: &'static str,
    ) -> FieldSchema {
        FieldSchema {
            name,
            kind,
            required: false,
            effect: FieldEffect::None(why),
            documentation: FieldDocumentation::NONE,
        }
    }

    /// Returns a field with only one supported value. The switch always behaves as with `value`, and `why` is
    /// the reason.
    pub(crate) const fn fixed_value(
        name: &'static str,
        kind: ValueKind,
        value: &'static str,
        why: &'static str,
    ) -> FieldSchema {
        FieldSchema {
            name,
            kind,
            required: false,
            effect: FieldEffect::Fixed(value, why),
            documentation: FieldDocumentation::NONE,
        }
    }
}

impl TableSchema {
    /// Returns the schema of a field. Returns `None` if the table has no such field, or no fields with
    /// fixed names.
    pub(crate) fn find_field(&self, name: &str) -> Option<&'static FieldSchema> {
        match self.fields {
            TableFields::Named(fields) => fields.iter().find(|field| field.name == name),
            TableFields::Map { .. } | TableFields::ByPort(_) => None,
        }
    }

    /// Returns whether SONiC has this field, but the schema does not contain it. A table can have
    /// several forms of keys. The result is `false` if the field belongs to a different form of keys in
    /// the same table.
    pub(crate) fn has_ignored_field(&self, name: &str) -> bool {
        let mut forms = all_tables().filter(|table| table.name == self.name);
        sonic_names::has_sonic_field(self.name, name) && forms.all(|form| form.find_field(name).is_none())
    }

    /// Returns whether a part of the key is a range of numbers.
    pub(crate) fn has_number_range(&self) -> bool {
        self.key
            .iter()
            .any(|part| matches!(part, KeyPart::Numbers | KeyPart::Queues))
    }
}

/// Returns the schemas of all tables that the switch reads.
pub(crate) fn all_tables() -> impl Iterator<Item = &'static TableSchema> {
    [
        device::TABLES,
        port::TABLES,
        buffer::TABLES,
        qos::TABLES,
        vlan::TABLES,
        lag::TABLES,
        lldp::TABLES,
        routing::TABLES,
        watchdog::TABLES,
        trimming::TABLES,
        ars::TABLES,
        balancing::TABLES,
        xoff_tables::TABLES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the schema of a table. For a table with two forms of keys, the result is the schema of the first
/// form. Returns `None` if the switch does not read the table.
pub(crate) fn find_table(name: &str) -> Option<&'static TableSchema> {
    all_tables().find(|table| table.name == name)
}

/// Returns the schema of a table for the form of `key`, because a table can have several forms of keys. If no
/// form matches, returns the schema for the first form. Returns `None` if the switch does not read the table.
pub(crate) fn find_table_for_key(name: &str, key: &str) -> Option<&'static TableSchema> {
    let parts: Vec<&str> = key.split('|').collect();
    let of_length = || all_tables().filter(|table| table.name == name && table.key.len() == parts.len());
    // Two forms can have the same number of parts. Then the form with matching fixed words applies.
    let has_words = |table: &&TableSchema| {
        table.key.iter().zip(&parts).all(|(part, text)| match part {
            KeyPart::Only(word) => word == text,
            _ => true,
        })
    };
    of_length()
        .find(has_words)
        .or_else(|| of_length().next())
        .or_else(|| find_table(name))
}

/// Returns whether a configuration may contain this table. This is the case if the switch reads the table or
/// SONiC has it.
pub(crate) fn is_table_name(name: &str) -> bool {
    find_table(name).is_some() || sonic_names::has_sonic_table(name)
}

/// Returns the names of all tables of SONiC and xoff.
pub(crate) fn table_names() -> impl Iterator<Item = &'static str> {
    all_tables()
        .map(|table| table.name)
        .chain(sonic_names::table_names())
}

/// Checks the field name in a SONiC table that has no effect in xoff.
///
/// # Errors
///
/// Returns a message if SONiC does not have the field. The message suggests a similar name, if one exists.
pub(crate) fn check_ignored_field(table: &str, field: &str) -> Result<(), String> {
    match sonic_names::has_sonic_field(table, field) {
        true => Ok(()),
        false => Err(unknown_field_message(field, sonic_names::field_names(table))),
    }
}

/// Returns the message for an unknown field, with a similar name if one exists.
fn unknown_field_message<'a>(field: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest_name(field, known) {
        Some(meant) => format!("no such field; did you mean {meant}?"),
        None => "no such field".to_owned(),
    }
}
