//! The memory mapping of an arena.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// The smallest page size in bytes. The mapping is aligned to this size. Every larger page size is a multiple
/// of the smallest one.
pub(super) const PAGE_BYTES: usize = 4096;

/// Page-aligned shared memory, filled with zeros. The memory has a file descriptor (memfd), with which a
/// second process can map the same memory.
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    #[cfg(not(miri))]
    file: std::os::fd::OwnedFd,
}

impl Mapping {
    /// Maps `len` bytes. The mapping has at least one page.
    #[cfg(not(miri))]
    pub(super) fn new(len: usize) -> io::Result<Mapping> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};

        let len = len.max(PAGE_BYTES);
        let file = memfd_create(c"xoff-arena", MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&file, len as i64)?;
        let length = std::num::NonZero::new(len).expect("a page at least");
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel selects the address, so the new mapping overlaps no other memory. No other
        // process can shrink the file, because this process has the only descriptor until it passes it on.
        let base = unsafe { mmap(None, length, rw, MapFlags::MAP_SHARED, &file, 0)? };
        Ok(Mapping {
            base: base.cast(),
            len,
            file,
        })
    }

    /// Allocates the memory from the Rust allocator, because Miri cannot map files.
    #[cfg(miri)]
    pub(super) fn new(len: usize) -> io::Result<Mapping> {
        let len = len.max(PAGE_BYTES);
        let layout = std::alloc::Layout::from_size_align(len, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout has a size greater than 0.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let base = base.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// Returns the file of the mapping.
    #[cfg(not(miri))]
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.file))
    }

    /// Returns `None`, because memory under Miri has no file.
    #[cfg(miri)]
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the `len` bytes at `offset`. The pointer is valid as long as the mapping exists. The caller
    /// must not create conflicting references.
    ///
    /// # Panics
    /// Panics if the bytes are outside the mapping.
    #[inline]
    pub(super) fn slice(&self, offset: usize, len: usize) -> *mut [u8] {
        assert!(offset + len <= self.len);
        // SAFETY: `offset` is at most `len` of the mapping, so the address is inside the mapping or at
        // its end.
        let start = unsafe { self.base.add(offset) };
        std::ptr::slice_from_raw_parts_mut(start.as_ptr(), len)
    }
}

impl Drop for Mapping {
    #[cfg(not(miri))]
    fn drop(&mut self) {
        // SAFETY: `mmap` returned `base` for `len` bytes, and no slice outlives the mapping. A failure would
        // mean that the mapping does not exist, so the result is ignored.
        let _ = unsafe { nix::sys::mman::munmap(self.base.cast(), self.len) };
    }

    #[cfg(miri)]
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.len, PAGE_BYTES).expect("as allocated");
        // SAFETY: `new` allocated the memory with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) }
    }
}
