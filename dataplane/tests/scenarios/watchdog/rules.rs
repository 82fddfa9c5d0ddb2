//! Storm rules: for empty queues by platform, and for queues with waiting frames.

use xoff_dataplane::config::{PauseModel, WatchdogAction, WatchdogRule};
use xoff_dataplane::{LinkTiming, Picos};

use super::{QUEUE, detected, ms, pause, restored, storm, watched};
use crate::support::Harness;
use crate::support::frames::small;

fn harness(rule: WatchdogRule) -> Harness {
    let mut config = watched(2, WatchdogAction::Drop);
    config.watchdog.rule = rule;
    Harness::learnt(&config)
}

/// Pauses of length `on` with gaps of `off`, `count` times.
fn flapping(harness: &mut Harness, on: Picos, off: Picos, count: u64) {
    for n in 0..count {
        let from = harness.now() + Picos((on + off).0 * n);
        let mut at = from;
        while at < from + on {
            harness.receive_at(at, 1, pause(3, 0xffff));
            at += ms(16);
        }
        harness.receive_at(from + on, 1, pause(3, 0));
    }
}

#[test]
fn an_empty_queue_that_is_held_all_the_time() {
    for (rule, found) in [
        (WatchdogRule::Broadcom, 1),
        (WatchdogRule::Nvidia, 0),
        (WatchdogRule::Vs, 1),
    ] {
        let mut harness = harness(rule);
        for phase in [0, 37, 101, 163, 199] {
            harness.run_for(ms(phase));
            let (now, before) = (harness.now(), detected(&harness, 1).len());
            storm(&mut harness, 1, 3, now, now + ms(900));
            harness.run_for(ms(1_800));
            let detected = detected(&harness, 1);
            assert_eq!(detected.len() - before, found, "{rule:?}");
            if let [.., at] = detected[..] {
                assert!(at.since(now) >= ms(400) && at.since(now) < ms(600), "{rule:?}");
            }
        }
        harness.run();
    }
}

#[test]
fn a_frame_that_comes_to_a_held_queue_is_seen_at_the_next_poll() {
    let mut harness = harness(WatchdogRule::Nvidia);
    storm(&mut harness, 1, 3, ms(100), ms(2_000));
    harness.run_until(ms(1_250));
    assert!(harness.told.is_empty());
    harness.receive(0, &small(0, 1, QUEUE));
    harness.run();
    assert_eq!(detected(&harness, 1), [ms(1_400)]);
    assert_eq!(restored(&harness, 1).len(), 1);
}

#[test]
fn an_empty_queue_that_is_held_most_of_the_time_is_stormed_by_the_virtual_switch_alone() {
    for (rule, on, found) in [
        (WatchdogRule::Vs, 180, true),
        (WatchdogRule::Vs, 150, false),
        (WatchdogRule::Broadcom, 180, false),
        (WatchdogRule::Nvidia, 180, false),
    ] {
        let mut harness = harness(rule);
        harness.run_until(ms(210));
        flapping(&mut harness, ms(on), ms(200 - on), 15);
        harness.run();
        assert_eq!(!detected(&harness, 1).is_empty(), found, "{rule:?} {on}");
        if let Some(at) = detected(&harness, 1).first() {
            assert!(
                at.since(ms(210)) >= ms(400) && at.since(ms(210)) < ms(600),
                "{at:?}"
            );
        }
    }
}

#[test]
fn frames_that_pass_between_pauses_are_progress() {
    let mut harness = harness(WatchdogRule::Vs);
    harness.run_until(ms(210));
    flapping(&mut harness, ms(180), ms(20), 15);
    for n in 0..15 {
        harness.receive_at(ms(210 + 190 + 200 * n), 0, small(0, 1, QUEUE));
    }
    harness.run();
    assert!(harness.told.is_empty());
    assert_eq!(harness.sent(1).len(), 15);
}

#[test]
fn a_pause_that_nobody_repeats_is_no_storm_of_an_empty_queue() {
    // At 10 Mb/s, one full pause lasts 3.36 s.
    let mut config = watched(2, WatchdogAction::Drop);
    config.ports[1].link = LinkTiming::ethernet(10);
    for waits in [false, true] {
        let mut harness = Harness::learnt(&config);
        harness.run_until(ms(300));
        harness.receive(1, &pause(3, 0xffff));
        if waits {
            harness.receive(0, &small(0, 1, QUEUE));
        }
        harness.run_until(ms(3_000));
        // A storm with waiting frames may be detected more than once, because restoration counts XOFF frames
        // only.
        assert_eq!(
            detected(&harness, 1).first().copied(),
            waits.then_some(ms(800)),
            "waits: {waits}"
        );
        harness.run();
    }
}

#[test]
fn a_pause_until_resumed_counts_as_one_that_is_repeated() {
    for rule in [WatchdogRule::Broadcom, WatchdogRule::Vs] {
        let mut config = watched(2, WatchdogAction::Drop);
        config.watchdog.rule = rule;
        config.ports[1].pfc.pauses = PauseModel::UntilResumed { frame_bytes: 43 };
        let mut harness = Harness::learnt(&config);
        harness.run_until(ms(300));
        harness.receive(1, &pause(3, 1));
        harness.run();
        assert_eq!(detected(&harness, 1), [ms(800)], "{rule:?}");
        assert!(harness.now() <= ms(1_000), "idle while it stands");
        harness.run_until(ms(5_000));
        assert!(restored(&harness, 1).is_empty());
        harness.receive(1, &pause(3, 0));
        harness.run();
        assert_eq!(restored(&harness, 1), [ms(5_400)], "{rule:?}");
    }
}

#[test]
fn with_asymmetric_pfc_lossy_queues_can_be_watched_too() {
    let mut config = watched(2, WatchdogAction::Drop);
    config.ports[1].pfc.asymmetric = true;
    config.ports[1].watchdog.as_mut().unwrap().queues = 1 << 1 | 1 << QUEUE;
    let mut harness = Harness::learnt(&config);
    harness.receive(1, &pause(1, 0xffff));
    harness.receive(0, &small(0, 1, 1));
    let now = harness.now();
    storm(&mut harness, 1, 1, now, now + ms(700));
    harness.run_for(ms(650));
    assert_eq!(harness.switch().stormed_queues(xoff_dataplane::PortId(1)), 1 << 1);
    harness.run();
    harness.assert_empty();
}
