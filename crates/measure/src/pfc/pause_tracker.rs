//! Derives from MAC control frames which classes a conforming receiver has paused, and until when.

use xoff_units::LinkTiming;
use xoff_wire::MacControl;

/// Number of scopes: eight classes, and the whole port.
const SCOPES: usize = 9;
const PORT_INDEX: usize = 8;

/// What a frame pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseScope {
    /// One class, by PFC.
    Class(u8),
    /// All classes of the port, by 802.3x PAUSE.
    Port,
}

/// A pause that is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPause {
    /// Start of the pause: the time of the first frame, in nanoseconds.
    pub since_ns: u64,
    /// End of the pause if no further frame arrives, in nanoseconds.
    pub until_ns: u64,
    /// Number of frames that extended or changed the pause after its first frame.
    pub refreshes: u64,
}

/// A change of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEvent {
    /// A pause begins.
    Paused {
        /// Pause time of the frame in quanta.
        quanta: u16,
        /// Pause time of the frame in nanoseconds.
        duration_ns: u64,
        /// End of the pause in nanoseconds.
        until_ns: u64,
    },
    /// A frame sets a new end of a pause in effect. The new pause time replaces the rest of the old one.
    Refreshed {
        /// Pause time of the frame in quanta.
        quanta: u16,
        /// Pause time of the frame in nanoseconds.
        duration_ns: u64,
        /// New end of the pause in nanoseconds.
        until_ns: u64,
        /// Rest of the old pause time in nanoseconds.
        left_ns: u64,
    },
    /// A frame with pause time 0 ends a pause in effect.
    Resumed {
        /// Duration of the pause in nanoseconds.
        paused_ns: u64,
        /// Rest of the pause time in nanoseconds.
        left_ns: u64,
    },
    /// A frame with pause time 0 arrives without a pause in effect.
    AlreadyResumed,
    /// The pause time has passed without a further frame.
    Expired {
        /// Duration of the pause in nanoseconds.
        paused_ns: u64,
    },
}

/// A change of the pause of a class or of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeEvent {
    /// Time of the change in nanoseconds.
    pub time_ns: u64,
    /// The class, or the port.
    pub scope: PauseScope,
    /// The change.
    pub event: PauseEvent,
}

/// The pauses that the frames of a sender imply.
#[derive(Clone, Debug)]
pub struct PauseTracker {
    timing: LinkTiming,
    pauses: [Option<ClassPause>; SCOPES],
    /// Time of the last event. Time stamps of a kernel can go back a little.
    latest_ns: u64,
    /// Duration of all pauses that have ended, in nanoseconds, by class and for the port.
    ended_ns: [u64; SCOPES],
}

fn scope_of(index: usize) -> PauseScope {
    match index {
        PORT_INDEX => PauseScope::Port,
        class => PauseScope::Class(class as u8),
    }
}

fn index_of(scope: PauseScope) -> usize {
    match scope {
        PauseScope::Class(class) => usize::from(class).min(PORT_INDEX - 1),
        PauseScope::Port => PORT_INDEX,
    }
}

impl PauseTracker {
    /// Returns a tracker without pauses. `speed_mbps` is the speed of the link in Mb/s, 1 to 1 600 000. A
    /// quantum has 512 bit times at this speed.
    pub fn new(speed_mbps: u32) -> PauseTracker {
        PauseTracker {
            timing: LinkTiming::ethernet(speed_mbps.clamp(1, 1_600_000)),
            pauses: [None; SCOPES],
            latest_ns: 0,
            ended_ns: [0; SCOPES],
        }
    }

    /// Returns the duration of a pause time in nanoseconds, rounded down.
    pub fn pause_duration_ns(&self, quanta: u16) -> u64 {
        self.timing.pause_duration(quanta).as_nanos()
    }

    /// Returns the pause of a class or of the port. `None` if no pause is in effect.
    pub fn pause(&self, scope: PauseScope) -> Option<ClassPause> {
        self.pauses[index_of(scope)]
    }

    /// Returns the time in nanoseconds for which a class or the port has been paused until `now_ns`.
    pub fn paused_ns(&self, scope: PauseScope, now_ns: u64) -> u64 {
        let current = self.pause(scope).map_or(0, |pause| {
            now_ns.min(pause.until_ns).saturating_sub(pause.since_ns)
        });
        self.ended_ns[index_of(scope)] + current
    }

    /// Returns the time in nanoseconds at which a pause expires next.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.pauses.iter().flatten().map(|pause| pause.until_ns).min()
    }

    /// Ends the pauses that expire until `now_ns`, and appends an event for each in the order of time.
    pub fn advance(&mut self, now_ns: u64, events: &mut Vec<ScopeEvent>) {
        while let Some((index, pause)) = self.earliest_expiry(now_ns) {
            self.pauses[index] = None;
            let paused_ns = pause.until_ns - pause.since_ns;
            self.ended_ns[index] += paused_ns;
            self.latest_ns = self.latest_ns.max(pause.until_ns);
            events.push(ScopeEvent {
                time_ns: pause.until_ns,
                scope: scope_of(index),
                event: PauseEvent::Expired { paused_ns },
            });
        }
    }

    fn earliest_expiry(&self, now_ns: u64) -> Option<(usize, ClassPause)> {
        let pauses = self.pauses.iter().enumerate();
        let expired = pauses.filter_map(|(index, pause)| pause.map(|pause| (index, pause)));
        expired
            .filter(|(_, pause)| pause.until_ns <= now_ns)
            .min_by_key(|(_, pause)| pause.until_ns)
    }

    /// Processes the effect of a frame that arrived at `time_ns`, and appends the events. Pauses that expire until
    /// then end first. A time before that of the last event counts as that time.
    pub fn receive(&mut self, time_ns: u64, control: &MacControl, events: &mut Vec<ScopeEvent>) {
        self.advance(time_ns, events);
        let time_ns = time_ns.max(self.latest_ns);
        self.latest_ns = time_ns;
        match control {
            MacControl::Pause { quanta } => self.set(time_ns, PORT_INDEX, *quanta, events),
            MacControl::Pfc(pfc) => {
                for class in (0..PORT_INDEX).filter(|class| pfc.enable & 1 << class != 0) {
                    self.set(time_ns, class, pfc.quanta[class], events);
                }
            }
        }
    }

    fn set(&mut self, time_ns: u64, index: usize, quanta: u16, events: &mut Vec<ScopeEvent>) {
        let duration_ns = self.pause_duration_ns(quanta);
        let until_ns = time_ns.saturating_add(duration_ns);
        let event = match (&mut self.pauses[index], quanta) {
            (None, 0) => PauseEvent::AlreadyResumed,
            (Some(pause), 0) => {
                let paused_ns = time_ns.saturating_sub(pause.since_ns);
                let left_ns = pause.until_ns.saturating_sub(time_ns);
                self.ended_ns[index] += paused_ns;
                self.pauses[index] = None;
                PauseEvent::Resumed { paused_ns, left_ns }
            }
            (Some(pause), _) => {
                let left_ns = pause.until_ns.saturating_sub(time_ns);
                pause.until_ns = until_ns;
                pause.refreshes += 1;
                PauseEvent::Refreshed {
                    quanta,
                    duration_ns,
                    until_ns,
                    left_ns,
                }
            }
            (none, _) => {
                *none = Some(ClassPause {
                    since_ns: time_ns,
                    until_ns,
                    refreshes: 0,
                });
                PauseEvent::Paused {
                    quanta,
                    duration_ns,
                    until_ns,
                }
            }
        };
        events.push(ScopeEvent {
            time_ns,
            scope: scope_of(index),
            event,
        });
    }
}
