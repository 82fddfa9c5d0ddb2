//! Bursts out of the arena by `sendmmsg(2)`.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use xoff_dataplane::Handle;

use crate::ports::{Arena, BURST_FRAMES};

/// The arguments of `sendmmsg`, kept so that only what changes is written for each burst.
pub(super) struct Transmitter {
    messages: Box<[libc::mmsghdr]>,
    /// Two for each message: a frame's own octets and those it shares.
    segments: Box<[[libc::iovec; 2]]>,
}

// SAFETY: the pointers in it are written anew at the start of each `send` and not read after it.
unsafe impl Send for Transmitter {}

impl Transmitter {
    pub(super) fn new() -> Transmitter {
        let segment = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: a message header of zeros is one without address, segments, control data and flags.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Transmitter {
            messages: vec![message; BURST_FRAMES].into(),
            segments: vec![[segment; 2]; BURST_FRAMES].into(),
        }
    }

    /// Sends frames from the front of `frames` (at most [`BURST_FRAMES`]) and returns how many, at least one. An error is
    /// that of the first.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        arena: &Arena,
        frames: &[Handle],
    ) -> io::Result<usize> {
        let prepared = self.messages.iter_mut().zip(self.segments.iter_mut()).zip(frames);
        let mut count = 0;
        for ((message, segments), frame) in prepared {
            let (own, rest) = arena.segments(*frame);
            *segments = [own, rest].map(|bytes| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
            message.msg_hdr.msg_iov = segments.as_mut_ptr();
            message.msg_hdr.msg_iovlen = if rest.is_empty() { 1 } else { 2 };
            count += 1;
        }
        // SAFETY: `count` messages were prepared above; their segments lie in this value and point to frames in the arena,
        // which is borrowed and whose handles the caller holds. The kernel reads the frames only.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
            )
        };
        match sent {
            0.. => Ok(sent as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter").finish_non_exhaustive()
    }
}
