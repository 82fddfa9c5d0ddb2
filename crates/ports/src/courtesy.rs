//! Who goes first when a frame wakes its receiver on a core where another thread runs.

/// The slice of a thread that gives way, the shortest there is: once the other one's slice is over, it is next. Linux 6.12 and later heed it.
const SLICE_NS: u64 = 100_000;

/// How the calling thread behaves when it wakes up on a core where another one runs: it takes the core at once (the kernel's default), or
/// gives way.
///
/// Where others keep every core busy, taking it at once cuts the bursts of those who send to pieces: the first frame
/// of a burst wakes the thread, which takes the core from the sender, passes the one frame on, sleeps, and is woken by
/// the next. Under `SCHED_BATCH` (sched(7)) it waits until the other thread sleeps or has had its slice, so a burst comes,
/// goes and wakes its own receiver as one. A core that is free is taken at once either way.
///
/// A thread that the user has put under another policy is left there, and how nice it is never changes.
#[derive(Default)]
pub struct Courtesy {
    gives_way: bool,
    /// How the thread was scheduled before, if that was changed.
    before: Option<libc::sched_attr>,
}

impl Courtesy {
    /// Has the thread give way, or not. It is always the same thread that calls this.
    pub fn follow(&mut self, gives_way: bool) {
        if std::mem::replace(&mut self.gives_way, gives_way) == gives_way {
            return;
        }
        if gives_way {
            self.before = attributes().filter(|now| now.sched_policy == libc::SCHED_OTHER.cast_unsigned());
            if let Some(before) = self.before {
                schedule(&libc::sched_attr {
                    sched_policy: libc::SCHED_BATCH.cast_unsigned(),
                    sched_runtime: SLICE_NS,
                    ..before
                });
            }
        } else if let Some(before) = self.before.take() {
            schedule(&before);
        }
    }
}

impl std::fmt::Debug for Courtesy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Courtesy {{ gives_way: {} }}", self.gives_way)
    }
}

/// Schedules the calling thread so. A kernel that refuses leaves it as it is: slower, not wrong.
fn schedule(attributes: &libc::sched_attr) -> bool {
    // SAFETY: `attributes` is a `sched_attr` whose `size` the kernel has set, and outlives the call; the kernel only reads it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    done == 0
}

/// How the calling thread is scheduled.
fn attributes() -> Option<libc::sched_attr> {
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
    // SAFETY: the kernel writes `size` octets at most, all of them in `attributes`, which is made of numbers alone.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (done == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_gives_way_and_takes_it_back() {
        in_a_thread(|| {
            let before = attributes().unwrap();
            let mut courtesy = Courtesy::default();
            for (gives_way, policy) in [
                (false, libc::SCHED_OTHER),
                (true, libc::SCHED_BATCH),
                (true, libc::SCHED_BATCH),
                (false, libc::SCHED_OTHER),
            ] {
                courtesy.follow(gives_way);
                let now = attributes().unwrap();
                assert_eq!(
                    (now.sched_policy, now.sched_nice),
                    (policy.cast_unsigned(), before.sched_nice)
                );
                // An older kernel tells of no slices.
                if before.sched_runtime != 0 {
                    let slice_ns = if gives_way { SLICE_NS } else { before.sched_runtime };
                    assert_eq!(now.sched_runtime, slice_ns);
                }
            }
        });
    }

    #[test]
    fn another_policy_is_the_users() {
        for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE] {
            in_a_thread(move || {
                let users = libc::sched_attr {
                    sched_policy: policy.cast_unsigned(),
                    ..attributes().unwrap()
                };
                assert!(schedule(&users));
                let mut courtesy = Courtesy::default();
                for gives_way in [true, false] {
                    courtesy.follow(gives_way);
                    assert_eq!(attributes().unwrap().sched_policy, users.sched_policy);
                }
            });
        }
    }
}
