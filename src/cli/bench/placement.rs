//! `xoff bench placement`: rates of queue pairs that ECMP places on the uplinks of a leaf.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::cli::choice::choice_parser;
use clap::Args;
use xoff_units::Picos;

use super::super::{output, signals};
use xoff_lab::Seeds;
use xoff_measure::placement::{
    FramePlacementRow, FrameRunParameters, LeafShape, PLACEMENT_SCHEMA, PlacementParameters, PlacementReport,
    PlacementRow, QueuePairNumbering, SeedInput, mean_utilisation_at_random, mean_utilisation_by_hash,
    run_placements_with_frames,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, count_noun, reopenable_path};

/// Model time before the measurement starts, in runs without congestion control. Queues and pauses settle in
/// this time.
const SETTLE_TIME_PFC_ONLY: Picos = Picos::from_millis(1);
/// Duration of the measurement in runs without congestion control. A host with 100 Gb/s sends 6000 packets in
/// 2 ms.
const MEASURE_TIME_PFC_ONLY: Picos = Picos::from_millis(2);
/// Model time before the measurement starts, in runs with congestion control. The rate increases of DCQCN are
/// small and tens of microseconds apart, so DCQCN settles slowly.
const SETTLE_TIME: Picos = Picos::from_millis(20);
/// Duration of the measurement in runs with congestion control.
const MEASURE_TIME: Picos = Picos::from_millis(20);

/// `xoff bench placement`
#[derive(Clone, Debug, Args)]
pub(crate) struct PlacementBenchArguments {
    /// Numbers of hosts and uplinks of the leaf, separated by commas
    #[arg(
        long,
        value_name = "H/U,...",
        value_delimiter = ',',
        default_value = "4/4,8/8"
    )]
    pub shape: Vec<LeafShape>,
    /// Numbers of queue pairs of each host, separated by commas
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub qps: Vec<u16>,
    /// Seeds of the placements. Each seed gives one placement
    #[arg(long, value_name = "SEEDS", default_value = "1..=5000")]
    pub seeds: Seeds,
    /// Input that a seed changes
    #[arg(long, value_parser = choice_parser::<SeedInput>(), default_value = "hash-seed")]
    pub vary: SeedInput,
    /// Numbering of queue pairs, which determines their UDP source ports
    #[arg(long, value_parser = choice_parser::<QueuePairNumbering>(), default_value = "lab")]
    pub numbering: QueuePairNumbering,
    /// UDP source port of all queue pairs [default: computed from the numbers of each queue pair]
    #[arg(long, value_name = "PORT")]
    pub source_port: Option<u16>,
    /// Load-balancing scheme of all switches, as in a lab file [default: ECMP]
    #[arg(long, value_name = "NAME")]
    pub lb: Option<String>,
    /// Configuration layer of all switches (config_db.json), for example with another SWITCH_HASH
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Number of random placements for comparison
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub trials: u32,
    /// Permitted difference between a mean utilisation and its expected value
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub tolerance: f64,
    /// Number of placements that also run with frames in virtual time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub frames: usize,
    /// Congestion controls of the runs with frames, separated by commas. With `none` and one queue pair per
    /// host, the rates are checked as well
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "none")]
    pub congestion: Vec<String>,
    /// Permitted relative difference between the measured and the calculated rate of a queue pair
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub rate_tolerance: f64,
    /// Print the result as JSON (docs/ecmp.md)
    #[arg(long)]
    pub json: bool,
}

pub(super) const HELP: &str = "\
The hosts of a leaf send to the same number of hosts behind another leaf, each with K queue pairs. The uplinks
have the same total speed as the hosts. The leaf receives the first packet of each queue pair and selects its uplink.
The rates follow from max-min fair sharing of the links. Means over all seeds are compared with random placement,
and with published figures if they exist. docs/ecmp.md has definitions and results.

Exit codes: 0 all figures are within the tolerance, 1 a figure differs by more than --tolerance, or a rate with PFC
alone and one queue pair per host differs by more than --rate-tolerance, 2 usage, 4 a configuration is invalid.

Examples:
  xoff bench placement
  xoff bench placement --shape 16/16,8/4,4/8 --qps 1,3,32 --vary queue-pairs
  xoff bench placement --qps 1 --frames 200
  xoff bench placement --qps 2,4,8,16 --frames 20 --congestion none,dcqcn";

pub(super) fn run(options: &PlacementBenchArguments) -> Result<Exit, Failure> {
    check_options(options)?;
    let stop = signals::watch_stop_signals()?;
    let config = match &options.config {
        Some(path) => Some(reopenable_path(path, InputLimit::CONFIGURATION).map_err(|error| {
            Failure::configuration(format!("cannot read {}", path.display()))
                .at("--config")
                .because(error)
                .fix("give the path of a configuration in JSON")
        })?),
        None => None,
    };
    let mut rows = Vec::new();
    let mut frames = Vec::new();
    for &shape in &options.shape {
        for &queue_pairs in &options.qps {
            let parameters = PlacementParameters {
                shape,
                queue_pairs,
                vary: options.vary,
                numbering: options.numbering,
                source_port: options.source_port,
                load_balancing: options.lb.clone(),
                config: config.clone(),
            };
            output::print_note(&format!(
                "{shape}, {}",
                count_noun(u64::from(queue_pairs), "queue pair")
            ));
            let by_hash = mean_utilisation_by_hash(&parameters, &options.seeds.0, &stop)?;
            let at_random = mean_utilisation_at_random(&parameters, options.trials as usize, 1);
            rows.push(PlacementRow::new(
                shape,
                queue_pairs,
                by_hash,
                at_random,
                options.tolerance,
            ));
            frames.extend(run_with_frames(options, &parameters, &stop)?);
        }
    }
    let report = PlacementReport {
        schema: PLACEMENT_SCHEMA,
        xoff_version: env!("CARGO_PKG_VERSION"),
        seeds: options.seeds.0.len(),
        vary: options.vary,
        numbering: options.numbering,
        tolerance: options.tolerance,
        rate_tolerance: options.rate_tolerance,
        holds: rows.iter().all(|row| row.holds) && frames.iter().all(|row| row.holds),
        rows,
        frames,
    };
    match options.json {
        true => output::print_json(&report),
        false => output::print(&report.render()),
    }
    Ok(report.exit())
}

fn check_options(options: &PlacementBenchArguments) -> Result<(), Failure> {
    for (name, share) in [
        ("--tolerance", options.tolerance),
        ("--rate-tolerance", options.rate_tolerance),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return Err(Failure::usage(format!("{share} is no share from 0 to 1"))
                .at(name)
                .fix("write 0.02 for 2 %"));
        }
    }
    if options.trials == 0 {
        return Err(Failure::usage("the number of random placements is 0")
            .at("--trials")
            .fix("give at least 1"));
    }
    if options.frames > options.seeds.0.len() {
        return Err(Failure::usage(format!(
            "{} need as many seeds, but --seeds has {}",
            count_noun(options.frames as u64, "placement"),
            options.seeds.0.len()
        ))
        .at("--frames")
        .fix("give more --seeds"));
    }
    if options.frames > 0
        && (options.vary, options.numbering) != (SeedInput::HashSeed, QueuePairNumbering::Lab)
    {
        return Err(
            Failure::usage("runs with frames use the addresses and queue pair numbers of a lab")
                .at("--frames")
                .fix("remove --vary and --numbering"),
        );
    }
    Ok(())
}

/// Simulates frames in the placements (assignments of flows to paths) of the first N seeds, where N is the
/// value of `--frames`. Each placement runs once with each congestion control. Returns one row for each
/// congestion control, or no row if N is 0.
fn run_with_frames(
    options: &PlacementBenchArguments,
    parameters: &PlacementParameters,
    stop: &AtomicBool,
) -> Result<Vec<FramePlacementRow>, Failure> {
    let mut rows = Vec::new();
    if options.frames == 0 {
        return Ok(rows);
    }
    for congestion in &options.congestion {
        let (settle, measure) = match congestion.as_str() {
            "none" => (SETTLE_TIME_PFC_ONLY, MEASURE_TIME_PFC_ONLY),
            _ => (SETTLE_TIME, MEASURE_TIME),
        };
        let frame_parameters = FrameRunParameters {
            congestion: congestion.clone(),
            settle,
            measure,
        };
        output::print_note(&format!(
            "{}, {}: {} with frames, congestion control {congestion}",
            parameters.shape,
            count_noun(u64::from(parameters.queue_pairs), "queue pair"),
            count_noun(options.frames as u64, "placement")
        ));
        let seeds = &options.seeds.0[..options.frames];
        let placed = run_placements_with_frames(parameters, seeds, &frame_parameters, stop)?;
        let row = FramePlacementRow::new(
            parameters.shape,
            parameters.queue_pairs,
            congestion,
            &placed,
            options.rate_tolerance,
        );
        rows.push(row);
    }
    Ok(rows)
}
