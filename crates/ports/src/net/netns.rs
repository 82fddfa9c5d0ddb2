//! Network namespaces, held by file descriptors and by nothing else.
//!
//! A namespace without a name in the file system lives exactly as long as a descriptor of it, or a process
//! in it, does. So a process that dies, however it dies, leaves none behind.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;

use super::{Error, Result};

/// A network namespace.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

/// What tells two namespaces apart: device and inode number of the kernel's namespace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId {
    device: u64,
    inode: u64,
}

impl Netns {
    /// A new, empty namespace (its loopback interface is down). The caller stays where it is.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without `CAP_SYS_ADMIN` in the user namespace.
    pub fn create() -> Result<Netns> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::from_errno("create a network namespace", "", errno as i32))?;
            Netns::current()
        })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// Where `/proc` is not mounted.
    pub fn current() -> Result<Netns> {
        Netns::open("/proc/thread-self/ns/net")
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// Where there is no such process, or it belongs to someone else.
    pub fn from_pid(pid: u32) -> Result<Netns> {
        Netns::open(&format!("/proc/{pid}/ns/net"))
    }

    /// Takes over a descriptor that another process has passed on.
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

    /// The descriptor, for example to pass it to a child process.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The identity of the namespace.
    ///
    /// # Errors
    /// Where the descriptor is not one of a file.
    pub fn id(&self) -> Result<NetnsId> {
        let facts = fstat(&self.fd)
            .map_err(|errno| Error::from_errno("identify a network namespace", "", errno as i32))?;
        Ok(NetnsId {
            device: facts.st_dev,
            inode: facts.st_ino,
        })
    }

    /// A second descriptor of the same namespace.
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn try_clone(&self) -> Result<Netns> {
        match self.fd.try_clone() {
            Ok(fd) => Ok(Netns { fd }),
            Err(error) => Err(Error::from_io("hold a network namespace", "", &error)),
        }
    }

    /// Moves the calling thread, for good, into this namespace.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without `CAP_SYS_ADMIN` over the namespace.
    pub fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::from_errno("enter a network namespace", "", errno as i32))
    }

    /// Runs `f` inside the namespace, on a thread of its own, and returns its result.
    ///
    /// Sockets opened by `f` stay in this namespace wherever they are used afterwards.
    ///
    /// # Errors
    /// As [`Netns::enter`].
    ///
    /// # Panics
    /// If `f` panics.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R> {
        on_a_thread(|| {
            self.enter()?;
            Ok(f())
        })
    }
}

/// Entering a namespace is for good, so it is done on a thread that is thrown away.
fn on_a_thread<R: Send>(f: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, f)
            .map_err(|error| Error::from_io("start a thread for a network namespace", "", &error))?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
