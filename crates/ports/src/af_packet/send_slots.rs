//! The slots of a transmit ring. The kernel sends frames from these slots.
//!
//! The kernel reads the slots in order and stops at the first slot without a frame. Frames are therefore
//! stored in consecutive slots. Only the status of each slot shows how far the kernel has come.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Offset of the vnet header in its slot, in bytes. The vnet header follows the ring header. The kernel
/// computes the same offset as `TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`.
const PACKET_OFFSET: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Length of the vnet header (`struct virtio_net_hdr`) in bytes. On a socket with `PACKET_VNET_HDR`, this
/// header precedes each frame.
const VNET_HEADER_BYTES: usize = 10;
/// Offset of the member `hdr_len` in the vnet header, in bytes. `hdr_len` is the number of bytes that the
/// kernel copies. The kernel would share all further bytes with the device, and a veth copies shared
/// bytes again.
const VNET_HDR_LEN_OFFSET: usize = 2;
const FRAME_OFFSET: usize = PACKET_OFFSET + VNET_HEADER_BYTES;

/// Status bits of a slot that is not free. Its frame waits for a system call, is in flight, or has a format
/// that the kernel cannot read.
const OCCUPIED: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT;
/// Status bits of a slot with a frame that the kernel has not sent completely.
const UNSENT: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;

/// The slots of a transmit ring, and the range of pending frames. A frame is pending after it was stored in a
/// slot, until the next system call is complete.
#[derive(Debug)]
pub(super) struct SendSlots {
    base: NonNull<u8>,
    slot_bytes: usize,
    count: usize,
    /// Index of the slot that the kernel reads next.
    first: usize,
    /// Number of pending frames. They are in the slots from `first` on.
    pending_frames: usize,
    /// Total length of the pending frames, in bytes.
    pending_bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread. In this process only this value uses
// the memory.
unsafe impl Send for SendSlots {}

impl SendSlots {
    /// Creates `count` free slots of `slot_bytes` bytes each.
    ///
    /// # Safety
    /// `base` points to `count * slot_bytes` zero bytes. Every slot is aligned for a `tpacket2_hdr`. The
    /// memory stays valid as long as the value exists. Only the kernel and this value use the memory.
    pub(super) unsafe fn new(base: NonNull<u8>, slot_bytes: usize, count: usize) -> SendSlots {
        SendSlots {
            base,
            slot_bytes,
            count,
            first: 0,
            pending_frames: 0,
            pending_bytes: 0,
        }
    }

    /// Returns the length of the longest frame in a slot, in bytes.
    pub(super) fn frame_bytes_max(&self) -> usize {
        // The member `hdr_len` has 16 bits.
        (self.slot_bytes - FRAME_OFFSET).min(u16::MAX as usize)
    }

    /// Appends a frame to the ring. `segments` are the two parts of the frame. Returns false if the frame is
    /// too long or the next slot is not free.
    #[inline]
    pub(super) fn push_frame(&mut self, segments: (&[u8], &[u8])) -> bool {
        let (own, rest) = segments;
        let len = own.len() + rest.len();
        let index = self.slot_index(self.pending_frames);
        // Acquire: the kernel has read the slot before this thread writes it.
        let is_free =
            self.pending_frames < self.count && self.status(index).load(Ordering::Acquire) & OCCUPIED == 0;
        if !is_free || len > self.frame_bytes_max() {
            return false;
        }
        let slot = self.slot_address(index);
        // SAFETY: the slot is free, so the kernel does not access it until the status changes. `&mut self`
        // excludes other accesses of this process. The slot is aligned for its header. The checks above
        // ensure that `len` bytes after `FRAME_OFFSET` are inside the slot.
        unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>();
            (&raw mut (*header.as_ptr()).tp_len).write((VNET_HEADER_BYTES + len) as u32);
            // All other bytes of the vnet header stay zero: no checksum to complete and no superframe.
            let hdr_len = slot.add(PACKET_OFFSET + VNET_HDR_LEN_OFFSET);
            hdr_len.cast::<u16>().write_unaligned(len as u16);
            let frame = slot.add(FRAME_OFFSET);
            frame.copy_from_nonoverlapping(NonNull::from(own).cast(), own.len());
            let rest_address = frame.add(own.len());
            rest_address.copy_from_nonoverlapping(NonNull::from(rest).cast(), rest.len());
        }
        // Release: the kernel sees the frame before it sees the status.
        self.status(index)
            .store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.pending_frames += 1;
        self.pending_bytes += len;
        true
    }

    /// Returns the number of frames that were appended since the last completion.
    pub(super) fn pending_frames(&self) -> usize {
        self.pending_frames
    }

    /// Returns the total length of the pending frames in bytes. The system call returns the same value if it
    /// has sent all these frames.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Marks all pending frames as sent and returns their number.
    pub(super) fn complete_all(&mut self) -> usize {
        let sent_frames = self.pending_frames;
        self.advance(sent_frames);
        sent_frames
    }

    /// Removes all pending frames after a system call, and returns the number of frames that the call has
    /// sent. The remaining frames were not sent, and their slots are free again.
    #[cold]
    pub(super) fn complete_sent(&mut self) -> usize {
        let is_unsent = |n: &usize| self.status(self.slot_index(*n)).load(Ordering::Acquire) & UNSENT != 0;
        let sent_frames = (0..self.pending_frames)
            .find(is_unsent)
            .unwrap_or(self.pending_frames);
        for n in sent_frames..self.pending_frames {
            self.status(self.slot_index(n))
                .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.advance(sent_frames);
        sent_frames
    }

    fn advance(&mut self, sent_frames: usize) {
        self.first = self.slot_index(sent_frames);
        (self.pending_frames, self.pending_bytes) = (0, 0);
    }

    /// Returns the index of the slot that is `distance` slots after `first`.
    fn slot_index(&self, distance: usize) -> usize {
        let index = self.first + distance;
        if index < self.count {
            index
        } else {
            index - self.count
        }
    }

    fn slot_address(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.count);
        // SAFETY: `slot_index` and `advance` keep `index` below `count`, so the address is inside the memory.
        unsafe { self.base.add(index * self.slot_bytes) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the status is the first member of the header and is aligned. Both sides access it as one
        // word, and no other reference to it exists.
        unsafe { AtomicU32::from_ptr(self.slot_address(index).cast::<u32>().as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: usize = 256;
    const COUNT: usize = 4;

    /// The side of the kernel in a test. It behaves like `tpacket_snd`.
    struct FakeKernel {
        memory: NonNull<u8>,
        head: usize,
    }

    impl FakeKernel {
        fn status(&self, index: usize) -> &AtomicU32 {
            // SAFETY: `index` is less than `COUNT`. The status is the first member of the slot, as
            // in `SendSlots::status`.
            unsafe { AtomicU32::from_ptr(self.memory.add(index * SLOT_BYTES).cast::<u32>().as_ptr()) }
        }

        /// Sends up to `max` frames. If a further frame waits, the function sets the status of this frame
        /// to `final_status`.
        fn send(&mut self, max: usize, final_status: u32) -> Vec<Vec<u8>> {
            let mut frames = Vec::new();
            while self.status(self.head).load(Ordering::Acquire) == libc::TP_STATUS_SEND_REQUEST {
                if frames.len() == max {
                    self.status(self.head).store(final_status, Ordering::Release);
                    break;
                }
                frames.push(self.read_frame());
                self.status(self.head)
                    .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
                self.head = (self.head + 1) % COUNT;
            }
            frames
        }

        fn read_frame(&self) -> Vec<u8> {
            // SAFETY: the status says that the slot belongs to the kernel. `tp_len` bytes after its header
            // are inside it.
            unsafe {
                let slot = self.memory.add(self.head * SLOT_BYTES);
                let len = slot.cast::<libc::tpacket2_hdr>().as_ref().tp_len as usize;
                let packet = std::slice::from_raw_parts(slot.add(32).as_ptr(), len);
                let (vnet, frame) = packet.split_at(10);
                let copied = u16::from_ne_bytes([vnet[2], vnet[3]]);
                assert_eq!(copied as usize, frame.len(), "the kernel copies all of it");
                assert!(vnet[..2].iter().chain(&vnet[4..]).all(|byte| *byte == 0));
                frame.to_vec()
            }
        }
    }

    /// Creates slots in ordinary memory, and the side of the kernel.
    fn slots_with_kernel(memory: &mut Vec<u64>) -> (SendSlots, FakeKernel) {
        memory.resize(COUNT * SLOT_BYTES / 8, 0);
        let base = NonNull::new(memory.as_mut_ptr().cast()).expect("a vector's memory");
        // SAFETY: the memory has this length, is zeroed, is aligned for a header, and is borrowed for
        // the test.
        let slots = unsafe { SendSlots::new(base, SLOT_BYTES, COUNT) };
        (
            slots,
            FakeKernel {
                memory: base,
                head: 0,
            },
        )
    }

    fn numbered_frame(n: u8) -> Vec<u8> {
        vec![n; 60 + n as usize]
    }

    fn push_frames(slots: &mut SendSlots, numbers: std::ops::Range<u8>) {
        for n in numbers {
            let bytes = numbered_frame(n);
            assert!(slots.push_frame(bytes.split_at(n as usize)));
        }
    }

    #[test]
    fn frames_stay_in_order_when_the_ring_wraps() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = slots_with_kernel(&mut memory);
        for first in (0..60).step_by(3) {
            push_frames(&mut slots, first..first + 3);
            let bytes: usize = (first..first + 3).map(|n| numbered_frame(n).len()).sum();
            assert_eq!((slots.pending_frames(), slots.pending_bytes()), (3, bytes));
            assert_eq!(
                kernel.send(3, 0),
                (first..first + 3).map(numbered_frame).collect::<Vec<_>>()
            );
            assert_eq!(slots.complete_all(), 3);
        }
    }

    #[test]
    fn a_full_ring_accepts_no_frame_until_a_slot_is_free() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = slots_with_kernel(&mut memory);
        push_frames(&mut slots, 0..4);
        assert!(!slots.push_frame((&numbered_frame(4), &[])));
        assert_eq!(kernel.send(4, 0).len(), 4);
        // In flight: a device still holds the frames.
        (0..COUNT).for_each(|n| kernel.status(n).store(libc::TP_STATUS_SENDING, Ordering::Release));
        assert_eq!(slots.complete_all(), 4);
        assert!(!slots.push_frame((&numbered_frame(4), &[])));
        kernel
            .status(0)
            .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        assert!(slots.push_frame((&numbered_frame(4), &[])));
        assert!(!slots.push_frame((&numbered_frame(5), &[])));
        assert_eq!(kernel.send(4, 0), [numbered_frame(4)]);
    }

    #[test]
    fn unsent_frames_are_removed_and_the_next_frame_takes_their_place() {
        for final_status in [libc::TP_STATUS_SEND_REQUEST, libc::TP_STATUS_WRONG_FORMAT] {
            let mut memory = Vec::new();
            let (mut slots, mut kernel) = slots_with_kernel(&mut memory);
            for round in 0..9 {
                push_frames(&mut slots, round..round + 3);
                let sent = usize::from(round % 3);
                assert_eq!(kernel.send(sent, final_status).len(), sent);
                assert_eq!(slots.complete_sent(), sent);
                push_frames(&mut slots, 100..101);
                assert_eq!(kernel.send(1, 0), [numbered_frame(100)]);
                assert_eq!(slots.complete_sent(), 1);
            }
        }
    }

    #[test]
    fn a_frame_of_the_slot_length_fits_and_a_longer_frame_does_not() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = slots_with_kernel(&mut memory);
        let longest = vec![7; slots.frame_bytes_max()];
        assert_eq!(longest.len(), SLOT_BYTES - 42);
        assert!(!slots.push_frame((&longest, &[1])));
        assert!(slots.push_frame((&longest, &[])));
        assert_eq!(kernel.send(1, 0), [longest]);
    }
}
