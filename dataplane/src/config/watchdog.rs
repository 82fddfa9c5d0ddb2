//! Configuration of the PFC watchdog (`PFC_WD`, `PORT_QOS_MAP.pfcwd_sw_enable`).

use xoff_units::Picos;

/// Watchdog settings of a switch (`PFC_WD|GLOBAL`). [`PortWatchdog`] has the settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Poll interval (`POLL_INTERVAL`), 100 ms to 1 s in SONiC's tables. The minimum is 1 us.
    pub poll: Picos,
    /// True if every watched queue drops all its frames. No storm is detected or restored in
    /// this state (`BIG_RED_SWITCH`).
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

/// The rule for storm detection at empty queues. If frames wait in the queue, all rules are the same: a storm
/// is detected after the queue was paused for the detection time and sent nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogRule {
    /// A storm is also detected at an empty queue (Broadcom). The queue must be paused at the start and the
    /// end of every poll interval, and XOFF frames must keep arriving.
    #[default]
    Broadcom,
    /// An empty queue is never in a storm (Nvidia).
    Nvidia,
    /// An empty queue is in a storm if it was paused for more than four fifths of each poll interval (SONiC's
    /// virtual switch, Barefoot, Marvell).
    Vs,
}

/// Watchdog settings of a port (`PFC_WD|<port>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortWatchdog {
    /// Bit mask of the watched queues. Bit *n* stands for queue *n*. A queue is watched if a pause of a
    /// priority in `pfcwd_sw_enable` stops the queue.
    pub queues: u8,
    /// Action during a storm.
    pub action: WatchdogAction,
    /// Detection time: a storm is detected when a queue was paused without progress for this time. SONiC's
    /// tables permit 100 ms to 5 s.
    pub detection: Picos,
    /// Restoration time: a storm ends when no XOFF has arrived for this time. With `None`, the storm
    /// does not end.
    pub restoration: Option<Picos>,
    /// True if the start and length of the latest pause are recorded (`pfc_stat_history`).
    pub history: bool,
}

/// Action during a storm (`PFC_WD.action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drop the frames that wait in the queue and the frames that arrive for the queue. Also drop the frames
    /// that the port receives in the priority groups of the queue.
    #[default]
    Drop,
    /// Forward: the queue ignores pauses.
    Forward,
    /// Report and count the storm only.
    Alert,
}
