//! Frame-hops per second in virtual time, and the largest number of frames in flight.
//!
//!     cargo bench --bench fabric [-- --rounds N --model-time 2ms]
//!
//! The lab has 16 hosts that send a permutation over 4 leaf and 4 spine switches at 100 Gb/s. The hosts send
//! RDMA WRITE messages, and each frame is acknowledged. The switches route with lossless priorities and WRED.
//! A frame-hop is one frame that arrives over one link.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

use std::path::Path;
use std::time::Instant;

use clap::Parser;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_measure::frame_cost::PERMUTATION_LAB;
use xoff_units::Picos;

#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rounds; the figure is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Model time of a round, in microseconds.
    #[arg(long, default_value_t = 1_000)]
    model_us: u64,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn permutation_lab() -> VirtualLab {
    let plan = parse_lab(
        PERMUTATION_LAB,
        "fabric.xoff.yml",
        Path::new(""),
        TimeMode::Virtual,
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"))
}

fn main() {
    let arguments = Arguments::parse();
    let model_us = if arguments.bench { arguments.model_us } else { 50 };
    let mut rates = Vec::new();
    for round in 0..if arguments.bench { arguments.rounds } else { 1 } {
        let mut lab = permutation_lab();
        lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
        // The queues fill before the measurement starts.
        lab.run(Picos::from_micros(model_us / 5), false, &mut ());
        let (hops, events) = (lab.simulation.fabric.frame_hops(), lab.simulation.fabric.events());
        let start = Instant::now();
        lab.run(Picos::from_micros(model_us + model_us / 5), false, &mut ());
        let seconds = start.elapsed().as_secs_f64();
        let fabric = &lab.simulation.fabric;
        let hops = (fabric.frame_hops() - hops) as f64;
        rates.push(hops / seconds);
        println!(
            "round {}: {hops:.0} frame-hops, {:.2} million per second, {:.0} ns each, {:.2} events per hop, at most {} frames in flight",
            round + 1,
            hops / seconds / 1e6,
            seconds * 1e9 / hops,
            (fabric.events() - events) as f64 / hops,
            fabric.frames_in_flight_max(),
        );
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "median: {:.2} million frame-hops per second",
        rates[rates.len() / 2] / 1e6
    );
}
