//! Counts how often MAC addresses move between ports, and detects addresses that move too often.
//!
//! An address that moves many times a second usually means a loop, or two stations with one address. The code
//! of this file runs only for a frame whose address was last seen at another port.

use xoff_units::Picos;

use super::MacAddress;

/// Largest number of moves of an address in [`COUNTING_PERIOD`] that is not reported.
const MOVES_MAX: u32 = 100;
/// Time in which the moves of an address are counted. The period starts with a move.
const COUNTING_PERIOD: Picos = Picos::from_millis(1_000);
/// Number of addresses whose moves are counted at the same time. While all places of the table are in use,
/// the moves of further addresses are not counted.
const ADDRESSES_MAX: usize = 64;
/// Largest number of addresses that a switch reports.
const REPORTS_MAX: u32 = 64;

/// The moves of one address in the present period.
#[derive(Clone, Copy, Debug)]
struct MoveCount {
    /// VLAN and address. 0 if the place is free.
    key: u64,
    period_start: Picos,
    moves: u32,
    is_reported: bool,
}

/// The moves of some addresses. The place of an address in the table depends only on the address, so a move
/// costs the same for every number of addresses.
#[derive(Debug)]
pub(super) struct MacMoves {
    counts: [MoveCount; ADDRESSES_MAX],
    reports: u32,
}

impl MacMoves {
    pub(super) fn new() -> MacMoves {
        let free = MoveCount {
            key: 0,
            period_start: Picos::ZERO,
            moves: 0,
            is_reported: false,
        };
        MacMoves {
            counts: [free; ADDRESSES_MAX],
            reports: 0,
        }
    }

    /// Counts a move of the address in `key`, which contains a VLAN and an address. `hash` is the hash
    /// of the key. Returns true if the address has now moved more than 100 times within a second for the first
    /// time.
    #[cold]
    pub(super) fn record_move(&mut self, now: Picos, key: u64, hash: u64) -> bool {
        let count = &mut self.counts[hash as usize % ADDRESSES_MAX];
        let is_over = now.since(count.period_start) >= COUNTING_PERIOD;
        if count.key != key {
            // The place belongs to an address that still moves.
            if count.key != 0 && !is_over {
                return false;
            }
            count.key = key;
            count.is_reported = false;
            count.moves = 0;
        }
        if count.moves == 0 || is_over {
            count.period_start = now;
            count.moves = 0;
        }
        count.moves += 1;
        if count.moves <= MOVES_MAX || count.is_reported || self.reports >= REPORTS_MAX {
            return false;
        }
        count.is_reported = true;
        self.reports += 1;
        true
    }
}

/// An address that moves between ports too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrequentMove {
    pub(crate) address: MacAddress,
    pub(crate) vlan: u16,
    /// The port or LAG at which the address was seen before.
    pub(crate) from: crate::ids::LogicalPort,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 10 << 48 | 0x0200_0000_0001;

    /// Returns a hash that spreads consecutive keys over all places of the table.
    fn hash_key(key: u64) -> u64 {
        key
    }

    /// Returns the numbers of the moves that are reported. `gap` is the time between two moves.
    fn reported_moves(moves: u32, gap: Picos) -> Vec<u32> {
        let mut table = MacMoves::new();
        let time = |n: u32| Picos(u64::from(n) * gap.0);
        (1..=moves)
            .filter(|n| table.record_move(time(*n), KEY, hash_key(KEY)))
            .collect()
    }

    #[test]
    fn an_address_is_reported_once_above_100_moves_a_second() {
        assert_eq!(reported_moves(1_000, Picos::from_micros(9_900)), [101]);
        assert_eq!(reported_moves(1_000, Picos::from_millis(10)), []);
        assert_eq!(reported_moves(100_000, Picos::from_micros(1)), [101]);
    }

    #[test]
    fn many_moving_addresses_need_no_more_memory_and_are_limited() {
        let mut table = MacMoves::new();
        let mut reports = 0;
        for n in 0..1_000_000_u64 {
            reports +=
                u32::from(table.record_move(Picos::from_micros(n), 1 + n % 1_000, hash_key(1 + n % 1_000)));
        }
        assert!((1..=REPORTS_MAX).contains(&reports), "{reports}");
    }

    #[test]
    fn a_free_place_is_used_by_the_next_address() {
        let mut table = MacMoves::new();
        let collides =
            |key: &u64| hash_key(*key) as usize % ADDRESSES_MAX == hash_key(KEY) as usize % ADDRESSES_MAX;
        let other = (1..).find(|key| *key != KEY && collides(key)).expect("one of 64");
        assert!(!table.record_move(Picos::ZERO, KEY, hash_key(KEY)));
        // The place is in use for one second after the first move of its address.
        let busy = (0..200)
            .filter(|_| table.record_move(Picos::from_millis(500), other, hash_key(other)))
            .count();
        assert_eq!(busy, 0);
        let free = (0..200)
            .filter(|_| table.record_move(Picos::from_millis(1_000), other, hash_key(other)))
            .count();
        assert_eq!(free, 1);
    }
}
