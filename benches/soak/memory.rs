//! Private memory of a process and all its descendants: heaps and stacks (`RssAnon`).
//!
//! Frames use shared memory of a fixed size. A page of it is touched first when more frames wait than ever
//! before, for example after a long stall of the machine. This memory is not counted, because it
//! does not grow.

use std::collections::HashMap;
use std::fs;

/// Share of the first samples that are ignored. During this time, caches fill and buffers are touched first.
const WARM_UP: f64 = 0.1;

/// Samples at a constant interval.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    samples_kib: Vec<u64>,
}

impl Memory {
    /// Takes a sample.
    pub(crate) fn sample(&mut self, root: u32) {
        self.samples_kib.push(anonymous_kib(root));
    }

    pub(crate) fn samples_kib(&self) -> &[u64] {
        &self.samples_kib
    }

    /// Returns the maxima of the first half after the warm-up and of the second half.
    pub(crate) fn halves_kib(&self) -> Option<(u64, u64)> {
        // Processes may have been ending during the last sample.
        let (_, samples) = self.samples_kib.split_last()?;
        let settled = &samples[(samples.len() as f64 * WARM_UP) as usize..];
        let (first, second) = settled.split_at(settled.len() / 2);
        Some((first.iter().copied().max()?, second.iter().copied().max()?))
    }
}

fn anonymous_kib(root: u32) -> u64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        if let Some(parent) = field(pid, "PPid:") {
            children.entry(parent as u32).or_default().push(pid);
        }
    }
    let (mut sum, mut open) = (0, vec![root]);
    while let Some(pid) = open.pop() {
        sum += field(pid, "RssAnon:").unwrap_or(0);
        open.extend(children.remove(&pid).unwrap_or_default());
    }
    sum
}

/// A number of `/proc/PID/status`; `None`: the process has ended.
fn field(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
