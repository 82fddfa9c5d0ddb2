//! Bytes between two programs in shared memory: a file with a ring for each direction.
//!
//! Each ring has one program that writes and one that reads. The other program is not trusted: its positions are
//! checked before they are used, and all bytes are copied before they are interpreted.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// First bytes of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"xoffring");
/// Length of the part before the rings, in bytes.
const HEADER_BYTES: usize = 4_096;
/// Length of a ring in bytes, a power of two.
const RING_BYTES: usize = 1 << 16;
/// Length of the file in bytes.
const FILE_BYTES: usize = HEADER_BYTES + 2 * RING_BYTES;
/// Offsets of the number of written bytes of both rings. Each number has its own cache line.
const WRITTEN_AT: [usize; 2] = [64, 192];
/// Offsets of the number of read bytes of both rings.
const READ_AT: [usize; 2] = [128, 256];

/// A mapped file with two rings. The program that created the file writes to ring 0, and its peer writes to ring 1.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    /// The ring to which this program writes.
    own_ring: usize,
    /// Number of bytes that this program has written.
    written: u64,
    /// Number of bytes that this program has read.
    read: u64,
    /// Number of bytes that the peer has read, at the last look.
    read_by_peer: u64,
}

// SAFETY: the mapping belongs to this value alone, and no thread owns anything of it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Creates the file and maps it. A file with this name is an error.
    pub(crate) fn create(path: &Path) -> io::Result<SharedMemory> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.set_len(FILE_BYTES as u64)?;
        let memory = SharedMemory::map(&file, 0)?;
        memory.number(0).store(MAGIC.to_le(), Ordering::Release);
        Ok(memory)
    }

    /// Maps the file of another program.
    pub(crate) fn open(path: &Path) -> io::Result<SharedMemory> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != FILE_BYTES as u64 {
            return Err(io::Error::other("the file has another length"));
        }
        let memory = SharedMemory::map(&file, 1)?;
        match memory.number(0).load(Ordering::Acquire) == MAGIC.to_le() {
            true => Ok(memory),
            false => Err(io::Error::other("the file does not contain `xoffring`")),
        }
    }

    fn map(file: &File, own_ring: usize) -> io::Result<SharedMemory> {
        let len = NonZeroUsize::new(FILE_BYTES).expect("the file is not empty");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel selects replaces no other one. The file is at least as
        // long as the mapping.
        let start = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, file, 0)? };
        Ok(SharedMemory {
            start: start.cast(),
            own_ring,
            written: 0,
            read: 0,
            read_by_peer: 0,
        })
    }

    /// Returns a number of the header.
    fn number(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= HEADER_BYTES && at.is_multiple_of(8));
        // SAFETY: the offset is within the mapping and aligned, the mapping lives as long as `self`, and both programs
        // access the number only by atomic operations.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Returns the address of a byte of a ring, and the number of bytes until the end of the ring.
    fn place(&self, ring: usize, position: u64) -> (*mut u8, usize) {
        assert!(ring < 2);
        let at = (position % RING_BYTES as u64) as usize;
        // SAFETY: the offset is within the mapping.
        let address = unsafe { self.start.as_ptr().add(HEADER_BYTES + ring * RING_BYTES + at) };
        (address, RING_BYTES - at)
    }

    /// Returns the number of unread bytes between two positions.
    fn unread_bytes(written: u64, read: u64) -> io::Result<usize> {
        match written.wrapping_sub(read) {
            unread if unread <= RING_BYTES as u64 => Ok(unread as usize),
            _ => Err(io::Error::other(
                "the peer has written wrong positions to the shared memory",
            )),
        }
    }

    /// Writes bytes, as many as fit. Returns their number.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ring = self.own_ring;
        let written = self.written;
        let mut unread = SharedMemory::unread_bytes(written, self.read_by_peer)?;
        // The position of the peer is read only if necessary: its cache line belongs to another CPU.
        if bytes.len() > RING_BYTES - unread {
            self.read_by_peer = u64::from_le(self.number(READ_AT[ring]).load(Ordering::Acquire));
            unread = SharedMemory::unread_bytes(written, self.read_by_peer)?;
        }
        let count = bytes.len().min(RING_BYTES - unread);
        let (address, until_end) = self.place(ring, written);
        let (first, second) = bytes[..count].split_at(count.min(until_end));
        // SAFETY: both parts are within the ring: the first one ends at its end or before, and the second one starts
        // at its start and is shorter than the ring. Only this program writes to the ring, and the peer does not read
        // these bytes before the position is stored. `bytes` is private memory.
        unsafe {
            std::ptr::copy_nonoverlapping(first.as_ptr(), address, first.len());
            std::ptr::copy_nonoverlapping(second.as_ptr(), self.place(ring, 0).0, second.len());
        }
        self.written = written.wrapping_add(count as u64);
        self.number(WRITTEN_AT[ring])
            .store(self.written.to_le(), Ordering::Release);
        Ok(count)
    }

    /// Reads bytes, as many as there are and fit. Returns their number.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let ring = 1 - self.own_ring;
        let read = self.read;
        let written = u64::from_le(self.number(WRITTEN_AT[ring]).load(Ordering::Acquire));
        let count = bytes.len().min(SharedMemory::unread_bytes(written, read)?);
        if count == 0 {
            return Ok(0);
        }
        let (address, until_end) = self.place(ring, read);
        let (first, second) = bytes[..count].split_at_mut(count.min(until_end));
        // SAFETY: both parts are within the ring, as in `write`. The peer has written these bytes before it stored its
        // position, and must not write to them before the position of the reader is stored. A peer that breaks this
        // rule changes only the copied values. `bytes` is private memory.
        unsafe {
            std::ptr::copy_nonoverlapping(address, first.as_mut_ptr(), first.len());
            std::ptr::copy_nonoverlapping(self.place(ring, 0).0, second.as_mut_ptr(), second.len());
        }
        self.read = read.wrapping_add(count as u64);
        self.number(READ_AT[ring])
            .store(self.read.to_le(), Ordering::Release);
        Ok(count)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping has this address and length, and no reference to it remains.
        let _ = unsafe { munmap(self.start.cast(), FILE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (SharedMemory, SharedMemory) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let own = SharedMemory::create(&path).expect("a file");
        assert!(SharedMemory::create(&path).is_err(), "the file exists");
        (own, SharedMemory::open(&path).expect("the same file"))
    }

    #[test]
    fn bytes_pass_in_order_in_both_directions() {
        let (mut own, mut peer) = pair();
        let total = 5 * RING_BYTES + 17;
        let send = |memory: &mut SharedMemory, step: usize| {
            let mut sent = 0;
            while sent < total {
                let end = total.min(sent + step);
                let bytes: Vec<u8> = (sent..end).map(|at| (at % 251) as u8).collect();
                sent += memory.write(&bytes).expect("a write");
            }
        };
        let receive = |memory: &mut SharedMemory, step: usize| {
            let mut bytes = vec![0; step];
            let mut received = 0;
            while received < total {
                let count = memory.read(&mut bytes).expect("a read");
                let expected = |at: usize| (at % 251) as u8;
                assert!(
                    (0..count).all(|at| bytes[at] == expected(received + at)),
                    "{received}"
                );
                received += count;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                send(&mut peer, 7_001);
                receive(&mut peer, 3_000);
            });
            receive(&mut own, 65_536);
            send(&mut own, 100_000);
        });
        assert_eq!(own.read(&mut [0; 8]).expect("a read"), 0);
    }

    #[test]
    fn wrong_positions_of_the_peer_are_an_error() {
        let (mut own, peer) = pair();
        peer.number(WRITTEN_AT[1])
            .store((RING_BYTES as u64 + 1).to_le(), Ordering::Release);
        assert!(own.read(&mut [0; 8]).is_err());
        peer.number(READ_AT[0]).store(1_u64.to_le(), Ordering::Release);
        assert!(own.write(&vec![0; RING_BYTES + 1]).is_err());
    }

    #[test]
    fn a_file_of_another_program_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        std::fs::write(&path, vec![0; FILE_BYTES]).expect("a file");
        assert!(SharedMemory::open(&path).is_err(), "no magic");
        std::fs::write(&path, b"xoffring").expect("a file");
        assert!(SharedMemory::open(&path).is_err(), "too short");
    }
}
