//! Network namespaces that file descriptors keep alive.
//!
//! The namespace has no name in the file system, so it exists only while a descriptor or a process refers to
//! it. When this process ends, the namespace disappears, even after a crash.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;

use super::{Error, Result};

/// A network namespace, held by a file descriptor.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

/// Identity of a namespace: device and inode number of the kernel's namespace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId {
    device: u64,
    inode: u64,
}

impl Netns {
    /// Creates a new network namespace, whose loopback interface is down. The calling thread stays in its
    /// present namespace.
    ///
    /// # Errors
    /// Returns [`Error::NotPermitted`] without `CAP_SYS_ADMIN` in the user namespace.
    pub fn create() -> Result<Netns> {
        run_on_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::from_errno("create a network namespace", "", errno as i32))?;
            Netns::current()
        })
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub fn current() -> Result<Netns> {
        Netns::open("/proc/thread-self/ns/net")
    }

    /// Returns the namespace of a process.
    ///
    /// # Errors
    /// Returns an error if the process does not exist or belongs to another user.
    pub fn from_pid(pid: u32) -> Result<Netns> {
        Netns::open(&format!("/proc/{pid}/ns/net"))
    }

    /// Takes ownership of the descriptor of a namespace.
    pub fn from_fd(fd: OwnedFd) -> Netns {
        Netns { fd }
    }

    fn open(path: &str) -> Result<Netns> {
        match File::open(path) {
            Ok(file) => Ok(Netns { fd: file.into() }),
            Err(error) => Err(Error::from_io(
                &format!("open the network namespace {path}"),
                path,
                &error,
            )),
        }
    }

    /// Returns the descriptor, for example to pass it to a child process.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the identity of the namespace.
    ///
    /// # Errors
    /// Returns an error if the descriptor does not belong to a file.
    pub fn id(&self) -> Result<NetnsId> {
        let status = fstat(&self.fd)
            .map_err(|errno| Error::from_errno("identify a network namespace", "", errno as i32))?;
        Ok(NetnsId {
            device: status.st_dev,
            inode: status.st_ino,
        })
    }

    /// Returns a second descriptor of the same namespace.
    ///
    /// # Errors
    /// Returns an error if the process has no free descriptor.
    pub fn try_clone(&self) -> Result<Netns> {
        match self.fd.try_clone() {
            Ok(fd) => Ok(Netns { fd }),
            Err(error) => Err(Error::from_io("hold a network namespace", "", &error)),
        }
    }

    /// Moves the calling thread permanently to this namespace.
    ///
    /// # Errors
    /// Returns [`Error::NotPermitted`] without `CAP_SYS_ADMIN` over the namespace.
    pub fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::from_errno("enter a network namespace", "", errno as i32))
    }

    /// Runs `function` on a new thread in the namespace, and returns the result of `function`.
    ///
    /// Sockets that `function` opens stay in this namespace, wherever they are used later.
    ///
    /// # Errors
    /// Returns the same errors as [`Netns::enter`].
    ///
    /// # Panics
    /// Panics if `function` panics.
    pub fn run<R: Send>(&self, function: impl FnOnce() -> R + Send) -> Result<R> {
        run_on_new_thread(|| {
            self.enter()?;
            Ok(function())
        })
    }
}

/// Runs `function` on a new thread that ends afterwards, because entering a namespace is permanent
/// for a thread.
fn run_on_new_thread<R: Send>(function: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, function)
            .map_err(|error| Error::from_io("start a thread for a network namespace", "", &error))?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
