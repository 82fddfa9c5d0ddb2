//! Bursts to a device: through a ring, or by `sendmmsg(2)` where that cannot be.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::send_ring::{Burst, SendRing};
use crate::{BURST_FRAMES, ETHERNET_HEADER_BYTES};

/// A frame: its own octets and those that it shares.
pub(crate) type Pieces<'a> = (&'a [u8], &'a [u8]);

/// Sends frames of one device.
pub(crate) struct Transmitter {
    ring: Option<SendRing>,
    /// The longest frame that goes through the ring.
    ring_bytes_max: usize,
    /// The arguments of `sendmmsg`, kept so that only what changes is written for each burst.
    messages: Box<[libc::mmsghdr]>,
    /// Two for each message.
    segments: Box<[[libc::iovec; 2]]>,
}

// SAFETY: the pointers in it are written anew at the start of each `send_messages` and not read after it.
unsafe impl Send for Transmitter {}

impl Transmitter {
    /// For a device of this MTU. Without a ring all goes by `sendmmsg`.
    pub(crate) fn new(ring: Option<SendRing>, mtu: u32) -> Transmitter {
        let segment = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: a message header of zeros is one without address, segments, control data and flags.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut transmitter = Transmitter {
            ring,
            ring_bytes_max: 0,
            messages: vec![message; BURST_FRAMES].into(),
            segments: vec![[segment; 2]; BURST_FRAMES].into(),
        };
        transmitter.set_mtu(mtu);
        transmitter
    }

    /// What the device's MTU is now. Of what leaves a ring of this kind the kernel does not check it: longer frames go by `sendmmsg`, which
    /// knows for which of them the device has room.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.ring_bytes_max = (mtu + ETHERNET_HEADER_BYTES) as usize;
    }

    /// Sends frames from the front of `frames`, [`BURST_FRAMES`] at most and one at least, unless there is an error: then it is that of
    /// the first that was not sent. `socket` is bound to the device.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = Pieces<'a>> + Clone,
    ) -> Burst {
        let longest = self.ring_bytes_max;
        let fits = |(own, rest): Pieces<'_>| own.len() + rest.len() <= longest;
        let frames = frames.take(BURST_FRAMES);
        let Some(ring) = &mut self.ring else {
            return self.send_messages(socket, frames);
        };
        for pieces in frames.clone() {
            if !fits(pieces) || !ring.put(pieces) {
                break;
            }
        }
        if ring.put_frames() > 0 {
            return ring.send();
        }
        // The first is too long, and with it go those behind it that are; or the device has all that the ring holds still, and may
        // keep it until more comes.
        let first_fits = frames.clone().next().is_some_and(fits);
        self.send_messages(socket, frames.take_while(|pieces| first_fits || !fits(*pieces)))
    }

    fn send_messages<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = Pieces<'a>>,
    ) -> Burst {
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
        // SAFETY: `count` messages were prepared above; their segments lie in this value and point to frames that are borrowed for
        // the call. The kernel reads the frames only.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
            )
        };
        match sent {
            0.. => Burst {
                sent: sent as usize,
                error: None,
            },
            _ => Burst {
                sent: 0,
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
