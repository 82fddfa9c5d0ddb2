//! Watchdog actions, to the frame.

use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, TrimDscp, TrimQueue, TrimmingConfig, WatchdogAction,
};
use xoff_dataplane::{
    DropReason, ForwardingResult, FrameStore, Picos, PortId, StormCounters, SwitchEventKind, WatchdogStatus,
};
use xoff_wire::{Ecn, Pfc};

use super::{
    STORM_QUEUE, detection_times, ms, pause_frame, restore_times, schedule_pauses, start_storm,
    storm_queue_of, storm_queue_stats, watched_config,
};
use crate::support::config::ROUTER_MAC;
use crate::support::frames::{ethernet_frame, shortest_udp_frame, station_mac, udp_frame};
use crate::support::packets::{
    arp_packet, frame_to_router, frame_with_packet, refresh_checksum, udp_ipv4_packet,
};
use crate::support::{Harness, config};

const WAITING_FRAMES: usize = 10;
const OTHER_CLASS: u8 = 4;

/// Starts a storm at port 1 while frames wait in the paused queue, until it is detected. Returns the time of
/// the last XOFF.
fn storm_with_waiting_frames(action: WatchdogAction, span: Picos) -> (Harness, Picos) {
    let mut harness = Harness::with_learnt_addresses(&watched_config(3, action));
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.receive_many(WAITING_FRAMES, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    assert!(harness.sent(1).is_empty());
    let end = start_storm(&mut harness, span);
    (harness, end)
}

/// Sends 100 frames each to the stormed queue and from its group, and both for the other lossless class.
fn send_cross_traffic(harness: &mut Harness) {
    for _ in 0..100 {
        harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
        harness.receive(1, &shortest_udp_frame(1, 2, STORM_QUEUE));
        harness.receive(0, &shortest_udp_frame(0, 1, OTHER_CLASS));
        harness.receive(1, &shortest_udp_frame(1, 2, OTHER_CLASS));
        harness.run_for(Picos::from_micros(10));
    }
}

#[test]
fn action_drop_discards_waiting_and_arriving_frames_of_queue_and_group() {
    let (mut harness, end) = storm_with_waiting_frames(WatchdogAction::Drop, ms(1_000));
    assert_eq!(
        harness.switch().queued_frames(),
        0,
        "what waited is gone at the detection"
    );
    assert_eq!(
        harness.drop_count(1, DropReason::WatchdogEgress),
        WAITING_FRAMES as u64
    );
    let before = harness.counters(1).rx_packets;
    send_cross_traffic(&mut harness);
    let counters = harness.counters(1);
    let of = |reason: DropReason| counters.drops[reason as usize];
    assert_eq!(
        of(DropReason::WatchdogEgress)[usize::from(STORM_QUEUE)],
        100 + WAITING_FRAMES as u64
    );
    assert_eq!(of(DropReason::WatchdogIngress)[usize::from(STORM_QUEUE)], 100);
    assert_eq!(
        counters.dropped_frames(),
        200 + WAITING_FRAMES as u64,
        "and nothing else"
    );
    assert_eq!(counters.rx_packets - before, 200);
    assert_eq!(
        counters.queues[3].watchdog_dropped_packets,
        100 + WAITING_FRAMES as u64
    );
    assert_eq!(counters.pgs[3].watchdog_dropped_packets, 100);
    // SAI's counters include these drops.
    assert_eq!(counters.queues[3].dropped_packets, 100 + WAITING_FRAMES as u64);
    assert_eq!(counters.pgs[3].dropped_packets, 100);
    assert_eq!(
        (harness.sent(1).len(), harness.data_sent(2).len()),
        (100, 100),
        "class 4"
    );
    let storm = StormCounters {
        tx_dropped_packets: 100 + WAITING_FRAMES as u64,
        rx_dropped_packets: 100,
        ..StormCounters::default()
    };
    let during = storm_queue_stats(&harness, 1);
    assert_eq!(
        (during.total, during.last, during.status),
        (storm, storm, WatchdogStatus::Stormed)
    );
    assert_eq!((during.storms_detected, during.storms_restored), (1, 0));
    assert_eq!(during.detected_at, detection_times(&harness, 1).first().copied());

    harness.run_until(end + ms(600));
    assert_eq!(restore_times(&harness, 1).len(), 1);
    harness.clear_sent();
    send_cross_traffic(&mut harness);
    assert_eq!((harness.sent(1).len(), harness.data_sent(2).len()), (200, 200));
    let after = storm_queue_stats(&harness, 1);
    assert_eq!(
        (after.total, after.status),
        (storm, WatchdogStatus::Operational),
        "storms only"
    );
    assert_eq!(after.restored_at, restore_times(&harness, 1).first().copied());
    harness.run();
    harness.assert_empty();
}

#[test]
fn action_forward_sends_waiting_frames_and_honours_pfc_after_restore() {
    let (mut harness, end) = storm_with_waiting_frames(WatchdogAction::Forward, ms(1_000));
    let found = harness.now();
    harness.run_for(ms(1));
    assert_eq!(harness.sent(1).len(), WAITING_FRAMES);
    assert!(harness.sent(1)[0].start <= found);
    send_cross_traffic(&mut harness);
    assert_eq!(harness.sent(1).len(), WAITING_FRAMES + 200);
    assert_eq!(harness.data_sent(2).len(), 200);
    assert_eq!(
        (0..3).map(|p| harness.counters(p).dropped_frames()).sum::<u64>(),
        0
    );
    let storm = StormCounters {
        tx_packets: 100 + WAITING_FRAMES as u64,
        rx_packets: 100,
        ..StormCounters::default()
    };
    assert_eq!(storm_queue_stats(&harness, 1).last, storm);
    harness.run_until(end + ms(600));
    assert_eq!(restore_times(&harness, 1).len(), 1);
    harness.clear_sent();
    harness.receive(1, &pause_frame(3, 100));
    harness.receive(0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    assert!(harness.sent(1).is_empty());
    harness.run();
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(storm_queue_stats(&harness, 1).total, storm, "not during a storm");
}

#[test]
fn action_alert_reports_a_storm_until_its_condition_ends() {
    let (mut harness, _) = storm_with_waiting_frames(WatchdogAction::Alert, ms(1_000));
    let found = harness.now();
    send_cross_traffic(&mut harness);
    assert_eq!(
        harness.sent(1).len(),
        100,
        "class 4; the queue is as paused as before"
    );
    assert_eq!(harness.data_sent(2).len(), 200);
    let SwitchEventKind::StormDetected { action, paused, .. } = harness.switch_events[0].kind else {
        panic!("{:?}", harness.switch_events);
    };
    assert_eq!(action, WatchdogAction::Alert);
    assert!(paused >= ms(400) && paused < ms(600));
    harness.receive(1, &pause_frame(3, 0));
    harness.run_for(ms(1));
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.run_for(ms(200));
    // A new pause has begun only recently.
    assert_eq!(restore_times(&harness, 1).len(), 1);
    assert!(restore_times(&harness, 1)[0].since(found) <= ms(200));
    assert_eq!(
        harness.sent(1).len(),
        200 + WAITING_FRAMES,
        "nothing lost, nothing kept"
    );
    assert_eq!(storm_queue_stats(&harness, 1).total.tx_dropped_packets, 0);
}

#[test]
fn action_alert_without_restoration_time_ends_with_its_condition() {
    let mut config = watched_config(2, WatchdogAction::Alert);
    config.ports[1].watchdog.as_mut().unwrap().restoration = None;
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(1_000));
    harness.run();
    assert_eq!(restore_times(&harness, 1).len(), 1);
}

#[test]
fn flooded_and_lag_frames_are_dropped_at_the_stormed_queue() {
    let (mut harness, _) = storm_with_waiting_frames(WatchdogAction::Drop, ms(1_000));
    let mut flooded = shortest_udp_frame(0, 1, STORM_QUEUE);
    flooded[..6].copy_from_slice(&[0xff; 6]);
    assert_eq!(
        harness.receive(0, &flooded),
        ForwardingResult::Forwarded { copies: 1 }
    );
    assert_eq!(
        storm_queue_stats(&harness, 1).total.tx_dropped_packets,
        WAITING_FRAMES as u64 + 1
    );
    flooded[6..12].copy_from_slice(&station_mac(1));
    assert!(
        matches!(harness.receive(1, &flooded), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogIngress)
    );
    assert_eq!(
        storm_queue_stats(&harness, 1).total.rx_dropped_packets,
        1,
        "once, not per copy"
    );
    // The switch's own frame is returned.
    let own = harness
        .store_mut()
        .insert(&ethernet_frame([0xff; 6], [2, 0xff, 0, 0, 1, 1], 60))
        .unwrap();
    let sent = harness.call_switch(|now, switch, store, outputs| {
        switch.inject_frame(now, PortId(1), STORM_QUEUE, own, store, outputs)
    });
    assert_eq!(sent, Err(own));
    harness.store_mut().release(own);
    harness.run();
    harness.assert_empty();
}

#[test]
fn paused_senders_resume_at_storm_detection() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(3, WatchdogAction::Drop));
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.receive_many(2_060, 0, &shortest_udp_frame(0, 1, STORM_QUEUE));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    start_storm(&mut harness, ms(700));
    let found = detection_times(&harness, 1)[0];
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    let (at, last) = *harness.pfc_sent(0).last().unwrap();
    assert_eq!((at, last), (found, xon_frame(3)));
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_dropping_group_sends_no_pfc_until_the_storm_ends() {
    let mut harness = Harness::with_learnt_addresses(&watched_config(3, WatchdogAction::Drop));
    harness.set_queue_enabled(2, STORM_QUEUE, false);
    // Frames received at the stormed port fill its own priority group.
    harness.receive_many(2_060, 1, &shortest_udp_frame(1, 2, STORM_QUEUE));
    assert_eq!(harness.switch().xoff_groups(PortId(1)), 1 << 3);
    let end = start_storm(&mut harness, ms(700));
    let found = detection_times(&harness, 1)[0];
    assert_eq!(*harness.pfc_sent(1).last().unwrap(), (found, xon_frame(3)));
    let said = harness.pfc_sent(1).len();
    harness.receive_many(100, 1, &shortest_udp_frame(1, 2, STORM_QUEUE));
    harness.run_until(end + ms(399));
    assert_eq!(harness.pfc_sent(1).len(), said, "no refresh either");
    harness.run_until(end + ms(700));
    let over = restore_times(&harness, 1)[0];
    assert!(
        harness
            .pfc_sent(1)
            .iter()
            .any(|(at, pfc)| *at == over && pfc.quanta[3] == 0xffff),
        "it is still congested, and says so"
    );
    assert_eq!(harness.drop_count(1, DropReason::WatchdogIngress), 100);
    harness.set_queue_enabled(2, STORM_QUEUE, true);
    harness.run();
    harness.assert_empty();
}

fn xon_frame(priority: u8) -> Pfc {
    Pfc {
        enable: 1 << priority,
        quanta: [0; 8],
    }
}

#[test]
fn stormed_queues_and_groups_follow_the_priority_maps() {
    let mut config = watched_config(3, WatchdogAction::Drop);
    for port in &mut config.ports {
        port.pfc.priority_to_queue[3] = 5;
        port.pfc.priority_to_pg[3] = 4;
        port.watchdog.as_mut().unwrap().queues = 1 << 5;
    }
    let mut harness = Harness::with_learnt_addresses(&config);
    let now = harness.now();
    harness.receive(1, &pause_frame(3, 0xffff));
    harness.receive(0, &shortest_udp_frame(0, 1, 5));
    schedule_pauses(&mut harness, 1, 3, now, now + ms(900));
    harness.run_for(ms(700));
    assert_eq!(harness.switch().stormed_queues(PortId(1)), 1 << 5);
    assert!(harness.switch().watchdog_stats(storm_queue_of(1)).is_none());
    let dropped = |verdict| match verdict {
        ForwardingResult::Dropped(drop) => Some(drop.reason),
        _ => None,
    };
    let to = |n| shortest_udp_frame(0, 1, n);
    assert_eq!(
        dropped(harness.receive(0, &to(5))),
        Some(DropReason::WatchdogEgress)
    );
    assert_eq!(dropped(harness.receive(0, &to(3))), None);
    let from = |n| shortest_udp_frame(1, 2, n);
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
fn pauses_are_counted_and_kept_under_every_action() {
    let (mut harness, _) = storm_with_waiting_frames(WatchdogAction::Drop, ms(1_000));
    let (before, held) = (harness.counters(1), harness.switch().paused_priorities(PortId(1)));
    assert_eq!(held, 1 << 3, "the peer holds it, obeyed or not");
    harness.run_for(ms(160));
    let after = harness.counters(1);
    assert_eq!(after.pfc_rx[3] - before.pfc_rx[3], 10);
    assert_eq!(after.rx_pause_ps[3] - before.rx_pause_ps[3], ms(160).0);
    assert_eq!(after.pfc_on2off_rx[3], 1);
}

#[test]
fn a_frame_in_transmission_completes_and_drops_use_no_random_number() {
    let mut config = watched_config(2, WatchdogAction::Drop);
    for port in &mut config.ports {
        port.queues[3].wred = Some(config::wred_marking_above(100));
    }
    let mut harness = Harness::with_learnt_addresses(&config);
    start_storm(&mut harness, ms(800));
    let marked = harness.counters(1).ecn_marked;
    for _ in 0..50 {
        assert!(matches!(
            harness.receive(0, &udp_frame(0, 1, STORM_QUEUE, Ecn::Ect0, 1_000)),
            ForwardingResult::Dropped(_)
        ));
    }
    assert_eq!(harness.counters(1).ecn_marked, marked);
    assert_eq!(harness.counters(1).queues[3].wred_dropped_packets, 0);
    assert_eq!(storm_queue_stats(&harness, 1).last.tx_dropped_packets, 50);
}

/// Returns a router between port 0 and the station at port 1, with the watchdog of [`watched_config`].
fn watched_router() -> Harness {
    let mut config = config::router_config(2);
    let watched = watched_config(2, WatchdogAction::Drop);
    config.watchdog = watched.watchdog;
    for (port, watched) in config.ports.iter_mut().zip(watched.ports) {
        port.watchdog = watched.watchdog;
    }
    Harness::new(&config)
}

#[test]
fn routed_frames_and_frames_waiting_for_resolution_are_dropped() {
    let mut harness = watched_router();
    let mut packet = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 100);
    packet[1] = STORM_QUEUE << 2;
    refresh_checksum(&mut packet);
    let routed = frame_to_router(0, 0x0800, &packet);
    let end = start_storm(&mut harness, ms(700));
    for _ in 0..3 {
        assert_eq!(
            harness.receive(0, &routed),
            ForwardingResult::Held,
            "nobody knows the neighbour"
        );
    }
    let answer = arp_packet(2, (station_mac(1), "10.0.1.9"), (ROUTER_MAC, "10.0.1.1"));
    harness.receive(1, &frame_with_packet(ROUTER_MAC, station_mac(1), 0x0806, &answer));
    assert_eq!(harness.drop_count(1, DropReason::WatchdogEgress), 3);
    assert!(
        matches!(harness.receive(0, &routed), ForwardingResult::Dropped(d) if d.reason == DropReason::WatchdogEgress)
    );
    assert_eq!(storm_queue_stats(&harness, 1).last.tx_dropped_packets, 4);
    harness.run_until(end + ms(600));
    assert_eq!(
        harness.receive(0, &routed),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.run();
    harness.assert_empty();
}

#[test]
fn queued_trimmed_frames_are_counted_as_dropped_at_storm_detection() {
    let (full_cells, fits, trimmed, class) = (64, 16, 5, 1);
    let mut setup = watched_config(2, WatchdogAction::Drop);
    setup.profiles.push(BufferProfile {
        name: "trims".into(),
        threshold: BufferThreshold::Static(full_cells * u64::from(config::CELL_BYTES)),
        trim: true,
        ..setup.profiles[config::EGRESS_LOSSY].clone()
    });
    setup.ports[1].queues[usize::from(class)].profile = setup.profiles.len() as u16 - 1;
    setup.trimming = Some(TrimmingConfig {
        size_bytes: 256,
        dscp: TrimDscp::Fixed(48),
        queue: TrimQueue::Fixed(STORM_QUEUE),
        exempt: Vec::new(),
    });
    let mut harness = Harness::with_learnt_addresses(&setup);
    harness.receive(1, &pause_frame(usize::from(STORM_QUEUE), 0xffff));
    harness.set_tx_enabled(1, false);
    harness.receive_many(fits + trimmed, 0, &udp_frame(0, 1, class, Ecn::Ect0, 1_000));
    harness.set_tx_enabled(1, true);
    start_storm(&mut harness, ms(1_000));
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
        counters.queues[usize::from(STORM_QUEUE)].watchdog_dropped_packets,
        trimmed
    );
    assert_eq!(harness.switch().queued_frames(), 0);
}
