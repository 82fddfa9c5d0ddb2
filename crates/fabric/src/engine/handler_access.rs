//! Access of the threads of a run to its completion handler.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::completions::CompletionHandler;

/// The completion handler, as one thread of a run sees it.
pub(super) enum HandlerAccess<'a, 'h> {
    /// The run has one thread. It needs no lock: a lock for each completion would wait until all earlier stores have
    /// reached their cache lines, and took 3 % of the time of a large fabric.
    Exclusive(&'a mut (dyn CompletionHandler + 'h)),
    /// The run has several threads.
    Shared(&'a Mutex<&'h mut (dyn CompletionHandler + 'h)>),
}

impl HandlerAccess<'_, '_> {
    /// Calls `act` with the handler. Other threads wait until `act` returns.
    ///
    /// If another thread has panicked, the handler can be in any state. That panic ends the run after the window.
    #[inline]
    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut dyn CompletionHandler) -> R) -> R {
        match self {
            HandlerAccess::Exclusive(handler) => act(*handler),
            HandlerAccess::Shared(handler) => act(*lock_spinning(handler)),
        }
    }
}

/// Number of attempts to lock before the thread sleeps.
const LOCK_SPINS: u32 = 2_000;

/// Locks a mutex that other threads hold for less than a microsecond. Waking up a sleeping thread takes longer, so the
/// thread tries again and again. A poisoned mutex is locked too: the panic of the other thread ends the run anyway.
pub(super) fn lock_spinning<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOCK_SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
