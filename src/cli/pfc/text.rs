//! The text output of `xoff pfc`.

use std::fmt::Write as _;

use xoff_measure::pfc::{
    ControlDevice, DEFAULT_SPEED_MBPS, DecodedFrame, PauseEvent, PauseScope, PauseTracker, ScopeCounters,
    ScopeEvent, SendOrder, SendResult, WatchSummary, WatchedEvent,
};
use xoff_telemetry::{count_noun, format_bit_rate, format_nanos};
use xoff_wire::mac_control::{OPCODE_PAUSE, OPCODE_PFC};
use xoff_wire::{DisplayMac, MacControl};

/// Returns the first line of `watch`.
pub(super) fn ready(device: &str, speed_mbps: u32) -> String {
    let quantum_ns = 512_000.0 / f64::from(speed_mbps);
    let speed = format_bit_rate(u64::from(speed_mbps) * 1_000_000);
    format!("ready: {device} at {speed}, a quantum is {quantum_ns:.2} ns")
}

/// The speed with which pause times are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSpeed {
    mbps: u32,
    /// Whether the user gave the speed. The speed that a device reports can be wrong: a veth reports 10 Gb/s.
    is_given: bool,
}

impl LinkSpeed {
    /// Returns the speed that the user gave, or the speed that the device reports.
    pub(super) fn new(given_mbps: Option<u32>, device: &ControlDevice) -> LinkSpeed {
        let reported_mbps = device.properties.speed_mbps;
        LinkSpeed {
            mbps: given_mbps.or(reported_mbps).unwrap_or(DEFAULT_SPEED_MBPS),
            is_given: given_mbps.is_some(),
        }
    }

    fn describe(self, device: &str) -> String {
        let speed = format_bit_rate(u64::from(self.mbps) * 1_000_000);
        match self.is_given {
            true => speed,
            false => format!("{speed} (the speed of {device}; --speed gives that of the receiver)"),
        }
    }
}

/// Describes sent frames in some lines.
pub(super) fn sent_frames(
    device: &str,
    speed: LinkSpeed,
    bytes: &[u8],
    frame: Option<&DecodedFrame>,
    result: &SendResult,
) -> String {
    let mut text = format!("sent {} on {device}", count_noun(result.sent_frames, "frame"));
    if result.sent_frames > 1 {
        let _ = write!(text, " in {}", format_nanos(result.elapsed_ns));
    }
    let length = count_noun(bytes.len() as u64, "byte");
    match frame {
        Some(frame) => {
            let _ = write!(text, ": {}, {length} without FCS", content(frame));
        }
        None => {
            let _ = write!(text, ": no MAC control frame, {length} without FCS");
        }
    }
    let tracker = PauseTracker::new(speed.mbps);
    let speed = speed.describe(device);
    for (scope, quanta) in frame.map(pause_times).unwrap_or_default() {
        let scope = scope_name(scope);
        let _ = match quanta {
            0 => write!(text, "\n  resumes {scope}"),
            quanta => {
                let duration = format_nanos(tracker.pause_duration_ns(quanta));
                write!(text, "\n  pauses {scope} for {duration} at {speed}")
            }
        };
    }
    if frame.is_none_or(|frame| frame.effect.is_none()) {
        text.push_str("\n  receivers that follow the standard ignore the frame");
    }
    for deviation in frame.map(|frame| frame.deviations.as_slice()).unwrap_or_default() {
        let _ = write!(text, "\n  deviation: {deviation}");
    }
    if result.lost_frames > 0 {
        let lost = count_noun(result.lost_frames, "frame");
        let _ = write!(
            text,
            "\n  lost: {lost}, because the device or its far end had no space"
        );
    }
    if result.missed_frames > 0 {
        let missed = count_noun(result.missed_frames, "frame");
        let _ = write!(
            text,
            "\n  not sent in time: {missed}; this machine cannot reach the rate"
        );
    }
    if result.is_resumed {
        text.push_str("\n  then sent a frame that resumes");
    }
    text.push('\n');
    text
}

/// Describes a storm whose pauses end before its next frame. Returns `None` if its classes stay paused.
pub(super) fn pause_gap(order: &SendOrder, speed: LinkSpeed) -> Option<String> {
    let frame = DecodedFrame::decode(&order.frame.to_bytes(), None, [0; 6])?;
    let quanta = pause_times(&frame).into_iter().map(|(_, quanta)| quanta);
    let shortest_ns =
        PauseTracker::new(speed.mbps).pause_duration_ns(quanta.filter(|quanta| *quanta > 0).min()?);
    let interval_ns = (1e9 / order.rate_fps) as u64;
    (shortest_ns < interval_ns).then(|| {
        format!(
            "a pause of {} at {} ends before the next frame, which follows after {}; a higher --rate keeps the class paused",
            format_nanos(shortest_ns),
            format_bit_rate(u64::from(speed.mbps) * 1_000_000),
            format_nanos(interval_ns)
        )
    })
}

/// Describes opcode, classes and pause times of a frame.
fn content(frame: &DecodedFrame) -> String {
    match (frame.effect, frame.opcode) {
        (Some(control), _) => control.to_string(),
        (None, Some(OPCODE_PFC)) => match frame.enable {
            Some(enable) => format!("PFC vector {enable:#06x}"),
            None => "PFC without a vector".to_owned(),
        },
        (None, Some(OPCODE_PAUSE)) => "PAUSE".to_owned(),
        (None, Some(opcode)) => format!("opcode {opcode:#06x}"),
        (None, None) => "MAC control without an opcode".to_owned(),
    }
}

/// Returns the pause times of a frame that has an effect.
fn pause_times(frame: &DecodedFrame) -> Vec<(PauseScope, u16)> {
    match frame.effect {
        None => Vec::new(),
        Some(MacControl::Pause { quanta }) => vec![(PauseScope::Port, quanta)],
        Some(MacControl::Pfc(pfc)) => (0..8_u8)
            .filter(|class| pfc.enable & 1 << class != 0)
            .map(|class| (PauseScope::Class(class), pfc.quanta[usize::from(class)]))
            .collect(),
    }
}

fn scope_name(scope: PauseScope) -> String {
    match scope {
        PauseScope::Class(class) => format!("class {class}"),
        PauseScope::Port => "all classes (PAUSE)".to_owned(),
    }
}

fn seconds(time_ns: u64) -> String {
    format!("{}.{:06}", time_ns / 1_000_000_000, time_ns / 1_000 % 1_000_000)
}

/// Describes an event of `watch` in one or more lines, without a line end.
pub(super) fn event(event: &WatchedEvent) -> String {
    match event {
        WatchedEvent::Frame {
            time_ns,
            frame,
            changes,
        } => {
            let mut text = format!(
                "{:>12}  {}  {}",
                seconds(*time_ns),
                DisplayMac(frame.source),
                content(frame)
            );
            if frame.effect.is_none() {
                text.push_str(" (ignored)");
            }
            for change in changes {
                let _ = write!(text, "\n{:14}{}", "", describe_change(change));
            }
            for deviation in &frame.deviations {
                let _ = write!(text, "\n{:14}deviation: {deviation}", "");
            }
            text
        }
        WatchedEvent::Expired(change) => {
            format!("{:>12}  {}", seconds(change.time_ns), describe_change(change))
        }
        WatchedEvent::Lost { time_ns, frames } => format!(
            "{:>12}  lost {}: too many frames came at once",
            seconds(*time_ns),
            count_noun(*frames, "frame")
        ),
    }
}

fn describe_change(change: &ScopeEvent) -> String {
    let scope = scope_name(change.scope);
    match change.event {
        PauseEvent::Paused {
            duration_ns,
            until_ns,
            ..
        } => format!(
            "{scope} paused until {} ({})",
            seconds(until_ns),
            format_nanos(duration_ns)
        ),
        PauseEvent::Refreshed {
            until_ns, left_ns, ..
        } => {
            format!(
                "{scope} refreshed until {}, {} were left",
                seconds(until_ns),
                format_nanos(left_ns)
            )
        }
        PauseEvent::Resumed { paused_ns, left_ns } => format!(
            "{scope} resumed after {}, {} were left",
            format_nanos(paused_ns),
            format_nanos(left_ns)
        ),
        PauseEvent::AlreadyResumed => format!("{scope} was not paused"),
        PauseEvent::Expired { paused_ns } => format!("{scope} expired after {}", format_nanos(paused_ns)),
    }
}

/// Describes the counters of `watch` in some lines, without a line end.
pub(super) fn summary(summary: &WatchSummary) -> String {
    let mut text = format!(
        "{} in {}",
        count_noun(summary.frames, "MAC control frame"),
        format_nanos(summary.duration_ns)
    );
    for (count, what) in [
        (summary.ignored_frames, "ignored by receivers"),
        (summary.deviating_frames, "with deviations"),
        (summary.lost_frames, "lost"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    let classes = (0..8_u8).map(PauseScope::Class).zip(summary.classes);
    let counters = classes.chain([(PauseScope::Port, summary.port)]);
    for (scope, counters) in counters.filter(|(_, counters)| !counters.is_zero()) {
        let _ = write!(text, "\n  {}", describe_counters(scope, &counters));
    }
    text
}

fn describe_counters(scope: PauseScope, counters: &ScopeCounters) -> String {
    format!(
        "{}: {} XOFF, {} XON, {}, {} expired, paused for {}",
        scope_name(scope),
        counters.xoff_frames,
        counters.xon_frames,
        count_noun(counters.pauses, "pause"),
        counters.expired,
        format_nanos(counters.paused_ns)
    )
}

#[cfg(test)]
mod tests {
    use xoff_measure::pfc::{ControlFrameSpec, Watcher};
    use xoff_wire::Pfc;

    use super::*;

    fn frame(quanta: u16) -> ControlFrameSpec {
        let pfc = Pfc {
            enable: 1 << 3,
            quanta: [0, 0, 0, quanta, 0, 0, 0, 0],
        };
        ControlFrameSpec::pfc([2, 0, 0, 0, 0, 10], pfc)
    }

    fn given(mbps: u32) -> LinkSpeed {
        LinkSpeed { mbps, is_given: true }
    }

    #[test]
    fn a_reported_speed_is_named_with_the_option_that_replaces_it() {
        let reported = LinkSpeed {
            mbps: 10_000,
            is_given: false,
        };
        assert_eq!(
            reported.describe("eth1"),
            "10.0 Gb/s (the speed of eth1; --speed gives that of the receiver)"
        );
        assert_eq!(given(1_000).describe("eth1"), "1.00 Gb/s");
    }

    #[test]
    fn events_name_classes_times_and_deviations() {
        let mut watcher = Watcher::new(0, [0; 6], 1_000);
        let mut odd = frame(0);
        odd.padding = 1;
        let mut events = watcher.receive(1_234_000, &frame(65_535).to_bytes(), None);
        events.extend(watcher.receive(2_234_000, &frame(10).to_bytes(), None));
        events.extend(watcher.receive(3_000_000, &odd.to_bytes(), None));
        odd.opcode = 7;
        events.extend(watcher.receive(4_000_000, &odd.to_bytes(), None));
        events.extend(watcher.add_lost_frames(5_000_000, 1));
        let text: Vec<String> = events.iter().map(event).collect();
        let expected = "    0.001234  02:00:00:00:00:0a  PFC xoff 3 quanta 65535
              class 3 paused until 0.034787 (33.6 ms)
    0.002234  02:00:00:00:00:0a  PFC xoff 3 quanta 10
              class 3 refreshed until 0.002239, 32.6 ms were left
    0.002239  class 3 expired after 1.01 ms
    0.003000  02:00:00:00:00:0a  PFC xon 3
              class 3 was not paused
              deviation: number of padding bytes that are not zero is 26
    0.004000  02:00:00:00:00:0a  opcode 0x0007 (ignored)
              deviation: opcode 0x0007 is neither PAUSE (0x0001) nor PFC (0x0101)
    0.005000  lost 1 frame: too many frames came at once";
        assert_eq!(text.join("\n"), expected);
        assert_eq!(
            summary(&watcher.summary(6_000_000)),
            "4 MAC control frames in 6.00 ms, 1 ignored by receivers, 2 with deviations, 1 lost\n  \
             class 3: 2 XOFF, 1 XON, 1 pause, 1 expired, paused for 1.01 ms"
        );
    }

    #[test]
    fn storms_with_gaps_are_reported() {
        let order = |rate_fps| SendOrder {
            frame: frame(65_535),
            rate_fps,
            frames_max: None,
            duration: None,
            resumes_at_end: true,
        };
        assert_eq!(pause_gap(&order(30.0), given(1_000)), None);
        let text = pause_gap(&order(10.0), given(1_000)).expect("a gap");
        assert!(text.starts_with(
            "a pause of 33.6 ms at 1.00 Gb/s ends before the next frame, which follows after 100 ms"
        ));
    }

    #[test]
    fn sent_frames_are_described_with_their_effect() {
        let describe = |spec: &ControlFrameSpec, result: &SendResult| {
            let bytes = spec.to_bytes();
            let decoded = DecodedFrame::decode(&bytes, None, [0; 6]);
            sent_frames("eth1", given(10_000), &bytes, decoded.as_ref(), result)
        };
        let one = SendResult {
            sent_frames: 1,
            ..SendResult::default()
        };
        assert_eq!(
            describe(&frame(65_535), &one),
            "sent 1 frame on eth1: PFC xoff 3 quanta 65535, 60 bytes without FCS\n  \
             pauses class 3 for 3.36 ms at 10.0 Gb/s\n"
        );
        let mut other = frame(0);
        other.ethertype = 0x0800;
        let result = SendResult {
            sent_frames: 2,
            lost_frames: 1,
            missed_frames: 3,
            elapsed_ns: 5_000,
            is_resumed: true,
            is_interrupted: false,
        };
        assert_eq!(
            describe(&other, &result),
            "sent 2 frames on eth1 in 5.00 us: no MAC control frame, 60 bytes without FCS\n  \
             receivers that follow the standard ignore the frame\n  \
             lost: 1 frame, because the device or its far end had no space\n  \
             not sent in time: 3 frames; this machine cannot reach the rate\n  \
             then sent a frame that resumes\n"
        );
        assert_eq!(
            ready("eth1", 10_000),
            "ready: eth1 at 10.0 Gb/s, a quantum is 51.20 ns"
        );
    }
}
