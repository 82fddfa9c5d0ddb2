//! The journal of a switch: its events, for reports and for the control API.

use xoff_dataplane::{StormCounters, Switch, SwitchEvent, SwitchEventKind};

/// Largest number of events in a journal. Later events are only counted.
const EVENTS_MAX: usize = 8_192;

/// An event of a switch. If the event ends a watchdog storm, the entry also contains the counters of
/// the storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The event.
    pub event: SwitchEvent,
    /// Counters of the storm that ended with this event. `None` for all other events.
    pub storm: Option<StormCounters>,
}

/// The events of one switch, ordered by time. A journal stores at most 8192 events.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<JournalEntry>,
    missed_events: u64,
    /// The latest event that did not fit into `entries`.
    latest_missed: Option<SwitchEvent>,
}

impl Journal {
    /// Creates an empty journal that can store `events` events before it allocates more memory.
    pub fn with_capacity(events: usize) -> Journal {
        Journal {
            entries: Vec::with_capacity(events),
            missed_events: 0,
            latest_missed: None,
        }
    }

    /// Moves `events`, the events of the latest call of `switch`, to the journal. If the journal is full, the
    /// events are only counted.
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
                self.latest_missed = Some(event);
            }
        }
    }

    /// Returns the recorded events, oldest first.
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// Removes and returns the recorded events, oldest first.
    pub fn drain_events(&mut self) -> impl Iterator<Item = SwitchEvent> + '_ {
        self.entries.drain(..).map(|entry| entry.event)
    }

    /// Returns the number of all events since the start, and the latest event if the journal was too full to
    /// record it.
    pub fn event_count(&self) -> (u64, Option<SwitchEvent>) {
        (self.entries.len() as u64 + self.missed_events, self.latest_missed)
    }

    /// Returns the number of events that were not recorded because the journal was full.
    pub fn missed_events(&self) -> u64 {
        self.missed_events
    }
}
