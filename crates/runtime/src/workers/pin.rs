//! Which thread runs on which core.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// How threads are bound to cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pin {
    /// One core each where there are enough of them, none otherwise; and none while others keep that core busy.
    #[default]
    Auto,
    /// The kernel decides.
    None,
    /// These cores, in the order switch worker, I/O workers, hosts.
    List(Vec<usize>),
}

/// A core for each of `threads` threads, or `None` for those left to the kernel; and what there is to say about it.
pub fn assign(pin: &Pin, threads: usize, allowed: &[usize]) -> (Vec<Option<usize>>, Option<String>) {
    let unpinned = vec![None; threads];
    match pin {
        Pin::None => (unpinned, None),
        Pin::Auto if threads <= allowed.len() => {
            (allowed.iter().take(threads).copied().map(Some).collect(), None)
        }
        Pin::Auto => {
            let note = format!(
                "not pinned: {threads} threads want a core each and {} are allowed; use fewer --workers or --pin LIST",
                allowed.len()
            );
            (unpinned, Some(note))
        }
        Pin::List(list) => {
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
                    "--pin names {} cores for {threads} threads: the last ones are not pinned",
                    list.len()
                ))
            } else {
                None
            };
            (cores, note)
        }
    }
}

/// Binds the calling thread; says so if the kernel refuses.
pub fn bind(core: Option<usize>) -> Result<(), String> {
    let Some(id) = core else { return Ok(()) };
    if core_affinity::set_for_current(core_affinity::CoreId { id }) {
        Ok(())
    } else {
        Err(format!("the kernel refused to pin a thread to core {id}"))
    }
}

/// The core of a thread under [`Pin::Auto`]. The thread is bound to the core while no other task wants it.
///
/// Guests or hosts may keep every core busy. A bound thread would then wait for its time slice even if another core became
/// free, so it is released until its core is no longer crowded.
#[derive(Clone, Debug)]
pub struct CoreBinding {
    core: usize,
    allowed: Vec<usize>,
    is_bound: bool,
}

impl CoreBinding {
    /// The binding of a thread that is bound to `core`, one of the `allowed` cores. `None` if the thread keeps its core in any
    /// case: the user chose the core, or there is no other one.
    pub fn new(pin: &Pin, core: Option<usize>, allowed: &[usize]) -> Option<CoreBinding> {
        let core = core.filter(|_| *pin == Pin::Auto && allowed.len() > 1)?;
        Some(CoreBinding {
            core,
            allowed: allowed.to_vec(),
            is_bound: true,
        })
    }

    /// Binds the calling thread to its core, or releases it if the core is crowded.
    pub fn update(&mut self, is_crowded: bool) {
        if self.is_bound != is_crowded {
            return;
        }
        self.is_bound = !is_crowded;
        let own = [self.core];
        let cores = if is_crowded { &self.allowed[..] } else { &own };
        let mut set = CpuSet::new();
        let known = cores.iter().all(|core| set.set(*core).is_ok());
        // A kernel that refuses leaves the thread where it is: slower, not wrong.
        if known {
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }
}

/// Asks for wake-ups as exact as the kernel makes them (the default slack is 50 us).
pub fn exact_timers() {
    // Not being allowed to is no error: wake-ups are a little later.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_pins_only_where_every_thread_has_a_core() {
        assert_eq!(assign(&Pin::Auto, 2, &[3, 5]).0, [Some(3), Some(5)]);
        let (cores, note) = assign(&Pin::Auto, 3, &[3, 5]);
        assert_eq!(cores, [None, None, None]);
        assert!(note.is_some_and(|n| n.contains("not pinned")));
    }

    #[test]
    fn a_list_is_taken_in_order_and_foreign_cores_are_named() {
        assert_eq!(
            assign(&Pin::List(vec![5, 3]), 2, &[3, 5]),
            (vec![Some(5), Some(3)], None)
        );
        let (cores, note) = assign(&Pin::List(vec![9, 3]), 2, &[3, 5]);
        assert_eq!(cores, [None, Some(3)]);
        assert!(note.is_some_and(|n| n.contains('9')));
    }
}
