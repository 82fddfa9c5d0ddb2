//! The first and the last time of an event.

use xoff_units::Picos;

use super::super::expr::Occurrence;

/// The times of the first and the last event of one kind at one port or host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstAndLastEventTimes(Option<(Picos, Picos)>);

impl FirstAndLastEventTimes {
    /// Adds an event. Events must be added in the order of time.
    pub(super) fn record(&mut self, at: Picos) {
        self.0 = Some((self.0.map_or(at, |(first, _)| first), at));
    }

    /// Returns the time of the first or of the last event. Returns `None` without events.
    pub(super) fn occurrence_time(self, occurrence: Occurrence) -> Option<Picos> {
        self.0.map(|(first, last)| match occurrence {
            Occurrence::First => first,
            Occurrence::Last => last,
        })
    }
}
