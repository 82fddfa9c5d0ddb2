//! Active waiting for another thread.

use std::thread;

/// Calls `check` until it returns a value, and returns this value. After `spins` calls, other threads may use the core
/// between two calls.
pub(super) fn spin_until<T>(spins: u32, mut check: impl FnMut() -> Option<T>) -> T {
    let mut checks = 0;
    loop {
        if let Some(value) = check() {
            return value;
        }
        if checks < spins {
            checks += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
