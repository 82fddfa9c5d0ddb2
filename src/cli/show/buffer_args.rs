//! What can be typed about buffers and their watermarks, after `xoff show` and `xoff clear`.

use clap::{Args, Subcommand, ValueEnum};

use super::super::TargetArguments;
use super::args::{ShowPorts, ShowTable};

/// `xoff show priority-group`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowGroups {
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
pub(crate) enum ShowDrop {
    /// Frames of each group that were dropped
    Counters(ShowTable),
}

impl ShowDrop {
    pub(in crate::cli) fn table(&self) -> &ShowTable {
        let ShowDrop::Counters(table) = self;
        table
    }
}

/// Regions of a priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupPart {
    /// Shared use
    Shared,
    /// Headroom
    Headroom,
}

/// Kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueuePart {
    /// Queues of unicast frames; copies of flooded ones are in them too
    Unicast,
    /// Queues of multicast frames, of which there are none
    Multicast,
    /// All queues
    All,
}

/// Watermarks of priority groups.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowGroupWatermark {
    /// Which region
    pub part: GroupPart,
    /// How it is shown.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Watermarks of queues.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowQueueWatermark {
    /// Which queues
    pub part: QueuePart,
    /// How it is shown.
    #[command(flatten)]
    pub options: ShowWatermark,
}

/// Options of watermarks.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowWatermark {
    /// Since the present telemetry interval began (`WATERMARK_TABLE|TELEMETRY_INTERVAL`, 120 s) instead
    #[arg(long)]
    pub periodic: bool,
    /// How it is shown.
    #[command(flatten)]
    pub table: ShowTable,
}

/// `xoff show queue counters`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowQueueCounters {
    /// Trimming counters too
    #[arg(short, long)]
    pub all: bool,
    /// Trimming counters instead of the others
    #[arg(short = 'T', long, conflicts_with = "all")]
    pub trim: bool,
    /// Leave out queues whose counters are all zero
    #[arg(long)]
    pub nonzero: bool,
    /// Which ports, and how it is shown.
    #[command(flatten)]
    pub of: ShowPorts,
}

/// `xoff show queue`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowQueues {
    /// Frames and bytes that each queue sent and dropped
    #[command(after_help = "\
A table for each port, as SONiC's queuestat prints it. --json prints queuestat's form: an object of ports, each an
object of queues.

Examples:
  xoff show queue counters --api /tmp/sw.sock
  xoff show queue counters Ethernet4 --nonzero --lab incast")]
    Counters(ShowQueueCounters),
    /// Most that each queue held since the user cleared it
    Watermark(ShowQueueWatermark),
    /// The same, cleared apart from the other
    PersistentWatermark(ShowQueueWatermark),
}

/// `xoff show buffer_pool`, `xoff show headroom-pool`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowPool {
    /// Most that each pool held since the user cleared it
    Watermark(ShowWatermark),
    /// The same, cleared apart from the other
    PersistentWatermark(ShowWatermark),
}

/// `xoff show buffer`
#[derive(Debug, Subcommand)]
pub(crate) enum ShowBuffer {
    /// As written
    Configuration(ShowTable),
    /// As it is in force, with what was computed
    Information(ShowTable),
}

/// `xoff clear`, of watermarks
#[derive(Debug, Subcommand)]
pub(crate) enum ClearWatermarks {
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
pub(crate) enum ClearGroups {
    /// Those of the user
    Watermark(ClearGroupWatermark),
    /// The persistent ones
    PersistentWatermark(ClearGroupWatermark),
}

/// Watermarks of priority groups to be cleared.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClearGroupWatermark {
    /// Which region
    pub part: GroupPart,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear queue`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearQueues {
    /// Those of the user
    Watermark(ClearQueueWatermark),
    /// The persistent ones
    PersistentWatermark(ClearQueueWatermark),
}

/// Watermarks of queues to be cleared.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClearQueueWatermark {
    /// Which queues; all are cleared together
    pub part: QueuePart,
    /// Which switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// `xoff clear buffer_pool`, `xoff clear headroom-pool`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPool {
    /// Those of the user
    Watermark(TargetArguments),
    /// The persistent ones
    PersistentWatermark(TargetArguments),
}
