//! A hash map from flow keys to flow state. Memory is allocated only once. If the map contains few flows, it
//! uses few memory pages.

/// The keys are hashes already. A multiplication by this factor (digits of the golden ratio) removes regular
/// patterns that remain in the keys.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of slots in a bucket. One bucket fills one cache line.
const BUCKET_SLOTS: usize = 16;

/// If the average number of flows in a bucket (a group of slots) reaches this value, the map adds a bucket. A
/// bucket that has not been split yet may contain up to twice the average. The value is low, so full buckets
/// are very rare.
const FLOWS_PER_BUCKET: usize = 4;

/// Number of low bits in a slot that store the entry number of a flow, counted from 1. The upper bits of the
/// slot store a part of the hash.
const ENTRY_BITS: u32 = 24;

/// Marks an empty slot or the end of the free list.
const NONE: u32 = 0;

/// A hash map with a fixed capacity.
///
/// The map uses linear hashing (Litwin 1980). A bucket is a group of slots for flows. As flows arrive, the
/// map adds buckets one by one. Each new bucket takes a part of the flows of an existing bucket. The state of
/// the flows is stored in a separate array, in the order of arrival. A map with space for a million flows
/// therefore uses only a few memory pages for the first thousand flows. Nothing is allocated after the start,
/// and no insertion waits for a rehash.
///
/// The hash of a flow selects two buckets (groups of slots), and the flow may be in either of them. If both
/// buckets are full, which is very rare, an insertion fails. An empty map contains only zeros, so the kernel
/// provides memory only for the parts in use.
#[derive(Clone, Debug)]
pub(super) struct FlowMap {
    slots: Vec<u32>,
    /// Number of open buckets. Open buckets have the lowest numbers.
    buckets: u32,
    /// The next power of two of `buckets`, minus one.
    mask: u32,
    /// Each entry has three words: the key, and two words of flow state. Free entries have key 0 and form a
    /// linked list: the second word of a free entry contains the number of the next free entry.
    entries: Vec<[u64; 3]>,
    /// Head of the free list. [`NONE`] means that the first untouched entry is next.
    free: u32,
    /// Number of entries that were ever used. These entries have the lowest numbers.
    used_entries: usize,
    flows: usize,
}

/// The hash of a key.
#[derive(Clone, Copy)]
struct KeyHash(u64);

impl KeyHash {
    /// Computes the hash of a key.
    #[inline]
    fn of(key: u64) -> KeyHash {
        KeyHash(key.wrapping_mul(SPREAD))
    }

    /// Returns the hashes of the two buckets (groups of slots) that may contain the flow. The first hash
    /// belongs to the preferred bucket.
    #[inline]
    fn bucket_choices(self) -> [u32; 2] {
        [(self.0 >> 40) as u32, self.0 as u32 & 0xf_ffff]
    }

    /// Returns the slot of a bucket at which the search for this key starts.
    #[inline]
    fn first_slot(self) -> usize {
        (self.0 >> 20) as usize % BUCKET_SLOTS
    }

    /// Returns the tag: the part of the hash that a slot stores. A look-up compares the tags first. Most
    /// slots of different flows have a different tag, so their entries are not read.
    #[inline]
    fn slot_tag(self) -> u32 {
        self.0 as u32 >> ENTRY_BITS
    }
}

impl FlowMap {
    /// Creates a map for `flows_max` flows, at most 2^22 - 1.
    pub(super) fn new(flows_max: usize) -> FlowMap {
        let flows_max = flows_max.min((1 << 22) - 1);
        let buckets = flows_max.div_ceil(FLOWS_PER_BUCKET).max(1);
        FlowMap {
            slots: vec![NONE; buckets * BUCKET_SLOTS],
            buckets: 1,
            mask: 0,
            entries: vec![[0; 3]; flows_max],
            free: NONE,
            used_entries: 0,
            flows: 0,
        }
    }

    /// Returns the capacity of the map. Entries are numbered from 0 to `flows_max - 1`.
    pub(super) fn flows_max(&self) -> usize {
        self.entries.len()
    }

    /// Returns the position of the first slot of the bucket that this hash selects.
    #[inline]
    fn bucket_start(&self, hash: u32) -> usize {
        let bucket = hash & self.mask;
        let opened = bucket < self.buckets;
        let bucket = if opened { bucket } else { bucket & (self.mask >> 1) };
        bucket as usize * BUCKET_SLOTS
    }

    /// Returns the entry number of a flow, which is constant until the flow is removed. Returns `None` if the
    /// flow is not in the map.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let (key, hash) = (key.max(1), KeyHash::of(key.max(1)));
        // Four out of five flows are in the first slot of the search.
        let [first, _] = hash.bucket_choices();
        let slot = self.slots[self.bucket_start(first) + hash.first_slot()];
        let entry = entry_of_slot(slot);
        match self.entries.get(entry) {
            Some([found, ..]) if *found == key => Some(entry),
            _ => self.find_in_buckets(key, hash),
        }
    }

    /// Searches both buckets of a flow.
    #[inline(never)]
    fn find_in_buckets(&self, key: u64, hash: KeyHash) -> Option<usize> {
        let here = |choice| self.find_slot(self.bucket_start(choice), key, hash);
        let slot = hash.bucket_choices().into_iter().find_map(here)?;
        Some(entry_of_slot(self.slots[slot]))
    }

    /// Returns the slot of a flow in one bucket. Returns `None` if the bucket does not contain the flow.
    fn find_slot(&self, bucket: usize, key: u64, hash: KeyHash) -> Option<usize> {
        let slots = &self.slots[bucket..bucket + BUCKET_SLOTS];
        for step in 0..BUCKET_SLOTS {
            let at = (hash.first_slot() + step) % BUCKET_SLOTS;
            let slot = slots[at];
            if slot >> ENTRY_BITS == hash.slot_tag()
                && slot != NONE
                && self.entries[entry_of_slot(slot)][0] == key
            {
                return Some(bucket + at);
            }
        }
        None
    }

    /// Returns the value of an entry that [`FlowMap::find`] or [`FlowMap::insert`] returned.
    #[inline]
    pub(super) fn value(&self, entry: usize) -> [u64; 2] {
        let [_, first, second] = self.entries[entry];
        [first, second]
    }

    /// Replaces the value of an entry.
    #[inline]
    pub(super) fn set_value(&mut self, entry: usize, [first, second]: [u64; 2]) {
        let known = &mut self.entries[entry];
        (known[1], known[2]) = (first, second);
    }

    /// Returns the value of any entry, or `None` if the entry is free.
    #[inline]
    pub(super) fn get_if_used(&self, entry: usize) -> Option<[u64; 2]> {
        let [key, first, second] = *self.entries.get(entry)?;
        (key != 0).then_some([first, second])
    }

    /// Iterates over keys and values in the order of entry numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, [u64; 2])> + '_ {
        let taken = self.entries.iter().filter(|[key, ..]| *key != 0);
        taken.map(|&[key, first, second]| (key, [first, second]))
    }

    /// Inserts a new flow and returns its entry. Returns `None` if the map is full.
    pub(super) fn insert(&mut self, key: u64, [first, second]: [u64; 2]) -> Option<usize> {
        if self.flows == self.flows_max() {
            return None;
        }
        let (key, hash) = (key.max(1), KeyHash::of(key.max(1)));
        let room = |choice| self.find_free_slot(self.bucket_start(choice), hash);
        let slot = hash.bucket_choices().into_iter().find_map(room)?;
        let entry = match self.free {
            NONE => {
                self.used_entries += 1;
                self.used_entries - 1
            }
            free => {
                let entry = entry_of_slot(free);
                self.free = self.entries[entry][1] as u32;
                entry
            }
        };
        self.entries[entry] = [key, first, second];
        self.slots[slot] = hash.slot_tag() << ENTRY_BITS | (entry as u32 + 1);
        self.flows += 1;
        if self.flows > self.buckets as usize * FLOWS_PER_BUCKET {
            self.split_next_bucket();
        }
        Some(entry)
    }

    /// Returns a free slot of a bucket, or `None`.
    fn find_free_slot(&self, bucket: usize, hash: KeyHash) -> Option<usize> {
        let at = |step| bucket + (hash.first_slot() + step) % BUCKET_SLOTS;
        (0..BUCKET_SLOTS).map(at).find(|slot| self.slots[*slot] == NONE)
    }

    /// Adds one bucket to the hash table. The new bucket splits an existing bucket: some flows move from the
    /// existing bucket to the new bucket.
    fn split_next_bucket(&mut self) {
        let opened = self.buckets;
        self.buckets += 1;
        self.mask = self.buckets.next_power_of_two() - 1;
        let (from, to) = (
            (opened & (self.mask >> 1)) as usize * BUCKET_SLOTS,
            opened as usize * BUCKET_SLOTS,
        );
        for slot in from..from + BUCKET_SLOTS {
            let moving = self.slots[slot];
            if moving == NONE {
                continue;
            }
            let hash = KeyHash::of(self.entries[entry_of_slot(moving)][0]);
            let [first, second] = hash.bucket_choices().map(|choice| self.bucket_start(choice));
            let goes = if first == from {
                false
            } else {
                first == to || second == to
            };
            if goes && let Some(room) = self.find_free_slot(to, hash) {
                self.slots[slot] = NONE;
                self.slots[room] = moving;
            }
        }
    }

    /// Removes the flow of an entry.
    pub(super) fn remove(&mut self, entry: usize) {
        let key = self.entries[entry][0];
        let hash = KeyHash::of(key);
        let here = |choice| self.find_slot(self.bucket_start(choice), key, hash);
        if let Some(slot) = hash.bucket_choices().into_iter().find_map(here) {
            self.slots[slot] = NONE;
        }
        self.entries[entry] = [0, u64::from(self.free), 0];
        self.free = entry as u32 + 1;
        self.flows -= 1;
    }
}

/// Returns the entry number that a used slot stores.
#[inline]
fn entry_of_slot(slot: u32) -> usize {
    (slot & ((1 << ENTRY_BITS) - 1)).wrapping_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Compares the map with a `BTreeMap` after a random sequence of insertions and removals.
    #[test]
    fn flow_map_results_equal_a_btree_map() {
        let mut map = FlowMap::new(100);
        let mut model = BTreeMap::new();
        let mut state = 7u64;
        for step in 0..20_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // A small key range gives many collisions. The range includes key 0.
            let key = (state >> 33) % 150 * 0x1_0000_0001;
            match (map.find(key), model.contains_key(&key)) {
                (Some(entry), true) if step % 3 == 0 => {
                    map.remove(entry);
                    model.remove(&key);
                }
                (Some(entry), true) => assert_eq!(map.value(entry), [model[&key], key]),
                (None, false) => match map.insert(key, [step, key]) {
                    Some(entry) => {
                        assert_eq!(map.find(key), Some(entry));
                        model.insert(key, step);
                    }
                    None => assert_eq!(model.len(), 100),
                },
                (found, known) => panic!("key {key}: {found:?}, known: {known}"),
            }
            assert_eq!(map.flows, model.len());
        }
        let mut kept: Vec<u64> = map.iter().map(|(_, [step, _])| step).collect();
        assert!(map.iter().eq((0..map.flows_max()).filter_map(|entry| {
            let value = map.get_if_used(entry)?;
            Some((value[1].max(1), value))
        })));
        kept.sort_unstable();
        let mut expected: Vec<u64> = model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(kept, expected);
    }

    /// While the map grows, flows move from one bucket (group of slots) to another bucket. Their entry
    /// numbers stay the same.
    #[test]
    fn many_flows_find_entries_and_keep_them() {
        let flows = 100_000u64;
        let key = |flow: u64| (flow + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut map = FlowMap::new(flows as usize);
        let entries: Vec<_> = (0..flows)
            .map(|flow| map.insert(key(flow), [flow, 0]).expect("room"))
            .collect();
        assert_eq!(map.insert(key(flows), [0; 2]), None);
        assert!((0..flows).all(|flow| map.find(key(flow)) == Some(entries[flow as usize])));
        assert!((flows..2 * flows).all(|flow| map.find(key(flow)).is_none()));
        for flow in (0..flows).step_by(2) {
            map.remove(entries[flow as usize]);
        }
        let is_there = |flow: u64| {
            map.find(key(flow))
                .is_some_and(|entry| map.value(entry)[0] == flow)
        };
        assert!((0..flows).all(|flow| is_there(flow) == (flow % 2 == 1)));
        assert!(map.buckets as usize * BUCKET_SLOTS <= map.slots.len());
    }

    #[test]
    fn a_map_without_capacity_is_full() {
        let mut map = FlowMap::new(0);
        assert_eq!(
            (map.find(1), map.insert(1, [0; 2]), map.find(1)),
            (None, None, None)
        );
    }
}
