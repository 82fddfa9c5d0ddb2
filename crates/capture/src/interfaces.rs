//! The interfaces of a capture and of its current section.

use std::collections::HashMap;

use super::pcapng_block::{Interface, InterfaceDescription};

/// An interface of the current section.
#[derive(Clone, Debug)]
pub(super) struct SectionInterface {
    pub(super) description: InterfaceDescription,
    /// Index in [`InterfaceTable::all`].
    pub(super) index: usize,
}

/// The properties by which an interface is recognised in a later section.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InterfaceKey {
    name: Option<String>,
    mac: Option<[u8; 6]>,
    link_type: u32,
    /// Position in the section. `None` for an interface with a name.
    position: Option<usize>,
    /// Number of earlier interfaces in the same section with the same name, MAC address, link type
    /// and position.
    repetition: usize,
}

/// All interfaces of a capture, and a list of the interfaces in the current section.
#[derive(Debug, Default)]
pub(super) struct InterfaceTable {
    all: Vec<Interface>,
    indices: HashMap<InterfaceKey, usize>,
    /// Interfaces of the current section, in the order of their numbers. An entry is `None` if the
    /// description of the interface is unreadable.
    section: Vec<Option<SectionInterface>>,
    repetitions: HashMap<InterfaceKey, usize>,
}

impl InterfaceTable {
    /// Returns the interfaces of all sections read so far.
    pub(super) fn all(&self) -> &[Interface] {
        &self.all
    }

    /// Returns the first interface of the current section. Returns `None` if the section has no interface, or
    /// if the description of the first interface is unreadable.
    pub(super) fn first_of_section(&self) -> Option<&SectionInterface> {
        self.of_section(0)
    }

    /// Returns the interface with this number in the current section. Returns `None` if the description of
    /// the interface is missing or unreadable.
    pub(super) fn of_section(&self, number: u32) -> Option<&SectionInterface> {
        self.section.get(number as usize)?.as_ref()
    }

    /// Starts a new section. Interface numbers begin at 0 again.
    pub(super) fn begin_section(&mut self) {
        self.section.clear();
        self.repetitions.clear();
    }

    /// Adds the next interface of the current section. An interface that no earlier section contains is
    /// also added to the list of all interfaces. An unreadable description (`None`) still uses an
    /// interface number.
    pub(super) fn add_to_section(&mut self, description: Option<InterfaceDescription>) {
        let added = description.map(|description| SectionInterface {
            index: self.index_of(&description.interface),
            description,
        });
        self.section.push(added);
    }

    fn index_of(&mut self, interface: &Interface) -> usize {
        let mut key = InterfaceKey {
            name: interface.name.clone(),
            mac: interface.mac,
            link_type: interface.link_type,
            position: interface.name.is_none().then_some(self.section.len()),
            repetition: 0,
        };
        let repetitions = self.repetitions.entry(key.clone()).or_default();
        key.repetition = *repetitions;
        *repetitions += 1;
        let all = &mut self.all;
        *self.indices.entry(key).or_insert_with(|| {
            all.push(interface.clone());
            all.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description_with_name(name: Option<&str>) -> Option<InterfaceDescription> {
        let mut description = InterfaceDescription::default();
        description.interface.name = name.map(str::to_owned);
        Some(description)
    }

    #[test]
    fn sections_share_interfaces_of_one_name_or_one_position() {
        let mut table = InterfaceTable::default();
        let mut section = |names: &[Option<&str>]| -> Vec<usize> {
            table.begin_section();
            names
                .iter()
                .for_each(|name| table.add_to_section(description_with_name(*name)));
            let indices = (0..names.len() as u32).filter_map(|number| table.of_section(number));
            indices.map(|interface| interface.index).collect()
        };
        assert_eq!(section(&[Some("a"), None, Some("a")]), [0, 1, 2]);
        assert_eq!(
            section(&[None, None, Some("a"), Some("a"), Some("a")]),
            [3, 1, 0, 2, 4]
        );
        assert_eq!(section(&[Some("a"), Some("b")]), [0, 5]);
        assert_eq!(table.all().len(), 6);
    }

    #[test]
    fn an_unreadable_description_occupies_a_number() {
        let mut table = InterfaceTable::default();
        table.add_to_section(None);
        table.add_to_section(description_with_name(Some("a")));
        assert!(table.first_of_section().is_none());
        assert_eq!(table.of_section(1).map(|interface| interface.index), Some(0));
    }
}
