//! Events and counters of received MAC control frames.

use xoff_wire::MacControl;

use super::decoded_frame::DecodedFrame;
use super::pause_tracker::{PauseEvent, PauseScope, PauseTracker, ScopeEvent};

/// An event of [`Watcher`]. All times are in nanoseconds after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedEvent {
    /// A MAC control frame was received.
    Frame {
        /// Time of the frame.
        time_ns: u64,
        /// The decoded frame.
        frame: DecodedFrame,
        /// Changes of the pauses that the frame causes.
        changes: Vec<ScopeEvent>,
    },
    /// A pause has expired.
    Expired(ScopeEvent),
    /// Frames were lost before the decoder, because too many frames came at once.
    Lost {
        /// Time at which the loss was noticed.
        time_ns: u64,
        /// Number of frames.
        frames: u64,
    },
}

/// Counters of one class, or of PAUSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeCounters {
    /// Number of frames with a pause time above 0 for the class.
    pub xoff_frames: u64,
    /// Number of frames with the pause time 0 for the class.
    pub xon_frames: u64,
    /// Number of pauses that began.
    pub pauses: u64,
    /// Number of pauses that expired instead of being ended by a frame.
    pub expired: u64,
    /// Duration of all pauses in nanoseconds, up to the end of the observation.
    pub paused_ns: u64,
}

impl ScopeCounters {
    /// Returns whether all counters are 0.
    pub fn is_zero(&self) -> bool {
        *self == ScopeCounters::default()
    }
}

/// Counters of an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Duration of the observation in nanoseconds.
    pub duration_ns: u64,
    /// Number of MAC control frames.
    pub frames: u64,
    /// Number of frames that a receiver ignores.
    pub ignored_frames: u64,
    /// Number of frames with a deviation from the standard.
    pub deviating_frames: u64,
    /// Number of frames that were lost before the decoder.
    pub lost_frames: u64,
    /// Counters of each class.
    pub classes: [ScopeCounters; 8],
    /// Counters of 802.3x PAUSE.
    pub port: ScopeCounters,
}

/// Decodes MAC control frames, follows the pauses, and counts. The caller passes the frames and the time.
#[derive(Clone, Debug)]
pub struct Watcher {
    start_ns: u64,
    own_mac: [u8; 6],
    tracker: PauseTracker,
    summary: WatchSummary,
}

impl Watcher {
    /// Returns a watcher that starts at `start_ns`, a time of any clock in nanoseconds. `own_mac` is the MAC
    /// address of the receiving port, and `speed_mbps` is the speed of the link in Mb/s.
    pub fn new(start_ns: u64, own_mac: [u8; 6], speed_mbps: u32) -> Watcher {
        Watcher {
            start_ns,
            own_mac,
            tracker: PauseTracker::new(speed_mbps),
            summary: WatchSummary::default(),
        }
    }

    /// Returns the pauses in effect.
    pub fn tracker(&self) -> &PauseTracker {
        &self.tracker
    }

    /// Processes a frame that was received at `time_ns` of the clock of the start. `removed_tag` is a VLAN tag that
    /// the kernel has removed. Returns the expired pauses, and the frame if it is a MAC control frame.
    pub fn receive(&mut self, time_ns: u64, bytes: &[u8], removed_tag: Option<[u8; 4]>) -> Vec<WatchedEvent> {
        let Some(frame) = DecodedFrame::decode(bytes, removed_tag, self.own_mac) else {
            return Vec::new();
        };
        let time_ns = time_ns.saturating_sub(self.start_ns);
        self.summary.frames += 1;
        self.summary.deviating_frames += u64::from(!frame.deviations.is_empty());
        self.summary.ignored_frames += u64::from(frame.effect.is_none());
        let mut events = self.expire(time_ns);
        let mut changes = Vec::new();
        if let Some(control) = frame.effect {
            self.tracker.receive(time_ns, &control, &mut changes);
            self.count_frame(&control, &changes);
        }
        events.push(WatchedEvent::Frame {
            time_ns,
            frame,
            changes,
        });
        events
    }

    /// Returns the pauses that expire until `now_ns` of the clock of the start.
    pub fn advance(&mut self, now_ns: u64) -> Vec<WatchedEvent> {
        self.expire(now_ns.saturating_sub(self.start_ns))
    }

    /// Counts frames that were lost before the decoder.
    pub fn add_lost_frames(&mut self, now_ns: u64, frames: u64) -> Option<WatchedEvent> {
        self.summary.lost_frames += frames;
        let time_ns = now_ns.saturating_sub(self.start_ns);
        (frames > 0).then_some(WatchedEvent::Lost { time_ns, frames })
    }

    /// Returns the number of MAC control frames so far.
    pub fn frames(&self) -> u64 {
        self.summary.frames
    }

    /// Returns the counters at `now_ns` of the clock of the start.
    pub fn summary(&self, now_ns: u64) -> WatchSummary {
        let now_ns = now_ns.saturating_sub(self.start_ns);
        let mut summary = self.summary;
        summary.duration_ns = now_ns;
        for (class, counters) in (0..8).zip(&mut summary.classes) {
            counters.paused_ns = self.tracker.paused_ns(PauseScope::Class(class), now_ns);
        }
        summary.port.paused_ns = self.tracker.paused_ns(PauseScope::Port, now_ns);
        summary
    }

    fn expire(&mut self, time_ns: u64) -> Vec<WatchedEvent> {
        let mut expired = Vec::new();
        self.tracker.advance(time_ns, &mut expired);
        for event in &expired {
            self.counters(event.scope).expired += 1;
        }
        expired.into_iter().map(WatchedEvent::Expired).collect()
    }

    fn count_frame(&mut self, control: &MacControl, changes: &[ScopeEvent]) {
        match control {
            MacControl::Pause { quanta } => count_quanta(&mut self.summary.port, *quanta),
            MacControl::Pfc(pfc) => {
                for (class, counters) in self.summary.classes.iter_mut().enumerate() {
                    if pfc.enable & 1 << class != 0 {
                        count_quanta(counters, pfc.quanta[class]);
                    }
                }
            }
        }
        for change in changes {
            if matches!(change.event, PauseEvent::Paused { .. }) {
                self.counters(change.scope).pauses += 1;
            }
        }
    }

    fn counters(&mut self, scope: PauseScope) -> &mut ScopeCounters {
        match scope {
            PauseScope::Class(class) => &mut self.summary.classes[usize::from(class & 7)],
            PauseScope::Port => &mut self.summary.port,
        }
    }
}

fn count_quanta(counters: &mut ScopeCounters, quanta: u16) {
    match quanta {
        0 => counters.xon_frames += 1,
        _ => counters.xoff_frames += 1,
    }
}
