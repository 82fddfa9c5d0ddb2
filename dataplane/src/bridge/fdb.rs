//! The forwarding database (FDB): learnt MAC addresses, and the ports behind which the stations are.

use core::hash::Hasher;

use hashbrown::HashTable;

use super::MacAddress;
use super::mac_moves::{FrequentMove, MacMoves};
use crate::ids::LogicalPort;
use xoff_units::Picos;

/// A hasher for 64-bit keys that gives the same result on every machine and in every run.
#[derive(Default)]
pub(crate) struct DeterministicHasher(u64);

impl Hasher for DeterministicHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        // A folded multiplication, as in wyhash: one instruction, and every input bit affects every output
        // bit. The constants are digits of the golden ratio and of pi. They are odd and have about as many
        // ones as zeros.
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xa409_3822_299f_31d1_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Port and time of the latest frame from an address.
#[derive(Clone, Copy, Debug)]
struct FdbEntry {
    /// VLAN and address, see [`fdb_key`].
    key: u64,
    port: LogicalPort,
    seen_at: Picos,
}

/// Table of the MAC addresses that were learnt in each VLAN. If an entry is older than the ageing time, its
/// address is treated as unknown. Such an entry is removed when the table is full.
#[derive(Debug)]
pub struct Fdb {
    /// A table of entries, not a map: the compiler does not inline the lookup of a map with several callers.
    entries: HashTable<FdbEntry>,
    entries_max: usize,
    ageing: Picos,
    /// Earliest time of the next removal of old entries.
    next_sweep: Picos,
    moves: MacMoves,
}

impl Fdb {
    /// Creates an empty table for at most `entries_max` addresses. An entry expires when no frame from its
    /// address has arrived for the time `ageing`.
    ///
    /// The table reserves its memory with the first address, or by [`Fdb::reserve`].
    pub fn new(entries_max: usize, ageing: Picos) -> Fdb {
        Fdb {
            entries: HashTable::new(),
            entries_max,
            ageing,
            next_sweep: Picos::ZERO,
            moves: MacMoves::new(),
        }
    }

    /// Reserves the memory of all entries, so that no later call allocates.
    pub fn reserve(&mut self) {
        if self.entries.capacity() == 0 {
            // Twice the capacity, so that slots of removed entries are reclaimed without a reallocation.
            let entries = 2 * self.entries_max;
            self.entries.reserve(entries, |entry| hash_key(entry.key));
        }
    }

    /// Sets the ageing time.
    pub(crate) fn set_ageing(&mut self, ageing: Picos) {
        self.ageing = ageing;
    }

    /// Stores that `mac` is behind `port` in a VLAN. If the table is full, no new address is learnt. Moves of
    /// the address are not counted.
    pub fn learn(&mut self, now: Picos, vlan: u16, mac: MacAddress, port: LogicalPort) {
        if !self.learn_unless_moved(now, vlan, mac, port) {
            self.move_entry(now, fdb_key(vlan, mac), port);
        }
    }

    /// Stores that `mac` is behind `port` in a VLAN, like [`Fdb::learn`]. Returns false, and changes nothing,
    /// if the table contains the address at another port.
    #[inline]
    pub fn learn_unless_moved(&mut self, now: Picos, vlan: u16, mac: MacAddress, port: LogicalPort) -> bool {
        let key = fdb_key(vlan, mac);
        if let Some(entry) = self.entries.find_mut(hash_key(key), |entry| entry.key == key) {
            if entry.port != port {
                return false;
            }
            entry.seen_at = now;
            return true;
        }
        self.insert(
            now,
            FdbEntry {
                key,
                port,
                seen_at: now,
            },
        );
        true
    }

    /// Stores that `mac` is behind `port` in a VLAN, like [`Fdb::learn`], and counts a move. Returns a value
    /// once for each address that moves too often.
    #[inline]
    pub(crate) fn learn_and_count_moves(
        &mut self,
        now: Picos,
        vlan: u16,
        mac: MacAddress,
        port: LogicalPort,
    ) -> Option<FrequentMove> {
        match self.learn_unless_moved(now, vlan, mac, port) {
            true => None,
            false => self.count_move(now, vlan, mac, port),
        }
    }

    #[cold]
    fn count_move(
        &mut self,
        now: Picos,
        vlan: u16,
        mac: MacAddress,
        port: LogicalPort,
    ) -> Option<FrequentMove> {
        let key = fdb_key(vlan, mac);
        let previous = self.move_entry(now, key, port)?;
        // The switch had forgotten an address whose entry is too old.
        let is_move = now.since(previous.seen_at) < self.ageing;
        (is_move && self.moves.record_move(now, key, hash_key(key))).then_some(FrequentMove {
            address: mac,
            vlan,
            from: previous.port,
        })
    }

    /// Moves an entry to another port. Returns the previous entry, or `None` if no entry exists.
    #[cold]
    fn move_entry(&mut self, now: Picos, key: u64, port: LogicalPort) -> Option<FdbEntry> {
        let entry = self.entries.find_mut(hash_key(key), |entry| entry.key == key)?;
        let previous = *entry;
        entry.port = port;
        entry.seen_at = now;
        Some(previous)
    }

    #[cold]
    fn insert(&mut self, now: Picos, learnt: FdbEntry) {
        if self.entries.len() >= self.entries_max {
            if now < self.next_sweep {
                return;
            }
            self.remove_aged_entries(now);
        }
        if self.entries.len() < self.entries_max {
            self.reserve();
            self.entries
                .insert_unique(hash_key(learnt.key), learnt, |entry| hash_key(entry.key));
        }
    }

    /// Returns the port or LAG of `mac` in a VLAN. Returns `None` if the address is not known or its entry is
    /// too old.
    #[inline]
    pub fn lookup(&self, now: Picos, vlan: u16, mac: MacAddress) -> Option<LogicalPort> {
        let key = fdb_key(vlan, mac);
        let entry = self.entries.find(hash_key(key), |entry| entry.key == key)?;
        (now.since(entry.seen_at) < self.ageing).then_some(entry.port)
    }

    /// Removes all entries of a port or LAG that went down.
    pub(crate) fn flush_port(&mut self, port: LogicalPort) {
        self.entries.retain(|entry| entry.port != port);
    }

    /// Removes all entries after a change of the VLANs.
    pub(crate) fn flush_all(&mut self) {
        self.entries.clear();
    }

    /// Returns the valid entries as (VLAN, address, port, age), sorted.
    pub(crate) fn entries(&self, now: Picos) -> Vec<(u16, [u8; 6], LogicalPort, Picos)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| now.since(entry.seen_at) < self.ageing)
            .map(|entry| {
                (
                    (entry.key >> 48) as u16,
                    MacAddress(entry.key & MacAddress::BITS).to_bytes(),
                    entry.port,
                    now.since(entry.seen_at),
                )
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// Removes all entries that are too old.
    fn remove_aged_entries(&mut self, now: Picos) {
        let ageing = self.ageing;
        self.entries.retain(|entry| now.since(entry.seen_at) < ageing);
        self.next_sweep = now.saturating_add(Picos(ageing.0 / 16));
    }
}

/// Returns the key of an address in a VLAN.
fn fdb_key(vlan: u16, mac: MacAddress) -> u64 {
    u64::from(vlan) << 48 | mac.0
}

/// Returns the hash of a key.
#[inline(always)]
fn hash_key(key: u64) -> u64 {
    let mut hasher = DeterministicHasher::default();
    hasher.write_u64(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress(0x0200_0000_0001);
    const OTHER: MacAddress = MacAddress(0x0404_0404_0404);

    #[test]
    fn addresses_are_learnt_move_and_age() {
        let mut fdb = Fdb::new(4, Picos::from_millis(100));
        assert_eq!(fdb.lookup(Picos::ZERO, 0, MAC), None);
        fdb.learn(Picos::ZERO, 0, MAC, LogicalPort(1));
        fdb.learn(Picos::from_millis(50), 0, MAC, LogicalPort(2));
        assert_eq!(fdb.lookup(Picos::from_millis(149), 0, MAC), Some(LogicalPort(2)));
        assert_eq!(fdb.lookup(Picos::from_millis(150), 0, MAC), None);
        assert_eq!(fdb.lookup(Picos::from_millis(149), 7, MAC), None);
    }

    #[test]
    fn a_full_table_removes_only_aged_entries() {
        let mut fdb = Fdb::new(1, Picos::from_millis(100));
        fdb.learn(Picos::ZERO, 0, MAC, LogicalPort(1));
        fdb.learn(Picos::from_millis(50), 0, OTHER, LogicalPort(2));
        assert_eq!(fdb.lookup(Picos::from_millis(50), 0, OTHER), None);
        fdb.learn(Picos::from_millis(200), 0, OTHER, LogicalPort(2));
        assert_eq!(
            fdb.lookup(Picos::from_millis(200), 0, OTHER),
            Some(LogicalPort(2))
        );
    }
}
