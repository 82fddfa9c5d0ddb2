//! `cargo bench --bench balancing`: what each scheme adds to the router's hash, nanoseconds a frame. See
//! `benches/README.md`.
//!
//! Rounds of the scheme and of the hash alternate, so that both run under the same conditions. The bench
//! takes the difference of each pair and the median of all pairs. All schemes are measured several times,
//! each time in other memory. Pairs whose hash round was markedly slow are discarded, because another program
//! used the core during them.

use std::hint::black_box;
use std::time::Instant;

use core_bench::{Balanced, BalancingCase, balancing_cases};
use xoff_measure::frame_cost::{BURST, Load};

/// Number of passes over all schemes.
const PASS_COUNT: usize = 8;
/// Number of pairs of rounds in a pass.
const PAIRS_PER_PASS: usize = 400;
/// A pair counts if its hash round takes at most this multiple of the time of the fastest hash rounds.
const SLOW_HASH_RATIO: f64 = 1.1;
/// Share of the hash rounds that count as the fastest ones.
const FASTEST_SHARE: f64 = 0.05;
/// Number of bursts of a round.
const BURSTS: usize = 32;

fn main() {
    // `cargo test --benches` requests no measurement.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let cases = balancing_cases();
    let mut found: Vec<Vec<RoundPair>> = vec![Vec::new(); cases.len()];
    for pass in 0..PASS_COUNT {
        eprintln!("pass {} of {PASS_COUNT}", pass + 1);
        let mut hash: Option<&BalancingCase> = None;
        for (case, found) in cases.iter().zip(&mut found) {
            match hash {
                Some(hash) if case.scheme.is_some() => found.extend(measure_pairs(hash, case)),
                _ => hash = Some(case),
            }
        }
    }
    println!(
        "{:<44} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "scheme", "hash ns", "adds ns", "25 %", "75 %", "pairs %"
    );
    for (case, mut pairs) in cases.iter().zip(found) {
        if pairs.is_empty() {
            continue;
        }
        let all = pairs.len();
        let limit = SLOW_HASH_RATIO * quantile(&mut pairs, FASTEST_SHARE, |pair| pair.hash_ns);
        pairs.retain(|pair| pair.hash_ns <= limit);
        let of_hash = quantile(&mut pairs, 0.5, |pair| pair.hash_ns);
        let adds = [0.5, 0.25, 0.75].map(|part| quantile(&mut pairs, part, |pair| pair.adds_ns));
        println!(
            "{:<44} {of_hash:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8}",
            case.name,
            adds[0],
            adds[1],
            adds[2],
            pairs.len() * 100 / all
        );
    }
}

/// Two consecutive rounds.
#[derive(Clone, Copy, Debug)]
struct RoundPair {
    hash_ns: f64,
    adds_ns: f64,
}

fn measure_pairs(hash: &BalancingCase, case: &BalancingCase) -> Vec<RoundPair> {
    let mut beside = Balanced::new(None, hash.queue_pairs);
    let mut load = Balanced::new(case.scheme.clone(), case.queue_pairs);
    let pairs = (0..PAIRS_PER_PASS).map(|_| {
        let hash_ns = measure_round(&mut beside);
        let adds_ns = measure_round(&mut load) - hash_ns;
        RoundPair { hash_ns, adds_ns }
    });
    let pairs = pairs.collect();
    load.check().expect(case.name);
    pairs
}

/// Measures one round. Returns nanoseconds per frame.
fn measure_round(load: &mut Balanced) -> f64 {
    let start = Instant::now();
    for _ in 0..BURSTS {
        black_box(&mut *load).burst();
    }
    start.elapsed().as_secs_f64() * 1e9 / (BURSTS * BURST) as f64
}

fn quantile(pairs: &mut [RoundPair], part: f64, of: fn(&RoundPair) -> f64) -> f64 {
    pairs.sort_by(|a, b| of(a).total_cmp(&of(b)));
    of(&pairs[(part * (pairs.len() - 1) as f64) as usize])
}
