//! Places that flows keep: a table in which every flow has an entry of its own, or none.

use super::TableUse;
use super::flowset::{EMPTY, ENTRIES_MAX, ENTRIES_MIN, GONE, Known, LOST, known, renumber};
use xoff_units::Picos;

/// Entries of a set: a cache line of them. A flow may be in either of two sets, so that the table is nearly full before one finds no
/// place.
const WAYS: usize = 8;

/// When an entry was last looked up is kept in units of 2^30 ps (1.07 ms) in 16 bits, which last for 70 s.
const SEEN_SHIFT: u32 = 30;

/// A flow that has been silent for this long (1 s) gives its place to one that needs it.
const FORGOTTEN_AFTER: u16 = 931;

/// Flows by their hashes: those with the same one are the same.
#[derive(Debug)]
pub(super) struct Places {
    /// Hash, when it was seen, and member of each: 32, 16 and 16 bits.
    entries: Box<[u64]>,
    /// Mask of a set's number.
    sets: u32,
    in_use: u32,
}

/// An entry that a flow has or may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Places {
    /// Empty, with so many entries, brought to a power of two between 256 and 32 768.
    pub(super) fn new(entries: u32) -> Places {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        Places {
            entries: vec![u64::from(EMPTY); entries as usize].into_boxed_slice(),
            sets: entries / WAYS as u32 - 1,
            in_use: 0,
        }
    }

    /// What is known of the flow with a hash, and its place; `None`: it has none and there is none for it.
    #[inline]
    pub(super) fn look(&self, hash: u32, now: Picos) -> Option<(Place, Known)> {
        let [first, second] = self.sets_of(hash);
        let at = self.find(first, hash).or_else(|| self.find(second, hash));
        match at {
            Some(at) => Some((Place(at), known(self.entries[at] as u16, || Picos::ZERO))),
            None => self
                .room(hash, [first, second], now)
                .map(|at| (Place(at), Known::New)),
        }
    }

    /// The flow with a hash has this place, and is on `member` now.
    #[inline]
    pub(super) fn enter(&mut self, place: Place, hash: u32, now: Picos, member: u16) {
        let entry = &mut self.entries[place.0];
        self.in_use += u32::from(*entry as u16 == EMPTY);
        *entry = u64::from(hash) << 32 | u64::from(seen(now)) << 16 | u64::from(member & !LOST);
    }

    /// Follows new numbers of members; flows on those that are not `usable` have lost them.
    pub(super) fn renumber(&mut self, renumbered: &[Option<u16>], usable: impl Fn(u16) -> bool) {
        for entry in &mut self.entries {
            let old = *entry as u16;
            if old != EMPTY && old != GONE {
                *entry = *entry & !u64::from(u16::MAX) | u64::from(renumber(old, renumbered, &usable));
            }
        }
    }

    /// How full it is.
    pub(super) fn in_use(&self) -> TableUse {
        TableUse {
            flows: self.in_use,
            flows_max: self.entries.len() as u32,
            overflow_packets: 0,
        }
    }

    /// The first entry of each of a flow's two sets.
    #[inline]
    fn sets_of(&self, hash: u32) -> [usize; 2] {
        let other = hash.wrapping_mul(0x9e37_79b9) >> 15;
        [hash & self.sets, other & self.sets].map(|set| set as usize * WAYS)
    }

    /// The entry of a flow in a set. Most are where the search begins, so that a look-up does not hang on where a flow found room.
    #[inline]
    fn find(&self, set: usize, hash: u32) -> Option<usize> {
        ways(set, hash).find(|&at| {
            let entry = self.entries[at];
            (entry >> 32) as u32 == hash && entry as u16 != EMPTY
        })
    }

    /// An empty entry of two sets, in that with more of them, or one whose flow has been silent for long.
    #[cold]
    fn room(&self, hash: u32, [first, second]: [usize; 2], now: Picos) -> Option<usize> {
        let empty = |set: usize| ways(set, hash).filter(|&at| self.entries[at] as u16 == EMPTY);
        let emptier = match empty(second).count() > empty(first).count() {
            true => second,
            false => first,
        };
        let silent = |entry: u64| seen(now).wrapping_sub((entry >> 16) as u16);
        let mut both = ways(first, hash).chain(ways(second, hash));
        empty(emptier)
            .next()
            .or_else(|| both.find(|&at| silent(self.entries[at]) >= FORGOTTEN_AFTER))
    }
}

/// The entries of a set in the order in which those of a flow are tried.
#[inline]
fn ways(set: usize, hash: u32) -> impl Iterator<Item = usize> {
    (0..WAYS).map(move |step| set + ((hash >> 29) as usize + step) % WAYS)
}

#[inline]
fn seen(now: Picos) -> u16 {
    (now.0 >> SEEN_SHIFT) as u16
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

    /// So many flows one after the other; how many found a place.
    fn filled(flows: u32) -> (Places, u32) {
        let mut places = Places::new(256);
        let mut placed = 0;
        for flow in 0..flows {
            if let Some((place, known)) = places.look(hash(flow), Picos::ZERO) {
                assert_eq!(known, Known::New);
                places.enter(place, hash(flow), Picos::ZERO, 3);
                placed += 1;
            }
        }
        assert_eq!(places.in_use().flows, placed);
        (places, placed)
    }

    #[test]
    fn nearly_all_entries_are_used_before_a_flow_finds_none() {
        assert_eq!(filled(200).1, 200);
        assert!(filled(256).1 >= 240, "{}", filled(256).1);
        assert_eq!(filled(2_000).1, 256);
    }

    #[test]
    fn a_place_is_kept_until_another_needs_it_and_it_was_silent_for_a_second() {
        let (mut places, _) = filled(2_000);
        let (soon, late) = (Picos::from_millis(900), Picos::from_millis(60_000));
        let (_, known) = places.look(hash(0), late).expect("it has a place");
        assert_eq!(known, Known::On(3, Picos::ZERO));
        assert!((2_000..3_000).all(|flow| places.look(hash(flow), soon).is_none()));
        let (place, known) = places.look(hash(2_000), late).expect("a silent one makes room");
        assert_eq!(known, Known::New);
        places.enter(place, hash(2_000), late, 1);
        assert_eq!(places.in_use().flows, 256);
    }

    #[test]
    fn flows_of_lost_members_say_so() {
        let mut places = Places::new(256);
        let (place, _) = places.look(7, Picos::ZERO).expect("room");
        places.enter(place, 7, Picos::ZERO, 1);
        places.renumber(&[Some(0), Some(2)], |member| member != 2);
        assert_eq!(
            places.look(7, Picos::ZERO).map(|found| found.1),
            Some(Known::Lost(Some(2)))
        );
        places.renumber(&[Some(0), Some(1), None], |_| true);
        assert_eq!(
            places.look(7, Picos::ZERO).map(|found| found.1),
            Some(Known::Lost(None))
        );
    }
}
