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
    run_frames,
};
use xoff_telemetry::failure::{Exit, Failure};

/// Time in which queues and pauses settle without congestion control.
const SETTLE_PFC: Picos = Picos::from_millis(1);
/// Duration of the measurement without congestion control. A host with 100 Gb/s sends 6000 packets in this
/// time.
const MEASURE_PFC: Picos = Picos::from_millis(2);
/// Time in which congestion control settles. This time is long enough for DCQCN, which increases a rate in
/// small steps tens of microseconds apart.
const SETTLE: Picos = Picos::from_millis(20);
const MEASURE: Picos = Picos::from_millis(20);

/// `xoff bench placement`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchPlacement {
    /// Numbers of hosts and uplinks of the leaf; several with commas
    #[arg(
        long,
        value_name = "H/U,...",
        value_delimiter = ',',
        default_value = "4/4,8/8"
    )]
    pub shape: Vec<LeafShape>,
    /// Number of queue pairs of each host; several with commas
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub qps: Vec<u16>,
    /// Number of placements; each one has its own seed
    #[arg(long, value_name = "SEEDS", default_value = "1..=5000")]
    pub seeds: Seeds,
    /// The input that a seed changes
    #[arg(long, value_parser = choice_parser::<SeedInput>(), default_value = "hash-seed")]
    pub vary: SeedInput,
    /// Numbering of queue pairs, which determines their UDP source ports
    #[arg(long, value_parser = choice_parser::<QueuePairNumbering>(), default_value = "lab")]
    pub numbering: QueuePairNumbering,
    /// UDP source port of all queue pairs [default: one for each queue pair, from its numbers]
    #[arg(long, value_name = "PORT")]
    pub source_port: Option<u16>,
    /// Load-balancing scheme of all switches as in a lab file; placements use first packets [default: ECMP]
    #[arg(long, value_name = "NAME")]
    pub lb: Option<String>,
    /// A configuration layer for all switches (config_db.json), such as another SWITCH_HASH
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Number of random placements for comparison
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub trials: u32,
    /// Permitted difference of a figure
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub tolerance: f64,
    /// Number of placements that also run with frames in virtual time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub frames: usize,
    /// Congestion control of the runs with frames; several with commas. Rates of `none` with one queue pair
    /// are checked
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
have the same total speed as the hosts. A switch gets the first packet of each queue pair and selects its
uplink. Max-min sharing of the links gives the rates. Means over all seeds are compared with random placements
and with published figures if they exist. docs/ecmp.md has definitions and results.

Exit codes: 0 all within the tolerance; 1 a figure differs by more than --tolerance, or a rate of frames with
PFC alone and one queue pair per host by more than --rate-tolerance; 2 usage; 4 a configuration is invalid.

Examples:
  xoff bench placement
  xoff bench placement --shape 16/16,8/4,4/8 --qps 1,3,32 --vary queue-pairs
  xoff bench placement --qps 1 --frames 200
  xoff bench placement --qps 2,4,8,16 --frames 20 --congestion none,dcqcn";

pub(super) fn run(options: &BenchPlacement) -> Result<Exit, Failure> {
    check_options(options)?;
    let stop = signals::watch_stop_signals()?;
    let config = match &options.config {
        Some(path) => Some(path.canonicalize().map_err(|error| {
            Failure::configuration(format!("cannot read {}", path.display()))
                .at("--config")
                .because(error)
        })?),
        None => None,
    };
    let mut rows = Vec::new();
    let mut frames = Vec::new();
    for &shape in &options.shape {
        for &queue_pairs in &options.qps {
            let setting = PlacementParameters {
                shape,
                queue_pairs,
                vary: options.vary,
                numbering: options.numbering,
                source_port: options.source_port,
                load_balancing: options.lb.clone(),
                config: config.clone(),
            };
            output::note(&format!("{shape}, {queue_pairs} queue pairs"));
            let hash = mean_utilisation_by_hash(&setting, &options.seeds.0, &stop)?;
            let lot = mean_utilisation_at_random(&setting, options.trials as usize, 1);
            rows.push(PlacementRow::new(
                shape,
                queue_pairs,
                hash,
                lot,
                options.tolerance,
            ));
            frames.extend(run_with_frames(options, &setting, &stop)?);
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
        true => output::print_json(&report)?,
        false => output::print(&report.render())?,
    }
    Ok(report.exit())
}

fn check_options(options: &BenchPlacement) -> Result<(), Failure> {
    for (name, share) in [
        ("--tolerance", options.tolerance),
        ("--rate-tolerance", options.rate_tolerance),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return Err(Failure::usage(format!("{share} is no share"))
                .at(name)
                .fix("write 0.02 for 2 %"));
        }
    }
    if options.trials == 0 {
        return Err(Failure::usage("nothing is drawn by lot")
            .at("--trials")
            .fix("draw 1 at least"));
    }
    if options.frames > options.seeds.0.len() {
        return Err(Failure::usage(format!(
            "{} placements are not among {} seeds",
            options.frames,
            options.seeds.0.len()
        ))
        .at("--frames")
        .fix("give more --seeds"));
    }
    if options.frames > 0
        && (options.vary, options.numbering) != (SeedInput::HashSeed, QueuePairNumbering::Lab)
    {
        return Err(Failure::usage(
            "frames run in a lab, which has its own addresses and numbers of queue pairs",
        )
        .at("--frames")
        .fix("leave --vary and --numbering out"));
    }
    Ok(())
}

fn run_with_frames(
    options: &BenchPlacement,
    setting: &PlacementParameters,
    stop: &AtomicBool,
) -> Result<Vec<FramePlacementRow>, Failure> {
    let mut rows = Vec::new();
    if options.frames == 0 {
        return Ok(rows);
    }
    for congestion in &options.congestion {
        let (settle, measure) = match congestion.as_str() {
            "none" => (SETTLE_PFC, MEASURE_PFC),
            _ => (SETTLE, MEASURE),
        };
        let settings = FrameRunParameters {
            congestion: congestion.clone(),
            settle,
            measure,
        };
        output::note(&format!(
            "{}, {} queue pairs: {} placements as frames, congestion control {congestion}",
            setting.shape, setting.queue_pairs, options.frames
        ));
        let placed = run_frames(setting, &options.seeds.0[..options.frames], &settings, stop)?;
        let row = FramePlacementRow::new(
            setting.shape,
            setting.queue_pairs,
            congestion,
            &placed,
            options.rate_tolerance,
        );
        rows.push(row);
    }
    Ok(rows)
}
