//! SIGINT and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use xoff_telemetry::failure::{Exit, Failure};

/// Becomes true at the first of the two signals; the second one ends the process at once.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted as u8);
        // Handlers run in the order of their registration: this one sees what earlier signals have set.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::environment("cannot watch signals").because(error))?;
    }
    Ok(stop)
}
