//! The signal SIGHUP, which the kernel and the shell send when a terminal is closed.

use std::fs;

use signal_hook::consts::SIGHUP;

/// Returns whether this process ignores SIGHUP, as under `nohup`. Call this before the first handler for SIGHUP
/// is registered. A program that was started under `nohup` must not stop when its terminal is closed.
pub fn is_hangup_ignored() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_signal(&status, SIGHUP))
}

/// Returns whether the text of `/proc/PID/status` has a signal in its mask of ignored signals.
fn ignores_signal(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tcat\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(ignores_signal(status, SIGHUP) && ignores_signal(status, 13));
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n";
        assert!(!ignores_signal(status, SIGHUP));
        assert!(!ignores_signal("", SIGHUP));
    }
}
