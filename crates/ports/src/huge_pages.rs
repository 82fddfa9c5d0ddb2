//! Huge pages for the heap of a process.
//!
//! The kernel maps the heap in pages of 4 KiB. A TLB covers only a few megabytes of such pages, so a program that
//! accesses hundreds of megabytes at random needs a page walk for nearly each access. With pages of 2 MiB, a TLB
//! covers gigabytes.

use std::fs;
use std::io;

/// Size of a huge page on x86-64 and on AArch64 with pages of 4 KiB, in bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Resident memory below which huge pages bring nothing, in bytes: the caches hold most of it.
const RESIDENT_MIN_BYTES: u64 = 64 << 20;
/// Policy of the system for huge pages, such as `always [madvise] never`.
const POLICY_FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// Number of bytes that the kernel moves in the time by which small pages delay an event of a simulation, about 40 ns.
const BYTES_PER_EVENT: u64 = 64;
/// Number of events between two checks. For fewer events, a move never pays off.
const EVENTS_PER_CHECK: u64 = RESIDENT_MIN_BYTES / BYTES_PER_EVENT;

/// Keeps the heap of a growing simulation in huge pages.
///
/// The kernel decides whether it has free huge pages. Without them, and if the policy of the system is `never`, the
/// heap stays in small pages.
#[derive(Debug, Default)]
pub struct HugePageHeap {
    /// Resident memory at the last move, in bytes. 0 before the first one.
    moved_at_bytes: u64,
    /// Number of events at the last move.
    moved_at_events: u64,
    /// Number of events at the next check.
    next_check_events: u64,
}

impl HugePageHeap {
    /// Moves the heap to huge pages if the resident memory is at least 64 MiB and has grown by a quarter since the last
    /// move. Returns whether the heap was moved. A call once in a million events reads the size of the process, and all
    /// others do nothing.
    ///
    /// `events` is the number of events since the start of the simulation. A short simulation of a large heap would
    /// take longer with huge pages. The heap is therefore moved when small pages have cost as much time as the move.
    pub fn update(&mut self, events: u64) -> bool {
        if events < self.next_check_events {
            return false;
        }
        self.next_check_events = events.saturating_add(EVENTS_PER_CHECK);
        let resident_bytes = resident_bytes().unwrap_or(0);
        let has_grown = resident_bytes >= RESIDENT_MIN_BYTES.max(self.moved_at_bytes / 4 * 5);
        let pays_off = events.saturating_sub(self.moved_at_events) >= resident_bytes / BYTES_PER_EVENT;
        if !has_grown || !pays_off || !is_permitted() {
            return false;
        }
        (self.moved_at_bytes, self.moved_at_events) = (resident_bytes, events);
        move_to_huge_pages().is_ok()
    }
}

/// Returns whether the policy of the system permits huge pages.
fn is_permitted() -> bool {
    fs::read_to_string(POLICY_FILE).is_ok_and(|policy| !policy.contains("[never]"))
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// Moves the heap and other private anonymous memory of this process to huge pages. The kernel copies the pages, about
/// 4 GB in a second. Memory that is mapped later in the same regions gets huge pages at its first access.
///
/// # Errors
/// Fails if the regions cannot be read. Regions that the kernel cannot move stay as they are.
fn move_to_huge_pages() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let Some((first, end)) = heap_region(line) else {
            continue;
        };
        let first = first.next_multiple_of(HUGE_PAGE_BYTES);
        let end = end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if first < end {
            advise(first, end - first, libc::MADV_HUGEPAGE);
            advise(first, end - first, libc::MADV_COLLAPSE);
        }
    }
    Ok(())
}

/// Returns the first address and the end of a region from a line of `/proc/self/maps`. Returns `None` unless the region
/// is private anonymous memory without a name, or the heap.
fn heap_region(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (first, end) = fields.next()?.split_once('-')?;
    let is_private_data = fields.next()? == "rw-p";
    let (_offset, _device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let has_heap_name = fields.next().is_none_or(|name| name == "[heap]");
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_private_data && inode == "0" && has_heap_name)
        .then_some((address(first)?, address(end)?))
        .filter(|(first, end)| first < end)
}

/// Gives the kernel advice about the pages of a region. Errors are ignored: the advice changes no content, and the
/// region can have been unmapped.
fn advise(first: usize, bytes: usize, advice: libc::c_int) {
    // SAFETY: MADV_HUGEPAGE and MADV_COLLAPSE change the size of the pages of a range, and neither its content nor its
    // protection. The kernel checks the range, so any range is valid.
    let _ = unsafe { libc::madvise(first as *mut libc::c_void, bytes, advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the huge pages of this process in KiB.
    fn huge_kib() -> u64 {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let line = rollup
            .lines()
            .find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        kib.unwrap_or(0)
    }

    #[test]
    fn moved_memory_keeps_its_content_and_a_second_call_does_nothing() {
        let words: Vec<u64> = (0..12 << 20).collect();
        let mut heap = HugePageHeap::default();
        assert!(!heap.update(1_000), "a short run");
        let was_moved = heap.update(1 << 40);
        assert!(words.iter().copied().eq(0..12 << 20));
        if !was_moved {
            return println!("skipped: the system permits no huge pages");
        }
        // A kernel without free huge pages moves nothing.
        println!("{} KiB in huge pages", huge_kib());
        assert!(!heap.update(1 << 50), "the memory has not grown");
    }

    #[test]
    fn only_private_anonymous_memory_is_moved() {
        let region = heap_region;
        assert_eq!(
            region("55d0a000-55d0b000 rw-p 00000000 00:00 0    [heap]"),
            Some((0x55d0_a000, 0x55d0_b000))
        );
        assert_eq!(region("7f00-7fff rw-p 00000000 00:00 0 "), Some((0x7f00, 0x7fff)));
        for line in [
            "7ffd000-7ffe000 rw-p 00000000 00:00 0    [stack]",
            "7f00-7fff rw-s 00000000 00:01 5    /dev/zero (deleted)",
            "7f00-7fff rw-p 00002000 fe:00 77    /usr/lib/libc.so.6",
            "7f00-7fff r-xp 00000000 00:00 0    [vdso]",
            "7f00-7fff ---p 00000000 00:00 0",
            "7fff-7f00 rw-p 00000000 00:00 0",
            "not a region",
            "",
        ] {
            assert_eq!(region(line), None, "{line}");
        }
    }
}
