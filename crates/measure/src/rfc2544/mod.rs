//! `xoff bench rfc2544`: the benchmarks of RFC 2544 section 26. The back-to-back benchmark follows RFC 9004.
//!
//! A lossless traffic class loses no frames if its senders honour pauses. For such a class, each benchmark
//! counts paused time as loss.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Dut, FrameSize, LostFrame, TrafficStream};
use super::latency;
use super::result::ImprovementDirection;
use super::suite::{BenchmarkSuite, unsupported_test_failure};
use xoff_telemetry::failure::Failure;

/// Repetitions of a latency measurement (RFC 2544 section 26.2).
const LATENCY_REPETITIONS: u64 = 20;
/// Step of the loss curve in percent of the line rate.
const LOSS_STEP_PERCENT: u32 = 10;
/// Load of the overload in the recovery benchmark, as a multiple of the throughput.
const OVERLOAD_FACTOR: f64 = 1.1;
/// Load after the overload in the recovery benchmark, as a multiple of the throughput.
const LOAD_AFTER_OVERLOAD: f64 = 0.5;

named_choices! {
    /// A benchmark of RFC 2544.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rfc2544Test {
        Throughput = "throughput": "26.1: the highest rate without loss",
        Latency = "latency": "26.2: at that rate",
        Loss = "loss": "26.3: loss from 100 % of the line rate down in steps of 10 %",
        B2b = "b2b": "26.4, RFC 9004: the longest burst without loss, and the buffer time that follows",
        Recovery = "recovery": "26.5: from the end of an overload to the last frame lost",
        Reset = "reset": "26.6: time without forwarding after a restart; not measured",
    }
}

impl Rfc2544Test {
    /// The benchmarks that xoff measures: all except [`Rfc2544Test::Reset`].
    pub const ALL: [Rfc2544Test; 5] = [
        Rfc2544Test::Throughput,
        Rfc2544Test::Latency,
        Rfc2544Test::Loss,
        Rfc2544Test::B2b,
        Rfc2544Test::Recovery,
    ];
}

/// Checks that xoff measures a benchmark. The number of ports is ignored.
///
/// # Errors
/// xoff does not measure the benchmark.
pub fn check_test(test: Rfc2544Test, _ports: usize) -> Result<(), Failure> {
    match test {
        Rfc2544Test::Reset => Err(unsupported_test_failure(
            "reset",
            "a switch in virtual time needs no time to start",
        )),
        _ => Ok(()),
    }
}

/// Measures one benchmark for all frame sizes and adds the measured quantities (figures) to the result
/// of `suite`.
///
/// # Errors
/// xoff does not measure the benchmark ([`check_test`]), a trial fails ([`Dut::run`]), or frames are lost at
/// every load.
pub fn run_test<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, test: Rfc2544Test) -> Result<(), Failure> {
    check_test(test, suite.dut.ports().len())?;
    for size in suite.sizes.clone() {
        match test {
            Rfc2544Test::Throughput => measure_throughput(suite, size)?,
            Rfc2544Test::Latency => measure_latency(suite, size)?,
            Rfc2544Test::Loss => measure_loss_curve(suite, size)?,
            Rfc2544Test::B2b => measure_back_to_back(suite, size)?,
            Rfc2544Test::Recovery => measure_recovery(suite, size)?,
            Rfc2544Test::Reset => {}
        }
    }
    Ok(())
}

fn measure_throughput<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let throughput = suite.measure_throughput(suite.pattern, size)?;
    suite.add_throughput(&format!("{}/throughput", size.name()), throughput);
    Ok(())
}

/// Measures two latencies:
///
/// - the time from the last bit into the device to the first bit out of the device, as for store-and-forward
///   devices (RFC 1242 section 3.8) - the time from the first bit sent to the last bit received
fn measure_latency<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let share = suite.measure_throughput(suite.pattern, size)?.share;
    let duration = suite.trial_duration(suite.pattern, size);
    let mut all_latencies = super::dut::LatencyHistogram::default();
    let mut means = Vec::new();
    for _ in 0..LATENCY_REPETITIONS {
        let streams = suite
            .pattern
            .streams(suite.dut.ports().len(), size, share, duration);
        let outcome = suite.run_with_new_phases(streams, duration)?;
        let latencies = outcome.all_latencies();
        means.push(latencies.mean_ns());
        all_latencies.merge(&latencies);
    }
    let prefix = format!("{}/latency", size.name());
    if let (FrameSize::Fixed(bytes), true) = (size, has_equal_links(suite.dut)) {
        let serialisation = suite.dut.ports()[0].link.duration(bytes).0 as f64 / 1e3;
        let between = means.iter().map(|mean| mean - 2.0 * serialisation).collect();
        suite.add_samples(
            format!("{prefix}/last-in-first-out"),
            "ns",
            ImprovementDirection::Smaller,
            between,
        );
    }
    suite.add_samples(
        format!("{prefix}/first-in-last-out"),
        "ns",
        ImprovementDirection::Smaller,
        means,
    );
    suite
        .result
        .figures
        .extend(latency::latency_figures(&prefix, &all_latencies));
    Ok(())
}

fn has_equal_links(dut: &impl Dut) -> bool {
    dut.ports().windows(2).all(|two| two[0].link == two[1].link)
}

fn measure_loss_curve<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let duration = suite.trial_duration(suite.pattern, size);
    let ports = suite.dut.ports().len();
    let mut loss_free_trials = 0;
    for percent in (1..=100 / LOSS_STEP_PERCENT)
        .rev()
        .map(|step| step * LOSS_STEP_PERCENT)
    {
        let streams = suite
            .pattern
            .streams(ports, size, f64::from(percent) / 100.0, duration);
        let outcome = suite.run_with_new_phases(streams, duration)?;
        suite.add_loss_figures(&format!("{}/load-{percent}", size.name()), &outcome);
        // Two successive trials without loss end the curve.
        loss_free_trials = if suite.is_loss_free(&outcome) {
            loss_free_trials + 1
        } else {
            0
        };
        if loss_free_trials == 2 {
            break;
        }
    }
    Ok(())
}

/// Measures the longest burst without loss. The buffer time is corrected for the frames that leave the device
/// during the burst (RFC 9004 section 6).
fn measure_back_to_back<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    let pairs = suite.pattern.sender_receiver_loads(ports);
    let burst = |frames: u64| -> Vec<TrafficStream> {
        pairs
            .iter()
            .map(|(from, to, load_share)| TrafficStream {
                share: *load_share,
                ..TrafficStream::burst(*from, *to, size, frames)
            })
            .collect()
    };
    let (frames, is_limited) = suite.find_longest_burst(burst)?;
    let prefix = format!("{}/back-to-back", size.name());
    suite.add_figure(
        format!("{prefix}/frames"),
        "frames",
        ImprovementDirection::Bigger,
        frames as f64,
    );
    if is_limited {
        suite.note_burst_limit(&prefix);
        return Ok(());
    }
    let share = suite.measure_throughput(suite.pattern, size)?.share;
    let line = size.line_rate_fps(&suite.dut.ports()[0].link);
    let implied = frames as f64 / line * 1e9;
    suite.add_figure(
        format!("{prefix}/buffer-time"),
        "ns",
        ImprovementDirection::Bigger,
        implied * (1.0 - share),
    );
    Ok(())
}

fn measure_recovery<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let throughput = suite.measure_throughput(suite.pattern, size)?.share;
    let overload = (throughput * OVERLOAD_FACTOR).min(1.0);
    let overload_duration = suite.trial_duration(suite.pattern, size);
    let total_duration = Picos(overload_duration.0 * 2);
    let ports = suite.dut.ports().len();
    let heavy = suite.pattern.streams(ports, size, overload, overload_duration);
    let light = suite
        .pattern
        .streams(ports, size, throughput * LOAD_AFTER_OVERLOAD, total_duration);
    let light = light.into_iter().map(|stream| TrafficStream {
        start: overload_duration,
        ..stream
    });
    let outcome = suite.run_simultaneously(heavy.into_iter().chain(light).collect(), total_duration)?;
    let since_overload = |at: Option<Picos>| at.map_or(0, |at| at.since(overload_duration).0) as f64 / 1e3;
    let lost: Option<LostFrame> = outcome
        .streams
        .iter()
        .filter_map(|s| s.last_lost)
        .max_by_key(|frame| frame.sent_at);
    let prefix = format!("{}/recovery", size.name());
    suite.add_figure(
        format!("{prefix}/last-lost"),
        "ns",
        ImprovementDirection::Smaller,
        since_overload(lost.map(|frame| frame.sent_at)),
    );
    if suite.dut.is_lossless() {
        let xoff = outcome.ports.iter().filter_map(|port| port.last_xoff).max();
        suite.add_figure(
            format!("{prefix}/last-pause"),
            "ns",
            ImprovementDirection::Smaller,
            since_overload(xoff),
        );
    }
    if lost.is_none() && outcome.ports.iter().all(|port| port.xoff_frames == 0) {
        suite.result.notes.push(format!(
            "{prefix}: the device buffered an overload of {:.1} % of the line rate for {} us",
            overload * 100.0,
            overload_duration.0 / 1_000_000
        ));
    }
    Ok(())
}
