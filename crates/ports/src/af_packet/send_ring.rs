//! A socket with a transmit ring (`Documentation/networking/packet_mmap.rst`).
//!
//! Each frame is copied to memory that the kernel also maps. One system call then sends all these frames.
//! `sendmmsg(2)`, in contrast, has a cost for each message.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::send_slots::SendSlots;
use crate::{BURST_FRAMES, packet_socket};

/// Length of the longest frame in a small slot, in bytes. This is a frame of MTU 1900 with all
/// possible headers.
const SMALL_FRAME_BYTES: usize = 1_922;
const SMALL_SLOT_BYTES: usize = 2 * 1024;
/// Number of small slots: two bursts. While a device with a queue still holds the first burst, the backend
/// can write the second burst.
const SMALL_SLOTS: usize = 2 * BURST_FRAMES;
const LARGE_SLOT_BYTES: usize = 16 * 1024;
const LARGE_SLOTS: usize = BURST_FRAMES;
/// Size of one memory allocation of the kernel, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

/// A packet socket that only sends, with its transmit ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    slots: SendSlots,
    base: NonNull<u8>,
    bytes: usize,
    socket: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this value uses it.
unsafe impl Send for SendRing {}

/// Result of sending a burst.
#[derive(Debug)]
pub(crate) struct SendResult {
    /// Number of frames that the device accepted.
    pub(crate) sent_frames: usize,
    /// Error of the first frame that the device did not accept. `None` if the device accepted all frames.
    pub(crate) error: Option<io::Error>,
}

impl SendRing {
    /// Opens a transmit ring for frames of up to `frame_len_max` bytes. The device is in the calling thread's
    /// namespace. If `bypass_qdisc` is true, the frames skip the queueing discipline of the device.
    pub(crate) fn open(device_index: u32, frame_len_max: usize, bypass_qdisc: bool) -> io::Result<SendRing> {
        let (slot_bytes, count) = if frame_len_max <= SMALL_FRAME_BYTES {
            (SMALL_SLOT_BYTES, SMALL_SLOTS)
        } else {
            (LARGE_SLOT_BYTES, LARGE_SLOTS)
        };
        let bytes = slot_bytes * count;
        let socket = packet_socket::open_send_socket(bypass_qdisc)?;
        packet_socket::set_send_ring(&socket, BLOCK_BYTES, slot_bytes, bytes)?;
        let length = std::num::NonZero::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let rw = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: the kernel selects the address, so the new mapping overlaps no other memory.
        let base = unsafe { mmap(None, length, rw, flags, socket.as_fd(), 0)? }.cast();
        // SAFETY: the kernel zeroes the memory of the ring. Slots do not cross blocks, the blocks are
        // contiguous, and all slots are aligned. Only this value uses the memory, and it unmaps the memory
        // when it is dropped.
        let slots = unsafe { SendSlots::new(base, slot_bytes, count) };
        let ring = SendRing {
            slots,
            base,
            bytes,
            socket,
        };
        packet_socket::bind_protocol(&ring.socket, device_index, 0)?;
        Ok(ring)
    }

    /// Appends a frame to the ring. `segments` are the two parts of the frame. Returns false if the frame is
    /// too long or no slot is free.
    #[inline]
    pub(crate) fn push_frame(&mut self, segments: (&[u8], &[u8])) -> bool {
        self.slots.push_frame(segments)
    }

    /// Returns the number of appended frames that are not sent yet.
    pub(crate) fn pending_frames(&self) -> usize {
        self.slots.pending_frames()
    }

    /// Sends the appended frames. If the device does not accept a frame, this frame and all frames after it
    /// are removed from the ring.
    pub(crate) fn send(&mut self) -> SendResult {
        // SAFETY: the call passes no memory. The kernel reads the ring, and no thread writes it during
        // the call.
        let result = unsafe {
            let fd = self.socket.as_raw_fd();
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if result == self.slots.pending_bytes() as isize {
            let sent_frames = self.slots.complete_all();
            return SendResult {
                sent_frames,
                error: None,
            };
        }
        let error = match result {
            0.. => io::Error::from_raw_os_error(libc::EAGAIN),
            _ => io::Error::last_os_error(),
        };
        let pending = self.slots.pending_frames();
        let sent_frames = self.slots.complete_sent();
        let error = (sent_frames < pending).then_some(error);
        SendResult { sent_frames, error }
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        // SAFETY: `mmap` returned these values. Only calls of `slots` access the memory, and `slots` ends
        // with this value.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
