//! AF_XDP: native mode, copy, and the arena's small slots as the socket's memory.
//!
//! The kernel copies a received frame into a slot that it was given, [`HEADROOM_BYTES`] from its start: the place
//! where a frame lies in a slot. So it stays there. A frame that takes more than one slot is gathered into a large one.
//! The port holds as many slots as its receive ring has entries and gives one out only against another, so frames wait in
//! the kernel's hands while slots are short.
//!
//! The kernel tells nothing beside the bytes: VLAN tags are in them, and whether a checksum is finished has to be
//! known of the far end, or is judged by [`looks_unfinished`]. Time stamps are those of the read.
//!
//! [`HEADROOM_BYTES`]: xoff_dataplane::frame::HEADROOM_BYTES

pub(super) mod bpf;
mod fetch;
mod open;
mod ring;
mod slots;
mod socket;
mod transmit;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use xoff_dataplane::frame::HEADROOM_BYTES;
use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::arena::{SMALL_FRAME_BYTES, SMALL_SLOT_BYTES};
use super::clock::monotonic_ns;
use super::count::{DropCounts, Growing};
use super::device::Device;
use super::guard::Guarded;
use super::judge::{Found, harm, looks_unfinished, warning};
use super::socket::take_error;
use super::{
    Arena, BURST_FRAMES, PortDrops, PortSpec, Received, SlotClass, SlotSource, is_gone, longest_frame,
};
use ring::{Consumer, Producer};
use slots::SlotSet;
use transmit::{Transmitter, slot_at};

/// How many empty looks at the ring pass between questions whether the device still exists.
const LOOKS_PER_QUESTION: u32 = 64;
/// Octets of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Octets up to which the kernel's receive path throws a tagged frame away, unseen by any packet socket.
const TAGGED_BYTES_MIN: usize = 20;

/// Slots that a port of this MTU holds: to receive into, and to copy into what cannot be sent from where it lies.
pub(super) fn slots_held(mtu: u32) -> usize {
    let chunks_per_frame = (longest_frame(mtu) as usize).div_ceil(SMALL_FRAME_BYTES);
    socket::RECEIVE_ENTRIES as usize + 2 * BURST_FRAMES * chunks_per_frame
}

/// A netdev driven through AF_XDP.
#[derive(Debug)]
pub struct Xdp {
    spec: PortSpec,
    device: Device,
    /// The rings; there once it is known in which arena frames lie. Before the socket: their pages belong to it.
    live: Option<Live>,
    program: bpf::Program,
    /// Closing it detaches the program. `None` after the end of the port's work.
    link: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    /// Makes the device take frames to whatever address.
    promiscuous: OwnedFd,
    /// The kernel copies frames at once that are sent.
    direct: bool,
    device_mtu: u32,
    longest: u32,
    drops: DropCounts,
    losses: Losses,
    warned: bool,
    told_of_cut_tags: bool,
    notes: Vec<String>,
    empty_looks: u32,
    /// Last: puts the device back when program and socket are gone.
    guarded: Guarded,
}

/// What exists once the arena is known.
#[derive(Debug)]
struct Live {
    fill: Producer<u64>,
    receive: Consumer<libc::xdp_desc>,
    transmitter: Transmitter,
    /// Slots to receive into: in a ring, or on their way between the two.
    posted: SlotSet,
    /// Slots the transmitter is to have.
    chunks: usize,
    /// The program knows the socket.
    is_served: bool,
    /// After the rings, which point into it.
    arena: Arc<Arena>,
}

/// Counters of the kernel that say what was lost.
#[derive(Debug)]
struct Losses {
    tx_dropped: Growing,
    rx_dropped: Growing,
    /// Frames that found no room in the socket, where the device does not count them too.
    socket: Option<Growing>,
    misses: Growing,
    invalid: Growing,
}

/// A frame in the receive ring.
#[derive(Clone, Copy)]
struct Waiting {
    first: libc::xdp_desc,
    descriptors: u32,
    len: usize,
}

/// What became of it.
enum Outcome {
    Delivered,
    Dropped(DropReason),
    /// No packet socket would have seen it.
    Ignored,
    /// There is no slot: it waits.
    Waits,
}

impl Xdp {
    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        let (Some(live), Some(socket)) = (&mut self.live, &self.socket) else {
            return Ok(0);
        };
        live.stock(slots);
        if !live.is_served && live.posted.len() > 0 {
            // From here on a frame that finds no socket is lost.
            self.program.serve(socket.as_fd())?;
            self.losses.misses = Growing::new(self.program.misses().ok());
            live.is_served = true;
        }
        if live.waiting().is_none() {
            return self.look_again().map(|()| 0);
        }
        let received_ns = monotonic_ns();
        let mut received = 0;
        let is_finished = self.guarded.checksums_finished;
        live.fetch_first();
        while received < max {
            let Some(waiting) = live.waiting() else { break };
            live.fetch();
            match live.take(waiting, slots, self.longest, is_finished, received_ns, out) {
                Outcome::Delivered => received += 1,
                Outcome::Dropped(reason) => {
                    self.drops.add(reason);
                    if !std::mem::replace(&mut self.warned, true) {
                        self.notes
                            .push(warning(&self.spec.device, self.guarded.tap, self.longest, reason));
                    }
                }
                Outcome::Ignored => {
                    if !std::mem::replace(&mut self.told_of_cut_tags, true) {
                        self.notes.push(cut_tag(&self.spec.device));
                    }
                }
                Outcome::Waits => break,
            }
        }
        live.receive.release();
        live.fill.publish();
        Ok(received)
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        let (Some(live), Some(socket)) = (&mut self.live, &self.socket) else {
            return Ok(0);
        };
        debug_assert!(std::ptr::eq(arena, &*live.arena), "frames of another arena");
        let mtu = self.device_mtu as usize;
        let refuses = |start: &[u8], len: usize| is_refused(start, len, mtu);
        let (sent, result) = live.transmitter.send(socket, arena, frames, refuses);
        for _ in 0..sent.refused {
            self.drops.add(DropReason::BackendRefused);
        }
        match result {
            // Frames that were taken are told first; the error comes again next time.
            Err(error) if sent.taken == 0 && is_gone(&error) && !self.device.exists() => Err(gone()),
            _ => Ok(sent.taken),
        }
    }

    /// An empty ring looks the same whether nothing comes or the device is gone.
    fn look_again(&mut self) -> io::Result<()> {
        self.empty_looks += 1;
        if self.empty_looks < LOOKS_PER_QUESTION {
            return Ok(());
        }
        self.empty_looks = 0;
        let Some(socket) = &self.socket else { return Ok(()) };
        match take_error(socket)? {
            // The socket has lost its device for good, and does not find it again under its name.
            Some(error) if is_gone(&error) => Err(gone()),
            Some(error) => Err(error),
            None if self.device.exists() => Ok(()),
            None => Err(gone()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // After the end of its work there is nothing to wait for, on whatever descriptor.
        self.socket.as_ref().unwrap_or(&self.promiscuous).as_fd()
    }

    pub(super) fn link_up(&mut self) -> bool {
        let is_running = self.device.is_running();
        if !is_running {
            // If it is gone, the next look is to notice: poll(2) does not wake for that.
            self.empty_looks = LOOKS_PER_QUESTION;
        }
        is_running && self.live.as_ref().is_some_and(|live| live.is_served)
    }

    pub(super) fn drops(&mut self) -> PortDrops {
        if let Ok(mtu) = self.device.mtu() {
            self.device_mtu = mtu;
        }
        PortDrops {
            by_reason: self.drops.take(),
            lost: self.lost(),
            notes: std::mem::take(&mut self.notes),
        }
    }

    /// Frames that the kernel lost since the last call.
    fn lost(&mut self) -> u64 {
        let (Some(live), Some(socket)) = (&self.live, &self.socket) else {
            return 0;
        };
        if !live.is_served {
            return 0;
        }
        // In this order: what the socket could not take is counted by the device a moment later.
        let statistics = socket::statistics(socket).ok();
        let dropped = self.device.dropped();
        let losses = &mut self.losses;
        let mut lost = losses.tx_dropped.growth(dropped.map(|dropped| dropped.tx))
            + losses.rx_dropped.growth(dropped.map(|dropped| dropped.rx))
            + losses.misses.growth(self.program.misses().ok());
        if let Some(of_socket) = &mut losses.socket {
            let refused = statistics.map(|statistics| statistics.rx_dropped + statistics.rx_ring_full);
            lost += of_socket.growth(refused);
        }
        // Those that were withdrawn are counted there too.
        let withdrawn = live.transmitter.withdrawn;
        let invalid = statistics.map(|statistics| statistics.tx_invalid_descs.saturating_sub(withdrawn));
        lost + losses.invalid.growth(invalid)
    }

    pub(super) fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        // No frame comes any more; then the rings are unmapped, and with the last reference to it the socket ends. The
        // kernel has let go of all slots when that returns.
        self.link = None;
        let Some(mut live) = self.live.take() else {
            return true;
        };
        let mut held = live.posted.take_all();
        drop((live.fill, live.receive));
        held.extend(live.transmitter.into_chunks());
        self.socket = None;
        held.into_iter().for_each(|slot| slots.put(slot));
        true
    }

    pub(super) fn slots_held(&self) -> usize {
        self.spec.slots_held()
    }

    pub(super) fn device(&self) -> &str {
        &self.spec.device
    }
}

impl Live {
    /// Takes slots until the port has as many as it may.
    fn stock(&mut self, slots: &mut impl SlotSource) {
        debug_assert!(
            std::ptr::eq(slots.arena(), &*self.arena),
            "slots of another arena"
        );
        if self.posted.len() == socket::RECEIVE_ENTRIES as usize
            && self.transmitter.chunk_count() == self.chunks
        {
            return;
        }
        while self.transmitter.chunk_count() < self.chunks {
            let Some(slot) = slots.take_class(SlotClass::Small) else {
                break;
            };
            self.transmitter.adopt(slot);
        }
        while self.posted.len() < socket::RECEIVE_ENTRIES as usize {
            let Some(slot) = slots.take_class(SlotClass::Small) else {
                break;
            };
            self.post(slot);
        }
        self.fill.publish();
    }

    /// Gives the kernel an empty slot to receive into.
    fn post(&mut self, slot: FrameHandle) {
        self.posted.insert(slot);
        let written = self.fill.write(u64::from(slot.0) * SMALL_SLOT_BYTES as u64);
        debug_assert!(written, "the ring has two places for every slot that is posted");
    }

    /// The frame that came first of those that wait.
    fn waiting(&mut self) -> Option<Waiting> {
        let first = self.receive.peek(0)?;
        let mut waiting = Waiting {
            first,
            descriptors: 1,
            len: first.len as usize,
        };
        let mut last = first;
        while last.options & libc::XDP_PKT_CONTD != 0 {
            last = self.receive.peek(waiting.descriptors)?;
            waiting.descriptors += 1;
            waiting.len += last.len as usize;
        }
        Some(waiting)
    }

    /// Delivers a frame, or does with it what has to be done.
    fn take(
        &mut self,
        waiting: Waiting,
        slots: &mut impl SlotSource,
        longest: u32,
        is_finished: bool,
        received_ns: u64,
        out: &mut Vec<Received>,
    ) -> Outcome {
        let found = Found {
            len: waiting.len as u64,
            tag_bytes: 0,
            stored: waiting.len,
        };
        if let Some(reason) = harm(found, longest, || false) {
            self.recycle(waiting);
            return Outcome::Dropped(reason);
        }
        let Some(frame) = self.settle(waiting, slots) else {
            return Outcome::Waits;
        };
        let bytes = &slots.room(frame)[..waiting.len];
        if is_cut_tag(bytes) {
            slots.put(frame);
            return Outcome::Ignored;
        }
        // Written where it is to lie, and asked there: a copy would wait for its fields.
        out.push(Received {
            frame,
            frame_len: waiting.len as u32,
            parsed: parse(bytes),
            received_ns,
            arrives: None,
        });
        let harm = harm(found, longest, || {
            let delivered = out.last().filter(|_| !is_finished);
            delivered.is_some_and(|received| looks_unfinished(bytes, &received.parsed))
        });
        let Some(reason) = harm else {
            return Outcome::Delivered;
        };
        out.pop();
        slots.put(frame);
        Outcome::Dropped(reason)
    }

    /// Makes a frame lie in one slot that is no more the port's; `None` if there is no slot for that.
    fn settle(&mut self, waiting: Waiting, slots: &mut impl SlotSource) -> Option<FrameHandle> {
        let replacement = match waiting.descriptors {
            1 => slots.take_class(SlotClass::Small),
            _ => None,
        };
        let Some(replacement) = replacement else {
            return self.gather(waiting, slots);
        };
        self.receive.advance(1);
        let frame = slot_at(waiting.first.addr);
        if !self.posted.remove(frame) || !is_whole(&waiting.first) {
            // Not what was given to the kernel: its word is not taken for it.
            debug_assert!(false, "the kernel filled what it was not given: {frame:?}");
            slots.put(replacement);
            return None;
        }
        self.post(replacement);
        slots.set_frame(frame, waiting.len);
        Some(frame)
    }

    /// Copies a frame that lies in several slots, or whose slot cannot be replaced, into one that is large enough.
    fn gather(&mut self, waiting: Waiting, slots: &mut impl SlotSource) -> Option<FrameHandle> {
        let frame = slots.take(waiting.len)?;
        let mut filled = 0;
        for ahead in 0..waiting.descriptors {
            let part = self.receive.peek(ahead)?;
            debug_assert!(is_whole(&part));
            let len = (part.len as usize).min(SMALL_FRAME_BYTES);
            // SAFETY: the slot is the port's, which has taken it from the kernel by this descriptor; it is not shared.
            let bytes = unsafe { &self.arena.room(slot_at(part.addr))[..len] };
            slots.room(frame)[filled..filled + len].copy_from_slice(bytes);
            filled += len;
        }
        slots.set_frame(frame, filled);
        self.recycle(waiting);
        Some(frame)
    }

    /// Gives the slots of a frame back to the kernel.
    fn recycle(&mut self, waiting: Waiting) {
        for ahead in 0..waiting.descriptors {
            if let Some(part) = self.receive.peek(ahead)
                && self.posted.remove(slot_at(part.addr))
            {
                self.post(slot_at(part.addr));
            }
        }
        self.receive.advance(waiting.descriptors);
    }
}

/// Whether what a descriptor speaks of lies where a frame lies in a slot.
fn is_whole(part: &libc::xdp_desc) -> bool {
    part.addr % SMALL_SLOT_BYTES as u64 == HEADROOM_BYTES as u64 && part.len as usize <= SMALL_FRAME_BYTES
}

/// Whether the kernel's receive path throws this frame away before any packet socket sees it: it begins with a tag, and
/// what the tag speaks of is cut off.
fn is_cut_tag(frame: &[u8]) -> bool {
    frame.len() < TAGGED_BYTES_MIN && matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

fn cut_tag(device: &str) -> String {
    format!(
        "frames arrive on '{device}' whose VLAN tag is cut off; they are ignored and counted nowhere, as by every port"
    )
}

/// Whether a packet socket on a device of this MTU would refuse to send a frame that begins so, of this length.
fn is_refused(start: &[u8], len: usize, mtu: usize) -> bool {
    // The kernel grants the length of a tag to 802.1Q only.
    let tag = match start.get(12..14) {
        Some([0x81, 0x00]) => 4,
        _ => 0,
    };
    len < ETHERNET_BYTES || len > mtu + ETHERNET_BYTES + tag
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(ethertype: [u8; 2]) -> Vec<u8> {
        [&[2; 12][..], &ethertype].concat()
    }

    #[test]
    fn the_length_that_a_packet_socket_grants_is_granted() {
        let (plain, dot1q, dot1ad) = (start([8, 0]), start([0x81, 0]), start([0x88, 0xa8]));
        assert!(!is_refused(&plain, 1514, 1500) && is_refused(&plain, 1515, 1500));
        assert!(!is_refused(&dot1q, 1518, 1500) && is_refused(&dot1q, 1519, 1500));
        assert!(!is_refused(&dot1ad, 1514, 1500) && is_refused(&dot1ad, 1515, 1500));
        assert!(!is_refused(&plain, 14, 1500) && is_refused(&plain[..13], 13, 1500));
    }

    #[test]
    fn a_tag_without_what_it_speaks_of_is_cut() {
        let tagged = [&start([0x81, 0])[..], &[0; 6]].concat();
        assert!(!is_cut_tag(&tagged));
        assert!((14..20).all(|len| is_cut_tag(&tagged[..len])));
        assert!(!is_cut_tag(&start([8, 0])));
    }

    #[test]
    fn slots_are_for_bursts_of_the_longest_frames() {
        assert_eq!(slots_held(1500), 2_048 + 128);
        assert_eq!(slots_held(9216), 2_048 + 128 * 6);
    }
}
