//! A flow table in which flows never share an entry. If no entry is free, a new flow gets no entry.

use super::FlowTableUse;
use super::flow_table::{
    EMPTY, ENTRIES_MAX, ENTRIES_MIN, FlowState, LOST, REMOVED, decode_flow_state, renumber_member_bits,
};
use xoff_units::Picos;

/// Number of entries in a set. One set fills one cache line. Each flow may use either of two sets. A new flow
/// therefore finds a free entry until the table is nearly full.
const SET_ENTRIES: usize = 8;

/// The time of the last use is a 16-bit number in units of 2^30 ps (1.07 ms). The number wraps around after
/// 70 s.
const LAST_USE_SHIFT: u32 = 30;

/// Idle time of a flow after which a new flow may take over its entry. The value is 1 s, in units of 1.07 ms.
const EVICT_AFTER: u16 = 931;

/// Flow table with the flow hash as its key. Flows with equal hashes share an entry.
#[derive(Debug)]
pub(super) struct ExactFlowTable {
    /// Each entry contains the flow hash (32 bits), the time of the last use (16 bits) and the
    /// member (16 bits).
    entries: Box<[u64]>,
    /// Mask of the number of a set.
    sets: u32,
    in_use: u32,
}

/// Index of the entry that a flow has or may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryIndex(usize);

impl ExactFlowTable {
    /// Creates an empty table. `entries` is rounded up to a power of two from 256 to 32768.
    pub(super) fn new(entries: u32) -> ExactFlowTable {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        ExactFlowTable {
            entries: vec![u64::from(EMPTY); entries as usize].into_boxed_slice(),
            sets: entries / SET_ENTRIES as u32 - 1,
            in_use: 0,
        }
    }

    /// Returns the entry and the state of the flow with this hash. The entry is free if the flow is new.
    /// Returns `None` if the flow has no entry and no entry is free.
    #[inline]
    pub(super) fn look_up(&self, hash: u32, now: Picos) -> Option<(EntryIndex, FlowState)> {
        let [first, second] = self.first_entries_of_sets(hash);
        let at = self
            .find_in_set(first, hash)
            .or_else(|| self.find_in_set(second, hash));
        match at {
            Some(at) => Some((
                EntryIndex(at),
                decode_flow_state(self.entries[at] as u16, || Picos::ZERO),
            )),
            None => self
                .find_free_entry(hash, [first, second], now)
                .map(|at| (EntryIndex(at), FlowState::New)),
        }
    }

    /// Stores that the flow with this hash is on `member`.
    #[inline]
    pub(super) fn store(&mut self, entry_index: EntryIndex, hash: u32, now: Picos, member: u16) {
        let entry = &mut self.entries[entry_index.0];
        self.in_use += u32::from(*entry as u16 == EMPTY);
        *entry = u64::from(hash) << 32 | u64::from(coarse_time(now)) << 16 | u64::from(member & !LOST);
    }

    /// Applies new member indices. Flows on members for which `usable` is false are marked as lost.
    pub(super) fn renumber_members(&mut self, renumbered: &[Option<u16>], usable: impl Fn(u16) -> bool) {
        for entry in &mut self.entries {
            let old = *entry as u16;
            if old != EMPTY && old != REMOVED {
                *entry =
                    *entry & !u64::from(u16::MAX) | u64::from(renumber_member_bits(old, renumbered, &usable));
            }
        }
    }

    /// Returns the size and use of the table.
    pub(super) fn usage(&self) -> FlowTableUse {
        FlowTableUse {
            flows: self.in_use,
            flows_max: self.entries.len() as u32,
            overflow_packets: 0,
        }
    }

    /// Returns the positions of the first entries of a flow's two sets.
    #[inline]
    fn first_entries_of_sets(&self, hash: u32) -> [usize; 2] {
        let other = hash.wrapping_mul(0x9e37_79b9) >> 15;
        [hash & self.sets, other & self.sets].map(|set| set as usize * SET_ENTRIES)
    }

    /// Finds the entry of a flow in a set. The search starts at a position that the hash selects. Most flows
    /// are stored at this position. A look-up therefore takes the same time for flows that were added early
    /// or late.
    #[inline]
    fn find_in_set(&self, set: usize, hash: u32) -> Option<usize> {
        entry_order_in_set(set, hash).find(|&at| {
            let entry = self.entries[at];
            (entry >> 32) as u32 == hash && entry as u16 != EMPTY
        })
    }

    /// Finds a free entry. The first choice is an empty entry in the set with more empty entries. The second
    /// choice is the entry of a flow that was idle for long enough.
    #[cold]
    fn find_free_entry(&self, hash: u32, [first, second]: [usize; 2], now: Picos) -> Option<usize> {
        let empty = |set: usize| entry_order_in_set(set, hash).filter(|&at| self.entries[at] as u16 == EMPTY);
        let emptier = match empty(second).count() > empty(first).count() {
            true => second,
            false => first,
        };
        let silent = |entry: u64| coarse_time(now).wrapping_sub((entry >> 16) as u16);
        let mut both = entry_order_in_set(first, hash).chain(entry_order_in_set(second, hash));
        empty(emptier)
            .next()
            .or_else(|| both.find(|&at| silent(self.entries[at]) >= EVICT_AFTER))
    }
}

/// Returns the entries of a set, in the order of the search for a flow.
#[inline]
fn entry_order_in_set(set: usize, hash: u32) -> impl Iterator<Item = usize> {
    (0..SET_ENTRIES).map(move |step| set + ((hash >> 29) as usize + step) % SET_ENTRIES)
}

#[inline]
fn coarse_time(now: Picos) -> u16 {
    (now.0 >> LAST_USE_SHIFT) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(flow: u32) -> u32 {
        (flow + 1)
            .wrapping_mul(0x85eb_ca6b)
            .rotate_left(13)
            .wrapping_mul(0xc2b2_ae35)
    }

    /// Inserts this number of flows. Returns the table and the number of flows that received an entry.
    fn fill_table(flows: u32) -> (ExactFlowTable, u32) {
        let mut table = ExactFlowTable::new(256);
        let mut placed = 0;
        for flow in 0..flows {
            if let Some((entry_index, known)) = table.look_up(hash(flow), Picos::ZERO) {
                assert_eq!(known, FlowState::New);
                table.store(entry_index, hash(flow), Picos::ZERO, 3);
                placed += 1;
            }
        }
        assert_eq!(table.usage().flows, placed);
        (table, placed)
    }

    #[test]
    fn flows_find_entries_until_the_table_is_nearly_full() {
        assert_eq!(fill_table(200).1, 200);
        assert!(fill_table(256).1 >= 240, "{}", fill_table(256).1);
        assert_eq!(fill_table(2_000).1, 256);
    }

    #[test]
    fn an_idle_flow_keeps_its_entry_until_another_flow_needs_it() {
        let (mut table, _) = fill_table(2_000);
        let (soon, late) = (Picos::from_millis(900), Picos::from_millis(60_000));
        let (_, known) = table.look_up(hash(0), late).expect("the flow has an entry");
        assert_eq!(known, FlowState::On(3, Picos::ZERO));
        assert!((2_000..3_000).all(|flow| table.look_up(hash(flow), soon).is_none()));
        let (entry_index, known) = table.look_up(hash(2_000), late).expect("a silent one makes room");
        assert_eq!(known, FlowState::New);
        table.store(entry_index, hash(2_000), late, 1);
        assert_eq!(table.usage().flows, 256);
    }

    #[test]
    fn flows_of_lost_members_are_marked_as_lost() {
        let mut table = ExactFlowTable::new(256);
        let (entry_index, _) = table.look_up(7, Picos::ZERO).expect("room");
        table.store(entry_index, 7, Picos::ZERO, 1);
        table.renumber_members(&[Some(0), Some(2)], |member| member != 2);
        assert_eq!(
            table.look_up(7, Picos::ZERO).map(|found| found.1),
            Some(FlowState::Lost(Some(2)))
        );
        table.renumber_members(&[Some(0), Some(1), None], |_| true);
        assert_eq!(
            table.look_up(7, Picos::ZERO).map(|found| found.1),
            Some(FlowState::Lost(None))
        );
    }
}
