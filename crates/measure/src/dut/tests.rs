//! Trials through a switch in virtual time have the computed results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, PoolConfig, PoolSide, ShaperConfig, SwitchConfig,
};
use xoff_units::Picos;

use super::*;
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::failure::Exit;

pub(crate) const CELL_BYTES: u64 = 208;
const MILLISECOND: Picos = Picos::from_millis(1);

/// Returns a switch whose ports have the same speed. Each pool has `cells` cells. Class 3 is lossless with
/// private headroom, and class 0 is lossy.
pub(crate) fn switch_config(port_count: usize, speed_mbps: u32, cells: u64) -> SwitchConfig {
    let names: Vec<String> = (0..port_count)
        .map(|port| format!("Ethernet{}", port * 4))
        .collect();
    let each = |body: &str| {
        let all: Vec<String> = names.iter().map(|name| format!(r#""{name}": {body}"#)).collect();
        all.join(", ")
    };
    let text = format!(
        r#"{{"PORT": {{{}}}, "DSCP_TO_TC_MAP": {{"M": {{"0": "0", "26": "3"}}}},
        "TC_TO_PRIORITY_GROUP_MAP": {{"M": {{"0": "0", "3": "3"}}}}, "TC_TO_QUEUE_MAP": {{"M": {{"0": "0", "3": "3"}}}},
        "PORT_QOS_MAP": {{{}}}}}"#,
        each(&format!(r#"{{"speed": "{speed_mbps}", "mtu": "9216"}}"#)),
        each(r#"{"dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M", "pfc_enable": "3"}"#)
    );
    let mut config = load(&[("test", &text)], &ResolveOptions::default())
        .expect("a valid configuration")
        .resolved
        .config;
    let pool = |name: &str, side| PoolConfig {
        name: name.into(),
        side,
        size_bytes: cells * CELL_BYTES,
        xoff_bytes: 0,
    };
    let profile = |pool, headroom| BufferProfile {
        name: "p".into(),
        pool,
        size_bytes: headroom * CELL_BYTES,
        threshold: BufferThreshold::Static(cells * CELL_BYTES / 4),
        xoff_bytes: headroom * CELL_BYTES,
        xon_bytes: 0,
        xon_offset_bytes: 4 * CELL_BYTES,
        trim: false,
    };
    config.cell_bytes = CELL_BYTES as u32;
    config.pools = vec![pool("in", PoolSide::Ingress), pool("out", PoolSide::Egress)];
    config.profiles = vec![profile(0, 0), profile(0, 400), profile(1, 0)];
    for port in &mut config.ports {
        port.pgs = std::array::from_fn(|n| u16::from(n == 3));
        for queue in &mut port.queues {
            (queue.profile, queue.wred) = (2, None);
        }
    }
    config
}

pub(crate) fn dut_options(port_count: usize, class: u8) -> VirtualDutOptions {
    VirtualDutOptions {
        ports: (0..port_count).collect(),
        class,
        honours_pauses: true,
        delay: Picos::ZERO,
        seed: 0,
        stop: Arc::new(AtomicBool::new(false)),
    }
}

pub(crate) fn virtual_dut(port_count: usize, class: u8) -> VirtualDut {
    VirtualDut::new(
        &switch_config(port_count, 100_000, 4_000),
        dut_options(port_count, class),
    )
    .expect("a reachable traffic class")
}

fn trial_of_streams(streams: Vec<TrafficStream>, duration: Picos) -> Trial {
    Trial {
        streams,
        duration,
        phases: None,
    }
}

#[test]
fn latency_of_an_empty_switch_is_two_serialisations_preamble_pipeline_and_cables() {
    for (speed_mbps, bytes) in [(10_000, 64), (100_000, 1_082), (400_000, 4_200), (800_000, 9_000)] {
        let mut config = switch_config(2, speed_mbps, 4_000);
        config.pipeline_latency = Picos::from_nanos(600);
        let mut options = dut_options(2, 0);
        options.delay = Picos::from_nanos(25);
        let mut dut = VirtualDut::new(&config, options).unwrap();
        let one = TrafficStream::burst(0, 1, FrameSize::Fixed(bytes), 1);
        let slow = TrafficStream::at_constant_rate(0, 1, FrameSize::Fixed(bytes), 0.3, MILLISECOND);
        let expected = (2 * u64::from(bytes) + 8) * 8_000_000 / u64::from(speed_mbps) + 600_000 + 2 * 25_000;
        for streams in [vec![one], vec![slow]] {
            let outcome = dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap();
            let latencies = &outcome.latencies[0];
            assert!(latencies.count() > 0);
            for ns in [
                latencies.min_ns(),
                latencies.mean_ns(),
                latencies.quantile_ns(0.5),
                latencies.max_ns(),
            ] {
                assert!(
                    (ns - expected as f64 / 1e3).abs() < 1e-6,
                    "{bytes} at {speed_mbps}: {ns} ns"
                );
            }
        }
    }
}

#[test]
fn pairs_at_line_rate_lose_no_frame() {
    let mut dut = virtual_dut(2, 0);
    let size = FrameSize::Fixed(1_082);
    let streams = TrafficPattern::Pairs.streams(2, size, 1.0, MILLISECOND);
    let outcome = dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap();
    // 1102 bytes of 80 ps: 88.16 ns.
    let sent = 1_000_000_000_u64.div_ceil(88_160);
    assert_eq!(outcome.sum_over_streams(|s| s.sent), 2 * sent);
    assert_eq!(outcome.sum_over_streams(StreamResult::lost_frames), 0);
    assert_eq!(outcome.sum_over_streams(|s| s.reordered + s.stray), 0);
    assert_eq!(outcome.shortfall(false), 0.0);
}

#[test]
fn two_to_one_loses_half_of_the_frames_beyond_the_queue_limit() {
    let mut dut = virtual_dut(3, 0);
    let streams = TrafficPattern::ManyToOne.streams(3, FrameSize::Fixed(64), 1.0, MILLISECOND);
    let outcome = dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap();
    // The link carries half of the frames during the trial. Then the queue drains its 1000 cells with one
    // frame each.
    let carried = outcome.sum_over_streams(|s| s.sent) / 2;
    let received = outcome.sum_over_streams(|s| s.received);
    assert!(received.abs_diff(carried + 1_000) <= 2, "{received}, {carried}");
    let first = outcome
        .streams
        .iter()
        .filter_map(|s| s.first_lost)
        .map(|frame| frame.number)
        .min();
    assert!(first.unwrap().abs_diff(1_000) <= 3, "{first:?}");
    assert_eq!(outcome.sum_over_streams(|s| s.reordered), 0);
}

#[test]
fn a_lossless_class_is_paused_and_loses_nothing() {
    let mut dut = virtual_dut(3, 3);
    assert!(dut.is_lossless());
    let streams = TrafficPattern::ManyToOne.streams(3, FrameSize::Fixed(1_082), 1.0, MILLISECOND);
    let outcome = dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap();
    assert_eq!(outcome.sum_over_streams(StreamResult::lost_frames), 0);
    assert!(outcome.ports[0].xoff_frames > 0 && outcome.ports[0].first_xoff.is_some());
    // Both senders together send as many frames as one link and their priority groups can take. A pause does
    // not interrupt a frame, so the paused time also covers the rest of that frame.
    let withheld = outcome.withheld_ratio();
    assert!((0.45..0.5).contains(&withheld), "{withheld}");
    let paused = (outcome.ports[0].paused.0 + outcome.ports[1].paused.0) as f64 / MILLISECOND.0 as f64;
    assert!(paused >= 2.0 * withheld, "{paused}");
    // The receiver's link is never idle, so only the excess is withheld.
    let line = FrameSize::Fixed(1_082).line_rate_fps(&dut.ports()[2].link);
    assert!((outcome.forwarded_fps() / line - 1.0).abs() < 0.001);
    // The next trial starts with an empty switch and without pauses.
    let light = TrafficPattern::ManyToOne.streams(3, FrameSize::Fixed(1_082), 0.4, MILLISECOND);
    let after = dut.run(&trial_of_streams(light, MILLISECOND)).unwrap();
    assert_eq!(after.shortfall(true), 0.0);
    assert_eq!(after.withheld_ratio(), 0.0);
}

#[test]
fn senders_that_ignore_pauses_lose_frames_when_headroom_is_full() {
    let mut options = dut_options(3, 3);
    options.honours_pauses = false;
    let mut dut = VirtualDut::new(&switch_config(3, 100_000, 4_000), options).unwrap();
    assert!(!dut.is_lossless());
    let streams = TrafficPattern::ManyToOne.streams(3, FrameSize::Fixed(64), 1.0, MILLISECOND);
    let outcome = dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap();
    assert!(outcome.sum_over_streams(StreamResult::lost_frames) > 0);
    assert!(outcome.ports[0].xoff_frames > 0);
    assert_eq!(outcome.withheld_ratio(), 0.0);
}

#[test]
fn a_growing_backlog_reveals_an_overload_without_loss() {
    let mut dut = VirtualDut::new(&switch_config(3, 100_000, 4_000_000), dut_options(3, 0)).unwrap();
    let trial_at = |share| Trial {
        phases: Some(1),
        ..trial_of_streams(
            TrafficPattern::ManyToOne.streams(3, FrameSize::Fixed(1_082), share, MILLISECOND),
            MILLISECOND,
        )
    };
    let over = dut.run(&trial_at(0.51)).unwrap();
    assert_eq!(over.sum_over_streams(StreamResult::lost_frames), 0);
    assert!(
        (over.shortfall(false) - 0.02).abs() < 0.005,
        "{}",
        over.shortfall(false)
    );
    assert_eq!(dut.run(&trial_at(0.5)).unwrap().shortfall(false), 0.0);
}

#[test]
fn a_broadcast_reaches_every_other_port() {
    let mut dut = virtual_dut(4, 0);
    let stream = TrafficStream {
        to: StreamDestination::Broadcast,
        ..TrafficStream::at_constant_rate(1, 0, FrameSize::Imix, 0.5, MILLISECOND)
    };
    let outcome = dut.run(&trial_of_streams(vec![stream], MILLISECOND)).unwrap();
    let stream = &outcome.streams[0];
    assert_eq!((stream.expected, stream.lost_frames()), (3 * stream.sent, 0));
}

#[test]
fn results_depend_only_on_the_phases_of_a_trial() {
    let run = |phases| {
        let mut dut = virtual_dut(4, 0);
        let streams = TrafficPattern::Mesh.streams(4, FrameSize::Imix, 0.9, MILLISECOND);
        let outcome = dut
            .run(&Trial {
                phases,
                ..trial_of_streams(streams, MILLISECOND)
            })
            .unwrap();
        (outcome.streams.clone(), outcome.all_latencies().mean_ns())
    };
    assert_eq!(run(Some(1)), run(Some(1)));
    assert_ne!(run(Some(1)).1, run(Some(2)).1);
}

#[test]
fn trials_above_the_line_rate_or_without_an_end_are_refused() {
    let mut dut = virtual_dut(3, 0);
    let refused =
        |dut: &mut VirtualDut, streams| dut.run(&trial_of_streams(streams, MILLISECOND)).unwrap_err();
    let size = FrameSize::Fixed(64);
    let too_fast = vec![
        TrafficStream::at_constant_rate(0, 1, size, 0.6, MILLISECOND),
        TrafficStream::at_constant_rate(0, 2, size, 0.5, MILLISECOND),
    ];
    assert_eq!(refused(&mut dut, too_fast).exit, Exit::Usage);
    let to_itself = vec![TrafficStream::at_constant_rate(0, 0, size, 0.6, MILLISECOND)];
    assert_eq!(refused(&mut dut, to_itself).exit, Exit::Usage);

    let mut config = switch_config(2, 100_000, 4_000);
    config.ports[1].mtu = 1_500;
    let mut short = VirtualDut::new(&config, dut_options(2, 0)).unwrap();
    let too_long = vec![TrafficStream::at_constant_rate(
        0,
        1,
        FrameSize::Fixed(1_519),
        0.6,
        MILLISECOND,
    )];
    assert_eq!(refused(&mut short, too_long).exit, Exit::Usage);
    config.ports[1].queues[0].shaper = Some(ShaperConfig {
        bytes_per_second: 1,
        burst_bytes: 64,
    });
    let mut stuck = VirtualDut::new(&config, dut_options(2, 0)).unwrap();
    let streams = vec![TrafficStream::at_constant_rate(
        0,
        1,
        size,
        0.5,
        Picos::from_micros(10),
    )];
    assert_eq!(refused(&mut stuck, streams).exit, Exit::Inconclusive);
}

#[test]
fn imix_has_its_shares_and_spreads_the_lengths_evenly() {
    let lengths = FrameSize::Imix.lengths();
    let count = |bytes| lengths.iter().filter(|length| **length == bytes).count();
    assert_eq!(
        (count(64), count(570), count(1_518), lengths.len()),
        (28, 16, 4, 48)
    );
    assert!(lengths.windows(4).all(|four| four.contains(&64)));
}
