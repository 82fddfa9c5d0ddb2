//! Rates that are known beforehand.

use super::super::dut::{FrameSize, Pattern, VirtualSwitch};
use super::*;
use crate::bench::dut::tests::{dut, options, switch};

fn rates(dut: &mut VirtualSwitch, pattern: Pattern, size: FrameSize) -> Rates {
    let offer = Offer {
        pattern,
        size,
        flows: 1,
    };
    let goals = Durations::virtual_time(dut, pattern, size).goals();
    find(dut, &offer, &goals, LOAD_MAX).unwrap()
}

#[test]
fn pairs_of_equal_ports_carry_the_line_rate() {
    for size in [FrameSize::Fixed(64), FrameSize::Imix] {
        let rates = rates(&mut dut(2, 0), Pattern::Pairs, size);
        assert_eq!(
            (rates.found[0].lower, rates.found[0].upper),
            (Some(1.0), None),
            "{size:?}"
        );
    }
}

#[test]
fn many_to_one_carries_one_links_rate() {
    // Buffers of any size, lossless or not: what counts is whether the load could go on.
    for (senders, cells, class) in [(2, 400, 0), (2, 4_000_000, 0), (2, 4_000, 3), (5, 4_000, 0)] {
        let config = switch(senders + 1, 100_000, cells);
        let mut dut = VirtualSwitch::new(&config, options(senders + 1, class)).unwrap();
        let rates = rates(&mut dut, Pattern::ManyToOne, FrameSize::Fixed(1_082));
        let (lower, upper) = (rates.found[0].lower.unwrap(), rates.found[0].upper.unwrap());
        let fair = 1.0 / senders as f64;
        // Half a per mille: what a backlog's noise may hide.
        assert!(
            lower <= fair * 1.0015 && upper >= fair * 0.9995,
            "{senders}, {cells}: {lower} to {upper}"
        );
        assert!(upper - lower <= 0.005 * upper);
        let pdr = rates.found[1].lower.unwrap();
        assert!(pdr >= lower && pdr <= fair * 1.0065, "{senders}, {cells}: {pdr}");
    }
}

#[test]
fn a_lossless_class_at_full_load_is_paused_half_of_the_time() {
    let rates = rates(&mut dut(3, 3), Pattern::ManyToOne, FrameSize::Fixed(4_200));
    // The one that is paused more; how they share the link is their groups' affair.
    assert!(
        (0.45..0.9).contains(&rates.paused_at_max),
        "{}",
        rates.paused_at_max
    );
}

#[test]
fn figures_say_rate_bandwidth_and_share() {
    let mut dut = dut(2, 0);
    let offer = Offer {
        pattern: Pattern::OneWay,
        size: FrameSize::Fixed(1_082),
        flows: 1,
    };
    let goals = Durations::virtual_time(&dut, offer.pattern, offer.size).goals();
    let rates = find(&mut dut, &offer, &goals, LOAD_MAX).unwrap();
    let figures = figures(&dut, &offer, &goals, &rates);
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().samples[0];
    // 100 Gb/s over 1102 octets a frame.
    assert!((value("1082/ndr/rate") - 1e11 / (1_102.0 * 8.0)).abs() < 1.0);
    assert!((value("1082/ndr/bandwidth") - 100.0 * 1_082.0 / 1_102.0).abs() < 0.001);
    assert_eq!(value("1082/pdr/share"), 100.0);
}
