//! `cargo bench --bench balancing`: the cost of each load-balancing scheme beyond the static ECMP hash, in
//! nanoseconds per frame. See `benches/README.md`.
//!
//! Rounds of a scheme and of the hash take turns, so that disturbances of the machine affect both. The result
//! is the median of the differences of the pairs. All schemes are measured in several passes, each with
//! another memory layout. A pair is left out if the hash took clearly longer than in its fastest rounds,
//! because other programs then used the processor.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

use std::hint::black_box;
use std::time::Instant;

use core_bench::{BalancedLoad, BalancingCase, balancing_cases};
use xoff_measure::frame_cost::{BURST_FRAMES, FrameLoad};

/// Number of passes over all schemes.
const PASSES: usize = 8;
/// Number of pairs of rounds for each scheme and pass.
const PAIRS: usize = 400;
/// Largest cost of the hash in a pair that is used, relative to the fastest pairs.
const SLOWDOWN_MAX: f64 = 1.1;
/// Quantile of the hash cost that defines the fastest pairs.
const FASTEST_QUANTILE: f64 = 0.05;
/// Number of bursts in a round.
const BURSTS_PER_ROUND: usize = 32;

fn main() {
    // `cargo test --benches` does not measure.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let cases = balancing_cases();
    let mut pairs_of_cases: Vec<Vec<RoundPair>> = vec![Vec::new(); cases.len()];
    for pass in 0..PASSES {
        eprintln!("pass {} of {PASSES}", pass + 1);
        let mut hash: Option<&BalancingCase> = None;
        for (case, pairs) in cases.iter().zip(&mut pairs_of_cases) {
            match hash {
                Some(hash) if case.scheme.is_some() => pairs.extend(measure_pairs(hash, case)),
                _ => hash = Some(case),
            }
        }
    }
    println!(
        "{:<44} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "scheme", "hash ns", "added ns", "25 %", "75 %", "pairs %"
    );
    for (case, mut pairs) in cases.iter().zip(pairs_of_cases) {
        if pairs.is_empty() {
            continue;
        }
        let all = pairs.len();
        let limit = SLOWDOWN_MAX * quantile(&mut pairs, FASTEST_QUANTILE, |pair| pair.hash_ns);
        pairs.retain(|pair| pair.hash_ns <= limit);
        let hash_ns = quantile(&mut pairs, 0.5, |pair| pair.hash_ns);
        let added_ns = [0.5, 0.25, 0.75].map(|q| quantile(&mut pairs, q, |pair| pair.added_ns));
        println!(
            "{:<44} {hash_ns:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8}",
            case.name,
            added_ns[0],
            added_ns[1],
            added_ns[2],
            pairs.len() * 100 / all
        );
    }
}

/// The costs per frame of a round of the hash and the next round of a scheme.
#[derive(Clone, Copy, Debug)]
struct RoundPair {
    hash_ns: f64,
    /// Cost of the scheme minus the cost of the hash.
    added_ns: f64,
}

fn measure_pairs(hash: &BalancingCase, case: &BalancingCase) -> Vec<RoundPair> {
    let mut hash_load = BalancedLoad::new(None, hash.queue_pairs);
    let mut load = BalancedLoad::new(case.scheme.clone(), case.queue_pairs);
    let pairs = (0..PAIRS).map(|_| {
        let hash_ns = measure_round_ns(&mut hash_load);
        let added_ns = measure_round_ns(&mut load) - hash_ns;
        RoundPair { hash_ns, added_ns }
    });
    let pairs = pairs.collect();
    load.check().expect(case.name);
    pairs
}

/// Runs one round and returns the nanoseconds per frame.
fn measure_round_ns(load: &mut BalancedLoad) -> f64 {
    let start = Instant::now();
    for _ in 0..BURSTS_PER_ROUND {
        black_box(&mut *load).run_burst();
    }
    start.elapsed().as_secs_f64() * 1e9 / (BURSTS_PER_ROUND * BURST_FRAMES) as f64
}

/// Sorts the pairs by a value and returns the quantile `q` of the value.
fn quantile(pairs: &mut [RoundPair], q: f64, value: fn(&RoundPair) -> f64) -> f64 {
    pairs.sort_by(|a, b| value(a).total_cmp(&value(b)));
    value(&pairs[(q * (pairs.len() - 1) as f64) as usize])
}
