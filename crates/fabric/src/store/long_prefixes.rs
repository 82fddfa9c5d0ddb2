//! Stores the bytes of frames that do not fit into a slot.

use super::Slab;

/// Memory for the administration of each list of bytes, in bytes.
const PREFIX_MEMORY: u64 = size_of::<Vec<u8>>() as u64 + 4 + 16;

/// The bytes of frames that do not fit into a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct LongPrefixes {
    prefixes: Slab<Vec<u8>>,
    /// Sum of the capacities of all prefixes in bytes.
    capacity_bytes: u64,
}

impl LongPrefixes {
    /// Adds the bytes of a frame and returns their index.
    pub(super) fn insert(&mut self, bytes: Vec<u8>) -> u32 {
        self.capacity_bytes += bytes.capacity() as u64;
        self.prefixes.insert(bytes)
    }

    /// Removes the bytes at an index.
    pub(super) fn remove(&mut self, index: u32) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.prefixes.items[index as usize]);
        self.capacity_bytes -= bytes.capacity() as u64;
        self.prefixes.free.push(index);
        bytes
    }

    /// Returns the bytes at an index.
    pub(super) fn get(&self, index: u32) -> &[u8] {
        &self.prefixes.items[index as usize]
    }

    /// Returns the bytes at an index.
    pub(super) fn get_mut(&mut self, index: u32) -> &mut [u8] {
        &mut self.prefixes.items[index as usize]
    }

    /// Removes the first `len` of the bytes at an index. Their memory is freed with the frame.
    pub(super) fn remove_front(&mut self, index: u32, len: usize) {
        self.prefixes.items[index as usize].drain(..len);
    }

    /// Limits the number of bytes at an index and returns it. The memory is freed with the frame.
    pub(super) fn truncate(&mut self, index: u32, len: usize) -> usize {
        let bytes = &mut self.prefixes.items[index as usize];
        bytes.truncate(len);
        bytes.len()
    }

    /// Returns the memory of all prefixes in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.prefixes.items.len() as u64 * PREFIX_MEMORY + self.capacity_bytes
    }
}
