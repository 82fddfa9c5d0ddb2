//! Sends bursts of frames from the arena. A descriptor in the transmit ring tells the kernel where a
//! frame is.
//!
//! The kernel reads the transmit ring only in system calls on the socket. In copy mode, the kernel copies a
//! frame before it marks the frame's descriptors as consumed. Descriptors can therefore point directly to the
//! slots of the frames, and the caller keeps these slots. With some drivers, the kernel does not copy the
//! frame. The backend then first copies every frame to a slot of its own.
//!
//! Before [`Transmitter::send`] returns, it withdraws all descriptors that the kernel has not consumed. A
//! withdrawn descriptor is replaced by an invalid descriptor, which the kernel skips. The caller may then
//! reuse the slots.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use xoff_dataplane::FrameHandle;

use super::ring::{Consumer, Producer};
use super::slot_set::SlotSet;
use super::socket;
use crate::arena::{SMALL_FRAME_BYTES, SMALL_SLOT_BYTES};
use crate::{Arena, BURST_FRAMES};

/// An invalid descriptor. Its address is beyond the memory of the socket, so the kernel skips it.
const INVALID_DESCRIPTOR: libc::xdp_desc = libc::xdp_desc {
    addr: u64::MAX,
    len: SMALL_SLOT_BYTES as u32,
    options: 0,
};

/// A frame of the current submission.
#[derive(Clone, Copy)]
struct SubmittedFrame {
    /// Index of the ring entry after the last descriptor of the frame.
    end: u32,
    /// Whether the frame is refused because the device cannot send it. A refused frame gets no descriptor.
    is_refused: bool,
}

/// The transmitting half of an AF_XDP socket.
pub(super) struct Transmitter {
    ring: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// Whether the kernel copies each frame during the send call. If it does, descriptors may point to the
    /// slots of the caller.
    can_send_without_copy: bool,
    /// Slots that the transmitter owns, for copies of frames.
    copy_slots: Vec<FrameHandle>,
    free_slots: Vec<FrameHandle>,
    in_flight: SlotSet,
    /// Index of the ring entry at which the last submission starts.
    submission_start: u32,
    submitted: Vec<SubmittedFrame>,
    /// Largest number of frames in one submission. The number becomes 1 if the device did not accept all
    /// frames of the last submission. After each success, the number doubles.
    window: usize,
    is_withdrawing: bool,
    /// Slots of the withdrawn descriptors. The list may also contain slots of the caller. The transmitter
    /// ignores these slots.
    withdrawn_slots: Vec<FrameHandle>,
    /// Number of descriptors that were withdrawn since the creation of the transmitter.
    pub(super) withdrawn_descriptors: u64,
}

/// Numbers of frames at the front of a burst, by result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BurstCounts {
    /// Number of frames that were sent or refused.
    pub(super) done: usize,
    /// Number of refused frames. `done` includes them.
    pub(super) refused: usize,
}

impl Transmitter {
    /// Creates a transmitter on two rings. `slots` is the number of small slots in the arena.
    pub(super) fn new(
        ring: Producer<libc::xdp_desc>,
        completion: Consumer<u64>,
        can_send_without_copy: bool,
        slots: usize,
    ) -> Transmitter {
        Transmitter {
            ring,
            completion,
            can_send_without_copy,
            copy_slots: Vec::new(),
            free_slots: Vec::new(),
            in_flight: SlotSet::new(slots),
            submission_start: 0,
            submitted: Vec::with_capacity(BURST_FRAMES),
            window: BURST_FRAMES,
            is_withdrawing: false,
            withdrawn_slots: Vec::new(),
            withdrawn_descriptors: 0,
        }
    }

    /// Returns the number of slots for copies.
    pub(super) fn copy_slot_count(&self) -> usize {
        self.copy_slots.len()
    }

    /// Adds an empty slot for copies. From then on, the transmitter owns the slot.
    pub(super) fn add_copy_slot(&mut self, slot: FrameHandle) {
        self.copy_slots.push(slot);
        self.free_slots.push(slot);
    }

    /// Returns the slots for copies. Before the caller reuses these slots, it must close the socket.
    pub(super) fn into_copy_slots(self) -> Vec<FrameHandle> {
        self.copy_slots
    }

    /// Sends frames from the front of `frames`. `refuses` takes the first bytes and the length of a frame,
    /// and returns whether the device would refuse the frame. The result contains the numbers of finished
    /// frames, and the error of the first unfinished frame.
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        arena: &Arena,
        frames: &[FrameHandle],
        refuses: impl Fn(&[u8], usize) -> bool,
    ) -> (BurstCounts, io::Result<()>) {
        let mut counts = BurstCounts::default();
        if let Err(error) = self.finish_withdrawal(socket) {
            return (counts, Err(error));
        }
        while counts.done < frames.len() {
            self.reclaim_slots();
            let end = frames.len().min(counts.done + self.window);
            self.submit_frames(arena, &frames[counts.done..end], &refuses);
            if self.submitted.is_empty() {
                break;
            }
            let result = self.send_submitted(socket);
            let consumed = self.ring.read_consumed();
            let is_done = |frame: &&SubmittedFrame| !is_before(consumed, frame.end);
            let done = self.submitted.iter().take_while(is_done).count();
            counts.done += done;
            counts.refused += self.submitted[..done]
                .iter()
                .filter(|frame| frame.is_refused)
                .count();
            if done < self.submitted.len() {
                self.withdraw_frames(done);
                self.window = 1;
                return (counts, result);
            }
            self.window = BURST_FRAMES.min(2 * self.window);
        }
        (counts, Ok(()))
    }

    /// Writes descriptors for the front of `frames`, as long as the ring and the copy slots have space.
    fn submit_frames(
        &mut self,
        arena: &Arena,
        frames: &[FrameHandle],
        refuses: &impl Fn(&[u8], usize) -> bool,
    ) {
        self.submitted.clear();
        self.submission_start = self.ring.next_index();
        for frame in frames {
            let (own, rest) = arena.segments(*frame);
            let is_refused = refuses(own, own.len() + rest.len());
            if !is_refused && !self.write_descriptors(arena, UnsentSegments { own, rest }) {
                break;
            }
            self.submitted.push(SubmittedFrame {
                end: self.ring.next_index(),
                is_refused,
            });
        }
        self.ring.publish();
    }

    /// Writes the descriptors of a frame. Returns false if the ring is full or no copy slot is free.
    fn write_descriptors(&mut self, arena: &Arena, mut frame: UnsentSegments<'_>) -> bool {
        if self.can_send_without_copy
            && frame.rest.is_empty()
            && let Some(addr) = arena.offset_in_small_region(frame.own)
        {
            return self.ring.write(libc::xdp_desc {
                addr,
                len: frame.own.len() as u32,
                options: 0,
            });
        }
        let len = frame.own.len() + frame.rest.len();
        let count = len.div_ceil(SMALL_FRAME_BYTES);
        if self.free_slots.len() < count || (self.ring.free_entries() as usize) < count {
            return false;
        }
        for left in (1..=count).rev() {
            let Some(slot) = self.free_slots.pop() else {
                return false;
            };
            self.in_flight.insert(slot);
            // SAFETY: the transmitter owns the slot, which is empty and shares no bytes. The kernel has
            // released it.
            let space = unsafe { arena.frame_space(slot) };
            let filled = frame.copy_next(space);
            let headroom = SMALL_SLOT_BYTES - SMALL_FRAME_BYTES;
            let written = self.ring.write(libc::xdp_desc {
                addr: u64::from(slot.0) * SMALL_SLOT_BYTES as u64 + headroom as u64,
                len: filled as u32,
                options: if left > 1 { libc::XDP_PKT_CONTD } else { 0 },
            });
            debug_assert!(written, "the ring has a free entry");
        }
        true
    }

    /// Calls the kernel until all submitted descriptors are consumed. Returns an error if the kernel makes
    /// no progress.
    fn send_submitted(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut consumed = self.ring.read_consumed();
        // The kernel returns an error for each frame that the device drops, and it consumes the frame.
        let mut idle_calls_left = 2 * BURST_FRAMES;
        while self.ring.read_consumed() != self.ring.next_index() {
            let result = socket::start_transmission(socket);
            let now = self.ring.read_consumed();
            let has_moved = std::mem::replace(&mut consumed, now) != now;
            idle_calls_left = idle_calls_left.saturating_sub(usize::from(!has_moved));
            match result {
                Ok(()) if has_moved || idle_calls_left > 0 => {}
                Ok(()) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => match error.raw_os_error() {
                    // The device has dropped and counted a frame.
                    Some(libc::EBUSY) if idle_calls_left > 0 => {}
                    Some(libc::EINTR) if idle_calls_left > 0 => {}
                    Some(libc::EAGAIN) if has_moved => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Withdraws the submitted frames from index `first` on. The kernel must not have consumed the
    /// descriptors of these frames. The function replaces these descriptors by invalid descriptors.
    fn withdraw_frames(&mut self, first: usize) {
        let mut index = match first {
            0 => self.submission_start,
            _ => self.submitted[first - 1].end,
        };
        // This includes descriptors of a frame that the kernel has read in part. The kernel drops the part.
        self.withdrawn_descriptors += u64::from(self.ring.next_index().wrapping_sub(index));
        self.withdrawn_slots.clear();
        while index != self.ring.next_index() {
            let slot = slot_of_address(self.ring.written_entry(index).addr);
            self.withdrawn_slots.push(slot);
            // SAFETY: the kernel reads this ring only in system calls on the socket. Only this thread makes
            // such calls, and it makes none now.
            unsafe { self.ring.replace_entry(index, INVALID_DESCRIPTOR) };
            index = index.wrapping_add(1);
        }
        self.is_withdrawing = true;
    }

    /// Calls the kernel until all withdrawn descriptors are skipped. Each call skips one descriptor.
    fn finish_withdrawal(&mut self, socket: &OwnedFd) -> io::Result<()> {
        if !self.is_withdrawing {
            return Ok(());
        }
        for _ in 0..self.ring.next_index().wrapping_sub(self.ring.read_consumed()) + 2 {
            if self.ring.read_consumed() == self.ring.next_index() {
                break;
            }
            match socket::start_transmission(socket) {
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        if self.ring.read_consumed() != self.ring.next_index() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.is_withdrawing = false;
        // The completion ring contains the slots of sent and dropped frames. All other slots are still
        // in flight.
        self.reclaim_slots();
        for slot in std::mem::take(&mut self.withdrawn_slots) {
            if self.in_flight.remove(slot) {
                self.free_slots.push(slot);
            }
        }
        Ok(())
    }

    /// Takes back the copy slots that the kernel has released.
    fn reclaim_slots(&mut self) {
        let mut has_entries = false;
        while let Some(addr) = self.completion.peek(0) {
            self.completion.advance(1);
            has_entries = true;
            let slot = slot_of_address(addr);
            if self.in_flight.len() > 0 && self.in_flight.remove(slot) {
                self.free_slots.push(slot);
            }
        }
        if has_entries {
            self.completion.release();
        }
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter").finish_non_exhaustive()
    }
}

/// Returns the slot at an address in the memory of the socket.
pub(super) fn slot_of_address(addr: u64) -> FrameHandle {
    FrameHandle((addr / SMALL_SLOT_BYTES as u64).min(u64::from(u32::MAX)) as u32)
}

/// Returns whether `index` is before `other` in a ring. Indices wrap around.
fn is_before(index: u32, other: u32) -> bool {
    (index.wrapping_sub(other) as i32) < 0
}

/// The parts of a frame that are not copied yet.
struct UnsentSegments<'a> {
    own: &'a [u8],
    rest: &'a [u8],
}

impl UnsentSegments<'_> {
    /// Copies the next bytes of the frame to `output` and returns their number. These bytes are removed from
    /// the segments.
    fn copy_next(&mut self, output: &mut [u8]) -> usize {
        let mut filled = 0;
        for segment in [&mut self.own, &mut self.rest] {
            let (now, later) = segment.split_at(segment.len().min(output.len() - filled));
            output[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            *segment = later;
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_two_segments_is_split_into_slots() {
        let bytes: Vec<u8> = (0..10).collect();
        for split in 0..=10 {
            let (own, rest) = bytes.split_at(split);
            let mut segments = UnsentSegments { own, rest };
            let mut output = [0; 4];
            let mut chunks = Vec::new();
            loop {
                match segments.copy_next(&mut output) {
                    0 => break,
                    filled => chunks.push(output[..filled].to_vec()),
                }
            }
            assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
            assert_eq!(chunks.concat(), bytes);
        }
    }

    #[test]
    fn indices_compare_across_the_wrap() {
        assert!(is_before(1, 2) && !is_before(2, 2) && !is_before(3, 2));
        assert!(is_before(u32::MAX, 0) && !is_before(0, u32::MAX));
    }
}
