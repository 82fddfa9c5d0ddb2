//! Soak test: random frames through the switch with all assertions enabled.
//!
//!     cargo test -p xoff-dataplane --profile checked --test soak -- --frames 100000000
//!
//! The profile `checked` is `release` with debug assertions and overflow checks. Without arguments, as in
//! `cargo test`, the run is short. Half of the frames have one destination each, so that the test can account
//! for every frame. The other half is mixed with floods, link flaps and new configurations. The buffers are
//! checked every 64 frames. The test ends at the first violation.

mod support;

use support::Harness;
use support::random::{Dice, PORTS, disturb, frame, let_drain, tight, wild_run};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{ForwardingResult, Picos};

/// Frames for each switch before it is replaced.
const FRAMES_OF_A_RUN: u64 = 250_000;
/// Number of frames without arguments.
const FRAMES: u64 = 100_000;

fn main() {
    let Some(frames) = frames() else {
        eprintln!("usage: soak [--frames N]");
        std::process::exit(2);
    };
    // `cargo test -- --list` gets no answer.
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

/// Parses the arguments. `None` for invalid arguments.
fn frames() -> Option<u64> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().position(|argument| argument == "--frames") {
        Some(at) => arguments.get(at + 1)?.parse().ok(),
        None => Some(FRAMES),
    }
}

/// Runs unicast frames and checks that each frame was sent, was dropped, or waits. Returns the drops.
fn accounted(seed: u64, frames: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let mut harness = Harness::learnt(&tight());
    harness.record = false;
    let before = [sent(&harness), dropped(&harness)];
    let (mut forwarded, mut refused) = (0, 0);
    // The load varies: in some runs every limit is reached, in others the queues are empty at times.
    let gap_ns = 12_000 << (seed / 2 % 6);
    for step in 0..frames {
        if dice.one_in(50) {
            disturb(&mut dice, &mut harness, false);
        }
        let port = dice.port();
        let frame = frame(&mut dice, port, true);
        match harness.receive(port, &frame) {
            ForwardingResult::Forwarded { copies } => forwarded += copies as u64,
            ForwardingResult::Dropped(_) => refused += 1,
            ForwardingResult::Control => {}
            other => panic!("seed {seed}, frame {step}: {other:?}"),
        }
        harness.run_for(Picos::from_nanos(dice.below(gap_ns)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    let conserved = |harness: &Harness| {
        let gone = sent(harness) - before[0] + dropped(harness) - before[1];
        assert_eq!(
            forwarded + refused,
            gone + harness.switch().queued_frames() as u64,
            "seed {seed}: frames in, and frames sent, dropped and waiting"
        );
    };
    conserved(&harness);
    let_drain(&mut harness);
    conserved(&harness);
    harness.assert_empty();
    dropped(&harness)
}

/// Runs floods, flaps and new configurations, and checks that nothing is left and that the counters agree.
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
    let of = |port| PortCounters::dropped_frames(&harness.counters(port));
    (0..PORTS).map(of).sum()
}
