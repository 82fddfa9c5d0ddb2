//! The addresses of control sockets, and the listening socket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid, seteuid};

use crate::access::is_trusted_peer;
use xoff_telemetry::failure::Failure;

/// The address of a control socket.
#[derive(Clone, Debug)]
pub enum ControlAddress {
    /// A socket file (`--api PATH`).
    Path(PathBuf),
    /// Any Unix socket address: a path, or an abstract name such as the name of a lab. An abstract name has
    /// no file.
    Socket(SocketAddr),
    /// The socket of a running lab. The server of a lab without root privileges is in a user namespace, where
    /// the root user of the machine has no ID. Root therefore connects as the owner of the lab.
    Lab {
        /// The address of the socket.
        socket: SocketAddr,
        /// The user who started the lab.
        owner: u32,
    },
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Path(path) => write!(f, "{}", path.display()),
            ControlAddress::Socket(socket) | ControlAddress::Lab { socket, .. } => {
                match (socket.as_abstract_name(), socket.as_pathname()) {
                    (Some(name), _) => write!(f, "@{}", name.escape_ascii()),
                    (None, Some(path)) => write!(f, "{}", path.display()),
                    (None, None) => f.write_str("an unnamed socket"),
                }
            }
        }
    }
}

impl ControlAddress {
    fn socket_address(&self) -> io::Result<SocketAddr> {
        match self {
            ControlAddress::Path(path) => SocketAddr::from_pathname(path),
            ControlAddress::Socket(socket) | ControlAddress::Lab { socket, .. } => Ok(socket.clone()),
        }
    }

    /// Connects to the socket and checks that the server belongs to the same user or to root. Without this
    /// check, any user could bind the abstract name of the socket and act as the server.
    ///
    /// # Errors
    /// Returns an error if no process listens at the address, or if the process belongs to another user.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let address = self.socket_address()?;
        let (stream, owner) = match self {
            ControlAddress::Lab { owner, .. } => (connect_as(*owner, &address)?, Some(*owner)),
            _ => (UnixStream::connect_addr(&address)?, None),
        };
        if !is_trusted_peer(&stream, owner) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "another user's process listens there",
            ));
        }
        Ok(stream)
    }
}

/// Connects as the user `owner` if the caller is root. The kernel shows the server the effective user of the
/// call `connect`.
fn connect_as(owner: u32, address: &SocketAddr) -> io::Result<UnixStream> {
    let own = geteuid();
    if !own.is_root() || owner == 0 {
        return UnixStream::connect_addr(address);
    }
    seteuid(Uid::from_raw(owner))?;
    let connected = UnixStream::connect_addr(address);
    seteuid(own)?;
    connected
}

/// A listening control socket. If the listener has created a socket file, dropping the listener removes
/// this file.
#[derive(Debug)]
pub struct ControlListener {
    socket: UnixListener,
    file: Option<SocketFile>,
}

/// A socket file that this process has created, with its inode. If a different process has since replaced the
/// file, the inode of the path differs, and the new file is not removed.
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

impl ControlListener {
    /// Creates a listener from a socket that another process has bound, such as the supervisor of a lab.
    /// Dropping the listener removes no file.
    pub fn inherited(listener: UnixListener) -> ControlListener {
        ControlListener {
            socket: listener,
            file: None,
        }
    }

    /// Creates a socket and binds it to `address`. An existing socket file without a listener is replaced.
    ///
    /// # Errors
    /// Returns an error if a process listens on a socket at this path, if the path belongs to a file that is
    /// not a socket, or if the folder of the path is missing or not writable.
    pub fn bind(address: &ControlAddress) -> Result<ControlListener, Failure> {
        let failure = |error: io::Error| bind_failure(address, &error);
        let socket_address = address.socket_address().map_err(failure)?;
        let bound = match (UnixListener::bind_addr(&socket_address), address) {
            (Err(error), ControlAddress::Path(path)) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind_addr(&socket_address)
            }
            (bound, _) => bound,
        };
        let socket = bound.map_err(failure)?;
        let file = match address {
            ControlAddress::Path(path) => Some(SocketFile {
                path: path.clone(),
                inode: read_inode(path).map_err(failure)?,
            }),
            ControlAddress::Socket(_) | ControlAddress::Lab { .. } => None,
        };
        Ok(ControlListener { socket, file })
    }

    /// Returns the listening socket.
    pub(crate) fn socket(&self) -> &UnixListener {
        &self.socket
    }

    /// Returns the path of the socket file. Returns `None` if the listener has created no file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }
}

/// Removes the socket file at `path` if no process listens on it. Otherwise returns an error.
fn remove_stale(path: &Path) -> Result<(), Failure> {
    let path_failure = |what: &str| Failure::environment(what).at(format!("--api {}", path.display()));
    let data = match path.symlink_metadata() {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(path_failure("the control socket's path cannot be read").because(error)),
    };
    if !data.file_type().is_socket() {
        return Err(
            path_failure("the control socket's path belongs to a file that is not a socket")
                .fix("choose another path, or move the file"),
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(path_failure("another process answers on this control socket")
            .fix("choose another path, or stop that process")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|error| path_failure("the stale control socket cannot be removed").because(error)),
        Err(error) => Err(path_failure("the existing control socket cannot be tested").because(error)),
    }
}

/// Returns the [`Failure`] to report if a control socket cannot be bound to its address. The failure suggests
/// a fix to the user.
fn bind_failure(address: &ControlAddress, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::NotFound => "create the folder first",
        ErrorKind::PermissionDenied => "choose a folder with write permission, such as $XDG_RUNTIME_DIR",
        ErrorKind::InvalidInput => "choose a shorter path (a socket's path has at most 107 bytes)",
        _ => "choose another path",
    };
    Failure::environment("the control socket cannot be opened")
        .at(address.to_string())
        .because(error)
        .fix(fix)
}
