//! References from keys and values to other entries.

use super::{KeyPart, ValueKind, parse_old_reference, split_list};

impl KeyPart {
    /// Returns the table and the name of the object to which this part of a key refers. Returns `None` if the
    /// part is no reference.
    pub(crate) fn referenced_object(self, text: &str) -> Option<(&'static str, &str)> {
        match self {
            KeyPart::Port => Some(("PORT", text)),
            KeyPart::PortOrGlobal => (text != "global").then_some(("PORT", text)),
            KeyPart::VlanReference => Some(("VLAN", text)),
            KeyPart::LagReference => Some(("PORTCHANNEL", text)),
            KeyPart::PortOrLag | KeyPart::Interface => Some((table_of_interface(text), text)),
            KeyPart::Only(_)
            | KeyPart::Object
            | KeyPart::Numbers
            | KeyPart::Queues
            | KeyPart::Vlan
            | KeyPart::Lag
            | KeyPart::Loopback
            | KeyPart::Address
            | KeyPart::Prefix
            | KeyPart::Vrf => None,
        }
    }
}

impl ValueKind {
    /// Returns the table and the name of each object to which a value refers.
    pub(crate) fn referenced_objects<'a>(&self, text: &'a str) -> Vec<(&'static str, &'a str)> {
        let name = |text: &'a str| parse_old_reference(text).map_or(text, |(_, name)| name);
        match self {
            ValueKind::Reference(table) | ValueKind::ReferenceOrNull(table) => vec![(*table, name(text))],
            ValueKind::References(table) => split_list(text).map(|item| (*table, name(item))).collect(),
            ValueKind::Ports => split_list(text).map(|item| ("PORT", item)).collect(),
            ValueKind::Interface => vec![(table_of_interface(text), text)],
            ValueKind::Scheme => vec![("XOFF_LB_SCHEME", text)],
            ValueKind::Each(kind) => split_list(text)
                .flat_map(|item| kind.referenced_objects(item))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the table that defines an interface with this name. The start of the name decides. The name need
/// not be valid.
fn table_of_interface(name: &str) -> &'static str {
    let prefixes = [
        ("PortChannel", "PORTCHANNEL"),
        ("Loopback", "LOOPBACK_INTERFACE"),
        ("Vlan", "VLAN"),
    ];
    let of_prefix = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
    of_prefix.map_or("PORT", |(_, table)| table)
}
