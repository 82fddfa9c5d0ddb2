//! Summary of the rounds: figures, ratios of pairs, and notes.

use std::collections::BTreeMap;

use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};

use crate::forwarders::Forwarder;
use crate::measure::{ForwarderMeasurement, QUANTILES};

/// All rounds.
#[derive(Debug, Default)]
pub(crate) struct RoundResults {
    /// By frame length, forwarder and round.
    measured: BTreeMap<(u32, Forwarder), BTreeMap<u32, ForwarderMeasurement>>,
    /// By frame length and forwarder: why it could not be measured, and in how many rounds.
    skipped: BTreeMap<(u32, Forwarder), (String, u32)>,
}

impl RoundResults {
    pub(crate) fn add(
        &mut self,
        frame_bytes: u32,
        forwarder: Forwarder,
        round: u32,
        measured: ForwarderMeasurement,
    ) {
        self.measured
            .entry((frame_bytes, forwarder))
            .or_default()
            .insert(round, measured);
    }

    pub(crate) fn skip(&mut self, frame_bytes: u32, forwarder: Forwarder, why: String) {
        let skipped = self.skipped.entry((frame_bytes, forwarder)).or_insert((why, 0));
        skipped.1 += 1;
    }

    /// Adds figures and notes to a result.
    pub(crate) fn add_to_result(&self, result: &mut BenchResult) {
        for (&(frame_bytes, forwarder), rounds) in &self.measured {
            let path = format!("{frame_bytes}/{}", forwarder.name());
            add_figures(result, &path, rounds);
            if let Some(peer) = forwarder.peer()
                && let Some(of_peer) = self.measured.get(&(frame_bytes, peer))
            {
                add_ratios(result, &path, peer.name(), rounds, of_peer);
            }
            add_notes(result, &path, rounds);
        }
        for ((frame_bytes, forwarder), (why, rounds)) in &self.skipped {
            let note = format!(
                "{frame_bytes}/{} skipped in {rounds} rounds: {why}",
                forwarder.name()
            );
            result.notes.push(note);
        }
    }
}

/// A figure of a turn, if it was measured.
type FigureOfRound = fn(&ForwarderMeasurement) -> Option<f64>;

/// Names and values of the round trips.
const PINGS: [(&str, FigureOfRound); 2] = [("ping", |m| m.ping_ns), ("ping_awake", |m| m.ping_awake_ns)];

fn add_figures(result: &mut BenchResult, path: &str, rounds: &BTreeMap<u32, ForwarderMeasurement>) {
    let mut add = |name: &str, unit: &str, better, of: &dyn Fn(&ForwarderMeasurement) -> Option<f64>| {
        let samples: Vec<f64> = rounds.values().filter_map(of).collect();
        if !samples.is_empty() {
            result
                .figures
                .push(BenchFigure::new(format!("{path}/{name}"), unit, better, samples));
        }
    };
    add("rate", "frames/s", ImprovementDirection::Bigger, &|m| {
        Some(m.rate_fps)
    });
    add("cpu", "ns/frame", ImprovementDirection::Smaller, &|m| {
        Some(m.cpu_ns)
    });
    for (n, (name, _)) in QUANTILES.iter().enumerate() {
        add(
            &format!("latency/{name}"),
            "ns",
            ImprovementDirection::Smaller,
            &|m| (m.samples > 0).then_some(m.latency_ns[n]),
        );
    }
    for (name, ping) in PINGS {
        add(name, "ns", ImprovementDirection::Smaller, &ping);
    }
}

/// Adds the ratios of the rounds in which both forwarders were measured.
fn add_ratios(
    result: &mut BenchResult,
    path: &str,
    peer: &str,
    rounds: &BTreeMap<u32, ForwarderMeasurement>,
    of_peer: &BTreeMap<u32, ForwarderMeasurement>,
) {
    let mut add = |name: &str, better, of: &dyn Fn(&ForwarderMeasurement) -> f64| {
        let pairs = rounds
            .iter()
            .filter_map(|(round, own)| Some((own, of_peer.get(round)?)));
        let samples: Vec<f64> = pairs.map(|(own, other)| of(own) / of(other)).collect();
        if !samples.is_empty() {
            let name = format!("{path}/{name}_to_{peer}");
            result
                .figures
                .push(BenchFigure::new(name, "ratio", better, samples));
        }
    };
    add("cpu", ImprovementDirection::Smaller, &|m| m.cpu_ns);
    add("rate", ImprovementDirection::Bigger, &|m| m.rate_fps);
    for (name, ping) in PINGS {
        let pairs = rounds
            .iter()
            .filter_map(|(round, own)| Some((ping(own)?, ping(of_peer.get(round)?)?)));
        let samples: Vec<f64> = pairs.map(|(own, other)| own - other).collect();
        if !samples.is_empty() {
            let name = format!("{path}/{name}_minus_{peer}");
            result.figures.push(BenchFigure::new(
                name,
                "ns",
                ImprovementDirection::Smaller,
                samples,
            ));
        }
    }
}

/// Adds notes about the conditions of the rounds.
fn add_notes(result: &mut BenchResult, path: &str, rounds: &BTreeMap<u32, ForwarderMeasurement>) {
    let idle = rounds.values().filter(|m| !m.was_saturated()).count();
    if idle > 0 {
        result.notes.push(format!(
            "{path}/cpu: not saturated in {idle} of {} rounds: the generator was slower, and waiting for it counts",
            rounds.len()
        ));
    }
    let slowest = rounds
        .values()
        .map(|m| m.offered_fps)
        .fold(f64::INFINITY, f64::min);
    result.notes.push(format!(
        "{path}/rate: at least {slowest:.0} frames/s were offered"
    ));
    let lossy = rounds.values().map(|m| m.half_loss).fold(0.0, f64::max);
    if lossy > 0.0 {
        result.notes.push(format!(
            "{path}/latency: up to {:.4} % lost at half rate",
            100.0 * lossy
        ));
    }
    let samples: Vec<u64> = rounds.values().map(|m| m.samples).collect();
    if let Some(&fewest) = samples.iter().min()
        && fewest < 10_000
    {
        result.notes.push(format!(
            "{path}/latency: {fewest} samples in a round, too few for p99.99"
        ));
    }
}
