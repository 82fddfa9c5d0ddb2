//! The receive ring: memory that the kernel fills and we walk (`Documentation/networking/packet_mmap.rst`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::{ahead, socket};

/// MTU up to which a frame, its headers and the ring's own header fit in 2 KiB.
const SMALL_MTU: u32 = 1900;
const SMALL_FRAME_BYTES: usize = 2 * 1024;
const LARGE_FRAME_BYTES: usize = 16 * 1024;
/// 4096 frames of 2 KiB: 4 ms of minimum frames at the rate a veth sender can reach, many times that at the speeds of a lab.
const SMALL_RING_BYTES: usize = 8 * 1024 * 1024;
/// 1024 frames of 16 KiB.
const LARGE_RING_BYTES: usize = 16 * 1024 * 1024;
/// Below this a ring would not outlast an ordinary stall of the host.
const SMALLEST_RING_BYTES: usize = 1024 * 1024;
/// Octets of a place that are fetched ahead: the ring's own header, and those of the frame.
const AHEAD_BYTES: usize = 192;
/// Where a frame begins in its place, or a little further.
const FRAME_OFFSET: usize = 96;
/// What the kernel allocates in one piece: a multiple of the page and of both frame sizes.
const BLOCK_BYTES: usize = 64 * 1024;

/// A TPACKET_V2 receive ring, and where we are in it.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    bytes: usize,
    wanted_bytes: usize,
    frame_bytes: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value alone reads it.
unsafe impl Send for Ring {}

/// A frame that waits in the ring.
pub(crate) struct Waiting<'a> {
    pub(crate) header: &'a libc::tpacket2_hdr,
    /// From the first octet of the destination address; a tag that the kernel took off is missing.
    pub(crate) bytes: &'a [u8],
}

impl Ring {
    /// Gives the socket a ring for frames of a link of this MTU: as large as memory allows.
    pub(crate) fn new(socket: &OwnedFd, mtu: u32) -> io::Result<Ring> {
        let (frame_bytes, wanted_bytes) = match mtu {
            ..=SMALL_MTU => (SMALL_FRAME_BYTES, SMALL_RING_BYTES),
            _ => (LARGE_FRAME_BYTES, LARGE_RING_BYTES),
        };
        let mut bytes = wanted_bytes;
        loop {
            match socket::set_receive_ring(socket, BLOCK_BYTES, frame_bytes, bytes) {
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && bytes > SMALLEST_RING_BYTES => {
                    bytes /= 2;
                }
                done => break done?,
            }
        }
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours.
        let base = unsafe { mmap(None, length, rw, MapFlags::MAP_SHARED, socket.as_fd(), 0)? };
        Ok(Ring {
            base: base.cast(),
            bytes,
            wanted_bytes,
            frame_bytes,
            frames: bytes / frame_bytes,
            next: 0,
        })
    }

    /// What to tell of a ring that came out smaller than wanted.
    pub(super) fn note(&self, port: &str) -> Option<String> {
        (self.bytes < self.wanted_bytes).then(|| {
            format!(
                "{port}: memory is short: the receive ring holds {} frames instead of {}",
                self.frames,
                self.wanted_bytes / self.frame_bytes
            )
        })
    }

    /// The next frame, if the kernel has finished it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Waiting<'_>> {
        let at = self.header();
        // Acquire: what the kernel wrote before it set the status is read after it.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that this frame is ours: the kernel writes none of it until `release` clears the
        // status, which takes `&mut self` and so ends this borrow. Any bits are a valid header.
        let header = unsafe { at.as_ref() };
        // The kernel keeps both in bounds; a read outside the ring is not left to its word.
        let start = (header.tp_mac as usize).min(self.frame_bytes);
        let len = (header.tp_snaplen as usize).min(self.frame_bytes - start);
        // SAFETY: `start + len` lies in this frame of the mapping, which is ours as said above.
        let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(start).as_ptr(), len) };
        Some(Waiting { header, bytes })
    }

    /// Gives the frame that was peeked back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        // Release: our reads are done before the kernel may write again.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += 1;
        if self.next == self.frames {
            self.next = 0;
        }
    }

    /// Fetches a place behind the next one, status, headers and as much as a frame of `len` octets has. Not to be done to places that the
    /// kernel may be about to fill: it would have to wait for the line.
    #[inline]
    pub(crate) fn fetch(&self, ahead: usize, len: usize) {
        let place = (self.next + ahead) % self.frames;
        let at = self.base.as_ptr().wrapping_add(place * self.frame_bytes);
        ahead::fetch(at, AHEAD_BYTES);
        let rest = (len + FRAME_OFFSET).saturating_sub(AHEAD_BYTES);
        ahead::fetch_for_copy(at.wrapping_add(AHEAD_BYTES), rest);
    }

    fn header(&self) -> NonNull<libc::tpacket2_hdr> {
        // Frames do not straddle blocks, and blocks follow each other: the ring is an array of frames.
        // SAFETY: `next` is less than `frames`, so this is in the mapping; frames are aligned to their size.
        unsafe { self.base.add(self.next * self.frame_bytes).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        let status = self.header().cast::<u32>();
        // SAFETY: the status is the first member of the header, in the mapping and aligned; both sides access it as
        // one word, and while we hold a reference to the header neither side writes it.
        unsafe { AtomicU32::from_ptr(status.as_ptr()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: what `mmap` gave; `Waiting` borrows the ring, so nothing reads it any more.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
