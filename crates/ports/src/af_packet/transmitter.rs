//! Sends bursts of frames through a transmit ring. Without a ring, the frames are sent with `sendmmsg(2)`.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::send_ring::{SendResult, SendRing};
use crate::{BURST_FRAMES, ETHERNET_HEADER_BYTES};

/// The two parts of a frame: its own bytes, and the bytes that it shares with other frames.
pub(crate) type FrameSegments<'a> = (&'a [u8], &'a [u8]);

/// Sends the frames of one device.
pub(crate) struct Transmitter {
    ring: Option<SendRing>,
    /// Length of the longest frame that the ring sends, in bytes.
    ring_frame_len_max: usize,
    /// Arguments of `sendmmsg`, which are reused. Each burst writes only the members that change.
    messages: Box<[libc::mmsghdr]>,
    /// The two parts of the frame for each message.
    segments: Box<[[libc::iovec; 2]]>,
}

// SAFETY: each call of `send_messages` sets the pointers before it uses them, and no call reads old pointers.
unsafe impl Send for Transmitter {}

impl Transmitter {
    /// Creates a transmitter for a device with the MTU `mtu` in bytes. If `ring` is `None`, all frames are
    /// sent with `sendmmsg`.
    pub(crate) fn new(ring: Option<SendRing>, mtu: u32) -> Transmitter {
        let segment = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: a message header of zeros has no address, no segments, no control data and no flags.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut transmitter = Transmitter {
            ring,
            ring_frame_len_max: 0,
            messages: vec![message; BURST_FRAMES].into(),
            segments: vec![[segment; 2]; BURST_FRAMES].into(),
        };
        transmitter.set_mtu(mtu);
        transmitter
    }

    /// Sets the current MTU of the device in bytes. The kernel does not compare frames in the ring with the
    /// MTU. Longer frames are therefore sent with `sendmmsg`, which checks the exact limit of the device.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.ring_frame_len_max = (mtu + ETHERNET_HEADER_BYTES) as usize;
    }

    /// Sends up to [`BURST_FRAMES`] frames from the front of `frames`. `socket` must be bound to the device.
    /// If the result has no error, at least one frame was sent. An error belongs to the first frame that was
    /// not sent.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = FrameSegments<'a>> + Clone,
    ) -> SendResult {
        let len_max = self.ring_frame_len_max;
        let fits = |(own, rest): FrameSegments<'_>| own.len() + rest.len() <= len_max;
        let frames = frames.take(BURST_FRAMES);
        let Some(ring) = &mut self.ring else {
            return self.send_messages(socket, frames);
        };
        for segments in frames.clone() {
            if !fits(segments) || !ring.push_frame(segments) {
                break;
            }
        }
        if ring.pending_frames() > 0 {
            return ring.send();
        }
        // Either the first frame is too long for the ring. Then this call sends all long frames up to the
        // next one that fits. Or the device still holds all frames of the ring, and may hold them until more
        // frames arrive.
        let first_fits = frames.clone().next().is_some_and(fits);
        self.send_messages(
            socket,
            frames.take_while(|segments| first_fits || !fits(*segments)),
        )
    }

    fn send_messages<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = FrameSegments<'a>>,
    ) -> SendResult {
        let prepared = self.messages.iter_mut().zip(self.segments.iter_mut()).zip(frames);
        let mut count = 0;
        for ((message, segments), (own, rest)) in prepared {
            *segments = [own, rest].map(|bytes| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
            message.msg_hdr.msg_iov = segments.as_mut_ptr();
            message.msg_hdr.msg_iovlen = if rest.is_empty() { 1 } else { 2 };
            count += 1;
        }
        // SAFETY: the loop has prepared `count` messages. Their segments are in this value and point to
        // frames that are borrowed for the call. The kernel only reads the frames.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
            )
        };
        match sent {
            0.. => SendResult {
                sent_frames: sent as usize,
                error: None,
            },
            _ => SendResult {
                sent_frames: 0,
                error: Some(io::Error::last_os_error()),
            },
        }
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}
