//! Network namespaces without a name in the file system.
//!
//! A file descriptor keeps a namespace without a name alive. When the process with the descriptor ends, the
//! namespace disappears. This also happens after a crash.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;

use super::{Error, Result};

/// A network namespace. The value holds a file descriptor, which keeps the namespace alive.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

/// Identity of a namespace: the device number and the inode number of the namespace file in `/proc`. Two
/// values are equal if they belong to the same namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId {
    device: u64,
    inode: u64,
}

impl Netns {
    /// Creates a new network namespace. Its loopback interface is down. The calling thread stays in its
    /// present namespace.
    ///
    /// # Errors
    /// Returns [`Error::NotPermitted`] if the process has no `CAP_SYS_ADMIN` in its user namespace, or
    /// another [`Error`] if the kernel refuses the namespace or a thread.
    pub fn create() -> Result<Netns> {
        run_on_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::from_errno("create a network namespace", "", errno as i32))?;
            Netns::current()
        })
    }

    /// Returns the network namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub fn current() -> Result<Netns> {
        Netns::open("/proc/thread-self/ns/net")
    }

    /// Returns the network namespace of the process with the id `pid`.
    ///
    /// # Errors
    /// Returns an error if the process does not exist or belongs to another user.
    pub fn from_pid(pid: u32) -> Result<Netns> {
        Netns::open(&format!("/proc/{pid}/ns/net"))
    }

    /// Takes ownership of the descriptor of a network namespace. The function does not check the descriptor.
    /// A wrong descriptor causes errors in later calls.
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

    /// Returns the descriptor of the namespace, for example to pass it to a child process.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the identity of the namespace, to compare it with other namespaces.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot read the status of the descriptor (`fstat(2)`).
    pub fn id(&self) -> Result<NetnsId> {
        let status = fstat(&self.fd)
            .map_err(|errno| Error::from_errno("identify a network namespace", "", errno as i32))?;
        Ok(NetnsId {
            device: status.st_dev,
            inode: status.st_ino,
        })
    }

    /// Returns a second value with its own descriptor for the same namespace.
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
    /// Returns [`Error::NotPermitted`] if the process has no `CAP_SYS_ADMIN` over the namespace.
    pub fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::from_errno("enter a network namespace", "", errno as i32))
    }

    /// Runs `function` on a new thread in this namespace and waits for the result of `function`.
    ///
    /// The sockets that `function` opens stay in this namespace. Other threads may use these sockets later.
    ///
    /// # Errors
    /// Returns the same errors as [`Netns::enter`], or an error if the kernel refuses a new thread.
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

/// Runs `function` on a new thread and waits for the end of this thread. A separate thread is necessary,
/// because a thread cannot leave a namespace that it has entered.
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
