//! Prefetching of memory.

/// Fetches the cache line in which `value` begins, without waiting for it. Call this function for a value
/// that is read some events later. An ordinary read would delay the instructions after the read. On
/// processors other than x86-64, this function does nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
