//! The big red switch: every watched queue drops its frames.

use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::{DropReason, ForwardingResult, PortId, SwitchEventKind, WatchdogStatus};

use super::{
    STORM_QUEUE, detection_times, ms, pause_frame, restore_times, schedule_pauses, start_storm,
    storm_queue_stats, watched_config,
};
use crate::support::Harness;
use crate::support::frames::shortest_udp_frame;

fn drop_reason(verdict: ForwardingResult) -> Option<DropReason> {
    match verdict {
        ForwardingResult::Dropped(drop) => Some(drop.reason),
        _ => None,
    }
}

#[test]
fn the_big_red_switch_makes_all_watched_queues_drop_under_any_action() {
    for action in [
        WatchdogAction::Drop,
        WatchdogAction::Forward,
        WatchdogAction::Alert,
    ] {
        let mut config = watched_config(3, action);
        config.ports[2].watchdog = None;
        let mut harness = Harness::with_learnt_addresses(&config);
        harness.receive(1, &pause_frame(3, 0xffff));
        harness.receive_many(7, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        config.watchdog.big_red_switch = true;
        harness.apply(&config);
        assert_eq!(
            storm_queue_stats(&harness, 1).total.tx_dropped_packets,
            7,
            "what waited"
        );
        assert_eq!(
            drop_reason(harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE))),
            Some(DropReason::WatchdogIngress)
        );
        assert_eq!(
            drop_reason(harness.receive(2, &shortest_udp_frame(2, 1, STORM_QUEUE))),
            Some(DropReason::WatchdogEgress)
        );
        assert_eq!(
            drop_reason(harness.receive(0, &shortest_udp_frame(0, 2, 4))),
            Some(DropReason::WatchdogIngress)
        );
        assert_eq!(
            drop_reason(harness.receive(2, &shortest_udp_frame(2, 1, 5))),
            None,
            "not watched"
        );
        let now = harness.now();
        schedule_pauses(&mut harness, 1, 3, now, now + ms(2_000));
        harness.run();
        assert_eq!(
            storm_queue_stats(&harness, 1).status,
            WatchdogStatus::BigRedSwitch
        );
        assert_eq!(
            storm_queue_stats(&harness, 1).storms_detected,
            0,
            "nothing is detected meanwhile"
        );

        config.watchdog.big_red_switch = false;
        harness.apply(&config);
        assert_eq!(storm_queue_stats(&harness, 1).status, WatchdogStatus::Operational);
        assert_eq!(
            drop_reason(harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE))),
            None
        );
        assert_eq!(storm_queue_stats(&harness, 1).total.tx_dropped_packets, 8);
        assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 0);
        let told: Vec<_> = harness.switch_events.iter().map(|event| event.kind).collect();
        let switched = |on| SwitchEventKind::BigRedSwitch { on };
        assert_eq!(told, [switched(true), switched(false)]);
        start_storm(&mut harness, ms(900));
        harness.run();
        assert_eq!(
            storm_queue_stats(&harness, 1).storms_restored,
            1,
            "detection goes on where it was"
        );
        harness.assert_empty();
    }
}

#[test]
fn the_big_red_switch_ends_storms_until_they_are_detected_again() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    let mut harness = Harness::with_learnt_addresses(&config);
    let end = start_storm(&mut harness, ms(3_000));
    config.watchdog.big_red_switch = true;
    harness.apply(&config);
    assert_eq!(restore_times(&harness, 1), [harness.now()]);
    harness.run_for(ms(1_000));
    config.watchdog.big_red_switch = false;
    harness.apply(&config);
    let off = harness.now();
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 0);
    // The peer still pauses. A storm is detected again after a full detection time.
    harness.run_until(end);
    let again = detection_times(&harness, 1)[1];
    assert!(
        again >= off + ms(400) && again < off + ms(600),
        "{off:?} {again:?}"
    );
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_switch_can_start_with_the_big_red_switch_enabled() {
    let mut config = watched_config(2, WatchdogAction::Alert);
    config.watchdog.big_red_switch = true;
    let mut harness = Harness::with_learnt_addresses(&config);
    assert_eq!(
        storm_queue_stats(&harness, 0).status,
        WatchdogStatus::BigRedSwitch
    );
    assert_eq!(
        drop_reason(harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE))),
        Some(DropReason::WatchdogIngress)
    );
    harness.set_link(1, false);
    harness.set_link(1, true);
    assert_eq!(
        storm_queue_stats(&harness, 1).status,
        WatchdogStatus::BigRedSwitch,
        "links change nothing"
    );
    assert!(harness.switch_events.is_empty(), "nothing has changed");
    harness.run();
}
