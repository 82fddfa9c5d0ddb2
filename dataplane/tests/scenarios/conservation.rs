//! Conservation under random traffic: every frame is sent, dropped and counted, or waits. Runs are
//! reproducible.

use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{DropReason, ForwardingResult, Picos};

use crate::support::Harness;
use crate::support::random::{Dice, PORTS, disturb, frame, let_drain, tight, wild_run};

/// Independent counts, next to the counters of the switch.
#[derive(Default)]
struct Tally {
    /// Accepted frames per ingress port and class.
    accepted: [[u64; 16]; PORTS as usize],
    /// Frames dropped on arrival per port, reason and class.
    dropped: Vec<[[u64; 16]; DropReason::COUNT]>,
}

fn total(harness: &Harness, of: impl Fn(&PortCounters) -> u64) -> u64 {
    (0..PORTS).map(|port| of(&harness.counters(port))).sum()
}

/// Random traffic with one destination per frame. The counts come from the results of `receive` only.
fn unicast_run(seed: u64, steps: usize, flap: bool) -> (Harness, Tally) {
    let mut dice = Dice::new(seed);
    let mut harness = Harness::learnt(&tight());
    harness.record = false;
    let mut tally = Tally {
        dropped: vec![[[0; 16]; DropReason::COUNT]; usize::from(PORTS)],
        ..Tally::default()
    };
    for step in 0..steps {
        if dice.one_in(50) {
            disturb(&mut dice, &mut harness, flap);
        }
        let port = dice.port();
        let frame = frame(&mut dice, port, true);
        let before = harness.counters(port).rx_class_packets;
        let verdict = harness.receive(port, &frame);
        let after = harness.counters(port).rx_class_packets;
        let class = (0..16).find(|&n| after[n] != before[n]);
        match (verdict, class) {
            (ForwardingResult::Forwarded { copies: 1 }, Some(tc)) => {
                tally.accepted[usize::from(port)][tc] += 1
            }
            // A frame to an address that was flushed with its port is flooded.
            (ForwardingResult::Forwarded { .. }, Some(_)) if flap => {}
            (ForwardingResult::Dropped(drop), Some(tc)) => {
                assert_eq!(usize::from(drop.tc), tc);
                tally.dropped[drop.port.index()][drop.reason as usize][tc] += 1;
            }
            (ForwardingResult::Control, None) => {}
            other => panic!("step {step}: {other:?}"),
        }
        harness.run_for(Picos::from_nanos(dice.below(12_000)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    (harness, tally)
}

#[test]
fn every_frame_is_sent_dropped_for_a_reason_or_waiting() {
    let (mut harness, tally) = unicast_run(7, 40_000, false);
    let learnt = u64::from(PORTS) - 1; // copies of the first broadcast beyond the first
    let conserved = |harness: &Harness| {
        let received = total(harness, |c| c.rx_packets) + learnt - 1;
        let gone = total(harness, |c| c.tx_packets) + total(harness, PortCounters::dropped_frames);
        assert_eq!(received, gone + harness.switch().queued_frames() as u64);
    };
    conserved(&harness);
    let_drain(&mut harness);
    conserved(&harness);
    harness.assert_empty();
    let fresh: Vec<PortCounters> = {
        let learnt = Harness::learnt(&tight());
        (0..PORTS).map(|port| learnt.counters(port)).collect()
    };
    for port in 0..PORTS {
        let (now, before) = (harness.counters(port), &fresh[usize::from(port)]);
        assert_eq!(now.drops, tally.dropped[usize::from(port)], "port {port}");
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
        let sent: u64 = total(&harness, |c| c.tx_class_packets[tc]);
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
        let count = total(&harness, |c| c.drops[reason as usize].iter().sum());
        assert!(count > 0, "{reason:?} was never tried");
    }
    assert!(total(&harness, |c| c.pfc_tx_frames) > 100);
    assert!(total(&harness, |c| c.ecn_marked) > 100);
}

#[test]
fn queue_counters_add_up_to_port_counters() {
    let (harness, _) = unicast_run(11, 10_000, true);
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
fn nothing_is_left_after_floods_flaps_and_reconfigurations() {
    for seed in 0..4 {
        wild_run(seed, 10_000).assert_empty();
    }
}

#[test]
fn two_runs_are_the_same_to_the_octet_and_the_picosecond() {
    let runs = [5, 5, 6].map(|seed| wild_run(seed, 20_000));
    assert_eq!(runs[0].digest(), runs[1].digest());
    for port in 0..PORTS {
        assert_eq!(runs[0].counters(port), runs[1].counters(port));
    }
    assert_ne!(runs[0].digest(), runs[2].digest(), "the digest tells runs apart");
}
