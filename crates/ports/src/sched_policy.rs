//! The scheduling policy of a thread. The policy decides what the thread does after a wake-up: it either
//! preempts the running thread, or waits for the end of the running thread's time slice.

/// Time slice of a thread under `SCHED_BATCH`, in nanoseconds. 0.1 ms is the shortest slice that the kernel
/// accepts. When the slice of the running thread is over, the kernel prefers threads with a short slice. Only
/// Linux 6.12 and later use this value.
const SLICE_NS: u64 = 100_000;

/// The scheduling policy of one thread: `SCHED_OTHER` (the default) or `SCHED_BATCH` (`sched(7)`).
///
/// Under `SCHED_OTHER`, a thread that wakes up on a busy core preempts the running thread. If all cores are
/// busy, this splits the bursts of a sender. The first frame of a burst wakes the receiving thread. This
/// thread preempts the sender, forwards one frame and sleeps again. The same happens with the next frame.
///
/// Under `SCHED_BATCH`, the woken thread waits until the running thread sleeps or its time slice is over.
/// The burst of the sender then stays complete. If a core is free, the woken thread runs at once under
/// both policies.
///
/// If a user has already selected a policy for the thread, such as a real-time policy, the thread keeps this
/// policy. The nice value never changes.
#[derive(Default)]
pub struct SchedPolicy {
    is_batch: bool,
    /// Attributes of the thread before the change to `SCHED_BATCH`. `None` while the policy is not changed.
    previous: Option<libc::sched_attr>,
}

impl SchedPolicy {
    /// Selects `SCHED_BATCH` for the calling thread if `is_batch` is true. Otherwise selects the previous
    /// policy. All calls for one value must come from the same thread. If the kernel refuses the policy, the
    /// thread keeps its present policy.
    pub fn set_batch(&mut self, is_batch: bool) {
        if std::mem::replace(&mut self.is_batch, is_batch) == is_batch {
            return;
        }
        if is_batch {
            self.previous =
                thread_attributes().filter(|now| now.sched_policy == libc::SCHED_OTHER.cast_unsigned());
            if let Some(previous) = self.previous {
                set_thread_attributes(&libc::sched_attr {
                    sched_policy: libc::SCHED_BATCH.cast_unsigned(),
                    sched_runtime: SLICE_NS,
                    ..previous
                });
            }
        } else if let Some(previous) = self.previous.take() {
            set_thread_attributes(&previous);
        }
    }
}
impl std::fmt::Debug for SchedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SchedPolicy {{ is_batch: {} }}", self.is_batch)
    }
}

/// Selects the lowest real-time priority (`SCHED_FIFO`) for the calling thread. The thread then runs as soon as it
/// wakes up, also on a busy core. Returns whether the kernel permits this: it needs CAP_SYS_NICE. A policy that the
/// user has selected is kept.
pub fn request_real_time_priority() -> bool {
    let Some(now) = thread_attributes().filter(|now| now.sched_policy == libc::SCHED_OTHER.cast_unsigned())
    else {
        return false;
    };
    set_thread_attributes(&libc::sched_attr {
        sched_policy: libc::SCHED_FIFO.cast_unsigned(),
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 1,
        sched_runtime: 0,
        ..now
    })
}

/// Sets the scheduling attributes of the calling thread. Returns whether the kernel accepted them. If the
/// kernel refuses them, the thread keeps its previous attributes. xoff then works correctly, but slower.
fn set_thread_attributes(attributes: &libc::sched_attr) -> bool {
    // SAFETY: `attributes` is a `sched_attr` with the `size` that the kernel has set, and it outlives the
    // call. The kernel only reads it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    done == 0
}

/// Returns the scheduling attributes of the calling thread, or `None` if the kernel does not report them.
fn thread_attributes() -> Option<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, which consists of integers only.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (done == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_in_new_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn batch_policy_is_set_and_reset() {
        run_in_new_thread(|| {
            let before = thread_attributes().unwrap();
            let mut policy = SchedPolicy::default();
            for (is_batch, expected) in [
                (false, libc::SCHED_OTHER),
                (true, libc::SCHED_BATCH),
                (true, libc::SCHED_BATCH),
                (false, libc::SCHED_OTHER),
            ] {
                policy.set_batch(is_batch);
                let now = thread_attributes().unwrap();
                assert_eq!(
                    (now.sched_policy, now.sched_nice),
                    (expected.cast_unsigned(), before.sched_nice)
                );
                // Older kernels do not report time slices.
                if before.sched_runtime != 0 {
                    let slice_ns = if is_batch { SLICE_NS } else { before.sched_runtime };
                    assert_eq!(now.sched_runtime, slice_ns);
                }
            }
        });
    }

    #[test]
    fn a_permitted_real_time_priority_is_in_effect() {
        run_in_new_thread(|| {
            let is_permitted = request_real_time_priority();
            let policy = thread_attributes().unwrap().sched_policy;
            assert_eq!(policy == libc::SCHED_FIFO.cast_unsigned(), is_permitted);
            assert!(
                !request_real_time_priority() || !is_permitted,
                "an own policy is kept"
            );
        });
    }

    #[test]
    fn a_policy_that_the_user_selected_is_kept() {
        for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE] {
            run_in_new_thread(move || {
                let users = libc::sched_attr {
                    sched_policy: policy.cast_unsigned(),
                    ..thread_attributes().unwrap()
                };
                assert!(set_thread_attributes(&users));
                let mut policy = SchedPolicy::default();
                for is_batch in [true, false] {
                    policy.set_batch(is_batch);
                    assert_eq!(thread_attributes().unwrap().sched_policy, users.sched_policy);
                }
            });
        }
    }
}
