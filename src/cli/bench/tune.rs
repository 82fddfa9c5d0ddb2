//! `xoff bench tune-buffers`: finds the smallest lossless buffers for a traffic pattern.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use xoff_dataplane::config::SwitchConfig;

use super::super::{output, signals};
use super::dut::read_dut_config;
use super::result::{ResultArguments, check_no_duplicates};
use xoff_config::PRESETS;
use xoff_lab::{Seeds, units};
use xoff_measure::result::ResultFormat;
use xoff_measure::tune::{
    CABLE_MAX_M, TrafficParameters, TrafficPattern, TuningPlan, TuningResult, TuningTarget, build_result,
    preset_switch, run_variants, search_headroom,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{allowed_cpus, count_noun, write_result_file};

/// `xoff bench tune-buffers`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTuneBuffers {
    /// Configuration in the form of SONiC's config_db.json, or a lab file (.yml, .yaml) [default: the preset
    /// of --preset]
    #[arg(value_name = "FILE", conflicts_with_all = ["preset", "speed", "ports"])]
    pub file: Option<PathBuf>,
    /// Switch of the lab file [default: the first switch]
    #[arg(long, value_name = "NAME", requires = "file")]
    pub switch: Option<String>,
    /// A built-in configuration
    #[arg(long, value_name = "NAME", default_value = "roce-lossless", value_parser = preset_name_parser())]
    pub preset: String,
    /// Speed of the ports of the preset
    #[arg(long, value_name = "SPEED", default_value = "100g", value_parser = parse_speed_mbps)]
    pub speed: u32,
    /// Number of ports of the preset
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(2..=512))]
    pub ports: u16,
    /// Lossless traffic class [default: the first lossless class]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    pub class: Option<u8>,
    /// Traffic patterns incast:N and standstill:N with N senders, separated by commas [default:
    /// incast:8,standstill:8, with fewer senders for a switch with fewer than nine lossless ports]
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',')]
    pub pattern: Vec<TrafficPattern>,
    /// Length of the lossless frames with FCS, rounded up to a possible length of a RoCEv2 packet
    #[arg(long, value_name = "BYTES", default_value_t = 4_200, value_parser = clap::value_parser!(u32).range(64..=16_384))]
    pub frame_size: u32,
    /// Length with FCS of a frame that the switch has just started to send when the pause is due, and that
    /// delays the pause frame; 0 for none [default: the longest frame of the MTU]
    #[arg(long, value_name = "BYTES")]
    pub own_frame_size: Option<u32>,
    /// Length of the cables in metres
    #[arg(long, value_name = "METRES", default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=i64::from(CABLE_MAX_M)))]
    pub cable_m: u32,
    /// Response time of peers to a pause in nanoseconds [default: the limit of IEEE 802.3 31B.3.7]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub response_ns: Option<u64>,
    /// Seeds of random phases. Each seed adds a random phase to the constructed phases
    #[arg(long, value_name = "SEEDS", default_value = "1..=16")]
    pub seeds: Seeds,
    /// Number of parallel runs [default: the number of CPUs that the process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Skip the runs with other values of dynamic_th and xon_offset
    #[arg(long)]
    pub no_sweep: bool,
    /// Write the pool and the profile here as a layer of config_db.json
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Output of the result.
    #[command(flatten)]
    pub result: ResultArguments,
}

pub(super) const HELP: &str = "\
Headroom stores the frames that arrive after the priority group has entered XOFF. The switch runs in virtual time
between model hosts that send frames of one size back to back. Buffers fill in constructed phases. In these phases,
the switch has just started to send another frame when XOFF is due, the frame that causes XOFF uses headroom for all
of its cells except one, and senders start together, apart or at random. Bisection finds the smallest headroom in
cells that loses no frame in any phase, without a reserve. A run with one cell less confirms the loss. docs/bench.md
has definitions.

The output ends with the pool and the profile as a layer of config_db.json, for `config: [{preset: roce-lossless},
FILE]` of a lab or for `xoff config apply`.

Exit codes: 0 found, 1 the given configuration loses frames (the smallest headroom is printed), 2 usage, 4 invalid
configuration, 5 no result, because the buffer does not fill or results contradict each other, 130 interrupted.

Examples:
  xoff bench tune-buffers
  xoff bench tune-buffers --speed 400g --cable-m 5 --frame-size 1086 --write small.json
  xoff bench tune-buffers config_db.json --pattern standstill:4 --cable-m 300 --response-ns 800
  xoff bench tune-buffers --json --save buffers.json";

/// Returns a parser for the names of presets.
fn preset_name_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(PRESETS.iter().map(|(name, _)| *name))
}

/// Returns the traffic patterns for a switch with `ports` lossless ports, at least two. One port receives.
fn default_patterns(ports: usize) -> Vec<TrafficPattern> {
    let senders = (ports - 1).min(8) as u16;
    let incast = (senders >= 2).then_some(TrafficPattern::Incast(senders));
    incast
        .into_iter()
        .chain([TrafficPattern::Standstill(senders)])
        .collect()
}

fn parse_speed_mbps(text: &str) -> Result<u32, String> {
    units::parse_speed_mbps(text).ok_or(format!("write {}", units::SPEED))
}

pub(super) fn run(options: &BenchTuneBuffers) -> Result<Exit, Failure> {
    options.result.check()?;
    if let Some(path) = &options.write {
        output::check_report_path("--write", path)?;
    }
    check_no_duplicates("--pattern", &options.pattern, TrafficPattern::to_string)?;
    let stop = signals::watch_stop_signals()?;
    let target = TuningTarget::new(&read_target_config(options)?, options.class)?;
    let plan = plan_tuning(options, target)?;
    let tuning = match search_headroom(&plan, &stop, output::print_note) {
        Err(failure) if failure.exit == Exit::Interrupted => return exit_on_interrupt(&failure),
        tuning => tuning?,
    };
    let variants = match options.no_sweep {
        true => Vec::new(),
        false => {
            output::print_note("runs with other values of dynamic_th and xon_offset");
            match run_variants(&plan, &tuning.smallest.candidate, &tuning.phases, &stop) {
                Err(failure) if failure.exit == Exit::Interrupted => return exit_on_interrupt(&failure),
                variants => variants?,
            }
        }
    };
    let result = build_result(&target_name(options), &plan, &tuning, &variants);
    output_tuning(options, &plan, &tuning, &result)
}

/// Prints the message of an interruption and returns its exit code.
fn exit_on_interrupt(failure: &Failure) -> Result<Exit, Failure> {
    output::print_note(&failure.what);
    Ok(Exit::Interrupted)
}

/// Returns the name of the tuned configuration, as it appears in the result.
fn target_name(options: &BenchTuneBuffers) -> String {
    match &options.file {
        Some(path) => path.display().to_string(),
        None => format!(
            "preset {}, {} at {} Mb/s",
            options.preset,
            count_noun(u64::from(options.ports), "port"),
            options.speed
        ),
    }
}

/// Reads the configuration of the file, or builds the configuration of the preset.
fn read_target_config(options: &BenchTuneBuffers) -> Result<SwitchConfig, Failure> {
    match &options.file {
        Some(path) => read_dut_config(path, options.switch.as_deref()),
        None => preset_switch(
            &options.preset,
            options.ports,
            options.speed,
            TrafficParameters::cable_delay(options.cable_m),
        ),
    }
}

/// Checks the frame lengths of the arguments and returns the plan of the search.
fn plan_tuning(options: &BenchTuneBuffers, target: TuningTarget) -> Result<TuningPlan, Failure> {
    let requested_bytes = options.frame_size;
    let frame_bytes =
        TrafficParameters::valid_frame_bytes(requested_bytes, target.tagged).ok_or_else(|| {
            Failure::usage(format!("no RoCEv2 packet has a length of {requested_bytes}"))
                .at("--frame-size")
                .fix(format!(
                    "choose at most {}",
                    TrafficParameters::frame_bytes_max(target.tagged)
                ))
        })?;
    let frame_bytes_max = target.frame_bytes_max() + if target.tagged { 4 } else { 0 };
    if frame_bytes > frame_bytes_max {
        return Err(Failure::usage(format!(
            "frames of {frame_bytes} bytes are longer than the MTU of the ports allows"
        ))
        .at("--frame-size")
        .fix(format!("choose at most {frame_bytes_max}")));
    }
    if frame_bytes != requested_bytes {
        output::print_note(&format!(
            "frames have {frame_bytes} bytes, because payloads are padded to a multiple of four bytes"
        ));
    }
    let own_frame_bytes = options.own_frame_size.unwrap_or(frame_bytes_max);
    if own_frame_bytes != 0 && !(64..=frame_bytes_max).contains(&own_frame_bytes) {
        return Err(Failure::usage(format!(
            "the ports cannot send a frame of {own_frame_bytes} bytes"
        ))
        .at("--own-frame-size")
        .fix(format!("choose 64 to {frame_bytes_max}, or 0 for none")));
    }
    let traffic = TrafficParameters {
        frame_bytes,
        own_frame_bytes,
        delay: TrafficParameters::cable_delay(options.cable_m),
        response_ns: options
            .response_ns
            .unwrap_or_else(|| TrafficParameters::response_ns(&target.link_timing())),
    };
    Ok(TuningPlan {
        patterns: match options.pattern.is_empty() {
            true => default_patterns(target.ports.len()),
            false => options.pattern.clone(),
        },
        subject: target,
        traffic,
        seeds: options.seeds.0.clone(),
        jobs: options
            .jobs
            .map_or_else(|| allowed_cpus().len().max(1), usize::from),
    })
}

/// Prints and saves the result and the configuration layer with the smallest buffers.
fn output_tuning(
    options: &BenchTuneBuffers,
    plan: &TuningPlan,
    tuning: &TuningResult,
    result: &xoff_measure::result::BenchResult,
) -> Result<Exit, Failure> {
    let layer = plan.subject.config_layer(&tuning.smallest.candidate);
    let text = serde_json::to_string_pretty(&layer).expect("a JSON value") + "\n";
    let output_result = options.result.print_and_save(result);
    if options.result.format == ResultFormat::Table && !options.result.json {
        output::print(&text);
    }
    if let Some(path) = &options.write {
        write_result_file("--write", path, &text)?;
    }
    let exit = output_result?;
    match tuning.given.dropped() {
        0 => Ok(exit),
        _ => Ok(Exit::CheckFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_patterns_have_no_more_senders_than_ports() {
        let names = |ports| {
            let patterns = default_patterns(ports);
            patterns
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(names(32), "incast:8,standstill:8");
        assert_eq!(names(8), "incast:7,standstill:7");
        assert_eq!(names(2), "standstill:1");
    }
}
