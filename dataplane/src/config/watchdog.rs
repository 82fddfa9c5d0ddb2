//! Configuration of the PFC watchdog (`PFC_WD`, `PORT_QOS_MAP.pfcwd_sw_enable`).

use xoff_units::Picos;

/// Watchdog settings of a switch (`PFC_WD|GLOBAL`). [`PortWatchdog`] has the settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Poll interval (`POLL_INTERVAL`), above 0. SONiC's tables permit 100 ms to 1 s. Shorter intervals than
    /// 1 us count as 1 us.
    pub poll: Picos,
    /// True if every watched queue drops all its frames (`BIG_RED_SWITCH`). In this state, no storm is
    /// detected or restored.
    pub big_red_switch: bool,
    /// Rule for storms of empty queues.
    pub rule: WatchdogRule,
}

impl Default for WatchdogConfig {
    fn default() -> WatchdogConfig {
        WatchdogConfig {
            poll: Picos::from_millis(100),
            big_red_switch: false,
            rule: WatchdogRule::default(),
        }
    }
}

/// The rule for storm detection at empty queues. For queues with waiting frames, all rules are the same: a
/// storm is detected if the queue was paused for the detection time and has sent nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogRule {
    /// A storm is also detected at an empty queue (Broadcom). The queue must be paused at the start and at
    /// the end of every poll interval, and XOFF frames must keep arriving.
    #[default]
    Broadcom,
    /// An empty queue is never in a storm (Nvidia).
    Nvidia,
    /// An empty queue is in a storm if it was paused for more than four fifths of each poll interval (virtual
    /// switch of SONiC, Barefoot, Marvell).
    Vs,
}

/// Watchdog settings of a port (`PFC_WD|<port>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortWatchdog {
    /// Bit mask of the watched queues. Bit *n* belongs to queue *n*. A queue is watched if PFC frames for a
    /// priority in `pfcwd_sw_enable` pause this queue.
    pub queues: u8,
    /// Action of the watchdog during a storm.
    pub action: WatchdogAction,
    /// Detection time: a storm is detected when a queue was paused without progress for this time. The
    /// detection time is at least the poll interval. SONiC's tables permit 100 ms to 5 s.
    pub detection: Picos,
    /// Restoration time: a storm ends when no XOFF frame has arrived for this time. The time is at least the
    /// poll interval. With `None`, the storm does not end.
    pub restoration: Option<Picos>,
    /// True if reports show the start and the length of the latest pause (`pfc_stat_history`).
    pub history: bool,
}

/// Action of the watchdog during a storm (`PFC_WD.action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drops the frames that wait in the queue and the frames that arrive for the queue. Also drops the
    /// frames that the port receives in the priority groups of the queue.
    #[default]
    Drop,
    /// The queue ignores pauses and continues to send.
    Forward,
    /// Only reports and counts the storm.
    Alert,
}
