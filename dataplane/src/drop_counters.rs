//! Counters of dropped frames.

use std::ops::{Index, IndexMut};

use crate::drops::DropReason;
use crate::ids::TRAFFIC_CLASSES;

/// The counters of one drop reason, one for each traffic class.
type ClassCounters = [u64; TRAFFIC_CLASSES];

const NO_DROPS: [ClassCounters; DropReason::COUNT] = [[0; TRAFFIC_CLASSES]; DropReason::COUNT];

/// Number of dropped frames of a port for each reason and traffic class. The index is `DropReason as usize`, and the
/// result has one counter for each traffic class.
///
/// The counters are the largest part of the memory of a port, and most ports drop nothing. The first drop of a port
/// therefore allocates them. [`Switch::reserve_memory`](crate::Switch::reserve_memory) allocates them before.
#[derive(Clone, Debug, Default)]
pub struct DropCounters(Option<Box<[ClassCounters; DropReason::COUNT]>>);

impl DropCounters {
    /// Returns the counters of all reasons, in the order of [`DropReason::ALL`].
    pub fn iter(&self) -> std::slice::Iter<'_, ClassCounters> {
        self.0.as_deref().unwrap_or(&NO_DROPS).iter()
    }

    /// Allocates the memory of the counters.
    pub(crate) fn reserve(&mut self) {
        self.0.get_or_insert_with(|| Box::new(NO_DROPS));
    }
}

impl Index<usize> for DropCounters {
    type Output = ClassCounters;

    fn index(&self, reason: usize) -> &ClassCounters {
        &self.0.as_deref().unwrap_or(&NO_DROPS)[reason]
    }
}

impl IndexMut<usize> for DropCounters {
    fn index_mut(&mut self, reason: usize) -> &mut ClassCounters {
        &mut self.0.get_or_insert_with(|| Box::new(NO_DROPS))[reason]
    }
}

impl<'a> IntoIterator for &'a DropCounters {
    type Item = &'a ClassCounters;
    type IntoIter = std::slice::Iter<'a, ClassCounters>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for DropCounters {
    fn eq(&self, other: &DropCounters) -> bool {
        self.iter().eq(other)
    }
}

impl Eq for DropCounters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_without_drops_are_zero_and_need_no_memory() {
        let mut counters = DropCounters::default();
        assert_eq!(counters[3], [0; TRAFFIC_CLASSES]);
        assert_eq!(counters.iter().count(), DropReason::COUNT);
        assert!(counters.0.is_none());
        let mut reserved = DropCounters::default();
        reserved.reserve();
        assert_eq!(counters, reserved);
        counters[3][5] += 2;
        assert_eq!(counters[3][5], 2);
        assert_ne!(counters, reserved);
        assert_eq!(counters.iter().flatten().sum::<u64>(), 2);
        counters.reserve();
        assert_eq!(counters[3][5], 2);
    }
}
