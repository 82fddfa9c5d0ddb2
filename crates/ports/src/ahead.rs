//! Frames that are read soon. Another core has written them, so the first look at each would wait for a line of that core's cache, which
//! takes as long as all that a switch does with a frame.

/// Cache lines, in octets.
const LINE_BYTES: usize = 64;

/// Fetches the cache lines of `octets` from `place` on, and does not wait for them. Changes nothing but time.
#[inline(always)]
pub(super) fn fetch(place: *const u8, octets: usize) {
    lines::<NEAREST>(place, octets);
}

/// As [`fetch`], for what is not looked at, but copied later: into the second-level cache, since a burst of frames is more than the first
/// one holds.
#[inline(always)]
pub(super) fn fetch_for_copy(place: *const u8, octets: usize) {
    lines::<SECOND>(place, octets);
}

#[inline(always)]
fn lines<const CACHE: i32>(place: *const u8, octets: usize) {
    for at in (0..octets).step_by(LINE_BYTES) {
        line::<CACHE>(place.wrapping_add(at));
    }
}

/// The cache that a line is brought into, as the instruction has it.
#[cfg(target_arch = "x86_64")]
const NEAREST: i32 = std::arch::x86_64::_MM_HINT_T0;
#[cfg(target_arch = "x86_64")]
const SECOND: i32 = std::arch::x86_64::_MM_HINT_T1;
#[cfg(not(target_arch = "x86_64"))]
const NEAREST: i32 = 0;
#[cfg(not(target_arch = "x86_64"))]
const SECOND: i32 = 0;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line<const CACHE: i32>(place: *const u8) {
    // SAFETY: a prefetch reads nothing as far as a program can tell, and faults at no address.
    unsafe { std::arch::x86_64::_mm_prefetch::<CACHE>(place.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line<const CACHE: i32>(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_faults_nowhere_and_changes_nothing() {
        let octets = [7_u8; 300];
        for len in [0, 1, 64, 65, 300] {
            fetch(octets.as_ptr(), len);
            fetch_for_copy(octets.as_ptr(), len);
        }
        fetch(std::ptr::null(), 128);
        fetch_for_copy(usize::MAX as *const u8, 128);
        assert_eq!(octets, [7; 300]);
    }
}
