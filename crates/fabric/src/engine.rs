//! The fabric: switches, hosts and links in virtual time.

use std::fmt;
use std::sync::Arc;

use xoff_dataplane::{FrameHandle, Picos};

use super::in_flight::FramesInFlight;
use super::observation::EventRecords;

mod build;
mod changes;
mod completions;
mod fabric_counts;
mod handler_access;
mod hosts;
mod layout;
mod mail;
mod mail_delivery;
mod prefetching;
mod reading;
mod running;
mod shard;
mod shard_window;
mod skipped_time;
mod spinning;
mod window;
mod window_batch;
mod workers;

pub use completions::{CompletionHandler, CompletionScope, FabricHosts};
pub(crate) use fabric_counts::{CongestionEvents, FabricCounts};
use layout::Layout;
use shard::{Receiver, Shard, is_arrival};
use skipped_time::SkippedTime;
use workers::ThreadStart;

/// Largest number of events at one model time. More events indicate an endless loop, and the run stops.
pub const SIMULTANEOUS_EVENTS_MAX: u64 = 10_000_000;

/// Flags in the number of an event source. A number without a flag is a link direction, the source of an
/// arriving frame. `SWITCH_FLAG` marks timers of switches, and `HOST_FLAG` marks timers of hosts.
const SWITCH_FLAG: u32 = 1 << 31;
const HOST_FLAG: u32 = 1 << 30;
/// Set together with [`HOST_FLAG`] if the link of the host becomes free. Used only if events are ordered
/// by insertion.
const LINK_FREE_FLAG: u32 = 1 << 29;
/// Set together with [`HOST_FLAG`] for a timer of the host that sends no frame itself. Used only if events
/// are ordered by insertion.
const HOST_TIMER_FLAG: u32 = 1 << 28;
/// Mask of the host index in a source with [`HOST_FLAG`].
const HOST_INDEX_MASK: u32 = !(SWITCH_FLAG | HOST_FLAG | LINK_FREE_FLAG | HOST_TIMER_FLAG);
/// Number of bits for the timer number in a source with [`SWITCH_FLAG`]. The higher bits contain the
/// switch index.
const TIMER_BITS: u32 = 16;
const SWITCHES_MAX: usize = 1 << 15;
const HOSTS_MAX: usize = 1 << 24;
/// Direction number of a port or NIC without a link.
const NO_LINK: u32 = u32::MAX;

/// Reason why [`Fabric::run`] returned before or at the requested time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStopReason {
    /// The requested time has been reached. Later events are pending.
    TimeReached,
    /// A host has a completion (see [`Fabric::take_completions`]).
    Completion,
    /// No event is left. Model time has not advanced to the requested time.
    Idle,
    /// More than [`SIMULTANEOUS_EVENTS_MAX`] events have occurred at one model time.
    Stuck,
    /// The limit of [`Fabric::set_events_max`] has been reached.
    EventLimit,
    /// The limit of [`Fabric::set_frame_memory_max`] has been exceeded.
    FrameMemoryLimit,
}

/// Switches, hosts and links in virtual time. All indices are positions in the lists of the
/// [`FabricPlan`](crate::FabricPlan). Methods panic if an index of a switch or host does not exist.
pub struct Fabric {
    now: Picos,
    /// Positions of the nodes in the shards.
    layout: Layout,
    /// Parts of the fabric. Each thread of a run processes one shard.
    shards: Vec<Shard>,
    /// Receiving ends of all link directions. For link *n*, number 2n is the direction from its first end to its
    /// second end. The next number is the opposite direction.
    receivers: Arc<[Receiver]>,
    /// True if partitions process time windows separately, and false if all events are processed in one order.
    is_partitioned: bool,
    /// True if a link connects two hosts. Groups of hosts cannot run separately then.
    hosts_linked: bool,
    in_flight: FramesInFlight,
    events_max: u64,
    /// See [`Fabric::set_step_end`].
    step_end: u64,
    /// A number that the events of a window do not reach.
    events_per_window_max: u64,
    frame_memory_max_bytes: u64,
    /// The limits are not checked again before this time.
    limits_checked_until: Picos,
    /// Number of windows in which partitions ran separately.
    windows: u64,
    /// Number of those windows in which the hosts were processed in one order.
    joint_windows: u64,
    /// Events for the observer that occurred while the hosts were processed in one order.
    joint_records: EventRecords,
    /// Buffer for the order of recorded events.
    record_order: Vec<(u128, u32, u32)>,
    thread_start: Option<ThreadStart>,
    seed: u64,
    /// Skipped time and counts of accelerated runs.
    skipped: SkippedTime,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Fabric")
            .field("now", &self.now)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

impl Fabric {
    /// Orders events of equal time by the order in which they were inserted, as ns-3 does. By default, events
    /// of equal time follow the order of their sources in the plan.
    ///
    /// This order is used for comparisons with ns-3, where frames often leave and arrive in the same
    /// nanosecond. At the start of a transmission, the fabric inserts an event that ends the transmission and
    /// frees the link. Insertion numbers have 32 bits, so fewer than 2^32 events may be inserted between two
    /// events of equal time.
    ///
    /// # Panics
    /// Panics if the fabric was built for several threads ([`Fabric::with_threads`]).
    pub fn order_by_insertion(&mut self) {
        self.process_in_one_order();
        let shard = &mut self.shards[0];
        shard.insertions = Some(0);
        // Frames that were sent when a link came up are already in flight.
        for event in shard.pending.iter().filter(|event| is_arrival(*event)) {
            shard
                .store
                .set_direction(FrameHandle(event.payload()), event.rank());
        }
        for node in &mut shard.switches {
            node.switch.set_links_free_by_deadline(true);
        }
    }

    /// Processes all events in one order from now on, instead of windows of partitions. The results are the same. Tests
    /// use this method to compare both ways.
    ///
    /// # Panics
    /// Panics if the fabric was built for several threads ([`Fabric::with_threads`]).
    pub fn process_in_one_order(&mut self) {
        assert_eq!(self.shards.len(), 1, "several threads process windows");
        self.is_partitioned = false;
        self.shards[0].pending.use_one_order();
    }

    /// Sets a function that each thread of a run calls at its start, with its number from 0. It can pin the thread to a
    /// core. Without several threads, the function is not called.
    pub fn set_thread_start(&mut self, start: impl Fn(usize) + Send + Sync + 'static) {
        self.thread_start = Some(Arc::new(start));
    }

    /// Sets the largest number of events that the fabric processes in total. If this number is reached,
    /// [`Fabric::run`] returns [`RunStopReason::EventLimit`]. The fabric checks the number at the start of each
    /// window, so it can process a few more events. A window lasts at most one link delay. By default, no limit
    /// applies.
    pub fn set_events_max(&mut self, events_max: u64) {
        self.events_max = events_max;
        self.limits_checked_until = Picos::ZERO;
    }

    /// Sets a number of events after which [`Fabric::run`] returns [`RunStopReason::EventLimit`] although its limit is
    /// not reached, for example to report progress. The number counts all events, and the run can process a few windows
    /// more. By default, no such number is set.
    pub fn set_step_end(&mut self, events: u64) {
        self.step_end = events;
        self.limits_checked_until = Picos::ZERO;
    }

    /// Sets the largest memory of the frames in queues and on links, in bytes. If they need more, [`Fabric::run`]
    /// returns [`RunStopReason::FrameMemoryLimit`]. Long links and lossless queues can hold millions of frames. The
    /// memory is checked as the number of events is ([`Fabric::set_events_max`]). By default, no limit applies.
    pub fn set_frame_memory_max(&mut self, max_bytes: u64) {
        self.frame_memory_max_bytes = max_bytes;
        self.limits_checked_until = Picos::ZERO;
    }

    /// Returns the memory of the frames in queues and on links, in bytes. It does not shrink when frames leave, because
    /// later frames use the same memory.
    pub fn frame_memory_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.store.memory_bytes()).sum()
    }

    /// Advances model time to `at` without processing events, but at most to the time of the next event.
    /// Callers use this method after [`RunStopReason::Idle`].
    pub fn advance_idle(&mut self, at: Picos) {
        let free = self.next_event().map_or(at, |next| next.min(at));
        self.advance_to(self.now.max(free));
    }
}
