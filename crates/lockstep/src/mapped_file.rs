//! A file in the memory of this program and of another one.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::posix_fallocate;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::bus_error::GuardedRegion;

/// A mapped file of a fixed length.
///
/// Another program can shorten the file at any time. [`MappedFile::check`] then reports it, and all bytes are private
/// memory of this program.
#[derive(Debug)]
pub(crate) struct MappedFile {
    // The fields are dropped in this order: the guard ends before the mapping.
    region: GuardedRegion,
    mapping: Mapping,
}

/// A mapping, which is removed by a drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value and not to a thread. Numbers are atomic, and the callers of the copying
// functions of `MappedFile` exclude conflicts.
unsafe impl Send for Mapping {}
// SAFETY: the same reasons as for `Send`.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping has this address and length, and no reference to it remains.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

impl MappedFile {
    /// Creates a file of `len` zero bytes and maps it.
    ///
    /// # Errors
    /// A file with this name exists, or it cannot be created, for example because the disk is full.
    pub(crate) fn create(path: &Path, len: usize) -> io::Result<MappedFile> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        // A file with holes would need space at the first access, which a full disk answers with SIGBUS.
        let mapped = posix_fallocate(&file, 0, len as i64)
            .map_err(io::Error::from)
            .and_then(|()| MappedFile::map(&file, len));
        mapped.inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    /// Maps the file of another program.
    ///
    /// # Errors
    /// The file has another length, or it cannot be opened.
    pub(crate) fn open(path: &Path, len: usize) -> io::Result<MappedFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != len as u64 {
            return Err(io::Error::other("the file has another length"));
        }
        MappedFile::map(&file, len)
    }

    fn map(file: &File, len: usize) -> io::Result<MappedFile> {
        let length = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel selects replaces no other one.
        let start: NonNull<u8> = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, 0)? }.cast();
        let mapping = Mapping { start, len };
        // SAFETY: the region is this mapping, and `MappedFile` drops it before the mapping.
        let region = unsafe { GuardedRegion::new(start, len)? };
        Ok(MappedFile { region, mapping })
    }

    /// Fails if another program has shortened the file. The bytes since the last successful call may then be wrong.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.region.is_lost() {
            true => Err(io::Error::other("another program has shortened the file")),
            false => Ok(()),
        }
    }

    /// Returns the 8 bytes at an offset, which both programs access only by atomic operations.
    pub(crate) fn number(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8));
        // SAFETY: the part is within the mapping and aligned, and the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.part(at, 8).cast()) }
    }

    /// Copies bytes to the file.
    ///
    /// # Safety
    /// No other thread of this process accesses this part of the file during the call.
    pub(crate) unsafe fn copy_in(&self, at: usize, bytes: &[u8]) {
        let target = self.part(at, bytes.len());
        // SAFETY: the target is within the mapping, and the caller excludes conflicts. `bytes` is private memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
    }

    /// Copies bytes from the file.
    ///
    /// # Safety
    /// No other thread of this process writes to this part of the file during the call.
    pub(crate) unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        let source = self.part(at, bytes.len());
        // SAFETY: the source is within the mapping, and the caller excludes conflicts. `bytes` is private memory.
        unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Returns the address of a part of the file, after a check of its bounds.
    fn part(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.mapping.len && len <= self.mapping.len - at);
        // SAFETY: the offset is within the mapping, or at its end.
        unsafe { self.mapping.start.as_ptr().add(at) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    const LEN: usize = 16_384;

    #[test]
    fn both_mappings_have_the_same_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let own = MappedFile::create(&path, LEN).expect("a file");
        assert!(MappedFile::create(&path, LEN).is_err(), "the file exists");
        assert!(path.exists(), "the file of another program stays");
        assert!(MappedFile::open(&path, LEN + 1).is_err(), "another length");
        let peer = MappedFile::open(&path, LEN).expect("the same file");
        let mut bytes = [0; 3];
        // SAFETY: no other thread accesses the file.
        unsafe {
            own.copy_in(LEN - 3, &[1, 2, 3]);
            peer.copy_out(LEN - 3, &mut bytes);
        }
        assert_eq!(bytes, [1, 2, 3]);
        peer.number(8).store(7, Ordering::Release);
        assert_eq!(own.number(8).load(Ordering::Acquire), 7);
    }

    #[test]
    fn a_file_that_another_program_shortens_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        for access in ["read", "write"] {
            let path = folder.path().join(access);
            let mapped = MappedFile::create(&path, LEN).expect("a file");
            let other = MappedFile::create(&folder.path().join("other"), LEN).expect("a file");
            mapped.number(0).store(7, Ordering::Release);
            File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(0))
                .expect("an empty file");
            assert!(mapped.check().is_ok(), "no access yet");
            let mut bytes = [1; 3];
            // SAFETY: no other thread accesses the file.
            unsafe {
                match access {
                    "read" => mapped.copy_out(LEN - 3, &mut bytes),
                    _ => mapped.copy_in(LEN - 3, &bytes),
                }
            }
            assert!(mapped.check().is_err());
            assert_eq!(mapped.number(0).load(Ordering::Acquire), 0, "private memory");
            assert!(other.check().is_ok(), "the other file is as it was");
            std::fs::remove_file(folder.path().join("other")).expect("the file");
        }
    }
}
