//! Configuration of the PFC watchdog (`PFC_WD`, `PORT_QOS_MAP.pfcwd_sw_enable`).

use xoff_units::Picos;

/// Watchdog settings of a switch (`PFC_WD|GLOBAL`). [`PortWatchdog`] has the settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Poll interval (`POLL_INTERVAL`), 100 ms to 1 s in SONiC's tables. The minimum is 1 us.
    pub poll: Picos,
    /// True if every watched queue drops all its frames. No storm is detected or restored in this state
    /// (`BIG_RED_SWITCH`).
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

/// The rule for a paused queue that is empty. A queue with waiting frames is in a storm under every rule
/// after it was paused for the detection time and sent nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogRule {
    /// The queue was paused at both ends of every poll interval and XOFF frames kept arriving (Broadcom).
    /// Waiting frames are not required.
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
    /// Bit *n*: queue *n* is watched. These are the queues that a pause of a priority in `pfcwd_sw_enable`
    /// stops.
    pub queues: u8,
    /// Action during a storm.
    pub action: WatchdogAction,
    /// How long a queue must be paused without progress, 100 ms to 5 s in SONiC's tables.
    pub detection: Picos,
    /// How long no XOFF may arrive before a storm ends. `None`: the storm does not end.
    pub restoration: Option<Picos>,
    /// True if the start and length of the latest pause are recorded (`pfc_stat_history`).
    pub history: bool,
}

/// Action during a storm (`PFC_WD.action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drop the frames that wait in the queue, arrive for it, or are received in its priority groups at the
    /// port.
    #[default]
    Drop,
    /// Forward: the queue ignores pauses.
    Forward,
    /// Report and count the storm only.
    Alert,
}
