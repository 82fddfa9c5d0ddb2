//! The receive ring, which the kernel fills (`Documentation/networking/packet_mmap.rst`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::{packet_socket, prefetch};

/// Largest MTU for small ring entries. The ring header and the longest frame of this MTU fit in 2 KiB.
const SMALL_MTU: u32 = 1900;
const SMALL_FRAME_BYTES: usize = 2 * 1024;
const LARGE_FRAME_BYTES: usize = 16 * 1024;
/// Size of a ring with 4096 small entries, in bytes. At the highest rate of a veth sender, such a ring is
/// full after 4 ms. At the lower rates of a lab, the ring fills much more slowly.
const SMALL_RING_BYTES: usize = 8 * 1024 * 1024;
/// Size of a ring with 1024 large entries, in bytes.
const LARGE_RING_BYTES: usize = 16 * 1024 * 1024;
/// Size of the smallest ring, in bytes. A smaller ring would overflow during a usual stall of the machine.
const RING_BYTES_MIN: usize = 1024 * 1024;
/// Number of bytes at the start of a ring entry that are prefetched first. These bytes contain the ring
/// header and the headers of the frame.
const PREFETCH_BYTES: usize = 192;
/// Smallest offset of a frame in its ring entry, in bytes. The offset may be slightly larger.
const FRAME_OFFSET: usize = 96;
/// Size of one memory allocation of the kernel, in bytes. The size is a multiple of the page size and of both
/// entry sizes.
const BLOCK_BYTES: usize = 64 * 1024;

/// A TPACKET_V2 receive ring and the position of the next frame.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    base: NonNull<u8>,
    bytes: usize,
    wanted_bytes: usize,
    frame_bytes: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this value reads it.
unsafe impl Send for ReceiveRing {}

/// A frame in the receive ring.
pub(crate) struct RingFrame<'a> {
    pub(crate) header: &'a libc::tpacket2_hdr,
    /// The bytes of the frame from the destination address on. If the kernel has removed a VLAN tag, the tag
    /// is missing.
    pub(crate) bytes: &'a [u8],
}

impl ReceiveRing {
    /// Adds a receive ring to the socket, for frames up to the MTU `mtu` in bytes. If the kernel has too
    /// little memory, the ring is smaller, but not below 1 MiB.
    pub(crate) fn new(socket: &OwnedFd, mtu: u32) -> io::Result<ReceiveRing> {
        let (frame_bytes, wanted_bytes) = match mtu {
            ..=SMALL_MTU => (SMALL_FRAME_BYTES, SMALL_RING_BYTES),
            _ => (LARGE_FRAME_BYTES, LARGE_RING_BYTES),
        };
        let mut bytes = wanted_bytes;
        loop {
            match packet_socket::set_receive_ring(socket, BLOCK_BYTES, frame_bytes, bytes) {
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && bytes > RING_BYTES_MIN => {
                    bytes /= 2;
                }
                result => break result?,
            }
        }
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel selects the address, so the new mapping overlaps no other memory.
        let base = unsafe { mmap(None, length, rw, MapFlags::MAP_SHARED, socket.as_fd(), 0)? };
        Ok(ReceiveRing {
            base: base.cast(),
            bytes,
            wanted_bytes,
            frame_bytes,
            frames: bytes / frame_bytes,
            next: 0,
        })
    }

    /// Returns a message for the user if the ring is smaller than intended. `port` is the name of the port.
    pub(super) fn size_warning(&self, port: &str) -> Option<String> {
        (self.bytes < self.wanted_bytes).then(|| {
            format!(
                "{port}: memory is short: the number of frames that the receive ring holds is {} instead of {}",
                self.frames,
                self.wanted_bytes / self.frame_bytes
            )
        })
    }

    /// Returns the next frame, or `None` if the kernel has not completed it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<RingFrame<'_>> {
        let header_address = self.header();
        // Acquire: the data that the kernel wrote before the status is read after the status.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that this frame belongs to the process. The kernel does not write the frame
        // until `release_frame` resets the status. That call takes `&mut self` and therefore ends this
        // borrow. Every bit pattern is a valid header.
        let header = unsafe { header_address.as_ref() };
        // The kernel keeps both values in bounds. The limits ensure that no value leads to a read outside
        // the ring.
        let start = (header.tp_mac as usize).min(self.frame_bytes);
        let len = (header.tp_snaplen as usize).min(self.frame_bytes - start);
        // SAFETY: `start + len` is inside this entry of the mapping, which belongs to the process
        // (see above).
        let bytes =
            unsafe { std::slice::from_raw_parts(header_address.cast::<u8>().add(start).as_ptr(), len) };
        Some(RingFrame { header, bytes })
    }

    /// Returns the next frame to the kernel and advances to the frame after it.
    #[inline]
    pub(crate) fn release_frame(&mut self) {
        // Release: the reads of the frame are complete before the kernel writes again.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += 1;
        if self.next == self.frames {
            self.next = 0;
        }
    }

    /// Prefetches the start of a ring entry and `frame_len` bytes of its frame. The entry comes `distance`
    /// entries after the next entry. The kernel must have filled this entry already. Otherwise the prefetch
    /// would take a cache line away from the kernel.
    #[inline]
    pub(crate) fn prefetch(&self, distance: usize, frame_len: usize) {
        let index = (self.next + distance) % self.frames;
        let entry = self.base.as_ptr().wrapping_add(index * self.frame_bytes);
        prefetch::prefetch(entry, PREFETCH_BYTES);
        let rest = (frame_len + FRAME_OFFSET).saturating_sub(PREFETCH_BYTES);
        prefetch::prefetch_for_copy(entry.wrapping_add(PREFETCH_BYTES), rest);
    }

    fn header(&self) -> NonNull<libc::tpacket2_hdr> {
        // Entries do not cross blocks, and the blocks are contiguous, so the ring is an array of entries.
        // SAFETY: `next` is less than `frames`, so the address is in the mapping. Entries are aligned to
        // their size.
        unsafe { self.base.add(self.next * self.frame_bytes).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        let status = self.header().cast::<u32>();
        // SAFETY: the status is the first member of the header, in the mapping and aligned. Both sides access
        // it as one word, and neither side writes it while a reference to the header exists.
        unsafe { AtomicU32::from_ptr(status.as_ptr()) }
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: `mmap` returned these values. `RingFrame` borrows the ring, so no reference to it exists
        // any more.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
