//! `xoff bench rfc2544`: the benchmarks of RFC 2544, 26, with RFC 9004 for bursts.
//!
//! Where the class is lossless and its senders obey pauses, nothing is ever lost: then the time paused stands in place of the loss
//! of each definition.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Dut, FrameSize, Loss, Stream};
use super::latency;
use super::result::Better;
use super::suite::{Suite, refused};
use xoff_telemetry::failure::Failure;

/// Repetitions of a latency (RFC 2544, 26.2).
const LATENCY_REPETITIONS: u64 = 20;
/// Steps of the loss curve, in percent.
const LOSS_STEP: u32 = 10;
/// The overload of a recovery, and what follows it, in shares of the throughput.
const OVERLOAD: f64 = 1.1;
const RELIEF: f64 = 0.5;

named_choices! {
    /// A benchmark of RFC 2544.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Test {
        Throughput = "throughput": "26.1: the highest rate without loss",
        Latency = "latency": "26.2: at that rate",
        Loss = "loss": "26.3: loss from 100 % of the line rate down in steps of 10 %",
        B2b = "b2b": "26.4, RFC 9004: the longest burst without loss, and the buffer time that follows",
        Recovery = "recovery": "26.5: from the end of an overload to the last frame lost",
        Reset = "reset": "26.6: time without forwarding after a restart; not measured",
    }
}

impl Test {
    /// Those that are measured.
    pub const ALL: [Test; 5] = [
        Test::Throughput,
        Test::Latency,
        Test::Loss,
        Test::B2b,
        Test::Recovery,
    ];
}

/// Refuses a benchmark that is not measured.
///
/// # Errors
/// It is one.
pub fn check(test: Test, _ports: usize) -> Result<(), Failure> {
    match test {
        Test::Reset => Err(refused("reset", "a switch in virtual time starts in no time")),
        _ => Ok(()),
    }
}

/// Measures one benchmark for all sizes.
///
/// # Errors
/// As [`Dut::run`] and [`check`].
pub fn run<D: Dut>(suite: &mut Suite<'_, D>, test: Test) -> Result<(), Failure> {
    check(test, suite.dut.ports().len())?;
    for size in suite.sizes.clone() {
        match test {
            Test::Throughput => throughput(suite, size)?,
            Test::Latency => at_throughput(suite, size)?,
            Test::Loss => loss(suite, size)?,
            Test::B2b => back_to_back(suite, size)?,
            Test::Recovery => recovery(suite, size)?,
            Test::Reset => {}
        }
    }
    Ok(())
}

fn throughput<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let rate = suite.throughput(suite.pattern, size)?;
    suite.rate(&format!("{}/throughput", size.name()), rate);
    Ok(())
}

/// RFC 1242, 3.8, for devices that store and forward: from the last bit in to the first bit out. Beside it the whole way, from first
/// bit to last bit.
fn at_throughput<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let share = suite.throughput(suite.pattern, size)?.share;
    let duration = suite.trial_time(suite.pattern, size);
    let mut whole = super::dut::Latencies::default();
    let mut means = Vec::new();
    for _ in 0..LATENCY_REPETITIONS {
        let streams = suite
            .pattern
            .streams(suite.dut.ports().len(), size, share, duration);
        let outcome = suite.offer(streams, duration)?;
        let latencies = outcome.all_latencies();
        means.push(latencies.mean_ns());
        whole.absorb(&latencies);
    }
    let prefix = format!("{}/latency", size.name());
    if let (FrameSize::Fixed(bytes), true) = (size, equal_links(suite.dut)) {
        let serialisation = suite.dut.ports()[0].link.duration(bytes).0 as f64 / 1e3;
        let between = means.iter().map(|mean| mean - 2.0 * serialisation).collect();
        suite.figures(
            format!("{prefix}/last-in-first-out"),
            "ns",
            Better::Smaller,
            between,
        );
    }
    suite.figures(
        format!("{prefix}/first-in-last-out"),
        "ns",
        Better::Smaller,
        means,
    );
    suite.result.figures.extend(latency::figures(&prefix, &whole));
    Ok(())
}

fn equal_links(dut: &impl Dut) -> bool {
    dut.ports().windows(2).all(|two| two[0].link == two[1].link)
}

fn loss<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let duration = suite.trial_time(suite.pattern, size);
    let ports = suite.dut.ports().len();
    let mut clean = 0;
    for percent in (1..=100 / LOSS_STEP).rev().map(|step| step * LOSS_STEP) {
        let streams = suite
            .pattern
            .streams(ports, size, f64::from(percent) / 100.0, duration);
        let outcome = suite.offer(streams, duration)?;
        suite.shortfall(&format!("{}/load-{percent}", size.name()), &outcome);
        // Two trials without a loss in succession end the curve.
        clean = if suite.is_clean(&outcome) { clean + 1 } else { 0 };
        if clean == 2 {
            break;
        }
    }
    Ok(())
}

/// RFC 9004, 6: the buffer time is the burst's, corrected by what left meanwhile.
fn back_to_back<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    let pairs = suite.pattern.pairs(ports);
    let burst = |frames: u64| -> Vec<Stream> {
        pairs
            .iter()
            .map(|(from, to, part)| Stream {
                share: *part,
                ..Stream::burst(*from, *to, size, frames)
            })
            .collect()
    };
    let (frames, is_open) = suite.longest_burst(burst)?;
    let prefix = format!("{}/back-to-back", size.name());
    suite.figure(
        format!("{prefix}/frames"),
        "frames",
        Better::Bigger,
        frames as f64,
    );
    if is_open {
        suite.note_open(&prefix);
        return Ok(());
    }
    let share = suite.throughput(suite.pattern, size)?.share;
    let line = size.line_rate_fps(&suite.dut.ports()[0].link);
    let implied = frames as f64 / line * 1e9;
    suite.figure(
        format!("{prefix}/buffer-time"),
        "ns",
        Better::Bigger,
        implied * (1.0 - share),
    );
    Ok(())
}

fn recovery<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let throughput = suite.throughput(suite.pattern, size)?.share;
    let overload = (throughput * OVERLOAD).min(1.0);
    let part = suite.trial_time(suite.pattern, size);
    let whole = Picos(part.0 * 2);
    let ports = suite.dut.ports().len();
    let heavy = suite.pattern.streams(ports, size, overload, part);
    let light = suite.pattern.streams(ports, size, throughput * RELIEF, whole);
    let light = light.into_iter().map(|stream| Stream {
        start: part,
        ..stream
    });
    let outcome = suite.offer_at_once(heavy.into_iter().chain(light).collect(), whole)?;
    let since = |at: Option<Picos>| at.map_or(0, |at| at.since(part).0) as f64 / 1e3;
    let lost: Option<Loss> = outcome
        .streams
        .iter()
        .filter_map(|s| s.last_lost)
        .max_by_key(|loss| loss.at);
    let prefix = format!("{}/recovery", size.name());
    suite.figure(
        format!("{prefix}/last-lost"),
        "ns",
        Better::Smaller,
        since(lost.map(|loss| loss.at)),
    );
    if suite.dut.is_lossless() {
        let xoff = outcome.ports.iter().filter_map(|port| port.last_xoff).max();
        suite.figure(format!("{prefix}/last-pause"), "ns", Better::Smaller, since(xoff));
    }
    if lost.is_none() && outcome.ports.iter().all(|port| port.xoff_frames == 0) {
        suite.result.notes.push(format!(
            "{prefix}: {:.1} % of the line rate for {} us was no overload that the device could not buffer",
            overload * 100.0,
            part.0 / 1_000_000
        ));
    }
    Ok(())
}
