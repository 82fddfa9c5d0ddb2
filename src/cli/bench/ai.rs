//! `xoff bench ai`: key figures of the AI-fabric benchmarking draft.

use std::path::PathBuf;

use crate::cli::choice::choice_parser;
use clap::Args;

use super::super::args::MemoryArgument;
use super::super::size::parse_size_bytes;
use super::super::{output, signals};
use super::result::{ResultArguments, check_no_duplicates};
use xoff_lab::plan::{LabPlan, TimeMode};
use xoff_lab::{
    FieldOption, FieldValue, LOAD_BALANCING, LoadOptions, Seeds, check_memory, load_with_values, units,
};
use xoff_measure::ai::{
    BenchLab, Collective, FabricShape, LabRunResults, LabSettings, ReportSetup, bench_result, render_report,
    run_labs,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{allowed_cpus, count_noun, format_bit_rate, write_result_file};

/// `xoff bench ai`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchAi {
    /// A lab file with jobs [default: a generated fabric, --fabric]
    #[arg(value_name = "FILE", conflicts_with_all = ["fabric", "speed", "collectives", "bytes", "iterations", "congestion"])]
    pub file: Option<PathBuf>,
    /// Generated fabric: leaf-spine:LEAVESxSPINESxHOSTS (hosts per leaf), fat-tree:PORTS (ports per
    /// switch), or star:HOSTS
    #[arg(long, value_name = "FABRIC", default_value = "leaf-spine:4x4x4")]
    pub fabric: FabricShape,
    /// Speed of all links of the generated fabric
    #[arg(long, value_name = "SPEED", default_value = "100g", value_parser = parse_speed_mbps)]
    pub speed: u32,
    /// Collectives, separated by commas. Each collective has its own runs
    #[arg(
        long,
        value_parser = choice_parser::<Collective>(),
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "allreduce,alltoall"
    )]
    pub collectives: Vec<Collective>,
    /// Sizes of a collective as in nccl-tests, separated by commas
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "4M", value_parser = parse_size_bytes)]
    pub bytes: Vec<u64>,
    /// Iterations of each collective
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: u32,
    /// Congestion control of the hosts
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub congestion: String,
    /// Load-balancing schemes, separated by commas. Each scheme has its own runs [default: the scheme of the
    /// lab, or ecmp]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub lb: Vec<String>,
    /// Seeds of the runs. Each seed gives one sample of each measured quantity
    #[arg(long, value_name = "SEEDS", default_value = "1..=5")]
    pub seeds: Seeds,
    /// Number of parallel runs [default: the number of CPUs that the process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Also write the results in the report format of the draft, as Markdown
    #[arg(long, value_name = "FILE")]
    pub draft: Option<PathBuf>,
    /// Memory that the runs may need.
    #[command(flatten)]
    pub memory: MemoryArgument,
    /// Output of the result.
    #[command(flatten)]
    pub result: ResultArguments,
}

pub(super) const HELP: &str = "\
Runs collectives over a fabric in virtual time, once for each seed, and prints the key figures of the AI-fabric
benchmarking draft: completion time and its ratio to the roofline, bus bandwidth, 99th and 99.9th percentile of the
message completion times, max-mean ratio (MMR) and Jain's index of the load of links between switches, ECN marks, PFC
events and paused time, retransmissions, packets out of order, queue depths and drops. docs/bench.md defines the
figures. The same seeds give the same figures on every machine.

Exit codes: 0 ok, 1 a run did not meet the conditions of its lab or did not end, 2 usage, 4 the lab or a scheme is
invalid, 5 a run had no traffic, 130 interrupted.

Examples:
  xoff bench ai
  xoff bench ai --fabric leaf-spine:8x4x8 --speed 400g --collectives alltoall --lb ecmp,flowlet,cluster
  xoff bench ai testbeds/fabrics/ring-allreduce.xoff.yml --seeds 1..=10 --draft report.md
  xoff bench ai --json --save ai.json";

fn parse_speed_mbps(text: &str) -> Result<u32, String> {
    units::parse_speed_mbps(text).ok_or(format!("write {}", units::SPEED))
}

pub(super) fn run_bench(options: &BenchAi) -> Result<Exit, Failure> {
    options.result.check()?;
    if let Some(path) = &options.draft {
        output::check_report_path("--draft", path)?;
    }
    check_no_duplicates("--collectives", &options.collectives, |collective| {
        collective.name().to_owned()
    })?;
    check_no_duplicates("--bytes", &options.bytes, u64::to_string)?;
    check_no_duplicates("--lb", &options.lb, String::clone)?;
    let stop = signals::watch_stop_signals()?;
    let (labs, setup) = match &options.file {
        Some(path) => labs_of_file(options, path)?,
        None => labs_of_fabric(options)?,
    };
    let seeds = &options.seeds.0;
    let run_count = labs.len() * seeds.len();
    let jobs = options
        .jobs
        .map_or_else(|| allowed_cpus().len().max(1), usize::from);
    let limit = LoadOptions {
        time: TimeMode::Virtual,
        memory: options.memory.limit().divided_by(jobs.min(run_count)),
    };
    for lab in &labs {
        check_memory(&lab.plan, &limit)?;
    }
    let progress_step = run_count.div_ceil(10).max(1);
    let mut printed = 0;
    let print_progress = |done: usize| {
        if done != printed && (done.is_multiple_of(progress_step) || done == run_count) {
            printed = done;
            output::print_note(&format!("{done} of {}", count_noun(run_count as u64, "run")));
        }
    };
    let results: LabRunResults =
        match run_labs(&labs, seeds, jobs, options.memory.limit(), &stop, print_progress) {
            Err(failure) if failure.exit == Exit::Interrupted => {
                output::print_note(&failure.what);
                return Ok(Exit::Interrupted);
            }
            results => results?,
        };
    let result = bench_result(&setup.topology, seeds, &results);
    let output_result = options.result.print_and_save(&result);
    if let Some(path) = &options.draft {
        let text = render_report(&setup, &result, seeds.len(), &results.anomalies);
        write_result_file("--draft", path, &text)?;
    }
    let exit = output_result?;
    Ok(match results.exit() {
        Exit::Ok => exit,
        of_runs => of_runs,
    })
}

/// Returns the load-balancing schemes of `--lb`. Without `--lb`, the result is one `None`, which keeps the
/// scheme of the lab.
fn selected_schemes(options: &BenchAi) -> Vec<Option<&str>> {
    match options.lb.as_slice() {
        [] => vec![None],
        some => some.iter().map(|name| Some(name.as_str())).collect(),
    }
}

/// Returns one lab for each scheme, with the lab file as the basis.
fn labs_of_file(options: &BenchAi, path: &std::path::Path) -> Result<(Vec<BenchLab>, ReportSetup), Failure> {
    let mut labs = Vec::new();
    for scheme in selected_schemes(options) {
        let field_values: Vec<FieldValue> = scheme
            .iter()
            .map(|scheme| FieldValue {
                path: LOAD_BALANCING.to_owned(),
                value: (*scheme).to_owned(),
                option: FieldOption::LoadBalancing,
            })
            .collect();
        let plan: LabPlan = load_with_values(path, &field_values, TimeMode::Virtual)?;
        if plan.workload.jobs.jobs.is_empty() {
            return Err(Failure::configuration("the lab has no jobs")
                .at(path.display().to_string())
                .fix(
                    "add workload.jobs, such as {name: train, kind: ring-allreduce, hosts: all, bytes: 4M}",
                ));
        }
        labs.push(BenchLab {
            prefix: scheme.unwrap_or_default().to_owned(),
            name: plan.name.clone(),
            plan,
        });
    }
    let plan = &labs[0].plan;
    let setup = ReportSetup {
        topology: format!(
            "{}: {}, {}, {}",
            path.display(),
            count_noun(plan.hosts.len() as u64, "host"),
            count_noun(plan.switches.len() as u64, "switch"),
            count_noun(plan.links.len() as u64, "link")
        ),
        configuration: format!("Lab file `{}`, seeds {:?}.", path.display(), options.seeds.0),
        command: command_line(),
    };
    Ok((labs, setup))
}

/// Returns a lab of the generated fabric for each scheme, collective and size.
fn labs_of_fabric(options: &BenchAi) -> Result<(Vec<BenchLab>, ReportSetup), Failure> {
    let mut labs = Vec::new();
    for scheme in selected_schemes(options) {
        for &collective in &options.collectives {
            for &bytes in &options.bytes {
                let setting = LabSettings {
                    fabric: options.fabric,
                    speed_mbps: options.speed,
                    bytes,
                    iterations: options.iterations,
                    congestion: options.congestion.clone(),
                };
                // The name has the size only if there are several sizes.
                let size = match options.bytes.len() {
                    1 => String::new(),
                    _ => bytes.to_string(),
                };
                let names = [scheme.unwrap_or_default(), &size];
                let prefix: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
                labs.push(BenchLab {
                    prefix: prefix.join("/"),
                    name: collective.name().to_owned(),
                    plan: setting.plan_lab(collective, scheme)?,
                });
            }
        }
    }
    let setup = ReportSetup {
        topology: format!(
            "{} at {}",
            options.fabric,
            format_bit_rate(u64::from(options.speed) * 1_000_000)
        ),
        configuration: format!(
            "Preset `roce-lossless` on all switches, links with a delay of 500 ns, packets of 4096 bytes, congestion \
             control `{}`, hosts that accept packets in any order, seeds {:?}.",
            options.congestion, options.seeds.0
        ),
        command: command_line(),
    };
    Ok((labs, setup))
}

/// Returns the command line without the path of the program.
fn command_line() -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<String>>().join(" ");
    format!("xoff {arguments}")
}
