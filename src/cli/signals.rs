//! Handling of SIGINT and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use xoff_telemetry::failure::{Exit, Failure};

/// Returns a flag that becomes true at the first SIGINT or SIGTERM. The second signal ends the
/// process immediately.
///
/// # Errors
/// The kernel refuses a signal handler.
pub(super) fn watch_stop_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted as u8);
        // A signal calls the handlers in the order of their registration. The first handler therefore ends
        // the process only if an earlier signal has set the flag.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::environment("cannot watch signals").because(error))?;
    }
    Ok(stop)
}
