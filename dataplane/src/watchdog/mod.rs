//! The PFC watchdog: detects queues that the peer pauses without end, and acts on them.
//!
//! This module has the rules, times and statistics of one queue. `switch/watchdog.rs` applies the results to
//! frames, pauses and timers.
//!
//! # Rules
//!
//! The terms are those of SONiC's `PFC_WD`.
//!
//! - **Pause of a queue**: from the XOFF that stops the queue until the queue may continue. An XOFF that
//!   arrives before the end of the pause extends the pause. A later XOFF begins a new pause. XON never begins
//!   a pause.
//! - **Progress** is a frame that leaves the queue. A queue that honours its pause makes no progress. The
//!   time without progress starts when the pause began. It starts later if the queue was not watched then, or
//!   if its last storm was restored later.
//! - **Polls** occur at multiples of the poll interval, counted from the time at which the interval was set.
//!   The switch requests a poll only if a watched queue is paused or a storm can end. An idle switch has no
//!   deadline.
//! - **Detection**: the first poll at which the pause has lasted for the detection time without progress
//!   while frames wait. The delay is at least the detection time, and at most one poll interval more. SONiC
//!   counts whole polls, including the first partial one, and may detect a storm earlier.
//! - **An empty queue** follows the rule of the platform, [`WatchdogRule`](crate::config::WatchdogRule).
//! - **Restoration** of drop and forward: the first poll at which no XOFF has arrived for the restoration
//!   time. The last pause need not be over, because SONiC counts frames. If the pause is not over, the queue
//!   honours the rest of it and may be in a storm again after another detection time. XOFF frames are
//!   received and counted under every action. A pause that lasts until its resume counts as an XOFF that
//!   keeps arriving. Without a restoration time, the storm lasts until the link goes down or the queue is no
//!   longer watched.
//! - **Restoration of alert**: the first poll at which the condition of the storm no longer holds. The
//!   restoration time is not used.
//! - **Link down** ends a storm.
//! - **Big red switch**: all storms end, and every watched queue drops its frames until the switch is off. No
//!   storms are detected meanwhile.

mod poll_schedule;
mod port;
mod queue;
mod statistics;

pub(crate) use poll_schedule::PollSchedule;
pub(crate) use port::{PortMonitor, WatchedQueueState};
pub(crate) use queue::QueueSample;
pub use statistics::{StormCounters, WatchdogStats, WatchdogStatus};
