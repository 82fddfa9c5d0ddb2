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

    /// Calls `act` with the handler, unless another thread uses the handler.
    pub(super) fn try_with(&mut self, act: impl FnOnce(&mut dyn CompletionHandler)) {
        match self {
            HandlerAccess::Exclusive(handler) => act(*handler),
            HandlerAccess::Shared(handler) => {
                if let Some(mut guard) = try_lock(handler) {
                    act(*guard);
                }
            }
        }
    }
}

/// Number of attempts to lock before other threads may use the core.
const LOCK_SPINS: u32 = 2_000;

/// Locks a mutex that other threads hold for a few microseconds. Waking up a sleeping thread takes longer, so the
/// thread tries again and again. A poisoned mutex is locked too: the panic of the other thread ends the run anyway.
pub(super) fn lock_spinning<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    spin_until(LOCK_SPINS, || try_lock(mutex))
}

/// Locks a mutex, unless another thread holds it.
fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
