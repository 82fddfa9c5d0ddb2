//! The table of neighbours of a port.

use super::NEVER_NS;
use crate::dcbx::DcbxPort;
use crate::lldp::{Lldpdu, ReceivedLldpdu, TlvProblem};

/// Largest number of neighbours of a port. Frames of further neighbours are discarded.
pub const NEIGHBOURS_MAX: usize = 16;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A neighbour: a sender of LLDP frames, identified by its chassis ID and port ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpNeighbour {
    /// Number of the neighbour at its port, in the order of the first frames, from 1.
    pub number: u32,
    /// Source address of the latest frame.
    pub mac: [u8; 6],
    /// The valid TLVs of the latest frame.
    pub pdu: Lldpdu,
    /// Problems of the TLVs of the latest frame that were rejected.
    pub rejected: Vec<TlvProblem>,
    /// Values of the latest frame that the standard tells a receiver to ignore.
    pub warnings: Vec<TlvProblem>,
    /// Time of the first frame in nanoseconds.
    pub first_seen_ns: u64,
    /// Time at which the information expires in nanoseconds.
    pub expiry_ns: u64,
}

impl LldpNeighbour {
    fn is_sender_of(&self, pdu: &Lldpdu) -> bool {
        (&self.pdu.chassis_id, &self.pdu.port_id) == (&pdu.chassis_id, &pdu.port_id)
    }

    /// Passes the latest frame to a DCBX port, with the rest of its time to live.
    pub(super) fn announce_to(&self, now_ns: u64, port: &mut DcbxPort) {
        let rest_s = self.expiry_ns.saturating_sub(now_ns).div_ceil(NANOS_PER_SECOND);
        let mut pdu = self.pdu.clone();
        pdu.ttl_s = u16::try_from(rest_s).unwrap_or(u16::MAX);
        port.receive(
            now_ns,
            &ReceivedLldpdu {
                source: self.mac,
                pdu,
                rejected: Vec::new(),
                warnings: Vec::new(),
            },
        );
    }
}

/// The effect of a frame on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// The sender is a new neighbour.
    Added,
    /// The sender was known.
    Refreshed,
    /// The frame is a shutdown LLDPDU of a known neighbour.
    Removed,
    /// The frame is a shutdown LLDPDU of an unknown sender.
    Unknown,
    /// The table has no space for the sender.
    Full,
}

/// The neighbours of a port.
#[derive(Clone, Debug, Default)]
pub(super) struct NeighbourTable {
    entries: Vec<LldpNeighbour>,
    last_number: u32,
}

impl NeighbourTable {
    pub(super) fn entries(&self) -> &[LldpNeighbour] {
        &self.entries
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LldpNeighbour> {
        self.entries.iter()
    }

    /// Returns the problems of the latest frame of the same sender.
    pub(super) fn rejected_of(&self, pdu: &Lldpdu) -> &[TlvProblem] {
        let known = self.entries.iter().find(|known| known.is_sender_of(pdu));
        known.map_or(&[], |known| &known.rejected)
    }

    /// Stores the information of a frame.
    pub(super) fn update(&mut self, now_ns: u64, received: ReceivedLldpdu) -> Update {
        let position = self
            .entries
            .iter()
            .position(|known| known.is_sender_of(&received.pdu));
        if received.pdu.is_shutdown() {
            return match position {
                Some(position) => {
                    self.entries.remove(position);
                    Update::Removed
                }
                None => Update::Unknown,
            };
        }
        let expiry_ns = now_ns.saturating_add(u64::from(received.pdu.ttl_s) * NANOS_PER_SECOND);
        let ReceivedLldpdu {
            source: mac,
            pdu,
            rejected,
            warnings,
        } = received;
        match position {
            Some(position) => {
                let known = &mut self.entries[position];
                (known.mac, known.pdu, known.expiry_ns) = (mac, pdu, expiry_ns);
                (known.rejected, known.warnings) = (rejected, warnings);
                Update::Refreshed
            }
            None if self.entries.len() == NEIGHBOURS_MAX => Update::Full,
            None => {
                self.last_number += 1;
                self.entries.push(LldpNeighbour {
                    number: self.last_number,
                    mac,
                    pdu,
                    rejected,
                    warnings,
                    first_seen_ns: now_ns,
                    expiry_ns,
                });
                Update::Added
            }
        }
    }

    /// Removes all neighbours and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.entries).len()
    }

    /// Removes the neighbours whose time to live has expired, and returns their number.
    pub(super) fn remove_expired(&mut self, now_ns: u64) -> usize {
        let before = self.entries.len();
        self.entries.retain(|known| known.expiry_ns > now_ns);
        before - self.entries.len()
    }

    /// Returns the time of the next expiry, or [`NEVER_NS`].
    pub(super) fn next_expiry_ns(&self) -> u64 {
        self.entries
            .iter()
            .map(|known| known.expiry_ns)
            .min()
            .unwrap_or(NEVER_NS)
    }
}
