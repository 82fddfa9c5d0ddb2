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
use crate::shared_memory::SharedMemory;

/// Longest sleep, after which the stop flag is read.
const SLEEP_MAX_MS: u8 = 50;
/// Sleep of a program that waits for shared memory.
const MEMORY_SLEEP: Duration = Duration::from_micros(50);
/// Number of looks at the shared memory after which a program looks whether its peer has ended.
const LOOKS_MAX: u32 = 4_096;
/// Number of looks at the shared memory between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 64;
/// Number of waiting bytes above which messages are sent at once.
const WRITE_BYTES: usize = 65_536;

/// Largest number of received bytes that wait while the peer does not read. The order rules permit 4096 frames, which
/// have at most 68 MB.
const BACKLOG_BYTES_MAX: usize = 128 << 20;

/// How a program waits for its peer.
#[derive(Clone, Debug)]
pub struct WaitOptions {
    /// Time for which the program polls without sleeping. A longer time is faster, and keeps a CPU busy.
    pub spin: Duration,
    /// Longest time without a message of the peer that permits progress, and until the peer connects.
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

/// Returns the path of the file with the shared memory of a socket.
fn memory_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ring");
    PathBuf::from(path)
}

/// A socket at which a simulator connects, and a file `SOCKET.ring` with shared memory. A drop removes both files.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    path: PathBuf,
    /// The memory for the first simulator.
    memory: Option<SharedMemory>,
}

impl SocketListener {
    /// Creates the socket. A file of a program that has ended is replaced.
    ///
    /// The first shared memory of a process changes the action of SIGBUS for the process: an access to a file that
    /// another program has shortened becomes an error of the connection. Any other SIGBUS has its previous action.
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
        let memory_path = memory_path(path);
        // The socket was created, so a file of an earlier program is not in use any more.
        let _ = std::fs::remove_file(&memory_path);
        let memory = SharedMemory::create(&memory_path).map_err(|error| {
            let _ = std::fs::remove_file(path);
            failure(format!("{}: {error}", memory_path.display()))
        })?;
        Ok(SocketListener {
            listener,
            path: path.to_owned(),
            memory: Some(memory),
        })
    }

    /// Waits until a simulator connects.
    ///
    /// # Errors
    /// Nobody connects within [`WaitOptions::timeout`].
    pub fn accept(&mut self, wait: WaitOptions) -> Result<SocketTransport, LinkError> {
        let deadline = Instant::now() + wait.timeout;
        loop {
            wait.check_stop()?;
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let mut transport = SocketTransport::new(stream, wait)?;
                    transport.memory = self.memory.take();
                    return Ok(transport);
                }
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
        // Another program may have removed them already.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(memory_path(&self.path));
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

/// Connects to a socket as [`connect_socket`], and uses shared memory. [`SocketListener::bind`] describes its effect on
/// SIGBUS.
///
/// # Errors
/// As [`connect_socket`], and if the shared memory cannot be used.
pub fn connect_shared_memory(path: &Path, wait: WaitOptions) -> Result<SocketTransport, LinkError> {
    let mut transport = connect_socket(path, wait)?;
    let deadline = Instant::now() + transport.wait.timeout;
    let memory = loop {
        transport.wait.check_stop()?;
        match SharedMemory::open(&memory_path(path)) {
            Ok(memory) => break memory,
            // The other program creates the file after the socket.
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(system_error("the shared memory cannot be used", &error)),
        }
    };
    transport.memory = Some(memory);
    Ok(transport)
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

/// Messages over a connected Unix socket, or through shared memory. The socket then shows whether the peer has ended.
#[derive(Debug)]
pub struct SocketTransport {
    stream: UnixStream,
    memory: Option<SharedMemory>,
    uses_memory: bool,
    /// Number of looks at the shared memory since the last one at the socket.
    looks: u32,
    wait: WaitOptions,
    decoder: MessageDecoder,
    unsent: Vec<u8>,
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
            memory: None,
            uses_memory: false,
            looks: 0,
            wait,
            decoder: MessageDecoder::default(),
            unsent: Vec::new(),
        })
    }

    /// Reads what the socket or the shared memory has. Returns whether there was anything.
    fn fill(&mut self) -> Result<bool, LinkError> {
        let Some(memory) = self.memory.as_mut().filter(|_| self.uses_memory) else {
            return self.fill_from_socket();
        };
        let decoder = &mut self.decoder;
        let mut read = || {
            let read = decoder.fill(|room| memory.read(room));
            read.map_err(|error| LinkError::SharedMemory(error.to_string()))
        };
        let mut count = read()?;
        self.looks += 1;
        if count == 0 && self.looks >= LOOKS_MAX {
            self.looks = 0;
            let mut byte = [0];
            let has_ended = matches!(self.stream.read(&mut byte), Ok(0));
            // The last bytes may have arrived in the meantime.
            count = read()?;
            if has_ended && count == 0 {
                return Err(LinkError::Closed);
            }
        }
        Ok(count > 0)
    }

    /// Writes bytes, as many as fit.
    fn write(&mut self, from: usize) -> std::io::Result<usize> {
        let bytes = &self.unsent[from..];
        match self.memory.as_mut().filter(|_| self.uses_memory) {
            Some(memory) => match memory.write(bytes)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => Ok(count),
            },
            None => self.stream.write(bytes),
        }
    }

    /// Sleeps until something arrives or can be written, or for a short time.
    fn sleep(&mut self, events: PollFlags) -> Result<(), LinkError> {
        if !self.uses_memory {
            return sleep_until_ready(&self.stream, events);
        }
        self.looks = LOOKS_MAX;
        std::thread::sleep(MEMORY_SLEEP);
        Ok(())
    }

    fn fill_from_socket(&mut self) -> Result<bool, LinkError> {
        loop {
            let stream = &mut self.stream;
            match self.decoder.fill(|room| stream.read(room)) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(_) => return Ok(true),
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
        let mut deadline = None;
        while sent < self.unsent.len() {
            match self.write(sent) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A peer that also sends must not wait for this program.
                    if self.decoder.unread_bytes() < BACKLOG_BYTES_MAX {
                        self.fill()?;
                    }
                    self.wait.check_stop()?;
                    let wait = self.wait.timeout;
                    if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + wait) {
                        return Err(LinkError::Silent { wait, horizon_ps: 0 });
                    }
                    self.sleep(PollFlags::POLLIN | PollFlags::POLLOUT)?;
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
                Err(error) if self.uses_memory => return Err(LinkError::SharedMemory(error.to_string())),
                Err(error) => return Err(system_error("the socket cannot be written", &error)),
            }
        }
        self.unsent.clear();
        Ok(())
    }

    fn receive(&mut self) -> Result<Message, LinkError> {
        // A peer that always sends must not keep the program from this check.
        self.wait.check_stop()?;
        self.flush()?;
        if let Some(message) = self.decoder.next_message()? {
            return Ok(message);
        }
        let mut started = None;
        loop {
            if self.fill()? {
                if let Some(message) = self.decoder.next_message()? {
                    return Ok(message);
                }
                continue;
            }
            // A look at the memory takes less time than one at the clock.
            if self.uses_memory && !self.looks.is_multiple_of(LOOKS_PER_CLOCK) {
                std::hint::spin_loop();
                continue;
            }
            let waited = started.get_or_insert_with(Instant::now).elapsed();
            if waited < self.wait.spin && waited < self.wait.timeout {
                std::hint::spin_loop();
                continue;
            }
            self.wait.check_stop()?;
            if waited > self.wait.timeout {
                let wait = self.wait.timeout;
                return Err(LinkError::Silent { wait, horizon_ps: 0 });
            }
            self.sleep(PollFlags::POLLIN)?;
        }
    }

    fn has_shared_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn use_shared_memory(&mut self) {
        self.uses_memory = self.memory.is_some();
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.wait.timeout)
    }
}
