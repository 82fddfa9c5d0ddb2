//! Random frames through the core with every assertion on, for as long as one likes:
//!
//!     cargo test -p xoff-dataplane --profile checked --test soak -- --frames 100000000
//!
//! `checked` is `release` with debug assertions and overflow checks. Without arguments, as in `cargo test`, it is a short run. Half of
//! the frames have one destination each, so that all can be accounted for at the end; the others come with floods, links that
//! flap and new configurations. The buffers are looked through every 64 frames. Any violation ends it.

mod support;

use support::Harness;
use support::random::{Dice, PORTS, disturb, frame, let_drain, tight, wild_run};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{Picos, Verdict};

/// Frames of one switch's life.
const FRAMES_OF_A_RUN: u64 = 250_000;
/// Frames without arguments.
const FRAMES: u64 = 100_000;

fn main() {
    let Some(frames) = frames() else {
        eprintln!("usage: soak [--frames N]");
        std::process::exit(2);
    };
    // What other test programs are asked by `cargo test -- --list` has no answer here.
    let (mut done, mut seed) = (0, 0);
    let mut dropped = 0;
    while done < frames {
        let run = FRAMES_OF_A_RUN.min(frames - done);
        dropped += match seed % 2 {
            0 => accounted(seed, run),
            _ => wild(seed, run),
        };
        (done, seed) = (done + run, seed + 1);
    }
    println!(
        "soak: {done} frames through the core in {seed} runs, {dropped} dropped for a reason, 0 violations"
    );
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

/// `None`: that cannot be understood.
fn frames() -> Option<u64> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().position(|argument| argument == "--frames") {
        Some(at) => arguments.get(at + 1)?.parse().ok(),
        None => Some(FRAMES),
    }
}

/// Each frame has one destination: what came in has been sent, was dropped, or waits. How many were dropped.
fn accounted(seed: u64, frames: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let mut harness = Harness::learnt(&tight());
    harness.record = false;
    let before = [sent(&harness), dropped(&harness)];
    let (mut forwarded, mut refused) = (0, 0);
    // From runs in which every limit decides all the time to such in which queues are empty now and then.
    let gap_ns = 12_000 << (seed / 2 % 6);
    for step in 0..frames {
        if dice.one_in(50) {
            disturb(&mut dice, &mut harness, false);
        }
        let port = dice.port();
        let frame = frame(&mut dice, port, true);
        match harness.receive(port, &frame) {
            Verdict::Forwarded { copies } => forwarded += copies as u64,
            Verdict::Dropped(_) => refused += 1,
            Verdict::Control => {}
            other => panic!("seed {seed}, frame {step}: {other:?}"),
        }
        harness.run_for(Picos::from_nanos(dice.below(gap_ns)));
        if step % 64 == 0 {
            harness.switch().check();
        }
    }
    let conserved = |harness: &Harness| {
        let gone = sent(harness) - before[0] + dropped(harness) - before[1];
        assert_eq!(
            forwarded + refused,
            gone + harness.switch().frames_queued() as u64,
            "seed {seed}: frames in, and frames sent, dropped and waiting"
        );
    };
    conserved(&harness);
    let_drain(&mut harness);
    conserved(&harness);
    harness.assert_empty();
    dropped(&harness)
}

/// Floods, flaps, new configurations: nothing is left behind, and counters add up.
fn wild(seed: u64, frames: u64) -> u64 {
    let harness = wild_run(seed, frames as usize);
    harness.assert_empty();
    for port in 0..PORTS {
        let c = harness.counters(port);
        assert_eq!(c.queues.iter().map(|q| q.packets).sum::<u64>(), c.tx_packets);
        assert_eq!(c.tx_class_packets.iter().sum::<u64>(), c.tx_packets);
        assert_eq!(c.rx_class_packets.iter().sum::<u64>(), c.rx_packets);
    }
    dropped(&harness)
}

fn sent(harness: &Harness) -> u64 {
    (0..PORTS).map(|port| harness.counters(port).tx_packets).sum()
}

fn dropped(harness: &Harness) -> u64 {
    let of = |port| PortCounters::dropped(&harness.counters(port));
    (0..PORTS).map(of).sum()
}
