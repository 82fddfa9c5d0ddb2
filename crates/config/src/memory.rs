//! Estimates the memory of a configuration.

/// Memory for each byte of the text of a configuration: its tables, the resolved form, and the routes of the data
/// plane. Rows of `STATIC_ROUTE` decide this number, because only they can be numerous. The number is measured: the
/// peak memory of `xoff config check` with 65 536 and 262 144 routes.
const BYTES_PER_TEXT_BYTE: u64 = 40;

/// Estimates the memory in bytes that reading and resolving a configuration of `text_bytes` bytes needs.
pub fn estimate_memory(text_bytes: u64) -> u64 {
    text_bytes.saturating_mul(BYTES_PER_TEXT_BYTE)
}
