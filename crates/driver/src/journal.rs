//! The journal of a switch: its events for reports and the control socket.

use xoff_dataplane::{StormCounters, Switch, SwitchEvent, SwitchEventKind};

/// Largest number of events in a journal. Later events are only counted.
const EVENTS_MAX: usize = 8_192;

/// An event of a switch with the counters of its storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The event.
    pub event: SwitchEvent,
    /// Counters of the storm that ended with this event. The counters restart with the next storm
    /// of the queue.
    pub storm: Option<StormCounters>,
}

/// The events of one switch, ordered by time.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<JournalEntry>,
    missed_events: u64,
}

impl Journal {
    /// Creates an empty journal that holds `events` events without an allocation.
    pub fn with_capacity(events: usize) -> Journal {
        Journal {
            entries: Vec::with_capacity(events),
            missed_events: 0,
        }
    }

    /// Moves the events of the latest call of the switch to the journal.
    #[inline]
    pub fn record_events(&mut self, events: &mut Vec<SwitchEvent>, switch: &Switch) {
        if !events.is_empty() {
            self.add_entries(events, switch);
        }
    }

    #[cold]
    fn add_entries(&mut self, events: &mut Vec<SwitchEvent>, switch: &Switch) {
        for event in events.drain(..) {
            let storm = match event.kind {
                SwitchEventKind::StormRestored { queue } => {
                    switch.watchdog_stats(queue).map(|stats| stats.last)
                }
                _ => None,
            };
            if self.entries.len() < EVENTS_MAX {
                self.entries.push(JournalEntry { event, storm });
            } else {
                self.missed_events += 1;
            }
        }
    }

    /// Returns the recorded events.
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// Removes and returns the recorded events.
    pub fn drain_events(&mut self) -> impl Iterator<Item = SwitchEvent> + '_ {
        self.entries.drain(..).map(|entry| entry.event)
    }

    /// Returns the number of events that the full journal did not record.
    pub fn missed_events(&self) -> u64 {
        self.missed_events
    }
}
