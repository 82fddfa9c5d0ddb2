//! Chassis ID and port ID (IEEE 802.1AB 8.5.2 and 8.5.3).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::problem::{TlvName, TlvProblem};
use crate::DisplayMac;

/// Longest chassis ID or port ID in bytes, without the subtype.
const IDENTIFIER_LEN_MAX: usize = 255;
pub(super) const CHASSIS: TlvName = TlvName {
    name: "chassis ID",
    clause: "IEEE 802.1AB 8.5.2",
};
pub(super) const PORT: TlvName = TlvName {
    name: "port ID",
    clause: "IEEE 802.1AB 8.5.3",
};

macro_rules! subtypes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A subtype with this number that the standard reserves.
            Reserved(u8),
        }

        impl $name {
            /// Returns the number of the subtype in the TLV.
            pub fn number(self) -> u8 {
                match self {
                    $($name::$variant => $value,)*
                    $name::Reserved(number) => number,
                }
            }

            /// Returns the subtype with this number.
            pub fn from_number(number: u8) -> $name {
                match number {
                    $($value => $name::$variant,)*
                    other => $name::Reserved(other),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($name::$variant => f.write_str($text),)*
                    $name::Reserved(number) => write!(f, "reserved subtype {number}"),
                }
            }
        }
    };
}

subtypes! {
    /// The meaning of a chassis ID (IEEE 802.1AB table 8-2).
    ChassisIdSubtype {
        /// Alias of a chassis component.
        Component = 1, "chassis component";
        /// Alias of an interface.
        InterfaceAlias = 2, "interface alias";
        /// Alias of a port component.
        PortComponent = 3, "port component";
        /// MAC address of six bytes.
        Mac = 4, "MAC address";
        /// Network address with its address family number.
        Network = 5, "network address";
        /// Name of an interface.
        InterfaceName = 6, "interface name";
        /// Locally assigned text.
        Local = 7, "local";
    }
}

subtypes! {
    /// The meaning of a port ID (IEEE 802.1AB table 8-3).
    PortIdSubtype {
        /// Alias of an interface.
        InterfaceAlias = 1, "interface alias";
        /// Alias of a port component.
        Component = 2, "port component";
        /// MAC address of six bytes.
        Mac = 3, "MAC address";
        /// Network address with its address family number.
        Network = 4, "network address";
        /// Name of an interface.
        InterfaceName = 5, "interface name";
        /// Agent circuit ID of RFC 3046.
        AgentCircuit = 6, "agent circuit ID";
        /// Locally assigned text.
        Local = 7, "local";
    }
}

/// Identifies a chassis. Chassis ID and port ID together identify a neighbour (MSAP, IEEE 802.1AB 6.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChassisId {
    /// Meaning of the bytes.
    pub subtype: ChassisIdSubtype,
    /// The identifier, 1 to 255 bytes. Receivers compare the bytes and do not interpret them.
    pub value: Vec<u8>,
}

/// Identifies a port of a chassis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// Meaning of the bytes.
    pub subtype: PortIdSubtype,
    /// The identifier, 1 to 255 bytes. Receivers compare the bytes and do not interpret them.
    pub value: Vec<u8>,
}

impl ChassisId {
    /// Returns a chassis ID that is a MAC address.
    pub fn mac(mac: [u8; 6]) -> ChassisId {
        ChassisId {
            subtype: ChassisIdSubtype::Mac,
            value: mac.to_vec(),
        }
    }

    /// Returns a locally assigned chassis ID.
    pub fn local(text: &str) -> ChassisId {
        ChassisId {
            subtype: ChassisIdSubtype::Local,
            value: text.as_bytes().to_vec(),
        }
    }

    /// Adds a warning for a value that does not fit its subtype.
    pub(super) fn warn(&self, warnings: &mut Vec<TlvProblem>) {
        match self.subtype {
            ChassisIdSubtype::Reserved(number) => {
                warnings.push(CHASSIS.problem("subtype", usize::from(number), "1 to 7"));
            }
            ChassisIdSubtype::Mac if self.value.len() != 6 => {
                warnings.push(CHASSIS.problem("length of the MAC address", self.value.len(), "6 bytes"));
            }
            _ => {}
        }
    }
}

impl PortId {
    /// Returns a port ID that is a MAC address.
    pub fn mac(mac: [u8; 6]) -> PortId {
        PortId {
            subtype: PortIdSubtype::Mac,
            value: mac.to_vec(),
        }
    }

    /// Returns a port ID that is the name of an interface, such as `Ethernet0`.
    pub fn interface_name(name: &str) -> PortId {
        PortId {
            subtype: PortIdSubtype::InterfaceName,
            value: name.as_bytes().to_vec(),
        }
    }

    /// Returns a locally assigned port ID.
    pub fn local(text: &str) -> PortId {
        PortId {
            subtype: PortIdSubtype::Local,
            value: text.as_bytes().to_vec(),
        }
    }

    /// Adds a warning for a value that does not fit its subtype.
    pub(super) fn warn(&self, warnings: &mut Vec<TlvProblem>) {
        match self.subtype {
            PortIdSubtype::Reserved(number) => {
                warnings.push(PORT.problem("subtype", usize::from(number), "1 to 7"));
            }
            PortIdSubtype::Mac if self.value.len() != 6 => {
                warnings.push(PORT.problem("length of the MAC address", self.value.len(), "6 bytes"));
            }
            _ => {}
        }
    }
}

/// Splits the value of a chassis ID or port ID TLV into subtype and identifier.
pub(super) fn split_identifier(name: TlvName, value: &[u8]) -> Result<(u8, Vec<u8>), TlvProblem> {
    match value {
        [subtype, identifier @ ..] if (1..=IDENTIFIER_LEN_MAX).contains(&identifier.len()) => {
            Ok((*subtype, identifier.to_vec()))
        }
        _ => Err(name.problem("length in bytes", value.len(), "2 to 256")),
    }
}

impl fmt::Display for ChassisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_mac, is_network) = (
            self.subtype == ChassisIdSubtype::Mac,
            self.subtype == ChassisIdSubtype::Network,
        );
        display_identifier(f, &self.value, is_mac, is_network)
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_mac, is_network) = (
            self.subtype == PortIdSubtype::Mac,
            self.subtype == PortIdSubtype::Network,
        );
        display_identifier(f, &self.value, is_mac, is_network)
    }
}

/// Displays an identifier as an address, as text if all characters are printable, or as hexadecimal digits.
fn display_identifier(
    f: &mut fmt::Formatter<'_>,
    value: &[u8],
    is_mac: bool,
    is_network: bool,
) -> fmt::Result {
    match value {
        &[a, b, c, d, e, g] if is_mac => return write!(f, "{}", DisplayMac([a, b, c, d, e, g])),
        &[1, a, b, c, d] if is_network => return write!(f, "{}", Ipv4Addr::new(a, b, c, d)),
        [2, address @ ..] if is_network => {
            if let Ok(address) = <[u8; 16]>::try_from(address) {
                return write!(f, "{}", Ipv6Addr::from(address));
            }
        }
        _ => {}
    }
    match core::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => f.write_str(text),
        _ => value.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
    }
}
