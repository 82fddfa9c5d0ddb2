//! What can be typed after `xoff lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use xoff_units::Picos;

use super::super::values::{self, PcapArgument};
use super::{BackendChoice, RunningArguments};
use xoff_lab::{CheckFormat, EVENTS_MAX_DEFAULT, FieldSetting, OutputFormat, Seeds, Shard};

/// `xoff lab`
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Bring a lab up, run its workload, print the result, take everything down
    #[command(after_help = "\
The result is a table; --report keeps it as JSON. Needs no root: without it, everything happens in a user
namespace. Nothing is left behind, however it ends.

Exit codes: 0 all lossless flows arrived whole, 1 one did not, 5 the run is tainted and proves nothing.

Examples:
  xoff lab run testbeds/incast.xoff.yml
  xoff lab run testbeds/incast.xoff.yml --dilate 10 --report incast.json
  xoff lab run FILE --virtual --seeds 1..=32 --set transports.t1.congestion=none,dcqcn --csv sweep.csv")]
    Run(Box<LabRun>),
    /// The same lab under several load-balancing schemes, beside its hosts on one switch that blocks nobody
    #[command(after_help = "\
A row for each scheme: bus bandwidth, percent of the same job on one non-blocking switch, completion time, tail latency,
balance of links, pauses, marks, reordering, drops (docs/compare.md). Warns where a scheme reorders and hosts cannot bear it.

Exit codes: 0 every run kept what its lab promises, 1 one did not, 2 usage, 3 this environment cannot, 4 the lab or a scheme
is wrong, 5 a run in real time is tainted.

Examples:
  xoff lab compare testbeds/fabrics/ring-allreduce.xoff.yml --virtual --lb ecmp,flowlet,round-robin,cluster --seeds 1..=32
  xoff lab compare FILE --virtual --lb ecmp,drill --json compare.json --csv compare.csv --plots plots/
  xoff lab compare FILE --virtual --by transports.default.congestion=none,dcqcn")]
    Compare(Box<LabCompare>),
    /// Merge the parts of a sweep that `lab run --shard` has written, and print their table
    #[command(after_help = "\
Exit codes: 0 every run kept what its lab promises, 1 one did not, 2 a part is missing, 4 a file is no part.

Example:
  xoff lab merge part-*.json --report sweep.json --csv sweep.csv")]
    Merge(LabMerge),
    /// Run the scripts of labs, which say what must come out
    #[command(after_help = "\
A result for each condition of the script, as TAP; nothing is asked of this machine but time.

Exit codes: 0 all conditions held, 1 one did not, 4 a lab or its script is wrong.

Examples:
  xoff lab check testbeds/checks/*.xoff.yml --virtual
  xoff lab check my.xoff.yml --virtual --format junit > my.xml")]
    Check(LabCheck),
    /// Bring a lab up and leave it running
    Up(LabUp),
    /// Take a running lab down
    Down {
        /// Name of the lab, as `xoff lab ls` shows it.
        name: String,
    },
    /// Run a command in a plain host of a running lab; ends with its exit code
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
    /// Write a lab from the input files of another simulator
    #[command(after_help = "\
The lab goes to standard output. Notes on standard error, and in the head of the lab, name what it does not take over
(docs/import.md).

Exit codes: 0 the lab is written, 2 usage, 3 it cannot be written, 4 a file is missing or wrong.

Examples:
  xoff lab import --ns3 simulation/mix --output mix.xoff.yml
  xoff lab import --ns3 simulation/mix/config_fat.txt > fat.xoff.yml && xoff lab run fat.xoff.yml --virtual")]
    Import(LabImport),
    /// List the labs that run on this machine
    Ls {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// `xoff lab run`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabRun {
    /// The lab: nodes, links and workload, in YAML
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the result here, as JSON (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// How the work is spread.
    #[command(flatten)]
    pub running: RunningArguments,
    /// Seed of every random decision
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How frames are moved between switch and hosts: `packet` (veth), `tap`, `pnet`, `xdp` or `auto`
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Record the frames of a switch's port, or of all its ports, as pcapng; once for each file (docs/capture.md)
    #[arg(long, value_name = "[SWITCH[:PORT]=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
    /// In virtual time: no namespaces, no wall clock, the same bytes for the same seed (docs/virtual-time.md)
    #[arg(long = "virtual", conflicts_with_all = ["dilate", "workers", "pin", "backend", "pcap_snaplen"])]
    pub virtual_time: bool,
    /// What only virtual time has.
    #[command(flatten)]
    pub in_virtual_time: VirtualArguments,
}

/// `xoff lab import`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabImport {
    /// A folder with config.txt, topology.txt and flow.txt of the HPCC model, or a configuration that names its files
    #[arg(long, value_name = "PATH", required = true)]
    pub ns3: PathBuf,
    /// Write the lab here [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `xoff lab compare`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("compared").required(true).args(["lb", "by"])))]
pub(crate) struct LabCompare {
    /// The lab: nodes, links and workload, in YAML
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Load-balancing schemes, such as ecmp,flowlet,per-packet; each is put into topology.defaults.load_balancing
    #[arg(long, value_name = "A,B,...", value_parser = values::schemes)]
    pub lb: Option<FieldSetting>,
    /// Compare values of another field of the lab file instead
    #[arg(long, value_name = "PATH=V1,V2,...")]
    pub by: Option<FieldSetting>,
    /// In virtual time: no namespaces, no wall clock, the same bytes for the same seed (docs/virtual-time.md)
    #[arg(long = "virtual", conflicts_with_all = ["dilate", "workers", "pin", "backend"])]
    pub virtual_time: bool,
    /// Run once for each seed, such as 1..=32 or 1,2,5
    #[arg(long, value_name = "LIST", default_value = "0")]
    pub seeds: Seeds,
    /// Replace a value of the lab file; with several, compare once for each; several options multiply (docs/sweeps.md)
    #[arg(long, value_name = "PATH=V1[,V2...]")]
    pub set: Vec<FieldSetting>,
    /// Write everything here, as JSON (docs/compare.md)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table here, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw link loads, completion times, queues and pauses here, as SVG
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    /// What is printed: the table, or everything as JSON
    #[arg(long, value_enum, default_value_t = CompareFormatChoice::Table)]
    pub format: CompareFormatChoice,
    /// End each run after this much model time, such as 10ms; otherwise when the workload is over
    #[arg(long, value_name = "TIME", requires = "virtual_time", value_parser = values::model_time)]
    pub until: Option<Picos>,
    /// Give a run up after so many events
    #[arg(long, value_name = "N", requires = "virtual_time", default_value_t = EVENTS_MAX_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// Runs at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N", requires = "virtual_time", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// How the work is spread.
    #[command(flatten)]
    pub running: RunningArguments,
    /// How frames are moved between switch and hosts
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
}

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompareFormatChoice {
    /// A table for people
    Table,
    /// Everything, as with --json
    Json,
}

/// `xoff lab check`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabCheck {
    /// Labs with a `script` (docs/script.md)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// In virtual time, which scripts need
    #[arg(long = "virtual")]
    pub virtual_time: bool,
    /// Seed of every random decision
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Give a lab up after this many events
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// Run so many labs at once (default: one on each core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Form of the results
    #[arg(long, value_enum, default_value_t = CheckFormatChoice::Tap)]
    pub format: CheckFormatChoice,
    /// Write the report of the lab here, as JSON (docs/report.md); of one lab only
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Forms of the results of `xoff lab check`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CheckFormatChoice {
    /// Test Anything Protocol, version 14
    Tap,
    /// JUnit's XML, for build servers
    Junit,
    /// JSON
    Json,
    /// A table: a row for each lab
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
pub(crate) struct VirtualArguments {
    /// End after this much model time, such as 10ms; otherwise when the workload is over
    #[arg(long, value_name = "TIME", value_parser = values::model_time)]
    pub until: Option<Picos>,
    /// Write what happens here, one JSON object a line (docs/events.md)
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub events: Option<PathBuf>,
    /// Every frame on every link in the event log too
    #[arg(long, requires = "events")]
    pub events_frames: bool,
    /// Write queues, pauses and rates over time as CSV files here
    #[arg(long, value_name = "FOLDER", requires = "virtual_time")]
    pub series: Option<PathBuf>,
    /// Draw link loads, queues and pauses over time here, as SVG
    #[arg(long, value_name = "FOLDER", requires = "virtual_time")]
    pub plots: Option<PathBuf>,
    /// Model time between two samples of the series
    #[arg(long, value_name = "TIME", requires = "series", default_value = "10us", value_parser = values::model_time)]
    pub series_interval: Picos,
    /// Give up after so many events
    #[arg(long, value_name = "N", requires = "virtual_time", default_value_t = EVENTS_MAX_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub events_max: u64,
    /// What is printed: tables, nccl-tests' table of each collective, or the report as JSON
    #[arg(long, value_enum, requires = "virtual_time", default_value_t = FormatChoice::Table)]
    pub format: FormatChoice,
    /// Write the results of collectives here, in the form of nccl-tests' JSON
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub nccl_json: Option<PathBuf>,
    /// What makes a sweep.
    #[command(flatten)]
    pub sweep: SweepArguments,
}

/// Options of sweeps.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sweeps")]
pub(crate) struct SweepArguments {
    /// Run once for each seed, such as 1..=32 or 1,2,5 (docs/sweeps.md)
    #[arg(long, value_name = "LIST", requires = "virtual_time",
          conflicts_with_all = ["seed", "events", "pcap", "series", "plots", "nccl_json"])]
    pub seeds: Option<Seeds>,
    /// Replace a value of the lab file; with several, run once for each; several options multiply
    ///
    /// PATH is made of keys and positions in lists: transports.t1.congestion, workload.jobs.0.bytes. An element of a list may
    /// be called by its `name`.
    #[arg(long, value_name = "PATH=V1[,V2...]")]
    pub set: Vec<FieldSetting>,
    /// Runs of a sweep at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N", requires = "virtual_time", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run only the I-th of N parts of a sweep, I from 1; `xoff lab merge` puts their reports together
    #[arg(long, value_name = "I/N", requires_all = ["virtual_time", "report"])]
    pub shard: Option<Shard>,
    /// Write the table of a sweep here, as CSV
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    pub csv: Option<PathBuf>,
}

/// `--format`
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
    /// Write the whole sweep here, as JSON (docs/sweeps.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write its table here, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print the whole sweep as JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff lab up`
#[derive(Clone, Debug, Args)]
pub(crate) struct LabUp {
    /// The lab: nodes and links, in YAML
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How the work is spread.
    #[command(flatten)]
    pub running: RunningArguments,
    /// Seed of every random decision
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How frames are moved between switch and hosts
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Record the frames of a switch's port, or of all its ports, as pcapng; once for each file (docs/capture.md)
    #[arg(long, value_name = "[SWITCH[:PORT]=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
}
