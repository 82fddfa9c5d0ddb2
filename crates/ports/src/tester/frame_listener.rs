//! Receives selected frames of a device, with the time stamps of the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::af_packet::receive_ring::ReceiveRing;
use crate::af_packet::ring_frame::removed_tag;
use crate::clock::KernelTimestampConverter;
use crate::packet_socket;

/// A received frame of a [`FrameListener`].
#[derive(Clone, Copy, Debug)]
pub struct CapturedFrame<'a> {
    /// The first bytes of the frame. The filter of the listener decides how many bytes are stored. If the
    /// kernel has removed a VLAN tag, the tag is missing.
    pub bytes: &'a [u8],
    /// The VLAN tag that the kernel has removed: TPID and TCI. `None` if it has removed none.
    pub removed_tag: Option<[u8; 4]>,
    /// Length of the whole frame in bytes, without FCS and without a VLAN tag that the kernel has removed.
    pub frame_len: u32,
    /// Time at which the kernel received the frame, in nanoseconds of `CLOCK_MONOTONIC`.
    pub captured_ns: u64,
}

/// Receives the frames of a device that a filter accepts. The kernel discards frames that the filter does
/// not accept.
#[derive(Debug)]
pub struct FrameListener {
    ring: ReceiveRing,
    clock: KernelTimestampConverter,
    /// Declared after the ring, because the pages of the ring belong to the socket.
    socket: OwnedFd,
}

impl FrameListener {
    /// Opens a listener on the device `device` of the calling thread's namespace. `filter` is a classic BPF
    /// program. If `filter` is empty, all frames are accepted. The call needs CAP_NET_RAW.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, the capability is missing, the kernel refuses the
    /// filter, or the kernel has too little memory for the ring.
    pub fn open(device: &str, filter: &[libc::sock_filter]) -> io::Result<FrameListener> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = packet_socket::open_packet_socket()?;
        packet_socket::configure_receiver(&socket)?;
        if !filter.is_empty() {
            packet_socket::set_filter(&socket, filter)?;
        }
        // The filter truncates the frames. A frame without truncation is cut at the end of its ring entry.
        let ring = ReceiveRing::new(&socket, 1_500)?;
        packet_socket::bind_promiscuous(&socket, index)?;
        Ok(FrameListener {
            ring,
            clock: KernelTimestampConverter::default(),
            socket,
        })
    }

    /// Calls `handle` for each waiting frame, oldest first. Returns the number of frames.
    pub fn receive(&mut self, mut handle: impl FnMut(CapturedFrame<'_>)) -> usize {
        let mut count = 0;
        if self.ring.peek().is_some() {
            self.clock.update();
        }
        while let Some(ring_frame) = self.ring.peek() {
            let header = ring_frame.header;
            handle(CapturedFrame {
                bytes: ring_frame.bytes,
                removed_tag: removed_tag(header),
                frame_len: header.tp_len,
                captured_ns: self.clock.to_monotonic_ns(header.tp_sec, header.tp_nsec),
            });
            self.ring.release_frame();
            count += 1;
        }
        count
    }

    /// Returns the number of accepted frames that were lost since the last call. A frame is lost if the
    /// receive ring is full.
    pub fn take_lost_frames(&self) -> u64 {
        // The statistics option cannot fail on a packet socket.
        packet_socket::take_ring_drops(&self.socket).map_or(0, u64::from)
    }

    /// Returns the descriptor that becomes readable when frames arrive.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
