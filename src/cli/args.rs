//! What can be typed, and what each word means.

mod configuration;
mod lab;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::show::ShowCommand;
use super::values::{PcapArgument, PortArgument, SendArgument, pin, span};
use xoff_runtime::workers::CorePinning;

pub(crate) use configuration::ConfigurationInput;
pub(super) use configuration::{borrow_layers, read_layers};
pub(crate) use lab::*;

const EXAMPLES: &str = "\
Examples:
  xoff lab run testbeds/incast.xoff.yml          four senders overload one receiver; nothing is lost
  xoff doctor                                    what this machine can do, and what stands in the way
  xoff switch run --config sw.json --port Ethernet0=veth0 --port Ethernet4=veth1 --api /tmp/sw.sock
  xoff replay in.pcap --preset roce-lossless --out out.pcapng
                                                 a capture through a switch, in virtual time
  xoff show counters --api /tmp/sw.sock          counters, watermarks and pause states of that switch
  xoff show ip route --api /tmp/sw.sock          its routes; also arp, ndp, mac, interfaces

Exit codes:
  0 ok   1 check failed   2 usage   3 this environment cannot   4 invalid configuration
  5 inconclusive (the run is tainted)   130 interrupted";

/// A lossless-Ethernet switch in software.
///
/// It forwards real frames between network devices the way a switch chip of an RDMA fabric does: shared-buffer
/// accounting, priority flow control (PFC) in both directions, ECN marking.
#[derive(Debug, Parser)]
#[command(name = "xoff", version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a switch between network devices
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// Build a test bed of hosts and switches, and run its workload
    #[command(subcommand)]
    Lab(LabCommand),
    /// Run a model RDMA host on a network device: a source and sink of RoCEv2 frames that obeys PFC
    #[command(subcommand)]
    Host(HostCommand),
    /// Send the frames of a capture through a switch to another capture, in virtual time
    #[command(after_help = super::replay::HELP)]
    Replay(super::replay::ReplayArguments),
    /// Read or replace the configuration of a running switch
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look into a running switch
    #[command(
        subcommand,
        after_help = "Tables are those of SONiC's `show` commands; --json has all there is (docs/control-socket.md)."
    )]
    Show(ShowCommand),
    /// Let counters and watermarks of a running switch begin anew
    #[command(subcommand)]
    Clear(super::clear::ClearCommand),
    /// Measure switches: rates, latency, buffers, cost of a frame; compare results, and hold xoff against what others have published
    #[command(subcommand)]
    Bench(super::bench::BenchCommand),
    /// Say what this machine can do, what stands in the way, and which command fixes it
    #[command(after_help = "Exit code 0 if the incast lab can run here, 3 if not.")]
    Doctor(DoctorArguments),
    /// A part of `doctor` that needs a process of its own
    #[command(name = "__probe", hide = true)]
    Probe {
        /// What to try.
        probe: ProbeKind,
    },
}

/// What `doctor` tries in a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeKind {
    /// In namespaces made with the privileges at hand.
    Privileged,
    /// In namespaces of a new user namespace.
    User,
}

/// `xoff switch`
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    /// Forward frames between network devices until interrupted
    #[command(after_help = "\
Prints a line that begins with `ready` when it forwards. SIGINT and SIGTERM stop it: it writes the report and
exits with 0, or with 5 if the run is tainted.

With no VLAN and no interface of a port or LAG the ports form one bridge, so a file that holds just {} is a
working switch.
Ports of the file that have no --port are down.

Example:
  ip link add veth0 type veth peer name veth0h && ip link set veth0 up && ip link set veth0h up
  ip link add veth1 type veth peer name veth1h && ip link set veth1 up && ip link set veth1h up
  echo '{}' > sw.json
  xoff switch run --config sw.json --port Ethernet0=veth0 --port Ethernet4=veth1 --pcap all.pcapng")]
    Run(SwitchRun),
}

/// `xoff switch run`
#[derive(Clone, Debug, Args)]
pub(crate) struct SwitchRun {
    /// Configuration in the form of SONiC's config_db.json; {} is enough. Given again, a layer over the earlier ones
    ///
    /// A layer is a JSON merge patch (RFC 7386): its fields replace those of the layers below, and null removes a field,
    /// an entry or a table.
    #[arg(long, value_name = "FILE", required = true)]
    pub config: Vec<PathBuf>,
    /// How the files are read.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// A port and the network device behind it; once for each port
    ///
    /// Ports named here are up, at 1 Gb/s unless the file says otherwise. The backend is how frames are moved:
    /// `packet` (an AF_PACKET ring, for any device), `xdp` (AF_XDP in native mode, as root), `tap` (a tap device that xoff
    /// makes and owns), `pnet` (slow and simple, to compare with), or `auto`, which chooses.
    #[arg(
        long = "port",
        value_name = "Ethernet0=DEV[,backend=auto|packet|tap|pnet|xdp]",
        required = true
    )]
    pub ports: Vec<PortArgument>,
    /// How the work is spread.
    #[command(flatten)]
    pub running: RunningArguments,
    /// What a worker does when no frame is there: `adaptive` sleeps, `spin` keeps its core busy and reacts sooner
    #[arg(long, value_enum, default_value_t = Idle::Adaptive)]
    pub idle: Idle,
    /// Record the frames of a port, or of all ports, as pcapng; once for each file (docs/capture.md)
    ///
    /// Both directions, flow control included. - is standard output; everything else is printed on standard error then.
    #[arg(long, value_name = "[Ethernet0=]FILE")]
    pub pcap: Vec<PcapArgument>,
    /// Record only the first N bytes of each frame [default: all]
    #[arg(long, value_name = "N", requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub pcap_snaplen: Option<u32>,
    /// Answer `xoff show` and `xoff config` on a unix socket made at this path
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// Write the result here, as JSON (docs/report.md), when the switch stops
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Seed of every random decision
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of all commands that run a switch.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunningArguments {
    /// Threads that move frames, 1 to 64; one does everything, more leave switching alone to the first
    /// (default: by the cores at hand)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: Option<u16>,
    /// Cores the workers are bound to: `auto` (one each where there are enough, left while others keep it busy), `none`, or a list such as 0,1 or 2-5
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", value_parser = pin)]
    pub pin: CorePinning,
    /// Run model time N times slower than the wall clock, 1 to 10000, so that a slow machine keeps up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub dilate: u32,
}

/// `--idle`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// Spin shortly, then sleep until the next frame or deadline.
    #[default]
    Adaptive,
    /// Never sleep.
    Spin,
}

/// How a port's frames are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// The best one for the device.
    #[default]
    Auto,
    /// AF_PACKET ring.
    Packet,
    /// A tap device that xoff owns.
    Tap,
    /// The simple reference.
    Pnet,
    /// AF_XDP in native mode.
    Xdp,
}

impl From<Idle> for xoff_runtime::workers::IdleMode {
    fn from(idle: Idle) -> xoff_runtime::workers::IdleMode {
        match idle {
            Idle::Adaptive => xoff_runtime::workers::IdleMode::Adaptive,
            Idle::Spin => xoff_runtime::workers::IdleMode::Spin,
        }
    }
}

impl From<BackendChoice> for xoff_ports::Backend {
    fn from(choice: BackendChoice) -> xoff_ports::Backend {
        match choice {
            BackendChoice::Auto => xoff_ports::Backend::Auto,
            BackendChoice::Packet => xoff_ports::Backend::Packet,
            BackendChoice::Tap => xoff_ports::Backend::Tap,
            BackendChoice::Pnet => xoff_ports::Backend::Pnet,
            BackendChoice::Xdp => xoff_ports::Backend::Xdp,
        }
    }
}

/// `xoff host`
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Send or receive RoCEv2 frames on a network device
    #[command(after_help = "\
A flow is an open stream of RDMA WRITE frames with sequence numbers and a correct ICRC. The receiver checks loss,
order, ICRC and latency of every flow that arrives, whoever sent it.

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
    /// Send a flow to this address; once for each flow
    ///
    /// Fields, and what they are without being given:
    ///   rate=    a share of the link such as 40%, or bits per second such as 500m (100%)
    ///   class=   queue of the NIC and PFC priority, 0 to 7 (3)
    ///   dscp=    0 to 63 (26 in class 3, else 8 times the class)
    ///   ecn=     on or off: its frames can be marked (on in class 3)
    ///   frame=   length of a frame without FCS in bytes (1082)
    ///   frames=  stop after so many (no limit)
    ///   mac=     hardware address of the receiver (asked for by ARP or neighbour discovery)
    ///   vlan=    802.1Q VLAN id, 1 to 4094 (untagged)
    #[arg(long, value_name = "ADDRESS[,field=value...]", action = ArgAction::Append, verbatim_doc_comment)]
    pub send: Vec<SendArgument>,
    /// Receive and check what arrives
    #[arg(long)]
    pub receive: bool,
    /// Demand that every flow that arrives is whole and in order: exit code 1 if not
    #[arg(long, requires = "receive")]
    pub lossless: bool,
    /// Its addresses, at most one of each family [default: 10.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub ip: Vec<std::net::IpAddr>,
    /// Its hardware address [default: the device's]
    #[arg(long, value_name = "MAC", value_parser = super::values::mac)]
    pub mac: Option<[u8; 6]>,
    /// Speed of its link, such as 1g
    #[arg(long, value_name = "SPEED", default_value = "1g", value_parser = super::values::speed_mbps)]
    pub speed: u32,
    /// How long, such as 20s; without it, until interrupted
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub duration: Option<std::time::Duration>,
    /// From the arrival of a pause to its effect, such as 1us [default: 2 quanta]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub pfc_response: Option<std::time::Duration>,
    /// PFC is off: honour 802.3x pauses, which stop all classes, instead
    #[arg(long)]
    pub no_pfc: bool,
    /// Size of a receive buffer that drains at the link's speed and sends PFC, in bytes [default: none]
    #[arg(long, value_name = "BYTES")]
    pub buffer: Option<u32>,
    /// How frames are moved
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Run model time N times slower than the wall clock, 1 to 10000; all hosts and switches alike
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub dilate: u32,
    /// Write the result here, as JSON (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// `xoff config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check configuration files, without a switch or its devices
    #[command(after_help = "\
Each file is a configuration of its own, or with --layers a layer over the files before it. Prints its errors, or its
notes: settings without effect, and settings that are probably not what was meant. At most 20 errors of a file are
printed; --format json has all.

Exit codes: 0 every file is valid, 2 usage, 4 a file is not valid or cannot be read.

Examples:
  xoff config check /etc/sonic/config_db.json
  xoff config check config_db.json --asic asic0 --format json
  xoff config check config_db.json changes.json --layers")]
    Check(ConfigCheck),
    /// Replace the configuration of a running switch by a file, whole or not at all
    #[command(after_help = "\
Prints what changes. An invalid file is refused whole, with every fault in it, and the switch keeps what it has.
So is one that must lose lossless frames, since more is in use than the new pool or headroom holds, or a group
that holds frames would no longer be lossless: --dry-run says so without trying, --force does it.

Example:
  xoff config apply sw.json --dry-run --api /tmp/sw.sock")]
    Apply {
        /// Configuration in the form of SONiC's config_db.json
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Only say what would change, and what would be lost by it
        #[arg(long)]
        dry_run: bool,
        /// Change it even if lossless frames are lost by that
        #[arg(long)]
        force: bool,
        /// Which switch.
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Print the configuration in force, in the form of config_db.json
    Get {
        /// Which switch.
        #[command(flatten)]
        target: TargetArguments,
    },
}

/// `xoff config check`
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigCheck {
    /// Configurations in the form of SONiC's config_db.json
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Check the files as layers of one configuration, in order: each is a JSON merge patch (RFC 7386) of those before it
    #[arg(long)]
    pub layers: bool,
    /// A port that is up though the file does not name it, as --port of `switch run` adds it; once for each port
    #[arg(long = "port", value_name = "Ethernet0")]
    pub ports: Vec<String>,
    /// How the files are read.
    #[command(flatten)]
    pub configuration: ConfigurationInput,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = ConfigCheckFormat::Text)]
    pub format: ConfigCheckFormat,
}

/// Forms of the result of `xoff config check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigCheckFormat {
    /// Lines for people.
    #[default]
    Text,
    /// JSON, with all errors.
    Json,
}

/// Which running switch a command speaks to.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArguments {
    /// The control socket that `xoff switch run --api PATH` made
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// The name of a running lab, as `xoff lab ls` shows it
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
}

/// `xoff doctor`
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArguments {
    /// As JSON
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
        fn check(command: &clap::Command) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(
                    !about.is_empty() && !about.ends_with('.'),
                    "{}: {about:?}",
                    sub.get_name()
                );
                check(sub);
            }
        }
        check(&Arguments::command());
    }
}
