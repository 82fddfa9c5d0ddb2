//! The connection of one client. No operation waits for the client.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};

use super::protocol::{REQUEST_BYTES_MAX, bad_request, response_line};

/// Largest number of bytes that the server reads from a client in one turn. With this limit, a fast client
/// cannot delay the requests of slower clients.
const READ_BYTES_MAX: usize = 64 << 10;
/// Largest number of requests of a client that the server answers in one turn.
const REQUESTS_PER_TURN: usize = 8;

/// A client with its unanswered input and unsent output.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: BytesMut,
    /// Number of bytes of `input` that were searched and contain no line end.
    searched: usize,
    output: Bytes,
    /// Whether the client sends no more requests. The connection is closed after its last response.
    is_input_closed: bool,
    /// Time of the last transfer in either direction.
    pub(super) last_activity: Instant,
}

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Open,
    Closed,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> std::io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            input: BytesMut::new(),
            searched: 0,
            output: Bytes::new(),
            is_input_closed: false,
            last_activity: Instant::now(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns whether the client has unread responses. If so, the server reads no further request from
    /// the client.
    pub(super) fn has_unsent_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns whether a complete request is in memory. The next turn then does not wait for the socket.
    pub(super) fn has_request(&self) -> bool {
        !self.has_unsent_output() && self.input[self.searched..].contains(&b'\n')
    }

    /// Reads requests, answers them with `answer`, and writes responses. The function returns as soon as the
    /// socket would block.
    pub(super) fn serve_requests(&mut self, answer: impl Fn(&[u8]) -> Vec<u8>) -> ConnectionState {
        if self.write_output() == ConnectionState::Closed {
            return ConnectionState::Closed;
        }
        if !self.has_unsent_output() && !self.is_input_closed && self.read_input() == ConnectionState::Closed
        {
            return ConnectionState::Closed;
        }
        for _ in 0..REQUESTS_PER_TURN {
            if self.has_unsent_output() {
                return ConnectionState::Open;
            }
            let Some(line) = self.take_request() else { break };
            if line.len() > REQUEST_BYTES_MAX {
                self.refuse_long_request();
            } else if !line.iter().all(u8::is_ascii_whitespace) {
                self.output = answer(&line).into();
            }
            if self.write_output() == ConnectionState::Closed {
                return ConnectionState::Closed;
            }
        }
        let is_done = self.is_input_closed && !self.has_unsent_output() && self.input.is_empty();
        if is_done {
            ConnectionState::Closed
        } else {
            ConnectionState::Open
        }
    }

    /// Reads the available bytes.
    fn read_input(&mut self) -> ConnectionState {
        let mut chunk = [0; READ_BYTES_MAX];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.is_input_closed = true,
            Ok(count) => {
                self.last_activity = Instant::now();
                self.input.extend_from_slice(&chunk[..count]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return ConnectionState::Closed,
        }
        ConnectionState::Open
    }

    /// Removes the next request from the input and returns it without its line end. The last request may have
    /// no line end. If a request exceeds the size limit, the function returns only the first part of the
    /// request, so that memory stays bounded.
    fn take_request(&mut self) -> Option<BytesMut> {
        if let Some(at) = self.input[self.searched..].iter().position(|&byte| byte == b'\n') {
            let line = self.input.split_to(self.searched + at);
            self.input.advance(1);
            self.searched = 0;
            return Some(line);
        }
        self.searched = self.input.len();
        let last = self.is_input_closed || self.input.len() > REQUEST_BYTES_MAX;
        if !last || self.input.is_empty() {
            return None;
        }
        self.searched = 0;
        Some(self.input.split())
    }

    /// Answers a request that exceeds the size limit. The server then reads no more input, because it does
    /// not know where the next request starts.
    fn refuse_long_request(&mut self) {
        let reason = format!("at most {REQUEST_BYTES_MAX} bytes are read");
        self.output = response_line(None, Err(bad_request("the request is too long", reason))).into();
        self.input = BytesMut::new();
        self.searched = 0;
        self.is_input_closed = true;
    }

    /// Writes as much output as the socket accepts.
    fn write_output(&mut self) -> ConnectionState {
        while self.has_unsent_output() {
            match self.stream.write(&self.output) {
                Ok(0) => return ConnectionState::Closed,
                Ok(count) => {
                    self.output.advance(count);
                    self.last_activity = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return ConnectionState::Open,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return ConnectionState::Closed,
            }
        }
        ConnectionState::Open
    }
}
