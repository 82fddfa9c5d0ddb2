//! Soak test: random frames through the switch with all assertions enabled.
//!
//!     cargo test -p xoff-dataplane --profile checked --test soak -- --frames 100000000
//!
//! The profile `checked` is `release` with debug assertions and overflow checks. Without arguments, as in
//! `cargo test`, the run is short. Half of the frames have one destination each, so that the test can account
//! for every frame. The other half is mixed with floods, link flaps and new configurations. The buffers are
//! checked every 64 frames. The test ends at the first violation.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

mod support;

use support::Harness;
use support::random::{
    PORTS, RandomSource, apply_random_disturbance, drain_switch, random_frame, run_with_disturbances,
    small_buffer_config,
};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{ForwardingResult, Picos};

/// Frames for each switch before it is replaced.
const FRAMES_PER_RUN: u64 = 250_000;
/// Number of frames without arguments.
const DEFAULT_FRAMES: u64 = 100_000;

fn main() {
    let Some(frames) = parse_frame_count() else {
        eprintln!("usage: soak [--frames N]");
        std::process::exit(2);
    };
    // `cargo test -- --list` gets no answer.
    let (mut done, mut seed) = (0, 0);
    let mut dropped = 0;
    while done < frames {
        let run = FRAMES_PER_RUN.min(frames - done);
        dropped += match seed % 2 {
            0 => run_unicast(seed, run),
            _ => run_all_traffic(seed, run),
        };
        (done, seed) = (done + run, seed + 1);
    }
    println!(
        "soak: {done} frames through the core in {seed} runs, {dropped} dropped for a reason, 0 violations"
    );
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

/// Parses the arguments. `None` for invalid arguments.
fn parse_frame_count() -> Option<u64> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().position(|argument| argument == "--frames") {
        Some(at) => arguments.get(at + 1)?.parse().ok(),
        None => Some(DEFAULT_FRAMES),
    }
}

/// Runs unicast frames and checks that each frame was sent, was dropped, or waits. Returns the drops.
fn run_unicast(seed: u64, frames: u64) -> u64 {
    let mut random = RandomSource::new(seed);
    let mut harness = Harness::with_learnt_addresses(&small_buffer_config());
    harness.records_frames = false;
    let before = [sent_frame_count(&harness), dropped_frame_count(&harness)];
    let (mut forwarded, mut refused) = (0, 0);
    // The load varies: in some runs every limit is reached, in others the queues are empty at times.
    let gap_ns = 12_000 << (seed / 2 % 6);
    for step in 0..frames {
        if random.happens_once_in(50) {
            apply_random_disturbance(&mut random, &mut harness, false);
        }
        let port = random.random_port();
        let frame = random_frame(&mut random, port, true);
        match harness.receive(port, &frame) {
            ForwardingResult::Forwarded { copies } => forwarded += copies as u64,
            ForwardingResult::Dropped(_) => refused += 1,
            ForwardingResult::Control => {}
            other => panic!("seed {seed}, frame {step}: {other:?}"),
        }
        harness.run_for(Picos::from_nanos(random.below(gap_ns)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    let conserved = |harness: &Harness| {
        let gone = sent_frame_count(harness) - before[0] + dropped_frame_count(harness) - before[1];
        assert_eq!(
            forwarded + refused,
            gone + harness.switch().queued_frames() as u64,
            "seed {seed}: frames in, and frames sent, dropped and waiting"
        );
    };
    conserved(&harness);
    drain_switch(&mut harness);
    conserved(&harness);
    harness.assert_empty();
    dropped_frame_count(&harness)
}

/// Runs floods, flaps and new configurations, and checks that nothing is left and that the counters agree.
fn run_all_traffic(seed: u64, frames: u64) -> u64 {
    let harness = run_with_disturbances(seed, frames as usize);
    harness.assert_empty();
    for port in 0..PORTS {
        let c = harness.counters(port);
        assert_eq!(c.queues.iter().map(|q| q.packets).sum::<u64>(), c.tx_packets);
        assert_eq!(c.tx_class_packets.iter().sum::<u64>(), c.tx_packets);
        assert_eq!(c.rx_class_packets.iter().sum::<u64>(), c.rx_packets);
    }
    dropped_frame_count(&harness)
}

fn sent_frame_count(harness: &Harness) -> u64 {
    (0..PORTS).map(|port| harness.counters(port).tx_packets).sum()
}

fn dropped_frame_count(harness: &Harness) -> u64 {
    let of = |port| PortCounters::dropped_frames(&harness.counters(port));
    (0..PORTS).map(of).sum()
}
