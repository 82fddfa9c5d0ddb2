//! Backend on AF_PACKET with two TPACKET_V2 rings: a receive ring and a transmit ring.
//!
//! While frames wait in the receive ring, the backend makes no system call. It copies each frame once, from
//! the ring to a slot of the arena. The kernel removes VLAN tags before a packet socket sees the frame, and
//! this copy inserts the tags again. The backend does not use TPACKET_V3, because TPACKET_V3 delays a single
//! frame until the timeout of its block.
//!
//! The transmit ring belongs to a second socket. Each frame of this socket has a vnet header. Because of this
//! header, the kernel copies the whole frame. Without the header, the kernel would share the pages of the
//! ring with the device, and a veth device would copy these pages later.

pub(super) mod receive_ring;
pub(super) mod ring_frame;
pub(super) mod send_ring;
mod send_slots;
pub(super) mod transmitter;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::clock::KernelTimestampConverter;
use super::device_setup::{DeviceSetup, set_up_device};
use super::device_state::Device;
use super::drop_counts::{DropCounts, FramePriority, KernelCounter};
use super::frame_check::drop_message;
use super::{
    Arena, OpenedPort, Port, PortDrops, PortError, PortFrame, PortSpec, SlotSource, frame_len_max,
    is_device_removed, packet_socket,
};
use receive_ring::ReceiveRing;
use ring_frame::{FrameAction, choose_action, copy_with_tag};
use send_ring::SendRing;
use transmitter::Transmitter;

/// Number of reads from an empty ring between two checks that the device exists. The check needs a system
/// call, so it is too slow for every read.
const EMPTY_READS_PER_CHECK: u32 = 64;

/// After this number of frames in one call, the backend expects that more frames wait, and prefetches
/// the ring.
const PREFETCH_FRAMES_MIN: usize = 2;
/// Prefetch distance in frames. While the backend processes a frame, it already loads the frame that comes
/// this number of frames later. A frame is processed in about a third of the time that the CPU needs to load
/// a cache line, and a frame of usual length occupies 17 cache lines.
const PREFETCH_DISTANCE: usize = 6;

/// A network device with an AF_PACKET socket.
#[derive(Debug)]
pub struct PacketPort {
    device: Device,
    /// Name of the device when the port was opened, for reports.
    initial_device_name: String,
    ring: ReceiveRing,
    transmitter: Transmitter,
    clock: KernelTimestampConverter,
    /// MTU of the port in bytes.
    mtu: u32,
    /// Length of the longest frame of the link in bytes.
    frame_len_max: u32,
    drops: DropCounts,
    tx_dropped: KernelCounter,
    /// Whether the message about dropped frames (unfinished checksums or superframes) was given.
    has_warned: bool,
    notes: Vec<String>,
    empty_reads: u32,
    /// Declared after the ring, because the pages of the ring belong to the socket.
    socket: OwnedFd,
    /// Declared last, so that the device settings are restored after the socket is closed.
    setup: DeviceSetup,
}

impl PacketPort {
    pub(super) fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // The privilege is checked first. Without it, each device setting would fail with its own message.
        let socket =
            packet_socket::open_packet_socket().map_err(|error| io("open a packet socket", error))?;
        let mut notes = Vec::new();
        let setup = set_up_device(spec, &mut notes)?;
        let mut device = Device::open(&spec.device).map_err(|error| io("find the device", error))?;
        packet_socket::configure_receiver(&socket)
            .map_err(|error| io("configure the packet socket", error))?;
        let ring = ReceiveRing::new(&socket, spec.mtu).map_err(|error| io("make a receive ring", error))?;
        if let Some(note) = ring.size_warning(&spec.name) {
            notes.push(note);
        }
        packet_socket::bind_promiscuous(&socket, device.index())
            .map_err(|error| io("bind the packet socket", error))?;
        let send_ring = SendRing::open(device.index(), frame_len_max(spec.mtu) as usize, false)
            .map_err(|error| notes.push(send_ring_warning(&spec.name, &error)))
            .ok();
        let packet = PacketPort {
            tx_dropped: KernelCounter::new(device.tx_dropped()),
            device,
            initial_device_name: spec.device.clone(),
            ring,
            transmitter: Transmitter::new(send_ring, spec.mtu),
            mtu: spec.mtu,
            clock: KernelTimestampConverter::default(),
            frame_len_max: frame_len_max(spec.mtu),
            drops: DropCounts::new(),
            has_warned: false,
            notes: Vec::new(),
            empty_reads: 0,
            socket,
            setup,
        };
        let port = Port::Packet(Box::new(packet));
        Ok(OpenedPort { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        if self.ring.peek().is_none() {
            return self.check_device_exists().map(|()| 0);
        }
        self.clock.update();
        let mut received = 0;
        for index in 0..max {
            let Some(ring_frame) = self.ring.peek() else {
                break;
            };
            let stored = ring_frame.bytes;
            // Many waiting frames make it probable that later frames also wait and have about this length.
            if index >= PREFETCH_FRAMES_MIN {
                self.ring.prefetch(PREFETCH_DISTANCE, stored.len());
            }
            match choose_action(ring_frame.header, stored.len(), self.frame_len_max) {
                FrameAction::Deliver { tag, frame_len } => {
                    // Without a free slot, the frame stays in the ring. It is lost only if the ring
                    // becomes full.
                    let Some(frame) = slots.take_slot(frame_len) else {
                        break;
                    };
                    let output = &mut slots.frame_space(frame)[..frame_len];
                    copy_with_tag(stored, tag, output);
                    let parsed = parse(output);
                    slots.set_frame(frame, frame_len);
                    let (seconds, nanos) = (ring_frame.header.tp_sec, ring_frame.header.tp_nsec);
                    out.push(PortFrame {
                        frame,
                        frame_len: frame_len as u32,
                        parsed,
                        received_ns: self.clock.to_monotonic_ns(seconds, nanos),
                        arrival: None,
                    });
                    received += 1;
                }
                FrameAction::Drop(reason) => {
                    let priority =
                        FramePriority::of_frame(stored, ring_frame::removed_tag_pcp(ring_frame.header));
                    self.drops.add_received(reason, priority);
                    if !self.has_warned {
                        self.has_warned = true;
                        self.notes.push(drop_message(
                            &self.initial_device_name,
                            self.setup.is_tap,
                            self.frame_len_max,
                            reason,
                        ));
                    }
                }
            }
            self.ring.release_frame();
        }
        Ok(received)
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < frames.len() {
            let segments = frames[taken..].iter().map(|frame| arena.segments(*frame));
            let result = self.transmitter.send(self.socket.as_fd(), segments);
            taken += result.sent_frames;
            let Some(error) = result.error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The device has dropped and counted the frame. `take_drops` reports it.
                Some(libc::ENOBUFS) if self.setup.has_no_queue => taken += 1,
                // The queueing discipline or the buffer of the socket is full.
                Some(libc::ENOBUFS | libc::EAGAIN) => break,
                _ if is_device_removed(&error) => {
                    // Sent frames are reported first. The next call returns the error again.
                    if taken == 0 && !self.device.exists() {
                        return Err(device_removed_error());
                    }
                    break;
                }
                // The device refuses this frame for good, usually because the frame is longer than the
                // device's MTU.
                _ => {
                    self.drops.add(DropReason::BackendRefused);
                    taken += 1;
                }
            }
        }
        Ok(taken)
    }

    /// Checks at every 64th call that the device exists. Without this check, a removed device would look like
    /// a device without traffic.
    fn check_device_exists(&mut self) -> io::Result<()> {
        self.empty_reads += 1;
        if self.empty_reads < EMPTY_READS_PER_CHECK {
            return Ok(());
        }
        self.empty_reads = 0;
        // Reading the error clears it. poll(2) then waits again on a device that is only down.
        match packet_socket::take_error(&self.socket)? {
            None => Ok(()),
            Some(error) if is_device_removed(&error) && self.device.exists() => Ok(()),
            Some(error) if is_device_removed(&error) => Err(device_removed_error()),
            Some(error) => Err(error),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn device_exists(&mut self) -> bool {
        self.device.exists()
    }

    pub(super) fn is_link_up(&mut self) -> bool {
        // The MTU of the device may have become smaller since the port was opened.
        if let Ok(mtu) = self.device.mtu() {
            self.transmitter.set_mtu(mtu.min(self.mtu));
        }
        self.device.is_running()
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        // Reading the statistics resets them. An error means that no drops are known.
        let ring_drops = packet_socket::take_ring_drops(&self.socket).unwrap_or(0);
        let mut drops = PortDrops {
            lost: u64::from(ring_drops) + self.tx_dropped.update(self.device.tx_dropped()),
            notes: std::mem::take(&mut self.notes),
            ..PortDrops::default()
        };
        self.drops.take_counts(&mut drops);
        drops
    }

    pub(super) fn device_name(&self) -> &str {
        &self.initial_device_name
    }
}

fn send_ring_warning(port: &str, error: &io::Error) -> String {
    format!("{port}: no transmit ring ({error}): frames are sent one by one, which takes more CPU time")
}

fn device_removed_error() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}
