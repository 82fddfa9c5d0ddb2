//! Wakes a thread that sleeps in `ppoll(2)`.

mod sleep_flag;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::eventfd::{EfdFlags, EventFd};

use sleep_flag::SleepFlag;

/// A handle to wake one thread that sleeps in `ppoll(2)`. Clones of the handle wake the same thread.
///
/// If the thread is awake, [`ThreadWaker::wake`] makes no system call.
#[derive(Clone, Debug)]
pub struct ThreadWaker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    fd: EventFd,
    flag: SleepFlag<AtomicBool>,
}

impl ThreadWaker {
    /// Creates a waker with its eventfd.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`, such as `EMFILE` for too many open files.
    pub fn new() -> io::Result<ThreadWaker> {
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(ThreadWaker(Arc::new(WakerState {
            fd,
            flag: SleepFlag::new(AtomicBool::new(false)),
        })))
    }

    /// Wakes the thread if it sleeps. Before this call, the caller must queue the work for the thread.
    pub fn wake(&self) {
        if self.0.flag.take_sleeper() {
            // A full eventfd counter also wakes the thread. No other error is possible for an open eventfd.
            let _ = self.0.fd.write(1);
        }
    }

    /// Announces that the thread is about to sleep. After this call, the thread must check for work once
    /// more. Without work, the thread sleeps until [`ThreadWaker::fd`] is readable. In both cases, it then
    /// calls [`ThreadWaker::finish_sleep`].
    pub fn prepare_sleep(&self) {
        self.0.flag.announce_sleep();
    }

    /// Announces that the thread is awake. `is_readable` must be true if [`ThreadWaker::fd`] was readable in
    /// the last poll, and false if the thread did not sleep.
    ///
    /// A wake-up that arrives after the poll is not lost: it ends the next sleep at once.
    pub fn finish_sleep(&self, is_readable: bool) {
        self.0.flag.end_sleep();
        if is_readable {
            let _ = self.0.fd.read();
        }
    }

    /// Returns the eventfd that the thread polls while it sleeps.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
