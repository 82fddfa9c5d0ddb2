//! What can be typed after `xoff show`.

use clap::{Args, Subcommand, ValueEnum};

use super::super::TargetArguments;

/// `xoff show`
#[derive(Debug, Subcommand)]
pub enum ShowCommand {
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
    /// Queues: watermarks
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
}

/// `xoff show priority-group`
#[derive(Debug, Subcommand)]
pub enum ShowGroups {
    /// Most that each group held since the user cleared it
    Watermark(ShowGroupWatermark),
    /// The same, cleared apart from the other
    PersistentWatermark(ShowGroupWatermark),
    /// Frames dropped
    #[command(subcommand)]
    Drop(ShowDrop),
}

/// `xoff show priority-group drop`
#[derive(Debug, Subcommand)]
pub enum ShowDrop {
    /// Frames of each group that were dropped
    Counters(ShowTable),
}

impl ShowDrop {
    pub(super) fn table(&self) -> &ShowTable {
        let ShowDrop::Counters(table) = self;
        table
    }
}

/// Regions of a priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupPart {
    /// Shared use
    Shared,
    /// Headroom
    Headroom,
}

/// Kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueuePart {
    /// Queues of unicast frames; copies of flooded ones are in them too
    Unicast,
    /// Queues of multicast frames, of which there are none
    Multicast,
    /// All queues
    All,
}

/// Watermarks of priority groups.
#[derive(Clone, Debug, Args)]
pub struct ShowGroupWatermark {
    /// Which region
    pub part: GroupPart,
    /// How it is shown.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Watermarks of queues.
#[derive(Clone, Debug, Args)]
pub struct ShowQueueWatermark {
    /// Which queues
    pub part: QueuePart,
    /// How it is shown.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Options of watermarks.
#[derive(Clone, Debug, Args)]
pub struct ShowWatermark {
    /// Since the present telemetry interval began (`WATERMARK_TABLE|TELEMETRY_INTERVAL`, 120 s) instead
    #[arg(long)]
    pub periodic: bool,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}

/// `xoff show queue`
#[derive(Debug, Subcommand)]
pub enum ShowQueues {
    /// Most that each queue held since the user cleared it
    Watermark(ShowQueueWatermark),
    /// The same, cleared apart from the other
    PersistentWatermark(ShowQueueWatermark),
}

/// `xoff show buffer_pool`, `xoff show headroom-pool`
#[derive(Debug, Subcommand)]
pub enum ShowPool {
    /// Most that each pool held since the user cleared it
    Watermark(ShowWatermark),
    /// The same, cleared apart from the other
    PersistentWatermark(ShowWatermark),
}

/// `xoff show buffer`
#[derive(Debug, Subcommand)]
pub enum ShowBuffer {
    /// As written
    Configuration(ShowTable),
    /// As it is in force, with what was computed
    Information(ShowTable),
}

/// `xoff clear`
#[derive(Debug, Subcommand)]
pub enum ClearCommand {
    /// Watermarks of priority groups
    #[command(subcommand)]
    PriorityGroup(ClearGroups),
    /// Watermarks of queues
    #[command(subcommand)]
    Queue(ClearQueues),
    /// Watermarks of buffer pools
    #[command(subcommand, name = "buffer_pool")]
    BufferPool(ClearPool),
    /// Watermarks of shared headroom pools
    #[command(subcommand)]
    HeadroomPool(ClearPool),
}

/// `xoff clear priority-group`
#[derive(Debug, Subcommand)]
pub enum ClearGroups {
    /// Those of the user
    Watermark(ClearGroupWatermark),
    /// The persistent ones
    PersistentWatermark(ClearGroupWatermark),
}

/// Watermarks of priority groups to be cleared.
#[derive(Clone, Debug, Args)]
pub struct ClearGroupWatermark {
    /// Which region
    pub part: GroupPart,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear queue`
#[derive(Debug, Subcommand)]
pub enum ClearQueues {
    /// Those of the user
    Watermark(ClearQueueWatermark),
    /// The persistent ones
    PersistentWatermark(ClearQueueWatermark),
}

/// Watermarks of queues to be cleared.
#[derive(Clone, Debug, Args)]
pub struct ClearQueueWatermark {
    /// Which queues; all are cleared together
    pub part: QueuePart,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear buffer_pool`, `xoff clear headroom-pool`
#[derive(Debug, Subcommand)]
pub enum ClearPool {
    /// Those of the user
    Watermark(TargetArguments),
    /// The persistent ones
    PersistentWatermark(TargetArguments),
}

/// `xoff show ip`, `xoff show ipv6`
#[derive(Debug, Subcommand)]
pub enum ShowIp {
    /// Routes, in FRR's form
    Route(ShowTable),
    /// Router interfaces with their addresses
    Interfaces(ShowTable),
}

/// `xoff show interfaces`
#[derive(Debug, Subcommand)]
pub enum ShowInterfaces {
    /// Ports and LAGs as configured, and whether they are up
    Status(ShowTable),
    /// Frames, rates and drops of each port
    Counters(ShowInterfaceCounters),
    /// LAGs and their members
    Portchannel(ShowTable),
}

/// `xoff show counters`
#[derive(Clone, Debug, Args)]
pub struct ShowCounters {
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
pub struct ShowTable {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff show mac`
#[derive(Clone, Debug, Args)]
pub struct ShowMac {
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
pub struct ShowInterfaceCounters {
    /// Seconds over which rates are measured, 1 to 3600
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub period: u64,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}
