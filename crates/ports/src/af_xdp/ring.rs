//! Rings that an AF_XDP socket shares with the kernel (`Documentation/networking/af_xdp.rst`). The producer
//! of a ring adds entries, and the consumer removes them. xoff is one of the two, and the kernel is the
//! second. Both publish their position in the ring.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Memory of a ring.
#[derive(Debug)]
enum RingMemory {
    /// A mapping of the kernel's memory.
    Mapped { base: NonNull<u8>, bytes: usize },
    /// Memory of a test.
    #[cfg(test)]
    Borrowed,
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        match self {
            // SAFETY: `mmap` returned these values. Entries are copied out, so no reference to the memory
            // exists any more.
            RingMemory::Mapped { base, bytes } => drop(unsafe { munmap(base.cast(), *bytes) }),
            #[cfg(test)]
            RingMemory::Borrowed => {}
        }
    }
}

/// A ring of entries of type `T`. Every bit pattern must be a valid `T`.
#[derive(Debug)]
struct SharedRing<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// Number of entries, a power of two.
    size: u32,
    _memory: RingMemory,
}

// SAFETY: the memory belongs to the process, not to a thread. Only this value uses this side of the ring.
unsafe impl<T: Send> Send for SharedRing<T> {}

impl<T: Copy> SharedRing<T> {
    /// Maps the ring at `page_offset` of a socket.
    fn map(
        socket: &OwnedFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<SharedRing<T>> {
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: the kernel selects the address, so the new mapping overlaps no other memory.
        let base = unsafe { mmap(None, length, rw, flags, socket.as_fd(), page_offset)? }.cast::<u8>();
        let memory = RingMemory::Mapped { base, bytes };
        // SAFETY: the kernel reports the positions of the indices and the entries in this mapping, with
        // their alignment.
        let ring = unsafe {
            SharedRing {
                producer: base.add(offsets.producer as usize).cast(),
                consumer: base.add(offsets.consumer as usize).cast(),
                entries: base.add(offsets.desc as usize).cast(),
                size,
                _memory: memory,
            }
        };
        Ok(ring)
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the index is in the mapping and aligned, and both sides access it as one word.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: the index is in the mapping and aligned, and both sides access it as one word.
        unsafe { self.consumer.as_ref() }
    }

    /// Returns the address of the entry `index`.
    fn entry_address(&self, index: u32) -> NonNull<T> {
        // SAFETY: the ring has `size` entries, and the mask keeps the index below `size`.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The producing side of a ring. The kernel consumes the entries.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: SharedRing<T>,
    /// Index of the next entry to write. Entries before this index may not be published yet.
    next: u32,
    /// Position of the consumer at the last time when this side read it.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    /// Maps the ring at `page_offset` of a socket, for writing.
    pub(super) fn map(
        socket: &OwnedFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        SharedRing::map(socket, page_offset, offsets, size).map(Producer::new)
    }

    fn new(ring: SharedRing<T>) -> Producer<T> {
        Producer {
            ring,
            next: 0,
            consumed: 0,
        }
    }

    /// Returns the number of entries that can be written.
    pub(super) fn free_entries(&mut self) -> u32 {
        self.read_consumed();
        self.ring.size - self.next.wrapping_sub(self.consumed)
    }

    /// Writes the next entry. Returns false if the ring is full. The consumer sees the entry only
    /// after [`publish`](Producer::publish).
    pub(super) fn write(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) >= self.ring.size && self.free_entries() == 0 {
            return false;
        }
        // SAFETY: the consumer has released this entry, or it was never written, so it belongs to this side.
        unsafe { self.ring.entry_address(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes the written entries visible to the consumer.
    pub(super) fn publish(&mut self) {
        // Release: the entries are written before the consumer reads them.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Returns the index of the next entry.
    pub(super) fn next_index(&self) -> u32 {
        self.next
    }

    /// Reads the position of the consumer: the index of the first entry that the consumer has not
    /// removed yet.
    pub(super) fn read_consumed(&mut self) -> u32 {
        // Acquire: the consumer has read the entries before this side writes them again.
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.consumed
    }

    /// Returns the entry at `index`. The entry was written and is not overwritten yet.
    pub(super) fn written_entry(&self, index: u32) -> T {
        // SAFETY: the entry is in the ring. Only this side writes entries, and it does not write now.
        unsafe { self.ring.entry_address(index).read() }
    }

    /// Replaces a published entry.
    ///
    /// # Safety
    /// The consumer must not read the ring during this call. For example, the kernel reads the transmit ring
    /// only in system calls on its socket.
    pub(super) unsafe fn replace_entry(&mut self, index: u32, entry: T) {
        // SAFETY: the entry is in the ring, and the caller guarantees that the consumer does not read it.
        unsafe { self.ring.entry_address(index).write(entry) }
    }
}

/// The consuming side of a ring. The kernel produces the entries.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: SharedRing<T>,
    /// Index of the next entry to read. Entries before this index may not be released yet.
    next: u32,
    /// Position of the producer at the last time when this side read it.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    /// Maps the ring at `page_offset` of a socket, for reading.
    pub(super) fn map(
        socket: &OwnedFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        SharedRing::map(socket, page_offset, offsets, size).map(Consumer::new)
    }

    fn new(ring: SharedRing<T>) -> Consumer<T> {
        Consumer {
            ring,
            next: 0,
            produced: 0,
        }
    }

    /// Returns the entry that comes `distance` entries after the next entry. Returns `None` if the producer
    /// has not published this entry.
    pub(super) fn peek(&mut self, distance: u32) -> Option<T> {
        if self.produced.wrapping_sub(self.next) <= distance {
            // Acquire: the entries and the frames that they describe are written before this index is read.
            self.produced = self.ring.producer().load(Ordering::Acquire);
            if self.produced.wrapping_sub(self.next) <= distance {
                return None;
            }
        }
        // SAFETY: the producer has published the entry and does not change it until it is released.
        Some(unsafe { self.ring.entry_address(self.next.wrapping_add(distance)).read() })
    }

    /// Same as [`Consumer::peek`], but uses the last known position of the producer.
    #[inline]
    pub(super) fn peek_known(&self, distance: u32) -> Option<T> {
        if self.produced.wrapping_sub(self.next) <= distance {
            return None;
        }
        // SAFETY: the producer has published the entry and does not change it until it is released.
        Some(unsafe { self.ring.entry_address(self.next.wrapping_add(distance)).read() })
    }

    /// Returns the address of the entry that comes `distance` entries after the next entry. The producer may
    /// not have written this entry yet.
    #[inline]
    pub(super) fn entry_address(&self, distance: u32) -> *const T {
        self.ring.entry_address(self.next.wrapping_add(distance)).as_ptr()
    }

    /// Skips the next `count` entries. [`Consumer::peek`] must have returned these entries before.
    pub(super) fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.produced.wrapping_sub(self.next));
        self.next = self.next.wrapping_add(count);
    }

    /// Releases the skipped entries, so that the producer can write them again.
    pub(super) fn release(&mut self) {
        // Release: the entries are read before the producer writes them again.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of a ring in a test. Both sides belong to the test.
    struct TestRing {
        words: Box<[AtomicU32; 2]>,
        entries: Box<[std::cell::UnsafeCell<u64>]>,
    }

    // SAFETY: the two indices decide which side may access an entry, as with the kernel.
    unsafe impl Sync for TestRing {}

    impl TestRing {
        fn new(size: usize) -> TestRing {
            TestRing {
                words: Box::default(),
                entries: (0..size).map(|_| std::cell::UnsafeCell::new(0)).collect(),
            }
        }

        fn ring(&self) -> SharedRing<u64> {
            SharedRing {
                producer: NonNull::from(&self.words[0]),
                consumer: NonNull::from(&self.words[1]),
                entries: NonNull::from(&*self.entries).cast(),
                size: self.entries.len() as u32,
                _memory: RingMemory::Borrowed,
            }
        }
    }

    #[test]
    fn entries_are_visible_after_publish_and_free_after_release() {
        let both = TestRing::new(4);
        let (mut producer, mut consumer) = (Producer::new(both.ring()), Consumer::new(both.ring()));
        for round in 0..5 {
            assert_eq!(producer.free_entries(), 4);
            assert!((0..4).all(|n| producer.write(10 * round + n)));
            assert!(!producer.write(99), "full");
            assert_eq!(consumer.peek(0), None, "not published");
            producer.publish();
            assert_eq!(consumer.peek_known(0), None, "published, but not read yet");
            assert_eq!(consumer.peek(3), Some(10 * round + 3));
            assert_eq!(consumer.peek(4), None);
            consumer.advance(4);
            assert!(!producer.write(99), "not released");
            consumer.release();
            assert_eq!(producer.read_consumed(), producer.next_index());
        }
    }

    #[test]
    fn indices_wrap_around() {
        let both = TestRing::new(2);
        let start = u32::MAX;
        both.words
            .iter()
            .for_each(|word| word.store(start, Ordering::Relaxed));
        let mut producer = Producer {
            next: start,
            ..Producer::new(both.ring())
        };
        let mut consumer = Consumer {
            next: start,
            produced: start,
            ring: both.ring(),
        };
        for n in 0..6 {
            assert_eq!(producer.free_entries(), 2);
            assert!(producer.write(n));
            producer.publish();
            assert_eq!(consumer.peek(0), Some(n));
            consumer.advance(1);
            consumer.release();
        }
    }

    #[test]
    fn two_threads_pass_entries_in_order() {
        let both = TestRing::new(8);
        let count = if cfg!(miri) { 100 } else { 10_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut producer = Producer::new(both.ring());
                for n in 0..count {
                    while !producer.write(n) {
                        std::thread::yield_now();
                    }
                    producer.publish();
                }
            });
            let mut consumer = Consumer::new(both.ring());
            for n in 0..count {
                let entry = loop {
                    match consumer.peek(0) {
                        Some(entry) => break entry,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(entry, n);
                consumer.advance(1);
                consumer.release();
            }
        });
    }
}
