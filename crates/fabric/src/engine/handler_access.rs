//! Access of the threads of a run to its completion handler.

use std::sync::Mutex;

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
            HandlerAccess::Shared(handler) => {
                act(*handler.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
            }
        }
    }
}
