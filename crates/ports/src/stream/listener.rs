//! The listening socket of a stream port.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use nix::sys::stat::{Mode, fchmod};

use super::address::StreamAddress;

/// Number of connections that wait for the port. More are not needed, because a port has one peer.
const BACKLOG: i32 = 8;

/// The reason why a port cannot listen at its address.
#[derive(Debug)]
pub(super) enum ListenError {
    /// The path belongs to a file that is not a socket.
    NotASocket,
    /// A process listens at the address.
    InUse,
    /// A system call failed.
    Io(io::Error),
}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> ListenError {
        ListenError::Io(error)
    }
}

impl From<Errno> for ListenError {
    fn from(error: Errno) -> ListenError {
        ListenError::Io(error.into())
    }
}

/// A listening socket. If it has a file, dropping the listener removes this file.
#[derive(Debug)]
pub(super) struct StreamListener {
    socket: ListeningSocket,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum ListeningSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A socket file of this process, with its device and inode. If another process has replaced the file, the inode
/// differs, and the file is not removed.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if read_inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            // A failure has no effect, because the next start replaces a stale socket.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn read_inode(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|data| (data.dev(), data.ino()))
}

impl StreamListener {
    /// Listens at an address. A socket file without a process that listens is replaced.
    pub(super) fn bind(address: &StreamAddress) -> Result<StreamListener, ListenError> {
        let in_use = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => ListenError::InUse,
            _ => ListenError::Io(error),
        };
        let mut file = None;
        let socket = match address {
            StreamAddress::Path(path) => {
                let socket = bind_file(path)?;
                file = Some(SocketFile {
                    path: path.clone(),
                    inode: read_inode(path)?,
                });
                ListeningSocket::Unix(socket)
            }
            StreamAddress::Abstract(name) => {
                let address = SocketAddr::from_abstract_name(name)?;
                ListeningSocket::Unix(UnixListener::bind_addr(&address).map_err(in_use)?)
            }
            StreamAddress::Loopback(address) => {
                ListeningSocket::Tcp(TcpListener::bind(address).map_err(in_use)?)
            }
        };
        match &socket {
            ListeningSocket::Unix(socket) => socket.set_nonblocking(true)?,
            ListeningSocket::Tcp(socket) => socket.set_nonblocking(true)?,
        }
        Ok(StreamListener { socket, _file: file })
    }

    /// Accepts the next connection. Returns `None` if no connection waits, or if the kernel refuses it for now.
    pub(super) fn accept(&self) -> Option<OwnedFd> {
        match &self.socket {
            ListeningSocket::Unix(socket) => socket.accept().ok().map(|(stream, _)| stream.into()),
            ListeningSocket::Tcp(socket) => {
                let (stream, _) = socket.accept().ok()?;
                // Each call sends whole frames, so nothing is gained by a wait for more bytes.
                let _ = stream.set_nodelay(true);
                Some(stream.into())
            }
        }
    }
}

impl AsFd for StreamListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListeningSocket::Unix(socket) => socket.as_fd(),
            ListeningSocket::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// Creates a listening socket whose file only the user of this process can connect to.
fn bind_file(path: &Path) -> Result<UnixListener, ListenError> {
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // The file gets the mode of the socket. Its mode is therefore never wider, not even for a moment.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let address = UnixAddr::new(path)?;
    match bind(socket.as_raw_fd(), &address) {
        Err(Errno::EADDRINUSE) => {
            remove_stale_file(path, &address)?;
            bind(socket.as_raw_fd(), &address)?;
        }
        bound => bound?,
    }
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(UnixListener::from(socket))
}

/// Removes a socket file if no process has its socket open.
fn remove_stale_file(path: &Path, address: &UnixAddr) -> Result<(), ListenError> {
    match path.symlink_metadata() {
        Ok(data) if !data.file_type().is_socket() => return Err(ListenError::NotASocket),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    // A datagram socket cannot connect to a stream socket, so the owner of a live socket does not notice this test.
    let test = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    match connect(test.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => Ok(std::fs::remove_file(path)?),
        _ => Err(ListenError::InUse),
    }
}
