//! The arguments of `xoff conform`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use xoff_conform_port::{Adapter, FarDevice};

use super::backend::BackendChoice;
use crate::cli::values::{parse_mac, parse_speed_mbps};

/// `xoff conform`
#[derive(Debug, Subcommand)]
pub(crate) enum ConformCommand {
    /// List the checks
    List(ConformList),
    /// Print stimulus, observation, criterion and clause of a check
    #[command(after_help = "\
Example:
  xoff conform explain A6")]
    Explain(ConformExplain),
    /// Run checks against a device
    #[command(after_help = "\
With --virtual, the device is a model host of xoff, in virtual time with exact times. With --port, the device is
connected to a network device of this machine, and the checks run in real time. --device names the far end: the model
host, or a Linux host (plain), on which --adapter starts a program that sends traffic. Without --device, checks that
need this program are skipped. With --lockstep, the device is a simulator in another program, in virtual time:
docs/lockstep.md.

With --mutant, the device is a model host that is wrong in one behaviour: it shows how a failure looks.

The variables of the kernel's selftests replace options: NETIF (--port), REMOTE_TYPE and REMOTE_ARGS (--adapter),
REMOTE_V4 or REMOTE_V6 (--device plain:ADDRESS).

Exit codes: 0 no check failed, 1 a check failed or passed unexpectedly, 2 usage, 3 a port does not work or MAC control
frames do not reach the device or the instrument, 4 the NIC file is invalid, 5 inconclusive, 130 interrupted. With
--kselftest: 0 pass, 1 fail, 4 skip.

Examples:
  xoff conform run --virtual
  xoff conform run --port veth0 --device model:veth1
  xoff conform run --port eth1 --device plain:eth0 --adapter ssh:root@dut --html report.html
  xoff conform run --virtual A5 A6 A7 --speed 100g
  xoff conform run --lockstep /tmp/mac.sock A B
  xoff conform run --virtual A --mutant adds-timers --junit report.xml
  xoff conform run --virtual --nic testbeds/nics/example.yml --kselftest")]
    Run(ConformRun),
    /// Run the model device on a network device or in lock step, for an instrument at the other end
    #[command(after_help = "\
`xoff conform run --device model:DEVICE` starts this command. It reads requests from standard input and ends with it.
With --lockstep, it ends with its peer, and waits until the socket exists.

Exit codes: 0 the requests ended or the peer is done, 2 usage, 3 the network device does not work, or the peer breaks a
rule of the protocol or has crashed, 130 interrupted.

Examples:
  xoff conform device --port veth1 < /dev/null
  xoff conform device --lockstep /tmp/mac.sock")]
    Device(ConformDevice),
    /// Run the checks against all mutants: each check must fail on its own mutants and on no others
    #[command(after_help = "\
Exit codes: 0 the matrix is right, 1 it is not.

Examples:
  xoff conform matrix
  xoff conform matrix --port veth0 --device model:veth1
  xoff conform matrix --lockstep /tmp/mac.sock
  xoff conform matrix --format markdown > docs/conform-matrix.md")]
    Matrix(ConformMatrix),
}

/// `xoff conform list`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff conform explain`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformExplain {
    /// Identifier of the check, such as A5
    #[arg(value_name = "CHECK")]
    pub check: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `xoff conform run`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformRun {
    /// Checks, or groups: A reception, B generation, C configuration [default: all]
    #[arg(value_name = "CHECK")]
    pub checks: Vec<String>,
    /// Run in virtual time
    #[arg(long = "virtual", conflicts_with_all = ["port", "device", "adapter", "device_mac"])]
    pub virtual_time: bool,
    #[command(flatten)]
    pub lockstep: LockstepPeer,
    #[command(flatten)]
    pub far_end: ConformFarEnd,
    /// MAC address of a device without --device
    #[arg(long, value_name = "MAC", value_parser = parse_mac, conflicts_with = "device")]
    pub device_mac: Option<[u8; 6]>,
    /// Speed of the link
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_mbps, default_value = "1g")]
    pub speed: u32,
    /// Factor of counts and durations that do not change the criterion, above 0 and at most 1
    #[arg(long, value_name = "FACTOR", value_parser = parse_scale, default_value = "1", conflicts_with = "long")]
    pub scale: f64,
    /// Use the long forms of checks, such as a million transitions and a storm of 60 s
    #[arg(long)]
    pub long: bool,
    /// Expected deviations of a NIC
    #[arg(long, value_name = "FILE")]
    pub nic: Option<PathBuf>,
    /// Test a mutant instead of the model host (docs/conform-matrix.md lists them)
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,
    /// Print KTAP and use the exit codes of the kernel's selftests: 0 pass, 1 fail, 4 skip
    #[arg(long, conflicts_with = "json")]
    pub kselftest: bool,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the frames of each failed check as pcapng files to a folder
    #[arg(long, value_name = "FOLDER")]
    pub captures: Option<PathBuf>,
    /// Write a page with a picture of each check
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The peer of a run in lock step.
#[derive(Clone, Debug, Args)]
pub(crate) struct LockstepPeer {
    /// Create this Unix socket, and run in virtual time in lock step with the simulator that connects to it
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["port", "device", "adapter", "virtual_time", "device_mac"])]
    pub lockstep: Option<PathBuf>,
    /// Longest wait for the peer and for its next message, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout, default_value = "30", requires = "lockstep")]
    pub lockstep_timeout: Duration,
}

/// The port of the instrument and the far end.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformFarEnd {
    /// Network device to which the device under test is connected, or stream:PATH for a virtual machine
    #[arg(long, value_name = "DEVICE")]
    pub port: Option<String>,
    /// Port backend of this network device
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Device at the far end: model:DEVICE for the model host, plain:DEVICE for a Linux host
    #[arg(long, value_name = "KIND:DEVICE")]
    pub device: Option<FarDevice>,
    /// How the program at the far end is started: none, local, netns:NAME, exec:COMMAND or ssh:HOST [default: local]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<Adapter>,
}

/// `xoff conform device`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformDevice {
    /// Network device
    #[arg(long, value_name = "DEVICE", required_unless_present = "lockstep")]
    pub port: Option<String>,
    /// Port backend of the network device
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Connect to this Unix socket, and run in lock step with its program
    #[arg(long, value_name = "SOCKET", conflicts_with = "port")]
    pub lockstep: Option<PathBuf>,
    /// Exchange messages through shared memory instead of the socket
    #[arg(long, requires = "lockstep")]
    pub shared_memory: bool,
    /// Longest wait for the peer and for its next message, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout, default_value = "30", requires = "lockstep")]
    pub lockstep_timeout: Duration,
}

/// `xoff conform matrix`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformMatrix {
    /// Run each mutant only on its own check
    #[arg(long)]
    pub own: bool,
    #[command(flatten)]
    pub far_end: ConformFarEnd,
    /// Create this Unix socket, and run each mutant on its own check in lock step with `xoff conform device --lockstep`
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["port", "device", "adapter"])]
    pub lockstep: Option<PathBuf>,
    /// Longest wait for the peer and for its next message, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout, default_value = "30", requires = "lockstep")]
    pub lockstep_timeout: Duration,
    /// Checks whose mutants run with --port or --lockstep [default: all]
    #[arg(value_name = "CHECK")]
    pub checks: Vec<String>,
    /// Speed of the link
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_mbps, default_value = "1g")]
    pub speed: u32,
    /// Factor of counts and durations that do not change the criterion, above 0 and at most 1 [default: 0.1, 1 with
    /// --port or --lockstep]
    #[arg(long, value_name = "FACTOR", value_parser = parse_scale)]
    pub scale: Option<f64>,
    /// Output format
    #[arg(long, value_name = "FORM", value_enum, default_value_t = MatrixFormat::Table)]
    pub format: MatrixFormat,
}

/// The output formats of `xoff conform matrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixFormat {
    /// A table with a row for each mutant
    Table,
    /// The page docs/conform-matrix.md
    Markdown,
    /// JSON with the result of each check on each mutant
    Json,
}

/// Parses a number of seconds.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= 1e6)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write a number of seconds above 0 and at most 1000000, such as 30".to_owned())
}

/// Parses the factor of counts and durations.
fn parse_scale(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok();
    factor
        .filter(|factor| *factor > 0.0 && *factor <= 1.0)
        .ok_or_else(|| "write a number above 0 and at most 1, such as 0.1".to_owned())
}
