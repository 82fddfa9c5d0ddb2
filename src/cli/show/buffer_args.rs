//! The arguments about buffers and watermarks of `xoff show` and `xoff clear`.

use clap::{Args, Subcommand, ValueEnum};

use super::super::TargetArguments;
use super::table_args::{PortTableArguments, TableArguments};

/// `xoff show priority-group`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPriorityGroupCommand {
    /// Largest use of each priority group since the last clear of the user watermark
    Watermark(ShowGroupWatermark),
    /// Largest use of each priority group since the last clear of the persistent watermark
    PersistentWatermark(ShowGroupWatermark),
    /// Dropped frames
    #[command(subcommand)]
    Drop(ShowPriorityGroupDropCommand),
}

/// `xoff show priority-group drop`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPriorityGroupDropCommand {
    /// Dropped frames of each priority group
    Counters(TableArguments),
}

impl ShowPriorityGroupDropCommand {
    /// Returns the switch and the output format.
    pub(in crate::cli) fn table_options(&self) -> &TableArguments {
        let ShowPriorityGroupDropCommand::Counters(table) = self;
        table
    }
}

/// Parts of the buffer use of a priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityGroupBufferPart {
    /// Use of the shared space of a pool
    Shared,
    /// Use of headroom
    Headroom,
}

/// Kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueKind {
    /// Queues of unicast frames, which also carry copies of flooded frames
    Unicast,
    /// Queues of multicast frames (xoff has none)
    Multicast,
    /// All queues
    All,
}

/// Options of a table of watermarks of priority groups.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowGroupWatermark {
    /// Part of the buffer use of priority groups: shared or headroom
    pub part: PriorityGroupBufferPart,
    /// The switch and the output format.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Options of a table of watermarks of queues.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowQueueWatermark {
    /// Kind of queues: unicast, multicast or all
    pub part: QueueKind,
    /// The switch and the output format.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Options of all tables of watermarks.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowWatermark {
    /// Show the periodic watermark of the current telemetry interval
    /// (`WATERMARK_TABLE|TELEMETRY_INTERVAL`, 120 s)
    #[arg(long)]
    pub periodic: bool,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
}

/// `xoff show queue counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowQueueCounters {
    /// Include trimming counters
    #[arg(short, long)]
    pub all: bool,
    /// Show only trimming counters
    #[arg(short = 'T', long, conflicts_with = "all")]
    pub trim: bool,
    /// Omit queues whose counters are all zero
    #[arg(long)]
    pub nonzero: bool,
    /// The ports, the switch and the output format.
    #[command(flatten)]
    pub selection: PortTableArguments,
}

/// `xoff show queue`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowQueueCommand {
    /// Frames and bytes that each queue sent and dropped
    #[command(after_help = "\
Prints a table for each port in the layout of SONiC's queuestat. --json prints the JSON of queuestat: an object for
each port, with an object for each queue.

Examples:
  xoff show queue counters --api /tmp/sw.sock
  xoff show queue counters Ethernet4 --nonzero --lab incast")]
    Counters(ShowQueueCounters),
    /// Largest use of each queue since the last clear of the user watermark
    Watermark(ShowQueueWatermark),
    /// Largest use of each queue since the last clear of the persistent watermark
    PersistentWatermark(ShowQueueWatermark),
}

/// `xoff show buffer_pool`, `xoff show headroom-pool`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPoolCommand {
    /// Largest use of each pool since the last clear of the user watermark
    Watermark(ShowWatermark),
    /// Largest use of each pool since the last clear of the persistent watermark
    PersistentWatermark(ShowWatermark),
}

/// `xoff show buffer`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowBuffer {
    /// The configuration as written
    Configuration(TableArguments),
    /// The configuration with computed fields
    Information(TableArguments),
}

/// `xoff clear` for watermarks
#[derive(Debug, Subcommand)]
pub(crate) enum ClearWatermarkCommand {
    /// Watermarks of priority groups
    #[command(subcommand)]
    PriorityGroup(ClearPriorityGroupCommand),
    /// Watermarks of queues
    #[command(subcommand)]
    Queue(ClearQueueCommand),
    /// Watermarks of buffer pools
    #[command(subcommand, name = "buffer_pool")]
    BufferPool(ClearPoolCommand),
    /// Watermarks of shared headroom pools
    #[command(subcommand)]
    HeadroomPool(ClearPoolCommand),
}

/// `xoff clear priority-group`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPriorityGroupCommand {
    /// The user watermarks
    Watermark(ClearGroupWatermark),
    /// The persistent watermarks
    PersistentWatermark(ClearGroupWatermark),
}

/// Watermarks of priority groups to be cleared.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClearGroupWatermark {
    /// Part of the buffer use of priority groups: shared or headroom
    pub part: PriorityGroupBufferPart,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear queue`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearQueueCommand {
    /// The user watermarks
    Watermark(ClearQueueWatermark),
    /// The persistent watermarks
    PersistentWatermark(ClearQueueWatermark),
}

/// Watermarks of queues to be cleared.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClearQueueWatermark {
    /// Kind of queues; all are cleared together
    pub part: QueueKind,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear buffer_pool`, `xoff clear headroom-pool`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPoolCommand {
    /// The user watermarks
    Watermark(TargetArguments),
    /// The persistent watermarks
    PersistentWatermark(TargetArguments),
}
