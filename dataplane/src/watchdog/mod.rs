//! The PFC watchdog detects queues that the peer pauses for too long, and takes the configured action.
//!
//! This module contains the rules, times and statistics of one queue. The module `switch/watchdog.rs` applies
//! the results to frames, pauses and timers.
//!
//! # Rules
//!
//! The terms are those of SONiC's `PFC_WD`.
//!
//! - **Pause of a queue**: the time from the XOFF frame that stops the queue until the queue may continue. An
//!   XOFF frame that arrives before the end of the pause extends the pause. A later XOFF frame begins a new
//!   pause. XON never begins a pause.
//! - **Progress** is a frame that leaves the queue. A queue that honours its pause makes no progress. The
//!   time without progress starts at the beginning of the pause, or later in two cases. If the queue became
//!   watched during the pause, the time starts then. If a storm of the queue was restored during the pause,
//!   the time starts at the restoration.
//! - **Polls** occur at multiples of the poll interval, counted from the time at which the interval was set.
//!   The switch requests a poll only if a watched queue is paused or a storm can end. An idle switch
//!   therefore requests no poll.
//! - **Detection**: a storm is detected at the first poll at which two conditions hold: frames wait, and the
//!   pause has lasted for the detection time without progress. The delay is at least the detection time, and
//!   at most the detection time plus one poll interval. SONiC counts polls, and counts the first, partial
//!   poll interval as a whole interval. SONiC may therefore detect a storm earlier.
//! - **An empty queue** follows the rule of the platform, [`WatchdogRule`](crate::config::WatchdogRule).
//! - **Restoration** with the actions drop and forward: the storm ends at the first poll at which no XOFF has
//!   arrived for the restoration time. The last pause need not be over, because SONiC counts frames. If the
//!   pause is not over, the queue honours the rest of the pause, and may be in a storm again after another
//!   detection time. XOFF frames are received and counted under every action. A pause that lasts until its
//!   resume counts as an XOFF that keeps arriving. Without a restoration time, the storm lasts until the link
//!   goes down or the queue is no longer watched.
//! - **Restoration with the action alert**: the storm ends at the first poll at which the condition of the
//!   storm is false. The restoration time is not used.
//! - **Link down** ends a storm.
//! - **Big red switch**: when it is turned on, all storms end. Every watched queue drops its frames, and no
//!   storms are detected, until the big red switch is turned off.

mod poll_schedule;
mod port_watchdog;
mod statistics;
mod storm_detection;

pub(crate) use poll_schedule::PollSchedule;
pub(crate) use port_watchdog::{PortMonitor, WatchedQueueState};
pub use statistics::{StormCounters, WatchdogStats, WatchdogStatus};
pub(crate) use storm_detection::QueueSample;
