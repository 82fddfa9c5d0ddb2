//! A ring of bytes from one writer to one reader. They are two threads, or two programs with shared memory.
//!
//! The ring counts the bytes that were written, and the bytes that were read. The writer alone stores the first count,
//! and the reader alone stores the second one. Each side keeps its own count in private memory, and checks the count
//! of the other side before it uses it. A wrong count therefore never leads to an access outside of the ring.
//!
//! The ring runs over any [`RingMemory`]: a mapped file, or the memory of a test.

#[cfg(all(test, not(miri)))]
mod model;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::Ordering;

/// A number of bytes that both sides of a ring access at the same time.
pub(crate) trait SharedCount {
    /// Reads the number.
    fn load(&self, order: Ordering) -> u64;
    /// Writes the number.
    fn store(&self, count: u64, order: Ordering);
}

impl SharedCount for std::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, count: u64, order: Ordering) {
        self.store(count, order);
    }
}

/// The memory of a ring. Both sides use the same memory.
pub(crate) trait RingMemory {
    /// A number of bytes.
    type Count: SharedCount;

    /// Returns the length of the ring in bytes, a power of two.
    fn ring_bytes(&self) -> usize;

    /// Returns the number of written bytes, little-endian. It wraps around after 2^64 bytes.
    fn written(&self) -> &Self::Count;

    /// Returns the number of read bytes, little-endian. It wraps around after 2^64 bytes.
    fn read(&self) -> &Self::Count;

    /// Copies bytes to the ring, from the offset `at` on.
    ///
    /// # Safety
    /// `at + bytes.len()` is at most the length of the ring. No other thread of this process accesses this part of the
    /// ring during the call.
    unsafe fn copy_in(&self, at: usize, bytes: &[u8]);

    /// Copies bytes from the ring, from the offset `at` on.
    ///
    /// # Safety
    /// `at + bytes.len()` is at most the length of the ring. No other thread of this process writes to this part of
    /// the ring during the call.
    unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]);
}

/// Returns the number of unread bytes of a ring.
fn unread_bytes(written: u64, read: u64, ring_bytes: usize) -> io::Result<usize> {
    match written.wrapping_sub(read) {
        unread if unread <= ring_bytes as u64 => Ok(unread as usize),
        _ => Err(io::Error::other(
            "the peer has written wrong positions to the shared memory",
        )),
    }
}

/// Returns the offset of a byte in its ring.
fn offset_in_ring(position: u64, ring_bytes: usize) -> usize {
    (position % ring_bytes as u64) as usize
}

/// The writing side of a ring.
#[derive(Debug)]
pub(crate) struct RingWriter<M> {
    memory: M,
    /// Number of bytes that this side has written.
    written: u64,
    /// Number of bytes that the reader has read, at the last look.
    read_by_peer: u64,
}

impl<M: RingMemory> RingWriter<M> {
    /// Writes to an empty ring, whose counts are 0. The ring has no other writer.
    pub(crate) fn new(memory: M) -> RingWriter<M> {
        RingWriter {
            memory,
            written: 0,
            read_by_peer: 0,
        }
    }

    /// Writes bytes, as many as fit. Returns their number.
    ///
    /// # Errors
    /// The reader has stored a wrong count.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ring_bytes = self.memory.ring_bytes();
        let mut unread = unread_bytes(self.written, self.read_by_peer, ring_bytes)?;
        // The count of the reader is read only if necessary: its cache line belongs to another CPU.
        if bytes.len() > ring_bytes - unread {
            // Acquire: the reader has copied the bytes before this side overwrites them.
            self.read_by_peer = u64::from_le(self.memory.read().load(Ordering::Acquire));
            unread = unread_bytes(self.written, self.read_by_peer, ring_bytes)?;
        }
        let count = bytes.len().min(ring_bytes - unread);
        let at = offset_in_ring(self.written, ring_bytes);
        let (first, second) = bytes[..count].split_at(count.min(ring_bytes - at));
        // SAFETY: both parts are within the ring: the first one ends at its end or before, and the second one starts
        // at its start and is shorter than the ring. This side is the only writer, and the reader does not access
        // these bytes before the count is stored. A reader in another program that breaks this rule gets wrong bytes.
        unsafe {
            self.memory.copy_in(at, first);
            self.memory.copy_in(0, second);
        }
        self.written = self.written.wrapping_add(count as u64);
        // Release: the reader sees the bytes before it sees their count.
        self.memory
            .written()
            .store(self.written.to_le(), Ordering::Release);
        Ok(count)
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub(crate) struct RingReader<M> {
    memory: M,
    /// Number of bytes that this side has read.
    read: u64,
}

impl<M: RingMemory> RingReader<M> {
    /// Reads from a ring whose counts were 0 when its writer started. The ring has no other reader.
    pub(crate) fn new(memory: M) -> RingReader<M> {
        RingReader { memory, read: 0 }
    }

    /// Reads bytes, as many as there are and fit. Returns their number.
    ///
    /// # Errors
    /// The writer has stored a wrong count.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let ring_bytes = self.memory.ring_bytes();
        // Acquire: the bytes are read after their count.
        let written = u64::from_le(self.memory.written().load(Ordering::Acquire));
        let count = bytes.len().min(unread_bytes(written, self.read, ring_bytes)?);
        if count == 0 {
            return Ok(0);
        }
        let at = offset_in_ring(self.read, ring_bytes);
        let (first, second) = bytes[..count].split_at_mut(count.min(ring_bytes - at));
        // SAFETY: both parts are within the ring, as in `RingWriter::write`. The writer has written these bytes before
        // it stored their count, and does not overwrite them before the count of this side is stored. A writer in
        // another program that breaks this rule changes only the copied values.
        unsafe {
            self.memory.copy_out(at, first);
            self.memory.copy_out(0, second);
        }
        self.read = self.read.wrapping_add(count as u64);
        // Release: the bytes are copied before the writer overwrites them.
        self.memory.read().store(self.read.to_le(), Ordering::Release);
        Ok(count)
    }
}
