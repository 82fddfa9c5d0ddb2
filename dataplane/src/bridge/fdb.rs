//! The forwarding database: learnt addresses and the ports behind them.

use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use super::Mac;
use crate::ids::LogicalPort;
use xoff_units::Picos;

/// Hashes a 64-bit key the same way on every machine and in every run.
#[derive(Default)]
pub(crate) struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        // A folded multiplication (as wyhash does): one instruction, and every input bit reaches every output bit.
        // The constants are digits of the golden ratio and of pi: odd, and as many ones as zeros.
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xa409_3822_299f_31d1_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    port: LogicalPort,
    seen_at: Picos,
}

/// Addresses learnt per VLAN. An entry past its age counts as unknown; it is removed when room is needed.
#[derive(Debug)]
pub struct Fdb {
    entries: HashMap<u64, Learnt, BuildHasherDefault<FixedHasher>>,
    entries_max: usize,
    ageing: Picos,
    /// A full table is swept at most once per this time.
    next_sweep: Picos,
}

impl Fdb {
    /// An empty one for so many addresses; an entry counts for less than `ageing` after its address was last seen.
    pub fn new(entries_max: usize, ageing: Picos) -> Fdb {
        // Twice the room: places of removed entries are then cleaned up in place, never by growing.
        let entries = HashMap::with_capacity_and_hasher(2 * entries_max, BuildHasherDefault::default());
        Fdb {
            entries,
            entries_max,
            ageing,
            next_sweep: Picos::ZERO,
        }
    }

    pub(crate) fn set_ageing(&mut self, ageing: Picos) {
        self.ageing = ageing;
    }

    /// Notes that `mac` was seen behind `port`; a full table learns nothing.
    #[inline]
    pub fn learn(&mut self, now: Picos, vlan: u16, mac: Mac, port: LogicalPort) {
        let key = key(vlan, mac);
        let learnt = Learnt { port, seen_at: now };
        if let Some(entry) = self.entries.get_mut(&key) {
            *entry = learnt;
            return;
        }
        self.insert(now, key, learnt);
    }

    #[cold]
    fn insert(&mut self, now: Picos, key: u64, learnt: Learnt) {
        if self.entries.len() >= self.entries_max {
            if now < self.next_sweep {
                return;
            }
            self.sweep(now);
        }
        if self.entries.len() < self.entries_max {
            self.entries.insert(key, learnt);
        }
    }

    /// The port behind `mac`, if it was seen recently enough.
    #[inline]
    pub fn lookup(&self, now: Picos, vlan: u16, mac: Mac) -> Option<LogicalPort> {
        let entry = self.entries.get(&key(vlan, mac))?;
        (now.since(entry.seen_at) < self.ageing).then_some(entry.port)
    }

    /// Forgets everything behind a port or LAG that went down.
    pub(crate) fn flush_port(&mut self, port: LogicalPort) {
        self.entries.retain(|_, entry| entry.port != port);
    }

    /// Forgets everything: VLANs have changed.
    pub(crate) fn flush(&mut self) {
        self.entries.clear();
    }

    /// Live entries as (VLAN, address, port, age), sorted.
    pub(crate) fn entries(&self, now: Picos) -> Vec<(u16, [u8; 6], LogicalPort, Picos)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, e)| now.since(e.seen_at) < self.ageing)
            .map(|(key, e)| {
                (
                    (key >> 48) as u16,
                    Mac(*key & Mac::BITS).octets(),
                    e.port,
                    now.since(e.seen_at),
                )
            })
            .collect();
        all.sort_unstable();
        all
    }

    fn sweep(&mut self, now: Picos) {
        let ageing = self.ageing;
        self.entries.retain(|_, entry| now.since(entry.seen_at) < ageing);
        self.next_sweep = now.saturating_add(Picos(ageing.0 / 16));
    }
}

fn key(vlan: u16, mac: Mac) -> u64 {
    u64::from(vlan) << 48 | mac.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac(0x0200_0000_0001);
    const OTHER: Mac = Mac(0x0404_0404_0404);

    #[test]
    fn learns_moves_and_ages() {
        let mut fdb = Fdb::new(4, Picos::from_millis(100));
        assert_eq!(fdb.lookup(Picos::ZERO, 0, MAC), None);
        fdb.learn(Picos::ZERO, 0, MAC, LogicalPort(1));
        fdb.learn(Picos::from_millis(50), 0, MAC, LogicalPort(2));
        assert_eq!(fdb.lookup(Picos::from_millis(149), 0, MAC), Some(LogicalPort(2)));
        assert_eq!(fdb.lookup(Picos::from_millis(150), 0, MAC), None);
        assert_eq!(fdb.lookup(Picos::from_millis(149), 7, MAC), None);
    }

    #[test]
    fn a_full_table_makes_room_only_by_age() {
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
