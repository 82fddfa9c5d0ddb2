//! The arguments of the command line.

mod backend;
mod config_entry;
mod configuration;
mod conform;
mod lab;
mod target;
mod tool_files;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::show::ShowCommand;
use super::values::{
    PcapArgument, PortArgument, SendArgument, parse_pinning, parse_speed_mbps, parse_wall_time,
};
use xoff_runtime::workers::CorePinning;
use xoff_telemetry::verdict::Expectation;

pub(crate) use backend::BackendChoice;
pub(crate) use config_entry::{EntryName, FieldValue};
pub(crate) use configuration::{ConfigurationInput, MemoryArgument};
pub(super) use configuration::{borrow_layers, read_layers};
pub(crate) use conform::{
    ConformCommand, ConformDevice, ConformFarEnd, ConformMatrix, ConformRun, MatrixFormat,
};
pub(crate) use lab::*;
pub(crate) use target::TargetArguments;
pub(crate) use tool_files::{CompletionsArguments, ManArguments};

const EXAMPLES: &str = "\
Examples:
  xoff lab run testbeds/incast.xoff.yml          four senders overload one receiver without loss
  xoff doctor                                    check this machine and print fixes of problems
  xoff switch run --config sw.json --port Ethernet0=veth0 --port Ethernet4=veth1 --api /tmp/sw.sock
  xoff replay in.pcap --preset roce-lossless --out out.pcapng
                                                 send a capture through a switch in virtual time
  xoff show counters --api /tmp/sw.sock          counters, watermarks and pause states of the switch
  xoff show ip route --api /tmp/sw.sock          routes of the switch; also arp, ndp, mac, interfaces

Exit codes:
  0 ok   1 check failed   2 usage   3 missing requirement   4 invalid configuration
  5 inconclusive (tainted, or no traffic)   130 interrupted";

/// A lossless-Ethernet switch in software.
///
/// xoff forwards real frames between network devices like a switch chip of an RDMA fabric. The switch has a
/// shared buffer, priority flow control (PFC) in both directions, and ECN marking.
#[derive(Debug, Parser)]
#[command(name = "xoff", after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a switch between network devices
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// Run labs of hosts, switches and links with a workload
    #[command(subcommand)]
    Lab(LabCommand),
    /// Run a model RDMA host on a network device: a source and sink of RoCEv2 frames that honours PFC
    #[command(subcommand)]
    Host(HostCommand),
    /// Send and decode PFC, PAUSE and other MAC control frames on a network device
    #[command(subcommand)]
    Pfc(super::pfc::PfcCommand),
    /// Send the frames of a capture through a switch in virtual time, and write the sent frames to a
    /// new capture
    #[command(after_help = super::replay::HELP)]
    Replay(super::replay::ReplayArguments),
    /// Read or replace the configuration of a running switch
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show the state of a running switch
    #[command(
        subcommand,
        after_help = "Tables have the layout of SONiC's `show` commands. --json prints all data (docs/control-api.md)."
    )]
    Show(ShowCommand),
    /// Clear counters and watermarks of a running switch
    #[command(subcommand)]
    Clear(super::clear::ClearCommand),
    /// Measure rates, latency, buffers and frame cost of switches, and compare results
    #[command(subcommand)]
    Bench(super::bench::BenchCommand),
    /// Test the flow control of a network interface card: PFC, 802.3x PAUSE and DCBX
    #[command(
        subcommand,
        after_help = "\
Examples:
  xoff conform run --virtual             all checks against a model host
  xoff conform explain A6                stimulus, observation, criterion and clause of a check
  xoff conform matrix                    prove that each check detects its defects

docs/conform.md describes the checks and their results."
    )]
    Conform(ConformCommand),
    /// Check whether this machine can run xoff, and print the command that fixes each problem
    #[command(after_help = "Exit code 0 if the incast lab can run here, 3 if not.")]
    Doctor(DoctorArguments),
    /// Print the schema of an interface of xoff
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = "\
Examples:
  xoff completions bash > /etc/bash_completion.d/xoff
  xoff completions zsh > /usr/share/zsh/site-functions/_xoff
  xoff completions fish > ~/.config/fish/completions/xoff.fish")]
    Completions(CompletionsArguments),
    /// Print the manual page of xoff with all commands, or write a page for each command
    #[command(after_help = "\
Examples:
  xoff man | man -l -
  xoff man --dir /usr/local/share/man/man1 && man xoff-lab-run")]
    Man(ManArguments),
    /// A part of `doctor` that needs its own process
    #[command(name = "__probe", hide = true)]
    Probe {
        /// The kind of namespace to test.
        probe: DoctorProbeKind,
    },
}

/// `xoff schema`
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Print the OpenAPI document of the control API as JSON (docs/control-api.md)
    Api {
        /// The output format. The document is always JSON
        #[arg(long, value_name = "FORM", value_parser = ["json"], default_value = "json")]
        format: String,
    },
}

/// The checks of `doctor` in a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorProbeKind {
    /// Namespaces that the present privileges permit.
    Privileged,
    /// Namespaces in a new user namespace.
    User,
}

/// `xoff switch`
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    /// Forward frames between network devices until interrupted
    #[command(after_help = "\
Prints a line that begins with `ready` when the switch forwards. SIGINT and SIGTERM stop the switch. It then writes
the report and exits with code 0, or with 5 if the run is tainted.

Without VLANs and router interfaces, the ports form one bridge. A file that contains only {} is a valid
configuration. Ports of the file without --port are down.

Example:
  ip link add veth0 type veth peer name veth0h && ip link set veth0 up && ip link set veth0h up
  ip link add veth1 type veth peer name veth1h && ip link set veth1 up && ip link set veth1h up
  echo '{}' > sw.json
  xoff switch run --config sw.json --port Ethernet0=veth0 --port Ethernet4=veth1 --pcap all.pcapng")]
    Run(SwitchRun),
}

/// `xoff switch run`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("base").required(true).multiple(true).args(["config", "preset"])))]
pub(crate) struct SwitchRun {
    /// Configuration in the form of SONiC's config_db.json; {} is enough. Repeat the option to add layers
    ///
    /// A layer is a JSON merge patch (RFC 7386). Its fields replace the fields of the layers before it, and
    /// null removes a field, an entry or a table.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// A built-in configuration below the files. Its ports use the MTU of their devices
    #[arg(long, value_name = super::values::PRESET_VALUE)]
    pub preset: Option<String>,
    /// Speed of the ports of the preset, such as 10g
    #[arg(long, value_name = "SPEED", requires = "preset", value_parser = parse_speed_mbps, default_value = "1g")]
    pub speed: u32,
    /// Options for reading the files.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// A port and its network device. Repeat the option for each port
    ///
    /// These ports are up. Their speed is 1 Gb/s if the file has no other speed. Their MTU is the MTU of the
    /// device if the file has no other MTU. The backend moves frames
    /// between port and device: `packet` (an AF_PACKET ring, for any device), `xdp` (AF_XDP in native mode,
    /// as root), `tap` (a tap device that xoff creates and owns), `pnet` (slow and simple, for comparisons),
    /// or `auto` (the best backend for the device). With `stream:PATH` instead of a device, the port waits at a Unix
    /// socket for a program with the protocol of QEMU's `-netdev stream`, such as a virtual machine. A stream needs no
    /// privileges, and its sender waits while the port is paused. `stream:127.0.0.1:PORT` is a TCP socket.
    #[arg(
        long = "port",
        value_name = "Ethernet0=DEV[,backend=auto|packet|tap|pnet|xdp]|stream:PATH",
        required = true
    )]
    pub ports: Vec<PortArgument>,
    /// Worker threads and dilation.
    #[command(flatten)]
    pub running: SwitchRuntimeArguments,
    /// Waiting for frames: `adaptive` sleeps, `spin` keeps the core busy and reacts sooner
    #[arg(long, value_enum, default_value_t = IdleModeChoice::Adaptive)]
    pub idle: IdleModeChoice,
    /// Record the frames of a port, or of all ports, as pcapng. Repeat the option for each
    /// file (docs/capture.md)
    ///
    /// A recording contains the received and the sent frames, including flow control frames. If the file is
    /// `-`, the recording goes to standard output and all other output goes to standard error.
    #[arg(long, value_name = "[Ethernet0=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
    /// Serve the control API for `xoff show`, `xoff config` and other clients on a Unix socket at this path
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// Serve the control API also on this loopback address, such as 127.0.0.1:8080
    ///
    /// Clients on this address can change nothing, unless --api-token is given.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "api")]
    pub api_tcp: Option<std::net::SocketAddr>,
    /// Permit changes over --api-tcp with the bearer token in this file. Each request then needs the token
    ///
    /// The token is one word of at least 16 characters, and only its owner may read the file.
    #[arg(long, value_name = "FILE", requires = "api_tcp")]
    pub api_token: Option<PathBuf>,
    /// Write the report here as JSON when the switch stops (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the report as JSON when the switch stops. The `ready` line goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of all commands that run a switch.
#[derive(Clone, Debug, Args)]
pub(crate) struct SwitchRuntimeArguments {
    /// Number of worker threads, 1 to 64. With several threads, the first thread runs the switch, and the
    /// remaining threads receive and send frames [default: depends on the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: Option<u16>,
    /// Cores of the worker threads: `auto`, `none`, or a list such as 0,1 or 2-5
    ///
    /// `auto` pins each worker thread to its own core if the machine has enough cores. While other processes
    /// keep a core busy, the worker thread of this core may run on any allowed core.
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", value_parser = parse_pinning)]
    pub pin: CorePinning,
    /// Run model time N times slower than wall time, 1 to 10000, so that a slow machine can keep up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub dilate: u32,
}

/// The values of `--idle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum IdleModeChoice {
    /// Poll for a short time, then sleep until the next frame or deadline.
    #[default]
    Adaptive,
    /// Never sleep.
    Spin,
}

impl From<IdleModeChoice> for xoff_runtime::workers::IdleMode {
    fn from(idle: IdleModeChoice) -> xoff_runtime::workers::IdleMode {
        match idle {
            IdleModeChoice::Adaptive => xoff_runtime::workers::IdleMode::Adaptive,
            IdleModeChoice::Spin => xoff_runtime::workers::IdleMode::Spin,
        }
    }
}

/// `xoff host`
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Send or receive RoCEv2 frames on a network device
    #[command(after_help = "\
A flow is an open-loop stream of RDMA WRITE frames with sequence numbers and a correct ICRC. The receiver checks the
loss, order, ICRC and latency of all flows.

Exit codes: 0 ok, 1 frames of --lossless flows are missing, an --expect does not hold, or the address of a --send
answered no request for its MAC address, 2 usage, 3 the device is missing or cannot be used, 5 tainted, or no traffic:
no frame was sent although all addresses answered, or nothing arrived with --receive, 130 interrupted before the end.

Examples:
  xoff host run --dev eth1 --ip 10.0.0.2 --receive --lossless --duration 30s
  xoff host run --dev eth1 --ip 10.0.0.1 --send 10.0.0.2,rate=40%,class=3,dscp=26 --duration 20s
  xoff host run --dev eth1 --ip 10.0.0.1 --send 10.0.0.2,mac=02:00:00:00:00:02,rate=500m,frame=4170")]
    Run(HostRun),
}

/// `xoff host run`
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("role").required(true).multiple(true).args(["send", "receive"])))]
pub(crate) struct HostRun {
    /// The network device
    #[arg(long, value_name = "DEV")]
    pub dev: String,
    /// Send a flow to this address. Repeat the option for each flow
    ///
    /// Fields, with defaults in parentheses:
    ///   rate=    a share of the link such as 40%, or bits per second such as 500m (100%)
    ///   class=   queue of the NIC and PFC priority, 0 to 7 (3)
    ///   dscp=    0 to 63 (26 in class 3, else 8 times the class)
    ///   ecn=     on or off: frames can be marked (on in class 3)
    ///   frame=   length of a frame without FCS in bytes (1082)
    ///   frames=  number of frames after which the flow ends (no limit)
    ///   mac=     MAC address of the receiver (from ARP or neighbour discovery)
    ///   vlan=    802.1Q VLAN id, 1 to 4094 (untagged)
    #[arg(long, value_name = "ADDRESS[,field=value...]", action = ArgAction::Append, verbatim_doc_comment)]
    pub send: Vec<SendArgument>,
    /// Receive and check flows
    #[arg(long)]
    pub receive: bool,
    /// Exit with code 1 unless every received flow is complete and in order
    #[arg(long, requires = "receive")]
    pub lossless: bool,
    /// What must arrive, such as frames>=1000, bytes>=1M, or 1000 for that many frames. Exit with code 1 if it
    /// does not. Repeat the option for each condition
    #[arg(long, value_name = "CONDITION", requires = "receive")]
    pub expect: Vec<Expectation>,
    /// IP addresses of the host, at most one IPv4 and one IPv6 address [default: 10.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub ip: Vec<std::net::IpAddr>,
    /// MAC address of the host [default: the device's]
    #[arg(long, value_name = "MAC", value_parser = super::values::parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// Speed of the host's link, such as 1g
    #[arg(long, value_name = "SPEED", default_value = "1g", value_parser = super::values::parse_speed_mbps)]
    pub speed: u32,
    /// Duration, such as 20s. Without this option, the host runs until interrupted. With --send and without --receive,
    /// it also ends if no address answers within 10 s
    #[arg(long, value_name = "TIME", value_parser = parse_wall_time)]
    pub duration: Option<std::time::Duration>,
    /// Model time from the arrival of a pause frame to its effect, such as 1us [default: 2 quanta]
    #[arg(long, value_name = "TIME", value_parser = parse_wall_time)]
    pub pfc_response: Option<std::time::Duration>,
    /// Turn PFC off and honour 802.3x PAUSE, which stops all classes
    #[arg(long)]
    pub no_pfc: bool,
    /// Size in bytes of a receive buffer. The host empties it at link speed and sends PFC frames when it
    /// fills [default: none]
    #[arg(long, value_name = "BYTES")]
    pub buffer: Option<u32>,
    /// Port backend
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Run model time N times slower than wall time, 1 to 10000. All hosts and switches need the same value
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub dilate: u32,
    /// Write the report here as JSON (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the report as JSON. The `ready` line goes to standard error
    #[arg(long)]
    pub json: bool,
}

/// `xoff config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check configuration files without a running switch
    #[command(after_help = "\
Each file is a separate configuration. With --layers, each file is a layer over the files before it. Prints the
errors of each file, or notes about settings without effect and probable mistakes. At most 20 errors of a file are
printed. --format json prints all errors.

Exit codes: 0 every file is valid, 2 usage, 4 a file is not valid or cannot be read.

Examples:
  xoff config check /etc/sonic/config_db.json
  xoff config check config_db.json --asic asic0 --format json
  xoff config check config_db.json changes.json --layers")]
    Check(ConfigCheck),
    /// Replace the whole configuration of a running switch with a file
    #[command(after_help = "\
The file is the whole configuration: settings that it does not contain are removed. `config patch` and `config set`
change only what they name.

Prints the changes. An invalid file is refused with all its errors, and the switch keeps its configuration. A change
is also refused if it loses lossless frames. Frames are lost if a new pool or headroom is smaller than its use, or
if a priority group with frames is no longer lossless. --dry-run reports the losses, and --force applies the change.

Example:
  xoff config apply sw.json --dry-run --api /tmp/sw.sock")]
    Apply {
        /// Configuration in the form of SONiC's config_db.json
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How to change the switch.
        #[command(flatten)]
        change: ConfigChange,
    },
    /// Change the settings of a running switch that a file contains, and keep all other settings
    #[command(after_help = "\
The file is a JSON merge patch (RFC 7386): its fields replace the fields of the configuration, and null removes a
field, an entry or a table. Otherwise the command is like `config apply`.

Example:
  echo '{\"PORT\": {\"Ethernet4\": {\"speed\": \"10000\"}}}' > faster.json
  xoff config patch faster.json --api /tmp/sw.sock")]
    Patch {
        /// Merge patch of the configuration
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How to change the switch.
        #[command(flatten)]
        change: ConfigChange,
    },
    /// Set fields of one entry of the configuration of a running switch
    #[command(after_help = "\
An entry that does not exist is created. A field with a list takes values separated by commas. `config patch` with null
removes fields and entries.

Examples:
  xoff config set 'PORT|Ethernet4' speed=10000 mtu=9100 --api /tmp/sw.sock
  xoff config set 'BUFFER_PG|Ethernet4|3-4' profile=pg_lossless --lab fabric --switch leaf0")]
    Set {
        /// The entry
        #[arg(value_name = "TABLE|KEY")]
        entry: EntryName,
        /// Fields and their new values
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<FieldValue>,
        /// How to change the switch.
        #[command(flatten)]
        change: ConfigChange,
    },
    /// Shut down or start ports and LAGs of a running switch
    #[command(subcommand)]
    Interface(ConfigInterface),
    /// Print the current configuration in the form of config_db.json
    Get {
        /// Print only the fields that were written, without the fields that the switch has computed
        #[arg(long)]
        written: bool,
        /// The output format. The configuration is always JSON
        #[arg(long, value_name = "FORM", value_parser = ["json"], default_value = "json")]
        format: String,
        /// The running switch.
        #[command(flatten)]
        target: TargetArguments,
    },
}

/// `xoff config interface`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigInterface {
    /// Set a port or LAG administratively down
    #[command(after_help = "Example: xoff config interface shutdown Ethernet4 --lab fabric --switch leaf0")]
    Shutdown(InterfaceChange),
    /// Set a port or LAG administratively up
    Startup(InterfaceChange),
}

/// A change of the state of a port or LAG.
#[derive(Debug, Args)]
pub(crate) struct InterfaceChange {
    /// Name of the port or LAG, such as Ethernet4
    #[arg(value_name = "PORT")]
    pub name: String,
    /// How to change the switch.
    #[command(flatten)]
    pub change: ConfigChange,
}

/// Options of all commands that change the configuration of a running switch.
#[derive(Debug, Args)]
pub(crate) struct ConfigChange {
    /// Report the changes and losses without applying them
    #[arg(long)]
    pub dry_run: bool,
    /// Apply the change even if it loses lossless frames
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff config check`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigCheck {
    /// Configurations in the form of SONiC's config_db.json
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Check the files as layers of one configuration, in the given order. Each file is a JSON merge patch
    /// (RFC 7386) for the files before it
    #[arg(long)]
    pub layers: bool,
    /// Name of a port that is up even if no file contains it, like a --port of `switch run`. Repeat the
    /// option for each port
    #[arg(long = "port", value_name = "Ethernet0")]
    pub ports: Vec<String>,
    /// Options for reading the files.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// Output format
    #[arg(long, value_enum, default_value_t = ConfigCheckFormat::Text)]
    pub format: ConfigCheckFormat,
}

/// The output formats of `xoff config check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigCheckFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON with all errors.
    Json,
}

/// `xoff doctor`
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_texts_end_without_a_stop_and_fit_the_terminal() {
        fn check_about_texts(command: &clap::Command) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(
                    !about.is_empty() && !about.ends_with('.'),
                    "{}: {about:?}",
                    sub.get_name()
                );
                check_about_texts(sub);
            }
        }
        check_about_texts(&Arguments::command());
    }
}
