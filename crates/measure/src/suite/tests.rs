//! The suites measure the configured properties of a switch.

use super::super::dut::tests::{dut_options, switch_config};
use super::super::dut::{FrameSize, TrafficPattern, VirtualDut};
use super::super::result::BenchResult;
use super::super::{rfc2544, rfc2889, rfc8239};
use super::*;
use xoff_telemetry::failure::Exit;

/// Size limit of each queue and each priority group of the test switch, in cells. A frame of 64 bytes
/// occupies one cell.
const LIMIT: f64 = 1_000.0;

fn run_suite(
    port_count: usize,
    class: u8,
    pattern: TrafficPattern,
    bytes: u32,
    tests: impl FnOnce(&mut BenchmarkSuite<'_, VirtualDut>),
) -> BenchResult {
    let mut config = switch_config(port_count, 100_000, 4_000);
    config.fdb_entries_max = 100;
    let mut dut = VirtualDut::new(&config, dut_options(port_count, class)).unwrap();
    let mut result = BenchResult::new("test", "test", 0);
    let sizes = vec![FrameSize::Fixed(bytes)];
    tests(&mut BenchmarkSuite::new(
        &mut dut,
        sizes,
        pattern,
        1 << 16,
        &mut result,
    ));
    assert_eq!(result.tainted, Vec::<String>::new());
    result
}

fn figure_value(result: &BenchResult, name: &str) -> f64 {
    let names = || {
        result
            .figures
            .iter()
            .map(|figure| figure.name.clone())
            .collect::<Vec<_>>()
    };
    result
        .figure(name)
        .unwrap_or_else(|| panic!("{name} in {:?}", names()))
        .samples[0]
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found}, not {expected}");
}

#[test]
fn measured_buffers_equal_the_queue_limit() {
    let result = run_suite(6, 0, TrafficPattern::Pairs, 64, |suite| {
        rfc8239::run_test(suite, rfc8239::Rfc8239Test::Buffer).unwrap()
    });
    for name in [
        "64/buffer/two-to-one",
        "64/buffer/each-port",
        "64/buffer/all-to-one",
    ] {
        assert_near(figure_value(&result, name), LIMIT * 64.0, 64.0 * 12.0);
    }
    assert_eq!(result.figure("64/buffer/each-port").unwrap().samples.len(), 6);
    assert_near(
        figure_value(&result, "64/buffer/two-ports"),
        2.0 * LIMIT * 64.0,
        64.0 * 12.0,
    );
}

#[test]
fn the_longest_burst_fills_the_receiver_queue() {
    let result = run_suite(3, 0, TrafficPattern::ManyToOne, 64, |suite| {
        rfc8239::run_test(suite, rfc8239::Rfc8239Test::Microburst).unwrap();
        rfc2544::run_test(suite, rfc2544::Rfc2544Test::B2b).unwrap();
    });
    // One frame leaves while two arrive.
    assert_near(figure_value(&result, "64/microburst/2-to-1/frames"), LIMIT, 3.0);
    assert_near(figure_value(&result, "64/back-to-back/frames"), LIMIT, 3.0);
    // The burst lasts 1000 times 6.72 ns. Half of the frames leave during the burst, so the buffer time is
    // half of it.
    assert_near(
        figure_value(&result, "64/back-to-back/buffer-time"),
        LIMIT * 6.72 / 2.0,
        40.0,
    );
}

#[test]
fn a_victim_stream_loses_nothing_and_overload_of_a_lossless_class_is_paused() {
    let run_class = |class| {
        run_suite(4, class, TrafficPattern::Pairs, 1_082, |suite| {
            rfc8239::run_test(suite, rfc8239::Rfc8239Test::Hol).unwrap();
            rfc2889::run_test(suite, rfc2889::Rfc2889Test::Congestion).unwrap();
        })
    };
    let lossy = run_class(0);
    for name in ["head-of-line", "congestion"] {
        assert_eq!(figure_value(&lossy, &format!("1082/{name}/innocent-lost")), 0.0);
        // The last frame of a trial can find its port busy.
        assert_near(
            figure_value(&lossy, &format!("1082/{name}/innocent-withheld")),
            0.0,
            0.01,
        );
        assert_eq!(figure_value(&lossy, &format!("1082/{name}/pauses")), 0.0);
    }
    let lossless = run_class(3);
    assert_eq!(figure_value(&lossless, "1082/head-of-line/innocent-lost"), 0.0);
    assert_eq!(
        lossless.figure("1082/head-of-line/pauses").unwrap().samples.len(),
        4
    );
    assert!(figure_value(&lossless, "1082/congestion/pauses") > 0.0);
}

#[test]
fn loss_equals_the_excess_over_the_receiver_link_and_ends_after_the_overload() {
    let result = run_suite(3, 0, TrafficPattern::ManyToOne, 64, |suite| {
        for test in [
            rfc2544::Rfc2544Test::Throughput,
            rfc2544::Rfc2544Test::Loss,
            rfc2544::Rfc2544Test::Recovery,
        ] {
            rfc2544::run_test(suite, test).unwrap();
        }
    });
    assert_near(figure_value(&result, "64/throughput/share"), 50.0, 0.3);
    // Each sender sends 10 000 frames at 100 %. Half of all frames pass, and 1000 more frames wait in the
    // queue.
    assert_near(
        figure_value(&result, "64/load-100/lost"),
        100.0 * (1.0 - 11_000.0 / 20_000.0),
        0.1,
    );
    assert_eq!(figure_value(&result, "64/load-50/lost"), 0.0);
    assert_eq!(figure_value(&result, "64/load-40/lost"), 0.0);
    assert!(result.figure("64/load-30/lost").is_none());
    // At half of the throughput, the queue drains and nothing more is lost.
    assert!(figure_value(&result, "64/recovery/last-lost") < 100.0);
}

#[test]
fn last_in_first_out_latency_of_an_empty_switch_is_one_preamble() {
    let result = run_suite(2, 0, TrafficPattern::OneWay, 1_082, |suite| {
        rfc2544::run_test(suite, rfc2544::Rfc2544Test::Latency).unwrap();
        rfc8239::run_test(suite, rfc8239::Rfc8239Test::Linerate).unwrap();
    });
    assert_near(
        figure_value(&result, "1082/latency/last-in-first-out"),
        0.64,
        1e-6,
    );
    assert_near(
        figure_value(&result, "1082/latency/first-in-last-out"),
        2.0 * 86.56 + 0.64,
        1e-6,
    );
    assert_eq!(
        result
            .figure("1082/latency/first-in-last-out")
            .unwrap()
            .samples
            .len(),
        20
    );
    assert_eq!(figure_value(&result, "1082/line-rate/pairs/lost"), 0.0);
    assert_near(figure_value(&result, "1082/line-rate/pairs/jitter"), 0.0, 1e-6);
}

#[test]
fn the_address_cache_equals_the_size_of_the_address_table() {
    let result = run_suite(3, 0, TrafficPattern::Pairs, 64, |suite| {
        rfc2889::run_test(suite, rfc2889::Rfc2889Test::AddrCache).unwrap()
    });
    // The table has 100 entries. Two of them are the stations of the other ports.
    assert_eq!(figure_value(&result, "address-cache/stations"), 98.0);
}

#[test]
fn patterns_reach_the_rate_of_their_links() {
    let result = run_suite(4, 0, TrafficPattern::ManyToOne, 256, |suite| {
        for test in [
            rfc2889::Rfc2889Test::Many2one,
            rfc2889::Rfc2889Test::One2many,
            rfc2889::Rfc2889Test::Broadcast,
        ] {
            rfc2889::run_test(suite, test).unwrap();
        }
    });
    assert_near(
        figure_value(&result, "256/many2one/throughput/share"),
        100.0 / 3.0,
        0.2,
    );
    assert_eq!(figure_value(&result, "256/one2many/throughput/share"), 100.0);
    assert_eq!(figure_value(&result, "256/broadcast/throughput/share"), 100.0);
}

#[test]
fn tests_that_are_not_measured_are_refused_with_a_reason() {
    run_suite(2, 0, TrafficPattern::Pairs, 64, |suite| {
        let refusals = [
            rfc2544::run_test(suite, rfc2544::Rfc2544Test::Reset).unwrap_err(),
            rfc2889::run_test(suite, rfc2889::Rfc2889Test::ForwardPressure).unwrap_err(),
            rfc2889::run_test(suite, rfc2889::Rfc2889Test::Congestion).unwrap_err(),
            rfc8239::run_test(suite, rfc8239::Rfc8239Test::Incast).unwrap_err(),
            rfc8239::run_test(suite, rfc8239::Rfc8239Test::Buffer).unwrap_err(),
        ];
        assert!(
            refusals
                .iter()
                .all(|refusal| refusal.exit == Exit::Usage && refusal.why.is_some())
        );
    });
}
