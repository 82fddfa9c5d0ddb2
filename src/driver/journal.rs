//! What a switch has told its operator, kept for reports and the control socket.

use xoff_dataplane::SwitchEvent;

/// Events kept; a switch that tells more is described by its counters.
const EVENTS_MAX: usize = 8_192;

/// Events of one switch, in the order of their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    events: Vec<SwitchEvent>,
    missed: u64,
}

impl Journal {
    /// Takes what the switch has told.
    #[inline]
    pub(crate) fn take(&mut self, events: &mut Vec<SwitchEvent>) {
        if !events.is_empty() {
            self.enter(events);
        }
    }

    #[cold]
    fn enter(&mut self, events: &mut Vec<SwitchEvent>) {
        for event in events.drain(..) {
            if self.events.len() < EVENTS_MAX {
                self.events.push(event);
            } else {
                self.missed += 1;
            }
        }
    }

    /// The events kept.
    pub(crate) fn events(&self) -> &[SwitchEvent] {
        &self.events
    }

    /// Events that found no room.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_dataplane::{Picos, SwitchEventKind};

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut journal = Journal::default();
        let event = |at| SwitchEvent {
            at: Picos(at),
            kind: SwitchEventKind::BigRedSwitch { on: at % 2 == 0 },
        };
        let mut events: Vec<SwitchEvent> = (0..EVENTS_MAX as u64 + 3).map(event).collect();
        journal.take(&mut events);
        assert!(events.is_empty());
        assert_eq!((journal.events().len(), journal.missed()), (EVENTS_MAX, 3));
        assert_eq!(journal.events()[1], event(1));
    }
}
