//! What can be typed after `xoff show`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::TargetArguments;
use super::buffer_args::{ShowBuffer, ShowGroups, ShowPool, ShowQueues};

/// `xoff show`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowCommand {
    /// Counters, watermarks and pause states
    #[command(after_help = "\
Tables in SONiC's layout; with --json all of it, under SAI's names (docs/report.md).

Examples:
  xoff show counters --api /tmp/sw.sock
  xoff show counters --lab incast --json | jq '.switch.ports[] | {name, pfc_tx, paused_ns}'")]
    Counters(ShowCounters),
    /// MAC addresses learnt, by VLAN
    Mac(ShowMac),
    /// IPv4 neighbours
    Arp(ShowTable),
    /// IPv6 neighbours
    Ndp(ShowTable),
    /// IPv4: routes and interfaces
    #[command(subcommand)]
    Ip(ShowIp),
    /// IPv6: routes and interfaces
    #[command(subcommand)]
    Ipv6(ShowIp),
    /// Ports and LAGs
    #[command(subcommand)]
    Interfaces(ShowInterfaces),
    /// Priority groups: watermarks and drops
    #[command(subcommand)]
    PriorityGroup(ShowGroups),
    /// Queues: counters and watermarks
    #[command(subcommand)]
    Queue(ShowQueues),
    /// Buffer pools: watermarks of their shared part
    #[command(subcommand, name = "buffer_pool")]
    BufferPool(ShowPool),
    /// Shared headroom pools: watermarks
    #[command(subcommand)]
    HeadroomPool(ShowPool),
    /// Pools and profiles, as written or as they are in force
    #[command(subcommand)]
    Buffer(ShowBuffer),
    /// Priority flow control
    #[command(subcommand)]
    Pfc(ShowPfc),
    /// The PFC watchdog
    #[command(subcommand)]
    Pfcwd(ShowPfcwd),
    /// Load balancing: groups, their members' quality and share, moves of flows
    #[command(after_help = "\
Groups are the sets of equal-cost next hops, and LAGs; docs/load-balancing.md says what the columns are.

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
    /// Whether each port obeys pauses of every priority
    Asymmetric(ShowPorts),
    /// Lossless priorities of each port
    Priority(ShowPorts),
}

/// `xoff show pfcwd`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPfcwd {
    /// What the watchdog of each port is told
    Config(ShowPorts),
    /// Storms, and frames during them, of each queue
    Stats(ShowPfcwdStats),
}

/// `xoff show pfc counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPfcCounters {
    /// Pauses received, of ports whose PFC_WD has pfc_stat_history; times are of the model
    #[arg(long)]
    pub history: bool,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}

/// `xoff show pfcwd stats`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPfcwdStats {
    /// Queues too that have had no storm
    #[arg(short, long)]
    pub empty: bool,
    /// Exit with 1 if a storm is on
    #[arg(long)]
    pub check_storm: bool,
    /// Which ports, and how it is shown.
    #[command(flatten)]
    pub of: ShowPorts,
}

/// Options of a table of ports.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPorts {
    /// Only these ports
    #[arg(value_name = "PORT")]
    pub ports: Vec<String>,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}

/// `xoff show ip`, `xoff show ipv6`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowIp {
    /// Routes, in FRR's form
    Route(ShowTable),
    /// Router interfaces with their addresses
    Interfaces(ShowTable),
}

/// `xoff show interfaces`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowInterfaces {
    /// Ports and LAGs as configured, and whether they are up
    Status(ShowTable),
    /// Frames, rates and drops of each port
    Counters(ShowInterfaceCounters),
    /// LAGs and their members
    Portchannel(ShowTable),
}

/// `xoff show switch-trimming`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowSwitchTrimming {
    /// What is left of packets that find their queue full, and where it goes
    Global(ShowTable),
}

/// `xoff show counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowCounters {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Start all watermarks again from the present occupancy, after reading them
    #[arg(long)]
    pub clear_watermarks: bool,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Options of a table.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowTable {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff show load-balancing`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowLoadBalancing {
    /// What to show
    #[arg(value_enum, default_value_t)]
    pub part: LoadBalancingPart,
    /// Which switch, and how.
    #[command(flatten)]
    pub table: ShowTable,
    /// A report of a run (`lab run --report FILE`), in place of a running switch
    #[arg(long, value_name = "FILE", group = "TargetArguments")]
    pub report: Option<PathBuf>,
    /// Of this switch of the report alone
    #[arg(long, value_name = "NAME", requires = "report")]
    pub switch: Option<String>,
}

/// What `xoff show load-balancing` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LoadBalancingPart {
    /// Groups and their members
    #[default]
    Groups,
    /// The latest flows that were placed or moved, oldest first
    Moves,
    /// Packets that arrived out of order, and the queue pairs with the most of them
    Reordering,
}

/// `xoff show mac`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowMac {
    /// Only those behind this port or LAG
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<String>,
    /// Only those of this VLAN
    #[arg(short, long, value_name = "ID")]
    pub vlan: Option<u16>,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}

/// `xoff show interfaces counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowInterfaceCounters {
    /// Seconds over which rates are measured, 1 to 3600
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub period: u64,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}
