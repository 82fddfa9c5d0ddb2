//! The latest events of a switch, for event streams.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use xoff_telemetry::EventReport;

/// Number of events that an [`EventLog`] keeps for slow readers.
pub const EVENTS_KEPT: usize = 1_024;

/// A ring of the latest events of a switch. Each event has a sequence number. Readers copy events from the
/// ring, so a slow reader delays neither the switch nor other readers. A reader that falls behind learns how
/// many events it has missed.
#[derive(Debug)]
pub struct EventLog {
    ring: Mutex<VecDeque<(u64, EventReport)>>,
    /// The sequence number of the latest event.
    latest: watch::Sender<u64>,
}

/// An item of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// An event with its sequence number.
    Event(u64, Box<EventReport>),
    /// The reader has missed events.
    Gap {
        /// Number of missed events.
        missed: u64,
        /// Sequence number of the last missed event.
        last: u64,
    },
}

impl Default for EventLog {
    fn default() -> EventLog {
        EventLog {
            ring: Mutex::default(),
            latest: watch::Sender::new(0),
        }
    }
}

impl EventLog {
    /// Adds an event. `sequence` is the number of the event since the start of the switch, from 1. Numbers
    /// increase, and a skipped number is an event that was lost before it reached the log.
    pub fn push(&self, sequence: u64, event: EventReport) {
        {
            let mut ring = self.lock();
            if ring.len() == EVENTS_KEPT {
                ring.pop_front();
            }
            ring.push_back((sequence, event));
        }
        self.latest.send_replace(sequence);
    }

    /// Returns the sequence number of the latest event. 0 before the first event.
    pub fn latest(&self) -> u64 {
        *self.latest.borrow()
    }

    /// Returns a receiver that is notified of each new event.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Returns at most `count` items that follow the event `after`. Empty if no event follows.
    pub fn items_after(&self, after: u64, count: usize) -> Vec<StreamItem> {
        let ring = self.lock();
        let first = ring.partition_point(|(sequence, _)| *sequence <= after);
        let mut items = Vec::new();
        let mut previous = after;
        for (sequence, event) in ring.iter().skip(first) {
            if items.len() >= count {
                break;
            }
            let missed = sequence - previous - 1;
            if missed > 0 {
                items.push(StreamItem::Gap {
                    missed,
                    last: sequence - 1,
                });
            }
            items.push(StreamItem::Event(*sequence, Box::new(event.clone())));
            previous = *sequence;
        }
        items
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, EventReport)>> {
        // The ring is valid after each statement, so it is valid even if a thread died.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64) -> EventReport {
        EventReport {
            at_ns,
            event: "pfc-storm".to_owned(),
            ..EventReport::default()
        }
    }

    #[test]
    fn a_reader_that_falls_behind_gets_the_number_of_missed_events() {
        let log = EventLog::default();
        let count = EVENTS_KEPT as u64 + 10;
        (1..=count).for_each(|n| log.push(n, event(n)));
        let items = log.items_after(0, 2);
        assert_eq!(items[0], StreamItem::Gap { missed: 10, last: 10 });
        assert_eq!(items[1], StreamItem::Event(11, Box::new(event(11))));
        assert_eq!(log.items_after(count, 8), []);
        assert_eq!(log.items_after(count - 1, 8).len(), 1);
        // An event that was lost before the log is a gap, too.
        log.push(count + 3, event(0));
        assert_eq!(
            log.items_after(count, 8)[0],
            StreamItem::Gap {
                missed: 2,
                last: count + 2
            }
        );
        assert_eq!(log.latest(), count + 3);
    }
}
