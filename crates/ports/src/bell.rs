//! Waking a thread that sleeps in `ppoll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// One thread's bell. Ringing costs a load unless the thread sleeps.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fd: EventFd,
    asleep: AtomicBool,
}

impl Bell {
    /// A bell.
    ///
    /// # Errors
    /// Those of `eventfd`: too many open files.
    pub fn new() -> io::Result<Bell> {
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell(Arc::new(Inner {
            fd,
            asleep: AtomicBool::new(false),
        })))
    }

    /// Called after something was put where the worker looks: wakes it if it sleeps.
    pub fn ring(&self) {
        // Pairs with the fence in `about_to_sleep`: either the worker sees what was put before it sleeps, or
        // this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.0.asleep.swap(false, Ordering::Relaxed) {
            // A full counter rings as well; nothing else can go wrong with an eventfd we hold.
            let _ = self.0.fd.write(1);
        }
    }

    /// The worker announces that it is going to sleep. It looks once more for work after this, then polls [`Bell::fd`].
    pub fn about_to_sleep(&self) {
        self.0.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake again; `rung`: [`Bell::fd`] could be read. A ring that comes too late to be seen there is heard by the
    /// next sleep, which it ends at once.
    pub fn awake(&self, rung: bool) {
        self.0.asleep.store(false, Ordering::Relaxed);
        if rung {
            let _ = self.0.fd.read();
        }
    }

    /// What the thread polls.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
