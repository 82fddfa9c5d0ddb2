//! The arguments of `xoff show`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::TargetArguments;
use super::buffer_args::{ShowBuffer, ShowPoolCommand, ShowPriorityGroupCommand, ShowQueueCommand};
use super::table_args::{PortTableArguments, TableArguments};

/// `xoff show`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowCommand {
    /// Counters, watermarks and pause states
    #[command(after_help = "\
Prints tables in SONiC's layout. --json prints all counters under their SAI names (docs/report.md).

Examples:
  xoff show counters --api /tmp/sw.sock
  xoff show counters --lab incast --json | jq '.switch.ports[] | {name, pfc_tx, paused_ns}'")]
    Counters(ShowCounters),
    /// Learned MAC addresses, by VLAN
    Mac(ShowMac),
    /// IPv4 neighbours
    Arp(TableArguments),
    /// IPv6 neighbours
    Ndp(TableArguments),
    /// LLDP neighbours and DCBX
    #[command(subcommand)]
    Lldp(ShowLldp),
    /// IPv4 routes and interfaces
    #[command(subcommand)]
    Ip(ShowIp),
    /// IPv6 routes and interfaces
    #[command(subcommand)]
    Ipv6(ShowIp),
    /// Ports and LAGs
    #[command(subcommand)]
    Interfaces(ShowInterfaces),
    /// Watermarks and drops of priority groups
    #[command(subcommand)]
    PriorityGroup(ShowPriorityGroupCommand),
    /// Counters and watermarks of queues
    #[command(subcommand)]
    Queue(ShowQueueCommand),
    /// Watermarks of the shared space of buffer pools
    #[command(subcommand, name = "buffer_pool")]
    BufferPool(ShowPoolCommand),
    /// Watermarks of shared headroom pools
    #[command(subcommand)]
    HeadroomPool(ShowPoolCommand),
    /// Buffer pools and profiles, as written or with computed fields
    #[command(subcommand)]
    Buffer(ShowBuffer),
    /// Priority flow control
    #[command(subcommand)]
    Pfc(ShowPfc),
    /// The PFC watchdog
    #[command(subcommand)]
    Pfcwd(ShowPfcWatchdogCommand),
    /// Load balancing groups, their members, and flow moves
    #[command(after_help = "\
A load balancing group is a set of equal-cost next hops or a LAG. docs/load-balancing.md describes the columns.

Examples:
  xoff show load-balancing --lab spray
  xoff show load-balancing moves --api /tmp/sw.sock --json
  xoff show load-balancing --report run.json --switch leaf1")]
    LoadBalancing(ShowLoadBalancing),
    /// Packet trimming
    #[command(subcommand)]
    SwitchTrimming(ShowSwitchTrimming),
}

/// `xoff show pfc`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPfc {
    /// PFC frames of each port and priority since `xoff clear pfc counters`
    Counters(ShowPfcCounters),
    /// State of asymmetric PFC of each port. With asymmetric PFC, a port honours pauses of every priority
    Asymmetric(PortTableArguments),
    /// Lossless priorities of each port
    Priority(PortTableArguments),
}

/// `xoff show pfcwd`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPfcWatchdogCommand {
    /// Watchdog settings of each port
    Config(PortTableArguments),
    /// Storms of each queue, and frames during storms
    Stats(ShowPfcwdStats),
}

/// `xoff show pfc counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPfcCounters {
    /// Show the history of received pauses. It contains the ports with pfc_stat_history in PFC_WD. Times are
    /// model times
    #[arg(long)]
    pub history: bool,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
}

/// `xoff show pfcwd stats`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPfcwdStats {
    /// Include queues without a storm
    #[arg(short, long)]
    pub empty: bool,
    /// Exit with code 1 during a storm
    #[arg(long)]
    pub check_storm: bool,
    /// The ports, the switch and the output format.
    #[command(flatten)]
    pub selection: PortTableArguments,
}

/// `xoff show ip`, `xoff show ipv6`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowIp {
    /// Routes in the format of FRR
    Route(TableArguments),
    /// Router interfaces with their addresses
    Interfaces(TableArguments),
}

/// `xoff show interfaces`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowInterfaces {
    /// Configuration and state of ports and LAGs
    Status(PortTableArguments),
    /// Frames, rates and drops of each port
    Counters(ShowInterfaceCounters),
    /// LAGs and their members
    Portchannel(TableArguments),
}

/// `xoff show switch-trimming`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowSwitchTrimming {
    /// Size, DSCP and queue of trimmed packets
    Global(TableArguments),
}

/// `xoff show counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowCounters {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Reset all watermarks to the present use after reading them
    #[arg(long)]
    pub clear_watermarks: bool,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff show load-balancing`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowLoadBalancing {
    /// Part of the output
    #[arg(value_enum, default_value_t)]
    pub part: LoadBalancingPart,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
    /// Read a report of a run (`lab run --report FILE`) instead of a running switch
    #[arg(long, value_name = "FILE", group = "TargetAddress")]
    pub report: Option<PathBuf>,
}

/// The parts of `xoff show load-balancing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LoadBalancingPart {
    /// Groups and their members
    #[default]
    Groups,
    /// The latest flow placements and moves, oldest first
    Moves,
    /// Packets out of order, and the queue pairs with the most packets out of order
    Reordering,
}

/// `xoff show lldp`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowLldp {
    /// One line for each neighbour
    Table(TableArguments),
    /// All information of the neighbours, and the results of DCBX
    Neighbors(PortTableArguments),
}

/// `xoff show mac`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowMac {
    /// Show only addresses of this port or LAG
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<String>,
    /// Show only addresses of this VLAN
    #[arg(short, long, value_name = "ID")]
    pub vlan: Option<u16>,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
}

/// `xoff show interfaces counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowInterfaceCounters {
    /// Duration of the rate measurement in seconds, 1 to 3600
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub period: u64,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
}
