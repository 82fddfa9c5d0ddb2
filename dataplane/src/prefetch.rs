//! Memory that will be read soon.

/// Fetches the cache line in which `place` begins, and does not wait for it: for what is known now and read some events later. A
/// plain read would hold up all that follows it. Changes nothing but time; processors other than x86-64 do without.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
