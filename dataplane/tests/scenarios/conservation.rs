//! Conservation under random traffic: every frame is sent, dropped and counted, or waits.
//! Runs are reproducible.

use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{DropReason, ForwardingResult, Picos};

use crate::support::Harness;
use crate::support::random::{
    PORTS, RandomSource, apply_random_disturbance, drain_switch, random_frame, run_with_disturbances,
    small_buffer_config,
};

/// Frame counts of the test, independent of the counters of the switch.
#[derive(Default)]
struct FrameTally {
    /// Accepted frames per ingress port and class.
    accepted: [[u64; 16]; PORTS as usize],
    /// Frames dropped on arrival per port, reason and class.
    dropped: Vec<[[u64; 16]; DropReason::COUNT]>,
}

fn sum_over_ports(harness: &Harness, of: impl Fn(&PortCounters) -> u64) -> u64 {
    (0..PORTS).map(|port| of(&harness.counters(port))).sum()
}

/// Sends random traffic with one destination per frame. The counts come from the results of `receive` only.
fn run_unicast(seed: u64, steps: usize, with_link_flaps: bool) -> (Harness, FrameTally) {
    let mut random = RandomSource::new(seed);
    let mut harness = Harness::with_learnt_addresses(&small_buffer_config());
    harness.records_frames = false;
    let mut tally = FrameTally {
        dropped: vec![[[0; 16]; DropReason::COUNT]; usize::from(PORTS)],
        ..FrameTally::default()
    };
    for step in 0..steps {
        if random.happens_once_in(50) {
            apply_random_disturbance(&mut random, &mut harness, with_link_flaps);
        }
        let port = random.random_port();
        let frame = random_frame(&mut random, port, true);
        let before = harness.counters(port).rx_class_packets;
        let verdict = harness.receive(port, &frame);
        let after = harness.counters(port).rx_class_packets;
        let class = (0..16).find(|&n| after[n] != before[n]);
        match (verdict, class) {
            (ForwardingResult::Forwarded { copies: 1 }, Some(tc)) => {
                tally.accepted[usize::from(port)][tc] += 1
            }
            // A frame to an address that was flushed with its port is flooded.
            (ForwardingResult::Forwarded { .. }, Some(_)) if with_link_flaps => {}
            (ForwardingResult::Dropped(drop), Some(tc)) => {
                assert_eq!(usize::from(drop.tc), tc);
                tally.dropped[drop.port.index()][drop.reason as usize][tc] += 1;
            }
            (ForwardingResult::Control, None) => {}
            other => panic!("step {step}: {other:?}"),
        }
        harness.run_for(Picos::from_nanos(random.below(12_000)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    (harness, tally)
}

#[test]
fn received_frames_equal_sent_dropped_and_queued_frames() {
    let (mut harness, tally) = run_unicast(7, 40_000, false);
    let learnt = u64::from(PORTS) - 1; // copies of the first broadcast beyond the first
    let conserved = |harness: &Harness| {
        let received = sum_over_ports(harness, |c| c.rx_packets) + learnt - 1;
        let gone =
            sum_over_ports(harness, |c| c.tx_packets) + sum_over_ports(harness, PortCounters::dropped_frames);
        assert_eq!(received, gone + harness.switch().queued_frames() as u64);
    };
    conserved(&harness);
    drain_switch(&mut harness);
    conserved(&harness);
    harness.assert_empty();
    let fresh: Vec<PortCounters> = {
        let learnt = Harness::with_learnt_addresses(&small_buffer_config());
        (0..PORTS).map(|port| learnt.counters(port)).collect()
    };
    for port in 0..PORTS {
        let (now, before) = (harness.counters(port), &fresh[usize::from(port)]);
        assert!(
            now.drops.iter().eq(&tally.dropped[usize::from(port)]),
            "port {port}"
        );
        for tc in 0..16 {
            let received = now.rx_class_packets[tc] - before.rx_class_packets[tc];
            let refused: u64 = (0..usize::from(PORTS))
                .map(|p| &tally.dropped[p])
                .flat_map(|reasons| reasons.iter().map(move |classes| classes[tc]))
                .sum();
            assert!(received <= tally.accepted[usize::from(port)][tc] + refused);
        }
    }
    for tc in 0..16 {
        let sent: u64 = sum_over_ports(&harness, |c| c.tx_class_packets[tc]);
        let before: u64 = fresh.iter().map(|c| c.tx_class_packets[tc]).sum();
        let accepted: u64 = tally.accepted.iter().map(|port| port[tc]).sum();
        assert_eq!(sent - before, accepted, "class {tc}");
    }
    let reasons = [
        DropReason::PriorityGroupDropped,
        DropReason::QueueDropped,
        DropReason::WredDropped,
        DropReason::ExceedsL2Mtu,
        DropReason::Truncated,
        DropReason::MacControlUnknown,
    ];
    for reason in reasons {
        let count = sum_over_ports(&harness, |c| c.drops[reason as usize].iter().sum());
        assert!(count > 0, "{reason:?} was never tried");
    }
    assert!(sum_over_ports(&harness, |c| c.pfc_tx_frames) > 100);
    assert!(sum_over_ports(&harness, |c| c.ecn_marked) > 100);
}

#[test]
fn queue_counters_sum_to_port_counters() {
    let (harness, _) = run_unicast(11, 10_000, true);
    for port in 0..PORTS {
        let c = harness.counters(port);
        assert_eq!(c.queues.iter().map(|q| q.packets).sum::<u64>(), c.tx_packets);
        assert_eq!(c.queues.iter().map(|q| q.bytes).sum::<u64>(), c.tx_bytes);
        assert_eq!(c.tx_class_packets.iter().sum::<u64>(), c.tx_packets);
        assert_eq!(c.rx_class_packets.iter().sum::<u64>(), c.rx_packets);
        let of = |reason: DropReason| c.drops[reason as usize].iter().sum::<u64>();
        let groups: u64 = c.pgs.iter().map(|pg| pg.dropped_packets).sum();
        assert_eq!(
            groups,
            of(DropReason::PriorityGroupDropped) + of(DropReason::WatchdogIngress)
        );
        let queues: u64 = c.queues.iter().map(|q| q.dropped_packets).sum();
        let dropped = [
            DropReason::QueueDropped,
            DropReason::WredDropped,
            DropReason::WatchdogEgress,
        ];
        assert_eq!(queues, dropped.into_iter().map(of).sum::<u64>());
        let early: u64 = c.queues.iter().map(|q| q.wred_dropped_packets).sum();
        assert_eq!(early, of(DropReason::WredDropped));
        let marked: u64 = c.queues.iter().map(|q| q.wred_ecn_marked_packets).sum();
        assert_eq!(marked, c.ecn_marked);
    }
}

#[test]
fn no_frame_remains_after_floods_flaps_and_reconfigurations() {
    for seed in 0..4 {
        run_with_disturbances(seed, 10_000).assert_empty();
    }
}

#[test]
fn two_bridge_runs_give_equal_bytes_and_times() {
    let runs = [5, 5, 6].map(|seed| run_with_disturbances(seed, 20_000));
    assert_eq!(runs[0].digest(), runs[1].digest());
    for port in 0..PORTS {
        assert_eq!(runs[0].counters(port), runs[1].counters(port));
    }
    assert_ne!(runs[0].digest(), runs[2].digest(), "the digest tells runs apart");
}
