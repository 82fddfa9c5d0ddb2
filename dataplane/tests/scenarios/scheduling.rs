//! Scheduling: the order and times of transmissions.

use xoff_dataplane::config::{SchedulingMode, ShaperConfig, SwitchConfig};
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Ecn;

use crate::support::frames::{shortest_udp_frame, udp_frame};
use crate::support::{Harness, SentFrame, config};

/// Queues `count` frames of `len` bytes in each class of `classes` at port 1, then unblocks the port.
fn queue_and_release(config: &SwitchConfig, classes: &[(u8, usize, usize)]) -> Harness {
    let mut harness = Harness::with_learnt_addresses(config);
    harness.set_tx_enabled(1, false);
    for &(class, count, len) in classes {
        assert_eq!(
            harness.receive_many(count, 0, &udp_frame(0, 1, class, Ecn::NotEct, len)),
            0
        );
    }
    harness.set_tx_enabled(1, true);
    harness
}

fn class_of_frame(sent: &SentFrame) -> usize {
    usize::from(sent.bytes[15] >> 2)
}

fn set_weights(config: &mut SwitchConfig, weights: [u8; 8]) {
    for (queue, weight) in config.ports[1].queues.iter_mut().zip(weights) {
        queue.schedule = SchedulingMode::Dwrr { weight };
    }
}

/// Enlarges the buffer so that it never limits.
fn with_large_buffer(mut config: SwitchConfig) -> SwitchConfig {
    config.pools.iter_mut().for_each(|pool| pool.size_bytes = 1 << 28);
    config
}

#[test]
fn a_blocked_queue_delays_only_its_own_frames() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_queue_enabled(1, 3, false);
    for class in [3, 4, 3, 4] {
        harness.receive_many(10, 0, &shortest_udp_frame(0, 1, class));
    }
    harness.run();
    assert_eq!(
        harness.sent(1).iter().map(class_of_frame).collect::<Vec<_>>(),
        [4; 20]
    );
    // The frame leaves only after both blocks are removed.
    harness.set_tx_enabled(1, false);
    harness.set_queue_enabled(1, 3, true);
    harness.run();
    assert_eq!(harness.sent(1).len(), 20);
    harness.set_tx_enabled(1, true);
    harness.run();
    assert_eq!(
        harness
            .sent(1)
            .iter()
            .map(class_of_frame)
            .filter(|c| *c == 3)
            .count(),
        20
    );
    harness.assert_empty();
}

#[test]
fn queues_with_frames_in_proportion_to_weights_finish_together() {
    // sonic-mgmt WRRtest: 140 frames each in five queues of weight 14, 150 each in two queues of weight 15.
    let mut config = with_large_buffer(config::bridge_config(2));
    set_weights(&mut config, [14, 14, 14, 15, 15, 14, 14, 1]);
    let classes = [0, 1, 2, 5, 6].map(|c| (c, 140, 1_500));
    let mut harness = queue_and_release(
        &config,
        &[&classes[..], &[(3, 150, 1_500), (4, 150, 1_500)]].concat(),
    );
    harness.run();
    let sent = harness.sent(1);
    assert_eq!(sent.len(), 1_000);
    for queue in 0..7 {
        let last = sent.iter().rposition(|s| class_of_frame(s) == queue).unwrap();
        assert!(1_000 - last - 1 < 80, "queue {queue} ends at frame {last}");
    }
}

#[test]
fn dwrr_shares_bytes_by_weight_at_any_frame_length() {
    let mut config = with_large_buffer(config::bridge_config(2));
    set_weights(&mut config, [10, 30, 1, 1, 1, 1, 1, 1]);
    let mut harness = queue_and_release(&config, &[(0, 4_000, 1_496), (1, 12_000, 496)]);
    let start = harness.now();
    harness.run_until(start + Picos::from_millis(50));
    let bytes = |n: usize| -> usize {
        let of_class = harness.sent(1).iter().filter(|s| class_of_frame(s) == n);
        of_class.map(|s| s.bytes.len() + 4).sum()
    };
    let ratio = bytes(1) as f64 / bytes(0) as f64;
    assert!((2.95..3.05).contains(&ratio), "{ratio}");
}

#[test]
fn strict_queues_are_served_first_from_highest_to_lowest() {
    let mut config = config::bridge_config(2);
    config.ports[1].queues[5].schedule = SchedulingMode::Strict;
    config.ports[1].queues[6].schedule = SchedulingMode::Strict;
    let mut harness = queue_and_release(&config, &[(0, 5, 60), (5, 5, 60), (6, 5, 60)]);
    harness.run();
    let order: Vec<usize> = harness.sent(1).iter().map(class_of_frame).collect();
    assert_eq!(order, [[6; 5], [5; 5], [0; 5]].concat());
}

#[test]
fn a_queue_shaper_limits_its_rate_exactly_and_others_use_the_rest() {
    let mut config = with_large_buffer(config::bridge_config(2));
    config.ports[1].link = LinkTiming::ethernet(100);
    // A shaper without burst cannot make up for the time in which it waited for another queue. Burst: two
    // frames.
    config.ports[1].queues[2].shaper = Some(ShaperConfig {
        bytes_per_second: 1_000_000,
        burst_bytes: 2_000,
    });
    let mut harness = queue_and_release(&config, &[(2, 2_000, 996), (0, 14_000, 996)]);
    let start = harness.now();
    harness.run_until(start + Picos(Picos::from_millis(1_000).0 - 1));
    let count = |n: usize| harness.sent(1).iter().filter(|s| class_of_frame(s) == n).count();
    assert_eq!(
        count(2),
        1_000 + 2,
        "1000 frames of 1000 octets in a second, and the burst"
    );
    // 1020 bytes on the link last 81.6 us: 12255 starts in a second.
    assert_eq!(count(0) + count(2), 12_255);
}

#[test]
fn a_single_queue_shaper_limits_its_rate_exactly() {
    let mut config = with_large_buffer(config::bridge_config(2));
    config.ports[1].queues[2].shaper = Some(ShaperConfig {
        bytes_per_second: 1_000_000,
        burst_bytes: 0,
    });
    let mut harness = queue_and_release(&config, &[(2, 2_000, 996)]);
    let start = harness.now();
    harness.run_until(start + Picos(Picos::from_millis(1_000).0 - 1));
    assert_eq!(harness.sent(1).len(), 1_000);
    let last = harness.sent(1)[999].start;
    assert_eq!(last, start + Picos::from_millis(999));
}

#[test]
fn a_port_shaper_limits_its_rate_exactly() {
    let mut config = with_large_buffer(config::bridge_config(2));
    config.ports[1].shaper = Some(ShaperConfig {
        bytes_per_second: 2_500_000,
        burst_bytes: 0,
    });
    let mut harness = queue_and_release(&config, &[(2, 2_000, 996), (0, 2_000, 996)]);
    let start = harness.now();
    harness.run_until(start + Picos(Picos::from_millis(1_000).0 - 1));
    assert_eq!(harness.sent(1).len(), 2_500);
    assert_eq!(
        harness.sent(1)[2_499].start,
        start + Picos::from_micros(2_499 * 400)
    );
}

#[test]
fn a_port_never_exceeds_its_model_speed() {
    for mbps in [10, 100, 1_000, 25_000, 400_000, 1_600_000] {
        let mut config = config::bridge_config(2);
        config.ports[1].link = LinkTiming::ethernet(mbps);
        let mut harness = Harness::with_learnt_addresses(&config);
        for n in 0..200 {
            harness.receive(0, &udp_frame(0, 1, 0, Ecn::NotEct, 60 + 7 * n));
        }
        harness.run();
        assert_eq!(harness.sent(1).len(), 200);
        let byte = Picos(8_000_000 / u64::from(mbps));
        for (n, pair) in harness.sent(1).windows(2).enumerate() {
            assert_eq!(pair[0].end, pair[1].start, "back to back");
            let wire_len = (60 + 7 * n as u64) + 4 + 20;
            assert_eq!(
                pair[0].end,
                pair[0].start + Picos(wire_len * byte.0),
                "{mbps} Mb/s"
            );
        }
    }
}

#[test]
fn the_utilisation_of_a_saturated_link_is_one() {
    let mut config = config::bridge_config(2);
    config.ports[0].link = LinkTiming::ethernet(10_000);
    let mut harness = Harness::with_learnt_addresses(&config);
    let before = harness.counters(1);
    assert_eq!(
        before.tx_busy_ps,
        before.tx_last_ps - before.tx_first_ps,
        "one frame so far"
    );
    harness.receive_many(100, 0, &udp_frame(0, 1, 0, Ecn::NotEct, 1_078));
    harness.run();
    let after = harness.counters(1);
    let busy = after.tx_busy_ps - before.tx_busy_ps;
    assert_eq!(busy, 100 * 1_102 * 8_000);
    assert_eq!(after.tx_last_ps - harness.sent(1)[0].start.0, busy);
}

#[test]
fn the_pipeline_latency_is_constant_and_keeps_the_order() {
    let mut config = config::bridge_config(2);
    config.pipeline_latency = Picos::from_nanos(800);
    let mut harness = Harness::with_learnt_addresses(&config);
    let start = harness.now();
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    harness.run_for(Picos::from_nanos(100));
    harness.receive(0, &shortest_udp_frame(0, 1, 6));
    harness.run();
    let starts: Vec<Picos> = harness.sent(1).iter().map(|sent| sent.start).collect();
    // The second frame passes the pipeline at 900 ns. The first frame is on the link until 800 + 672 ns.
    assert_eq!(
        starts,
        [start + Picos::from_nanos(800), start + Picos::from_nanos(1_472)]
    );
}

#[test]
fn a_frame_in_the_pipeline_does_not_delay_another_queue() {
    let mut config = config::bridge_config(2);
    config.pipeline_latency = Picos::from_nanos(800);
    config.ports[1].queues[6].schedule = SchedulingMode::Strict;
    let mut harness = Harness::with_learnt_addresses(&config);
    let start = harness.now();
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    harness.run_for(Picos::from_nanos(500));
    harness.receive(0, &shortest_udp_frame(0, 1, 6));
    harness.run_until(start + Picos::from_nanos(800));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(class_of_frame(&harness.sent(1)[0]), 0);
}

#[test]
fn a_blocked_port_keeps_frames_and_sends_them_in_order_later() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    let frames: Vec<_> = (0..20).map(|n| udp_frame(0, 1, 0, Ecn::NotEct, 60 + n)).collect();
    frames.iter().for_each(|frame| {
        harness.receive(0, frame);
    });
    harness.run_for(Picos::from_millis(1_000));
    assert!(harness.sent(1).is_empty());
    harness.set_tx_enabled(1, true);
    harness.run();
    let out: Vec<_> = harness.sent(1).iter().map(|sent| sent.bytes.clone()).collect();
    assert_eq!(out, frames);
}

#[test]
fn driver_lateness_is_recorded_only_if_a_frame_was_delayed() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let port = xoff_dataplane::PortId(1);
    assert_eq!(harness.switch().total_transmit_delay(port), Picos::ZERO);
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    harness.skip_time(Picos::from_micros(5));
    harness.run();
    assert_eq!(
        harness.switch().total_transmit_delay(port),
        Picos::from_nanos(5_000 - 672)
    );
}
