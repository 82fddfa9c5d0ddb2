//! The memory that a command may use, and the estimated need of its input.
//!
//! A small file can describe a lab or a configuration that needs gigabytes. The need is estimated before
//! anything is built, so that the command ends with a message and not with a kill by the kernel.

use std::fmt;
use std::fs;
use std::path::Path;

use super::failure::{Exit, Failure};

/// The share of the available memory that a command may use by default, in percent.
const DEFAULT_SHARE_PERCENT: u64 = 80;
/// One MiB in bytes.
const MIB: u64 = 1 << 20;

/// The memory that a command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    bytes: u64,
    is_default: bool,
}

impl MemoryLimit {
    /// A limit that is never exceeded.
    pub const UNLIMITED: MemoryLimit = MemoryLimit {
        bytes: u64::MAX,
        is_default: true,
    };

    /// Creates a limit of `bytes` bytes.
    pub fn new(bytes: u64) -> MemoryLimit {
        MemoryLimit {
            bytes,
            is_default: false,
        }
    }

    /// Returns 80 % of the memory that this machine has available. The limits of the control groups of this
    /// process count as well. [`MemoryLimit::UNLIMITED`] if the machine does not tell its memory.
    pub fn of_machine() -> MemoryLimit {
        let available = [
            available_of_machine(),
            available_of_control_group(Path::new("/sys/fs/cgroup")),
        ];
        match available.into_iter().flatten().min() {
            None => MemoryLimit::UNLIMITED,
            Some(bytes) => MemoryLimit {
                bytes: bytes / 100 * DEFAULT_SHARE_PERCENT,
                is_default: true,
            },
        }
    }

    /// Returns the limit in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the limit for each of `count` runs that are executed at the same time. A `count` of 0 means 1.
    #[must_use]
    pub fn divided_by(self, count: usize) -> MemoryLimit {
        MemoryLimit {
            bytes: self.bytes / (count as u64).max(1),
            ..self
        }
    }

    /// Checks an estimate. `what` is the subject of the message, such as `the lab`.
    ///
    /// # Errors
    /// Fails if the estimate exceeds the limit. The failure contains the estimate, its largest parts, and the exit
    /// code of an invalid configuration.
    pub fn check(self, what: &str, need: &MemoryNeed) -> Result<(), Failure> {
        let total = need.total_bytes();
        if total <= self.bytes {
            return Ok(());
        }
        let origin = match self.is_default {
            true => "80 % of the free memory",
            false => "--memory",
        };
        let fix = match need.advice {
            "" => "raise --memory".to_owned(),
            advice => format!("{advice}, or raise --memory"),
        };
        Err(Failure::new(
            Exit::Configuration,
            format!(
                "{what} needs about {}, and the limit is {} ({origin})",
                DisplayBytes(total),
                DisplayBytes(self.bytes)
            ),
        )
        .because(need.largest_parts())
        .fix(fix))
    }
}

impl Default for MemoryLimit {
    /// Returns [`MemoryLimit::UNLIMITED`].
    fn default() -> MemoryLimit {
        MemoryLimit::UNLIMITED
    }
}

/// The estimated memory of an input, divided into parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// A description of each part with its bytes.
    parts: Vec<(String, u64)>,
    /// The change of the input that reduces the largest part.
    advice: &'static str,
    largest: u64,
}

impl MemoryNeed {
    /// Adds a part. `advice` is the change of the input that reduces this part.
    pub fn add(&mut self, what: impl Into<String>, bytes: u64, advice: &'static str) {
        if bytes > self.largest {
            self.largest = bytes;
            self.advice = advice;
        }
        self.parts.push((what.into(), bytes));
    }

    /// Returns the sum of all parts in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.parts
            .iter()
            .map(|(_, bytes)| *bytes)
            .fold(0, u64::saturating_add)
    }

    /// Describes the largest parts, at most three.
    fn largest_parts(&self) -> String {
        let mut parts: Vec<&(String, u64)> = self.parts.iter().collect();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let parts: Vec<String> = parts
            .iter()
            .take(3)
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(what, bytes)| format!("{what}: {}", DisplayBytes(*bytes)))
            .collect();
        parts.join(", ")
    }
}

/// A number of bytes in a unit that people can read.
struct DisplayBytes(u64);

impl fmt::Display for DisplayBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 10 << 30 => write!(f, "{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 30 => write!(f, "{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64),
            bytes if bytes >= MIB => write!(f, "{} MiB", bytes / MIB),
            bytes => write!(f, "{} KiB", bytes.div_ceil(1024)),
        }
    }
}

/// Returns the memory in bytes that the kernel can give to processes without swapping.
fn available_of_machine() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the value of `MemAvailable` in bytes.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the memory in bytes that the control groups of this process still allow. `root` is the mount point of
/// the control groups. `None` without a limit.
fn available_of_control_group(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A limit of a parent group applies to all groups below it.
    root.join(path)
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(free_in_control_group)
        .min()
}

/// Returns the difference of the limit and the use of one control group.
fn free_in_control_group(folder: &Path) -> Option<u64> {
    let number =
        |file: &str| -> Option<u64> { fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok() };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_estimate_the_largest_part_and_a_fix() {
        let mut need = MemoryNeed::default();
        need.add("3 switches", 5 << 20, "use fewer switches");
        need.add("700 queue pairs", 4 << 30, "use fewer queue pairs");
        assert_eq!(MemoryLimit::new(5 << 30).check("the lab", &need), Ok(()));
        let failure = MemoryLimit::new(1 << 30)
            .check("the lab", &need)
            .expect_err("too large");
        assert_eq!(failure.exit, Exit::Configuration);
        assert_eq!(
            failure.what,
            "the lab needs about 4.0 GiB, and the limit is 1.0 GiB (--memory)"
        );
        assert!(
            failure
                .why
                .is_some_and(|why| why.starts_with("700 queue pairs: 4.0 GiB, 3 switches: "))
        );
        assert_eq!(
            failure.fix.as_deref(),
            Some("use fewer queue pairs, or raise --memory")
        );
    }

    #[test]
    fn parallel_runs_share_the_limit() {
        assert_eq!(MemoryLimit::new(900).divided_by(3).bytes(), 300);
        assert_eq!(MemoryLimit::new(900).divided_by(0).bytes(), 900);
    }

    #[test]
    fn the_available_memory_is_read() {
        assert_eq!(
            parse_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert!(MemoryLimit::of_machine().bytes() > 0);
    }
}
