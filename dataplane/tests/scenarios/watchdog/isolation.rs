//! Isolation: a storm affects only flows that share its queue or its priority group.

use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::{DropReason, Picos};
use xoff_wire::Ecn;

use super::{STORM_QUEUE, detection_times, ms, schedule_pauses, storm_queue_stats, watched_config};
use crate::support::config::GIGABIT;
use crate::support::frames::udp_frame;
use crate::support::sender::{Flow, Sender};
use crate::support::{Harness, SentFrame};

/// 1000 bytes every 50 us: 17 % of a link.
const FRAME_INTERVAL: Picos = Picos::from_micros(50);

fn flow_between(from: u8, to: u8, class: u8, until: Picos) -> Flow {
    Flow::new(
        class,
        udp_frame(from, to, class, Ecn::NotEct, 1_000),
        FRAME_INTERVAL,
        until,
    )
}

/// Returns the arrivals of a flow within a time span.
fn arrival_times_of_flow(sent: &[SentFrame], from: u8, class: u8) -> Vec<Picos> {
    let is = |s: &&SentFrame| s.bytes[11] == from && s.bytes[15] >> 2 == class && s.pfc().is_none();
    sent.iter().filter(is).map(|s| s.start).collect()
}

/// Port 1 has a storm on priority 3. Port 0 sends to port 1, and to port 2 by the same and by another group.
/// Port 3 sends to port 2 in the class of the storm, and to port 1 in another class.
#[test]
fn a_storm_affects_only_flows_that_share_its_queue_or_ingress_group() {
    for action in [WatchdogAction::Drop, WatchdogAction::Forward] {
        let mut harness = Harness::with_learnt_addresses(&watched_config(4, action));
        let (start, until) = (harness.now(), harness.now() + ms(1_500));
        let zero = vec![
            flow_between(0, 1, STORM_QUEUE, until),
            flow_between(0, 2, STORM_QUEUE, until),
            flow_between(0, 2, 4, until),
        ];
        harness.connect_peer(0, Sender::new(GIGABIT, zero));
        let three = vec![
            flow_between(3, 2, STORM_QUEUE, until),
            flow_between(3, 1, 4, until),
        ];
        harness.connect_peer(3, Sender::new(GIGABIT, three));
        let end = schedule_pauses(&mut harness, 1, 3, start + ms(55), start + ms(855));
        harness.run_until(until);
        let found = detection_times(&harness, 1)[0];

        // Flows that share nothing lose no frame and wait no longer than for other frames.
        for (port, from, class) in [(2, 0, 4), (2, 3, STORM_QUEUE), (1, 3, 4)] {
            let times = arrival_times_of_flow(harness.sent(port), from, class);
            let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max();
            let limit = Picos(FRAME_INTERVAL.0 + Picos::from_micros(40).0);
            assert!(longest.unwrap() <= limit, "{from} {class}: {longest:?}");
            for tenth in 0..140 {
                let from = start + ms(5 + 10 * tenth);
                let count = times
                    .iter()
                    .filter(|at| **at >= from && at.since(from) < ms(10))
                    .count();
                assert!((198..=202).contains(&count), "{count} in 10 ms");
            }
        }
        // Flows that share the group waited for the queue and recover at once.
        let shared = arrival_times_of_flow(harness.sent(2), 0, STORM_QUEUE);
        let gap = shared
            .windows(2)
            .find(|pair| pair[1].since(pair[0]) > ms(20))
            .expect("it was held");
        assert!(
            gap[1].since(found) < ms(10) && gap[1] > found,
            "{found:?} {gap:?}"
        );
        let after = shared
            .iter()
            .filter(|at| at.since(found) >= ms(10) && at.since(found) < ms(110));
        assert_eq!(after.count(), 2_000, "at its rate");

        harness.run();
        harness.assert_empty();
        let lost = |port| harness.counters(port).dropped_frames();
        assert_eq!(lost(0) + lost(2) + lost(3), 0);
        let dropped = harness.drop_count(1, DropReason::WatchdogEgress);
        assert_eq!(lost(1), dropped);
        let flows = harness.peer(0).flows();
        let (to_stormed, arrived) = (
            u64::from(flows[0].sent),
            arrival_times_of_flow(harness.sent(1), 0, STORM_QUEUE).len(),
        );
        assert_eq!(to_stormed, dropped + arrived as u64);
        assert_eq!(flows[1].sent as usize, shared.len(), "held, not lost");
        let account = storm_queue_stats(&harness, 1);
        match action {
            WatchdogAction::Drop => {
                assert!(dropped > 3_000);
                assert_eq!(account.total.tx_dropped_packets, dropped);
            }
            _ => {
                assert_eq!(dropped, 0);
                assert!(account.total.tx_packets > 3_000);
            }
        }
        assert!(account.restored_at.unwrap() >= end + ms(400));
    }
}
