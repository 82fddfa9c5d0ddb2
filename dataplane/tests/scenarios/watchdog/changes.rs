//! New configurations and link changes during a storm.

use xoff_dataplane::config::{WatchdogAction, WatchdogRule};
use xoff_dataplane::{DropReason, ForwardingResult, PortId};

use super::{QUEUE, detected, ms, pause, restored, stats, storm, stormed, watched};
use crate::support::Harness;
use crate::support::frames::small;

fn set_action(config: &mut xoff_dataplane::config::SwitchConfig, action: WatchdogAction) {
    for port in &mut config.ports {
        port.watchdog.as_mut().unwrap().action = action;
    }
}

#[test]
fn a_storm_goes_on_under_another_action() {
    let mut config = watched(3, WatchdogAction::Alert);
    let mut harness = Harness::learnt(&config);
    harness.receive(1, &pause(3, 0xffff));
    harness.receive_many(10, 0, &small(0, 1, QUEUE));
    let end = stormed(&mut harness, ms(2_000));
    assert!(harness.sent(1).is_empty(), "alert: they wait");

    set_action(&mut config, WatchdogAction::Forward);
    harness.apply(&config);
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 10, "forward: they go");

    set_action(&mut config, WatchdogAction::Drop);
    harness.apply(&config);
    assert!(matches!(
        harness.receive(0, &small(0, 1, QUEUE)),
        ForwardingResult::Dropped(_)
    ));
    assert!(
        matches!(harness.receive(1, &small(1, 2, QUEUE)), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogIngress)
    );

    set_action(&mut config, WatchdogAction::Alert);
    harness.apply(&config);
    harness.receive(0, &small(0, 1, QUEUE));
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 10, "alert: it waits again");

    set_action(&mut config, WatchdogAction::Drop);
    harness.apply(&config);
    let during = stats(&harness, 1);
    assert_eq!((during.storms_detected, during.storms_restored), (1, 0));
    assert_eq!((during.last.tx_packets, during.last.tx_dropped_packets), (10, 2));
    harness.run();
    assert_eq!(restored(&harness, 1).len(), 1);
    let over = restored(&harness, 1)[0].since(end);
    assert!(over >= ms(400) && over < ms(600));
    harness.assert_empty();
}

#[test]
fn a_watchdog_that_is_removed_leaves_nothing_behind() {
    let config = watched(3, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    let end = stormed(&mut harness, ms(2_000));
    harness.receive(0, &small(0, 1, QUEUE));
    let mut without = config.clone();
    without.ports[1].watchdog = None;
    harness.apply(&without);
    assert_eq!(restored(&harness, 1), [harness.now()]);
    assert_eq!(harness.switch().watched_queues(PortId(1)), 0);
    harness.receive(0, &small(0, 1, QUEUE));
    harness.receive(1, &small(1, 2, QUEUE));
    assert_eq!(harness.data_sent(2).len(), 1, "its group takes frames again");
    assert!(harness.sent(1).is_empty(), "and the pause is obeyed");
    harness.run_until(end);
    assert_eq!(detected(&harness, 1).len(), 1, "nobody looks");
    // Watched again during a pause: the pause counts from now on, and the statistics are kept.
    storm(&mut harness, 1, 3, end, end + ms(1_000));
    harness.apply(&config);
    let since = harness.now();
    harness.run();
    let again = detected(&harness, 1)[1].since(since);
    assert!(again >= ms(400) && again < ms(600), "{again:?}");
    let total = stats(&harness, 1).total;
    assert_eq!(
        (total.tx_dropped_packets, total.rx_dropped_packets),
        (2, 0),
        "one in each storm: it came, it waited"
    );
    harness.assert_empty();
}

#[test]
fn one_queue_that_is_no_longer_watched_leaves_the_other_stormed() {
    let mut config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    let now = harness.now();
    storm(&mut harness, 1, 4, now, now + ms(1_500));
    stormed(&mut harness, ms(1_500));
    harness.run_for(ms(1));
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0b1_1000);
    config.ports[1].watchdog.as_mut().unwrap().queues = 1 << 4;
    harness.apply(&config);
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 1 << 4);
    assert_eq!(restored(&harness, 1).len(), 1);
    harness.run();
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
}

#[test]
fn other_times_hold_from_the_next_poll_on() {
    let mut config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    harness.receive(1, &pause(3, 0xffff));
    harness.receive(0, &small(0, 1, QUEUE));
    storm(&mut harness, 1, 3, ms(205), ms(3_000));
    harness.run_until(ms(250));
    for port in &mut config.ports {
        let watchdog = port.watchdog.as_mut().unwrap();
        (watchdog.detection, watchdog.restoration) = (ms(1_000), None);
    }
    harness.apply(&config);
    harness.run_until(ms(3_700));
    assert_eq!(
        detected(&harness, 1),
        [ms(1_400)],
        "the pause was on since 205 ms"
    );
    assert!(restored(&harness, 1).is_empty());
    // The restoration time is set later, when the peer has already been quiet for long.
    config.ports[1].watchdog.as_mut().unwrap().restoration = Some(ms(500));
    harness.apply(&config);
    harness.run();
    assert_eq!(restored(&harness, 1), [ms(3_800)]);
}

#[test]
fn another_poll_interval_begins_with_its_configuration() {
    let mut config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    harness.run_until(ms(150));
    harness.receive(0, &small(0, 1, QUEUE));
    storm(&mut harness, 1, 3, ms(150), ms(2_000));
    harness.run_until(ms(330));
    config.watchdog.poll = ms(300);
    config.watchdog.rule = WatchdogRule::Nvidia;
    harness.receive(0, &small(0, 1, QUEUE));
    harness.apply(&config);
    harness.run();
    assert_eq!(
        detected(&harness, 1),
        [ms(630)],
        "330 ms + 300 ms: 480 ms of pause"
    );
    assert_eq!(
        restored(&harness, 1),
        [ms(330 + 300 * 7)],
        "the last XOFF came at 1990 ms"
    );
}

#[test]
fn an_unchanged_configuration_disturbs_no_detection_and_loses_nothing() {
    let config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    storm(&mut harness, 1, 3, ms(150), ms(1_000));
    for n in 1..10 {
        harness.run_until(ms(77 * n));
        harness.apply(&config);
    }
    harness.run();
    assert_eq!(detected(&harness, 1), [ms(600)]);
    assert_eq!(restored(&harness, 1).len(), 1);
    assert_eq!(harness.counters(1).dropped_frames(), 0);
}

#[test]
fn other_maps_move_the_dropping_group() {
    let mut config = watched(3, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    stormed(&mut harness, ms(1_000));
    harness.receive(1, &small(1, 2, QUEUE));
    config.ports[1].pfc.priority_to_pg[3] = 4;
    harness.apply(&config);
    harness.receive(1, &small(1, 2, QUEUE));
    harness.receive(1, &small(1, 2, 4));
    assert_eq!(stats(&harness, 1).last.rx_dropped_packets, 2);
    assert_eq!(harness.data_sent(2).len(), 1);
    harness.run();
    assert_eq!(stats(&harness, 1).total.rx_dropped_packets, 2);
    harness.assert_empty();
}

#[test]
fn a_link_that_goes_down_ends_the_storm_and_a_flap_counts_none() {
    let mut harness = Harness::learnt(&watched(3, WatchdogAction::Drop));
    let end = stormed(&mut harness, ms(700));
    harness.set_link(1, false);
    assert_eq!(restored(&harness, 1), [harness.now()]);
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
    harness.run_until(end + ms(1)); // nothing is heard on a link that is down
    harness.set_link(1, true);
    harness.set_link(1, false);
    harness.set_link(1, true);
    harness.receive(1, &small(1, 2, 0)); // it is known again
    harness.receive(0, &small(0, 1, QUEUE));
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), 1, "nothing is masked or paused");
    harness.run();
    let after = stats(&harness, 1);
    assert_eq!((after.storms_detected, after.storms_restored), (1, 1));
}

#[test]
fn a_peer_that_is_still_at_it_after_the_flap_is_found_after_a_whole_detection_time() {
    let mut config = watched(2, WatchdogAction::Forward);
    config.ports[1].watchdog.as_mut().unwrap().restoration = None;
    let mut harness = Harness::learnt(&config);
    stormed(&mut harness, ms(2_000));
    harness.set_link(1, false);
    harness.run_for(ms(5));
    harness.set_link(1, true);
    let up = harness.now();
    harness.run();
    assert_eq!(detected(&harness, 1).len(), 2);
    let again = detected(&harness, 1)[1].since(up);
    assert!(again >= ms(400) && again < ms(616), "{again:?}");
    assert_eq!(stats(&harness, 1).storms_restored, 1);
    // Shutting down the port ends the storm in the same way.
    config.ports[1].admin_up = false;
    harness.apply(&config);
    assert_eq!(stats(&harness, 1).storms_restored, 2);
    harness.run();
    harness.assert_empty();
}

#[test]
fn pfc_that_is_switched_off_ends_the_storm_by_its_restoration_time() {
    let mut config = watched(2, WatchdogAction::Drop);
    let mut harness = Harness::learnt(&config);
    stormed(&mut harness, ms(5_000));
    config.ports.iter_mut().for_each(|port| port.pfc.enabled = 0);
    harness.apply(&config);
    let off = harness.now();
    harness.run_for(ms(700));
    assert_eq!(restored(&harness, 1).len(), 1);
    let after = restored(&harness, 1)[0].since(off);
    assert!(
        after < ms(600),
        "{after:?}: pauses that are not obeyed hold nothing"
    );
    harness.run();
    assert_eq!(detected(&harness, 1).len(), 1);
}
