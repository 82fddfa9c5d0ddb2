//! The PFC watchdog: finds queues that their peers hold without end, and does something about it.
//!
//! This module knows rules, times and accounts of one queue at a time; what follows for frames, pauses and timers is done by
//! the switch (`switch/watchdog.rs`).
//!
//! # The rules
//!
//! Terms are those of SONiC's `PFC_WD`; sections those of the project's SONiC reference.
//!
//! - **Pause of a queue**: from the XOFF that stops it until it may go on. An XOFF that comes before the last one has run out
//!   continues the pause; one that comes later begins another. XON and enable bits that are clear never begin one.
//! - **Progress** is a frame that leaves the queue. While a queue obeys its pause none does, so the time without progress is the
//!   time since the pause began or, where that is later, since the queue began to be judged: since it is watched, or since its
//!   last storm was restored.
//! - **Polls** lie on a grid, at multiples of the poll interval from when the interval was set. They are asked for only while
//!   there is something to see: a watched queue that is held, or a storm that can end. A switch that is idle has no deadline.
//! - **Detection** (2.10): the first poll at which the pause has lasted for the detection time without progress while
//!   something waits. So it comes between that time and one poll interval more after the pause began, never sooner. SONiC's
//!   countdown of whole polls counts the first, partial one too and may come sooner (2.10, timing consequence).
//! - **An empty queue** is judged by the platform's rule, [`WatchdogRule`](crate::config::WatchdogRule).
//! - **Restoration** of drop and forward: the first poll at which no XOFF has come for the restoration time. That the last
//!   XOFF has run out is not asked for: SONiC counts frames, and on a fast link a pause is over long before. Where it is not
//!   over the queue obeys the rest of it, and may be found stormed again after another detection time. XOFF frames are seen
//!   and counted whatever the action masks. A pause that lasts until it is resumed is not repeated: it counts as an XOFF that
//!   keeps coming. Without a restoration time the storm lasts until the link goes down or the queue is no longer watched.
//! - **Restoration of alert**: the first poll at which the condition no longer holds, whatever the restoration time.
//! - **Link down** ends a storm: the pause went with the peer.
//! - **Big red switch**: storms are closed, and every watched queue drops until it is off. That is no storm: nothing is detected.

mod account;
mod grid;
mod port;
mod queue;

pub use account::{StormCounters, WatchdogStats, WatchdogStatus};
pub(crate) use grid::PollGrid;
pub(crate) use port::{Mode, PortWatch};
pub(crate) use queue::Sight;
