//! What a switch has told its operator, kept for reports and the control socket.

use xoff_dataplane::{StormCounters, Switch, SwitchEvent, SwitchEventKind};

/// Events kept; a switch that tells more is described by its counters.
const EVENTS_MAX: usize = 8_192;

/// An event, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The event.
    pub event: SwitchEvent,
    /// Of a storm that is over: the frames it has cost. The next storm of the queue begins to count anew.
    pub storm: Option<StormCounters>,
}

/// Events of one switch, in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    missed: u64,
}

impl Journal {
    /// An empty journal that takes `events` events without an allocation.
    pub fn with_capacity(events: usize) -> Journal {
        Journal {
            entries: Vec::with_capacity(events),
            missed: 0,
        }
    }

    /// Takes what the switch has told in its latest call.
    #[inline]
    pub fn take(&mut self, events: &mut Vec<SwitchEvent>, switch: &Switch) {
        if !events.is_empty() {
            self.enter(events, switch);
        }
    }

    #[cold]
    fn enter(&mut self, events: &mut Vec<SwitchEvent>, switch: &Switch) {
        for event in events.drain(..) {
            let storm = match event.kind {
                SwitchEventKind::StormRestored { queue } => {
                    switch.watchdog_stats(queue).map(|stats| stats.last)
                }
                _ => None,
            };
            if self.entries.len() < EVENTS_MAX {
                self.entries.push(Entry { event, storm });
            } else {
                self.missed += 1;
            }
        }
    }

    /// The events kept.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes the events kept so far.
    pub fn drain(&mut self) -> impl Iterator<Item = SwitchEvent> + '_ {
        self.entries.drain(..).map(|entry| entry.event)
    }

    /// Events that found no room.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
