//! Searches for rates that are known in advance.

use super::super::dut::{FrameSize, StreamResult, TesterPort, TrafficPattern, VirtualDut};
use super::*;
use crate::dut::tests::{dut_options, switch_config, virtual_dut};

fn find_all_rates(dut: &mut VirtualDut, pattern: TrafficPattern, size: FrameSize) -> MeasuredRates {
    let offer = OfferedTraffic {
        pattern,
        size,
        flows: 1,
    };
    let goals = TrialDurations::for_virtual_time(dut, pattern, size).ndr_and_pdr_goals();
    find_rates(dut, &offer, &goals, LOAD_MAX).unwrap()
}

#[test]
fn pairs_of_equal_ports_carry_the_line_rate() {
    for size in [FrameSize::Fixed(64), FrameSize::Imix] {
        let rates = find_all_rates(&mut virtual_dut(2, 0), TrafficPattern::Pairs, size);
        assert_eq!(
            (rates.bounds[0].lower, rates.bounds[0].upper),
            (Some(1.0), None),
            "{size:?}"
        );
    }
}

#[test]
fn many_to_one_carries_the_rate_of_one_link() {
    // The size of the buffer does not matter, because the growth of the backlog shows an overload.
    for (senders, cells, class) in [(2, 400, 0), (2, 4_000_000, 0), (2, 4_000, 3), (5, 4_000, 0)] {
        let config = switch_config(senders + 1, 100_000, cells);
        let mut dut = VirtualDut::new(&config, dut_options(senders + 1, class)).unwrap();
        let rates = find_all_rates(&mut dut, TrafficPattern::ManyToOne, FrameSize::Fixed(1_082));
        let (lower, upper) = (rates.bounds[0].lower.unwrap(), rates.bounds[0].upper.unwrap());
        let fair = 1.0 / senders as f64;
        // The noise of the backlog can hide an overload of 0.05 %.
        assert!(
            lower <= fair * 1.0015 && upper >= fair * 0.9995,
            "{senders}, {cells}: {lower} to {upper}"
        );
        assert!(upper - lower <= 0.005 * upper);
        let pdr = rates.bounds[1].lower.unwrap();
        assert!(pdr >= lower && pdr <= fair * 1.0065, "{senders}, {cells}: {pdr}");
    }
}

#[test]
fn senders_of_a_lossless_class_are_paused_at_full_load() {
    let rates = find_all_rates(
        &mut virtual_dut(3, 3),
        TrafficPattern::ManyToOne,
        FrameSize::Fixed(4_200),
    );
    // `paused_at_max` is the paused time of the sender that is paused longest. The priority groups decide how
    // the senders share the link.
    assert!(
        (0.45..0.9).contains(&rates.paused_at_max),
        "{}",
        rates.paused_at_max
    );
}

#[test]
fn figures_have_rate_bandwidth_and_share() {
    let mut dut = virtual_dut(2, 0);
    let offer = OfferedTraffic {
        pattern: TrafficPattern::OneWay,
        size: FrameSize::Fixed(1_082),
        flows: 1,
    };
    let goals = TrialDurations::for_virtual_time(&dut, offer.pattern, offer.size).ndr_and_pdr_goals();
    let rates = find_rates(&mut dut, &offer, &goals, LOAD_MAX).unwrap();
    let figures = rate_figures(&dut, &offer, &goals, &rates);
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().samples[0];
    // 100 Gb/s with 1102 bytes per frame.
    assert!((value("1082/ndr/rate") - 1e11 / (1_102.0 * 8.0)).abs() < 1.0);
    assert!((value("1082/ndr/bandwidth") - 100.0 * 1_082.0 / 1_102.0).abs() < 0.001);
    assert_eq!(value("1082/pdr/share"), 100.0);
}

#[test]
fn the_cable_delay_does_not_change_rates() {
    let rates_with_delay = |pattern, senders: usize, delay| {
        let mut options = dut_options(senders + 1, 0);
        options.delay = delay;
        let config = switch_config(senders + 1, 100_000, 400_000);
        let mut dut = VirtualDut::new(&config, options).unwrap();
        let rates = find_all_rates(&mut dut, pattern, FrameSize::Fixed(1_082));
        let bounds: Vec<_> = rates
            .bounds
            .iter()
            .map(|bounds| (bounds.lower, bounds.upper))
            .collect();
        (bounds, rates.at_max_fps)
    };
    // Trials last at least 0.9 ms. The delays are below half a trial, between half a trial and a whole trial,
    // and above a whole trial.
    for delay in [300, 700, 20_000].map(Picos::from_micros) {
        for (pattern, senders) in [(TrafficPattern::Pairs, 1), (TrafficPattern::ManyToOne, 2)] {
            assert_eq!(
                rates_with_delay(pattern, senders, delay),
                rates_with_delay(pattern, senders, Picos::ZERO),
                "{delay:?}"
            );
        }
    }
}

#[test]
fn overload_of_a_lossless_class_is_detected_with_any_cable_delay() {
    for delay in [300, 20_000].map(Picos::from_micros) {
        let mut options = dut_options(3, 3);
        options.delay = delay;
        let config = switch_config(3, 100_000, 4_000_000);
        let mut dut = VirtualDut::new(&config, options).unwrap();
        let rates = find_all_rates(&mut dut, TrafficPattern::ManyToOne, FrameSize::Fixed(1_082));
        let lower = rates.bounds[0].lower.unwrap();
        assert!((0.497..0.501).contains(&lower), "{delay:?}: {lower}");
    }
}

#[test]
fn trials_of_less_than_two_frames_are_refused_and_empty_trials_are_bad() {
    let mut dut = virtual_dut(2, 0);
    let offer = OfferedTraffic {
        pattern: TrafficPattern::Pairs,
        size: FrameSize::Fixed(64),
        flows: 1,
    };
    let goals = |nanos| {
        let time = Picos::from_nanos(nanos);
        let durations = TrialDurations {
            initial: time,
            full: time,
            sum: time,
        };
        durations.ndr_and_pdr_goals()
    };
    // A frame of 64 bytes takes 6.72 ns.
    for (nanos, load_max) in [(1, 1.0), (13, 1.0), (1_000, 0.01), (1_000_000, 1e-32)] {
        let refused = find_rates(&mut dut, &offer, &goals(nanos), load_max).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        let place = refused.location.unwrap();
        assert!(
            place.contains("--trial-duration") && place.contains("--load-max"),
            "{place}"
        );
    }
    assert_eq!(
        find_rates(&mut dut, &offer, &goals(14), 1.0).unwrap().bounds[0].lower,
        Some(1.0)
    );

    // The device forwards only loads so small that a trial has no frame. No load meets the goal, and the
    // search ends.
    let mut slow = ForwardingStub {
        passes: |share| share < 0.01,
        ..ForwardingStub::new()
    };
    let rates = find_rates(&mut slow, &offer, &goals(100), 1.0).unwrap();
    assert_eq!(rates.bounds[0].lower, None);
}

#[test]
fn a_device_that_forwards_nothing_receives_no_frame() {
    let offer = OfferedTraffic {
        pattern: TrafficPattern::OneWay,
        size: FrameSize::Fixed(64),
        flows: 1,
    };
    let mut silent = ForwardingStub {
        passes: |_| false,
        ..ForwardingStub::new()
    };
    let goals = TrialDurations::for_virtual_time(&silent, offer.pattern, offer.size).ndr_and_pdr_goals();
    assert_eq!(find_rates(&mut silent, &offer, &goals, 1.0).unwrap().received, 0);
    assert!(
        find_rates(&mut ForwardingStub::new(), &offer, &goals, 1.0)
            .unwrap()
            .received
            > 0
    );
    assert_eq!(no_frame_forwarded_failure().exit, Exit::Inconclusive);
}

/// A device that forwards all frames of a trial or none.
struct ForwardingStub {
    ports: Vec<TesterPort>,
    /// Decides from the share of a stream whether its frames pass.
    passes: fn(f64) -> bool,
}

impl ForwardingStub {
    fn new() -> ForwardingStub {
        ForwardingStub {
            ports: virtual_dut(2, 0).ports().to_vec(),
            passes: |_| true,
        }
    }
}

impl Dut for ForwardingStub {
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

    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure> {
        let streams = trial.streams.iter().map(|stream| {
            let line = stream.size.line_rate_fps(&self.ports[stream.from].link);
            let sent = (line * stream.share * trial.duration.0 as f64 / 1e12) as u64;
            let received = if (self.passes)(stream.share) { sent } else { 0 };
            StreamResult {
                wanted: sent,
                sent,
                expected: sent,
                received,
                received_in_time: received,
                ..StreamResult::default()
            }
        });
        Ok(TrialResult {
            streams: streams.collect(),
            duration: trial.duration,
            ..TrialResult::default()
        })
    }
}
