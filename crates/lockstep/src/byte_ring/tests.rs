//! Tests of a ring in ordinary memory. They also run under Miri.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

/// A ring in ordinary memory, whose counts start anywhere.
#[derive(Debug)]
struct HeapMemory {
    written: AtomicU64,
    read: AtomicU64,
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the counts decide which side may access a byte.
unsafe impl Sync for HeapMemory {}

impl HeapMemory {
    fn new(ring_bytes: usize, start: u64) -> Arc<HeapMemory> {
        Arc::new(HeapMemory {
            written: AtomicU64::new(start.to_le()),
            read: AtomicU64::new(start.to_le()),
            bytes: (0..ring_bytes).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn part(&self, at: usize, count: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.bytes[at..at + count].as_ptr())
    }
}

impl RingMemory for Arc<HeapMemory> {
    type Count = AtomicU64;

    fn ring_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn written(&self) -> &AtomicU64 {
        &self.written
    }

    fn read(&self) -> &AtomicU64 {
        &self.read
    }

    unsafe fn copy_in(&self, at: usize, bytes: &[u8]) {
        let target = self.part(at, bytes.len());
        // SAFETY: `part` checks the bounds, and the caller excludes other accesses.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
    }

    unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        let source = self.part(at, bytes.len());
        // SAFETY: `part` checks the bounds, and the caller excludes writes.
        unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) }
    }
}

fn ring_from(
    ring_bytes: usize,
    start: u64,
) -> (
    Arc<HeapMemory>,
    RingWriter<Arc<HeapMemory>>,
    RingReader<Arc<HeapMemory>>,
) {
    let memory = HeapMemory::new(ring_bytes, start);
    let writer = RingWriter {
        written: start,
        read_by_peer: start,
        ..RingWriter::new(Arc::clone(&memory))
    };
    let reader = RingReader {
        read: start,
        ..RingReader::new(Arc::clone(&memory))
    };
    (memory, writer, reader)
}

#[test]
fn two_threads_pass_bytes_in_order() {
    let total = if cfg!(miri) { 300 } else { 100_000 };
    for start in [0, u64::MAX - 20] {
        let (_, mut writer, mut reader) = ring_from(16, start);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let bytes: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
                let mut sent = 0;
                while sent < total {
                    let end = total.min(sent + 7);
                    sent += writer.write(&bytes[sent..end]).expect("a write");
                    std::thread::yield_now();
                }
            });
            let (mut received, mut bytes) = (0, [0; 5]);
            while received < total {
                let count = reader.read(&mut bytes).expect("a read");
                for byte in &bytes[..count] {
                    assert_eq!(*byte, (received % 251) as u8);
                    received += 1;
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(reader.read(&mut [0; 5]).expect("a read"), 0);
    }
}

#[test]
fn a_full_ring_accepts_bytes_after_they_are_read() {
    let (_, mut writer, mut reader) = ring_from(8, 6);
    assert_eq!(writer.write(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).expect("a write"), 8);
    assert_eq!(writer.write(&[9]).expect("a write"), 0, "full");
    let mut bytes = [0; 3];
    assert_eq!(reader.read(&mut bytes).expect("a read"), 3);
    assert_eq!(bytes, [1, 2, 3]);
    assert_eq!(writer.write(&[9, 10, 11, 12]).expect("a write"), 3);
    let mut bytes = [0; 9];
    assert_eq!(reader.read(&mut bytes).expect("a read"), 8);
    assert_eq!(bytes[..8], [4, 5, 6, 7, 8, 9, 10, 11]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 20 } else { 1_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The peer writes any counts between the calls. Each call ends with an error, or moves at most the bytes that
    /// fit. No access is outside of the ring: `HeapMemory` panics then.
    #[test]
    fn no_counts_of_the_peer_lead_outside_of_the_ring(
        start in any::<u64>(),
        calls in proptest::collection::vec(
            (any::<bool>(), -20_i64..20, any::<u64>(), any::<bool>(), 0..20_usize),
            1..30,
        ),
    ) {
        let (memory, mut writer, mut reader) = ring_from(8, start);
        let mut bytes = [0; 20];
        for (writes, difference, anywhere, is_near, len) in calls {
            let near = start.wrapping_add_signed(difference);
            let count = if is_near { near } else { anywhere }.to_le();
            let moved = if writes {
                memory.read.store(count, Ordering::Release);
                writer.write(&bytes[..len])
            } else {
                memory.written.store(count, Ordering::Release);
                reader.read(&mut bytes[..len])
            };
            if let Ok(moved) = moved {
                prop_assert!(moved <= len.min(8));
            }
        }
    }
}
