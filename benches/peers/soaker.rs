//! Measures the time that other programs use on a core.
//!
//! A thread on the core reads the clock continuously and adds up the gaps in which it did not run because of
//! programs, softirqs or interrupts. This method measures the cost of a forwarder in the kernel, which no
//! kernel counter shows exactly: softirqs are counted by samples of 4 ms and charged to the interrupted
//! program. Next to a forwarder that never sleeps, the thread also leaves it half a core, so that any
//! generator saturates it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use xoff_runtime::workers::clock::monotonic_ns;
use xoff_runtime::workers::pin;

/// Two reads of the clock are about 30 ns apart. Every interruption of the thread is longer than this gap.
const GAP_NS: u64 = 250;

/// A thread that uses the free time of a core.
#[derive(Debug)]
pub(crate) struct Soaker {
    stop: Arc<AtomicBool>,
    taken_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Soaker {
    pub(crate) fn start(core: usize) -> Soaker {
        let stop = Arc::new(AtomicBool::new(false));
        let taken_ns = Arc::new(AtomicU64::new(0));
        let (stopped, taken) = (Arc::clone(&stop), Arc::clone(&taken_ns));
        let thread = std::thread::spawn(move || {
            if pin::bind_to_core(Some(core)).is_err() {
                return;
            }
            let mut before_ns = monotonic_ns();
            while !stopped.load(Ordering::Relaxed) {
                let now_ns = monotonic_ns();
                let gap_ns = now_ns - before_ns;
                if gap_ns > GAP_NS {
                    taken.store(taken.load(Ordering::Relaxed) + gap_ns, Ordering::Relaxed);
                }
                before_ns = now_ns;
            }
        });
        Soaker {
            stop,
            taken_ns,
            thread: Some(thread),
        }
    }

    /// Returns the nanoseconds of the core that other programs have used since the start.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.taken_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}
