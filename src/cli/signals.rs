//! Handling of SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use xoff_telemetry::failure::{Exit, Failure};

/// Returns a flag that becomes true at the first SIGINT, SIGTERM or SIGHUP. A second SIGINT or SIGTERM ends the
/// process immediately. SIGHUP stays ignored if the process was started so, as under `nohup`.
///
/// # Errors
/// The kernel refuses a signal handler.
pub(super) fn watch_stop_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let failure = |error| Failure::environment("cannot watch signals").because(error);
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted as u8);
        // A signal calls the handlers in the order of their registration. The first handler therefore ends
        // the process only if an earlier signal has set the flag.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(failure)?;
    }
    // The kernel and the shell both send SIGHUP when a terminal is closed, so a second SIGHUP has no effect.
    if !xoff_lab::is_hangup_ignored() {
        signal_hook::flag::register(SIGHUP, Arc::clone(&stop)).map_err(failure)?;
    }
    Ok(stop)
}
