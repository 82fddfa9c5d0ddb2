//! Bytes between two programs in shared memory: a file with a ring for each direction.
//!
//! docs/lockstep.md specifies the file. The other program is not trusted: [`crate::byte_ring`] checks its positions,
//! [`crate::mapped_file`] reports a file that it shortens, and all bytes are copied before they are interpreted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::byte_ring::{RingMemory, RingReader, RingWriter};
use crate::mapped_file::MappedFile;

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

/// The memory of a ring in a mapped file.
#[derive(Debug)]
struct MappedRing {
    file: Arc<MappedFile>,
    /// Number of the ring, 0 or 1.
    number: usize,
}

impl MappedRing {
    fn new(file: &Arc<MappedFile>, number: usize) -> MappedRing {
        let file = Arc::clone(file);
        MappedRing { file, number }
    }

    fn start(&self) -> usize {
        HEADER_BYTES + self.number * RING_BYTES
    }
}

impl RingMemory for MappedRing {
    type Count = AtomicU64;

    fn ring_bytes(&self) -> usize {
        RING_BYTES
    }

    fn written(&self) -> &AtomicU64 {
        self.file.number(WRITTEN_AT[self.number])
    }

    fn read(&self) -> &AtomicU64 {
        self.file.number(READ_AT[self.number])
    }

    unsafe fn copy_in(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller excludes other accesses of this part of the ring.
        unsafe { self.file.copy_in(self.start() + at, bytes) }
    }

    unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: the caller excludes writes to this part of the ring.
        unsafe { self.file.copy_out(self.start() + at, bytes) }
    }
}

/// A mapped file with two rings. The program that created the file writes to ring 0, and its peer writes to ring 1.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    file: Arc<MappedFile>,
    writer: RingWriter<MappedRing>,
    reader: RingReader<MappedRing>,
}

impl SharedMemory {
    /// Creates the file and maps it. A file with this name is an error.
    pub(crate) fn create(path: &Path) -> io::Result<SharedMemory> {
        let memory = SharedMemory::new(MappedFile::create(path, FILE_BYTES)?, 0);
        memory.file.number(0).store(MAGIC.to_le(), Ordering::Release);
        Ok(memory)
    }

    /// Maps the file of another program.
    pub(crate) fn open(path: &Path) -> io::Result<SharedMemory> {
        let memory = SharedMemory::new(MappedFile::open(path, FILE_BYTES)?, 1);
        match memory.file.number(0).load(Ordering::Acquire) == MAGIC.to_le() {
            true => Ok(memory),
            false => Err(io::Error::other("the file does not contain `xoffring`")),
        }
    }

    fn new(file: MappedFile, own_ring: usize) -> SharedMemory {
        let file = Arc::new(file);
        SharedMemory {
            writer: RingWriter::new(MappedRing::new(&file, own_ring)),
            reader: RingReader::new(MappedRing::new(&file, 1 - own_ring)),
            file,
        }
    }

    /// Writes bytes, as many as fit. Returns their number.
    ///
    /// # Errors
    /// The peer has written a wrong position, or another program has shortened the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes);
        self.file.check()?;
        written
    }

    /// Reads bytes, as many as there are and fit. Returns their number.
    ///
    /// # Errors
    /// As [`SharedMemory::write`].
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes);
        self.file.check()?;
        read
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn pair() -> (SharedMemory, SharedMemory) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let own = SharedMemory::create(&path).expect("a file");
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
        let too_far = (RING_BYTES as u64 + 1).to_le();
        peer.file.number(WRITTEN_AT[1]).store(too_far, Ordering::Release);
        assert!(own.read(&mut [0; 8]).is_err());
        peer.file
            .number(READ_AT[0])
            .store(1_u64.to_le(), Ordering::Release);
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
