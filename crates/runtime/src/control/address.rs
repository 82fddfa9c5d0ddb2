//! Where a control socket is: a file, or an abstract name of a lab.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use xoff_telemetry::failure::Failure;

/// Address of a control socket.
#[derive(Clone, Debug)]
pub enum Address {
    /// A socket file (`--api PATH`).
    Path(PathBuf),
    /// An address of any kind, such as a lab's abstract name, of which nothing can remain in a file system.
    Socket(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Path(path) => write!(f, "{}", path.display()),
            Address::Socket(socket) => match (socket.as_abstract_name(), socket.as_pathname()) {
                (Some(name), _) => write!(f, "@{}", name.escape_ascii()),
                (None, Some(path)) => write!(f, "{}", path.display()),
                (None, None) => f.write_str("an unnamed socket"),
            },
        }
    }
}

impl Address {
    fn socket_address(&self) -> io::Result<SocketAddr> {
        match self {
            Address::Path(path) => SocketAddr::from_pathname(path),
            Address::Socket(socket) => Ok(socket.clone()),
        }
    }

    /// Connects, and checks that the server belongs to the same user or to root: an abstract name is open to all.
    ///
    /// # Errors
    /// Nothing listens there, or somebody else's process does.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect_addr(&self.socket_address()?)?;
        if !trusted(&stream) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "another user's process listens there",
            ));
        }
        Ok(stream)
    }
}

/// Whether the other end belongs to the same user or to root.
pub(super) fn trusted(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials)
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw())
}

/// A listening control socket. The file of one that was bound here goes when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    listener: UnixListener,
    file: Option<SocketFile>,
}

/// A socket file of ours, known by its inode, so that a successor's file is left alone.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            // Nobody is left to hear of a failure; the next start replaces a stale socket anyway.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|data| (data.dev(), data.ino()))
}

impl Endpoint {
    /// A listener that was bound by somebody else, such as the supervisor of a lab.
    pub fn inherited(listener: UnixListener) -> Endpoint {
        Endpoint { listener, file: None }
    }

    /// Binds `address`. A socket file that nobody listens on is replaced.
    ///
    /// # Errors
    /// A live socket or another file is in the way, or the place cannot be written.
    pub fn bind(address: &Address) -> Result<Endpoint, Failure> {
        let failure = |error: io::Error| bind_failure(address, &error);
        let place = address.socket_address().map_err(failure)?;
        let bound = match (UnixListener::bind_addr(&place), address) {
            (Err(error), Address::Path(path)) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind_addr(&place)
            }
            (bound, _) => bound,
        };
        let listener = bound.map_err(failure)?;
        let file = match address {
            Address::Path(path) => Some(SocketFile {
                path: path.clone(),
                inode: inode(path).map_err(failure)?,
            }),
            Address::Socket(_) => None,
        };
        Ok(Endpoint { listener, file })
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The socket's file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }
}

/// Removes a socket file that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), Failure> {
    let in_the_way = |what: &str| Failure::environment(what).at(format!("--api {}", path.display()));
    let data = match path.symlink_metadata() {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(in_the_way("the control socket's path cannot be read").because(error)),
    };
    if !data.file_type().is_socket() {
        return Err(
            in_the_way("a file that is not a socket is in the way of the control socket")
                .fix("choose another path, or move the file"),
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(in_the_way("another process answers on this control socket")
            .fix("choose another path, or stop that process")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|error| in_the_way("the stale control socket cannot be removed").because(error)),
        Err(error) => Err(in_the_way("the control socket in the way cannot be tried").because(error)),
    }
}

fn bind_failure(address: &Address, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::NotFound => "create the folder first",
        ErrorKind::PermissionDenied => "choose a folder you may write to, such as $XDG_RUNTIME_DIR",
        ErrorKind::InvalidInput => "choose a shorter path (a socket's path has at most 107 bytes)",
        _ => "choose another path",
    };
    Failure::environment("the control socket cannot be opened")
        .at(address.to_string())
        .because(error)
        .fix(fix)
}
