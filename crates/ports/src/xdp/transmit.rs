//! Bursts out of the arena by descriptors.
//!
//! The kernel reads the transmit ring only within system calls on the socket, and in copy mode it has copied a frame
//! when it says that it has consumed its descriptors (all but drivers that take frames without a linear part: for
//! those every frame is copied here). So descriptors point into the frames' own slots, which stay the caller's. What
//! the kernel has not consumed when [`Transmitter::send`] ends is withdrawn: its descriptors are made invalid, which
//! the kernel passes over, so that nothing is sent of a slot that the caller has put to another use.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use xoff_dataplane::FrameHandle;

use super::ring::{Consumer, Producer};
use super::slots::SlotSet;
use super::socket;
use crate::arena::{SMALL_FRAME_BYTES, SMALL_SLOT_BYTES};
use crate::{Arena, BURST_FRAMES};

/// What the kernel takes for no descriptor: an address beyond any memory.
const INVALID: libc::xdp_desc = libc::xdp_desc {
    addr: u64::MAX,
    len: SMALL_SLOT_BYTES as u32,
    options: 0,
};

/// A frame whose descriptors are in the ring.
#[derive(Clone, Copy)]
struct Submitted {
    /// The index behind its last descriptor.
    end: u32,
    /// It has none: the device would not send it.
    refused: bool,
}

/// The transmitting half of a socket.
pub(super) struct Transmitter {
    ring: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// Whether the kernel copies each frame at once, so that descriptors may point into the caller's slots.
    direct: bool,
    /// Slots of ours into which other frames are copied.
    chunks: Vec<FrameHandle>,
    free: Vec<FrameHandle>,
    in_flight: SlotSet,
    /// Where in the ring the frames of the last round begin.
    begin: u32,
    submitted: Vec<Submitted>,
    /// Frames put in the ring at once: few after the device has taken none.
    window: usize,
    is_withdrawing: bool,
    /// Slots of ours behind descriptors that are being withdrawn, and slots of others, which do not matter.
    withdrawn_slots: Vec<FrameHandle>,
    /// Descriptors that were withdrawn, ever.
    pub(super) withdrawn: u64,
}

/// How far a call got.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Frames from the front that are done with.
    pub(super) taken: usize,
    /// Of these, refused.
    pub(super) refused: usize,
}

impl Transmitter {
    pub(super) fn new(
        ring: Producer<libc::xdp_desc>,
        completion: Consumer<u64>,
        direct: bool,
        slots: usize,
    ) -> Transmitter {
        Transmitter {
            ring,
            completion,
            direct,
            chunks: Vec::new(),
            free: Vec::new(),
            in_flight: SlotSet::new(slots),
            begin: 0,
            submitted: Vec::with_capacity(BURST_FRAMES),
            window: BURST_FRAMES,
            is_withdrawing: false,
            withdrawn_slots: Vec::new(),
            withdrawn: 0,
        }
    }

    /// How many slots it has to copy into.
    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Takes a slot to copy into, for good.
    pub(super) fn adopt(&mut self, slot: FrameHandle) {
        self.chunks.push(slot);
        self.free.push(slot);
    }

    /// Its slots, which go back to where they came from. The socket is closed.
    pub(super) fn into_chunks(self) -> Vec<FrameHandle> {
        self.chunks
    }

    /// Sends frames from the front; `refuses` says which the device would not. An error comes with what was sent before it.
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        arena: &Arena,
        frames: &[FrameHandle],
        refuses: impl Fn(&[u8], usize) -> bool,
    ) -> (Sent, io::Result<()>) {
        let mut sent = Sent::default();
        if let Err(error) = self.finish_withdrawal(socket) {
            return (sent, Err(error));
        }
        while sent.taken < frames.len() {
            self.reap();
            let end = frames.len().min(sent.taken + self.window);
            self.submit(arena, &frames[sent.taken..end], &refuses);
            if self.submitted.is_empty() {
                break;
            }
            let result = self.push(socket);
            let consumed = self.ring.consumed();
            let done = |frame: &&Submitted| !is_before(consumed, frame.end);
            let taken = self.submitted.iter().take_while(done).count();
            sent.taken += taken;
            sent.refused += self.submitted[..taken]
                .iter()
                .filter(|frame| frame.refused)
                .count();
            if taken < self.submitted.len() {
                self.withdraw(taken);
                self.window = 1;
                return (sent, result);
            }
            self.window = BURST_FRAMES.min(2 * self.window);
        }
        (sent, Ok(()))
    }

    /// Puts descriptors of as many frames in the ring as there is room for.
    fn submit(&mut self, arena: &Arena, frames: &[FrameHandle], refuses: &impl Fn(&[u8], usize) -> bool) {
        self.submitted.clear();
        self.begin = self.ring.next();
        for frame in frames {
            let (own, rest) = arena.segments(*frame);
            let refused = refuses(own, own.len() + rest.len());
            if !refused && !self.describe(arena, Parts { own, rest }) {
                break;
            }
            self.submitted.push(Submitted {
                end: self.ring.next(),
                refused,
            });
        }
        self.ring.publish();
    }

    /// Writes the descriptors of a frame; false if there is no room for all of them.
    fn describe(&mut self, arena: &Arena, mut frame: Parts<'_>) -> bool {
        if self.direct
            && frame.rest.is_empty()
            && let Some(addr) = arena.place_in_small_region(frame.own)
        {
            return self.ring.write(libc::xdp_desc {
                addr,
                len: frame.own.len() as u32,
                options: 0,
            });
        }
        let len = frame.own.len() + frame.rest.len();
        let count = len.div_ceil(SMALL_FRAME_BYTES);
        if self.free.len() < count || (self.ring.room() as usize) < count {
            return false;
        }
        for left in (1..=count).rev() {
            let Some(chunk) = self.free.pop() else {
                return false;
            };
            self.in_flight.insert(chunk);
            // SAFETY: the slot is ours, empty and unshared, and the kernel has done with it.
            let room = unsafe { arena.room(chunk) };
            let filled = frame.fill(room);
            let headroom = SMALL_SLOT_BYTES - SMALL_FRAME_BYTES;
            let written = self.ring.write(libc::xdp_desc {
                addr: u64::from(chunk.0) * SMALL_SLOT_BYTES as u64 + headroom as u64,
                len: filled as u32,
                options: if left > 1 { libc::XDP_PKT_CONTD } else { 0 },
            });
            debug_assert!(written, "there was room");
        }
        true
    }

    /// Has the kernel consume the ring, as far as it does.
    fn push(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut before = self.ring.consumed();
        // Frames that the device drops come back as an error each, and are consumed.
        let mut patience = 2 * BURST_FRAMES;
        while self.ring.consumed() != self.ring.next() {
            let result = socket::kick(socket);
            let now = self.ring.consumed();
            let moved = std::mem::replace(&mut before, now) != now;
            patience = patience.saturating_sub(usize::from(!moved));
            match result {
                Ok(()) if moved || patience > 0 => {}
                Ok(()) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => match error.raw_os_error() {
                    // The device has dropped one and counted it.
                    Some(libc::EBUSY) if patience > 0 => {}
                    Some(libc::EINTR) if patience > 0 => {}
                    Some(libc::EAGAIN) if moved => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Makes the descriptors invalid that the kernel has not consumed: those of submitted frames from `first` on.
    fn withdraw(&mut self, first: usize) {
        let mut index = match first {
            0 => self.begin,
            _ => self.submitted[first - 1].end,
        };
        // With those of a frame that it had begun: it drops what it has of it.
        self.withdrawn += u64::from(self.ring.next().wrapping_sub(index));
        self.withdrawn_slots.clear();
        while index != self.ring.next() {
            let slot = slot_at(self.ring.written(index).addr);
            self.withdrawn_slots.push(slot);
            // SAFETY: the kernel reads this ring only within system calls on the socket, and this thread, whose they
            // all are, makes none now.
            unsafe { self.ring.replace(index, INVALID) };
            index = index.wrapping_add(1);
        }
        self.is_withdrawing = true;
    }

    /// Has the kernel pass over what was withdrawn: one descriptor a call, and it tells at the end.
    fn finish_withdrawal(&mut self, socket: &OwnedFd) -> io::Result<()> {
        if !self.is_withdrawing {
            return Ok(());
        }
        for _ in 0..self.ring.next().wrapping_sub(self.ring.consumed()) + 2 {
            if self.ring.consumed() == self.ring.next() {
                break;
            }
            match socket::kick(socket) {
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        if self.ring.consumed() != self.ring.next() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.is_withdrawing = false;
        // Those that were sent or dropped are told as completed first; the others never are.
        self.reap();
        for slot in std::mem::take(&mut self.withdrawn_slots) {
            if self.in_flight.remove(slot) {
                self.free.push(slot);
            }
        }
        Ok(())
    }

    /// Takes back the slots of ours that the kernel has done with.
    fn reap(&mut self) {
        let mut any = false;
        while let Some(addr) = self.completion.peek(0) {
            self.completion.advance(1);
            any = true;
            let slot = slot_at(addr);
            if self.in_flight.len() > 0 && self.in_flight.remove(slot) {
                self.free.push(slot);
            }
        }
        if any {
            self.completion.release();
        }
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter").finish_non_exhaustive()
    }
}

/// The slot that an address in the socket's memory lies in.
pub(super) fn slot_at(addr: u64) -> FrameHandle {
    FrameHandle((addr / SMALL_SLOT_BYTES as u64).min(u64::from(u32::MAX)) as u32)
}

/// Whether an index comes before another, of a ring whose indices wrap around.
fn is_before(index: u32, other: u32) -> bool {
    (index.wrapping_sub(other) as i32) < 0
}

/// A frame, or what is left of it.
struct Parts<'a> {
    own: &'a [u8],
    rest: &'a [u8],
}

impl Parts<'_> {
    /// Moves as much of it as fits into `room` and returns how much.
    fn fill(&mut self, room: &mut [u8]) -> usize {
        let mut filled = 0;
        for part in [&mut self.own, &mut self.rest] {
            let (now, later) = part.split_at(part.len().min(room.len() - filled));
            room[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            *part = later;
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_in_two_parts_is_cut_into_chunks() {
        let bytes: Vec<u8> = (0..10).collect();
        for split in 0..=10 {
            let (own, rest) = bytes.split_at(split);
            let mut parts = Parts { own, rest };
            let mut room = [0; 4];
            let mut chunks = Vec::new();
            loop {
                match parts.fill(&mut room) {
                    0 => break,
                    filled => chunks.push(room[..filled].to_vec()),
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
