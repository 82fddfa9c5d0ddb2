//! A table from keys of flows to what is known of them: allocated once, and as compact as its flows are few.

/// Keys are hashes already; this spreads what is left of their structure (digits of the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Slots of a bucket: a cache line.
const BUCKET: usize = 16;

/// Flows for which a bucket is opened. So few because a bucket that has not been divided yet has up to twice the mean, and should hardly
/// ever be full.
const FLOWS_PER_BUCKET: usize = 4;

/// A slot has the number of a flow's entry, counted from 1, in so many bits, and part of its hash above them.
const ENTRY_BITS: u32 = 24;

/// No slot, no entry.
const NONE: u32 = 0;

/// A table of a fixed number of flows.
///
/// Linear hashing (Litwin 1980): buckets are opened one by one as flows come, each taking over its part of the one that it divides. What is known of flows lies
/// apart, in the order in which they came. So a thousand flows take a few pages of a table that has room for a million, nothing is allocated after the start, and no flow
/// waits while a table is built anew. A flow may be in either of two buckets; where both are full, as good as never, it finds no room.
///
/// An empty table is zeros and nothing but: the system gives memory for those parts of it that are in use.
#[derive(Clone, Debug)]
pub(super) struct FlowMap {
    slots: Vec<u32>,
    /// Buckets in use: those with the least numbers.
    buckets: u32,
    /// The power of two that is not less, less one.
    mask: u32,
    /// Key and value; key 0: free, and the first word of the value is the slot of the next free one.
    entries: Vec<[u64; 3]>,
    /// The free entry that is taken next; [`NONE`]: the first that was never taken.
    free: u32,
    /// Entries that were ever taken: those with the least numbers.
    touched: usize,
    flows: usize,
}

/// What is made of a key.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    #[inline]
    fn of(key: u64) -> Hash {
        Hash(key.wrapping_mul(SPREAD))
    }

    /// Where the bucket of first choice comes from, and that of second choice.
    #[inline]
    fn choices(self) -> [u32; 2] {
        [(self.0 >> 40) as u32, self.0 as u32 & 0xf_ffff]
    }

    /// The slot of a bucket that is tried first.
    #[inline]
    fn start(self) -> usize {
        (self.0 >> 20) as usize % BUCKET
    }

    /// The part that is kept in the slot: most flows that are not there are told by it.
    #[inline]
    fn tag(self) -> u32 {
        self.0 as u32 >> ENTRY_BITS
    }
}

impl FlowMap {
    /// A table for so many flows, less than 2^22.
    pub(super) fn new(flows_max: usize) -> FlowMap {
        let flows_max = flows_max.min((1 << 22) - 1);
        let buckets = flows_max.div_ceil(FLOWS_PER_BUCKET).max(1);
        FlowMap {
            slots: vec![NONE; buckets * BUCKET],
            buckets: 1,
            mask: 0,
            entries: vec![[0; 3]; flows_max],
            free: NONE,
            touched: 0,
            flows: 0,
        }
    }

    /// How many flows find room; places are numbered from 0 to one less.
    pub(super) fn flows_max(&self) -> usize {
        self.entries.len()
    }

    /// The first slot of the bucket that a hash leads to now.
    #[inline]
    fn bucket(&self, hash: u32) -> usize {
        let bucket = hash & self.mask;
        let opened = bucket < self.buckets;
        let bucket = if opened { bucket } else { bucket & (self.mask >> 1) };
        bucket as usize * BUCKET
    }

    /// The place of a flow. It stays the same until the flow is removed.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let (key, hash) = (key.max(1), Hash::of(key.max(1)));
        // Four out of five flows are in the slot that is tried first.
        let [first, _] = hash.choices();
        let slot = self.slots[self.bucket(first) + hash.start()];
        let place = place_of(slot);
        match self.entries.get(place) {
            Some([found, ..]) if *found == key => Some(place),
            _ => self.find_elsewhere(key, hash),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&self, key: u64, hash: Hash) -> Option<usize> {
        let here = |choice| self.find_in(self.bucket(choice), key, hash);
        let slot = hash.choices().into_iter().find_map(here)?;
        Some(place_of(self.slots[slot]))
    }

    /// The slot of a flow in a bucket.
    fn find_in(&self, bucket: usize, key: u64, hash: Hash) -> Option<usize> {
        let slots = &self.slots[bucket..bucket + BUCKET];
        for step in 0..BUCKET {
            let at = (hash.start() + step) % BUCKET;
            let slot = slots[at];
            if slot >> ENTRY_BITS == hash.tag() && slot != NONE && self.entries[place_of(slot)][0] == key {
                return Some(bucket + at);
            }
        }
        None
    }

    /// What is known of the flow at a place that [`FlowMap::find`] or [`FlowMap::insert`] named.
    #[inline]
    pub(super) fn get(&self, place: usize) -> [u64; 2] {
        let [_, first, second] = self.entries[place];
        [first, second]
    }

    /// This is known of it from now on.
    #[inline]
    pub(super) fn set(&mut self, place: usize, [first, second]: [u64; 2]) {
        let known = &mut self.entries[place];
        (known[1], known[2]) = (first, second);
    }

    /// The flow at any place, if there is one.
    #[inline]
    pub(super) fn look(&self, place: usize) -> Option<[u64; 2]> {
        let [key, first, second] = *self.entries.get(place)?;
        (key != 0).then_some([first, second])
    }

    /// Every flow with its key, in the order of places.
    pub(super) fn each(&self) -> impl Iterator<Item = (u64, [u64; 2])> + '_ {
        let taken = self.entries.iter().filter(|[key, ..]| *key != 0);
        taken.map(|&[key, first, second]| (key, [first, second]))
    }

    /// Enters a flow that is not known; `None`: the table is full.
    pub(super) fn insert(&mut self, key: u64, [first, second]: [u64; 2]) -> Option<usize> {
        if self.flows == self.flows_max() {
            return None;
        }
        let (key, hash) = (key.max(1), Hash::of(key.max(1)));
        let room = |choice| self.room_in(self.bucket(choice), hash);
        let slot = hash.choices().into_iter().find_map(room)?;
        let place = match self.free {
            NONE => {
                self.touched += 1;
                self.touched - 1
            }
            free => {
                let place = place_of(free);
                self.free = self.entries[place][1] as u32;
                place
            }
        };
        self.entries[place] = [key, first, second];
        self.slots[slot] = hash.tag() << ENTRY_BITS | (place as u32 + 1);
        self.flows += 1;
        if self.flows > self.buckets as usize * FLOWS_PER_BUCKET {
            self.divide();
        }
        Some(place)
    }

    /// A free slot of a bucket.
    fn room_in(&self, bucket: usize, hash: Hash) -> Option<usize> {
        let at = |step| bucket + (hash.start() + step) % BUCKET;
        (0..BUCKET).map(at).find(|slot| self.slots[*slot] == NONE)
    }

    /// Opens the next bucket, and gives it its part of the one that it divides.
    fn divide(&mut self) {
        let opened = self.buckets;
        self.buckets += 1;
        self.mask = self.buckets.next_power_of_two() - 1;
        let (from, to) = (
            (opened & (self.mask >> 1)) as usize * BUCKET,
            opened as usize * BUCKET,
        );
        for slot in from..from + BUCKET {
            let moving = self.slots[slot];
            if moving == NONE {
                continue;
            }
            let hash = Hash::of(self.entries[place_of(moving)][0]);
            let [first, second] = hash.choices().map(|choice| self.bucket(choice));
            let goes = if first == from {
                false
            } else {
                first == to || second == to
            };
            if goes && let Some(room) = self.room_in(to, hash) {
                self.slots[slot] = NONE;
                self.slots[room] = moving;
            }
        }
    }

    /// Forgets the flow at a place.
    pub(super) fn remove(&mut self, place: usize) {
        let key = self.entries[place][0];
        let hash = Hash::of(key);
        let here = |choice| self.find_in(self.bucket(choice), key, hash);
        if let Some(slot) = hash.choices().into_iter().find_map(here) {
            self.slots[slot] = NONE;
        }
        self.entries[place] = [0, u64::from(self.free), 0];
        self.free = place as u32 + 1;
        self.flows -= 1;
    }
}

/// The place that a slot names, which is not free.
#[inline]
fn place_of(slot: u32) -> usize {
    (slot & ((1 << ENTRY_BITS) - 1)).wrapping_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Against a map of the standard library: the same flows are there after any mixture of insertions and removals.
    #[test]
    fn it_is_a_map() {
        let mut map = FlowMap::new(100);
        let mut model = BTreeMap::new();
        let mut state = 7u64;
        for step in 0..20_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Few keys, so that many collide; 0 among them.
            let key = (state >> 33) % 150 * 0x1_0000_0001;
            match (map.find(key), model.contains_key(&key)) {
                (Some(place), true) if step % 3 == 0 => {
                    map.remove(place);
                    model.remove(&key);
                }
                (Some(place), true) => assert_eq!(map.get(place), [model[&key], key]),
                (None, false) => match map.insert(key, [step, key]) {
                    Some(place) => {
                        assert_eq!(map.find(key), Some(place));
                        model.insert(key, step);
                    }
                    None => assert_eq!(model.len(), 100),
                },
                (found, known) => panic!("key {key}: {found:?}, known: {known}"),
            }
            assert_eq!(map.flows, model.len());
        }
        let mut kept: Vec<u64> = map.each().map(|(_, [step, _])| step).collect();
        assert!(map.each().eq((0..map.flows_max()).filter_map(|place| {
            let value = map.look(place)?;
            Some((value[1].max(1), value))
        })));
        kept.sort_unstable();
        let mut expected: Vec<u64> = model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(kept, expected);
    }

    /// As it grows, flows go to other buckets, and their places stay.
    #[test]
    fn many_flows_find_room_and_keep_their_places() {
        let flows = 100_000u64;
        let key = |flow: u64| (flow + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut map = FlowMap::new(flows as usize);
        let places: Vec<_> = (0..flows)
            .map(|flow| map.insert(key(flow), [flow, 0]).expect("room"))
            .collect();
        assert_eq!(map.insert(key(flows), [0; 2]), None);
        assert!((0..flows).all(|flow| map.find(key(flow)) == Some(places[flow as usize])));
        assert!((flows..2 * flows).all(|flow| map.find(key(flow)).is_none()));
        for flow in (0..flows).step_by(2) {
            map.remove(places[flow as usize]);
        }
        let is_there = |flow: u64| map.find(key(flow)).is_some_and(|place| map.get(place)[0] == flow);
        assert!((0..flows).all(|flow| is_there(flow) == (flow % 2 == 1)));
        assert!(map.buckets as usize * BUCKET <= map.slots.len());
    }

    #[test]
    fn a_table_without_places_is_full() {
        let mut map = FlowMap::new(0);
        assert_eq!(
            (map.find(1), map.insert(1, [0; 2]), map.find(1)),
            (None, None, None)
        );
    }
}
