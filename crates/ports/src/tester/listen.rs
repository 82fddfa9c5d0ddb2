//! Looks at some of the frames that a device receives, with the time at which the kernel had them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::clock::StampClock;
use crate::packet::ring::Ring;
use crate::socket;

/// A frame that was heard.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Its first octets, as many as the filter let through; a VLAN tag that the kernel took off is missing.
    pub bytes: &'a [u8],
    /// Its length in octets, without FCS.
    pub frame_len: u32,
    /// When the kernel had it, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

/// Hears frames of a device that a filter accepts. The kernel drops the others at once.
#[derive(Debug)]
pub struct FrameListener {
    ring: Ring,
    clock: StampClock,
    /// After the ring: its pages belong to the socket.
    socket: OwnedFd,
}

impl FrameListener {
    /// Listens on a device of the calling thread's namespace. `filter` is a program of classic BPF; without instructions everything is heard.
    /// Takes CAP_NET_RAW.
    ///
    /// # Errors
    /// No such device, no privilege, a filter that the kernel refuses, no memory for the ring.
    pub fn open(device: &str, filter: &[libc::sock_filter]) -> io::Result<FrameListener> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = socket::create()?;
        socket::configure(&socket)?;
        if !filter.is_empty() {
            socket::set_filter(&socket, filter)?;
        }
        // Frames are cut by the filter; one that is not is cut at a place of the ring.
        let ring = Ring::new(&socket, 1_500)?;
        socket::bind(&socket, index)?;
        Ok(FrameListener {
            ring,
            clock: StampClock::default(),
            socket,
        })
    }

    /// Shows all frames that wait, and returns how many.
    pub fn receive(&mut self, mut each: impl FnMut(Heard<'_>)) -> usize {
        let mut count = 0;
        if self.ring.peek().is_some() {
            self.clock.tick();
        }
        while let Some(waiting) = self.ring.peek() {
            let header = waiting.header;
            each(Heard {
                bytes: waiting.bytes,
                frame_len: header.tp_len,
                at_ns: self.clock.convert(header.tp_sec, header.tp_nsec),
            });
            self.ring.release();
            count += 1;
        }
        count
    }

    /// Frames that found no room since the last call.
    pub fn take_lost(&self) -> u64 {
        // The question cannot fail on a packet socket.
        socket::take_drops(&self.socket).map_or(0, u64::from)
    }

    /// What `poll(2)` waits on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
