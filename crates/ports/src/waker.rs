//! Wake-up of a thread that sleeps in `ppoll(2)`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes one thread that sleeps in `ppoll(2)`. Clones wake the same thread.
///
/// [`ThreadWaker::wake`] makes a system call only if the thread sleeps. If the thread is awake, the call only
/// reads one word.
#[derive(Clone, Debug)]
pub struct ThreadWaker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    fd: EventFd,
    is_asleep: AtomicBool,
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
            is_asleep: AtomicBool::new(false),
        })))
    }

    /// Wakes the thread if it sleeps. The caller must queue the work for the thread before this call.
    pub fn wake(&self) {
        // Pairs with the fence in `prepare_sleep`. Either the thread sees the queued work before it sleeps,
        // or this call sees that the thread sleeps.
        fence(Ordering::SeqCst);
        if self.0.is_asleep.swap(false, Ordering::Relaxed) {
            // A full eventfd counter also wakes the thread. No other error is possible for an open eventfd.
            let _ = self.0.fd.write(1);
        }
    }

    /// Announces that the thread is about to sleep. After this call, the thread must check once more for
    /// work. If there is none, the thread polls [`ThreadWaker::fd`].
    pub fn prepare_sleep(&self) {
        self.0.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the thread is awake. `is_readable` says whether [`ThreadWaker::fd`] was readable
    /// in the poll.
    ///
    /// A wake-up that arrives after the poll stays in the eventfd and ends the next sleep at once.
    pub fn finish_sleep(&self, is_readable: bool) {
        self.0.is_asleep.store(false, Ordering::Relaxed);
        if is_readable {
            let _ = self.0.fd.read();
        }
    }

    /// Returns the descriptor that the thread polls.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
