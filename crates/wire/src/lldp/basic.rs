//! System capabilities and management addresses (IEEE 802.1AB 8.5.8 and 8.5.9).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::problem::{TlvName, TlvProblem};
use crate::{read_be16, read_be32};

pub(super) const CAPABILITIES: TlvName = TlvName {
    name: "system capabilities",
    clause: "IEEE 802.1AB 8.5.8",
};
pub(super) const MANAGEMENT: TlvName = TlvName {
    name: "management address",
    clause: "IEEE 802.1AB 8.5.9",
};

/// Bits of the system capabilities (IEEE 802.1AB table 8-4).
pub mod capability {
    /// A capability that no other bit describes.
    pub const OTHER: u16 = 1 << 0;
    /// Repeater of frames.
    pub const REPEATER: u16 = 1 << 1;
    /// MAC bridge.
    pub const BRIDGE: u16 = 1 << 2;
    /// Access point of a wireless network.
    pub const WLAN_ACCESS_POINT: u16 = 1 << 3;
    /// IP router.
    pub const ROUTER: u16 = 1 << 4;
    /// IP telephone.
    pub const TELEPHONE: u16 = 1 << 5;
    /// Cable device of DOCSIS.
    pub const DOCSIS: u16 = 1 << 6;
    /// End station that is nothing else.
    pub const STATION_ONLY: u16 = 1 << 7;
    /// C-VLAN component of a bridge.
    pub const C_VLAN: u16 = 1 << 8;
    /// S-VLAN component of a bridge.
    pub const S_VLAN: u16 = 1 << 9;
    /// Two-port MAC relay.
    pub const TPMR: u16 = 1 << 10;
    /// All bits that the standard defines.
    pub const ALL: u16 = (1 << 11) - 1;
}

/// The functions of a system, as bits of [`capability`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCapabilities {
    /// Functions that the system has.
    pub supported: u16,
    /// Functions that are enabled. Each must also be supported.
    pub enabled: u16,
}

impl SystemCapabilities {
    pub(super) fn parse(
        value: &[u8],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<SystemCapabilities, TlvProblem> {
        if value.len() != 4 {
            return Err(CAPABILITIES.problem("length in bytes", value.len(), "4"));
        }
        let capabilities = SystemCapabilities {
            supported: read_be16(value, 0..2),
            enabled: read_be16(value, 2..4),
        };
        capabilities.check()?;
        if capabilities.supported & !capability::ALL != 0 {
            let reserved = usize::from(capabilities.supported & !capability::ALL);
            warnings.push(CAPABILITIES.problem("value of the reserved bits", reserved, "0"));
        }
        Ok(capabilities)
    }

    pub(super) fn check(self) -> Result<(), TlvProblem> {
        let unsupported = self.enabled & !self.supported;
        if unsupported != 0 {
            return Err(CAPABILITIES.problem(
                "enabled but unsupported capabilities",
                usize::from(unsupported),
                "0",
            ));
        }
        Ok(())
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.supported.to_be_bytes(), self.enabled.to_be_bytes());
        [a, b, c, d]
    }
}

/// A network address with its family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAddress {
    /// IPv4 address, family 1.
    Ipv4(Ipv4Addr),
    /// IPv6 address, family 2.
    Ipv6(Ipv6Addr),
    /// Address of another family.
    Other {
        /// Address family number of IANA, neither 1 nor 2.
        family: u8,
        /// The address, 1 to 31 bytes.
        bytes: Vec<u8>,
    },
}

impl fmt::Display for NetworkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkAddress::Ipv4(address) => address.fmt(f),
            NetworkAddress::Ipv6(address) => address.fmt(f),
            NetworkAddress::Other { family, bytes } => {
                write!(f, "family {family} ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// An address for the management of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementAddress {
    /// The address.
    pub address: NetworkAddress,
    /// Meaning of `interface_number`: 1 unknown, 2 ifIndex, 3 system port number.
    pub interface_numbering: u8,
    /// Number of the interface of the address.
    pub interface_number: u32,
    /// Object identifier of the entity of the address in ASN.1 encoding, at most 128 bytes.
    pub object_id: Vec<u8>,
}

impl ManagementAddress {
    /// Returns a management address without an interface number and without an object identifier.
    pub fn new(address: NetworkAddress) -> ManagementAddress {
        ManagementAddress {
            address,
            interface_numbering: 1,
            interface_number: 0,
            object_id: Vec::new(),
        }
    }

    pub(super) fn parse(
        value: &[u8],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<ManagementAddress, TlvProblem> {
        if !(9..=167).contains(&value.len()) {
            return Err(MANAGEMENT.problem("length in bytes", value.len(), "9 to 167"));
        }
        let address_len = usize::from(value[0]);
        if !(2..=32).contains(&address_len) {
            return Err(MANAGEMENT.problem("address string length", address_len, "2 to 32"));
        }
        // After the address string: one byte of numbering, four of the interface number, one of the OID length.
        let Some((interface, object_id)) = value[1..]
            .split_at_checked(address_len)
            .and_then(|(_, rest)| rest.split_first_chunk::<6>())
        else {
            return Err(MANAGEMENT.problem(
                "address string length",
                address_len,
                "at most the TLV length - 7",
            ));
        };
        let oid_len = usize::from(interface[5]);
        if oid_len > 128 || oid_len != object_id.len() {
            return Err(MANAGEMENT.problem("OID length", oid_len, "the rest of the TLV, at most 128 bytes"));
        }
        if !(1..=3).contains(&interface[0]) {
            let numbering = usize::from(interface[0]);
            warnings.push(MANAGEMENT.problem("interface numbering subtype", numbering, "1 to 3"));
        }
        Ok(ManagementAddress {
            address: parse_address(value[1], &value[2..=address_len])?,
            interface_numbering: interface[0],
            interface_number: read_be32(interface, 1..5),
            object_id: object_id.to_vec(),
        })
    }

    /// Returns the value of the TLV.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, TlvProblem> {
        let (family, address) = match &self.address {
            NetworkAddress::Ipv4(address) => (1, address.octets().to_vec()),
            NetworkAddress::Ipv6(address) => (2, address.octets().to_vec()),
            NetworkAddress::Other { family, bytes } => (*family, bytes.clone()),
        };
        let is_other = matches!(self.address, NetworkAddress::Other { .. });
        if is_other && (1..=2).contains(&family) {
            return Err(MANAGEMENT.problem("address family", usize::from(family), "neither 1 nor 2"));
        }
        if !(1..=31).contains(&address.len()) {
            return Err(MANAGEMENT.problem("address length in bytes", address.len(), "1 to 31"));
        }
        if self.object_id.len() > 128 {
            return Err(MANAGEMENT.problem("OID length", self.object_id.len(), "at most 128 bytes"));
        }
        let mut value = vec![address.len() as u8 + 1, family];
        value.extend_from_slice(&address);
        value.push(self.interface_numbering);
        value.extend_from_slice(&self.interface_number.to_be_bytes());
        value.push(self.object_id.len() as u8);
        value.extend_from_slice(&self.object_id);
        Ok(value)
    }
}

fn parse_address(family: u8, bytes: &[u8]) -> Result<NetworkAddress, TlvProblem> {
    match family {
        1 => <[u8; 4]>::try_from(bytes)
            .map(|address| NetworkAddress::Ipv4(address.into()))
            .map_err(|_| MANAGEMENT.problem("length of the IPv4 address", bytes.len(), "4 bytes")),
        2 => <[u8; 16]>::try_from(bytes)
            .map(|address| NetworkAddress::Ipv6(address.into()))
            .map_err(|_| MANAGEMENT.problem("length of the IPv6 address", bytes.len(), "16 bytes")),
        family => Ok(NetworkAddress::Other {
            family,
            bytes: bytes.to_vec(),
        }),
    }
}
