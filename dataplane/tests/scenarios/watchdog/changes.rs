//! New configurations and link changes during a storm.

use xoff_dataplane::config::{WatchdogAction, WatchdogRule};
use xoff_dataplane::{DropReason, ForwardingResult, PortId};

use super::{
    STORM_QUEUE, detection_times, ms, pause_frame, restore_times, schedule_pauses, start_storm,
    storm_queue_stats, watched_config,
};
use crate::support::Harness;
use crate::support::frames::shortest_udp_frame;

fn set_action(config: &mut xoff_dataplane::config::SwitchConfig, action: WatchdogAction) {
    for port in &mut config.ports {
        port.watchdog.as_mut().unwrap().action = action;
    }
}

#[test]
fn a_storm_continues_under_a_new_action() {
    let mut config = watched_config(3, WatchdogAction::Alert);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.receive_many(10, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    let end = start_storm(&mut harness, ms(2_000));
    assert!(harness.sent(1).is_empty(), "alert: they wait");

    set_action(&mut config, WatchdogAction::Forward);
    harness.apply(&config);
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 10, "forward: they go");

    set_action(&mut config, WatchdogAction::Drop);
    harness.apply(&config);
    assert!(matches!(
        harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE)),
        ForwardingResult::Dropped(_)
    ));
    assert!(
        matches!(harness.receive(1, &shortest_udp_frame(1, 2, STORM_QUEUE)), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogIngress)
    );

    set_action(&mut config, WatchdogAction::Alert);
    harness.apply(&config);
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 10, "alert: it waits again");

    set_action(&mut config, WatchdogAction::Drop);
    harness.apply(&config);
    let during = storm_queue_stats(&harness, 1);
    assert_eq!((during.storms_detected, during.storms_restored), (1, 0));
    assert_eq!((during.last.tx_packets, during.last.tx_dropped_packets), (10, 2));
    harness.run();
    assert_eq!(restore_times(&harness, 1).len(), 1);
    let over = restore_times(&harness, 1)[0].since(end);
    assert!(over >= ms(400) && over < ms(600));
    harness.assert_empty();
}

#[test]
fn removing_the_watchdog_ends_its_storms() {
    let config = watched_config(3, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    let end = start_storm(&mut harness, ms(2_000));
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    let mut without = config.clone();
    without.ports[1].watchdog = None;
    harness.apply(&without);
    assert_eq!(restore_times(&harness, 1), [harness.now()]);
    assert_eq!(harness.switch().watched_queues(PortId(1)), 0);
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.receive(1, &shortest_udp_frame(1, 2, STORM_QUEUE));
    assert_eq!(harness.data_sent(2).len(), 1, "its group takes frames again");
    assert!(harness.sent(1).is_empty(), "and the pause is obeyed");
    harness.run_until(end);
    assert_eq!(detection_times(&harness, 1).len(), 1, "nobody looks");
    // Watched again during a pause: the pause counts from now on, and the statistics are kept.
    schedule_pauses(&mut harness, 1, 3, end, end + ms(1_000));
    harness.apply(&config);
    let since = harness.now();
    harness.run();
    let again = detection_times(&harness, 1)[1].since(since);
    assert!(again >= ms(400) && again < ms(600), "{again:?}");
    let total = storm_queue_stats(&harness, 1).total;
    assert_eq!(
        (total.tx_dropped_packets, total.rx_dropped_packets),
        (2, 0),
        "one in each storm: it came, it waited"
    );
    harness.assert_empty();
}

#[test]
fn unwatching_one_queue_keeps_the_storm_of_the_other() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    let now = harness.now();
    schedule_pauses(&mut harness, 1, 4, now, now + ms(1_500));
    start_storm(&mut harness, ms(1_500));
    harness.run_for(ms(1));
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0b1_1000);
    config.ports[1].watchdog.as_mut().unwrap().queues = 1 << 4;
    harness.apply(&config);
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 1 << 4);
    assert_eq!(restore_times(&harness, 1).len(), 1);
    harness.run();
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
}

#[test]
fn new_watchdog_times_apply_from_the_next_poll() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    schedule_pauses(&mut harness, 1, 3, ms(205), ms(3_000));
    harness.run_until(ms(250));
    for port in &mut config.ports {
        let watchdog = port.watchdog.as_mut().unwrap();
        (watchdog.detection, watchdog.restoration) = (ms(1_000), None);
    }
    harness.apply(&config);
    harness.run_until(ms(3_700));
    assert_eq!(
        detection_times(&harness, 1),
        [ms(1_400)],
        "the pause was on since 205 ms"
    );
    assert!(restore_times(&harness, 1).is_empty());
    // The restoration time is set later, when the peer has already been quiet for long.
    config.ports[1].watchdog.as_mut().unwrap().restoration = Some(ms(500));
    harness.apply(&config);
    harness.run();
    assert_eq!(restore_times(&harness, 1), [ms(3_800)]);
}

#[test]
fn a_new_poll_interval_starts_with_its_configuration() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.run_until(ms(150));
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    schedule_pauses(&mut harness, 1, 3, ms(150), ms(2_000));
    harness.run_until(ms(330));
    config.watchdog.poll = ms(300);
    config.watchdog.rule = WatchdogRule::Nvidia;
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.apply(&config);
    harness.run();
    assert_eq!(
        detection_times(&harness, 1),
        [ms(630)],
        "330 ms + 300 ms: 480 ms of pause"
    );
    assert_eq!(
        restore_times(&harness, 1),
        [ms(330 + 300 * 7)],
        "the last XOFF came at 1990 ms"
    );
}

#[test]
fn an_unchanged_configuration_keeps_detection_progress_and_statistics() {
    let config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    schedule_pauses(&mut harness, 1, 3, ms(150), ms(1_000));
    for n in 1..10 {
        harness.run_until(ms(77 * n));
        harness.apply(&config);
    }
    harness.run();
    assert_eq!(detection_times(&harness, 1), [ms(600)]);
    assert_eq!(restore_times(&harness, 1).len(), 1);
    assert_eq!(harness.counters(1).dropped_frames(), 0);
}

#[test]
fn a_map_change_moves_the_dropping_group() {
    let mut config = watched_config(3, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(1_000));
    harness.receive(1, &shortest_udp_frame(1, 2, STORM_QUEUE));
    config.ports[1].pfc.priority_to_pg[3] = 4;
    harness.apply(&config);
    harness.receive(1, &shortest_udp_frame(1, 2, STORM_QUEUE));
    harness.receive(1, &shortest_udp_frame(1, 2, 4));
    assert_eq!(storm_queue_stats(&harness, 1).last.rx_dropped_packets, 2);
    assert_eq!(harness.data_sent(2).len(), 1);
    harness.run();
    assert_eq!(storm_queue_stats(&harness, 1).total.rx_dropped_packets, 2);
    harness.assert_empty();
}

#[test]
fn a_link_failure_ends_the_storm_without_counting_a_restore() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(3, WatchdogAction::Drop));
    let end = start_storm(&mut harness, ms(700));
    harness.set_link(1, false);
    assert_eq!(restore_times(&harness, 1), [harness.now()]);
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
    harness.run_until(end + ms(1)); // nothing is heard on a link that is down
    harness.set_link(1, true);
    harness.set_link(1, false);
    harness.set_link(1, true);
    harness.receive(1, &shortest_udp_frame(1, 2, 0)); // it is known again
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 1, "nothing is masked or paused");
    harness.run();
    let after = storm_queue_stats(&harness, 1);
    assert_eq!((after.storms_detected, after.storms_restored), (1, 1));
}

#[test]
fn a_storm_after_a_link_flap_needs_a_full_detection_time() {
    let mut config = watched_config(2, WatchdogAction::Forward);
    config.ports[1].watchdog.as_mut().unwrap().restoration = None;
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(2_000));
    harness.set_link(1, false);
    harness.run_for(ms(5));
    harness.set_link(1, true);
    let up = harness.now();
    harness.run();
    assert_eq!(detection_times(&harness, 1).len(), 2);
    let again = detection_times(&harness, 1)[1].since(up);
    assert!(again >= ms(400) && again < ms(616), "{again:?}");
    assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 1);
    // Shutting down the port ends the storm in the same way.
    config.ports[1].admin_up = false;
    harness.apply(&config);
    assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 2);
    harness.run();
    harness.assert_empty();
}

#[test]
fn disabling_pfc_ends_the_storm_after_its_restoration_time() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(5_000));
    config.ports.iter_mut().for_each(|port| port.pfc.enabled = 0);
    harness.apply(&config);
    let off = harness.now();
    harness.run_for(ms(700));
    assert_eq!(restore_times(&harness, 1).len(), 1);
    let after = restore_times(&harness, 1)[0].since(off);
    assert!(
        after < ms(600),
        "{after:?}: pauses that are not obeyed hold nothing"
    );
    harness.run();
    assert_eq!(detection_times(&harness, 1).len(), 1);
}
