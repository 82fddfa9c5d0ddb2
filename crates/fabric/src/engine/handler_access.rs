//! Access of the threads of a run to its completion handler.

use std::sync::{Mutex, MutexGuard, TryLockError};

use super::completions::CompletionHandler;
use super::spinning::spin_until;

/// The completion handler, as one thread of a run sees it.
pub(super) enum HandlerAccess<'a, 'h> {
    /// The run has one thread. It needs no lock: a lock for each completion would wait until all earlier stores have
    /// reached their cache lines, and took 3 % of the time of a large fabric.
    Exclusive(&'a mut (dyn CompletionHandler + 'h)),
    /// The run has several threads.
    Shared(SharedHandler<'a, 'h>),
}

/// The completion handler of a run with several threads.
pub(super) struct SharedHandler<'a, 'h> {
    handler: &'a Mutex<&'h mut (dyn CompletionHandler + 'h)>,
    /// The lock, if this thread keeps it.
    kept: Option<MutexGuard<'a, &'h mut (dyn CompletionHandler + 'h)>>,
    keeps_lock: bool,
    /// Number of calls of [`HandlerAccess::with`].
    calls: u64,
}

impl<'a, 'h> SharedHandler<'a, 'h> {
    pub(super) fn new(handler: &'a Mutex<&'h mut (dyn CompletionHandler + 'h)>) -> SharedHandler<'a, 'h> {
        SharedHandler {
            handler,
            kept: None,
            keeps_lock: false,
            calls: 0,
        }
    }
}

impl HandlerAccess<'_, '_> {
    /// Calls `act` with the handler. Other threads wait until `act` returns, or longer
    /// ([`HandlerAccess::keep_lock`]).
    ///
    /// If another thread has panicked, the handler can be in any state. That panic ends the run after the window.
    #[inline]
    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut dyn CompletionHandler) -> R) -> R {
        match self {
            HandlerAccess::Exclusive(handler) => act(*handler),
            HandlerAccess::Shared(shared) => {
                shared.calls += 1;
                if let Some(kept) = &mut shared.kept {
                    return act(**kept);
                }
                let mut guard = lock_spinning(shared.handler);
                let result = act(*guard);
                if shared.keeps_lock {
                    shared.kept = Some(guard);
                }
                result
            }
        }
    }

    /// From the next call of [`HandlerAccess::with`] on, other threads wait until [`HandlerAccess::release_lock`].
    pub(super) fn keep_lock(&mut self) {
        if let HandlerAccess::Shared(shared) = self {
            shared.keeps_lock = true;
        }
    }

    /// Ends the effect of [`HandlerAccess::keep_lock`].
    pub(super) fn release_lock(&mut self) {
        if let HandlerAccess::Shared(shared) = self {
            shared.keeps_lock = false;
            shared.kept = None;
        }
    }

    /// Returns the number of calls of [`HandlerAccess::with`] in a run with several threads.
    pub(super) fn calls(&self) -> u64 {
        match self {
            HandlerAccess::Exclusive(_) => 0,
            HandlerAccess::Shared(shared) => shared.calls,
        }
    }
}

/// Number of attempts to lock before other threads may use the core.
const LOCK_SPINS: u32 = 2_000;

/// Locks a mutex that other threads hold for a few microseconds. Waking up a sleeping thread takes longer, so the
/// thread tries again and again. A poisoned mutex is locked too: the panic of the other thread ends the run anyway.
pub(super) fn lock_spinning<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    spin_until(LOCK_SPINS, || match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}
