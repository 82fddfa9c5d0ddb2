//! `cargo bench --bench balancing`: what each scheme adds to the router's hash, nanoseconds a frame. See `benches/README.md`.
//!
//! Rounds of the scheme and of the hash take turns, so that both meet the same machine; of each pair the difference is taken, and of
//! all pairs the median.

use std::hint::black_box;
use std::time::Instant;

use xoff::bench::core::{BURST, Balanced, Case, Load, cases};

/// Pairs of rounds.
const PAIRS: usize = 1_501;
/// Bursts of a round.
const BURSTS: usize = 32;

fn main() {
    // `cargo test --benches` asks for nothing to be measured.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    println!(
        "{:<44} {:>8} {:>8} {:>8} {:>8}",
        "scheme", "hash ns", "adds ns", "25 %", "75 %"
    );
    let mut hash: Option<Case> = None;
    for case in cases() {
        if case.scheme.is_none() {
            hash = Some(case);
            continue;
        }
        let hash = hash.as_ref().expect("the hash is the first case");
        let mut beside = Balanced::new(None, hash.queue_pairs);
        let mut load = Balanced::new(case.scheme.clone(), case.queue_pairs);
        let mut pairs: Vec<(f64, f64)> = (0..PAIRS)
            .map(|_| {
                let without = round(&mut beside);
                (round(&mut load) - without, without)
            })
            .collect();
        load.check().expect(case.name);
        let of_hash = quantile(&mut pairs, 0.5, |pair| pair.1);
        let adds = [0.5, 0.25, 0.75].map(|part| quantile(&mut pairs, part, |pair| pair.0));
        println!(
            "{:<44} {of_hash:>8.1} {:>8.1} {:>8.1} {:>8.1}",
            case.name, adds[0], adds[1], adds[2]
        );
    }
}

/// Nanoseconds a frame.
fn round(load: &mut Balanced) -> f64 {
    let start = Instant::now();
    for _ in 0..BURSTS {
        black_box(&mut *load).burst();
    }
    start.elapsed().as_secs_f64() * 1e9 / (BURSTS * BURST) as f64
}

fn quantile(pairs: &mut [(f64, f64)], part: f64, of: fn(&(f64, f64)) -> f64) -> f64 {
    pairs.sort_by(|a, b| of(a).total_cmp(&of(b)));
    of(&pairs[(part * (pairs.len() - 1) as f64) as usize])
}
