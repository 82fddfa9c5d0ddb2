//! A table from keys of flows to what is known of them: open addressing, allocated once.

/// Keys are hashes already; this spreads what is left of their structure over the places (digits of the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A table of a fixed number of flows.
///
/// At most half of the places are taken, neighbours are tried in turn, and what is behind a place that becomes free moves up. So a
/// look-up is short whatever has come and gone, and nothing is allocated after the start.
///
/// Values are two words, so that an empty table is zeros and nothing but: the system gives memory for those parts of it that are in use.
#[derive(Clone, Debug)]
pub(super) struct FlowMap {
    /// Key and value; key 0: free.
    places: Vec<[u64; 3]>,
    /// How far the product of a key is shifted to get its place.
    shift: u32,
    flows: usize,
    flows_max: usize,
}

impl FlowMap {
    /// A table for so many flows.
    pub(super) fn new(flows_max: usize) -> FlowMap {
        let places = (2 * flows_max).next_power_of_two().max(2);
        FlowMap {
            places: vec![[0; 3]; places],
            shift: 64 - places.trailing_zeros(),
            flows: 0,
            flows_max,
        }
    }

    pub(super) fn flows_max(&self) -> usize {
        self.flows_max
    }

    /// How many places there are, free ones included.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// The place of a flow.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let key = key.max(1);
        let mask = self.places.len() - 1;
        let mut place = self.home(key);
        loop {
            match self.places[place][0] {
                0 => return None,
                found if found == key => return Some(place),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// What is known of the flow at a place that [`FlowMap::find`] or [`FlowMap::insert`] named.
    #[inline]
    pub(super) fn get(&self, place: usize) -> [u64; 2] {
        let [_, first, second] = self.places[place];
        [first, second]
    }

    /// This is known of it from now on.
    #[inline]
    pub(super) fn set(&mut self, place: usize, [first, second]: [u64; 2]) {
        let known = &mut self.places[place];
        (known[1], known[2]) = (first, second);
    }

    /// The flow at any place, if there is one.
    #[inline]
    pub(super) fn look(&self, place: usize) -> Option<[u64; 2]> {
        let [key, first, second] = *self.places.get(place)?;
        (key != 0).then_some([first, second])
    }

    /// Every flow with its key, in the order of places.
    pub(super) fn each(&self) -> impl Iterator<Item = (u64, [u64; 2])> + '_ {
        let taken = self.places.iter().filter(|[key, ..]| *key != 0);
        taken.map(|&[key, first, second]| (key, [first, second]))
    }

    /// Enters a flow that is not known; `None`: the table is full.
    pub(super) fn insert(&mut self, key: u64, [first, second]: [u64; 2]) -> Option<usize> {
        if self.flows == self.flows_max {
            return None;
        }
        let key = key.max(1);
        let mask = self.places.len() - 1;
        let mut place = self.home(key);
        while self.places[place][0] != 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = [key, first, second];
        self.flows += 1;
        Some(place)
    }

    /// Forgets the flow at a place. Others may have moved to this place and those behind it.
    pub(super) fn remove(&mut self, place: usize) {
        let mask = self.places.len() - 1;
        self.flows -= 1;
        let (mut free, mut next) = (place, place);
        loop {
            next = (next + 1) & mask;
            let key = self.places[next][0];
            if key == 0 {
                break;
            }
            // It moves up unless its home lies behind the free place.
            let away = next.wrapping_sub(self.home(key)) & mask;
            if away >= (next.wrapping_sub(free) & mask) {
                self.places[free] = self.places[next];
                free = next;
            }
        }
        self.places[free] = [0; 3];
    }
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
        assert!(map.each().eq((0..map.places()).filter_map(|place| {
            let value = map.look(place)?;
            Some((value[1].max(1), value))
        })));
        kept.sort_unstable();
        let mut expected: Vec<u64> = model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(kept, expected);
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
