//! One client of the control socket, without ever waiting for it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::protocol::{REQUEST_BYTES_MAX, bad_request, response};

/// Bytes read from a client in one turn, so that a fast one leaves room for the others.
const READ_BYTES_MAX: usize = 64 << 10;
/// Requests answered to a client in one turn.
const REQUESTS_PER_TURN: usize = 8;

/// A client: what it has sent and not been answered, what it has been answered and not read.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes of `input` known to hold no line end.
    scanned: usize,
    output: Vec<u8>,
    written: usize,
    /// The client sends no more; it is closed when its answers are out.
    finished: bool,
    /// When bytes last moved.
    pub(super) active: Instant,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Closed,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> std::io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            input: Vec::new(),
            scanned: 0,
            output: Vec::new(),
            written: 0,
            finished: false,
            active: Instant::now(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Answers wait for the client to read them; until then nothing more is read from it.
    pub(super) fn owes(&self) -> bool {
        self.written < self.output.len()
    }

    /// A whole request waits in memory, so that the next turn need not wait for the socket.
    pub(super) fn has_request(&self) -> bool {
        !self.owes() && self.input[self.scanned..].contains(&b'\n')
    }

    /// Takes what the client sent, answers it by `answer`, and hands over what the client takes.
    pub(super) fn turn(&mut self, answer: impl Fn(&[u8]) -> Vec<u8>) -> State {
        if self.flush() == State::Closed {
            return State::Closed;
        }
        if !self.owes() && !self.finished && self.fill() == State::Closed {
            return State::Closed;
        }
        for _ in 0..REQUESTS_PER_TURN {
            if self.owes() {
                return State::Open;
            }
            let Some(line) = self.take_line() else { break };
            if line.len() > REQUEST_BYTES_MAX {
                self.refuse_length();
            } else if !line.iter().all(u8::is_ascii_whitespace) {
                self.output = answer(&line);
            }
            if self.flush() == State::Closed {
                return State::Closed;
            }
        }
        let done = self.finished && !self.owes() && self.input.is_empty();
        if done { State::Closed } else { State::Open }
    }

    /// Reads what is there.
    fn fill(&mut self) -> State {
        let mut chunk = [0; READ_BYTES_MAX];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.finished = true,
            Ok(count) => {
                self.active = Instant::now();
                self.input.extend_from_slice(&chunk[..count]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return State::Closed,
        }
        State::Open
    }

    /// The next request without its line end. The last one may lack it, and one that is too long is given as it
    /// is, so that memory stays bounded.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        if let Some(at) = self.input[self.scanned..].iter().position(|&byte| byte == b'\n') {
            let rest = self.input.split_off(self.scanned + at + 1);
            let mut line = std::mem::replace(&mut self.input, rest);
            line.pop();
            self.scanned = 0;
            return Some(line);
        }
        self.scanned = self.input.len();
        let last = self.finished || self.input.len() > REQUEST_BYTES_MAX;
        if !last || self.input.is_empty() {
            return None;
        }
        self.scanned = 0;
        Some(std::mem::take(&mut self.input))
    }

    /// There is no telling where the next request begins, so the client is heard no more.
    fn refuse_length(&mut self) {
        let why = format!("at most {REQUEST_BYTES_MAX} bytes are read");
        self.output = response(None, Err(bad_request("the request is too long", why)));
        self.input = Vec::new();
        self.scanned = 0;
        self.finished = true;
    }

    /// Writes what the client takes.
    fn flush(&mut self) -> State {
        while self.owes() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return State::Closed,
                Ok(count) => {
                    self.written += count;
                    self.active = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return State::Open,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return State::Closed,
            }
        }
        self.output = Vec::new();
        self.written = 0;
        State::Open
    }
}
