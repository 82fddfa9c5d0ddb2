//! `xoff bench rfc2889`: the benchmarks of RFC 2889 for LAN switches.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Dut, FrameSize, StreamDestination, TrafficPattern, TrafficStream, Trial};
use super::latency;
use super::result::ImprovementDirection;
use super::rfc8239::VictimFlow;
use super::suite::{BenchmarkSuite, Throughput, unsupported_test_failure};
use xoff_telemetry::failure::{Exit, Failure};

/// Step between two loads in the search for the largest forwarding rate, as a share of the line rate.
const LOAD_STEP: f64 = 0.05;
/// Largest number of addresses that is tried. RFC 2889 sets no limit.
const ADDRESSES_MAX: u32 = 1 << 20;

named_choices! {
    /// A benchmark of RFC 2889.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rfc2889Test {
        Mesh = "mesh": "5.1: every port to all others",
        One2many = "one2many": "5.2: one port to all others",
        Many2one = "many2one": "5.2: all ports to one",
        Congestion = "congestion": "5.5: effect of an overloaded port on a port without overload; pauses",
        ForwardPressure = "forward-pressure": "5.6: whether gaps are shortened under overload; not measured",
        MaxFwd = "max-fwd": "5.3: the largest forwarding rate",
        AddrCache = "addr-cache": "5.7: number of addresses that the device can store",
        AddrRate = "addr-rate": "5.8: rate of address learning; not measured",
        Errored = "errored": "5.9: errored frames; not measured",
        Broadcast = "broadcast": "5.10, 5.11: broadcasts",
    }
}

impl Rfc2889Test {
    /// The benchmarks that xoff measures. [`check_test`] refuses the other benchmarks.
    pub const ALL: [Rfc2889Test; 7] = [
        Rfc2889Test::Mesh,
        Rfc2889Test::One2many,
        Rfc2889Test::Many2one,
        Rfc2889Test::Congestion,
        Rfc2889Test::MaxFwd,
        Rfc2889Test::AddrCache,
        Rfc2889Test::Broadcast,
    ];

    fn min_port_count(self) -> usize {
        match self {
            Rfc2889Test::Congestion => 4,
            Rfc2889Test::Broadcast | Rfc2889Test::MaxFwd | Rfc2889Test::Mesh => 2,
            _ => 3,
        }
    }
}

/// Checks that xoff measures a benchmark, and that the tester has enough ports.
///
/// # Errors
/// xoff does not measure the benchmark, or the benchmark needs more than `port_count` ports.
pub fn check_test(test: Rfc2889Test, port_count: usize) -> Result<(), Failure> {
    let name = test.name();
    match test {
        Rfc2889Test::ForwardPressure => {
            return Err(unsupported_test_failure(
                name,
                "a tester in virtual time sends no gap shorter than Ethernet's",
            ));
        }
        Rfc2889Test::AddrRate => {
            return Err(unsupported_test_failure(
                name,
                "a switch in virtual time learns as fast as frames arrive",
            ));
        }
        Rfc2889Test::Errored => {
            return Err(unsupported_test_failure(
                name,
                "a tester in virtual time sends no broken frames",
            ));
        }
        _ => {}
    }
    if port_count < test.min_port_count() {
        let why = format!(
            "it needs {} ports, and there are {port_count}",
            test.min_port_count()
        );
        return Err(unsupported_test_failure(name, &why));
    }
    Ok(())
}

/// Measures one benchmark for all frame sizes and adds the measured quantities (figures) to the result of
/// `suite`. The benchmark `addr-cache` uses only frames of 64 bytes.
///
/// # Errors
/// The errors of [`check_test`] and [`Dut::run`]. Also fails if frames are lost at every load, or if the
/// address table of the device cannot be cleared for `addr-cache`.
pub fn run_test<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, test: Rfc2889Test) -> Result<(), Failure> {
    check_test(test, suite.dut.ports().len())?;
    let name = test.name();
    if test == Rfc2889Test::AddrCache {
        return measure_address_cache(suite);
    }
    for size in suite.sizes.clone() {
        match test {
            Rfc2889Test::One2many => measure_forwarding(suite, size, TrafficPattern::OneToMany, name)?,
            Rfc2889Test::Many2one => measure_forwarding(suite, size, TrafficPattern::ManyToOne, name)?,
            Rfc2889Test::Congestion => {
                let mut victim = VictimFlow::default();
                victim.measure(suite, size, [0, 1, 2, 3])?;
                victim.add_figures(suite, &format!("{}/{name}", size.name()));
            }
            Rfc2889Test::MaxFwd => measure_max_forwarding(suite, size)?,
            Rfc2889Test::Broadcast => measure_broadcast(suite, size)?,
            _ => measure_forwarding(suite, size, TrafficPattern::Mesh, name)?,
        }
    }
    Ok(())
}

/// Measures three values of a pattern: its throughput, and at the largest load the loss and the forwarding
/// rate (RFC 2285 section 3.6.2).
fn measure_forwarding<D: Dut>(
    suite: &mut BenchmarkSuite<'_, D>,
    size: FrameSize,
    pattern: TrafficPattern,
    name: &str,
) -> Result<(), Failure> {
    let prefix = format!("{}/{name}", size.name());
    let throughput = suite.measure_throughput(pattern, size)?;
    suite.add_throughput(&format!("{prefix}/throughput"), throughput);
    let duration = suite.trial_duration(pattern, size);
    let streams = pattern.streams(suite.dut.ports().len(), size, 1.0, duration);
    let outcome = suite.run_with_new_phases(streams, duration)?;
    let prefix = format!("{prefix}/full-load");
    suite.add_figure(
        format!("{prefix}/forwarded"),
        "frames/s",
        ImprovementDirection::Bigger,
        outcome.forwarded_fps(),
    );
    suite.add_loss_figures(&prefix, &outcome);
    Ok(())
}

/// Measures the largest forwarding rate over several loads, from the throughput to the line rate (RFC 2285
/// section 3.6.3).
fn measure_max_forwarding<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let pattern = suite.pattern;
    let throughput = suite.measure_throughput(pattern, size)?.share;
    let duration = suite.trial_duration(pattern, size);
    let ports = suite.dut.ports().len();
    let steps = (0..)
        .map(|step| throughput + f64::from(step) * LOAD_STEP)
        .take_while(|share| *share < 1.0);
    let mut best = (0.0, 0.0);
    for share in steps.chain([1.0]).collect::<Vec<_>>() {
        let outcome = suite.run_with_new_phases(pattern.streams(ports, size, share, duration), duration)?;
        if outcome.forwarded_fps() > best.0 {
            best = (outcome.forwarded_fps(), share);
        }
    }
    let prefix = format!("{}/max-forwarding", size.name());
    suite.add_figure(
        format!("{prefix}/rate"),
        "frames/s",
        ImprovementDirection::Bigger,
        best.0,
    );
    suite.add_figure(
        format!("{prefix}/offered"),
        "percent",
        ImprovementDirection::Bigger,
        best.1 * 100.0,
    );
    Ok(())
}

/// Measures broadcasts from the first port to all other ports.
fn measure_broadcast<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let stream = |share, duration| TrafficStream {
        to: StreamDestination::Broadcast,
        ..TrafficStream::at_constant_rate(0, 1, size, share, duration)
    };
    let goal = suite.loss_free_goal(TrafficPattern::OneToMany, size);
    let bounds = suite.find_load(goal, |share, duration, number| Trial {
        streams: vec![stream(share, duration)],
        duration,
        phases: Some(number),
    })?;
    let share = bounds.lower.unwrap_or(0.0);
    let fps = size.line_rate_fps(&suite.dut.ports()[0].link) * share;
    let throughput = Throughput {
        fps,
        bps: fps * size.mean_bytes() * 8.0,
        share,
    };
    let prefix = format!("{}/broadcast", size.name());
    suite.add_throughput(&format!("{prefix}/throughput"), throughput);
    let outcome = suite.run_with_new_phases(vec![stream(share, goal.full)], goal.full)?;
    let latencies = outcome.all_latencies();
    suite
        .result
        .figures
        .extend(latency::latency_figures(&format!("{prefix}/latency"), &latencies));
    Ok(())
}

/// Measures how many station addresses the device can store. If the device does not know a station of the
/// second port, it floods the frames to this station. The third port detects the flooded frames.
fn measure_address_cache<D: Dut>(suite: &mut BenchmarkSuite<'_, D>) -> Result<(), Failure> {
    let (mut known, mut next) = (0, 1_024);
    let mut is_limited = false;
    while are_all_stations_known(suite, next)? {
        known = next;
        is_limited = next == ADDRESSES_MAX;
        if is_limited {
            break;
        }
        next = (next * 2).min(ADDRESSES_MAX);
    }
    while next - known > 1 && !is_limited {
        let middle = known + (next - known) / 2;
        match are_all_stations_known(suite, middle)? {
            true => known = middle,
            false => next = middle,
        }
    }
    if is_limited {
        suite.result.notes.push(format!(
            "address-cache: more than {ADDRESSES_MAX} addresses were not tried"
        ));
    }
    suite.add_figure(
        "address-cache/stations".to_owned(),
        "addresses",
        ImprovementDirection::Bigger,
        f64::from(known),
    );
    Ok(())
}

fn are_all_stations_known<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, stations: u32) -> Result<bool, Failure> {
    if !suite.dut.restart()? {
        return Err(Failure::new(
            Exit::Environment,
            "the address table of the device cannot be cleared",
        ));
    }
    let size = FrameSize::Fixed(64);
    // At a tenth of the line rate, no buffer fills.
    let share = 0.1;
    let one_frame_per_station = |from: usize, to: usize| TrafficStream {
        share,
        ..TrafficStream::burst(from, to, size, u64::from(stations))
    };
    let span = f64::from(stations) * 1e12 / (size.line_rate_fps(&suite.dut.ports()[0].link) * share);
    let duration = Picos(span as u64 + 1);
    let learning = TrafficStream {
        sources: stations,
        ..one_frame_per_station(1, 0)
    };
    suite.run_simultaneously(vec![learning], duration)?;
    let testing = TrafficStream {
        targets: stations,
        ..one_frame_per_station(0, 1)
    };
    let outcome = suite.run_simultaneously(vec![testing], duration)?;
    Ok(outcome.streams[0].stray == 0 && outcome.streams[0].lost_frames() == 0)
}
