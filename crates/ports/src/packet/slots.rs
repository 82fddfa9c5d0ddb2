//! The slots of a transmit ring: memory that we fill and the kernel sends from.
//!
//! The kernel walks them in order and stands still at the first one that holds no frame, so frames are put into the slots behind each
//! other. It says how far it is by their status alone.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a packet begins in its slot: behind the ring's header (`TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`).
const PACKET_OFFSET: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// The header that a socket with `PACKET_VNET_HDR` has in front of a frame (`struct virtio_net_hdr`).
const VNET_HEADER_BYTES: usize = 10;
/// Its member `hdr_len`: how much of the frame the kernel copies; the rest it would share, and a veth copies what is shared once more.
const VNET_HDR_LEN_OFFSET: usize = 2;
const FRAME_OFFSET: usize = PACKET_OFFSET + VNET_HEADER_BYTES;

/// A slot with one of these is not free: it waits for a call, is under way, or is one that the kernel cannot read.
const TAKEN: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT;
/// A slot with one of these the kernel has not sent, or not wholly.
const UNSENT: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;

/// Slots, and how far we are in them.
#[derive(Debug)]
pub(super) struct Slots {
    base: NonNull<u8>,
    slot_bytes: usize,
    count: usize,
    /// Where the kernel looks next.
    first: usize,
    /// Frames from there on.
    put: usize,
    /// Octets of those.
    put_bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread, and on our side this value alone uses it.
unsafe impl Send for Slots {}

impl Slots {
    /// All of `count` slots of `slot_bytes` each are free.
    ///
    /// # Safety
    /// `base` is the beginning of `count * slot_bytes` octets of zeros, aligned for a `tpacket2_hdr` as every slot is, which live as
    /// long as the value and which nobody but the kernel uses.
    pub(super) unsafe fn new(base: NonNull<u8>, slot_bytes: usize, count: usize) -> Slots {
        Slots {
            base,
            slot_bytes,
            count,
            first: 0,
            put: 0,
            put_bytes: 0,
        }
    }

    /// The longest frame that a slot holds.
    pub(super) fn frame_bytes_max(&self) -> usize {
        // The kernel reads `hdr_len` as 16 bits.
        (self.slot_bytes - FRAME_OFFSET).min(u16::MAX as usize)
    }

    /// Puts a frame, in two pieces, into the slot behind those that were put. False where it is too long or that slot is not free.
    #[inline]
    pub(super) fn put(&mut self, pieces: (&[u8], &[u8])) -> bool {
        let (own, rest) = pieces;
        let len = own.len() + rest.len();
        let index = self.index(self.put);
        // Acquire: the kernel has read the slot before we write it.
        let is_free = self.put < self.count && self.status(index).load(Ordering::Acquire) & TAKEN == 0;
        if !is_free || len > self.frame_bytes_max() {
            return false;
        }
        let slot = self.slot(index);
        // SAFETY: the slot is free, so the kernel leaves it alone until the status says otherwise, and on our side `&mut self` is
        // alone with it. It is aligned for its header, and `len` octets behind `FRAME_OFFSET` lie in it, as was checked.
        unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>();
            (&raw mut (*header.as_ptr()).tp_len).write((VNET_HEADER_BYTES + len) as u32);
            // All else of the vnet header stays zero: no checksum to finish, no superframe.
            let hdr_len = slot.add(PACKET_OFFSET + VNET_HDR_LEN_OFFSET);
            hdr_len.cast::<u16>().write_unaligned(len as u16);
            let frame = slot.add(FRAME_OFFSET);
            frame.copy_from_nonoverlapping(NonNull::from(own).cast(), own.len());
            let behind = frame.add(own.len());
            behind.copy_from_nonoverlapping(NonNull::from(rest).cast(), rest.len());
        }
        // Release: the kernel sees the frame once it sees the status.
        self.status(index)
            .store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.put += 1;
        self.put_bytes += len;
        true
    }

    /// Frames that were put since the last [`settle`](Slots::settle).
    pub(super) fn put_frames(&self) -> usize {
        self.put
    }

    /// Their octets: what a call returns that has sent all of them.
    pub(super) fn put_bytes(&self) -> usize {
        self.put_bytes
    }

    /// After a call that sent all: returns how many.
    pub(super) fn settle_all(&mut self) -> usize {
        let sent = self.put;
        self.advance(sent);
        sent
    }

    /// After a call that stopped on its way: returns how many it has sent, and takes the others back.
    #[cold]
    pub(super) fn settle(&mut self) -> usize {
        let is_unsent = |n: &usize| self.status(self.index(*n)).load(Ordering::Acquire) & UNSENT != 0;
        let sent = (0..self.put).find(is_unsent).unwrap_or(self.put);
        for n in sent..self.put {
            self.status(self.index(n))
                .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.advance(sent);
        sent
    }

    fn advance(&mut self, sent: usize) {
        self.first = self.index(sent);
        (self.put, self.put_bytes) = (0, 0);
    }

    /// The slot `n` behind the one where the kernel looks next.
    fn index(&self, n: usize) -> usize {
        let index = self.first + n;
        if index < self.count {
            index
        } else {
            index - self.count
        }
    }

    fn slot(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.count);
        // SAFETY: `index` is less than `count` (`index` and `advance` see to it), so this lies in the memory.
        unsafe { self.base.add(index * self.slot_bytes) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the status is the first member of the header and aligned; both sides use it as one word, and no other
        // reference to it exists.
        unsafe { AtomicU32::from_ptr(self.slot(index).cast::<u32>().as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: usize = 256;
    const COUNT: usize = 4;

    /// The other side of the ring: what `tpacket_snd` does with it.
    struct Kernel {
        memory: NonNull<u8>,
        head: usize,
    }

    impl Kernel {
        fn status(&self, index: usize) -> &AtomicU32 {
            // SAFETY: `index` is less than `COUNT`, and this is the status, as above.
            unsafe { AtomicU32::from_ptr(self.memory.add(index * SLOT_BYTES).cast::<u32>().as_ptr()) }
        }

        /// Sends up to `max` frames; the next one, if there is one, is left with `then`.
        fn send(&mut self, max: usize, then: u32) -> Vec<Vec<u8>> {
            let mut frames = Vec::new();
            while self.status(self.head).load(Ordering::Acquire) == libc::TP_STATUS_SEND_REQUEST {
                if frames.len() == max {
                    self.status(self.head).store(then, Ordering::Release);
                    break;
                }
                frames.push(self.read());
                self.status(self.head)
                    .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
                self.head = (self.head + 1) % COUNT;
            }
            frames
        }

        fn read(&self) -> Vec<u8> {
            // SAFETY: the status says that the slot is the kernel's, and `tp_len` octets behind its header lie in it.
            unsafe {
                let slot = self.memory.add(self.head * SLOT_BYTES);
                let len = slot.cast::<libc::tpacket2_hdr>().as_ref().tp_len as usize;
                let packet = std::slice::from_raw_parts(slot.add(32).as_ptr(), len);
                let (vnet, frame) = packet.split_at(10);
                let copied = u16::from_ne_bytes([vnet[2], vnet[3]]);
                assert_eq!(copied as usize, frame.len(), "the kernel copies all of it");
                assert!(vnet[..2].iter().chain(&vnet[4..]).all(|octet| *octet == 0));
                frame.to_vec()
            }
        }
    }

    /// Slots in plain memory, and the kernel's side.
    fn ring(memory: &mut Vec<u64>) -> (Slots, Kernel) {
        memory.resize(COUNT * SLOT_BYTES / 8, 0);
        let base = NonNull::new(memory.as_mut_ptr().cast()).expect("a vector's memory");
        // SAFETY: zeros of that length, aligned for a header of words, and borrowed for the test.
        let slots = unsafe { Slots::new(base, SLOT_BYTES, COUNT) };
        (
            slots,
            Kernel {
                memory: base,
                head: 0,
            },
        )
    }

    fn frame(n: u8) -> Vec<u8> {
        vec![n; 60 + n as usize]
    }

    fn put_all(slots: &mut Slots, numbers: std::ops::Range<u8>) {
        for n in numbers {
            let bytes = frame(n);
            assert!(slots.put(bytes.split_at(n as usize)));
        }
    }

    #[test]
    fn frames_come_in_order_however_often_the_ring_goes_round() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = ring(&mut memory);
        for first in (0..60).step_by(3) {
            put_all(&mut slots, first..first + 3);
            let octets: usize = (first..first + 3).map(|n| frame(n).len()).sum();
            assert_eq!((slots.put_frames(), slots.put_bytes()), (3, octets));
            assert_eq!(
                kernel.send(3, 0),
                (first..first + 3).map(frame).collect::<Vec<_>>()
            );
            assert_eq!(slots.settle_all(), 3);
        }
    }

    #[test]
    fn a_full_ring_takes_no_frame_until_one_has_left() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = ring(&mut memory);
        put_all(&mut slots, 0..4);
        assert!(!slots.put((&frame(4), &[])));
        assert_eq!(kernel.send(4, 0).len(), 4);
        // Under way: a device has them still.
        (0..COUNT).for_each(|n| kernel.status(n).store(libc::TP_STATUS_SENDING, Ordering::Release));
        assert_eq!(slots.settle_all(), 4);
        assert!(!slots.put((&frame(4), &[])));
        kernel
            .status(0)
            .store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        assert!(slots.put((&frame(4), &[])));
        assert!(!slots.put((&frame(5), &[])));
        assert_eq!(kernel.send(4, 0), [frame(4)]);
    }

    #[test]
    fn what_a_call_has_not_sent_is_taken_back_and_the_next_frame_goes_there() {
        for then in [libc::TP_STATUS_SEND_REQUEST, libc::TP_STATUS_WRONG_FORMAT] {
            let mut memory = Vec::new();
            let (mut slots, mut kernel) = ring(&mut memory);
            for round in 0..9 {
                put_all(&mut slots, round..round + 3);
                let sent = usize::from(round % 3);
                assert_eq!(kernel.send(sent, then).len(), sent);
                assert_eq!(slots.settle(), sent);
                put_all(&mut slots, 100..101);
                assert_eq!(kernel.send(1, 0), [frame(100)]);
                assert_eq!(slots.settle(), 1);
            }
        }
    }

    #[test]
    fn a_frame_as_long_as_a_slot_fits_and_a_longer_one_does_not() {
        let mut memory = Vec::new();
        let (mut slots, mut kernel) = ring(&mut memory);
        let longest = vec![7; slots.frame_bytes_max()];
        assert_eq!(longest.len(), SLOT_BYTES - 42);
        assert!(!slots.put((&longest, &[1])));
        assert!(slots.put((&longest, &[])));
        assert_eq!(kernel.send(1, 0), [longest]);
    }
}
