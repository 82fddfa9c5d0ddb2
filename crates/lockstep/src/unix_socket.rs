//! Messages over a Unix socket.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::connection::Transport;
use crate::decoder::MessageDecoder;
use crate::error::LinkError;
use crate::message::Message;

/// Longest sleep, after which the stop flag is read.
const SLEEP_MAX_MS: u8 = 50;
/// Number of bytes that are read at once.
const READ_BYTES: usize = 65_536;
/// Number of waiting bytes above which messages are sent at once.
const WRITE_BYTES: usize = 65_536;

/// How a program waits for its peer.
#[derive(Clone, Debug)]
pub struct WaitOptions {
    /// Time for which the program polls without sleeping. A longer time is faster, and keeps a CPU busy.
    pub spin: Duration,
    /// Longest time without a message of the peer, and until the peer connects.
    pub timeout: Duration,
    /// Becomes true when the user interrupts the program.
    pub stop: Arc<AtomicBool>,
}

impl Default for WaitOptions {
    /// Polls for 20 us, and waits for 30 s.
    fn default() -> WaitOptions {
        WaitOptions {
            spin: Duration::from_micros(20),
            timeout: Duration::from_secs(30),
            stop: Arc::default(),
        }
    }
}

impl WaitOptions {
    /// Fails after an interruption.
    fn check_stop(&self) -> Result<(), LinkError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(LinkError::Interrupted),
            false => Ok(()),
        }
    }
}

/// A socket at which a simulator connects. Its file is removed at the end.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketListener {
    /// Creates the socket. A file of a program that has ended is replaced.
    ///
    /// # Errors
    /// The file exists and is in use or no socket, or it cannot be created.
    pub fn bind(path: &Path) -> Result<SocketListener, LinkError> {
        let failure = |reason: String| LinkError::System {
            what: format!("the socket {} cannot be created", path.display()),
            reason,
        };
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // A socket that refuses connections belongs to a program that has ended.
                let is_socket =
                    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
                match UnixStream::connect(path) {
                    Err(refused) if is_socket && refused.kind() == ErrorKind::ConnectionRefused => {}
                    _ => {
                        return Err(failure(
                            "the file exists and is in use, or is no socket".to_owned(),
                        ));
                    }
                }
                std::fs::remove_file(path).map_err(|error| failure(error.to_string()))?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        let listener = bound.map_err(|error| failure(error.to_string()))?;
        listener
            .set_nonblocking(true)
            .map_err(|error| failure(error.to_string()))?;
        Ok(SocketListener {
            listener,
            path: path.to_owned(),
        })
    }

    /// Waits until a simulator connects.
    ///
    /// # Errors
    /// Nobody connects within [`WaitOptions::timeout`].
    pub fn accept(&self, wait: WaitOptions) -> Result<SocketTransport, LinkError> {
        let deadline = Instant::now() + wait.timeout;
        loop {
            wait.check_stop()?;
            match self.listener.accept() {
                Ok((stream, _)) => return SocketTransport::new(stream, wait),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(system_error("no peer can connect", &error)),
            }
            if Instant::now() > deadline {
                return Err(LinkError::NoPeer(wait.timeout));
            }
            sleep_until_ready(&self.listener, PollFlags::POLLIN)?;
        }
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        // Another program may have removed it already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connects to a socket. Waits until it exists.
///
/// # Errors
/// Nobody listens within [`WaitOptions::timeout`].
pub fn connect_socket(path: &Path, wait: WaitOptions) -> Result<SocketTransport, LinkError> {
    let deadline = Instant::now() + wait.timeout;
    loop {
        wait.check_stop()?;
        match UnixStream::connect(path) {
            Ok(stream) => return SocketTransport::new(stream, wait),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(system_error("the socket cannot be reached", &error)),
        }
        if Instant::now() > deadline {
            return Err(LinkError::NoPeer(wait.timeout));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn system_error(what: &str, reason: &dyn std::fmt::Display) -> LinkError {
    LinkError::System {
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}

/// Sleeps until an event, or for a short time.
fn sleep_until_ready(socket: impl AsFd, events: PollFlags) -> Result<(), LinkError> {
    let mut polled = [PollFd::new(socket.as_fd(), events)];
    match poll(&mut polled, PollTimeout::from(SLEEP_MAX_MS)) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(system_error("the socket cannot be polled", &error)),
    }
}

/// Messages over a connected Unix socket.
#[derive(Debug)]
pub struct SocketTransport {
    stream: UnixStream,
    wait: WaitOptions,
    decoder: MessageDecoder,
    unsent: Vec<u8>,
    chunk: Vec<u8>,
}

impl SocketTransport {
    /// Uses a connected socket.
    ///
    /// # Errors
    /// The socket cannot be used without waiting.
    pub fn new(stream: UnixStream, wait: WaitOptions) -> Result<SocketTransport, LinkError> {
        stream
            .set_nonblocking(true)
            .map_err(|error| system_error("the socket cannot be used", &error))?;
        Ok(SocketTransport {
            stream,
            wait,
            decoder: MessageDecoder::default(),
            unsent: Vec::new(),
            chunk: vec![0; READ_BYTES],
        })
    }

    /// Reads what the socket has. Returns whether there was anything.
    fn fill(&mut self) -> Result<bool, LinkError> {
        loop {
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => {
                    self.decoder.push(&self.chunk[..count]);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(LinkError::Closed),
                Err(error) => return Err(system_error("the socket cannot be read", &error)),
            }
        }
    }
}

impl Transport for SocketTransport {
    fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        message.encode(&mut self.unsent);
        match self.unsent.len() > WRITE_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        let mut sent = 0;
        let deadline = Instant::now() + self.wait.timeout;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A peer that also sends must not wait for this program.
                    self.fill()?;
                    self.wait.check_stop()?;
                    if Instant::now() > deadline {
                        let wait = self.wait.timeout;
                        return Err(LinkError::Silent { wait, horizon_ps: 0 });
                    }
                    sleep_until_ready(&self.stream, PollFlags::POLLIN | PollFlags::POLLOUT)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    // The peer may have sent the reason before it closed the connection.
                    self.unsent.clear();
                    return match self.fill() {
                        Ok(true) => Ok(()),
                        _ => Err(LinkError::Closed),
                    };
                }
                Err(error) => return Err(system_error("the socket cannot be written", &error)),
            }
        }
        self.unsent.clear();
        Ok(())
    }

    fn receive(&mut self) -> Result<Message, LinkError> {
        self.flush()?;
        if let Some(message) = self.decoder.next_message()? {
            return Ok(message);
        }
        let started = Instant::now();
        loop {
            if self.fill()? {
                if let Some(message) = self.decoder.next_message()? {
                    return Ok(message);
                }
                continue;
            }
            let waited = started.elapsed();
            if waited < self.wait.spin && waited < self.wait.timeout {
                std::hint::spin_loop();
                continue;
            }
            self.wait.check_stop()?;
            if waited > self.wait.timeout {
                let wait = self.wait.timeout;
                return Err(LinkError::Silent { wait, horizon_ps: 0 });
            }
            sleep_until_ready(&self.stream, PollFlags::POLLIN)?;
        }
    }
}
