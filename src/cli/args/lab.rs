//! The arguments of `xoff lab`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use xoff_units::Picos;

use super::super::output;
use super::super::values::{self, PcapArgument};
use super::{BackendChoice, MemoryArgument, SwitchRuntimeArguments};
use xoff_lab::{
    CheckFormat, EVENTS_MAX_DEFAULT, FieldSetting, OutputFormat, ProgramPolicy, ProgressFormat, Seeds, Shard,
    ThreadCount,
};

/// `xoff lab`
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Start a lab, run its workload, print the result, and stop the lab
    #[command(after_help = "\
Prints the result as a table. --report saves the result as JSON. Without root, the lab runs in a user namespace.
All namespaces and devices of the lab are removed at the end, also after an error.

Exit codes: 0 all lossless flows are complete, 1 a lossless flow is not complete, 5 the run is tainted.

Examples:
  xoff lab run testbeds/incast.xoff.yml
  xoff lab run testbeds/incast.xoff.yml --dilate 10 --report incast.json
  xoff lab run testbeds/sweeps/incast.xoff.yml --virtual --seeds 1..=8 --set transports.default.congestion=none,dcqcn")]
    Run(Box<LabRun>),
    /// Run a lab with each of several load-balancing schemes, and with all its hosts on one
    /// non-blocking switch
    #[command(after_help = "\
Prints a row for each scheme: bus bandwidth, percentage of the bus bandwidth on one non-blocking switch, completion
time, tail latency, balance of links, pauses, ECN marks, reordering and drops (docs/compare.md). Prints a warning if
a scheme reorders packets and the hosts require packets in order.

Exit codes: 0 every run met the conditions of its lab, 1 a run did not, 2 usage, 3 missing requirement, 4 the lab or a scheme
is invalid, 5 a run in real time is tainted.

Examples:
  xoff lab compare testbeds/fabrics/ring-allreduce.xoff.yml --virtual --lb ecmp,flowlet,round-robin,cluster --seeds 1..=32
  xoff lab compare FILE --virtual --lb ecmp,drill --json compare.json --csv compare.csv --plots plots/
  xoff lab compare testbeds/fabrics/ring-allreduce.xoff.yml --virtual --by transports.default.congestion=none,dcqcn")]
    Compare(Box<LabCompare>),
    /// Merge the partial reports of a sweep from `lab run --shard`, and print the table of the sweep
    #[command(after_help = "\
Exit codes: 0 every run met the conditions of its lab, 1 a run did not, 2 a part of the sweep is missing, 4 a file is
not a partial report.

Example:
  xoff lab merge part-*.json --report sweep.json --csv sweep.csv")]
    Merge(LabMerge),
    /// Validate labs, run their scripts and print their checks
    #[command(after_help = "\
Prints the result of each check of the script, as TAP. Every machine gives the same results. A lab whose script has no
condition, or without a script, is validated and not run. Its check is `the lab file is valid`.

Exit codes: 0 all checks hold and all labs are valid, 1 a check does not hold, 4 a lab or its script is invalid.

Examples:
  xoff lab check my.xoff.yml
  xoff lab check testbeds/checks/*.xoff.yml --virtual
  xoff lab check my.xoff.yml --virtual --format junit > my.xml")]
    Check(LabCheck),
    /// Start a lab and keep it running
    Up(LabUpArguments),
    /// Stop a running lab
    Down {
        /// Name of the lab, as listed by `xoff lab ls`
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a plain host of a running lab, and exit with the exit code of the command
    #[command(after_help = "\
Example:
  xoff lab exec plain h1 -- ping -c 3 10.0.0.2")]
    Exec {
        /// Name of the lab
        #[arg(value_name = "LAB")]
        name: String,
        /// Name of the host in the lab file
        #[arg(value_name = "NODE")]
        node: String,
        /// The command and its arguments
        #[arg(
            value_name = "COMMAND",
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true
        )]
        command: Vec<std::ffi::OsString>,
    },
    /// Create a lab file from the input files of another simulator
    #[command(after_help = "\
Prints the lab file to standard output. Notes on standard error and at the top of the lab file list settings of the
input without an equivalent in a lab file (docs/import.md).

Exit codes: 0 the lab file is written, 2 usage, 3 it cannot be written, 4 an input file is missing or invalid.

Examples:
  xoff lab import --ns3 simulation/mix --output mix.xoff.yml
  xoff lab import --ns3 simulation/mix/config_fat.txt > fat.xoff.yml && xoff lab run fat.xoff.yml --virtual")]
    Import(LabImport),
    /// List the running labs of this machine
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `xoff lab run`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabRun {
    /// The lab file in YAML: nodes, links and workload
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the report here as JSON (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Worker threads and dilation.
    #[command(flatten)]
    pub running: SwitchRuntimeArguments,
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Port backend between switches and hosts: `packet` (veth), `tap`, `pnet`, `xdp` or `auto`
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Record the frames of a port of a switch, or of all ports, as pcapng. Repeat the option for
    /// each file (docs/capture.md)
    #[arg(long, value_name = "[SWITCH[:PORT]=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
    /// Run in virtual time: without namespaces, and independent of the clock of the machine. The same seed
    /// gives the same report (docs/virtual-time.md)
    #[arg(long = "virtual", conflicts_with_all = ["dilate", "workers", "pin", "backend", "pcap_snaplen"])]
    pub virtual_time: bool,
    /// Output format: tables, the report as JSON, or in virtual time the table of nccl-tests for each collective
    #[arg(long, value_enum, default_value_t = FormatChoice::Table)]
    pub format: FormatChoice,
    /// Options of virtual time.
    #[command(flatten)]
    pub in_virtual_time: VirtualTimeArguments,
    /// Memory and programs.
    #[command(flatten)]
    pub limits: LabLimitArguments,
}

/// The limits of a lab file that may come from another person.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LabLimitArguments {
    /// Memory that the lab may need.
    #[command(flatten)]
    pub memory: MemoryArgument,
    /// Refuse a lab that starts programs: `exec` of a plain host, or a guest (SECURITY.md)
    #[arg(long, conflicts_with = "allow_exec")]
    pub no_exec: bool,
    /// As root, also start the programs of a lab file that belongs to another user
    #[arg(long)]
    pub allow_exec: bool,
}

impl LabLimitArguments {
    /// Returns whether the lab may start programs.
    pub(in crate::cli) fn programs(self) -> ProgramPolicy {
        match (self.no_exec, self.allow_exec) {
            (true, _) => ProgramPolicy::Refuse,
            (false, true) => ProgramPolicy::Allow,
            (false, false) => ProgramPolicy::OwnFiles,
        }
    }
}

/// `xoff lab import`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabImport {
    /// A folder with config.txt, topology.txt and flow.txt of the ns-3 HPCC model, or a configuration file of
    /// this model
    #[arg(long, value_name = "PATH", required = true)]
    pub ns3: PathBuf,
    /// Write the lab file here [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the lab file and the notes as JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff lab compare`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("compared").required(true).args(["lb", "by"])))]
pub(crate) struct LabCompare {
    /// The lab file in YAML: nodes, links and workload
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Load-balancing schemes to compare, such as ecmp,flowlet,per-packet. Each scheme
    /// replaces topology.defaults.load_balancing
    #[arg(long, value_name = "A,B,...", value_parser = values::parse_schemes)]
    pub lb: Option<FieldSetting>,
    /// Compare values of another field of the lab file
    #[arg(long, value_name = "PATH=V1,V2,...")]
    pub by: Option<FieldSetting>,
    /// Run in virtual time: without namespaces, and independent of the clock of the machine. The same seed
    /// gives the same report (docs/virtual-time.md)
    #[arg(long = "virtual", conflicts_with_all = ["dilate", "workers", "pin", "backend"])]
    pub virtual_time: bool,
    /// Run once for each seed, such as 1..=32 or 1,2,5
    #[arg(long, value_name = "LIST", default_value = "0")]
    pub seeds: Seeds,
    /// Replace a value of the lab file. With several values, the comparison is repeated for each value. With
    /// several options, it is repeated for each combination (docs/sweeps.md)
    #[arg(long, value_name = "PATH=V1[,V2...]")]
    pub set: Vec<FieldSetting>,
    /// Write all results here as JSON (docs/compare.md). Without FILE: print them, like --format json
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the table here as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw link loads, completion times, queues and pauses as SVG files in this folder
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    /// Output format: the table, or all results as JSON
    #[arg(long, value_enum, default_value_t = CompareFormatChoice::Table)]
    pub format: CompareFormatChoice,
    /// End each run after this model time, such as 10ms [default: the end of the workload]
    #[arg(long, value_name = "TIME", requires = "virtual_time", value_parser = values::parse_model_time)]
    pub until: Option<Picos>,
    /// Abort a run after this number of events
    #[arg(long, value_name = "N", requires = "virtual_time", default_value_t = EVENTS_MAX_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// Number of parallel runs, 1 to 1024 [default: the number of CPUs that the process may use]
    #[arg(long, value_name = "N", requires = "virtual_time", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Worker threads and dilation.
    #[command(flatten)]
    pub running: SwitchRuntimeArguments,
    /// Port backend between switches and hosts
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Memory and programs.
    #[command(flatten)]
    pub limits: LabLimitArguments,
}

/// The output formats of a comparison.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompareFormatChoice {
    /// A table for people
    Table,
    /// All results, as with --json
    Json,
}

/// `xoff lab check`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabCheck {
    /// Lab files, with or without a `script` (docs/script.md)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Run scripts in virtual time. Scripts with conditions require this option
    #[arg(long = "virtual")]
    pub virtual_time: bool,
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Abort a lab after this number of events
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// Number of labs that run in parallel [default: the number of CPUs that the process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Number of threads of each lab, or `auto` for one per CPU. It changes no result (docs/virtual-time.md#threads)
    #[arg(long, value_name = "N|auto", default_value = "1", value_parser = values::parse_threads)]
    pub threads: ThreadCount,
    /// Skip steps of collectives and iterations that repeat. Results of skipped steps are estimates
    /// (docs/acceleration.md)
    #[arg(long, requires = "virtual_time")]
    pub accelerate: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = CheckFormatChoice::Tap)]
    pub format: CheckFormatChoice,
    /// Write the report of a single lab here as JSON (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Memory and programs. A script runs in virtual time, which starts no program.
    #[command(flatten)]
    pub limits: LabLimitArguments,
}

/// The output formats of `xoff lab check`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CheckFormatChoice {
    /// Test Anything Protocol, version 14
    Tap,
    /// JUnit XML, for build servers
    Junit,
    /// JSON, for programs
    Json,
    /// A table with a row for each lab
    Table,
}

impl From<CheckFormatChoice> for CheckFormat {
    fn from(choice: CheckFormatChoice) -> Self {
        match choice {
            CheckFormatChoice::Tap => CheckFormat::Tap,
            CheckFormatChoice::Junit => CheckFormat::Junit,
            CheckFormatChoice::Json => CheckFormat::Json,
            CheckFormatChoice::Table => CheckFormat::Table,
        }
    }
}

/// Options of runs in virtual time.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Virtual time")]
pub(crate) struct VirtualTimeArguments {
    /// End after this model time, such as 10ms [default: the end of the workload]
    #[arg(long, value_name = "TIME", value_parser = values::parse_model_time)]
    pub until: Option<Picos>,
    /// Write an event log here, one JSON object per line (docs/events.md)
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub events: Option<PathBuf>,
    /// Include every frame on every link in the event log
    #[arg(long, requires = "events")]
    pub events_frames: bool,
    /// Write time series of queues, pauses and rates as CSV files in this folder
    #[arg(long, value_name = "FOLDER", requires = "virtual_time")]
    pub series: Option<PathBuf>,
    /// Draw link loads, queues and pauses over time as SVG files in this folder
    #[arg(long, value_name = "FOLDER", requires = "virtual_time")]
    pub plots: Option<PathBuf>,
    /// Model time between two samples of the time series
    #[arg(long, value_name = "TIME", requires = "series", default_value = "10us", value_parser = values::parse_model_time)]
    pub series_interval: Picos,
    /// Abort after this number of events
    #[arg(long, value_name = "N", requires = "virtual_time", default_value_t = EVENTS_MAX_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// Number of threads of a run, or `auto` for one per CPU. It changes no result (docs/virtual-time.md#threads)
    #[arg(long, value_name = "N|auto", requires = "virtual_time", default_value = "1", value_parser = values::parse_threads)]
    pub threads: ThreadCount,
    /// Skip steps of collectives and iterations that repeat. Results of skipped steps are estimates
    /// (docs/acceleration.md)
    #[arg(long, requires = "virtual_time", conflicts_with_all = ["events", "pcap", "series", "plots"])]
    pub accelerate: bool,
    /// Write the results of collectives here in the JSON form of nccl-tests
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub nccl_json: Option<PathBuf>,
    /// Progress on standard error: a bar if it is a terminal, or a JSON object per second (docs/virtual-time.md)
    #[arg(long, value_name = "FORM", value_enum, requires = "virtual_time", default_value_t = ProgressChoice::Auto)]
    pub progress: ProgressChoice,
    /// Options of sweeps.
    #[command(flatten)]
    pub sweep: SweepArguments,
}

/// The values of `--progress`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressChoice {
    /// A bar if standard error is a terminal.
    #[default]
    Auto,
    /// A JSON object per second.
    Json,
    /// No progress.
    None,
}

impl From<ProgressChoice> for ProgressFormat {
    fn from(choice: ProgressChoice) -> ProgressFormat {
        match choice {
            ProgressChoice::Auto if std::io::stderr().is_terminal() => ProgressFormat::Bar,
            ProgressChoice::Json => ProgressFormat::Json(output::print_note),
            ProgressChoice::Auto | ProgressChoice::None => ProgressFormat::Hidden,
        }
    }
}

/// Options of sweeps.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sweeps")]
pub(crate) struct SweepArguments {
    /// Run once for each seed, such as 1..=32 or 1,2,5 (docs/sweeps.md)
    #[arg(long, value_name = "LIST", requires = "virtual_time",
          conflicts_with_all = ["seed", "events", "pcap", "series", "plots", "nccl_json"])]
    pub seeds: Option<Seeds>,
    /// Replace a value of the lab file. With several values, the lab runs once for each value. With several
    /// options, the lab runs once for each combination
    ///
    /// PATH consists of keys and of list positions from 0, such as transports.t1.congestion or
    /// workload.jobs.0.bytes. The `name` of a list element can replace its position.
    #[arg(long, value_name = "PATH=V1[,V2...]")]
    pub set: Vec<FieldSetting>,
    /// Number of parallel runs of a sweep, 1 to 1024 [default: the number of CPUs that the process may use]
    #[arg(long, value_name = "N", requires = "virtual_time", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run only part I of the N parts of a sweep. The first part is 1. `xoff lab merge` merges the reports of
    /// the parts
    #[arg(long, value_name = "I/N", requires_all = ["virtual_time", "report"])]
    pub shard: Option<Shard>,
    /// Write the table of a sweep here as CSV
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub csv: Option<PathBuf>,
}

/// The values of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// Tables for people.
    #[default]
    Table,
    /// The table of nccl-tests.
    Nccl,
    /// The report.
    Json,
}

impl From<FormatChoice> for OutputFormat {
    fn from(choice: FormatChoice) -> OutputFormat {
        match choice {
            FormatChoice::Table => OutputFormat::Table,
            FormatChoice::Nccl => OutputFormat::Nccl,
            FormatChoice::Json => OutputFormat::Json,
        }
    }
}

/// `xoff lab merge`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabMerge {
    /// Reports of all parts, in any order
    #[arg(value_name = "PART", required = true)]
    pub parts: Vec<PathBuf>,
    /// Write the merged sweep here as JSON (docs/sweeps.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the table here as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print the merged sweep as JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff lab up`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabUpArguments {
    /// The lab file in YAML: nodes and links
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON when the lab is up
    #[arg(long)]
    pub json: bool,
    /// Worker threads and dilation.
    #[command(flatten)]
    pub running: SwitchRuntimeArguments,
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Port backend between switches and hosts
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Record the frames of a port of a switch, or of all ports, as pcapng. Repeat the option for
    /// each file (docs/capture.md)
    #[arg(long, value_name = "[SWITCH[:PORT]=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
    /// Memory and programs.
    #[command(flatten)]
    pub limits: LabLimitArguments,
}
