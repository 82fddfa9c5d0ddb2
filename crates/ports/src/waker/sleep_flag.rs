//! The flag of a thread that sleeps until another thread has work for it.
//!
//! Both sides write one value and then read the value of the other side: the thread sets the flag and looks for work,
//! and the other side queues work and looks at the flag. A sequentially consistent fence between the two steps ensures
//! that at least one side sees the value of the other one.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A boolean that several threads access, and the fence of its memory model.
pub(super) trait SharedFlag {
    /// Writes the value, without an order.
    fn store(&self, value: bool);
    /// Replaces the value, without an order. Returns the value before.
    fn swap(&self, value: bool) -> bool;
    /// A sequentially consistent fence.
    fn fence();
}

impl SharedFlag for AtomicBool {
    fn store(&self, value: bool) {
        self.store(value, Ordering::Relaxed);
    }

    fn swap(&self, value: bool) -> bool {
        self.swap(value, Ordering::Relaxed)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Whether a thread sleeps, or is about to sleep.
#[derive(Debug)]
pub(super) struct SleepFlag<F>(F);

impl<F: SharedFlag> SleepFlag<F> {
    /// Creates the flag of a thread that is awake. `flag` is false.
    pub(super) fn new(flag: F) -> SleepFlag<F> {
        SleepFlag(flag)
    }

    /// Announces that the thread is about to sleep. The thread must look for work after this call.
    pub(super) fn announce_sleep(&self) {
        self.0.store(true);
        F::fence();
    }

    /// Announces that the thread is awake.
    pub(super) fn end_sleep(&self) {
        self.0.store(false);
    }

    /// Returns true if the thread sleeps or is about to sleep: the caller must wake it. Further callers get false.
    /// The caller has queued its work before.
    pub(super) fn take_sleeper(&self) -> bool {
        F::fence();
        self.0.swap(false)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A flag of the model. With `HAS_FENCE` = false, its fence does nothing.
    struct ModelFlag<const HAS_FENCE: bool>(loom::sync::atomic::AtomicBool);

    impl<const HAS_FENCE: bool> SharedFlag for ModelFlag<HAS_FENCE> {
        fn store(&self, value: bool) {
            self.0.store(value, Ordering::Relaxed);
        }

        fn swap(&self, value: bool) -> bool {
            self.0.swap(value, Ordering::Relaxed)
        }

        fn fence() {
            if HAS_FENCE {
                loom::sync::atomic::fence(Ordering::SeqCst);
            }
        }
    }

    /// A thread queues work for another one, which sleeps if it sees none. A sleep without a wake-up is an error.
    ///
    /// The model has one such thread: Loom does not know that two swaps which read different values have an order.
    fn queue_work<const HAS_FENCE: bool>() {
        loom::model(|| {
            let flag = ModelFlag::<HAS_FENCE>(loom::sync::atomic::AtomicBool::new(false));
            let flag = Arc::new(SleepFlag::new(flag));
            let has_work = Arc::new(loom::sync::atomic::AtomicBool::new(false));
            let waking = thread::spawn({
                let (flag, has_work) = (Arc::clone(&flag), Arc::clone(&has_work));
                move || {
                    has_work.store(true, Ordering::Release);
                    flag.take_sleeper()
                }
            });
            flag.announce_sleep();
            let is_seen = has_work.load(Ordering::Acquire);
            let is_woken = waking.join().expect("the other thread");
            assert!(is_seen || is_woken, "the thread sleeps for ever");
            flag.end_sleep();
        });
    }

    #[test]
    fn a_thread_never_sleeps_while_work_is_queued() {
        queue_work::<true>();
    }

    /// The model finds a missing fence, so it also finds it in the waker.
    #[test]
    fn the_fences_are_necessary() {
        assert!(std::panic::catch_unwind(queue_work::<false>).is_err());
    }
}
