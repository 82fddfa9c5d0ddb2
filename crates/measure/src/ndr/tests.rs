//! Rates that are known beforehand.

use super::super::dut::{FrameSize, Pattern, StreamOutcome, TesterPort, VirtualDut};
use super::*;
use crate::dut::tests::{dut, options, switch};

fn rates(dut: &mut VirtualDut, pattern: Pattern, size: FrameSize) -> Rates {
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
        let mut dut = VirtualDut::new(&config, options(senders + 1, class)).unwrap();
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

#[test]
fn a_long_cable_changes_no_rate() {
    let of = |pattern, senders: usize, delay| {
        let mut options = options(senders + 1, 0);
        options.delay = delay;
        let config = switch(senders + 1, 100_000, 400_000);
        let mut dut = VirtualDut::new(&config, options).unwrap();
        let rates = rates(&mut dut, pattern, FrameSize::Fixed(1_082));
        let bounds: Vec<_> = rates
            .found
            .iter()
            .map(|found| (found.lower, found.upper))
            .collect();
        (bounds, rates.at_max_fps)
    };
    // Trials last 0.9 ms and more: within half a trial, beyond it, beyond the whole of it.
    for delay in [300, 700, 20_000].map(Picos::from_micros) {
        for (pattern, senders) in [(Pattern::Pairs, 1), (Pattern::ManyToOne, 2)] {
            assert_eq!(
                of(pattern, senders, delay),
                of(pattern, senders, Picos::ZERO),
                "{delay:?}"
            );
        }
    }
}

#[test]
fn an_overload_of_a_lossless_class_is_seen_behind_any_cable() {
    for delay in [300, 20_000].map(Picos::from_micros) {
        let mut options = options(3, 3);
        options.delay = delay;
        let config = switch(3, 100_000, 4_000_000);
        let mut dut = VirtualDut::new(&config, options).unwrap();
        let rates = rates(&mut dut, Pattern::ManyToOne, FrameSize::Fixed(1_082));
        let lower = rates.found[0].lower.unwrap();
        assert!((0.497..0.501).contains(&lower), "{delay:?}: {lower}");
    }
}

#[test]
fn trials_of_less_than_two_frames_are_refused_and_empty_ones_show_nothing() {
    let mut dut = dut(2, 0);
    let offer = Offer {
        pattern: Pattern::Pairs,
        size: FrameSize::Fixed(64),
        flows: 1,
    };
    let goals = |nanos| {
        let time = Picos::from_nanos(nanos);
        let durations = Durations {
            initial: time,
            full: time,
            sum: time,
        };
        durations.goals()
    };
    // A frame of 64 octets takes 6.72 ns.
    for (nanos, load_max) in [(1, 1.0), (13, 1.0), (1_000, 0.01), (1_000_000, 1e-32)] {
        let refused = find(&mut dut, &offer, &goals(nanos), load_max).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        let place = refused.place.unwrap();
        assert!(
            place.contains("--trial-duration") && place.contains("--load-max"),
            "{place}"
        );
    }
    assert_eq!(
        find(&mut dut, &offer, &goals(14), 1.0).unwrap().found[0].lower,
        Some(1.0)
    );

    // Too slow for the load at which a trial still has a frame: then none is good, and the search comes to its end.
    let mut slow = Wire {
        passes: |share| share < 0.01,
        ..Wire::new()
    };
    let rates = find(&mut slow, &offer, &goals(100), 1.0).unwrap();
    assert_eq!(rates.found[0].lower, None);
}

#[test]
fn a_device_that_forwards_nothing_is_told_from_a_slow_one() {
    let offer = Offer {
        pattern: Pattern::OneWay,
        size: FrameSize::Fixed(64),
        flows: 1,
    };
    let mut silent = Wire {
        passes: |_| false,
        ..Wire::new()
    };
    let goals = Durations::virtual_time(&silent, offer.pattern, offer.size).goals();
    assert_eq!(find(&mut silent, &offer, &goals, 1.0).unwrap().received, 0);
    assert!(find(&mut Wire::new(), &offer, &goals, 1.0).unwrap().received > 0);
    assert_eq!(nothing_came_out().exit, Exit::Inconclusive);
}

/// A device that passes all frames of a trial, or none.
struct Wire {
    ports: Vec<TesterPort>,
    /// By the share of a stream.
    passes: fn(f64) -> bool,
}

impl Wire {
    fn new() -> Wire {
        Wire {
            ports: dut(2, 0).ports().to_vec(),
            passes: |_| true,
        }
    }
}

impl Dut for Wire {
    fn ports(&self) -> &[TesterPort] {
        &self.ports
    }

    fn is_lossless(&self) -> bool {
        false
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn check(&self, _trial: &Trial) -> Result<(), Failure> {
        Ok(())
    }

    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        let streams = trial.streams.iter().map(|stream| {
            let line = stream.size.line_rate_fps(&self.ports[stream.from].link);
            let sent = (line * stream.share * trial.duration.0 as f64 / 1e12) as u64;
            let received = if (self.passes)(stream.share) { sent } else { 0 };
            StreamOutcome {
                wanted: sent,
                sent,
                expected: sent,
                received,
                received_in_time: received,
                ..StreamOutcome::default()
            }
        });
        Ok(Outcome {
            streams: streams.collect(),
            duration: trial.duration,
            ..Outcome::default()
        })
    }
}
