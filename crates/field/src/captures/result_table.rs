//! Writes the results of a sweep of captures as a Markdown table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::replay_evaluation::{ListedCapture, ReplayCounts, ReplayFinding};

/// First lines of the table.
pub(super) const HEADER: &str = "\
| folder | captures | exit 0, as scapy | damaged | deviating | frames | sent | dropped | left out | not Ethernet |
|---|---|---|---|---|---|---|---|---|---|
";

/// The results of a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct FolderResult {
    /// Number of captures with Ethernet frames.
    pub(super) captures: usize,
    /// Number of captures whose replay agrees with scapy.
    pub(super) agreeing: usize,
    /// Number of files without Ethernet frames, and of files that scapy cannot read.
    pub(super) not_ethernet: usize,
    pub(super) sums: ReplayCounts,
    /// Damaged files, each with the reason.
    pub(super) damaged: Vec<(String, String)>,
    /// Files whose replay deviates, each with the reason.
    pub(super) deviating: Vec<(String, String)>,
}

impl FolderResult {
    /// Adds the result of a capture.
    pub(super) fn add_finding(&mut self, capture: &ListedCapture, file: &str, finding: ReplayFinding) {
        match finding {
            ReplayFinding::NotEthernet => {
                self.not_ethernet += 1;
                return;
            }
            ReplayFinding::Agrees(counts) => {
                self.agreeing += 1;
                self.sums.add(&counts);
            }
            // A damaged file with another link type does not count as a capture.
            ReplayFinding::Damaged(_) if !capture.is_ethernet => {
                self.not_ethernet += 1;
                return;
            }
            ReplayFinding::Damaged(why) => self.damaged.push((file.to_owned(), why)),
            ReplayFinding::Deviates(why) => self.deviating.push((file.to_owned(), why)),
        }
        self.captures += 1;
    }

    /// Adds the results of another folder.
    pub(super) fn add(&mut self, other: &FolderResult) {
        self.captures += other.captures;
        self.agreeing += other.agreeing;
        self.not_ethernet += other.not_ethernet;
        self.sums.add(&other.sums);
        self.damaged.extend_from_slice(&other.damaged);
        self.deviating.extend_from_slice(&other.deviating);
    }

    /// Returns the table row of the folder.
    pub(super) fn table_row(&self, name: &str) -> String {
        let sums = &self.sums;
        let mut dropped = sums.dropped.clone();
        if sums.consumed > 0 {
            dropped.insert("ended at the switch".to_owned(), sums.consumed);
        }
        let cells = [
            name.to_owned(),
            self.captures.to_string(),
            self.agreeing.to_string(),
            self.damaged.len().to_string(),
            self.deviating.len().to_string(),
            sums.frames.to_string(),
            sums.sent.to_string(),
            format_counts(&dropped),
            format_counts(&sums.left_out),
            self.not_ethernet.to_string(),
        ];
        format!("| {} |", cells.join(" | "))
    }

    /// Returns the damaged and the deviating files with their reasons, one per line.
    pub(super) fn list_damaged_and_deviating(&self) -> String {
        let mut text = String::new();
        for (kind, list) in [("damaged", &self.damaged), ("deviating", &self.deviating)] {
            for (file, why) in list {
                let _ = writeln!(text, "\n- {kind}: `{file}`: {why}");
            }
        }
        text
    }
}

/// Formats counts with their reasons, largest first.
fn format_counts(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "0".to_owned();
    }
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let counts: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ethernet_capture_is_counted_in_one_column() {
        let mut result = FolderResult::default();
        let ethernet = ListedCapture {
            is_ethernet: true,
            ..ListedCapture::default()
        };
        let counts = ReplayCounts {
            frames: 5,
            sent: 2,
            dropped: [("A".to_owned(), 1), ("B".to_owned(), 2)].into(),
            ..ReplayCounts::default()
        };
        result.add_finding(&ethernet, "a", ReplayFinding::Agrees(counts));
        result.add_finding(&ethernet, "b", ReplayFinding::Damaged("cut".to_owned()));
        result.add_finding(&ethernet, "c", ReplayFinding::Deviates("no".to_owned()));
        result.add_finding(&ListedCapture::default(), "d", ReplayFinding::NotEthernet);
        result.add_finding(
            &ListedCapture::default(),
            "e",
            ReplayFinding::Damaged("cut".to_owned()),
        );
        assert_eq!(
            result.table_row("x"),
            "| x | 3 | 1 | 1 | 1 | 5 | 2 | 2 B, 1 A | 0 | 2 |"
        );
        assert_eq!(
            result.list_damaged_and_deviating(),
            "\n- damaged: `b`: cut\n\n- deviating: `c`: no\n"
        );
        let mut all = result.clone();
        all.add(&result);
        assert_eq!(
            all.table_row("x"),
            "| x | 6 | 2 | 2 | 2 | 10 | 4 | 4 B, 2 A | 0 | 4 |"
        );
        let columns = |line: &str| line.matches('|').count();
        assert!(
            HEADER
                .lines()
                .all(|line| columns(line) == columns(&all.table_row("x")))
        );
    }
}
