//! AF_PACKET: a TPACKET_V2 ring to receive, another one to transmit.
//!
//! The first is walked in place: no system call while frames wait, and one copy, from the ring into the slot of
//! the arena. The kernel takes VLAN tags off before a packet socket sees the frame; the copy puts them back.
//! TPACKET_V2 and not V3, which holds a lone frame back until its block times out. The second belongs to a socket of its own, whose frames
//! follow a vnet header: one that says "copy all of it", since the kernel shares the ring's pages with the device otherwise, and a
//! veth then copies them into fresh ones.

mod judge;
pub(super) mod ring;
pub(super) mod send_ring;
mod slots;
pub(super) mod transmit;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::clock::StampClock;
use super::count::{DropCounts, Growing};
use super::device::Device;
use super::guard::{Guarded, guard};
use super::judge::warning;
use super::{
    Arena, Opened, Port, PortDrops, PortError, PortSpec, Received, SlotSource, is_gone, longest_frame, socket,
};
use judge::Verdict;
use ring::Ring;
use send_ring::SendRing;
use transmit::Transmitter;

/// How many empty looks at the ring pass between questions whether the device still exists: the question is a
/// system call, the look is not.
const LOOKS_PER_QUESTION: u32 = 64;

/// After so many frames at a look more are expected.
const BUSY: usize = 2;
/// The place so far behind the next one is fetched then: a frame takes about a third of the time that a line takes to come, and has
/// seventeen of them if it is of a usual length.
const AHEAD: usize = 6;

/// A netdev driven through AF_PACKET.
#[derive(Debug)]
pub struct Packet {
    device: Device,
    /// The name at the opening, for reports.
    opened_as: String,
    ring: Ring,
    transmitter: Transmitter,
    clock: StampClock,
    /// The port's.
    mtu: u32,
    /// The longest frame that is one of this link.
    longest: u32,
    drops: DropCounts,
    tx_dropped: Growing,
    /// The loud note about unfinished checksums or superframes has been given.
    warned: bool,
    notes: Vec<String>,
    empty_looks: u32,
    /// After the ring: its pages belong to the socket.
    socket: OwnedFd,
    /// Last: puts the device back when the socket is closed.
    guarded: Guarded,
}

impl Packet {
    pub(super) fn open(spec: &PortSpec) -> Result<Opened, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // First the privilege: without it every guard would complain, and none of it would help.
        let socket = socket::create().map_err(|error| io("open a packet socket", error))?;
        let mut notes = Vec::new();
        let guarded = guard(spec, &mut notes)?;
        let mut device = Device::here(&spec.device).map_err(|error| io("find the device", error))?;
        socket::configure(&socket).map_err(|error| io("configure the packet socket", error))?;
        let ring = Ring::new(&socket, spec.mtu).map_err(|error| io("make a receive ring", error))?;
        if let Some(note) = ring.note(&spec.name) {
            notes.push(note);
        }
        socket::bind(&socket, device.index()).map_err(|error| io("bind the packet socket", error))?;
        let send_ring = SendRing::open(device.index(), longest_frame(spec.mtu) as usize, false)
            .map_err(|error| notes.push(no_send_ring(&spec.name, &error)))
            .ok();
        let packet = Packet {
            tx_dropped: Growing::new(device.tx_dropped()),
            device,
            opened_as: spec.device.clone(),
            ring,
            transmitter: Transmitter::new(send_ring, spec.mtu),
            mtu: spec.mtu,
            clock: StampClock::default(),
            longest: longest_frame(spec.mtu),
            drops: DropCounts::new(),
            warned: false,
            notes: Vec::new(),
            empty_looks: 0,
            socket,
            guarded,
        };
        let port = Port::Packet(Box::new(packet));
        Ok(Opened { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        if self.ring.peek().is_none() {
            return self.look_again().map(|()| 0);
        }
        self.clock.tick();
        let mut received = 0;
        for turn in 0..max {
            let Some(waiting) = self.ring.peek() else { break };
            // Where many wait, so probably do those, and are about as long.
            if turn >= BUSY {
                self.ring.fetch(AHEAD, waiting.bytes.len());
            }
            match judge::judge(waiting.header, waiting.bytes.len(), self.longest) {
                Verdict::Deliver { tag, frame_len } => {
                    // No slot: the frame waits in the ring, where it is not lost as long as there is room.
                    let Some(frame) = slots.take(frame_len) else { break };
                    let to = &mut slots.room(frame)[..frame_len];
                    judge::restore(waiting.bytes, tag, to);
                    let parsed = parse(to);
                    slots.set_frame(frame, frame_len);
                    out.push(Received {
                        frame,
                        frame_len: frame_len as u32,
                        parsed,
                        received_ns: self.clock.convert(waiting.header.tp_sec, waiting.header.tp_nsec),
                        arrives: None,
                    });
                    received += 1;
                }
                Verdict::Drop(reason) => {
                    self.drops.add(reason);
                    if !self.warned {
                        self.warned = true;
                        self.notes
                            .push(warning(&self.opened_as, self.guarded.tap, self.longest, reason));
                    }
                }
            }
            self.ring.release();
        }
        Ok(received)
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < frames.len() {
            let waiting = frames[taken..].iter().map(|frame| arena.segments(*frame));
            let burst = self.transmitter.send(self.socket.as_fd(), waiting);
            taken += burst.sent;
            let Some(error) = burst.error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The device has dropped it and counted it, and `drops` will tell.
                Some(libc::ENOBUFS) if self.guarded.noqueue => taken += 1,
                // A full qdisc, or no room in the socket's buffer.
                Some(libc::ENOBUFS | libc::EAGAIN) => break,
                _ if is_gone(&error) => {
                    // Frames that were taken are told first; the error comes again next time.
                    if taken == 0 && !self.device.exists() {
                        return Err(gone());
                    }
                    break;
                }
                // It is this frame that the device will not send (longer than its MTU, most likely), now or later.
                _ => {
                    self.drops.add(DropReason::BackendRefused);
                    taken += 1;
                }
            }
        }
        Ok(taken)
    }

    /// An empty ring looks the same whether nothing comes or the device is gone.
    fn look_again(&mut self) -> io::Result<()> {
        self.empty_looks += 1;
        if self.empty_looks < LOOKS_PER_QUESTION {
            return Ok(());
        }
        self.empty_looks = 0;
        // Reading the error clears it, so that poll(2) waits again on a device that is merely down.
        match socket::take_error(&self.socket)? {
            None => Ok(()),
            Some(error) if is_gone(&error) && self.device.exists() => Ok(()),
            Some(error) if is_gone(&error) => Err(gone()),
            Some(error) => Err(error),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn link_up(&mut self) -> bool {
        // Somebody may have made it smaller meanwhile.
        if let Ok(mtu) = self.device.mtu() {
            self.transmitter.set_mtu(mtu.min(self.mtu));
        }
        self.device.is_running()
    }

    pub(super) fn drops(&mut self) -> PortDrops {
        // The statistics reset when they are read. An error leaves nothing to tell.
        let ring_drops = socket::take_drops(&self.socket).unwrap_or(0);
        PortDrops {
            by_reason: self.drops.take(),
            lost: u64::from(ring_drops) + self.tx_dropped.growth(self.device.tx_dropped()),
            notes: std::mem::take(&mut self.notes),
        }
    }

    pub(super) fn device(&self) -> &str {
        &self.opened_as
    }
}

fn no_send_ring(port: &str, error: &io::Error) -> String {
    format!(
        "{port}: no ring to send from ({error}): frames are sent one by one, which takes more processor time"
    )
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}
