//! Frames out of plain memory by `sendmmsg(2)`, past the device's queueing discipline.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::ports::socket;

/// Frames of one system call, at most.
pub const SEND_BURST_FRAMES: usize = 64;

/// What became of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that the device took.
    pub taken: usize,
    /// Frames that it refused and that are gone: no room in it or behind it.
    pub refused: usize,
}

/// Sends through a device.
pub struct FrameSender {
    socket: OwnedFd,
    messages: Box<[libc::mmsghdr]>,
    segments: Box<[libc::iovec]>,
}

// SAFETY: the pointers in it are written anew at the start of each `send` and not read after it.
unsafe impl Send for FrameSender {}

impl FrameSender {
    /// A sender on a device of the calling thread's namespace. Takes CAP_NET_RAW there.
    ///
    /// # Errors
    /// No such device, no privilege, no memory.
    pub fn open(device: &str) -> io::Result<FrameSender> {
        let socket = socket::create()?;
        let index = nix::net::if_::if_nametoindex(device)?;
        socket::enlarge_send_buffer(&socket)?;
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        socket::bind_protocol(&socket, index, 0)?;
        // SAFETY: a message header of zeros is one without address, segments, control data and flags.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let segment = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Ok(FrameSender {
            socket,
            messages: vec![message; SEND_BURST_FRAMES].into(),
            segments: vec![segment; SEND_BURST_FRAMES].into(),
        })
    }

    /// Sends the first [`SEND_BURST_FRAMES`] of these frames. Fewer than all: send the others later.
    ///
    /// # Errors
    /// Where the first is refused for good: longer than the device's MTU, a device that is gone or down.
    pub fn send(&mut self, frames: &[&[u8]]) -> io::Result<Sent> {
        let count = frames.len().min(SEND_BURST_FRAMES);
        let prepared = self.messages.iter_mut().zip(self.segments.iter_mut());
        for ((message, segment), frame) in prepared.zip(frames) {
            segment.iov_base = frame.as_ptr().cast_mut().cast();
            segment.iov_len = frame.len();
            message.msg_hdr.msg_iov = std::ptr::from_mut(segment);
            message.msg_hdr.msg_iovlen = 1;
        }
        let mut sent = Sent::default();
        while sent.taken + sent.refused < count {
            let done = sent.taken + sent.refused;
            // SAFETY: `count` messages were prepared above; `done` of them are behind us. Their segments lie in this value and point
            // to frames that are borrowed for the call. The kernel reads the frames only.
            let result = unsafe {
                let next = self.messages.as_mut_ptr().add(done);
                libc::sendmmsg(self.socket.as_raw_fd(), next, (count - done) as u32, libc::MSG_DONTWAIT)
            };
            if result >= 0 {
                sent.taken += result as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The device, or the one behind it, had no room: this frame is lost.
                Some(libc::ENOBUFS) => sent.refused += 1,
                // The socket's memory is all under way.
                Some(libc::EAGAIN) => break,
                _ if done == 0 => return Err(error),
                _ => break,
            }
        }
        Ok(sent)
    }
}

impl fmt::Debug for FrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSender")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
