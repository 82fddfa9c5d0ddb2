//! The connection of a stream port to its peer.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, UnixAddr, recv, sendmsg};
use xoff_dataplane::FrameHandle;

use super::frame_decoder::{FrameDecoder, LENGTH_BYTES};
use crate::arena::LARGE_FRAME_BYTES;
use crate::{Arena, BURST_FRAMES};

/// Largest number of memory pieces of a burst: the length and two parts of each frame.
const PIECES_MAX: usize = 3 * BURST_FRAMES;

/// The result of reading from the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// Bytes were added to the decoder.
    Bytes,
    /// No bytes wait.
    Empty,
    /// The peer has closed the connection, or the connection failed.
    Closed,
}

/// A connected socket, with the received bytes and with the rest of the last sent frame.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) decoder: FrameDecoder,
    /// The bytes of the last frame that the socket has not accepted yet. They are sent before the next frame.
    unsent: Vec<u8>,
    /// Whether the socket has refused bytes since it was last reported as writable.
    pub(super) is_full: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            decoder: FrameDecoder::new(),
            unsent: Vec::with_capacity(LENGTH_BYTES + LARGE_FRAME_BYTES),
            is_full: false,
        }
    }

    /// Reads bytes of the stream once.
    pub(super) fn read(&mut self) -> ReadResult {
        let space = self.decoder.free_space();
        loop {
            match recv(self.socket.as_raw_fd(), space, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return ReadResult::Closed,
                Ok(count) => {
                    self.decoder.add_bytes(count);
                    return ReadResult::Bytes;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return ReadResult::Empty,
                Err(_) => return ReadResult::Closed,
            }
        }
    }

    /// Returns whether the peer has closed the connection. Bytes that it sent before can still wait.
    pub(super) fn is_hung_up(&self) -> bool {
        // nix has no name for this flag. `poll` also reports POLLHUP and POLLERR.
        let end_of_input = PollFlags::from_bits_retain(libc::POLLRDHUP);
        let mut polled = [PollFd::new(self.socket.as_fd(), end_of_input)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// Sends the rest of the last frame. Returns whether the rest was sent completely.
    ///
    /// # Errors
    /// Returns an error if the connection is closed.
    pub(super) fn send_rest(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match self.send_pieces(&[IoSlice::new(&self.unsent)])? {
                0 => break,
                sent => drop(self.unsent.drain(..sent)),
            }
        }
        self.is_full = !self.unsent.is_empty();
        Ok(!self.is_full)
    }

    /// Sends up to one burst of frames, each after its length. Returns the number of frames that the socket has
    /// accepted. If it has accepted only a part of the last one, the connection keeps the rest of this frame.
    ///
    /// # Errors
    /// Returns an error if the connection is closed.
    pub(super) fn send(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        if !self.send_rest()? {
            return Ok(0);
        }
        let frames = &frames[..frames.len().min(BURST_FRAMES)];
        let mut lengths = [[0; LENGTH_BYTES]; BURST_FRAMES];
        for (length, frame) in lengths.iter_mut().zip(frames) {
            *length = (arena.frame_len(*frame) as u32).to_be_bytes();
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        for (index, frame) in frames.iter().enumerate() {
            let (own, rest) = arena.segments(*frame);
            let of_frame = [&lengths[index][..], own, rest].map(IoSlice::new);
            pieces[3 * index..3 * index + 3].copy_from_slice(&of_frame);
        }
        let mut sent = self.send_pieces(&pieces[..3 * frames.len()])?;
        for (index, frame) in frames.iter().enumerate() {
            let total = LENGTH_BYTES + arena.frame_len(*frame);
            if sent >= total {
                sent -= total;
                continue;
            }
            self.is_full = true;
            if sent == 0 {
                return Ok(index);
            }
            let (own, rest) = arena.segments(*frame);
            let bytes = lengths[index].iter().chain(own).chain(rest);
            self.unsent.extend(bytes.skip(sent));
            return Ok(index + 1);
        }
        Ok(frames.len())
    }

    /// Returns the number of accepted bytes: 0 if the socket is full.
    fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        loop {
            match sendmsg::<UnixAddr>(self.socket.as_raw_fd(), pieces, &[], flags, None) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => return Ok(0),
                result => return Ok(result?),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
