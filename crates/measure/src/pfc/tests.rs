//! Tests of the parts without I/O.

use proptest::prelude::*;
use xoff_wire::mac_control::OPCODE_PFC;
use xoff_wire::{MacControl, Pfc, VlanTag};

use super::*;

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 10];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 11];
/// Duration of 1000 quanta at 1 Gb/s.
const QUANTA_1000_NS: u64 = 512_000;

fn pfc(enable: u8, quanta: [u16; 8]) -> Pfc {
    Pfc { enable, quanta }
}

fn class_3(quanta: u16) -> MacControl {
    MacControl::Pfc(pfc(1 << 3, [0, 0, 0, quanta, 0, 0, 0, 0]))
}

fn spec() -> ControlFrameSpec {
    ControlFrameSpec::pfc(SOURCE, pfc(1 << 3, [0, 0, 0, 9, 0, 0, 0, 0]))
}

fn decode(spec: &ControlFrameSpec) -> DecodedFrame {
    DecodedFrame::decode(&spec.to_bytes(), None, OWN).expect("a MAC control frame")
}

/// Returns the texts of the deviations of a frame, and whether a receiver ignores it.
fn deviations(change: impl FnOnce(&mut ControlFrameSpec)) -> (Vec<String>, bool) {
    let mut spec = spec();
    change(&mut spec);
    let decoded = decode(&spec);
    let is_ignored = decoded.effect.is_none();
    assert_eq!(
        is_ignored,
        decoded.deviations.iter().any(Deviation::is_ignored_frame),
        "{decoded:?}"
    );
    (
        decoded.deviations.iter().map(ToString::to_string).collect(),
        is_ignored,
    )
}

#[test]
fn valid_frames_are_those_of_the_wire_crate() {
    let parameters = pfc(0x89, [1, 2, 3, 4, 5, 6, 7, 8]);
    for (spec, control) in [
        (
            ControlFrameSpec::pfc(SOURCE, parameters),
            MacControl::Pfc(parameters),
        ),
        (
            ControlFrameSpec::pause(SOURCE, 77),
            MacControl::Pause { quanta: 77 },
        ),
    ] {
        assert_eq!(spec.to_bytes(), control.to_frame(SOURCE));
        assert_eq!(decode(&spec).effect, Some(control));
    }
    let (found, is_ignored) = deviations(|_| {});
    assert_eq!((found, is_ignored), (vec![], false));
}

#[test]
fn each_malformation_is_built_and_named() {
    for (change, text, is_ignored) in [
        (
            (|spec| spec.destination[5] = 2) as fn(&mut ControlFrameSpec),
            "destination 01:80:c2:00:00:02, expected 01:80:c2:00:00:01",
            true,
        ),
        (
            |spec| spec.source[0] = 3,
            "source 03:00:00:00:00:0a is a group address",
            false,
        ),
        (
            |spec| spec.opcode = 0x0102,
            "opcode 0x0102 is neither PAUSE (0x0001) nor PFC (0x0101)",
            true,
        ),
        (
            |spec| {
                spec.parameters = FrameParameters::Pfc {
                    enable: 0xff08,
                    quanta: [0, 0, 0, 9, 0, 0, 0, 0],
                };
            },
            "high byte of the class-enable vector is 0xff, expected 0",
            false,
        ),
        (
            |spec| {
                spec.parameters = FrameParameters::Pfc {
                    enable: 8,
                    quanta: [0, 0, 0, 9, 7, 0, 0, 0],
                };
            },
            "class 4 has quanta 7, but its enable bit is 0",
            false,
        ),
        (
            |spec| {
                spec.parameters = FrameParameters::Pfc {
                    enable: 0,
                    quanta: [0; 8],
                };
            },
            "the class-enable vector is 0",
            true,
        ),
        (
            |spec| spec.padding = 0xee,
            "number of padding bytes that are not zero is 26",
            false,
        ),
        (
            |spec| spec.frame_len = 64,
            "length 64 bytes without FCS, expected 60",
            false,
        ),
        (
            |spec| spec.frame_len = 34,
            "length 34 bytes without FCS, expected 60",
            false,
        ),
    ] {
        assert_eq!(deviations(change), (vec![text.to_owned()], is_ignored));
    }
    let (texts, is_ignored) = deviations(|spec| spec.frame_len = 20);
    assert_eq!(texts[0], "length 20 bytes, the parameters need 34");
    assert!(is_ignored);
    let raw = |spec: &mut ControlFrameSpec| spec.parameters = FrameParameters::Bytes(vec![0, 8, 0xab]);
    assert_eq!(
        deviations(raw).0,
        ["class 0 has quanta 43776, but its enable bit is 0"]
    );
}

#[test]
fn tagged_frames_are_decoded_and_have_no_effect() {
    let tagged = deviations(|spec| {
        spec.tag = Some(VlanTag::dot1q(3, 5));
        spec.frame_len = 64;
    });
    let texts = [
        "VLAN tag with PCP 3, VID 5",
        "length 64 bytes without FCS, expected 60",
    ];
    assert_eq!(tagged, (texts.map(str::to_owned).to_vec(), true));
    // The kernel has removed the tag.
    let decoded = DecodedFrame::decode(&spec().to_bytes(), Some([0x81, 0, 0x60, 5]), OWN);
    let decoded = decoded.expect("a MAC control frame");
    assert_eq!(decoded.deviations[0], Deviation::VlanTag { pcp: 3, vid: 5 });
    assert_eq!((decoded.effect, decoded.frame_len), (None, 64));
}

#[test]
fn other_frames_are_not_decoded() {
    let mut other = spec();
    other.ethertype = 0x0800;
    assert_eq!(DecodedFrame::decode(&other.to_bytes(), None, OWN), None);
    assert_eq!(DecodedFrame::decode(&[], None, OWN), None);
}

#[test]
fn pause_to_the_own_address_has_an_effect() {
    let mut spec = ControlFrameSpec::pause(SOURCE, 5);
    spec.destination = OWN;
    assert_eq!(decode(&spec).effect, Some(MacControl::Pause { quanta: 5 }));
    spec.destination = SOURCE;
    assert_eq!(decode(&spec).effect, None);
}

#[test]
fn resume_clears_the_pause_times_of_the_same_classes() {
    let resumed = decode(&spec().resume());
    assert_eq!(resumed.effect, Some(class_3(0)));
    assert_eq!(
        ControlFrameSpec::pause(SOURCE, 5).resume().parameters,
        FrameParameters::Pause { quanta: 0 }
    );
}

/// Returns the events of a frame of class 3.
fn receive(tracker: &mut PauseTracker, time_ns: u64, quanta: u16) -> Vec<ScopeEvent> {
    let mut events = Vec::new();
    tracker.receive(time_ns, &class_3(quanta), &mut events);
    events
}

fn event(time_ns: u64, event: PauseEvent) -> ScopeEvent {
    ScopeEvent {
        time_ns,
        scope: PauseScope::Class(3),
        event,
    }
}

#[test]
fn pauses_are_refreshed_resumed_and_expire() {
    let mut tracker = PauseTracker::new(1_000);
    let paused = PauseEvent::Paused {
        quanta: 1_000,
        duration_ns: QUANTA_1000_NS,
        until_ns: 100 + QUANTA_1000_NS,
    };
    assert_eq!(receive(&mut tracker, 100, 1_000), [event(100, paused)]);
    // A shorter pause time replaces the rest of the first.
    let refreshed = PauseEvent::Refreshed {
        quanta: 1,
        duration_ns: 512,
        until_ns: 712,
        left_ns: QUANTA_1000_NS - 100,
    };
    assert_eq!(receive(&mut tracker, 200, 1), [event(200, refreshed)]);
    assert_eq!(tracker.next_expiry_ns(), Some(712));
    let mut events = Vec::new();
    tracker.advance(711, &mut events);
    assert_eq!(events, []);
    tracker.advance(712, &mut events);
    assert_eq!(events, [event(712, PauseEvent::Expired { paused_ns: 612 })]);
    assert_eq!(
        (tracker.pause(PauseScope::Class(3)), tracker.next_expiry_ns()),
        (None, None)
    );

    receive(&mut tracker, 1_000, 1_000);
    let resumed = PauseEvent::Resumed {
        paused_ns: 50,
        left_ns: QUANTA_1000_NS - 50,
    };
    assert_eq!(receive(&mut tracker, 1_050, 0), [event(1_050, resumed)]);
    assert_eq!(
        receive(&mut tracker, 1_060, 0),
        [event(1_060, PauseEvent::AlreadyResumed)]
    );
    assert_eq!(tracker.paused_ns(PauseScope::Class(3), 9_999), 612 + 50);
}

#[test]
fn expiry_precedes_a_later_frame() {
    let mut tracker = PauseTracker::new(1_000);
    receive(&mut tracker, 0, 1);
    let events = receive(&mut tracker, 600, 1);
    assert_eq!(events[0], event(512, PauseEvent::Expired { paused_ns: 512 }));
    assert!(
        matches!(events[1].event, PauseEvent::Paused { until_ns: 1_112, .. }),
        "{events:?}"
    );
}

#[test]
fn pause_duration_depends_on_the_speed() {
    for (speed_mbps, quanta, duration_ns) in [
        (1_000, 65_535, 33_553_920),
        (10_000, 65_535, 3_355_392),
        (400_000, 1, 1),
        (0, 1, 512_000),
    ] {
        assert_eq!(
            PauseTracker::new(speed_mbps).pause_duration_ns(quanta),
            duration_ns
        );
    }
}

#[test]
fn classes_and_pause_are_independent() {
    let mut tracker = PauseTracker::new(1_000);
    let mut events = Vec::new();
    let both = MacControl::Pfc(pfc(0b1_1001, [10, 0, 0, 20, 0, 0, 0, 99]));
    tracker.receive(0, &both, &mut events);
    tracker.receive(0, &MacControl::Pause { quanta: 5 }, &mut events);
    let scopes: Vec<PauseScope> = events.iter().map(|event| event.scope).collect();
    let classes = [0, 3, 4].map(PauseScope::Class);
    assert_eq!(scopes, [&classes[..], &[PauseScope::Port]].concat());
    assert_eq!(events[2].event, PauseEvent::AlreadyResumed);
    assert_eq!(tracker.pause(PauseScope::Class(7)), None);
    events.clear();
    tracker.advance(u64::MAX, &mut events);
    let scopes: Vec<PauseScope> = events.iter().map(|event| event.scope).collect();
    assert_eq!(
        scopes,
        [PauseScope::Port, PauseScope::Class(0), PauseScope::Class(3)]
    );
}

#[test]
fn watcher_counts_frames_and_pauses() {
    let mut watcher = Watcher::new(1_000, OWN, 1_000);
    let frame = |quanta| ControlFrameSpec::pfc(SOURCE, pfc(8, [0, 0, 0, quanta, 0, 0, 0, 0])).to_bytes();
    assert_eq!(
        watcher.receive(900, &frame(1), None).len(),
        1,
        "a time before the start"
    );
    let events = watcher.receive(2_000, &frame(1_000), None);
    assert!(matches!(events[0], WatchedEvent::Expired(_)), "{events:?}");
    watcher.receive(3_000, &frame(1_000), None);
    watcher.receive(4_000, &frame(0), None);
    watcher.receive(5_000, &frame(1_000), None);
    let mut odd = spec();
    odd.opcode = 9;
    watcher.receive(6_000, &odd.to_bytes(), None);
    assert_eq!(watcher.receive(7_000, &[0; 60], None), []);
    assert_eq!(watcher.add_lost_frames(7_000, 0), None);
    let lost = WatchedEvent::Lost {
        time_ns: 6_000,
        frames: 2,
    };
    assert_eq!(watcher.add_lost_frames(7_000, 2), Some(lost));
    let summary = watcher.summary(8_000);
    let class = ScopeCounters {
        xoff_frames: 4,
        xon_frames: 1,
        pauses: 3,
        expired: 1,
        paused_ns: 512 + 2_000 + 3_000,
    };
    assert_eq!(summary.classes[3], class);
    assert!(summary.classes[2].is_zero() && summary.port.is_zero());
    let counts = (
        summary.frames,
        summary.ignored_frames,
        summary.deviating_frames,
        summary.lost_frames,
    );
    assert_eq!((counts, summary.duration_ns), ((6, 1, 1, 2), 7_000));
}

#[test]
fn schedule_sends_at_its_rate_and_catches_up() {
    let mut schedule = SendSchedule::new(1_000, 1_000_000.0, None, Some(10_000));
    assert_eq!((schedule.due_frames(999), schedule.due_frames(1_000)), (0, 1));
    schedule.add_sent(1);
    assert_eq!(
        (schedule.due_frames(1_999), schedule.next_due_ns()),
        (0, Some(2_000))
    );
    assert_eq!(schedule.due_frames(5_000), 4, "late frames are sent");
    schedule.add_sent(4);
    assert_eq!((schedule.sent(), schedule.next_due_ns()), (5, Some(6_000)));
    // Ten frames in 10 us, from the first one at the start.
    assert_eq!(schedule.due_frames(u64::MAX), 5);
    assert!(!schedule.has_ended(10_999) && schedule.has_ended(11_000));
    schedule.add_sent(5);
    assert_eq!((schedule.due_frames(u64::MAX), schedule.next_due_ns()), (0, None));
}

#[test]
fn schedule_ends_after_its_frames() {
    let mut schedule = SendSchedule::new(0, 10.0, Some(3), None);
    assert_eq!(schedule.due_frames(u64::MAX), 3);
    schedule.add_sent(2);
    assert_eq!(
        (schedule.next_due_ns(), schedule.has_ended(u64::MAX - 1)),
        (Some(200_000_000), false)
    );
    schedule.add_sent(1);
    assert_eq!((schedule.next_due_ns(), schedule.has_ended(0)), (None, true));
    assert_eq!(SendSchedule::new(5, 10.0, None, Some(0)).due_frames(9), 0);
}

proptest! {
    #[test]
    fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..80), tag: Option<[u8; 4]>) {
        let mut frame = bytes;
        if frame.len() >= 14 {
            frame[12..14].copy_from_slice(&[0x88, 0x08]);
        }
        let decoded = DecodedFrame::decode(&frame, tag, OWN);
        prop_assert_eq!(decoded.is_some(), frame.len() >= 14);
        let mut watcher = Watcher::new(0, OWN, 1_000);
        prop_assert_eq!(watcher.receive(u64::MAX, &frame, tag).len(), usize::from(decoded.is_some()));
        if let Some(decoded) = decoded {
            let is_ignored = decoded.deviations.iter().any(Deviation::is_ignored_frame);
            prop_assert!(is_ignored || decoded.effect.is_some() || decoded.destination == OWN);
        }
    }

    #[test]
    fn pauses_end_exactly_once(frames in prop::collection::vec((0_u64..2_000_000, any::<u8>(), 0_u16..3_000), 0..40)) {
        let mut tracker = PauseTracker::new(1_000);
        let (mut now_ns, mut events) = (0, Vec::new());
        for (gap_ns, enable, quanta) in frames {
            now_ns += gap_ns;
            let control = MacControl::Pfc(pfc(enable, [quanta, quanta, 0, quanta, quanta, 0, quanta, quanta]));
            tracker.receive(now_ns, &control, &mut events);
        }
        tracker.advance(u64::MAX, &mut events);
        prop_assert!(events.is_sorted_by_key(|event| event.time_ns));
        for class in 0..8 {
            let of_class = events.iter().filter(|event| event.scope == PauseScope::Class(class));
            let (mut is_paused, mut paused_ns, mut since_ns) = (false, 0, 0);
            for event in of_class {
                match event.event {
                    PauseEvent::Paused { .. } => {
                        prop_assert!(!is_paused);
                        (is_paused, since_ns) = (true, event.time_ns);
                    }
                    PauseEvent::Refreshed { .. } => prop_assert!(is_paused),
                    PauseEvent::Resumed { paused_ns: span_ns, .. } | PauseEvent::Expired { paused_ns: span_ns } => {
                        prop_assert!(is_paused);
                        prop_assert_eq!(event.time_ns - since_ns, span_ns);
                        (is_paused, paused_ns) = (false, paused_ns + span_ns);
                    }
                    PauseEvent::AlreadyResumed => prop_assert!(!is_paused),
                }
            }
            prop_assert!(!is_paused);
            prop_assert_eq!(tracker.paused_ns(PauseScope::Class(class), u64::MAX), paused_ns);
        }
    }
}

#[test]
fn opcode_of_a_cut_frame_is_absent() {
    let mut cut = spec();
    cut.frame_len = 15;
    let decoded = decode(&cut);
    assert_eq!((decoded.opcode, decoded.enable), (None, None));
    assert_eq!(decode(&spec()).opcode, Some(OPCODE_PFC));
}
