//! The loop: events in their one order, or window by window, in which each part goes through its own (see [`pending`](crate::fabric::pending)).

use xoff_dataplane::Picos;

use super::{EVENTS_AT_ONCE_MAX, Fabric, HOST, Halt, SWITCH, TIMER_BITS};
use crate::fabric::observer::Observer;
use crate::fabric::pending::{HOSTS, part_of, part_of_switch};
use crate::fabric::queue::{Event, Source, first_key_at, first_key_behind};
use crate::fabric::wire::Wire;

/// Nodes whose links are shorter than this are not handled apart: a window would hold hardly an event for each.
const LOOKAHEAD_MIN: Picos = Picos::from_nanos(100);

/// Why a part has not come to the end of a window.
enum Interrupted {
    /// A host has completed something by this event.
    Completed(Event),
    /// See [`Halt::Stuck`].
    Stuck,
}

impl Fabric {
    /// Handles events until `until`, and those at `until`, each after all that it hangs on. It comes back earlier when a host completes
    /// something, with everything handled that comes before that in the order of events and nothing that comes behind it; and when
    /// nothing is left to happen.
    pub fn run(&mut self, until: Picos, observer: &mut impl Observer) -> Halt {
        let apart = self.lookahead >= LOOKAHEAD_MIN
            && self.insertions.is_none()
            && self.events_max == u64::MAX
            && !observer.needs_order();
        let wires = &self.wires;
        self.pending
            .set_apart(apart, |event| part_of_source(wires, event.source()));
        match apart {
            true => self.run_apart(until, observer),
            false => self.run_together(until, observer),
        }
    }

    /// As [`Fabric::run`], in the order of events.
    fn run_together(&mut self, until: Picos, observer: &mut impl Observer) -> Halt {
        let mut at_once = 0;
        loop {
            let Some(event) = self.pending.peek(until) else {
                if self.pending.len() == 0 {
                    return Halt::Idle;
                }
                self.stand_at(self.now.max(until));
                return Halt::Time;
            };
            at_once = if event.at > self.now { 0 } else { at_once + 1 };
            if at_once > EVENTS_AT_ONCE_MAX {
                return Halt::Stuck;
            }
            if self.events >= self.events_max {
                return Halt::Spent;
            }
            self.pending.pop();
            self.stand_at(event.at);
            if self.handle(event, observer) {
                return Halt::Completion;
            }
        }
    }

    /// As [`Fabric::run`], window by window, in which each part goes through its events alone (see [`super::pending`]).
    fn run_apart(&mut self, until: Picos, observer: &mut impl Observer) -> Halt {
        loop {
            let Some(first) = self.pending.earliest() else {
                return Halt::Idle;
            };
            if first > until {
                self.stand_at(self.now.max(until));
                return Halt::Time;
            }
            self.store.under_way.settle(first);
            // What begins to leave for another part from now on arrives behind the lookahead.
            let span = self.lookahead.min(self.pending.window_max());
            let mut limit = first_key_at(first.saturating_add(span)).min(first_key_behind(until));
            let mut latest = self.now;
            let mut halt = None;
            for part in HOSTS..self.pending.parts() {
                if !self.pending.has_before(part, limit) {
                    continue;
                }
                match self.run_part(part, first, limit, observer) {
                    Ok(at) => latest = latest.max(at),
                    Err(Interrupted::Stuck) => halt = Some(Halt::Stuck),
                    Err(Interrupted::Completed(event)) => {
                        (limit, latest) = (event.key(), event.at);
                        halt = Some(Halt::Completion);
                    }
                }
            }
            self.stand_at(latest);
            if let Some(halt) = halt {
                return halt;
            }
        }
    }

    /// Handles the events of a part from `begin` on whose keys are below `limit`; when the last one was.
    fn run_part(
        &mut self,
        part: usize,
        begin: Picos,
        limit: u128,
        observer: &mut impl Observer,
    ) -> Result<Picos, Interrupted> {
        let (mut at, mut at_once) = (Picos::ZERO, 0);
        let mut came = Ok(());
        self.pending.open_window(part, begin, limit);
        while let Some(event) = self.pending.take() {
            at_once = if event.at > at { 0 } else { at_once + 1 };
            if at_once > EVENTS_AT_ONCE_MAX {
                came = Err(Interrupted::Stuck);
                break;
            }
            at = event.at;
            self.now = at;
            self.store.under_way.at(at);
            if self.handle(event, observer) {
                came = Err(Interrupted::Completed(event));
                break;
            }
        }
        self.pending.shut_window();
        came.map(|()| at)
    }

    /// It is `at`, and nothing will happen earlier.
    #[inline]
    pub(super) fn stand_at(&mut self, at: Picos) {
        self.now = at;
        self.store.under_way.settle(at);
        self.store.under_way.at(at);
    }
}

/// Whose events those of a source are.
fn part_of_source(wires: &[Wire], Source(source): Source) -> usize {
    if source & SWITCH != 0 {
        part_of_switch(((source & !SWITCH) >> TIMER_BITS) as usize)
    } else if source & HOST != 0 {
        HOSTS
    } else {
        part_of(wires[source as usize].to)
    }
}
