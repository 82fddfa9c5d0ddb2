//! Storm rules: for empty queues by platform, and for queues with waiting frames.

use xoff_dataplane::config::{PauseModel, WatchdogAction, WatchdogRule};
use xoff_dataplane::{LinkTiming, Picos};

use super::{STORM_QUEUE, detection_times, ms, pause_frame, restore_times, schedule_pauses, watched_config};
use crate::support::Harness;
use crate::support::frames::shortest_udp_frame;

fn harness_with_rule(rule: WatchdogRule) -> Harness {
    let mut config = watched_config(2, WatchdogAction::Drop);
    config.watchdog.rule = rule;
    Harness::with_learnt_addresses(&config)
}

/// Schedules `count` pauses of length `on` with gaps of `off`.
fn schedule_flapping_pauses(harness: &mut Harness, on: Picos, off: Picos, count: u64) {
    for n in 0..count {
        let from = harness.now() + Picos((on + off).0 * n);
        let mut at = from;
        while at < from + on {
            harness.receive_at(at, 1, pause_frame(3, 0xffff));
            at += ms(16);
        }
        harness.receive_at(from + on, 1, pause_frame(3, 0));
    }
}

#[test]
fn a_storm_of_a_permanently_paused_empty_queue_depends_on_the_rule() {
    for (rule, found) in [
        (WatchdogRule::Broadcom, 1),
        (WatchdogRule::Nvidia, 0),
        (WatchdogRule::Vs, 1),
    ] {
        let mut harness = harness_with_rule(rule);
        for phase in [0, 37, 101, 163, 199] {
            harness.run_for(ms(phase));
            let (now, before) = (harness.now(), detection_times(&harness, 1).len());
            schedule_pauses(&mut harness, 1, 3, now, now + ms(900));
            harness.run_for(ms(1_800));
            let detected = detection_times(&harness, 1);
            assert_eq!(detected.len() - before, found, "{rule:?}");
            if let [.., at] = detected[..] {
                assert!(at.since(now) >= ms(400) && at.since(now) < ms(600), "{rule:?}");
            }
        }
        harness.run();
    }
}

#[test]
fn a_frame_queued_during_a_pause_is_seen_at_the_next_poll() {
    let mut harness = harness_with_rule(WatchdogRule::Nvidia);
    schedule_pauses(&mut harness, 1, 3, ms(100), ms(2_000));
    harness.run_until(ms(1_250));
    assert!(harness.switch_events.is_empty());
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.run();
    assert_eq!(detection_times(&harness, 1), [ms(1_400)]);
    assert_eq!(restore_times(&harness, 1).len(), 1);
}

#[test]
fn a_mostly_paused_empty_queue_storms_only_under_the_virtual_switch_rule() {
    for (rule, on, found) in [
        (WatchdogRule::Vs, 180, true),
        (WatchdogRule::Vs, 150, false),
        (WatchdogRule::Broadcom, 180, false),
        (WatchdogRule::Nvidia, 180, false),
    ] {
        let mut harness = harness_with_rule(rule);
        harness.run_until(ms(210));
        schedule_flapping_pauses(&mut harness, ms(on), ms(200 - on), 15);
        harness.run();
        assert_eq!(!detection_times(&harness, 1).is_empty(), found, "{rule:?} {on}");
        if let Some(at) = detection_times(&harness, 1).first() {
            assert!(
                at.since(ms(210)) >= ms(400) && at.since(ms(210)) < ms(600),
                "{at:?}"
            );
        }
    }
}

#[test]
fn frames_sent_between_pauses_prevent_a_storm() {
    let mut harness = harness_with_rule(WatchdogRule::Vs);
    harness.run_until(ms(210));
    schedule_flapping_pauses(&mut harness, ms(180), ms(20), 15);
    for n in 0..15 {
        harness.receive_at(ms(210 + 190 + 200 * n), 0, shortest_udp_frame(0, 1, STORM_QUEUE));
    }
    harness.run();
    assert!(harness.switch_events.is_empty());
    assert_eq!(harness.sent(1).len(), 15);
}

#[test]
fn a_single_pause_is_no_storm_of_an_empty_queue() {
    // At 10 Mb/s, one full pause lasts 3.36 s.
    let mut config = watched_config(2, WatchdogAction::Drop);
    config.ports[1].link = LinkTiming::ethernet(10);
    for waits in [false, true] {
        let mut harness = Harness::with_learnt_addresses(&config);
        harness.run_until(ms(300));
        harness.receive(1, &pause_frame(3, 0xffff));
        if waits {
            harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        }
        harness.run_until(ms(3_000));
        // A storm with waiting frames may be detected more than once, because restoration counts XOFF frames
        // only.
        assert_eq!(
            detection_times(&harness, 1).first().copied(),
            waits.then_some(ms(800)),
            "waits: {waits}"
        );
        harness.run();
    }
}

#[test]
fn a_pause_until_resume_counts_as_a_repeated_pause() {
    for rule in [WatchdogRule::Broadcom, WatchdogRule::Vs] {
        let mut config = watched_config(2, WatchdogAction::Drop);
        config.watchdog.rule = rule;
        config.ports[1].pfc.pauses = PauseModel::UntilResumed { frame_bytes: 43 };
        let mut harness = Harness::with_learnt_addresses(&config);
        harness.run_until(ms(300));
        harness.receive(1, &pause_frame(3, 1));
        harness.run();
        assert_eq!(detection_times(&harness, 1), [ms(800)], "{rule:?}");
        assert!(harness.now() <= ms(1_000), "idle while it stands");
        harness.run_until(ms(5_000));
        assert!(restore_times(&harness, 1).is_empty());
        harness.receive(1, &pause_frame(3, 0));
        harness.run();
        assert_eq!(restore_times(&harness, 1), [ms(5_400)], "{rule:?}");
    }
}

#[test]
fn lossy_queues_can_be_watched_with_asymmetric_pfc() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    config.ports[1].pfc.asymmetric = true;
    config.ports[1].watchdog.as_mut().unwrap().queues = 1 << 1 | 1 << STORM_QUEUE;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive(1, &pause_frame(1, 0xffff));
    harness.receive(0, &shortest_udp_frame(0, 1, 1));
    let now = harness.now();
    schedule_pauses(&mut harness, 1, 1, now, now + ms(700));
    harness.run_for(ms(650));
    assert_eq!(harness.switch().stormed_queues(xoff_dataplane::PortId(1)), 1 << 1);
    harness.run();
    harness.assert_empty();
}
