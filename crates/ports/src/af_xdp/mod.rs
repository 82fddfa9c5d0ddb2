//! Backend on AF_XDP in native copy mode. The small slots of the arena are the memory of the socket.
//!
//! The kernel copies a received frame into an empty slot, [`HEADROOM_BYTES`] after the start of the slot. All
//! frames of the arena start at this offset, so the backend does not copy the frame again. If a frame
//! occupies several slots, the backend copies it into one large slot.
//!
//! The port holds as many slots as its receive ring has entries. To deliver a slot with a received frame, the
//! port needs an empty slot as replacement. If no slot is empty, received frames wait in the kernel.
//!
//! The kernel gives the backend no metadata of a frame. VLAN tags must therefore be in the frame itself. If
//! the far end is known to finish checksums, the backend does not check them. Otherwise, the backend checks
//! each frame with [`has_unfinished_checksum`]. The time stamp of a frame is the time at which the backend
//! reads the frame.
//!
//! [`HEADROOM_BYTES`]: xoff_dataplane::frame::HEADROOM_BYTES

pub(super) mod bpf;
mod open;
mod prefetch;
mod ring;
mod slot_set;
mod socket;
mod transmitter;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use xoff_dataplane::frame::HEADROOM_BYTES;
use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::arena::{SMALL_FRAME_BYTES, SMALL_SLOT_BYTES};
use super::clock::monotonic_ns;
use super::device_setup::DeviceSetup;
use super::device_state::Device;
use super::drop_counts::{DropCounts, FramePriority, KernelCounter};
use super::frame_check::{CapturedLengths, drop_message, find_drop_reason, has_unfinished_checksum};
use super::packet_socket::take_error;
use super::{
    Arena, BURST_FRAMES, PortDrops, PortFrame, PortSpec, SlotClass, SlotSource, frame_len_max,
    is_device_removed,
};
use ring::{Consumer, Producer};
use slot_set::SlotSet;
use transmitter::{Transmitter, slot_of_address};

/// Number of reads from an empty ring between two checks that the device exists.
const EMPTY_READS_PER_CHECK: u32 = 64;
/// Length of an Ethernet header in bytes.
const ETHERNET_BYTES: usize = 14;
/// Length of the shortest tagged frame that a packet socket receives, in bytes. The kernel discards shorter
/// tagged frames.
const TAGGED_BYTES_MIN: usize = 20;

/// Returns the number of slots that a port with this MTU occupies as long as it is open. There are two kinds
/// of these slots: slots for received frames, and slots for copies of frames that cannot be sent directly
/// from their slot.
pub(super) fn reserved_slots(mtu: u32) -> usize {
    let slots_per_frame = (frame_len_max(mtu) as usize).div_ceil(SMALL_FRAME_BYTES);
    socket::RECEIVE_ENTRIES as usize + 2 * BURST_FRAMES * slots_per_frame
}

/// A network device with an AF_XDP socket.
#[derive(Debug)]
pub struct XdpPort {
    spec: PortSpec,
    device: Device,
    /// Rings of the socket. `None` until the arena is known. This field is declared before the socket,
    /// because the rings must be unmapped before the socket is closed.
    active: Option<ActiveSocket>,
    program: bpf::PortProgram,
    /// Descriptor of the attached program. Closing the descriptor detaches the program. `None` after the port
    /// was closed.
    link: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    /// A packet socket that makes the device accept frames to any destination address.
    promiscuous: OwnedFd,
    /// Whether the kernel copies each frame during the send call. If it does, the backend can send a frame
    /// from the frame's own slot.
    can_send_without_copy: bool,
    device_mtu: u32,
    frame_len_max: u32,
    drops: DropCounts,
    losses: LossCounters,
    has_warned: bool,
    has_warned_of_truncated_tags: bool,
    notes: Vec<String>,
    empty_reads: u32,
    /// This field is declared last, so that the device settings are restored after the program and the socket
    /// are closed.
    setup: DeviceSetup,
}

/// The parts of a port that exist after the arena was set.
#[derive(Debug)]
struct ActiveSocket {
    fill: Producer<u64>,
    receive: Consumer<libc::xdp_desc>,
    transmitter: Transmitter,
    /// Slots for received frames. Each slot is in the fill ring or in the receive ring, or the kernel is just
    /// moving the slot from the fill ring to the receive ring.
    posted: SlotSet,
    /// Number of slots that the transmitter needs for copies.
    copy_slots: usize,
    /// Whether the program knows the socket.
    is_socket_set: bool,
    /// Declared after the rings, which point to the arena.
    arena: Arc<Arena>,
}

/// Counters of the kernel for lost frames.
#[derive(Debug)]
struct LossCounters {
    tx_dropped: KernelCounter,
    rx_dropped: KernelCounter,
    /// Counter of the frames that were lost because the socket had no space. `None` if the device also counts
    /// these frames.
    socket: Option<KernelCounter>,
    missed: KernelCounter,
    invalid: KernelCounter,
}

/// A frame in the receive ring. It occupies one or more descriptors.
#[derive(Clone, Copy)]
struct WaitingFrame {
    first: libc::xdp_desc,
    descriptors: u32,
    len: usize,
}

/// Result of receiving one frame.
enum ReceiveResult {
    Delivered,
    Dropped(DropReason, FramePriority),
    /// The frame is ignored, because no packet socket would receive it.
    Ignored,
    /// The frame stays in the ring, because no slot is free.
    NoSlot,
}

impl XdpPort {
    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        let (Some(active), Some(socket)) = (&mut self.active, &self.socket) else {
            return Ok(0);
        };
        active.refill_slots(slots);
        if !active.is_socket_set && active.posted.len() > 0 {
            // From now on, a frame without a socket counts as lost.
            self.program.set_socket(socket.as_fd())?;
            self.losses.missed = KernelCounter::new(self.program.missed_frames().ok());
            active.is_socket_set = true;
        }
        if active.next_frame().is_none() {
            return self.check_device_exists().map(|()| 0);
        }
        let received_ns = monotonic_ns();
        let mut received = 0;
        let has_finished_checksums = self.setup.has_finished_checksums;
        active.prefetch_first_frames();
        while received < max {
            let Some(waiting) = active.next_frame() else { break };
            active.prefetch_later_frames();
            match active.receive_frame(
                waiting,
                slots,
                self.frame_len_max,
                has_finished_checksums,
                received_ns,
                out,
            ) {
                ReceiveResult::Delivered => received += 1,
                ReceiveResult::Dropped(reason, priority) => {
                    self.drops.add_received(reason, priority);
                    if !std::mem::replace(&mut self.has_warned, true) {
                        self.notes.push(drop_message(
                            &self.spec.device,
                            self.setup.is_tap,
                            self.frame_len_max,
                            reason,
                        ));
                    }
                }
                ReceiveResult::Ignored => {
                    if !std::mem::replace(&mut self.has_warned_of_truncated_tags, true) {
                        self.notes.push(truncated_tag_message(&self.spec.device));
                    }
                }
                ReceiveResult::NoSlot => break,
            }
        }
        active.receive.release();
        active.fill.publish();
        Ok(received)
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        let (Some(active), Some(socket)) = (&mut self.active, &self.socket) else {
            return Ok(0);
        };
        debug_assert!(std::ptr::eq(arena, &*active.arena), "frames of another arena");
        let mtu = self.device_mtu as usize;
        let refuses = |start: &[u8], len: usize| is_refused_by_packet_socket(start, len, mtu);
        let (counts, result) = active.transmitter.send(socket, arena, frames, refuses);
        for _ in 0..counts.refused {
            self.drops.add(DropReason::BackendRefused);
        }
        match result {
            // Sent frames are reported first. The next call returns the error again.
            Err(error) if counts.done == 0 && is_device_removed(&error) && !self.device.exists() => {
                Err(device_removed_error())
            }
            _ => Ok(counts.done),
        }
    }

    /// Checks at every 64th call that the device exists. Without this check, a removed device would look like
    /// a device without traffic.
    fn check_device_exists(&mut self) -> io::Result<()> {
        self.empty_reads += 1;
        if self.empty_reads < EMPTY_READS_PER_CHECK {
            return Ok(());
        }
        self.empty_reads = 0;
        let Some(socket) = &self.socket else { return Ok(()) };
        match take_error(socket)? {
            // The socket has lost its device for good. It does not find a new device of the same name.
            Some(error) if is_device_removed(&error) => Err(device_removed_error()),
            Some(error) => Err(error),
            None if self.device.exists() => Ok(()),
            None => Err(device_removed_error()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // After the port is closed, the caller polls a descriptor that never becomes readable for it.
        self.socket.as_ref().unwrap_or(&self.promiscuous).as_fd()
    }

    pub(super) fn device_exists(&mut self) -> bool {
        self.device.exists()
    }

    pub(super) fn is_link_up(&mut self) -> bool {
        self.device.is_running() && self.active.as_ref().is_some_and(|active| active.is_socket_set)
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        if let Ok(mtu) = self.device.mtu() {
            self.device_mtu = mtu;
        }
        let mut drops = PortDrops {
            lost: self.take_lost_frames(),
            notes: std::mem::take(&mut self.notes),
            ..PortDrops::default()
        };
        self.drops.take_counts(&mut drops);
        drops
    }

    /// Returns the number of frames that the kernel lost since the last call.
    fn take_lost_frames(&mut self) -> u64 {
        let (Some(active), Some(socket)) = (&self.active, &self.socket) else {
            return 0;
        };
        if !active.is_socket_set {
            return 0;
        }
        // The socket is read first, because the device counts frames without space in the socket a
        // moment later.
        let statistics = socket::read_statistics(socket).ok();
        let dropped = self.device.dropped_frames();
        let losses = &mut self.losses;
        let mut lost = losses.tx_dropped.update(dropped.map(|dropped| dropped.tx))
            + losses.rx_dropped.update(dropped.map(|dropped| dropped.rx))
            + losses.missed.update(self.program.missed_frames().ok());
        if let Some(socket_counter) = &mut losses.socket {
            let refused = statistics.map(|statistics| statistics.rx_dropped + statistics.rx_ring_full);
            lost += socket_counter.update(refused);
        }
        // The kernel counts withdrawn descriptors as invalid. They are no losses.
        let withdrawn = active.transmitter.withdrawn_descriptors;
        let invalid = statistics.map(|statistics| statistics.tx_invalid_descs.saturating_sub(withdrawn));
        lost + losses.invalid.update(invalid)
    }

    pub(super) fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        // Detaching the program stops new frames. Then the rings are unmapped, and the socket ends with the
        // last reference to it. After that the kernel holds no slot any more.
        self.link = None;
        let Some(mut active) = self.active.take() else {
            return true;
        };
        let mut held = active.posted.take_all();
        drop((active.fill, active.receive));
        held.extend(active.transmitter.into_copy_slots());
        self.socket = None;
        held.into_iter().for_each(|slot| slots.return_slot(slot));
        true
    }

    pub(super) fn reserved_slots(&self) -> usize {
        self.spec.reserved_slots()
    }

    pub(super) fn device_name(&self) -> &str {
        &self.spec.device
    }
}

impl ActiveSocket {
    /// Takes empty slots for received frames and for copies, up to the limits of the port.
    fn refill_slots(&mut self, slots: &mut impl SlotSource) {
        debug_assert!(
            std::ptr::eq(slots.arena(), &*self.arena),
            "slots of another arena"
        );
        if self.posted.len() == socket::RECEIVE_ENTRIES as usize
            && self.transmitter.copy_slot_count() == self.copy_slots
        {
            return;
        }
        while self.transmitter.copy_slot_count() < self.copy_slots {
            let Some(slot) = slots.take_slot_of(SlotClass::Small) else {
                break;
            };
            self.transmitter.add_copy_slot(slot);
        }
        while self.posted.len() < socket::RECEIVE_ENTRIES as usize {
            let Some(slot) = slots.take_slot_of(SlotClass::Small) else {
                break;
            };
            self.post_slot(slot);
        }
        self.fill.publish();
    }

    /// Posts an empty slot to the kernel for a received frame.
    fn post_slot(&mut self, slot: FrameHandle) {
        self.posted.insert(slot);
        let written = self.fill.write(u64::from(slot.0) * SMALL_SLOT_BYTES as u64);
        debug_assert!(written, "the ring has two entries for each posted slot");
    }

    /// Returns the frame that waits longest. Returns `None` if no frame waits or if a descriptor of the frame
    /// is still missing.
    fn next_frame(&mut self) -> Option<WaitingFrame> {
        let first = self.receive.peek(0)?;
        let mut waiting = WaitingFrame {
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

    /// Receives one frame. The frame is appended to `out`, dropped or ignored.
    fn receive_frame(
        &mut self,
        waiting: WaitingFrame,
        slots: &mut impl SlotSource,
        frame_len_max: u32,
        has_finished_checksums: bool,
        received_ns: u64,
        out: &mut Vec<PortFrame>,
    ) -> ReceiveResult {
        let lengths = CapturedLengths {
            frame_len: waiting.len as u64,
            tag_len: 0,
            stored_len: waiting.len,
        };
        if let Some(reason) = find_drop_reason(lengths, frame_len_max, || false) {
            let priority = FramePriority::of_frame(self.first_bytes(waiting), None);
            self.repost_slots(waiting);
            return ReceiveResult::Dropped(reason, priority);
        }
        let Some(frame) = self.take_frame(waiting, slots) else {
            return ReceiveResult::NoSlot;
        };
        let bytes = &slots.frame_space(frame)[..waiting.len];
        if has_truncated_tag(bytes) {
            slots.return_slot(frame);
            return ReceiveResult::Ignored;
        }
        // The frame is appended before the check, because moving it later would wait for its fields.
        out.push(PortFrame {
            frame,
            frame_len: waiting.len as u32,
            parsed: parse(bytes),
            received_ns,
            arrival: None,
        });
        let drop_reason = find_drop_reason(lengths, frame_len_max, || {
            let delivered = out.last().filter(|_| !has_finished_checksums);
            delivered.is_some_and(|received| has_unfinished_checksum(bytes, &received.parsed))
        });
        let Some(reason) = drop_reason else {
            return ReceiveResult::Delivered;
        };
        out.pop();
        slots.return_slot(frame);
        ReceiveResult::Dropped(reason, FramePriority::default())
    }

    /// Returns the bytes of a received frame in its first slot.
    fn first_bytes(&self, waiting: WaitingFrame) -> &[u8] {
        debug_assert!(is_at_frame_offset(&waiting.first));
        let len = (waiting.first.len as usize).min(SMALL_FRAME_BYTES);
        // SAFETY: the port owns the slot. It has received the slot from the kernel with this descriptor, and the
        // slot shares no bytes.
        unsafe { &self.arena.frame_space(slot_of_address(waiting.first.addr))[..len] }
    }

    /// Returns a slot with the complete frame. From then on, the caller owns the slot. Returns `None` if no
    /// slot is free.
    fn take_frame(&mut self, waiting: WaitingFrame, slots: &mut impl SlotSource) -> Option<FrameHandle> {
        let replacement = match waiting.descriptors {
            1 => slots.take_slot_of(SlotClass::Small),
            _ => None,
        };
        let Some(replacement) = replacement else {
            return self.copy_to_one_slot(waiting, slots);
        };
        self.receive.advance(1);
        let frame = slot_of_address(waiting.first.addr);
        if !self.posted.remove(frame) || !is_at_frame_offset(&waiting.first) {
            // The descriptor names memory that the port has not posted, so it is ignored.
            debug_assert!(false, "the kernel filled a slot that was not posted: {frame:?}");
            slots.return_slot(replacement);
            return None;
        }
        self.post_slot(replacement);
        slots.set_frame(frame, waiting.len);
        Some(frame)
    }

    /// Copies a frame into one slot. This is necessary if the frame occupies several slots, or if no empty
    /// slot can replace the slot of the frame. Returns `None` if no slot is free.
    fn copy_to_one_slot(
        &mut self,
        waiting: WaitingFrame,
        slots: &mut impl SlotSource,
    ) -> Option<FrameHandle> {
        let frame = slots.take_slot(waiting.len)?;
        let mut filled = 0;
        for index in 0..waiting.descriptors {
            let descriptor = self.receive.peek(index)?;
            debug_assert!(is_at_frame_offset(&descriptor));
            let len = (descriptor.len as usize).min(SMALL_FRAME_BYTES);
            // SAFETY: the port owns the slot. It has received the slot from the kernel with this descriptor,
            // and the slot shares no bytes.
            let bytes = unsafe { &self.arena.frame_space(slot_of_address(descriptor.addr))[..len] };
            slots.frame_space(frame)[filled..filled + len].copy_from_slice(bytes);
            filled += len;
        }
        slots.set_frame(frame, filled);
        self.repost_slots(waiting);
        Some(frame)
    }

    /// Gives the slots of a received frame back to the kernel, as empty slots.
    fn repost_slots(&mut self, waiting: WaitingFrame) {
        for index in 0..waiting.descriptors {
            if let Some(descriptor) = self.receive.peek(index)
                && self.posted.remove(slot_of_address(descriptor.addr))
            {
                self.post_slot(slot_of_address(descriptor.addr));
            }
        }
        self.receive.advance(waiting.descriptors);
    }
}

/// Returns whether a descriptor describes a frame at the right place in its slot: the frame starts
/// [`HEADROOM_BYTES`] after the start of the slot, and ends in the slot.
fn is_at_frame_offset(descriptor: &libc::xdp_desc) -> bool {
    descriptor.addr % SMALL_SLOT_BYTES as u64 == HEADROOM_BYTES as u64
        && descriptor.len as usize <= SMALL_FRAME_BYTES
}

/// Returns whether the VLAN tag at the end of a short frame is truncated. The kernel discards such a frame
/// before a packet socket can receive it.
fn has_truncated_tag(frame: &[u8]) -> bool {
    frame.len() < TAGGED_BYTES_MIN && matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

fn truncated_tag_message(device: &str) -> String {
    format!(
        "frames with a truncated VLAN tag arrive on '{device}'; every port ignores such frames and counts them nowhere"
    )
}

/// Returns whether a packet socket would refuse to send a frame. `frame_start` contains at least the Ethernet
/// header. `mtu` is the MTU of the device in bytes.
fn is_refused_by_packet_socket(frame_start: &[u8], frame_len: usize, mtu: usize) -> bool {
    // The kernel permits the length of a tag for 802.1Q only.
    let tag_len = match frame_start.get(12..14) {
        Some([0x81, 0x00]) => 4,
        _ => 0,
    };
    frame_len < ETHERNET_BYTES || frame_len > mtu + ETHERNET_BYTES + tag_len
}

fn device_removed_error() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame_start(ethertype: [u8; 2]) -> Vec<u8> {
        [&[2; 12][..], &ethertype].concat()
    }

    #[test]
    fn the_length_limit_equals_the_limit_of_a_packet_socket() {
        let is_refused = is_refused_by_packet_socket;
        let (plain, dot1q, dot1ad) = (
            frame_start([8, 0]),
            frame_start([0x81, 0]),
            frame_start([0x88, 0xa8]),
        );
        assert!(!is_refused(&plain, 1514, 1500) && is_refused(&plain, 1515, 1500));
        assert!(!is_refused(&dot1q, 1518, 1500) && is_refused(&dot1q, 1519, 1500));
        assert!(!is_refused(&dot1ad, 1514, 1500) && is_refused(&dot1ad, 1515, 1500));
        assert!(!is_refused(&plain, 14, 1500) && is_refused(&plain[..13], 13, 1500));
    }

    #[test]
    fn a_tag_without_its_content_is_truncated() {
        let tagged = [&frame_start([0x81, 0])[..], &[0; 6]].concat();
        assert!(!has_truncated_tag(&tagged));
        assert!((14..20).all(|len| has_truncated_tag(&tagged[..len])));
        assert!(!has_truncated_tag(&frame_start([8, 0])));
    }

    #[test]
    fn a_port_reserves_slots_for_two_bursts_of_the_longest_frames() {
        assert_eq!(reserved_slots(1500), 2_048 + 128);
        assert_eq!(reserved_slots(9216), 2_048 + 128 * 6);
    }
}
