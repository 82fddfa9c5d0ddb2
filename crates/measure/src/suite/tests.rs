//! The suites find what a switch is configured to be.

use super::super::dut::tests::{options, switch};
use super::super::dut::{FrameSize, Pattern, VirtualDut};
use super::super::result::BenchResult;
use super::super::{rfc2544, rfc2889, rfc8239};
use super::*;
use xoff_telemetry::failure::Exit;

/// Cells, and with them frames of 64 octets, that a queue or a priority group of the test switch takes.
const LIMIT: f64 = 1_000.0;

fn with(
    ports: usize,
    class: u8,
    pattern: Pattern,
    bytes: u32,
    tests: impl FnOnce(&mut Suite<'_, VirtualDut>),
) -> BenchResult {
    let mut config = switch(ports, 100_000, 4_000);
    config.fdb_entries_max = 100;
    let mut dut = VirtualDut::new(&config, options(ports, class)).unwrap();
    let mut result = BenchResult::new("test", "test", 0);
    let sizes = vec![FrameSize::Fixed(bytes)];
    tests(&mut Suite::new(&mut dut, sizes, pattern, 1 << 16, &mut result));
    assert_eq!(result.tainted, Vec::<String>::new());
    result
}

fn value(result: &BenchResult, name: &str) -> f64 {
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

fn near(found: f64, expected: f64, by: f64) {
    assert!((found - expected).abs() <= by, "{found}, not {expected}");
}

#[test]
fn buffers_are_as_large_as_queues_may_be() {
    let result = with(6, 0, Pattern::Pairs, 64, |suite| {
        rfc8239::run(suite, rfc8239::Test::Buffer).unwrap()
    });
    for name in [
        "64/buffer/two-to-one",
        "64/buffer/each-port",
        "64/buffer/all-to-one",
    ] {
        near(value(&result, name), LIMIT * 64.0, 64.0 * 12.0);
    }
    assert_eq!(result.figure("64/buffer/each-port").unwrap().samples.len(), 6);
    near(
        value(&result, "64/buffer/two-ports"),
        2.0 * LIMIT * 64.0,
        64.0 * 12.0,
    );
}

#[test]
fn bursts_fill_the_queues_of_their_receivers() {
    let result = with(3, 0, Pattern::ManyToOne, 64, |suite| {
        rfc8239::run(suite, rfc8239::Test::Microburst).unwrap();
        rfc2544::run(suite, rfc2544::Test::B2b).unwrap();
    });
    // While two frames come one leaves.
    near(value(&result, "64/microburst/2-to-1/frames"), LIMIT, 3.0);
    near(value(&result, "64/back-to-back/frames"), LIMIT, 3.0);
    // 1000 frames of 6.72 ns, half of which is what left meanwhile.
    near(
        value(&result, "64/back-to-back/buffer-time"),
        LIMIT * 6.72 / 2.0,
        40.0,
    );
}

#[test]
fn an_innocent_stream_loses_nothing_and_an_overload_is_paused_where_it_is_lossless() {
    let of = |class| {
        with(4, class, Pattern::Pairs, 1_082, |suite| {
            rfc8239::run(suite, rfc8239::Test::Hol).unwrap();
            rfc2889::run(suite, rfc2889::Test::Congestion).unwrap();
        })
    };
    let lossy = of(0);
    for name in ["head-of-line", "congestion"] {
        assert_eq!(value(&lossy, &format!("1082/{name}/innocent-lost")), 0.0);
        // The last frame of a trial may find its port busy.
        near(
            value(&lossy, &format!("1082/{name}/innocent-withheld")),
            0.0,
            0.01,
        );
        assert_eq!(value(&lossy, &format!("1082/{name}/pauses")), 0.0);
    }
    let lossless = of(3);
    assert_eq!(value(&lossless, "1082/head-of-line/innocent-lost"), 0.0);
    assert_eq!(
        lossless.figure("1082/head-of-line/pauses").unwrap().samples.len(),
        4
    );
    assert!(value(&lossless, "1082/congestion/pauses") > 0.0);
}

#[test]
fn loss_is_what_exceeds_the_receivers_link_and_ends_after_the_overload() {
    let result = with(3, 0, Pattern::ManyToOne, 64, |suite| {
        for test in [
            rfc2544::Test::Throughput,
            rfc2544::Test::Loss,
            rfc2544::Test::Recovery,
        ] {
            rfc2544::run(suite, test).unwrap();
        }
    });
    near(value(&result, "64/throughput/share"), 50.0, 0.3);
    // 10 000 frames at 100 % of either sender, of which half and the queue's 1000 come through.
    near(
        value(&result, "64/load-100/lost"),
        100.0 * (1.0 - 11_000.0 / 20_000.0),
        0.1,
    );
    assert_eq!(value(&result, "64/load-50/lost"), 0.0);
    assert_eq!(value(&result, "64/load-40/lost"), 0.0);
    assert!(result.figure("64/load-30/lost").is_none());
    // At half of the throughput nothing is lost once the queue has begun to fall.
    assert!(value(&result, "64/recovery/last-lost") < 100.0);
}

#[test]
fn latency_between_last_bit_and_first_bit_is_a_preamble_in_an_empty_switch() {
    let result = with(2, 0, Pattern::OneWay, 1_082, |suite| {
        rfc2544::run(suite, rfc2544::Test::Latency).unwrap();
        rfc8239::run(suite, rfc8239::Test::Linerate).unwrap();
    });
    near(value(&result, "1082/latency/last-in-first-out"), 0.64, 1e-6);
    near(
        value(&result, "1082/latency/first-in-last-out"),
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
    assert_eq!(value(&result, "1082/line-rate/pairs/lost"), 0.0);
    near(value(&result, "1082/line-rate/pairs/jitter"), 0.0, 1e-6);
}

#[test]
fn a_switch_knows_as_many_stations_as_its_table_holds() {
    let result = with(3, 0, Pattern::Pairs, 64, |suite| {
        rfc2889::run(suite, rfc2889::Test::AddrCache).unwrap()
    });
    // 100, of which two are those of the other ports.
    assert_eq!(value(&result, "address-cache/stations"), 98.0);
}

#[test]
fn patterns_carry_what_their_links_allow() {
    let result = with(4, 0, Pattern::ManyToOne, 256, |suite| {
        for test in [
            rfc2889::Test::Many2one,
            rfc2889::Test::One2many,
            rfc2889::Test::Broadcast,
        ] {
            rfc2889::run(suite, test).unwrap();
        }
    });
    near(value(&result, "256/many2one/throughput/share"), 100.0 / 3.0, 0.2);
    assert_eq!(value(&result, "256/one2many/throughput/share"), 100.0);
    assert_eq!(value(&result, "256/broadcast/throughput/share"), 100.0);
}

#[test]
fn what_is_not_measured_is_refused_by_name() {
    with(2, 0, Pattern::Pairs, 64, |suite| {
        let refusals = [
            rfc2544::run(suite, rfc2544::Test::Reset).unwrap_err(),
            rfc2889::run(suite, rfc2889::Test::ForwardPressure).unwrap_err(),
            rfc2889::run(suite, rfc2889::Test::Congestion).unwrap_err(),
            rfc8239::run(suite, rfc8239::Test::Incast).unwrap_err(),
            rfc8239::run(suite, rfc8239::Test::Buffer).unwrap_err(),
        ];
        assert!(
            refusals
                .iter()
                .all(|refusal| refusal.exit == Exit::Usage && refusal.why.is_some())
        );
    });
}
