//! The memory behind an arena.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// The page size that alignment is promised for. Larger pages are multiples of it.
pub(super) const PAGE_BYTES: usize = 4096;

/// Zeroed, page-aligned, shared memory with a file descriptor (memfd), so that another process can map it.
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    #[cfg(not(miri))]
    file: std::os::fd::OwnedFd,
}

impl Mapping {
    /// Maps `len` octets (a page at least).
    #[cfg(not(miri))]
    pub(super) fn new(len: usize) -> io::Result<Mapping> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};

        let len = len.max(PAGE_BYTES);
        let file = memfd_create(c"xoff-arena", MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&file, len as i64)?;
        let length = std::num::NonZero::new(len).expect("a page at least");
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours, and nobody else can
        // shrink the file: its descriptor is ours until we pass it on.
        let base = unsafe { mmap(None, length, rw, MapFlags::MAP_SHARED, &file, 0)? };
        Ok(Mapping {
            base: base.cast(),
            len,
            file,
        })
    }

    /// Miri has no `mmap` of files: the same memory from the allocator.
    #[cfg(miri)]
    pub(super) fn new(len: usize) -> io::Result<Mapping> {
        let len = len.max(PAGE_BYTES);
        let layout = std::alloc::Layout::from_size_align(len, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let base = base.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// The file behind the memory.
    #[cfg(not(miri))]
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.file))
    }

    /// No file behind it.
    #[cfg(miri)]
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// `len` octets at `at`. Valid as long as the mapping; the caller sees to it that references do not conflict.
    ///
    /// # Panics
    /// If they do not lie in the mapping.
    #[inline]
    pub(super) fn slice(&self, at: usize, len: usize) -> *mut [u8] {
        assert!(at + len <= self.len);
        // SAFETY: `at` is at most `len`, so the address lies in the mapping or at its end.
        let start = unsafe { self.base.add(at) };
        std::ptr::slice_from_raw_parts_mut(start.as_ptr(), len)
    }
}

impl Drop for Mapping {
    #[cfg(not(miri))]
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what `mmap` gave, and slices do not outlive the mapping.
        // Failure would mean that they are not; nothing is left to be done about it.
        let _ = unsafe { nix::sys::mman::munmap(self.base.cast(), self.len) };
    }

    #[cfg(miri)]
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.len, PAGE_BYTES).expect("as allocated");
        // SAFETY: allocated with this layout in `new`.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) }
    }
}
