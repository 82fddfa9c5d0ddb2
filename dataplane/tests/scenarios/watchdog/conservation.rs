//! Conservation with random storms, traffic, links and configurations.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_dataplane::config::{SwitchConfig, WatchdogAction, WatchdogRule};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{DropReason, Picos, PortId, QueueId, SwitchEventKind, WatchdogStatus};
use xoff_wire::Ecn;

use super::{ms, watched_config};
use crate::support::Harness;
use crate::support::frames::udp_frame;

const PORTS: u16 = 4;

struct RandomSource(Xoshiro256PlusPlus);

impl RandomSource {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn random_port(&mut self) -> u16 {
        self.below(u64::from(PORTS)) as u16
    }
}

/// Creates a watchdog with times of a few milliseconds, so that one run has many storms. Some
/// queues are watched.
fn random_config(random: &mut RandomSource) -> SwitchConfig {
    let mut config = watched_config(usize::from(PORTS), WatchdogAction::Drop);
    config.pools[0].size_bytes = 700 * 256;
    config.watchdog.poll = [ms(2), ms(3)][random.below(2) as usize];
    config.watchdog.big_red_switch = random.below(8) == 0;
    config.watchdog.rule =
        [WatchdogRule::Broadcom, WatchdogRule::Nvidia, WatchdogRule::Vs][random.below(3) as usize];
    for port in &mut config.ports {
        port.pfc.asymmetric = random.below(2) == 0;
        if random.below(6) == 0 {
            port.watchdog = None;
        }
        if let Some(watchdog) = &mut port.watchdog {
            watchdog.queues = [0b1_1000, 1 << 3, 0xff][random.below(3) as usize];
            watchdog.action = [
                WatchdogAction::Drop,
                WatchdogAction::Forward,
                WatchdogAction::Alert,
            ][random.below(3) as usize];
            watchdog.detection = ms(4);
            watchdog.restoration = [Some(ms(5)), Some(ms(5)), None][random.below(3) as usize];
        }
    }
    config
}

fn apply_random_disturbance(random: &mut RandomSource, harness: &mut Harness) {
    let port = random.random_port();
    match random.below(40) {
        0 => harness.set_link(port, false),
        1 => harness.apply(&random_config(random)),
        2 => harness.switch_mut().clear_watermarks(),
        3..10 => harness.set_link(port, true),
        10..20 => {
            harness.receive_pfc(port, random.below(256) as u8, [0; 8]);
        }
        _ => {
            // Up to 10 ms, longer than the detection time.
            let quanta = std::array::from_fn(|_| random.below(20_000) as u16);
            harness.receive_pfc(port, random.below(256) as u8, quanta);
        }
    }
}

fn sum_over_ports(harness: &Harness, of: impl Fn(&PortCounters) -> u64) -> u64 {
    (0..PORTS).map(|port| of(&harness.counters(port))).sum()
}

/// Asserts that the counters of queues and groups and the storm statistics agree with the drops.
fn assert_counters_agree(harness: &Harness) {
    for port in 0..PORTS {
        let c = harness.counters(port);
        let of = |reason: DropReason| c.drops[reason as usize].iter().sum::<u64>();
        let queues: u64 = c.queues.iter().map(|q| q.watchdog_dropped_packets).sum();
        assert_eq!(queues, of(DropReason::WatchdogEgress), "port {port}");
        let groups: u64 = c.pgs.iter().map(|pg| pg.watchdog_dropped_packets).sum();
        assert_eq!(groups, of(DropReason::WatchdogIngress), "port {port}");
        for n in 0..8 {
            let Some(stats) = harness.switch().watchdog_stats(QueueId::new(PortId(port), n)) else {
                continue;
            };
            let stormed = stats.status == WatchdogStatus::Stormed;
            assert_eq!(stats.storms_detected - stats.storms_restored, u64::from(stormed));
            assert_eq!(
                harness.switch().stormed_queues(PortId(port)) >> n & 1 == 1,
                stormed
            );
            // The watchdog drops only during storms, so the statistics include all of these drops.
            let dropped = c.queues[usize::from(n)].watchdog_dropped_packets;
            assert!(
                stats.total.tx_dropped_packets >= dropped,
                "port {port} queue {n}: {stats:?}"
            );
        }
    }
}

fn run_with_storms(seed: u64, steps: usize) -> Harness {
    let mut random = RandomSource(Xoshiro256PlusPlus::seed_from_u64(seed));
    let config = random_config(&mut random);
    let mut harness = Harness::new(&config);
    harness.records_frames = false;
    for step in 0..steps {
        if random.below(60) == 0 {
            apply_random_disturbance(&mut random, &mut harness);
        }
        let from = random.random_port();
        // Some destinations are unknown, so these frames are flooded.
        let to = match random.below(50) {
            0 => 99,
            _ => random.random_port() as u8,
        };
        let class = random.below(8) as u8;
        let len = 60 + random.below(1_400) as usize;
        harness.receive(from, &udp_frame(from as u8, to, class, Ecn::NotEct, len));
        harness.run_for(Picos::from_nanos(random.below(9_000)));
        if step % 128 == 0 {
            harness.switch().assert_consistent();
            assert_counters_agree(&harness);
        }
    }
    harness
}

#[test]
fn the_watchdog_loses_no_frame_without_a_counter() {
    let (mut storms, mut restored, mut switched) = (0, 0, 0);
    let mut by_reason = [0; 2];
    for seed in 0..6 {
        let mut harness = run_with_storms(seed, 15_000);
        assert_counters_agree(&harness);
        for port in 0..PORTS {
            harness.set_link(port, true);
            harness.receive_pfc(port, 0xff, [0; 8]);
        }
        harness.run();
        harness.assert_empty();
        for event in &harness.switch_events {
            match event.kind {
                SwitchEventKind::StormDetected { .. } => storms += 1,
                SwitchEventKind::StormRestored { .. } => restored += 1,
                SwitchEventKind::BigRedSwitch { .. } => switched += 1,
                SwitchEventKind::MacMoves { .. } | SwitchEventKind::Lldp { .. } => {}
            }
        }
        let reasons = [DropReason::WatchdogEgress, DropReason::WatchdogIngress];
        for (count, reason) in by_reason.iter_mut().zip(reasons) {
            *count += sum_over_ports(&harness, |c| c.drops[reason as usize].iter().sum());
        }
    }
    assert!(
        storms > 50 && restored > 50 && restored <= storms,
        "{storms} {restored}"
    );
    assert!(switched > 3, "{switched}");
    assert!(by_reason.iter().all(|count| *count > 500), "{by_reason:?}");
}

/// All destinations are known, so that the test can account for every frame.
#[test]
fn received_frames_equal_sent_dropped_and_queued_frames_during_storms() {
    let mut random = RandomSource(Xoshiro256PlusPlus::seed_from_u64(17));
    let mut config = random_config(&mut random);
    config.watchdog.big_red_switch = false;
    for (port, action) in config.ports.iter_mut().zip([
        WatchdogAction::Drop,
        WatchdogAction::Forward,
        WatchdogAction::Alert,
        WatchdogAction::Drop,
    ]) {
        let watchdog = watched_config(1, action).ports[0].watchdog.unwrap();
        port.watchdog = Some(xoff_dataplane::config::PortWatchdog {
            queues: 0xff,
            detection: ms(4),
            restoration: Some(ms(5)),
            ..watchdog
        });
    }
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.records_frames = false;
    let copies = u64::from(PORTS) - 2; // of the first broadcast, beyond the first
    for step in 0..40_000 {
        if random.below(60) == 0 {
            let (port, on) = (random.random_port(), random.below(3) != 0);
            let quanta = std::array::from_fn(|_| if on { random.below(20_000) as u16 } else { 0 });
            harness.receive_pfc(port, 0xff, quanta);
        }
        let (from, to) = (random.random_port(), random.random_port());
        let frame = udp_frame(
            from as u8,
            to as u8,
            random.below(8) as u8,
            Ecn::NotEct,
            60 + random.below(900) as usize,
        );
        harness.receive(from, &frame);
        harness.run_for(Picos::from_nanos(random.below(9_000)));
        if step % 100 == 0 {
            let gone = sum_over_ports(&harness, |c| c.tx_packets)
                + sum_over_ports(&harness, PortCounters::dropped_frames);
            let received = sum_over_ports(&harness, |c| c.rx_packets) + copies;
            assert_eq!(
                received,
                gone + harness.switch().queued_frames() as u64,
                "step {step}"
            );
        }
    }
    assert_counters_agree(&harness);
    assert!(harness.switch_events.len() > 50);
    harness.run();
    harness.assert_empty();
}
