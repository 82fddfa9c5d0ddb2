//! Frames that are read soon. Another core has written them, so the first look at each would wait for a line of that core's cache, which
//! takes as long as all that a switch does with a frame.

/// Cache lines, in octets.
const LINE_BYTES: usize = 64;

/// Fetches the cache lines of `octets` from `place` on, and does not wait for them. Changes nothing but time.
#[inline(always)]
pub(super) fn fetch(place: *const u8, octets: usize) {
    for at in (0..octets).step_by(LINE_BYTES) {
        line(place.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(place: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing as far as a program can tell, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_faults_nowhere_and_changes_nothing() {
        let octets = [7_u8; 300];
        for len in [0, 1, 64, 65, 300] {
            fetch(octets.as_ptr(), len);
        }
        fetch(std::ptr::null(), 128);
        fetch(usize::MAX as *const u8, 128);
        assert_eq!(octets, [7; 300]);
    }
}
