//! The application priority TLV (IEEE 802.1Q-2018 D.2.11).

use core::fmt;

use super::problem::{TlvName, TlvProblem};

pub(super) const SUBTYPE: u8 = 0x0c;
const ENTRY_LEN: usize = 3;
/// Largest number of entries that fit into a TLV.
const ENTRIES_MAX: usize = (super::TLV_LEN_MAX - 5) / ENTRY_LEN;
const APPLICATION: TlvName = TlvName {
    name: "application priority",
    clause: "IEEE 802.1Q-2018 D.2.11",
};

/// The meaning of the protocol number of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApplicationSelector {
    /// Ethertype, number 1.
    EtherType,
    /// Port of TCP or SCTP, number 2.
    TcpPort,
    /// Port of UDP or DCCP, number 3.
    UdpPort,
    /// Port of TCP, SCTP, UDP or DCCP, number 4.
    AnyPort,
    /// DSCP, number 5 (IEEE 802.1Qcd).
    Dscp,
}

impl ApplicationSelector {
    /// Returns the number of the selector in the TLV.
    pub fn number(self) -> u8 {
        match self {
            ApplicationSelector::EtherType => 1,
            ApplicationSelector::TcpPort => 2,
            ApplicationSelector::UdpPort => 3,
            ApplicationSelector::AnyPort => 4,
            ApplicationSelector::Dscp => 5,
        }
    }

    /// Returns the selector with this number. Returns `None` for the reserved numbers.
    pub fn from_number(number: u8) -> Option<ApplicationSelector> {
        match number {
            1 => Some(ApplicationSelector::EtherType),
            2 => Some(ApplicationSelector::TcpPort),
            3 => Some(ApplicationSelector::UdpPort),
            4 => Some(ApplicationSelector::AnyPort),
            5 => Some(ApplicationSelector::Dscp),
            _ => None,
        }
    }
}

impl fmt::Display for ApplicationSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ApplicationSelector::EtherType => "ethertype",
            ApplicationSelector::TcpPort => "TCP or SCTP port",
            ApplicationSelector::UdpPort => "UDP or DCCP port",
            ApplicationSelector::AnyPort => "TCP, SCTP, UDP or DCCP port",
            ApplicationSelector::Dscp => "DSCP",
        })
    }
}

/// The priority of the frames of an application. A pair of selector and protocol has at most one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationEntry {
    /// Priority of the frames, 0 to 7.
    pub priority: u8,
    /// Meaning of `protocol`.
    pub selector: ApplicationSelector,
    /// Ethertype, port number or DSCP.
    pub protocol: u16,
}

/// Reads the entries of the TLV. Entries with a reserved selector are ignored.
pub(super) fn parse(
    information: &[u8],
    warnings: &mut Vec<TlvProblem>,
) -> Result<Vec<ApplicationEntry>, TlvProblem> {
    let length = information.len() + 4;
    let Some((&reserved, table)) = information.split_first() else {
        return Err(APPLICATION.problem("length in bytes", length, "at least 5"));
    };
    if !table.len().is_multiple_of(ENTRY_LEN) {
        return Err(APPLICATION.problem("length in bytes", length, "5 + 3 n"));
    }
    let mut found = Vec::new();
    if reserved != 0 {
        found.push(APPLICATION.problem("value of the reserved byte", usize::from(reserved), "0"));
    }
    let mut entries: Vec<ApplicationEntry> = Vec::with_capacity(table.len() / ENTRY_LEN);
    for (index, bytes) in table.chunks_exact(ENTRY_LEN).enumerate() {
        let number = bytes[0] & 0x07;
        if bytes[0] & 0x18 != 0 {
            let value = usize::from(bytes[0] & 0x18) >> 3;
            found.push(APPLICATION.problem_at("reserved bits of entry", index, value, "0"));
        }
        let Some(selector) = ApplicationSelector::from_number(number) else {
            found.push(APPLICATION.problem_at("selector of entry", index, usize::from(number), "1 to 5"));
            continue;
        };
        let entry = ApplicationEntry {
            priority: bytes[0] >> 5,
            selector,
            protocol: u16::from_be_bytes([bytes[1], bytes[2]]),
        };
        if entries.contains(&entry) {
            let expected = "one entry for each application";
            found.push(APPLICATION.problem_at(
                "repeated entry",
                index,
                usize::from(entry.protocol),
                expected,
            ));
        } else {
            entries.push(entry);
        }
    }
    check(&entries)?;
    warnings.append(&mut found);
    Ok(entries)
}

pub(super) fn check(entries: &[ApplicationEntry]) -> Result<(), TlvProblem> {
    if entries.len() > ENTRIES_MAX {
        return Err(APPLICATION.problem("number of entries", entries.len(), "at most 168"));
    }
    for (index, entry) in entries.iter().enumerate() {
        let protocol = usize::from(entry.protocol);
        if entry.priority > 7 {
            let priority = usize::from(entry.priority);
            return Err(APPLICATION.problem_at("priority of entry", index, priority, "0 to 7"));
        }
        if entry.selector == ApplicationSelector::Dscp && protocol > 63 {
            return Err(APPLICATION.problem_at("DSCP of entry", index, protocol, "0 to 63"));
        }
        let key = (entry.selector, entry.protocol);
        let is_repeated = entries[..index]
            .iter()
            .any(|other| (other.selector, other.protocol) == key);
        if is_repeated {
            let expected = "in one entry, but an earlier entry has the same selector and protocol";
            return Err(APPLICATION.problem_at("protocol of entry", index, protocol, expected));
        }
    }
    Ok(())
}

/// Returns the value of the TLV after OUI and subtype.
pub(super) fn to_bytes(entries: &[ApplicationEntry]) -> Vec<u8> {
    let mut bytes = vec![0];
    for entry in entries {
        bytes.push(entry.priority << 5 | entry.selector.number());
        bytes.extend_from_slice(&entry.protocol.to_be_bytes());
    }
    bytes
}
