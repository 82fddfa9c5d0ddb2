//! References of keys and values to other entries.

use super::{Kind, Part, items, old_reference};

impl Part {
    /// Returns the table and the name of the object that this part of a key refers to.
    pub(crate) fn object(self, text: &str) -> Option<(&'static str, &str)> {
        match self {
            Part::Port => Some(("PORT", text)),
            Part::PortOrGlobal => (text != "global").then_some(("PORT", text)),
            Part::VlanReference => Some(("VLAN", text)),
            Part::LagReference => Some(("PORTCHANNEL", text)),
            Part::PortOrLag | Part::Interface => Some((interface_table(text), text)),
            Part::Only(_)
            | Part::Object
            | Part::Numbers
            | Part::Queues
            | Part::Vlan
            | Part::Lag
            | Part::Loopback
            | Part::Address
            | Part::Prefix
            | Part::Vrf => None,
        }
    }
}

impl Kind {
    /// Returns the table and the name of each object that a value refers to.
    pub(crate) fn objects<'a>(&self, text: &'a str) -> Vec<(&'static str, &'a str)> {
        let name = |text: &'a str| old_reference(text).map_or(text, |(_, name)| name);
        match self {
            Kind::Reference(table) | Kind::ReferenceOrNull(table) => vec![(*table, name(text))],
            Kind::References(table) => items(text).map(|item| (*table, name(item))).collect(),
            Kind::Ports => items(text).map(|item| ("PORT", item)).collect(),
            Kind::Interface => vec![(interface_table(text), text)],
            Kind::Scheme => vec![("XOFF_LB_SCHEME", text)],
            Kind::Each(kind) => items(text).flat_map(|item| kind.objects(item)).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the table that defines an interface of this name. The name need not be valid.
fn interface_table(name: &str) -> &'static str {
    let prefixes = [
        ("PortChannel", "PORTCHANNEL"),
        ("Loopback", "LOOPBACK_INTERFACE"),
        ("Vlan", "VLAN"),
    ];
    let of_prefix = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
    of_prefix.map_or("PORT", |(_, table)| table)
}
