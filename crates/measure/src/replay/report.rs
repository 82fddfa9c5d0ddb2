//! The report of a replay. The report accounts for every frame of the capture: sent, dropped or skipped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use xoff_dataplane::DropReason;

use super::mapping::{PortMapping, SkipReason};
use super::replay_run::{FrameTally, ReplayResult};
use super::survey::CaptureSurvey;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::verdict::{
    Expectation, ExpectationResult, OversizedDrops, ProtectedClasses, Traffic, Verdict, oversized_drops,
};
use xoff_telemetry::{
    SwitchReport, count_noun, drops_table, format_counts_by_class, format_nanos, group_thousands,
    simple_table,
};

/// Name and version of the report's JSON format.
pub const REPLAY_SCHEMA: &str = "xoff.replay/1";

/// The report of a replay. The same input gives the same report, because the report contains no wall time and
/// no data of the machine.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ReplayReport {
    /// Name and version of the format: [`REPLAY_SCHEMA`].
    pub schema: String,
    /// Version of xoff that created the report.
    pub xoff_version: String,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Whether the replay is clean, failed, tainted or without traffic.
    #[serde(default)]
    pub verdict: Verdict,
    /// Reasons for which the result is incomplete or proves nothing. Empty for a clean result.
    pub taints: Vec<String>,
    /// The failures of the replay: expectations that do not hold, and frames of a lossless class that exceed
    /// an MTU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The offered frames. If no frame was offered, the notes contain the reasons.
    #[serde(default)]
    pub traffic: Traffic,
    /// The expectations of the user (`--expect`), compared with the frames that left the switch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<ExpectationResult>,
    /// The frames that the switch dropped because they exceed an MTU, by port and class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oversized: Vec<OversizedDrops>,
    /// The capture that was replayed.
    pub capture: CaptureSummary,
    /// The number of frames for each result of the replay.
    pub frames: ReportedFrameCounts,
    /// Counters and state of the switch at the end of the replay.
    pub switch: SwitchReport,
}

/// Properties of the capture that was replayed.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CaptureSummary {
    /// Name of the file, as the user gave it.
    pub file: String,
    /// Number of frames in the capture, including frames that the reader cannot use.
    pub frames: u64,
    /// Number of frames that were captured only in part.
    pub partial: u64,
    /// The first time stamp in nanoseconds since 1970. Model time 0 is this time. `None` if no frame has a
    /// time stamp.
    pub first_ns: Option<i64>,
    /// Number of frames of which the capture contains so few bytes that the traffic class is missing. The
    /// switch treats these frames as frames without IP.
    pub without_class: u64,
    /// Number of MAC addresses that send frames.
    pub stations: usize,
    /// Number of stations behind each port, in the order of the switch's ports. Stations of a mapped
    /// interface are not counted.
    pub stations_by_port: Vec<usize>,
    /// `sender` or `interface`: the rule that selected the ingress ports.
    pub ports_by: String,
}

/// Frame counts. Unless frames waited for their next hop, they satisfy this equation:
/// `received + flood_copies + own = sent + dropped + punted + queued + held`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReportedFrameCounts {
    /// Frames of the capture that were offered to the switch.
    pub offered: u64,
    /// Number of frames of the capture that were not offered, for each reason ([`SkipReason::name`]). The sum
    /// of these numbers and `offered` is the number of frames in the capture.
    pub skipped: BTreeMap<String, u64>,
    /// Flow control frames among the offered frames. The switch does not forward them.
    pub control: u64,
    /// Offered frames that are not flow control frames.
    pub received: u64,
    /// Additional copies of received frames that the switch made by flooding.
    pub flood_copies: u64,
    /// Frames that the switch created and sent, without flow control frames.
    pub own: u64,
    /// Frames that left the switch, without flow control frames.
    pub sent: u64,
    /// Dropped frames, including dropped copies of flooded frames.
    pub dropped: u64,
    /// Frames that the switch passed to its own protocols.
    pub punted: u64,
    /// Frames that were still in a queue at the end.
    pub queued: u64,
    /// Frames that still waited for the MAC address of their next hop at the end.
    pub held: u64,
    /// Frames in which the switch set the ECN mark (CE).
    pub marked: u64,
    /// PFC frames that the switch sent, over all ports.
    pub pfc_sent: u64,
    /// Frames with a smaller time stamp than a previous frame of the capture, by at most an hour. Such a
    /// frame arrives at the same time as the previous frame.
    pub disordered: u64,
    /// Number of gaps between two time stamps that were shortened to one second. A gap is shortened if it is
    /// longer than an hour, or if the capture would not fit in model time.
    pub gaps_cut: u64,
    /// Dropped frames with sender and receiver behind the same port of the mapping.
    pub same_port: u64,
    /// Number of stations that were in the forwarding database before the first frame.
    pub learnt: u64,
}

impl ReplayReport {
    /// Builds the report from the results of the two passes over the capture. `file` is the name of the
    /// capture. `expected` states how many frames, and bytes with FCS, must leave the switch.
    pub fn new(
        file: &str,
        seed: u64,
        expected: &[Expectation],
        survey: &CaptureSurvey,
        mapping: &PortMapping,
        result: ReplayResult,
    ) -> ReplayReport {
        let ReplayResult { tally, switch } = result;
        let frames = ReportedFrameCounts::new(survey, &tally, &switch);
        let mut taints = Vec::new();
        if let Some(cut) = &survey.read_error {
            taints.push(format!("{cut}; the frames before it were replayed"));
        }
        if frames.queued > 0 {
            let ports: Vec<&str> = ports_with_queued_frames(&switch).collect();
            taints.push(format!(
                "{} still queued one minute of model time after the last arrival: {}",
                match frames.queued {
                    1 => "1 frame was".to_owned(),
                    count => format!("{} were", count_noun(count, "frame")),
                },
                ports.join(", ")
            ));
        }
        // A frame that waited for its next hop can be flooded later, and no forwarding result states the
        // number of its copies.
        let all_accounted = survey.total_frames() == frames.offered + frames.skipped.values().sum::<u64>();
        if !all_accounted || !frames.is_balanced() && tally.waited == 0 {
            taints.push("the frame counts are not consistent; this is a defect of xoff".to_owned());
        }
        let traffic = offered_traffic(&frames, survey.total_frames());
        let mut protected = ProtectedClasses::default();
        if let Some(first) = expected.first() {
            protected.protect_everything(&format!("a capture with the expectation {first}"));
        }
        let oversized = oversized_drops(std::slice::from_ref(&switch), &protected);
        let sent_bytes = switch.ports.iter().map(|port| port.tx_bytes).sum();
        let expectations: Vec<ExpectationResult> = expected
            .iter()
            .map(|expected| expected.compare(&switch.name, frames.sent, sent_bytes))
            .collect();
        let unmet = expectations.iter().filter_map(ExpectationResult::failure);
        let failures: Vec<String> = unmet
            .chain(oversized.iter().filter_map(OversizedDrops::failure))
            .collect();
        ReplayReport {
            verdict: traffic.verdict(!taints.is_empty(), !failures.is_empty()),
            failures,
            traffic,
            expectations,
            oversized,
            schema: REPLAY_SCHEMA.to_owned(),
            xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            taints,
            capture: CaptureSummary {
                file: file.to_owned(),
                frames: survey.total_frames(),
                without_class: survey.without_class,
                partial: survey.partial,
                first_ns: survey.first_ns,
                stations: survey.senders.len(),
                stations_by_port: mapping.stations_by_port(),
                ports_by: if mapping.is_by_interface() {
                    "interface"
                } else {
                    "sender"
                }
                .to_owned(),
            },
            frames,
            switch,
        }
    }

    /// Returns the exit code of the command ([`Verdict::exit`]).
    pub fn exit(&self) -> Exit {
        self.verdict.exit()
    }

    /// Returns the report as JSON text, with a final line break.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers");
        text.push('\n');
        text
    }

    /// Returns the report as tables for a terminal.
    pub fn render(&self) -> String {
        let mut text = format!("switch {}\n{}\n", self.switch.name, self.port_table());
        if let Some(drops) = drops_table(std::slice::from_ref(&self.switch)) {
            text.push_str(&drops);
            text.push('\n');
        }
        text.push_str(&self.frame_balance());
        text.push_str(&self.format_verdict());
        text
    }

    /// Formats the verdict in one line, followed by its reasons.
    fn format_verdict(&self) -> String {
        let missing = self.traffic.describe_missing();
        let dropped = || self.oversized.iter().map(OversizedDrops::describe).collect();
        let (line, reasons): (String, Vec<String>) = match self.verdict {
            Verdict::Tainted => ("inconclusive".to_owned(), self.taints.clone()),
            Verdict::Failed => (
                "failed".to_owned(),
                self.failures.iter().cloned().chain(missing).collect(),
            ),
            Verdict::NoTraffic => {
                let missing = missing.unwrap_or_else(|| "no traffic".to_owned());
                (format!("{missing}, so the replay proves nothing"), Vec::new())
            }
            Verdict::Clean => ("clean".to_owned(), dropped()),
        };
        let mut text = format!("verdict: {line}\n");
        for reason in reasons {
            let _ = writeln!(text, "  {reason}");
        }
        text
    }

    fn port_table(&self) -> String {
        let header = [
            "Port", "Stations", "Rx", "Tx", "Marked", "PFC rx", "PFC tx", "XOFFs", "Dropped",
        ];
        let row = |(at, port): (usize, &xoff_telemetry::PortReport)| {
            vec![
                port.name.clone(),
                match self.capture.stations_by_port.get(at) {
                    // Stations of a mapped interface are not counted.
                    None | Some(0) => "-".to_owned(),
                    Some(stations) => group_thousands(*stations as u64),
                },
                group_thousands(port.rx_packets),
                group_thousands(port.tx_packets),
                group_thousands(port.ecn_marked),
                format_counts_by_class(&port.pfc_rx, group_thousands),
                format_counts_by_class(&port.pfc_tx, group_thousands),
                format_counts_by_class(&port.xoff_transitions, group_thousands),
                group_thousands(port.dropped()),
            ]
        };
        simple_table(
            &header,
            1,
            self.switch.ports.iter().enumerate().map(row).collect(),
        )
    }

    /// Returns a text that states what happened to every frame of the capture.
    fn frame_balance(&self) -> String {
        let sums = &self.frames;
        let mut text = format!(
            "{} in the capture, over {} of model time: {} offered",
            format_frame_count(self.capture.frames),
            format_nanos(self.switch.model_time_ns),
            group_thousands(sums.offered)
        );
        for (reason, count) in &sums.skipped {
            let _ = write!(
                text,
                ", {} {}",
                group_thousands(*count),
                SkipReason::skip_reason_explanation(reason)
            );
        }
        let side = |parts: &[(u64, &str)]| {
            let said = parts
                .iter()
                .enumerate()
                .filter(|(at, (count, _))| *at == 0 || *count > 0);
            let said: Vec<String> = said
                .map(|(_, (count, what))| format!("{} {what}", group_thousands(*count)))
                .collect();
            said.join(" + ")
        };
        let _ = writeln!(
            text,
            "\n{} = {}",
            side(&[
                (sums.received, "received"),
                (sums.flood_copies, "copies by flooding"),
                (sums.own, "of the switch itself"),
            ]),
            side(&[
                (sums.sent, "sent"),
                (sums.dropped, "dropped"),
                (sums.punted, "for the switch itself"),
                (sums.queued, "still queued"),
                (sums.held, "waiting for their next hop"),
            ])
        );
        if sums.control > 0 {
            let _ = writeln!(
                text,
                "{} of flow control received",
                format_frame_count(sums.control)
            );
        }
        text
    }
}

impl ReportedFrameCounts {
    fn new(survey: &CaptureSurvey, tally: &FrameTally, switch: &SwitchReport) -> ReportedFrameCounts {
        let sum = |of: fn(&xoff_telemetry::PortReport) -> u64| switch.ports.iter().map(of).sum();
        let dropped: u64 = sum(|port| port.dropped());
        let unusable = survey.unusable.iter();
        let unusable: Vec<_> = unusable
            .map(|(why, count)| (SkipReason::Unusable(*why), count))
            .collect();
        let skipped = tally
            .skipped
            .iter()
            .map(|(reason, count)| (*reason, count))
            .chain(unusable);
        let same_port = |port: &xoff_telemetry::PortReport| {
            port.drops
                .get(DropReason::L2LoopbackFilter.name())
                .copied()
                .unwrap_or(0)
        };
        ReportedFrameCounts {
            offered: tally.offered,
            skipped: skipped
                .map(|(reason, count)| (reason.name().to_owned(), *count))
                .collect(),
            control: tally.control,
            received: sum(|port| port.rx_packets),
            flood_copies: (tally.copies + tally.copies_dropped).saturating_sub(tally.forwarded),
            own: tally.own,
            sent: sum(|port| port.tx_packets),
            dropped,
            punted: tally.punted,
            queued: tally.queued,
            held: tally.held,
            marked: sum(|port| port.ecn_marked),
            pfc_sent: sum(|port| port.pfc_tx_frames),
            disordered: tally.disordered,
            gaps_cut: tally.gaps_cut,
            same_port: switch.ports.iter().map(same_port).sum(),
            learnt: tally.learnt,
        }
    }

    /// Returns whether the sums of the counts are consistent, as described at [`ReportedFrameCounts`]. If
    /// frames waited for their next hop, the result can be false.
    pub fn is_balanced(&self) -> bool {
        self.offered == self.received + self.control
            && self.received + self.flood_copies + self.own
                == self.sent + self.dropped + self.punted + self.queued + self.held
    }
}

/// Returns the traffic of a replay. If no frame was offered, the notes name the reasons for which frames of the
/// capture were left out.
fn offered_traffic(frames: &ReportedFrameCounts, in_capture: u64) -> Traffic {
    let left_out = frames.skipped.iter().map(|(reason, count)| {
        format!(
            "{} {}",
            format_frame_count(*count),
            SkipReason::skip_reason_explanation(reason)
        )
    });
    let notes = match (frames.offered, in_capture) {
        (0, 0) => vec!["the capture has no frames".to_owned()],
        (0, _) => left_out.collect(),
        _ => Vec::new(),
    };
    Traffic {
        offered_frames: Some(frames.offered),
        arrived_frames: None,
        notes,
    }
}

/// Returns the names of the ports that still have queued frames.
fn ports_with_queued_frames(switch: &SwitchReport) -> impl Iterator<Item = &str> {
    let holds = |port: &&xoff_telemetry::PortReport| port.queues.iter().any(|queue| queue.current_bytes > 0);
    switch.ports.iter().filter(holds).map(|port| port.name.as_str())
}

fn format_frame_count(count: u64) -> String {
    count_noun(count, "frame")
}
