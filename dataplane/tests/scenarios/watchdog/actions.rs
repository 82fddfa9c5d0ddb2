//! Watchdog actions, to the frame.

use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, TrimDscp, TrimQueue, TrimmingConfig, WatchdogAction,
};
use xoff_dataplane::{
    DropReason, ForwardingResult, FrameStore, Picos, PortId, StormCounters, SwitchEventKind, WatchdogStatus,
};
use xoff_wire::{Ecn, Pfc};

use super::{QUEUE, detected, ms, pause, queue, restored, stats, storm, stormed, watched};
use crate::support::config::ROUTER;
use crate::support::frames::{ethernet, mac, small, udp};
use crate::support::packets::{arp, frame, refresh_checksum, to_router, udp4};
use crate::support::{Harness, config};

const WAITING: usize = 10;
const OTHERS: u8 = 4;

/// Frames wait for the queue that the peer of port 1 pauses, until a storm is detected. Returns the time of
/// the last XOFF.
fn with_waiting(action: WatchdogAction, span: Picos) -> (Harness, Picos) {
    let mut harness = Harness::learnt(&watched(3, action));
    harness.receive(1, &pause(3, 0xffff));
    harness.receive_many(WAITING, 0, &small(0, 1, QUEUE));
    assert!(harness.sent(1).is_empty());
    let end = stormed(&mut harness, span);
    (harness, end)
}

/// 100 frames each: for the queue, for its group, and both for the other lossless class.
fn cross_traffic(harness: &mut Harness) {
    for _ in 0..100 {
        harness.receive(0, &small(0, 1, QUEUE));
        harness.receive(1, &small(1, 2, QUEUE));
        harness.receive(0, &small(0, 1, OTHERS));
        harness.receive(1, &small(1, 2, OTHERS));
        harness.run_for(Picos::from_micros(10));
    }
}

#[test]
fn drop_drops_what_waits_what_comes_and_what_is_received_in_the_group() {
    let (mut harness, end) = with_waiting(WatchdogAction::Drop, ms(1_000));
    assert_eq!(
        harness.switch().queued_frames(),
        0,
        "what waited is gone at the detection"
    );
    assert_eq!(harness.drops(1, DropReason::WatchdogEgress), WAITING as u64);
    let before = harness.counters(1).rx_packets;
    cross_traffic(&mut harness);
    let counters = harness.counters(1);
    let of = |reason: DropReason| counters.drops[reason as usize];
    assert_eq!(
        of(DropReason::WatchdogEgress)[usize::from(QUEUE)],
        100 + WAITING as u64
    );
    assert_eq!(of(DropReason::WatchdogIngress)[usize::from(QUEUE)], 100);
    assert_eq!(
        counters.dropped_frames(),
        200 + WAITING as u64,
        "and nothing else"
    );
    assert_eq!(counters.rx_packets - before, 200);
    assert_eq!(counters.queues[3].watchdog_dropped_packets, 100 + WAITING as u64);
    assert_eq!(counters.pgs[3].watchdog_dropped_packets, 100);
    // SAI's counters include these drops.
    assert_eq!(counters.queues[3].dropped_packets, 100 + WAITING as u64);
    assert_eq!(counters.pgs[3].dropped_packets, 100);
    assert_eq!(
        (harness.sent(1).len(), harness.data_sent(2).len()),
        (100, 100),
        "class 4"
    );
    let storm = StormCounters {
        tx_dropped_packets: 100 + WAITING as u64,
        rx_dropped_packets: 100,
        ..StormCounters::default()
    };
    let during = stats(&harness, 1);
    assert_eq!(
        (during.total, during.last, during.status),
        (storm, storm, WatchdogStatus::Stormed)
    );
    assert_eq!((during.storms_detected, during.storms_restored), (1, 0));
    assert_eq!(during.detected_at, detected(&harness, 1).first().copied());

    harness.run_until(end + ms(600));
    assert_eq!(restored(&harness, 1).len(), 1);
    harness.clear_sent();
    cross_traffic(&mut harness);
    assert_eq!((harness.sent(1).len(), harness.data_sent(2).len()), (200, 200));
    let after = stats(&harness, 1);
    assert_eq!(
        (after.total, after.status),
        (storm, WatchdogStatus::Operational),
        "storms only"
    );
    assert_eq!(after.restored_at, restored(&harness, 1).first().copied());
    harness.run();
    harness.assert_empty();
}

#[test]
fn forward_lets_go_what_waits_and_obeys_again_afterwards() {
    let (mut harness, end) = with_waiting(WatchdogAction::Forward, ms(1_000));
    let found = harness.now();
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), WAITING);
    assert!(harness.sent(1)[0].start <= found);
    cross_traffic(&mut harness);
    assert_eq!(harness.sent(1).len(), WAITING + 200);
    assert_eq!(harness.data_sent(2).len(), 200);
    assert_eq!(
        (0..3).map(|p| harness.counters(p).dropped_frames()).sum::<u64>(),
        0
    );
    let storm = StormCounters {
        tx_packets: 100 + WAITING as u64,
        rx_packets: 100,
        ..StormCounters::default()
    };
    assert_eq!(stats(&harness, 1).last, storm);
    harness.run_until(end + ms(600));
    assert_eq!(restored(&harness, 1).len(), 1);
    harness.clear_sent();
    harness.receive(1, &pause(3, 100));
    harness.receive(0, &small(0, 1, QUEUE));
    assert!(harness.sent(1).is_empty());
    harness.run();
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(stats(&harness, 1).total, storm, "not during a storm");
}

#[test]
fn alert_tells_and_ends_with_its_condition() {
    let (mut harness, _) = with_waiting(WatchdogAction::Alert, ms(1_000));
    let found = harness.now();
    cross_traffic(&mut harness);
    assert_eq!(
        harness.sent(1).len(),
        100,
        "class 4; the queue is as paused as before"
    );
    assert_eq!(harness.data_sent(2).len(), 200);
    let SwitchEventKind::StormDetected { action, paused, .. } = harness.told[0].kind else {
        panic!("{:?}", harness.told);
    };
    assert_eq!(action, WatchdogAction::Alert);
    assert!(paused >= ms(400) && paused < ms(600));
    harness.receive(1, &pause(3, 0));
    harness.run_for(ms(1));
    harness.receive(1, &pause(3, 0xffff));
    harness.run_for(ms(200));
    // A new pause has begun only recently.
    assert_eq!(restored(&harness, 1).len(), 1);
    assert!(restored(&harness, 1)[0].since(found) <= ms(200));
    assert_eq!(harness.sent(1).len(), 200 + WAITING, "nothing lost, nothing kept");
    assert_eq!(stats(&harness, 1).total.tx_dropped_packets, 0);
}

#[test]
fn alert_without_a_restoration_time_ends_with_its_condition_too() {
    let mut config = watched(2, WatchdogAction::Alert);
    config.ports[1].watchdog.as_mut().unwrap().restoration = None;
    let mut harness = Harness::learnt(&config);
    stormed(&mut harness, ms(1_000));
    harness.run();
    assert_eq!(restored(&harness, 1).len(), 1);
}

#[test]
fn copies_of_floods_and_frames_for_any_member_are_dropped_at_the_queue() {
    let (mut harness, _) = with_waiting(WatchdogAction::Drop, ms(1_000));
    let mut flooded = small(0, 1, QUEUE);
    flooded[..6].copy_from_slice(&[0xff; 6]);
    assert_eq!(
        harness.receive(0, &flooded),
        ForwardingResult::Forwarded { copies: 1 }
    );
    assert_eq!(stats(&harness, 1).total.tx_dropped_packets, WAITING as u64 + 1);
    flooded[6..12].copy_from_slice(&mac(1));
    assert!(
        matches!(harness.receive(1, &flooded), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogIngress)
    );
    assert_eq!(
        stats(&harness, 1).total.rx_dropped_packets,
        1,
        "once, not per copy"
    );
    // The switch's own frame is returned.
    let own = harness
        .store_mut()
        .insert(&ethernet([0xff; 6], [2, 0xff, 0, 0, 1, 1], 60))
        .unwrap();
    let sent = harness
        .with(|now, switch, store, outputs| switch.inject_frame(now, PortId(1), QUEUE, own, store, outputs));
    assert_eq!(sent, Err(own));
    harness.store_mut().release(own);
    harness.run();
    harness.assert_empty();
}

#[test]
fn senders_that_waited_for_the_queue_go_on_at_the_detection() {
    let mut harness = Harness::learnt(&watched(3, WatchdogAction::Drop));
    harness.receive(1, &pause(3, 0xffff));
    harness.receive_many(2_060, 0, &small(0, 1, QUEUE));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    stormed(&mut harness, ms(700));
    let found = detected(&harness, 1)[0];
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    let (at, last) = *harness.pfc_sent(0).last().unwrap();
    assert_eq!((at, last), (found, xon(3)));
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_group_that_drops_asks_for_nothing_and_is_heard_again_after_the_storm() {
    let mut harness = Harness::learnt(&watched(3, WatchdogAction::Drop));
    harness.set_queue_enabled(2, QUEUE, false);
    harness.receive_many(2_060, 1, &small(1, 2, QUEUE)); // the group of the stormed port's own frames
    assert_eq!(harness.switch().xoff_groups(PortId(1)), 1 << 3);
    let end = stormed(&mut harness, ms(700));
    let found = detected(&harness, 1)[0];
    assert_eq!(*harness.pfc_sent(1).last().unwrap(), (found, xon(3)));
    let said = harness.pfc_sent(1).len();
    harness.receive_many(100, 1, &small(1, 2, QUEUE));
    harness.run_until(end + ms(399));
    assert_eq!(harness.pfc_sent(1).len(), said, "no refresh either");
    harness.run_until(end + ms(700));
    let over = restored(&harness, 1)[0];
    assert!(
        harness
            .pfc_sent(1)
            .iter()
            .any(|(at, pfc)| *at == over && pfc.quanta[3] == 0xffff),
        "it is still congested, and says so"
    );
    assert_eq!(harness.drops(1, DropReason::WatchdogIngress), 100);
    harness.set_queue_enabled(2, QUEUE, true);
    harness.run();
    harness.assert_empty();
}

fn xon(priority: u8) -> Pfc {
    Pfc {
        enable: 1 << priority,
        quanta: [0; 8],
    }
}

#[test]
fn queues_and_groups_follow_the_maps_of_priorities() {
    let mut config = watched(3, WatchdogAction::Drop);
    for port in &mut config.ports {
        port.pfc.priority_to_queue[3] = 5;
        port.pfc.priority_to_pg[3] = 4;
        port.watchdog.as_mut().unwrap().queues = 1 << 5;
    }
    let mut harness = Harness::learnt(&config);
    let now = harness.now();
    harness.receive(1, &pause(3, 0xffff));
    harness.receive(0, &small(0, 1, 5));
    storm(&mut harness, 1, 3, now, now + ms(900));
    harness.run_for(ms(700));
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 1 << 5);
    assert!(harness.switch().watchdog_stats(queue(1)).is_none());
    let dropped = |verdict| match verdict {
        ForwardingResult::Dropped(drop) => Some(drop.reason),
        _ => None,
    };
    let to = |n| small(0, 1, n);
    assert_eq!(
        dropped(harness.receive(0, &to(5))),
        Some(DropReason::WatchdogEgress)
    );
    assert_eq!(dropped(harness.receive(0, &to(3))), None);
    let from = |n| small(1, 2, n);
    assert_eq!(
        dropped(harness.receive(1, &from(4))),
        Some(DropReason::WatchdogIngress)
    );
    assert_eq!(dropped(harness.receive(1, &from(3))), None);
    assert_eq!(dropped(harness.receive(1, &from(5))), None);
    harness.run();
    harness.assert_empty();
}

#[test]
fn pauses_are_counted_and_remembered_whatever_the_action_masks() {
    let (mut harness, _) = with_waiting(WatchdogAction::Drop, ms(1_000));
    let (before, held) = (harness.counters(1), harness.switch().paused_priorities(PortId(1)));
    assert_eq!(held, 1 << 3, "the peer holds it, obeyed or not");
    harness.run_for(ms(160));
    let after = harness.counters(1);
    assert_eq!(after.pfc_rx[3] - before.pfc_rx[3], 10);
    assert_eq!(after.rx_pause_ps[3] - before.rx_pause_ps[3], ms(160).0);
    assert_eq!(after.pfc_on2off_rx[3], 1);
}

#[test]
fn a_frame_in_flight_completes_and_a_drop_costs_no_random_number() {
    let mut config = watched(2, WatchdogAction::Drop);
    for port in &mut config.ports {
        port.queues[3].wred = Some(config::mark_above(100));
    }
    let mut harness = Harness::learnt(&config);
    stormed(&mut harness, ms(800));
    let marked = harness.counters(1).ecn_marked;
    for _ in 0..50 {
        assert!(matches!(
            harness.receive(0, &udp(0, 1, QUEUE, Ecn::Ect0, 1_000)),
            ForwardingResult::Dropped(_)
        ));
    }
    assert_eq!(harness.counters(1).ecn_marked, marked);
    assert_eq!(harness.counters(1).queues[3].wred_dropped_packets, 0);
    assert_eq!(stats(&harness, 1).last.tx_dropped_packets, 50);
}

/// A router between port 0 and the station at port 1, with the watchdog of [`watched`].
fn router() -> Harness {
    let mut config = config::routed(2);
    let watched = watched(2, WatchdogAction::Drop);
    config.watchdog = watched.watchdog;
    for (port, watched) in config.ports.iter_mut().zip(watched.ports) {
        port.watchdog = watched.watchdog;
    }
    Harness::new(&config)
}

#[test]
fn routed_frames_and_those_that_waited_for_a_neighbour_are_dropped_too() {
    let mut harness = router();
    let mut packet = udp4("10.0.0.9", "10.0.1.9", 64, 100);
    packet[1] = QUEUE << 2;
    refresh_checksum(&mut packet);
    let routed = to_router(0, 0x0800, &packet);
    let end = stormed(&mut harness, ms(700));
    for _ in 0..3 {
        assert_eq!(
            harness.receive(0, &routed),
            ForwardingResult::Held,
            "nobody knows the neighbour"
        );
    }
    let answer = arp(2, (mac(1), "10.0.1.9"), (ROUTER, "10.0.1.1"));
    harness.receive(1, &frame(ROUTER, mac(1), 0x0806, &answer));
    assert_eq!(harness.drops(1, DropReason::WatchdogEgress), 3);
    assert!(
        matches!(harness.receive(0, &routed), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogEgress)
    );
    assert_eq!(stats(&harness, 1).last.tx_dropped_packets, 4);
    harness.run_until(end + ms(600));
    assert_eq!(
        harness.receive(0, &routed),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.run();
    harness.assert_empty();
}

#[test]
fn trimmed_frames_that_wait_when_a_storm_is_found_are_dropped_trimmed_frames() {
    let (full_cells, fits, trimmed, class) = (64, 16, 5, 1);
    let mut setup = watched(2, WatchdogAction::Drop);
    setup.profiles.push(BufferProfile {
        name: "trims".into(),
        threshold: BufferThreshold::Static(full_cells * u64::from(config::CELL)),
        trim: true,
        ..setup.profiles[config::EGRESS_LOSSY].clone()
    });
    setup.ports[1].queues[usize::from(class)].profile = setup.profiles.len() as u16 - 1;
    setup.trimming = Some(TrimmingConfig {
        size_bytes: 256,
        dscp: TrimDscp::Fixed(48),
        queue: TrimQueue::Fixed(QUEUE),
        exempt: Vec::new(),
    });
    let mut harness = Harness::learnt(&setup);
    harness.receive(1, &pause(usize::from(QUEUE), 0xffff));
    harness.set_tx_enabled(1, false);
    harness.receive_many(fits + trimmed, 0, &udp(0, 1, class, Ecn::Ect0, 1_000));
    harness.set_tx_enabled(1, true);
    stormed(&mut harness, ms(1_000));
    let counters = harness.counters(1);
    let queue = &counters.queues[usize::from(class)];
    let trimmed = trimmed as u64;
    assert_eq!(
        (
            queue.trim_packets,
            queue.tx_trim_packets,
            queue.dropped_trim_packets
        ),
        (trimmed, 0, trimmed)
    );
    assert_eq!(
        counters.queues[usize::from(QUEUE)].watchdog_dropped_packets,
        trimmed
    );
    assert_eq!(harness.switch().queued_frames(), 0);
}
