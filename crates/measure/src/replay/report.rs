//! The result of a replay: every frame accounted for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use xoff_dataplane::DropReason;

use super::mapping::{Mapping, SkipReason};
use super::player::Played;
use super::survey::Survey;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{
    SwitchReport, drops_table, format_counts_by_class, format_nanos, group_thousands, simple_table,
};

/// Name and version of the report's form.
pub const SCHEMA: &str = "xoff.replay/1";

/// A whole replay. Nothing of the machine or of the time it ran is in it: the same input gives the same report.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ReplayReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Seed of every random decision.
    pub seed: u64,
    /// Why the result says less than was asked; empty if it says it all.
    pub taints: Vec<String>,
    /// What went in.
    pub capture: CaptureSummary,
    /// What became of it.
    pub frames: FrameSums,
    /// The switch.
    pub switch: SwitchReport,
}

/// The capture that was replayed.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CaptureSummary {
    /// Its name.
    pub file: String,
    /// Frames in it, usable or not.
    pub frames: u64,
    /// Frames of which a part only was captured.
    pub partial: u64,
    /// Its first time stamp, where model time begins, in nanoseconds since 1970; `None` if no frame has one.
    pub first_ns: Option<i64>,
    /// Frames of which so little is stored that their traffic class is unknown: the switch takes them for frames without IP.
    pub without_class: u64,
    /// Addresses that send.
    pub stations: usize,
    /// Stations behind each port, in the order of the switch's ports.
    pub stations_by_port: Vec<usize>,
    /// `sender` or `interface`: what decided on which port a frame came in.
    pub ports_by: String,
}

/// Sums over the frames. `received + flood_copies + own = sent + dropped + punted + queued + held`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct FrameSums {
    /// Frames of the capture that were offered to the switch.
    pub offered: u64,
    /// Frames of the capture that were not, by [`SkipReason::name`]. `offered` and these are all frames of the capture.
    pub skipped: BTreeMap<String, u64>,
    /// Flow control among the offered: obeyed or noted, and forwarded by no switch.
    pub control: u64,
    /// The others.
    pub received: u64,
    /// Copies that flooding made beyond one for each frame.
    pub flood_copies: u64,
    /// Frames of the switch's own, flow control apart.
    pub own: u64,
    /// Frames that left, flow control apart.
    pub sent: u64,
    /// Frames and copies that were dropped.
    pub dropped: u64,
    /// Frames for the switch's own protocols.
    pub punted: u64,
    /// Frames that were still queued at the end.
    pub queued: u64,
    /// Frames that still waited for their next hop at the end.
    pub held: u64,
    /// Frames that the switch marked CE.
    pub marked: u64,
    /// PFC frames that the switch sent.
    pub pfc_sent: u64,
    /// Frames stamped before an earlier frame: they arrived as soon as they could.
    pub disordered: u64,
    /// Gaps over an hour between the stamps of two frames, which were cut to a second.
    pub gaps_cut: u64,
    /// Frames among the dropped ones whose sender and receiver are behind one port of the mapping.
    pub same_port: u64,
    /// Stations that the switch was told of before the first frame.
    pub learnt: u64,
}

impl ReplayReport {
    /// Puts a result together.
    pub fn new(file: &str, seed: u64, survey: &Survey, mapping: &Mapping, played: &Played) -> ReplayReport {
        let switch = SwitchReport::new(&played.snapshot);
        let frames = FrameSums::new(survey, played, &switch);
        let mut taints = Vec::new();
        if let Some(cut) = &survey.cut {
            taints.push(format!("{cut}; the frames before it were replayed"));
        }
        if frames.queued > 0 {
            let ports: Vec<&str> = stuck(&switch).collect();
            taints.push(format!(
                "{} frames had not left a minute of model time after the last arrival: {}",
                group_thousands(frames.queued),
                ports.join(", ")
            ));
        }
        // A frame that waited for its next hop may be flooded then, and no verdict tells into how many copies.
        let all_accounted = survey.total_frames() == frames.offered + frames.skipped.values().sum::<u64>();
        if !all_accounted || !frames.add_up() && played.tally.waited == 0 {
            taints.push("the counts do not add up, which is a defect of xoff".to_owned());
        }
        ReplayReport {
            schema: SCHEMA.to_owned(),
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

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self.taints.is_empty() {
            true => Exit::Ok,
            false => Exit::Inconclusive,
        }
    }

    /// The JSON text.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers");
        text.push('\n');
        text
    }

    /// As tables on a terminal.
    pub fn render(&self) -> String {
        let mut text = format!("switch {}\n{}\n", self.switch.name, self.ports());
        if let Some(drops) = drops_table(std::slice::from_ref(&self.switch)) {
            text.push_str(&drops);
            text.push('\n');
        }
        text.push_str(&self.sums());
        match self.taints.is_empty() {
            true => text.push_str("verdict: clean\n"),
            false => text.push_str("verdict: inconclusive\n"),
        }
        for taint in &self.taints {
            let _ = writeln!(text, "  {taint}");
        }
        text
    }

    fn ports(&self) -> String {
        let header = [
            "Port", "Stations", "Rx", "Tx", "Marked", "PFC rx", "PFC tx", "XOFFs", "Dropped",
        ];
        let row = |(at, port): (usize, &xoff_telemetry::PortReport)| {
            vec![
                port.name.clone(),
                match self.capture.stations_by_port.get(at) {
                    // Nobody asked who is behind an interface.
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

    /// Where every frame of the capture is.
    fn sums(&self) -> String {
        let sums = &self.frames;
        let mut text = format!(
            "{} in the capture, over {} of model time: {} offered",
            frames(self.capture.frames),
            format_nanos(self.switch.model_time_ns),
            group_thousands(sums.offered)
        );
        for (reason, count) in &sums.skipped {
            let _ = write!(
                text,
                ", {} {}",
                group_thousands(*count),
                SkipReason::explain(reason)
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
            let _ = writeln!(text, "{} of flow control received", frames(sums.control));
        }
        text
    }
}

impl FrameSums {
    fn new(survey: &Survey, played: &Played, switch: &SwitchReport) -> FrameSums {
        let tally = &played.tally;
        let sum = |of: fn(&xoff_telemetry::PortReport) -> u64| switch.ports.iter().map(of).sum();
        let dropped: u64 = sum(|port| port.dropped());
        let unusable = survey.unusable.iter();
        let unusable: Vec<_> = unusable
            .map(|(why, count)| (SkipReason::UnusableReason(*why), count))
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
        FrameSums {
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

    /// Whether every frame is somewhere.
    pub fn add_up(&self) -> bool {
        self.offered == self.received + self.control
            && self.received + self.flood_copies + self.own
                == self.sent + self.dropped + self.punted + self.queued + self.held
    }
}

/// Ports that still hold frames.
fn stuck(switch: &SwitchReport) -> impl Iterator<Item = &str> {
    let holds = |port: &&xoff_telemetry::PortReport| port.queues.iter().any(|queue| queue.current_bytes > 0);
    switch.ports.iter().filter(holds).map(|port| port.name.as_str())
}

fn frames(count: u64) -> String {
    match count {
        1 => "1 frame".to_owned(),
        count => format!("{} frames", group_thousands(count)),
    }
}
