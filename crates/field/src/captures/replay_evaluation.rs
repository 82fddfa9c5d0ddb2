//! Evaluates the replay of a capture.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

/// A capture as scapy reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedCapture {
    pub(super) path: PathBuf,
    /// Whether the last record or block ends at the end of the file.
    pub(super) is_whole: bool,
    /// Whether the capture has at least one Ethernet frame. For an empty capture: whether its link type
    /// is Ethernet.
    pub(super) is_ethernet: bool,
    /// Whether scapy accepts the file as a capture.
    pub(super) is_read: bool,
    /// Number of frames that scapy reads.
    pub(super) frames: u64,
    /// Number of frames with the link type Ethernet.
    pub(super) ethernet: u64,
    /// Number of frames that scapy skips because no block of the pcapng section describes their interface.
    pub(super) undescribed: u64,
}

impl ListedCapture {
    /// Parses a row of the script's output. Returns `None` if a field is missing.
    pub(super) fn parse(row: &Value) -> Option<ListedCapture> {
        Some(ListedCapture {
            path: PathBuf::from(row["path"].as_str()?),
            is_whole: row["whole"].as_bool()?,
            is_ethernet: row["is_ethernet"].as_bool()?,
            is_read: row["is_read"].as_bool()?,
            frames: row["frames"].as_u64()?,
            ethernet: row["ethernet"].as_u64()?,
            undescribed: row["undescribed"].as_u64()?,
        })
    }
}

/// The output of a replay, and the comparison by the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayOutput<'a> {
    pub(super) exit: Option<i32>,
    /// Text of standard error.
    pub(super) stderr: &'a str,
    /// Report of the replay, or `Null` without a report.
    pub(super) report: &'a Value,
    /// Comparison by the script, or `Null` if the replay wrote no capture.
    pub(super) compared: &'a Value,
}

/// The evaluation of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplayFinding {
    /// Every frame of the capture was sent, dropped, consumed or skipped. The contents of the sent and
    /// dropped frames are the same as in the capture.
    Agrees(ReplayCounts),
    /// xoff refuses the file because the file has no Ethernet frames, or scapy cannot read the file.
    NotEthernet,
    /// The file is damaged. Contains the message of xoff with the position of the damage.
    Damaged(String),
    /// Any other result. Contains the reason.
    Deviates(String),
}

/// Numbers of frames of a replay, by the result for each frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayCounts {
    pub(super) frames: u64,
    /// Frames that left through at least one port.
    pub(super) sent: u64,
    /// Frames that left through no port, by drop reason.
    pub(super) dropped: BTreeMap<String, u64>,
    /// Flow control frames, and frames for protocols of the switch itself such as ARP.
    pub(super) consumed: u64,
    /// Frames that were not replayed, by reason.
    pub(super) left_out: BTreeMap<String, u64>,
}

impl ReplayCounts {
    /// Adds the counts of another capture.
    pub(super) fn add(&mut self, other: &ReplayCounts) {
        self.frames += other.frames;
        self.sent += other.sent;
        self.consumed += other.consumed;
        for (to, from) in [
            (&mut self.dropped, &other.dropped),
            (&mut self.left_out, &other.left_out),
        ] {
            for (reason, count) in from {
                *to.entry(reason.clone()).or_default() += count;
            }
        }
    }
}

/// Evaluates a replay: compares its output with the frames that scapy reads.
pub(super) fn evaluate_replay(capture: &ListedCapture, replay: &ReplayOutput<'_>) -> ReplayFinding {
    let ReplayOutput {
        exit,
        stderr,
        report,
        compared,
    } = *replay;
    if let Some(wrong) = compared["wrong"].as_array().and_then(|wrong| wrong.first()) {
        return ReplayFinding::Deviates(wrong.as_str().unwrap_or("the bytes of a frame").to_owned());
    }
    if !capture.is_read && matches!(exit, Some(0 | 3 | 5)) {
        return ReplayFinding::NotEthernet;
    }
    match (exit, capture.is_whole) {
        (Some(0), true) => {}
        (Some(3), _) if !capture.is_ethernet && stderr.contains("has no Ethernet frames") => {
            return ReplayFinding::NotEthernet;
        }
        (Some(3 | 5), false) => return ReplayFinding::Damaged(damage_message(stderr)),
        _ => {
            let whole = if capture.is_whole { "whole" } else { "damaged" };
            return ReplayFinding::Deviates(format!(
                "{whole}, exit code {exit:?}: {}",
                damage_message(stderr)
            ));
        }
    }
    match check_frame_counts(capture, report, compared) {
        Ok(counts) => ReplayFinding::Agrees(counts),
        Err(why) => ReplayFinding::Deviates(why),
    }
}

/// Checks that the numbers of frames in the report, in the written captures and in the input agree. The
/// capture must not be damaged.
///
/// # Errors
/// The message names the first two numbers that differ.
fn check_frame_counts(
    capture: &ListedCapture,
    report: &Value,
    compared: &Value,
) -> Result<ReplayCounts, String> {
    let frames = &report["frames"];
    let number = |key: &str| frames[key].as_u64().unwrap_or(0);
    let by_reason = |counts: &Value| -> BTreeMap<String, u64> {
        let counts = counts.as_object().into_iter().flatten();
        counts
            .map(|(reason, count)| (reason.clone(), count.as_u64().unwrap_or(0)))
            .collect()
    };
    let counts = ReplayCounts {
        frames: capture.frames + capture.undescribed,
        sent: compared["sent"].as_u64().unwrap_or(0),
        dropped: by_reason(&compared["dropped"]),
        consumed: number("control") + number("punted"),
        left_out: by_reason(&frames["skipped"]),
    };
    let left_out = |reason: &str| counts.left_out.get(reason).copied().unwrap_or(0);
    let offered = counts.sent + counts.dropped.values().sum::<u64>() + counts.consumed;
    let accounted = offered + counts.left_out.values().sum::<u64>();
    let before = number("received") + number("flood_copies") + number("own");
    let after = ["sent", "dropped", "punted", "queued", "held"].map(number);
    let equal = [
        (
            "frames accounted for and frames of scapy",
            accounted,
            counts.frames,
        ),
        (
            "frames of the report and of scapy",
            report["capture"]["frames"].as_u64().unwrap_or(0),
            counts.frames,
        ),
        (
            "frames offered and what became of them",
            number("offered"),
            offered,
        ),
        (
            "frames offered and received",
            number("offered"),
            number("received") + number("control"),
        ),
        ("frames before and behind the switch", before, after.iter().sum()),
        (
            "frames of other link types",
            left_out("other_link_type"),
            capture.frames - capture.ethernet,
        ),
        (
            "frames of undescribed interfaces",
            left_out("unknown_interface"),
            capture.undescribed,
        ),
    ];
    match equal.iter().find(|(_, is, should_be)| is != should_be) {
        Some((what, is, should_be)) => Err(format!("{what}: {is} and {should_be}")),
        None => Ok(counts),
    }
}

/// Returns the first line of an error message, from the words "the capture" on. This omits the file name.
fn damage_message(stderr: &str) -> String {
    let line = stderr.lines().next().unwrap_or_default();
    let at = line.find("the capture ").unwrap_or(0);
    line[at..].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capture() -> ListedCapture {
        ListedCapture {
            is_whole: true,
            is_ethernet: true,
            is_read: true,
            frames: 4,
            ethernet: 3,
            ..ListedCapture::default()
        }
    }

    fn report() -> Value {
        let frames = json!({
            "offered": 3, "received": 3, "flood_copies": 1, "sent": 3, "dropped": 1, "skipped": {"other_link_type": 1},
        });
        json!({"capture": {"frames": 4}, "frames": frames})
    }

    fn compared() -> Value {
        json!({"sent": 2, "dropped": {"SMAC_MULTICAST": 1}, "wrong": []})
    }

    fn judged(capture: &ListedCapture, report: &Value, compared: &Value) -> ReplayFinding {
        let replay = ReplayOutput {
            exit: Some(0),
            stderr: "",
            report,
            compared,
        };
        evaluate_replay(capture, &replay)
    }

    #[test]
    fn replay_that_accounts_for_all_frames_agrees() {
        let ReplayFinding::Agrees(counts) = judged(&capture(), &report(), &compared()) else {
            panic!("{:?}", judged(&capture(), &report(), &compared()));
        };
        assert_eq!((counts.frames, counts.sent, counts.consumed), (4, 2, 0));
        assert_eq!(counts.dropped["SMAC_MULTICAST"], 1);
        assert_eq!(counts.left_out["other_link_type"], 1);
    }

    #[test]
    fn missing_or_changed_frame_deviates() {
        let deviates = |capture: &ListedCapture, report: &Value, compared: &Value| {
            matches!(judged(capture, report, compared), ReplayFinding::Deviates(_))
        };
        let mut one_vanished = compared();
        one_vanished["sent"] = 1.into();
        assert!(deviates(&capture(), &report(), &one_vanished));
        let mut one_changed = compared();
        one_changed["wrong"] = json!(["frame 2 left with other bytes"]);
        assert!(deviates(&capture(), &report(), &one_changed));
        for field in ["offered", "received", "flood_copies", "sent", "dropped"] {
            let mut other = report();
            other["frames"][field] = 9.into();
            assert!(deviates(&capture(), &other, &compared()), "{field}");
        }
        for other in [
            ListedCapture {
                frames: 5,
                ..capture()
            },
            ListedCapture {
                ethernet: 4,
                ..capture()
            },
            ListedCapture {
                undescribed: 1,
                ..capture()
            },
        ] {
            assert!(deviates(&other, &report(), &compared()), "{other:?}");
        }
        assert!(deviates(&capture(), &Value::Null, &Value::Null));
    }

    #[test]
    fn frame_of_an_undescribed_interface_is_counted() {
        let undescribed = ListedCapture {
            frames: 3,
            undescribed: 1,
            ..capture()
        };
        let mut report = report();
        report["frames"]["skipped"] = json!({"unknown_interface": 1});
        assert!(matches!(
            judged(&undescribed, &report, &compared()),
            ReplayFinding::Agrees(_)
        ));
    }

    #[test]
    fn only_damaged_files_may_be_refused() {
        let null = Value::Null;
        let exit = |capture: &ListedCapture, exit: Option<i32>, stderr: &str| {
            let replay = ReplayOutput {
                exit,
                stderr,
                report: &null,
                compared: &null,
            };
            evaluate_replay(capture, &replay)
        };
        let damaged = ListedCapture {
            is_whole: false,
            ..capture()
        };
        let stderr = "warning: x.pcap: the capture ends in the middle of a frame: frame 2, at byte 9\nmore";
        let why = "the capture ends in the middle of a frame: frame 2, at byte 9";
        for code in [3, 5] {
            assert_eq!(
                exit(&damaged, Some(code), stderr),
                ReplayFinding::Damaged(why.to_owned())
            );
            assert!(matches!(
                exit(&capture(), Some(code), stderr),
                ReplayFinding::Deviates(_)
            ));
        }
        for code in [Some(0), Some(1), Some(101), None] {
            assert!(matches!(exit(&damaged, code, stderr), ReplayFinding::Deviates(_)));
        }
        let other = ListedCapture {
            is_ethernet: false,
            ..capture()
        };
        let unread = ListedCapture {
            is_read: false,
            ..capture()
        };
        assert_eq!(exit(&unread, Some(0), ""), ReplayFinding::NotEthernet);
        assert!(matches!(exit(&unread, Some(101), ""), ReplayFinding::Deviates(_)));
        let stderr = "error: the capture has no Ethernet frames";
        assert_eq!(exit(&other, Some(3), stderr), ReplayFinding::NotEthernet);
        assert!(matches!(
            exit(&capture(), Some(3), stderr),
            ReplayFinding::Deviates(_)
        ));
    }
}
