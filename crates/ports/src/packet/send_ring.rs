//! A socket that sends out of a ring (`Documentation/networking/packet_mmap.rst`): a copy of each frame into memory that the kernel
//! has too, and one system call for all, without the kernel's work for each message of `sendmmsg(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::slots::Slots;
use crate::{BURST_FRAMES, socket};

/// Longest frame of which many fit in a page: one of MTU 1900 with all that can be in front of it.
const SMALL_FRAME_BYTES: usize = 1_922;
const SMALL_SLOT_BYTES: usize = 2 * 1024;
/// Two bursts: the second is written while a device with a queue of its own has the first one still.
const SMALL_SLOTS: usize = 2 * BURST_FRAMES;
const LARGE_SLOT_BYTES: usize = 16 * 1024;
const LARGE_SLOTS: usize = BURST_FRAMES;
/// What the kernel allocates in one piece.
const BLOCK_BYTES: usize = 64 * 1024;

/// A packet socket that only sends, and its ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    slots: Slots,
    base: NonNull<u8>,
    bytes: usize,
    socket: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value alone uses it.
unsafe impl Send for SendRing {}

/// What became of frames.
#[derive(Debug)]
pub(crate) struct Burst {
    /// The device took so many.
    pub(crate) sent: usize,
    /// Why it did not take the next one.
    pub(crate) error: Option<io::Error>,
}

impl SendRing {
    /// A ring for frames of up to `frame_bytes` on the device `index` of the calling thread's namespace; past the device's queueing
    /// discipline if `bypass` says so.
    pub(crate) fn open(index: u32, frame_bytes: usize, bypass: bool) -> io::Result<SendRing> {
        let (slot_bytes, count) = if frame_bytes <= SMALL_FRAME_BYTES {
            (SMALL_SLOT_BYTES, SMALL_SLOTS)
        } else {
            (LARGE_SLOT_BYTES, LARGE_SLOTS)
        };
        let bytes = slot_bytes * count;
        let socket = socket::create_sender(bypass)?;
        socket::set_send_ring(&socket, BLOCK_BYTES, slot_bytes, bytes)?;
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours.
        let base = unsafe { mmap(None, length, rw, flags, socket.as_fd(), 0)? }.cast();
        // SAFETY: the kernel's memory for the ring begins as zeros, slots do not straddle blocks and blocks follow each other, all
        // aligned to the slot; it is unmapped when this value is dropped, and nobody else has it.
        let slots = unsafe { Slots::new(base, slot_bytes, count) };
        let ring = SendRing {
            slots,
            base,
            bytes,
            socket,
        };
        socket::bind_protocol(&ring.socket, index, 0)?;
        Ok(ring)
    }

    /// Puts a frame, in two pieces, behind those that were put before. False where it is too long, or there is no room.
    #[inline]
    pub(crate) fn put(&mut self, pieces: (&[u8], &[u8])) -> bool {
        self.slots.put(pieces)
    }

    /// Frames that were put and not sent yet.
    pub(crate) fn put_frames(&self) -> usize {
        self.slots.put_frames()
    }

    /// Sends what was put. Frames that the device does not take are taken back.
    pub(crate) fn send(&mut self) -> Burst {
        // SAFETY: no memory is passed: the kernel reads the ring, which nobody writes meanwhile.
        let result = unsafe {
            let fd = self.socket.as_raw_fd();
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if result == self.slots.put_bytes() as isize {
            let sent = self.slots.settle_all();
            return Burst { sent, error: None };
        }
        let error = match result {
            0.. => io::Error::from_raw_os_error(libc::EAGAIN),
            _ => io::Error::last_os_error(),
        };
        let put = self.slots.put_frames();
        let sent = self.slots.settle();
        let error = (sent < put).then_some(error);
        Burst { sent, error }
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        // SAFETY: what `mmap` gave; nothing refers to it outside of a call of `slots`, which ends with this value.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
