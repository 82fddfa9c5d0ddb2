//! Loom checks all interleavings of a writer and a reader, and all values that a load may return in the memory model.
//!
//! The ring has two bytes, and the stream is longer: both bytes are written and read again. The stream starts before
//! the counts wrap around. Loom fails if both sides access a byte at the same time, or without an order.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;

const RING_BYTES: usize = 2;
/// The counts pass 2^64 within the stream.
const START: u64 = u64::MAX;
const STREAM: [u8; 4] = [1, 2, 3, 4];
/// Number of calls of the reader while the writer runs.
const READS: usize = 2;

/// An access of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    LoadWritten,
    StoreWritten,
    LoadRead,
    StoreRead,
}

struct ModelCount {
    count: AtomicU64,
    load_access: Access,
    store_access: Access,
    /// The access that has no order, whatever the ring requests.
    relaxed: Option<Access>,
}

impl ModelCount {
    fn new(load_access: Access, store_access: Access, relaxed: Option<Access>) -> ModelCount {
        ModelCount {
            count: AtomicU64::new(START.to_le()),
            load_access,
            store_access,
            relaxed,
        }
    }

    fn order(&self, access: Access, requested: Ordering) -> Ordering {
        match self.relaxed == Some(access) {
            true => Ordering::Relaxed,
            false => requested,
        }
    }
}

impl SharedCount for ModelCount {
    fn load(&self, order: Ordering) -> u64 {
        self.count.load(self.order(self.load_access, order))
    }

    fn store(&self, count: u64, order: Ordering) {
        self.count.store(count, self.order(self.store_access, order));
    }
}

struct ModelMemory {
    written: ModelCount,
    read: ModelCount,
    bytes: [UnsafeCell<u8>; RING_BYTES],
}

// SAFETY: loom checks each access of a byte.
unsafe impl Sync for ModelMemory {}

impl ModelMemory {
    fn new(relaxed: Option<Access>) -> Arc<ModelMemory> {
        Arc::new(ModelMemory {
            written: ModelCount::new(Access::LoadWritten, Access::StoreWritten, relaxed),
            read: ModelCount::new(Access::LoadRead, Access::StoreRead, relaxed),
            bytes: Default::default(),
        })
    }
}

impl RingMemory for Arc<ModelMemory> {
    type Count = ModelCount;

    fn ring_bytes(&self) -> usize {
        RING_BYTES
    }

    fn written(&self) -> &ModelCount {
        &self.written
    }

    fn read(&self) -> &ModelCount {
        &self.read
    }

    unsafe fn copy_in(&self, at: usize, bytes: &[u8]) {
        for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
            // SAFETY: the pointer is valid, and loom checks that no other access is in progress.
            cell.with_mut(|target| unsafe { *target = *byte });
        }
    }

    unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
            // SAFETY: the pointer is valid, and loom checks that no write is in progress.
            *byte = cell.with(|source| unsafe { *source });
        }
    }
}

/// Passes the stream through a ring. Both sides make a fixed number of calls at the same time, so the number of
/// interleavings is finite. The rest of the stream passes afterwards.
fn pass_stream(write_bytes: usize, read_bytes: usize, relaxed: Option<Access>) {
    let memory = ModelMemory::new(relaxed);
    let mut writer = RingWriter {
        written: START,
        read_by_peer: START,
        ..RingWriter::new(Arc::clone(&memory))
    };
    let mut reader = RingReader {
        read: START,
        ..RingReader::new(memory)
    };
    let mut write = move |sent: &mut usize| {
        let end = STREAM.len().min(*sent + write_bytes);
        *sent += writer.write(&STREAM[*sent..end]).expect("right counts");
    };
    let mut read = move |received: &mut Vec<u8>| {
        let mut bytes = [0; STREAM.len()];
        let count = reader.read(&mut bytes[..read_bytes]).expect("right counts");
        received.extend_from_slice(&bytes[..count]);
    };
    let writing = thread::spawn(move || {
        let mut sent = 0;
        (0..STREAM.len()).for_each(|_| write(&mut sent));
        (write, sent)
    });
    let mut received = Vec::new();
    (0..READS).for_each(|_| read(&mut received));
    let (mut write, mut sent) = writing.join().expect("the writer");
    while received.len() < STREAM.len() {
        read(&mut received);
        write(&mut sent);
    }
    assert_eq!(received, STREAM);
}

#[test]
fn bytes_arrive_in_order_in_all_interleavings() {
    for (write_bytes, read_bytes) in [(1, 1), (1, 2), (2, 1), (3, 3)] {
        loom::model(move || pass_stream(write_bytes, read_bytes, None));
    }
}

/// The model finds a missing order, so it also finds it in the ring.
#[test]
fn each_order_of_the_ring_is_necessary() {
    for relaxed in [
        Access::LoadWritten,
        Access::StoreWritten,
        Access::LoadRead,
        Access::StoreRead,
    ] {
        let checked = std::panic::catch_unwind(|| loom::model(move || pass_stream(1, 1, Some(relaxed))));
        assert!(checked.is_err(), "{relaxed:?} needs no order");
    }
}
