//! Who goes first when a frame wakes its receiver on a core where another thread runs.

/// The slice of a thread that gives way, the shortest there is: once the other one's slice is over, it is next. Linux 6.12 and later heed it.
const SLICE_NS: u64 = 100_000;

/// Has the calling thread give way to others when it wakes up, or not (the kernel's default).
///
/// By default it takes the core at once. Where others keep every core busy, that cuts the bursts of those who send to pieces: the first frame
/// of a burst wakes the thread, which takes the core from the sender, passes the one frame on, sleeps, and is woken by
/// the next. Under `SCHED_BATCH` (sched(7)) it waits until the other thread sleeps or has had its slice, so a burst comes,
/// goes and wakes its own receiver as one. A core that is free is taken at once either way.
///
/// A thread that the user has put under another policy is left there, and how nice it is never changes.
pub(crate) fn give_way(to_others: bool) {
    let (from, to, slice_ns) = match to_others {
        true => (libc::SCHED_OTHER, libc::SCHED_BATCH, SLICE_NS),
        false => (libc::SCHED_BATCH, libc::SCHED_OTHER, 0),
    };
    let Some(mut attributes) = attributes() else {
        return;
    };
    if attributes.sched_policy != from.cast_unsigned() {
        return;
    }
    attributes.sched_policy = to.cast_unsigned();
    // Zero: as long as everybody's.
    attributes.sched_runtime = slice_ns;
    // SAFETY: `attributes` is a `sched_attr` whose `size` the kernel has set, and lives until the call is over; the kernel only reads it. A
    // kernel that refuses leaves the thread as it is: slower, not wrong.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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
            for (to_others, policy) in [
                (false, libc::SCHED_OTHER),
                (true, libc::SCHED_BATCH),
                (true, libc::SCHED_BATCH),
                (false, libc::SCHED_OTHER),
            ] {
                give_way(to_others);
                let now = attributes().unwrap();
                assert_eq!(
                    (now.sched_policy, now.sched_nice),
                    (policy.cast_unsigned(), before.sched_nice)
                );
                // An older kernel tells of no slices.
                if before.sched_runtime != 0 {
                    let slice_ns = if to_others { SLICE_NS } else { before.sched_runtime };
                    assert_eq!(now.sched_runtime, slice_ns);
                }
            }
        });
    }

    #[test]
    fn another_policy_is_the_users() {
        in_a_thread(|| {
            let mut idle = attributes().unwrap();
            idle.sched_policy = libc::SCHED_IDLE.cast_unsigned();
            // SAFETY: as above.
            let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const idle, 0) };
            assert_eq!(done, 0);
            for to_others in [true, false] {
                give_way(to_others);
                assert_eq!(attributes().unwrap().sched_policy, idle.sched_policy);
            }
        });
    }
}
