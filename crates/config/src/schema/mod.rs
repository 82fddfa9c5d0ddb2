//! Which tables, keys, fields and values there are, as data. One file per group of tables.
//!
//! Reading, checking, the warnings about what has no effect and the hints at misspelt names all follow from
//! these descriptions; only rules between fields are code (`resolve`).

mod ars;
mod balancing;
mod buffer;
mod check;
mod device;
#[cfg(test)]
mod document;
mod foreign;
mod lag;
mod objects;
mod port;
mod qos;
mod routing;
mod sonic;
mod trimming;
mod value;
mod vlan;
mod watchdog;
mod xoff;

pub(crate) use balancing::LB_GLOBAL;
pub(crate) use foreign::why_no_effect;
pub(crate) use routing::{ALL_HASHED, DEST_QP, FIVE_TUPLE};
pub(crate) use value::{
    is_object_name, is_reserved_for_others, items, old_reference, parse_cable, parse_mac, parse_numbers,
    parse_prefix, parse_priorities, parse_queues, parse_tpid, parse_vlan,
};
pub(crate) use watchdog::GLOBAL;

/// A table of `config_db.json`. One whose keys have two forms is described twice, once for each.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The parts of a key, separated by `|`.
    pub(crate) key: &'static [Part],
    pub(crate) fields: Fields,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A port that exists.
    Port,
    /// A port that exists, or the word `global`: the whole switch.
    PortOrGlobal,
    /// A port or a LAG that exists.
    PortOrLag,
    /// Exactly this word.
    Only(&'static str),
    /// The name of an object: a map, a pool, a profile.
    Object,
    /// One number from 0 to 7, or a range of them.
    Numbers,
    /// A queue from 0 to 15, or a range of them. The switch has queues 0 to 7; reading drops the others with a note.
    Queues,
    /// `Vlan2` to `Vlan4094`, not necessarily existing.
    Vlan,
    /// A VLAN that exists.
    VlanReference,
    /// `PortChannel0` to `PortChannel9999`, not necessarily existing.
    Lag,
    /// A LAG that exists.
    LagReference,
    /// `Loopback0` to `Loopback999`.
    Loopback,
    /// An interface, by whatever it stands on.
    Interface,
    /// An IP address.
    Address,
    /// An IP address, and the length of its network.
    Prefix,
    /// The word `default`, or the name of a VRF.
    Vrf,
}

/// The fields of an entry.
#[derive(Debug)]
pub(crate) enum Fields {
    /// These.
    Named(&'static [Field]),
    /// The entry is a map: field names are numbers up to the first limit, values up to the second.
    Map {
        from: (&'static str, u64),
        to: (&'static str, u64),
        /// Largest value that has an effect. Reading drops the fields with larger ones, with a note.
        used_max: u64,
    },
    /// Field names are ports, values of this kind.
    ByPort(Kind),
}

/// A field of an entry.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) effect: Effect,
}

/// What writing a field does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// It does what SONiC says.
    Full,
    /// It describes: there is nothing it could do in software.
    Label,
    /// SONiC has it, this switch does not: named in a warning, with the reason.
    None(&'static str),
    /// As `None`, unless it has this value, which is what the switch does anyway.
    OnlyAs(&'static str, &'static str),
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A whole number of these units.
    Number {
        min: i128,
        max: i128,
        unit: &'static str,
    },
    /// A whole number from 0 to this, or this word.
    NumberOr(i128, &'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Printable text of at most this many characters.
    Text(usize),
    /// A unicast MAC address.
    Mac,
    /// The name of an entry of this table.
    Reference(&'static str),
    /// As `Reference`, or the word `NULL`.
    ReferenceOrNull(&'static str),
    /// Numbers from 0 to 7 separated by commas; empty for none.
    Priorities,
    /// An IP address.
    Address,
    /// The name of an interface.
    Interface,
    /// The word `default`, or the name of a VRF.
    Vrf,
    /// Values of this kind separated by commas, in one string; one may be empty.
    Each(&'static Kind),
    /// Some of these words, as a list.
    Words(&'static [&'static str]),
    /// Names of entries of this table, as a list.
    References(&'static str),
    /// Names of ports that exist, separated by commas.
    Ports,
    /// A load-balancing scheme: a built-in one, or an entry of `XOFF_LB_SCHEME`.
    Scheme,
    /// A built-in load-balancing scheme.
    BuiltInScheme,
    /// The EtherType of VLAN tags: `0x`, then one to four hexadecimal digits.
    Tpid,
    /// The length of a cable: digits, then `m`.
    Cable,
    /// Anything: it is not looked at.
    Any,
}

/// Sizes are cut down to this many bytes: a thousand times the buffers of packet memory (HBM), and sums of thousands of
/// sizes fit into 64 bits.
pub(crate) const BYTES_MAX: u64 = 1 << 48;

impl Kind {
    pub(crate) const BYTES: Kind = Kind::Number {
        min: 0,
        max: u64::MAX as i128,
        unit: "bytes",
    };

    pub(crate) const fn number(min: i128, max: i128, unit: &'static str) -> Kind {
        Kind::Number { min, max, unit }
    }
}

impl Field {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Field {
        Field {
            name,
            kind,
            required: false,
            effect: Effect::Full,
        }
    }

    pub(crate) const fn required(name: &'static str, kind: Kind) -> Field {
        Field {
            name,
            kind,
            required: true,
            effect: Effect::Full,
        }
    }

    pub(crate) const fn label(name: &'static str, kind: Kind) -> Field {
        Field {
            name,
            kind,
            required: false,
            effect: Effect::Label,
        }
    }

    pub(crate) const fn without_effect(name: &'static str, kind: Kind, why: &'static str) -> Field {
        Field {
            name,
            kind,
            required: false,
            effect: Effect::None(why),
        }
    }

    pub(crate) const fn only_as(
        name: &'static str,
        kind: Kind,
        value: &'static str,
        why: &'static str,
    ) -> Field {
        Field {
            name,
            kind,
            required: false,
            effect: Effect::OnlyAs(value, why),
        }
    }
}

impl Table {
    /// A named field; `None` in a map table too.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        match self.fields {
            Fields::Named(fields) => fields.iter().find(|field| field.name == name),
            Fields::Map { .. } | Fields::ByPort(_) => None,
        }
    }

    /// Whether SONiC has a field that the switch does not know. One that entries with keys of another form have is
    /// none of this form's.
    pub(crate) fn has_unused_field(&self, name: &str) -> bool {
        let mut forms = tables().filter(|table| table.name == self.name);
        sonic::has_field(self.name, name) && forms.all(|form| form.field(name).is_none())
    }

    /// Where the key names a range of numbers, if it does.
    pub(crate) fn has_numbers(&self) -> bool {
        self.key
            .iter()
            .any(|part| matches!(part, Part::Numbers | Part::Queues))
    }
}

/// Every table that the switch acts on.
pub(crate) fn tables() -> impl Iterator<Item = &'static Table> {
    [
        device::TABLES,
        port::TABLES,
        buffer::TABLES,
        qos::TABLES,
        vlan::TABLES,
        lag::TABLES,
        routing::TABLES,
        watchdog::TABLES,
        trimming::TABLES,
        ars::TABLES,
        balancing::TABLES,
        xoff::TABLES,
    ]
    .into_iter()
    .flatten()
}

/// The table of this name, if the switch acts on it; the first of its forms.
pub(crate) fn table(name: &str) -> Option<&'static Table> {
    tables().find(|table| table.name == name)
}

/// The table of this name in the form that has keys like this one, or in the first if none does.
pub(crate) fn table_with_key(name: &str, key: &str) -> Option<&'static Table> {
    let parts: Vec<&str> = key.split('|').collect();
    let of_length = || tables().filter(|table| table.name == name && table.key.len() == parts.len());
    // Of two forms of one length, the one whose words are there.
    let has_words = |table: &&Table| {
        table.key.iter().zip(&parts).all(|(part, text)| match part {
            Part::Only(word) => word == text,
            _ => true,
        })
    };
    of_length()
        .find(has_words)
        .or_else(|| of_length().next())
        .or_else(|| table(name))
}

/// Whether a table of this name may be in a configuration: the switch acts on it or SONiC has it.
pub(crate) fn is_table_name(name: &str) -> bool {
    table(name).is_some() || sonic::has_table(name)
}

/// The names of all tables, those without effect too.
pub(crate) fn table_names() -> impl Iterator<Item = &'static str> {
    tables().map(|table| table.name).chain(sonic::table_names())
}

/// Whether an entry of a table that the switch does not act on may have this field.
///
/// # Errors
/// What is wrong, with a similar name if there is one.
pub(crate) fn check_foreign_field(table: &str, field: &str) -> Result<(), String> {
    match sonic::has_field(table, field) {
        true => Ok(()),
        false => Err(no_such_field(field, sonic::field_names(table))),
    }
}

fn no_such_field<'a>(field: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(field, known) {
        Some(meant) => format!("no such field; did you mean {meant}?"),
        None => "no such field".to_owned(),
    }
}

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let upper = name.to_ascii_uppercase();
    known
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&upper, &candidate.to_ascii_uppercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}
