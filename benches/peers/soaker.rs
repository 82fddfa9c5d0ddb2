//! Measures what a core does for others.
//!
//! A thread on the core looks at the clock without a pause, and adds up the gaps in which it was not running: programs, softirqs, interrupts.
//! So the cost of a forwarder that lives in the kernel can be had, which no counter of the kernel tells exactly (softirqs are
//! counted by samples of 4 ms, and charged to whoever they interrupt). Beside a forwarder that never sleeps it is at the same time what makes
//! it work under half a core, and so saturated by any generator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use xoff_runtime::workers::clock::monotonic_ns;
use xoff_runtime::workers::pin;

/// Two looks at the clock are some 30 ns apart; nothing that takes a core from a thread is shorter than this.
const GAP_NS: u64 = 250;

/// Takes what a core has to give.
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

    /// Nanoseconds that others have had of the core since the start.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.taken_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}
