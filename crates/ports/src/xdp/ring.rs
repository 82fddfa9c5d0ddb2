//! The rings that a socket shares with the kernel: one side produces, the other consumes, each tells the other how
//! far it is (`Documentation/networking/af_xdp.rst`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Memory of a ring.
#[derive(Debug)]
enum Memory {
    /// Of the kernel, mapped.
    Mapped { base: NonNull<u8>, bytes: usize },
    /// Of a test, which keeps it.
    #[cfg(test)]
    Borrowed,
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self {
            // SAFETY: what `mmap` gave; entries are copied out, so nothing refers to it any more.
            Memory::Mapped { base, bytes } => drop(unsafe { munmap(base.cast(), *bytes) }),
            #[cfg(test)]
            Memory::Borrowed => {}
        }
    }
}

/// A ring of entries `T`: plain values of which every bit pattern is valid.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// A power of two.
    size: u32,
    _memory: Memory,
}

// SAFETY: the memory belongs to the process, not to a thread; this value alone uses this side of the ring.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring at `page_offset` of a socket.
    fn map(socket: &OwnedFd, page_offset: i64, at: &libc::xdp_ring_offset, size: u32) -> io::Result<Ring<T>> {
        let bytes = at.desc as usize + size as usize * size_of::<T>();
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours.
        let base = unsafe { mmap(None, length, rw, flags, socket.as_fd(), page_offset)? }.cast::<u8>();
        let memory = Memory::Mapped { base, bytes };
        // SAFETY: the kernel tells where in this mapping the words and the entries lie, aligned for them.
        let ring = unsafe {
            Ring {
                producer: base.add(at.producer as usize).cast(),
                consumer: base.add(at.consumer as usize).cast(),
                entries: base.add(at.desc as usize).cast(),
                size,
                _memory: memory,
            }
        };
        Ok(ring)
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: in the mapping, aligned, and both sides access it as one word.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    /// The place of entry `index`.
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: `size` entries lie here, and the mask keeps the index below that.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a ring that the kernel consumes.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Where the next entry goes; entries before it may not be published yet.
    next: u32,
    /// How far the consumer was when asked last.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        socket: &OwnedFd,
        page_offset: i64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        Ring::map(socket, page_offset, at, size).map(Producer::new)
    }

    fn new(ring: Ring<T>) -> Producer<T> {
        Producer {
            ring,
            next: 0,
            consumed: 0,
        }
    }

    /// How many entries can be written.
    pub(super) fn room(&mut self) -> u32 {
        self.consumed();
        self.ring.size - self.next.wrapping_sub(self.consumed)
    }

    /// Writes the next entry; false if the ring is full. The consumer sees it after [`publish`](Producer::publish).
    pub(super) fn write(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) >= self.ring.size && self.room() == 0 {
            return false;
        }
        // SAFETY: the consumer has done with this entry, or it was never written: it is ours.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the consumer what was written.
    pub(super) fn publish(&mut self) {
        // Release: the entries are written before the consumer may read them.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The index of the next entry.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Up to which index the consumer says it has done.
    pub(super) fn consumed(&mut self) -> u32 {
        // Acquire: the consumer has read the entries before they are written again.
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.consumed
    }

    /// An entry that was written, and not yet written over.
    pub(super) fn written(&self, index: u32) -> T {
        // SAFETY: in the ring; only this side writes entries, and it is not writing now.
        unsafe { self.ring.entry(index).read() }
    }

    /// Replaces an entry that is published.
    ///
    /// # Safety
    /// The consumer does not read now. The kernel reads the transmit ring only within system calls on its socket.
    pub(super) unsafe fn replace(&mut self, index: u32, entry: T) {
        // SAFETY: in the ring, and as the caller promises not being read.
        unsafe { self.ring.entry(index).write(entry) }
    }
}

/// Our end of a ring that the kernel fills.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The next entry to be read; those before it may not be released yet.
    next: u32,
    /// How far the producer was when asked last.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        socket: &OwnedFd,
        page_offset: i64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        Ring::map(socket, page_offset, at, size).map(Consumer::new)
    }

    fn new(ring: Ring<T>) -> Consumer<T> {
        Consumer {
            ring,
            next: 0,
            produced: 0,
        }
    }

    /// The entry `ahead` of the next one, if the producer has got that far.
    pub(super) fn peek(&mut self, ahead: u32) -> Option<T> {
        if self.produced.wrapping_sub(self.next) <= ahead {
            // Acquire: the entries, and what they speak of, are written before this is read.
            self.produced = self.ring.producer().load(Ordering::Acquire);
            if self.produced.wrapping_sub(self.next) <= ahead {
                return None;
            }
        }
        // SAFETY: the producer has written it and leaves it alone until it is released.
        Some(unsafe { self.ring.entry(self.next.wrapping_add(ahead)).read() })
    }

    /// As [`Consumer::peek`], as far as the producer is known to have got: its word in memory is not looked at.
    #[inline]
    pub(super) fn known(&self, ahead: u32) -> Option<T> {
        if self.produced.wrapping_sub(self.next) <= ahead {
            return None;
        }
        // SAFETY: the producer has written it and leaves it alone until it is released.
        Some(unsafe { self.ring.entry(self.next.wrapping_add(ahead)).read() })
    }

    /// Where the entry `ahead` of the next one lies, whether it has been written or not.
    #[inline]
    pub(super) fn place(&self, ahead: u32) -> *const T {
        self.ring.entry(self.next.wrapping_add(ahead)).as_ptr()
    }

    /// Passes over `count` entries that were peeked at.
    pub(super) fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.produced.wrapping_sub(self.next));
        self.next = self.next.wrapping_add(count);
    }

    /// Gives the places of entries that were passed over back to the producer.
    pub(super) fn release(&mut self) {
        // Release: the entries are read before the producer may write them again.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of a ring in which both ends are ours.
    struct Both {
        words: Box<[AtomicU32; 2]>,
        entries: Box<[std::cell::UnsafeCell<u64>]>,
    }

    // SAFETY: as with the kernel: who may touch an entry follows from the two words.
    unsafe impl Sync for Both {}

    impl Both {
        fn new(size: usize) -> Both {
            Both {
                words: Box::default(),
                entries: (0..size).map(|_| std::cell::UnsafeCell::new(0)).collect(),
            }
        }

        fn ring(&self) -> Ring<u64> {
            Ring {
                producer: NonNull::from(&self.words[0]),
                consumer: NonNull::from(&self.words[1]),
                entries: NonNull::from(&*self.entries).cast(),
                size: self.entries.len() as u32,
                _memory: Memory::Borrowed,
            }
        }
    }

    #[test]
    fn entries_appear_when_published_and_make_room_when_released() {
        let both = Both::new(4);
        let (mut producer, mut consumer) = (Producer::new(both.ring()), Consumer::new(both.ring()));
        for round in 0..5 {
            assert_eq!(producer.room(), 4);
            assert!((0..4).all(|n| producer.write(10 * round + n)));
            assert!(!producer.write(99), "full");
            assert_eq!(consumer.peek(0), None, "not published");
            producer.publish();
            assert_eq!(consumer.known(0), None, "published, and not looked at");
            assert_eq!(consumer.peek(3), Some(10 * round + 3));
            assert_eq!(consumer.peek(4), None);
            consumer.advance(4);
            assert!(!producer.write(99), "not released");
            consumer.release();
            assert_eq!(producer.consumed(), producer.next());
        }
    }

    #[test]
    fn indices_wrap_around() {
        let both = Both::new(2);
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
            assert_eq!(producer.room(), 2);
            assert!(producer.write(n));
            producer.publish();
            assert_eq!(consumer.peek(0), Some(n));
            consumer.advance(1);
            consumer.release();
        }
    }

    #[test]
    fn two_threads_pass_entries_in_order() {
        let both = Both::new(8);
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
