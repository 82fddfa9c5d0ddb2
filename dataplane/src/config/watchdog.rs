//! What the PFC watchdog is told to do (`PFC_WD`, `PORT_QOS_MAP.pfcwd_sw_enable`).

use xoff_units::Picos;

/// The watchdog of a switch (`PFC_WD|GLOBAL`). Ports have their own part: [`PortWatchdog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Queues are looked at this often (`POLL_INTERVAL`), 100 ms to 1 s in SONiC's tables; at least 1 us here.
    pub poll: Picos,
    /// Every queue that is watched drops all its frames until this is off again; storms are neither detected nor restored
    /// meanwhile (`BIG_RED_SWITCH`).
    pub big_red_switch: bool,
    /// What counts as a storm of a queue in which nothing waits.
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

/// Whose rule holds for a queue that is paused while nothing waits in it. One in which something waits is judged by all of
/// them alike: paused for the detection time, and nothing sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogRule {
    /// Paused at both ends of every poll interval is enough, whether something waits or not, as long as XOFF frames keep
    /// coming (Broadcom).
    #[default]
    Broadcom,
    /// An empty queue is never stormed (Nvidia).
    Nvidia,
    /// An empty queue is stormed if it was paused for more than four fifths of each poll interval (SONiC's virtual switch,
    /// Barefoot, Marvell).
    Vs,
}

/// The watchdog of one port (`PFC_WD|<port>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortWatchdog {
    /// Bit *n*: queue *n* is watched, that is the queue which a pause of a priority in `pfcwd_sw_enable` stops.
    pub queues: u8,
    /// What is done about a storm.
    pub action: WatchdogAction,
    /// How long a queue must have been paused without progress, 100 ms to 5 s in SONiC's tables.
    pub detection: Picos,
    /// How long no XOFF must have come for a storm to be over; `None`: it is never over.
    pub restoration: Option<Picos>,
    /// Whether each pause is kept: how long the latest one lasted, and when it began (`pfc_stat_history`).
    pub history: bool,
}

/// What is done about a storm (`PFC_WD.action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// What waits in the queue, what comes for it, and what is received in its priority group of the port is dropped.
    #[default]
    Drop,
    /// The queue does not obey pauses.
    Forward,
    /// It is told and counted, nothing else.
    Alert,
}
