//! Two flows on one link. The result of each algorithm is compared with its theory.

use xoff_units::Picos;

use super::super::{Algorithm, CongestionConfig};
use super::bottleneck::{Link, LinkUsage, Marking, PACKET_BYTES, RTT, run, run_messages};

/// The second flow starts when the first has used the link alone for some time.
const STARTS: [Picos; 2] = [Picos::ZERO, Picos::from_millis(2)];
/// Long enough for thousands of round trips or hundreds of DCQCN increases.
const LENGTH: Picos = Picos::from_millis(400);
const LINE_BPS: u64 = 10_000_000_000;
/// Marking of the HPCC model at 10 Gb/s.
const RED: Marking = Marking::Red {
    min: 40_000,
    max: 160_000,
    probability: 0.2,
};

fn two_flows(choice: &CongestionConfig, marking: Marking, length: Picos) -> LinkUsage {
    run(choice, Link::new(LINE_BPS, marking), &STARTS, length)
}

/// Returns the bytes that the link sends in a time.
fn bytes_in(time: Picos) -> f64 {
    time.0 as f64 * LINE_BPS as f64 / 8e12
}

#[test]
fn without_congestion_control_the_queue_grows_by_the_excess() {
    let outcome = two_flows(
        &CongestionConfig::new(Algorithm::None),
        RED,
        Picos::from_millis(5),
    );
    // The line rate of the second flow for 3 ms.
    let excess = bytes_in(Picos::from_millis(3));
    assert!(
        (outcome.queue_max as f64 - excess).abs() <= 4.0 * PACKET_BYTES as f64,
        "{outcome:?}"
    );
    assert!(outcome.utilisation() > 0.999, "{outcome:?}");
}

#[test]
fn a_fixed_window_of_a_round_trip_each_bounds_the_queue() {
    let window = bytes_in(RTT);
    let choice = CongestionConfig::new(Algorithm::None).with_parameter("window_bytes", window.trunc());
    let outcome = two_flows(&choice, RED, Picos::from_millis(20));
    // Both windows minus the data in flight on the link.
    assert!(
        (outcome.queue_mean - window).abs() <= 2.0 * PACKET_BYTES as f64,
        "{outcome:?}"
    );
    assert!(
        outcome.utilisation() > 0.999 && outcome.rate_ratio() > 0.95,
        "{outcome:?}"
    );
}

#[test]
fn dcqcn_shares_the_link_with_a_short_queue() {
    let nic = CongestionConfig::new(Algorithm::DcqcnNic);
    let choices = [
        CongestionConfig::new(Algorithm::Dcqcn),
        nic.clone(),
        nic.clone().with_parameter("preset", "hpcc-ns3"),
        nic.with_parameter("preset", "conweave-ns3"),
    ];
    for choice in choices {
        let outcome = two_flows(&choice, RED, LENGTH);
        assert!(outcome.rate_ratio() > 0.9, "{choice:?}: {outcome:?}");
        assert!(outcome.utilisation() > 0.98, "{choice:?}: {outcome:?}");
        // Two flows need few marks. The queue stays in the range with few marks and never reaches the range
        // with all packets marked.
        assert!(
            (20_000.0..60_000.0).contains(&outcome.queue_mean),
            "{choice:?}: {outcome:?}"
        );
        assert!(outcome.queue_max < 160_000, "{choice:?}: {outcome:?}");
    }
}

/// Eight senders of 10 MB to one host, at 100 Gb/s, with marks above 400 KB. This is the scenario
/// `incast8_dcqcn_step` of the public HPCC model for ns-3, in which the flows take 8.21 to 8.32 ms. Without
/// congestion control they would take 6.7 ms.
#[test]
fn dcqcn_nic_has_the_completion_times_of_the_hpcc_model() {
    let link = Link {
        line_bps: 100_000_000_000,
        // Four times 1 us, two packets of 83 ns and two acknowledgements of 4 ns.
        rtt: Picos::from_nanos(4_174),
        packet_bytes: 1048,
        marking: Marking::Step(400_000),
    };
    let choice = CongestionConfig::new(Algorithm::DcqcnNic).with_parameter("preset", "hpcc-ns3");
    let outcome = run_messages(
        &choice,
        link,
        &[Picos::ZERO; 8],
        10_480_000,
        Picos::from_millis(20),
    );
    let mean_ms = outcome
        .finished
        .iter()
        .map(|at| at.as_nanos() as f64 / 1e6)
        .sum::<f64>()
        / 8.0;
    assert!((mean_ms / 8.268 - 1.0).abs() < 0.02, "{outcome:?}");
}

#[test]
fn dctcp_keeps_the_queue_at_the_threshold() {
    // More than a seventh of the bandwidth-delay product, as the paper requires.
    let threshold = 20_000;
    let outcome = two_flows(
        &CongestionConfig::new(Algorithm::Dctcp),
        Marking::Step(threshold),
        Picos::from_millis(100),
    );
    assert!(
        outcome.utilisation() > 0.995 && outcome.rate_ratio() > 0.97,
        "{outcome:?}"
    );
    // Each window is one packet too large at the mark and then decreases by a fraction of a packet.
    let packets = (outcome.queue_mean - threshold as f64) / PACKET_BYTES as f64;
    assert!((-4.0..4.0).contains(&packets), "{outcome:?}");
    assert!(outcome.queue_max <= threshold + 4 * PACKET_BYTES, "{outcome:?}");
}

#[test]
fn timely_keeps_the_round_trip_in_its_thresholds() {
    let outcome = two_flows(&CongestionConfig::new(Algorithm::Timely), RED, LENGTH);
    assert!(outcome.utilisation() > 0.8, "{outcome:?}");
    // The rate increases below 50 us for every gradient, so the queue reaches this value. Far above 50 us the
    // rate decreases.
    let low = bytes_in(Picos::from_micros(50) - RTT);
    let high = bytes_in(Picos::from_micros(500) - RTT);
    assert!(
        outcome.queue_max as f64 > low && (outcome.queue_max as f64) < high,
        "{outcome:?}"
    );
    assert!(outcome.queue_mean < 1.5 * low, "{outcome:?}");
}

#[test]
fn swift_keeps_the_round_trip_at_the_target_of_its_window() {
    let outcome = two_flows(
        &CongestionConfig::new(Algorithm::Swift),
        RED,
        Picos::from_millis(100),
    );
    assert!(
        outcome.utilisation() > 0.999 && outcome.rate_ratio() > 0.97,
        "{outcome:?}"
    );
    // The default target is twice 10 us plus 16 packets of 800 ns. Both windows limit the queue and the
    // round-trip time.
    let base_us = 32.8;
    let packets = (outcome.queue_mean + bytes_in(RTT)) / 2.0 / PACKET_BYTES as f64;
    let scaling_us = 5.0 * base_us * (1.0 / packets.sqrt() - 0.1) / (10.0_f64.sqrt() - 0.1);
    let expected = (base_us + scaling_us - 10.0) * LINE_BPS as f64 / 8e6;
    assert!(
        (outcome.queue_mean - expected).abs() < 2.0 * PACKET_BYTES as f64,
        "{expected} {outcome:?}"
    );
}

#[test]
fn hpcc_reaches_its_target_utilisation_without_a_queue() {
    // 125 packets per round trip: a sixth of the share that eta leaves free, and the increase of the model.
    for w_ai in [500.0, 50.0] {
        let choice = CongestionConfig::new(Algorithm::Hpcc).with_parameter("w_ai_bytes", w_ai);
        let link = Link::new(100_000_000_000, Marking::Step(u64::MAX));
        let outcome = run(&choice, link, &STARTS, Picos::from_millis(20));
        assert!(outcome.rate_ratio() > 0.95, "{outcome:?}");
        // W = W / (U / eta) + W_AI, with half of 125 000 bytes each.
        let expected = 0.95 / (1.0 - w_ai / 62_500.0);
        assert!(
            (outcome.utilisation() - expected).abs() < 0.005,
            "{expected} {outcome:?}"
        );
        assert!(outcome.queue_max <= 4 * PACKET_BYTES, "{outcome:?}");
    }
}
