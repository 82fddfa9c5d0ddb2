//! Bench of virtual time: frame-hops per second, and memory per frame in flight.
//!
//!     cargo bench --bench fabric [-- --rounds N --model-time 2ms]
//!
//! A permutation of 16 hosts over 4 leaves and 4 spines at 100 Gb/s, WRITE with one acknowledgement a frame,
//! routed, lossless, with WRED. A frame-hop is one frame that arrives over one link.

use std::path::Path;
use std::time::Instant;

use clap::Parser;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_measure::frame_cost::PERMUTATION_LAB;
use xoff_units::Picos;

#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds; the figure is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Model time of a round, in microseconds.
    #[arg(long, default_value_t = 1_000)]
    model_us: u64,
    /// What cargo adds for `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn lab() -> VirtualLab {
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
    let model = if arguments.bench { arguments.model_us } else { 50 };
    let mut rates = Vec::new();
    for round in 0..if arguments.bench { arguments.rounds } else { 1 } {
        let mut lab = lab();
        lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
        // The queues fill first, because the bench does not measure an idle fabric.
        lab.run(Picos::from_micros(model / 5), false, &mut ());
        let (hops, events) = (lab.simulation.fabric.frame_hops(), lab.simulation.fabric.events());
        let begun = Instant::now();
        lab.run(Picos::from_micros(model + model / 5), false, &mut ());
        let seconds = begun.elapsed().as_secs_f64();
        let fabric = &lab.simulation.fabric;
        let hops = (fabric.frame_hops() - hops) as f64;
        rates.push(hops / seconds);
        println!(
            "round {}: {:.2} million frame-hops a second, {:.0} ns each ({hops:.0} of them), {:.2} events a hop, {} frames under way at most",
            round + 1,
            hops / seconds / 1e6,
            seconds * 1e9 / hops,
            (fabric.events() - events) as f64 / hops,
            fabric.frames_in_flight_max(),
        );
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "median: {:.2} million frame-hops a second",
        rates[rates.len() / 2] / 1e6
    );
}
