//! Sends frames from ordinary memory. The frames bypass the queueing discipline of the device.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::af_packet::send_ring::SendRing;
use crate::af_packet::transmitter::Transmitter;
use crate::device_state::Device;
use crate::{BURST_FRAMES, frame_len_max, packet_socket};

/// Largest number of frames that one system call sends.
pub const SEND_BURST_FRAMES: usize = BURST_FRAMES;

/// Numbers of frames of one [`FrameSender::send`], by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Number of frames that the device accepted.
    pub sent: usize,
    /// Number of lost frames. A frame is lost if the device or the device at the other end of the link has
    /// no space.
    pub lost: usize,
}

/// Sends frames from ordinary memory through one device.
#[derive(Debug)]
pub struct FrameSender {
    transmitter: Transmitter,
    /// Socket for frames that the ring does not send.
    socket: OwnedFd,
}

impl FrameSender {
    /// Opens a sender on the device `device` of the calling thread's namespace. The call needs CAP_NET_RAW in
    /// this namespace.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, the capability is missing, or memory is short.
    pub fn open(device: &str) -> io::Result<FrameSender> {
        let socket = packet_socket::open_send_socket(true)?;
        let device = Device::open(device)?;
        let mtu = device.mtu()?;
        packet_socket::bind_protocol(&socket, device.index(), 0)?;
        // Without a ring, the sender is slower but works.
        let ring = SendRing::open(device.index(), frame_len_max(mtu) as usize, true).ok();
        Ok(FrameSender {
            transmitter: Transmitter::new(ring, mtu),
            socket,
        })
    }

    /// Sends up to [`SEND_BURST_FRAMES`] frames from the front of `frames`. A frame is given as its
    /// bytes without FCS. The result counts the sent and the lost frames. The caller sends the remaining
    /// frames later.
    ///
    /// # Errors
    /// Returns an error if the device cannot send the first frame and a retry cannot help. For example, the
    /// frame is longer than the MTU of the device, or the device is down or removed.
    pub fn send(&mut self, frames: &[&[u8]]) -> io::Result<SendCounts> {
        let frames = &frames[..frames.len().min(SEND_BURST_FRAMES)];
        let mut counts = SendCounts::default();
        loop {
            let done = counts.sent + counts.lost;
            if done == frames.len() {
                break;
            }
            let segments = frames[done..].iter().map(|frame| (*frame, &[][..]));
            let result = self.transmitter.send(self.socket.as_fd(), segments);
            counts.sent += result.sent_frames;
            let Some(error) = result.error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The device, or the device behind it, had no space. This frame is lost.
                Some(libc::ENOBUFS) => counts.lost += 1,
                // The whole send buffer of the socket is in flight.
                Some(libc::EAGAIN) => break,
                _ if counts == SendCounts::default() => return Err(error),
                _ => break,
            }
        }
        Ok(counts)
    }
}
