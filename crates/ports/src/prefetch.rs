//! Loads frames into the CPU cache before the thread reads them (prefetch).
//!
//! Another core has written the frames, so their cache lines are in the cache of that core. Without prefetch,
//! the first read of each frame would wait for such a cache line. This wait would take as long as all the
//! work of the switch on the frame.

/// Length of a cache line, in bytes.
const LINE_BYTES: usize = 64;

/// Starts to load `len` bytes at `address` into the first-level CPU cache, and returns without waiting. The
/// call does not change the bytes.
#[inline(always)]
pub(super) fn prefetch(address: *const u8, len: usize) {
    prefetch_lines::<FIRST_LEVEL_HINT>(address, len);
}

/// Same as [`prefetch`], but for the second-level cache. The second-level cache has space for a whole burst
/// of frames, and the first-level cache does not. This function is therefore for frame contents that are
/// copied later.
#[inline(always)]
pub(super) fn prefetch_for_copy(address: *const u8, len: usize) {
    prefetch_lines::<SECOND_LEVEL_HINT>(address, len);
}

#[inline(always)]
fn prefetch_lines<const HINT: i32>(address: *const u8, len: usize) {
    for offset in (0..len).step_by(LINE_BYTES) {
        prefetch_line::<HINT>(address.wrapping_add(offset));
    }
}

/// The locality hint of the prefetch instruction for the first-level cache.
#[cfg(target_arch = "x86_64")]
const FIRST_LEVEL_HINT: i32 = std::arch::x86_64::_MM_HINT_T0;
#[cfg(target_arch = "x86_64")]
const SECOND_LEVEL_HINT: i32 = std::arch::x86_64::_MM_HINT_T1;
#[cfg(not(target_arch = "x86_64"))]
const FIRST_LEVEL_HINT: i32 = 0;
#[cfg(not(target_arch = "x86_64"))]
const SECOND_LEVEL_HINT: i32 = 0;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line<const HINT: i32>(address: *const u8) {
    // SAFETY: a prefetch instruction has no visible effect on memory and does not fault at any address.
    unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(address.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line<const HINT: i32>(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetch_accepts_any_address_and_changes_no_data() {
        let bytes = [7_u8; 300];
        for len in [0, 1, 64, 65, 300] {
            prefetch(bytes.as_ptr(), len);
            prefetch_for_copy(bytes.as_ptr(), len);
        }
        prefetch(std::ptr::null(), 128);
        prefetch_for_copy(usize::MAX as *const u8, 128);
        assert_eq!(bytes, [7; 300]);
    }
}
