//! Pins threads to cores.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use xoff_telemetry::count_noun;

/// The rule by which threads are pinned to cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CorePinning {
    /// Each thread is pinned to its own core. If there are fewer cores than threads, no thread is pinned.
    /// While other processes keep a core busy, the switch worker of this core may run on any core that the
    /// process is allowed to use.
    #[default]
    Auto,
    /// No thread is pinned.
    None,
    /// The cores of the threads in this order: switch workers, I/O workers, hosts. Threads without a core in
    /// the list are not pinned.
    List(Vec<usize>),
}

/// Selects a core for each of `threads` threads. `allowed` are the cores that the process may use. The result
/// has one entry for each thread, and `None` means that the thread is not pinned. If threads cannot be pinned
/// as `pin` demands, the second value is a note for the user.
pub fn assign_cores(
    pin: &CorePinning,
    threads: usize,
    allowed: &[usize],
) -> (Vec<Option<usize>>, Option<String>) {
    let unpinned = vec![None; threads];
    match pin {
        CorePinning::None => (unpinned, None),
        CorePinning::Auto if threads <= allowed.len() => {
            (allowed.iter().take(threads).copied().map(Some).collect(), None)
        }
        CorePinning::Auto => {
            let note = format!(
                "not pinned: {} on only {}; use fewer --workers or --pin LIST",
                count_noun(threads as u64, "thread"),
                count_noun(allowed.len() as u64, "core")
            );
            (unpinned, Some(note))
        }
        CorePinning::List(list) => {
            let refused: Vec<_> = list.iter().filter(|core| !allowed.contains(core)).collect();
            let cores = (0..threads)
                .map(|n| list.get(n).copied().filter(|c| allowed.contains(c)))
                .collect();
            let note = if !refused.is_empty() {
                Some(format!(
                    "--pin names cores {refused:?}, but only {allowed:?} are allowed: those threads are not pinned"
                ))
            } else if list.len() < threads {
                Some(format!(
                    "--pin names {} for {}: the last ones are not pinned",
                    count_noun(list.len() as u64, "core"),
                    count_noun(threads as u64, "thread")
                ))
            } else {
                None
            };
            (cores, note)
        }
    }
}

/// Pins the calling thread to the core `core`. With `None`, the function does nothing.
///
/// # Errors
/// Returns a message for the user if the kernel refuses.
pub fn bind_to_core(core: Option<usize>) -> Result<(), String> {
    let Some(id) = core else { return Ok(()) };
    if core_affinity::set_for_current(core_affinity::CoreId { id }) {
        Ok(())
    } else {
        Err(format!("the kernel refused to pin a thread to core {id}"))
    }
}

/// The core of a thread under [`CorePinning::Auto`]. The thread is pinned to this core as long as no other
/// thread competes for the core.
///
/// Other programs can keep the core of a pinned thread busy. The thread would then wait for its time slice,
/// even if a second core is free. The thread is therefore unpinned while its core is crowded.
#[derive(Clone, Debug)]
pub struct CoreBinding {
    core: usize,
    allowed: Vec<usize>,
    is_bound: bool,
}

impl CoreBinding {
    /// Creates the binding of a thread that is pinned to `core`. `allowed` are the cores that the process may
    /// use. Returns `None` if the thread must never leave its core: `core` is `None`, the user has selected
    /// the core, or no other core is allowed.
    pub fn new(pin: &CorePinning, core: Option<usize>, allowed: &[usize]) -> Option<CoreBinding> {
        let core = core.filter(|_| *pin == CorePinning::Auto && allowed.len() > 1)?;
        Some(CoreBinding {
            core,
            allowed: allowed.to_vec(),
            is_bound: true,
        })
    }

    /// Pins the calling thread to its core. If `is_core_contended` is true, the thread may use all allowed
    /// cores instead.
    pub fn update(&mut self, is_crowded: bool) {
        if self.is_bound != is_crowded {
            return;
        }
        self.is_bound = !is_crowded;
        let own = [self.core];
        let cores = if is_crowded { &self.allowed[..] } else { &own };
        let mut set = CpuSet::new();
        let known = cores.iter().all(|core| set.set(*core).is_ok());
        // If the kernel refuses, the thread stays where it is and is only slower.
        if known {
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }
}

/// Sets the timer slack of the calling thread to its minimum of 1 ns, so that wake-ups are exact. The default
/// timer slack is 50 us.
pub fn set_exact_timers() {
    // A refusal is no error: wake-ups are only a little later.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_pinning_needs_a_core_for_every_thread() {
        assert_eq!(assign_cores(&CorePinning::Auto, 2, &[3, 5]).0, [Some(3), Some(5)]);
        let (cores, note) = assign_cores(&CorePinning::Auto, 3, &[3, 5]);
        assert_eq!(cores, [None, None, None]);
        assert!(note.is_some_and(|n| n.contains("not pinned")));
    }

    #[test]
    fn listed_cores_are_used_in_order_and_cores_that_are_not_allowed_are_reported() {
        assert_eq!(
            assign_cores(&CorePinning::List(vec![5, 3]), 2, &[3, 5]),
            (vec![Some(5), Some(3)], None)
        );
        let (cores, note) = assign_cores(&CorePinning::List(vec![9, 3]), 2, &[3, 5]);
        assert_eq!(cores, [None, Some(3)]);
        assert!(note.is_some_and(|n| n.contains('9')));
    }
}
