//! Frames out of plain memory, past the device's queueing discipline.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::device::Device;
use crate::packet::send_ring::SendRing;
use crate::packet::transmit::Transmitter;
use crate::{BURST_FRAMES, longest_frame, socket};

/// Frames of one system call, at most.
pub const SEND_BURST_FRAMES: usize = BURST_FRAMES;

/// What became of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that the device took.
    pub taken: usize,
    /// Frames that it refused and that are gone: no room in it or behind it.
    pub refused: usize,
}

/// Sends through a device.
#[derive(Debug)]
pub struct FrameSender {
    transmitter: Transmitter,
    /// For what does not go through the ring.
    socket: OwnedFd,
}

impl FrameSender {
    /// A sender on a device of the calling thread's namespace. Takes CAP_NET_RAW there.
    ///
    /// # Errors
    /// No such device, no privilege, no memory.
    pub fn open(device: &str) -> io::Result<FrameSender> {
        let socket = socket::create_sender(true)?;
        let device = Device::here(device)?;
        let mtu = device.mtu()?;
        socket::bind_protocol(&socket, device.index(), 0)?;
        // Without a ring it is slower, and that is all.
        let ring = SendRing::open(device.index(), longest_frame(mtu) as usize, true).ok();
        Ok(FrameSender {
            transmitter: Transmitter::new(ring, mtu),
            socket,
        })
    }

    /// Sends the first [`SEND_BURST_FRAMES`] of these frames. Fewer than all: send the others later.
    ///
    /// # Errors
    /// Where the first is refused for good: longer than the device's MTU, a device that is gone or down.
    pub fn send(&mut self, frames: &[&[u8]]) -> io::Result<Sent> {
        let frames = &frames[..frames.len().min(SEND_BURST_FRAMES)];
        let mut sent = Sent::default();
        loop {
            let done = sent.taken + sent.refused;
            if done == frames.len() {
                break;
            }
            let waiting = frames[done..].iter().map(|frame| (*frame, &[][..]));
            let burst = self.transmitter.send(self.socket.as_fd(), waiting);
            sent.taken += burst.sent;
            let Some(error) = burst.error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The device, or the one behind it, had no room: this frame is lost.
                Some(libc::ENOBUFS) => sent.refused += 1,
                // The socket's memory is all under way.
                Some(libc::EAGAIN) => break,
                _ if sent == Sent::default() => return Err(error),
                _ => break,
            }
        }
        Ok(sent)
    }
}
