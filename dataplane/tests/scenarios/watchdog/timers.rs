//! Times of storm detection and restoration, and cases without a storm.

use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::{LinkTiming, Picos, PortId};

use super::{
    STORM_QUEUE, detection_times, ms, pause_frame, restore_times, schedule_pauses, start_storm,
    storm_queue_of, storm_queue_stats, watched_config, watched_config_with_times,
};
use crate::support::Harness;
use crate::support::frames::shortest_udp_frame;

/// Returns reproducible storm phases below 400 ms, from a multiplicative generator (Lehmer).
fn storm_start_phases() -> impl Iterator<Item = Picos> {
    let step = |seed: &u64| Some(seed * 48_271 % 2_147_483_647);
    let seeds = core::iter::successors(Some(2_025), step);
    seeds.skip(3).map(|seed| Picos(seed * 186_264))
}

#[test]
fn storms_are_detected_and_restored_within_their_time_and_one_poll() {
    for (time, poll) in [(400, 200), (300, 200), (500, 400), (200, 200)] {
        for action in [WatchdogAction::Drop, WatchdogAction::Forward] {
            let (time, poll) = (ms(time), ms(poll));
            let mut harness =
                Harness::with_learnt_addresses(&watched_config_with_times(2, action, time, poll));
            let (mut detection, mut restoration) = (Vec::new(), Vec::new());
            for (n, phase) in storm_start_phases().take(19).enumerate() {
                harness.run_for(phase);
                let start = harness.now();
                // This frame waits because the queue is paused.
                harness.receive_at(start, 0, shortest_udp_frame(0, 1, STORM_QUEUE));
                let end = schedule_pauses(&mut harness, 1, 3, start, start + time + poll + ms(100));
                harness.run_until(end + time + poll + poll);
                assert_eq!(detection_times(&harness, 1).len(), n + 1);
                detection.push(detection_times(&harness, 1)[n].since(start));
                restoration.push(restore_times(&harness, 1)[n].since(end));
            }
            for mut samples in [detection, restoration] {
                samples.sort_unstable();
                assert!(
                    samples[0] >= time && samples[18] < time + poll,
                    "{time:?} {poll:?}: {samples:?}"
                );
                assert!(time < samples[9] && samples[9] < time + poll, "{samples:?}");
            }
            harness.run();
            assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 19);
        }
    }
}

#[test]
fn a_pause_that_starts_at_a_poll_is_detected_after_exactly_the_detection_time() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    harness.run_until(ms(600));
    schedule_pauses(&mut harness, 1, 3, ms(600), ms(1_200));
    harness.run_until(ms(3_000));
    assert_eq!(detection_times(&harness, 1), [ms(1_000)]);
    assert_eq!(
        restore_times(&harness, 1),
        [ms(1_600)],
        "the last XOFF came at 1192 ms"
    );
}

#[test]
fn pauses_shorter_than_the_detection_time_are_no_storm() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    for burst in 0..15 {
        // Half a poll interval, and half the detection time.
        let span = [ms(100), ms(200)][burst % 2];
        let from = harness.now();
        harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        schedule_pauses(&mut harness, 1, 3, from, from + span);
        harness.run_for(ms(200 + 400 + 400 + 100));
    }
    harness.run();
    assert!(harness.switch_events.is_empty());
    assert_eq!(harness.sent(1).len(), 15);
}

#[test]
fn a_pause_with_a_gap_restarts_the_detection_time() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    for n in 0..100 {
        let at = harness.now() + Picos::from_micros(34_000 * n); // 0.45 ms are open
        harness.receive_at(at, 1, pause_frame(3, 0xffff));
        harness.receive_at(at, 0, shortest_udp_frame(0, 1, STORM_QUEUE));
    }
    harness.run();
    assert!(harness.switch_events.is_empty());
    assert_eq!(harness.sent(1).len(), 100, "congestion that makes progress");
}

#[test]
fn a_pause_that_expires_as_the_next_arrives_is_over() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    let full = LinkTiming::ethernet(1_000).pause_duration(0xffff);
    let mut at = harness.now();
    for _ in 0..60 {
        harness.receive_at(at, 1, pause_frame(3, 0xffff));
        at += full;
    }
    harness.run();
    assert!(harness.switch_events.is_empty());
}

#[test]
fn xon_and_empty_enable_vectors_are_no_storm() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    let empty = {
        let mut frame = pause_frame(3, 0xffff);
        frame[17] = 0;
        frame
    };
    for n in 0..1_000 {
        let at = harness.now() + ms(n);
        harness.receive_at(at, 1, pause_frame(3, 0));
        harness.receive_at(at, 1, pause_frame(4, 0));
        harness.receive_at(at, 1, empty.clone());
    }
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.run();
    assert!(harness.switch_events.is_empty());
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.counters(1).dropped_frames(), 0);
}

#[test]
fn storms_of_two_ports_and_two_queues_are_detected_separately() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(4, WatchdogAction::Drop));
    let now = harness.now();
    for (port, priority) in [(1, 3), (2, 4), (3, 3)] {
        schedule_pauses(&mut harness, port, priority, now, now + ms(900));
    }
    harness.run_for(ms(800));
    let stormed: Vec<u8> = (0..4)
        .map(|port| harness.switch().stormed_queues(PortId(port)))
        .collect();
    assert_eq!(stormed, [0, 1 << 3, 1 << 4, 1 << 3]);
    harness.run();
    assert!((0..4).all(|port| harness.switch().stormed_queues(PortId(port)) == 0));
}

#[test]
fn without_a_restoration_time_a_storm_stays_and_no_event_remains() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    for port in &mut config.ports {
        port.watchdog.as_mut().unwrap().restoration = None;
    }
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(2_000));
    harness.run(); // comes to an end: no deadline is out
    assert!(
        harness.now() < ms(4_000),
        "{:?}: nobody asked to be called",
        harness.now()
    );
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 1 << STORM_QUEUE);
    assert!(restore_times(&harness, 1).is_empty());
}

#[test]
fn an_idle_switch_needs_no_poll() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    harness.run();
    let idle_since = harness.now();
    harness.receive(1, &pause_frame(3, 100));
    harness.run();
    assert!(harness.now().since(idle_since) <= ms(200), "one poll, then none");
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.run();
    assert_eq!(harness.sent(1).len(), 1);
}

#[test]
fn the_rest_of_a_pause_is_honoured_after_the_storm() {
    // At 100 Mb/s, a full pause lasts 335 ms.
    let mut config = watched_config_with_times(2, WatchdogAction::Forward, ms(200), ms(100));
    config.ports[1].link = LinkTiming::ethernet(100);
    config.ports[1].watchdog.as_mut().unwrap().restoration = Some(ms(100));
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.run_until(ms(100));
    schedule_pauses(&mut harness, 1, 3, ms(100), ms(500)); // the last one at 500 ms, until 835.5 ms
    harness.run_until(ms(605));
    assert_eq!(
        (detection_times(&harness, 1), restore_times(&harness, 1)),
        (vec![ms(300)], vec![ms(600)])
    );
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    assert!(harness.sent(1).is_empty(), "paused again");
    harness.run();
    // The pause counts from the restoration on. After 200 ms, the queue ignores the rest of it.
    assert_eq!(detection_times(&harness, 1), [ms(300), ms(800)]);
    assert_eq!(harness.sent(1)[0].start, ms(800));
    assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 2);
    assert_eq!(
        harness.switch().watchdog_stats(storm_queue_of(0)).unwrap(),
        Default::default()
    );
}
