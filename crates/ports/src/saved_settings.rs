//! The previous settings of a device, stored at the device itself while a port uses it.
//!
//! A process that is killed with SIGKILL cannot restore the settings of its devices. The settings are therefore encoded
//! in an alternative name of the device (`ip link property`). The next port on the device reads them and restores them
//! at its end. The name disappears with the device, and moves with it to another namespace.

use crate::net::{self, LinkState, ethtool};

/// Start of the alternative names with settings.
const NAME_PREFIX: &str = "xoff-restore-";
/// Largest length of an alternative name in bytes (`ALTIFNAMSIZ` without its zero byte).
const NAME_LEN_MAX: usize = 127;

/// The settings that a device had before a port changed them. Each setting is missing if it was not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedSettings {
    /// The length of the transmit queue in packets.
    pub(super) tx_queue_len: Option<u32>,
    /// The features of the device.
    pub(super) features: Option<ethtool::Features>,
    /// The features of the far end of a veth pair.
    pub(super) peer_features: Option<ethtool::Features>,
    /// Whether ARP of the kernel was on and is off now.
    pub(super) arp_was_on: bool,
    /// Whether IPv6 of the kernel was on and is off now.
    pub(super) ipv6_was_on: bool,
    /// Whether the device was down and is up now.
    pub(super) was_down: bool,
}

impl SavedSettings {
    /// Returns the settings that an earlier port has stored at a device. `None` if there are none.
    pub(super) fn find(link: &LinkState) -> Option<SavedSettings> {
        stored_names(link).find_map(SavedSettings::parse)
    }

    /// Stores the settings at the device `link`, instead of those that are stored there. If nothing was changed, no
    /// settings remain.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the name. Kernels before 5.5 have no alternative names.
    pub(super) fn store(&self, link: &LinkState) -> net::Result<()> {
        let name = (*self != SavedSettings::default()).then(|| self.encode(link.index));
        for stored in stored_names(link).filter(|stored| Some(*stored) != name.as_deref()) {
            net::remove_alt_name(link.index, stored)?;
        }
        let is_stored = |name: &String| stored_names(link).any(|stored| stored == name);
        match name.filter(|name| !is_stored(name)) {
            Some(name) => net::add_alt_name(link.index, &name),
            None => Ok(()),
        }
    }

    /// Encodes the settings as an alternative name. `index` makes the name unique within the namespace.
    fn encode(&self, index: u32) -> String {
        let mut name = format!("{NAME_PREFIX}{index}-");
        for (letter, is_set) in [
            ('a', self.arp_was_on),
            ('i', self.ipv6_was_on),
            ('d', self.was_down),
        ] {
            name.extend(is_set.then_some(letter));
        }
        if let Some(packets) = self.tx_queue_len {
            name.push_str(&format!("-q{packets}"));
        }
        for (letter, features) in [('o', &self.features), ('p', &self.peer_features)] {
            let Some(features) = features else { continue };
            let part = format!("-{letter}{}", features.to_hex());
            // A device with more features than today's kernels have keeps its changed features after SIGKILL.
            if name.len() + part.len() <= NAME_LEN_MAX {
                name.push_str(&part);
            }
        }
        name
    }

    /// Decodes an alternative name. `None` if it is no valid name of this form.
    fn parse(name: &str) -> Option<SavedSettings> {
        let mut parts = name.strip_prefix(NAME_PREFIX)?.split('-');
        parts.next()?.parse::<u32>().ok()?;
        let mut settings = SavedSettings::default();
        for letter in parts.next()?.chars() {
            match letter {
                'a' => settings.arp_was_on = true,
                'i' => settings.ipv6_was_on = true,
                'd' => settings.was_down = true,
                _ => return None,
            }
        }
        for part in parts {
            let (kind, value) = part.split_at_checked(1)?;
            match kind {
                "q" => settings.tx_queue_len = Some(value.parse().ok()?),
                "o" => settings.features = Some(ethtool::Features::from_hex(value)?),
                "p" => settings.peer_features = Some(ethtool::Features::from_hex(value)?),
                _ => return None,
            }
        }
        Some(settings)
    }
}

/// Removes the stored settings of the device `name` of the calling thread's namespace.
///
/// # Errors
/// Returns an error if the device cannot be read, or if the kernel refuses the request.
pub(super) fn forget_settings(name: &str) -> net::Result<()> {
    SavedSettings::default().store(&net::read_link(name)?)
}

fn stored_names(link: &LinkState) -> impl Iterator<Item = &str> {
    let names = link.alt_names.iter().map(String::as_str);
    names.filter(|name| name.starts_with(NAME_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_name_that_stores_them() {
        let features = |hex: &str| ethtool::Features::from_hex(hex);
        for (settings, name) in [
            (SavedSettings::default(), "xoff-restore-7-"),
            (
                SavedSettings {
                    arp_was_on: true,
                    was_down: true,
                    tx_queue_len: Some(1000),
                    ..SavedSettings::default()
                },
                "xoff-restore-7-ad-q1000",
            ),
            (
                SavedSettings {
                    ipv6_was_on: true,
                    features: features("0000000f0000000affffffff80000000"),
                    peer_features: features("0000000100000000"),
                    ..SavedSettings::default()
                },
                "xoff-restore-7-i-o0000000f0000000affffffff80000000-p0000000100000000",
            ),
        ] {
            assert_eq!(settings.encode(7), name);
            assert_eq!(SavedSettings::parse(name), Some(settings), "{name}");
        }
        for foreign in [
            "eth0",
            "xoff-restore-",
            "xoff-restore-x-a",
            "xoff-restore-7-z",
            "xoff-restore-7-a-o123",
            "xoff-restore-7-a-qx",
            "xoff-restore-7-a-é",
        ] {
            assert_eq!(SavedSettings::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn names_are_not_longer_than_the_kernel_permits() {
        let words = "ffffffff00000000".repeat(4);
        let settings = SavedSettings {
            arp_was_on: true,
            ipv6_was_on: true,
            was_down: true,
            tx_queue_len: Some(u32::MAX),
            features: ethtool::Features::from_hex(&words),
            peer_features: ethtool::Features::from_hex(&words),
        };
        let name = settings.encode(u32::MAX);
        assert!(name.len() <= NAME_LEN_MAX, "{name}");
        let read = SavedSettings::parse(&name).expect("a valid name");
        assert_eq!((read.features, read.peer_features), (settings.features, None));
    }
}
