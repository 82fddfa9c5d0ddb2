//! Storm statistics and the pause history.

use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::pfc::PauseHistory;
use xoff_dataplane::{Picos, PortId, StormCounters, WatchdogStatus};

use super::{STORM_QUEUE, ms, pause_frame, start_storm, storm_queue_stats, watched_config};
use crate::support::frames::shortest_udp_frame;
use crate::support::{Harness, config};

#[test]
fn statistics_separate_the_last_storm_from_all_storms() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(3, WatchdogAction::Drop));
    for (n, frames) in [3, 5].into_iter().enumerate() {
        let end = start_storm(&mut harness, ms(800));
        harness.receive_many(frames, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        harness.receive_many(frames * 10, 1, &shortest_udp_frame(1, 2, STORM_QUEUE));
        harness.run_until(end + ms(1_000));
        assert_eq!(storm_queue_stats(&harness, 1).storms_restored, n as u64 + 1);
        harness.receive_many(50, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        harness.run_for(ms(1));
    }
    let of = |n| StormCounters {
        tx_dropped_packets: n,
        rx_dropped_packets: n * 10,
        ..StormCounters::default()
    };
    assert_eq!(
        (
            storm_queue_stats(&harness, 1).total,
            storm_queue_stats(&harness, 1).last
        ),
        (of(8), of(5))
    );
    assert_eq!(storm_queue_stats(&harness, 0), Default::default());
}

#[test]
fn clearing_statistics_keeps_the_storm() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(2, WatchdogAction::Drop));
    start_storm(&mut harness, ms(1_000));
    harness.receive_many(5, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    harness.switch_mut().clear_watchdog_stats();
    harness.receive_many(2, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    let during = storm_queue_stats(&harness, 1);
    assert_eq!(during.status, WatchdogStatus::Stormed);
    assert_eq!((during.storms_detected, during.storms_restored), (1, 0));
    assert_eq!(
        (during.total.tx_dropped_packets, during.last.tx_dropped_packets),
        (2, 2)
    );
    harness.run();
    assert_eq!(storm_queue_stats(&harness, 1).storms_restored, 1);
    harness.switch_mut().clear_watchdog_stats();
    assert_eq!(storm_queue_stats(&harness, 1), Default::default());
}

#[test]
fn the_pause_history_is_kept_for_watched_and_unwatched_queues() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let quantum = Picos(512_000);
    let start = harness.now();
    harness.receive(1, &pause_frame(3, 100)); // runs out
    harness.run_for(ms(1));
    let second = harness.now();
    harness.receive(1, &pause_frame(3, 1_000));
    harness.run_for(Picos::from_micros(100));
    harness.receive(1, &pause_frame(3, 1_000)); // goes on
    harness.run_for(Picos::from_micros(100));
    let so_far = harness.switch().pause_history(harness.now(), PortId(1))[3];
    assert_eq!(so_far.recent_pause_ps, Picos::from_micros(200).0);
    harness.receive(1, &pause_frame(3, 0));
    harness.run_for(ms(9));
    let history = harness.switch().pause_history(harness.now(), PortId(1));
    let expected = PauseHistory {
        transitions: 2,
        total_pause_ps: 100 * quantum.0 + Picos::from_micros(200).0,
        recent_pause_at: Some(second),
        recent_pause_ps: Picos::from_micros(200).0,
    };
    assert!(second > start);
    assert_eq!(history[3], expected);
    assert_eq!(history[4], PauseHistory::default());
}
