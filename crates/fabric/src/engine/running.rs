//! The loop: events in their one order, or window by window, in which each part goes through its own (see [`pending`](crate::pending)).

use std::ops::Range;

use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{Handle, Picos};

use super::{EVENTS_AT_ONCE_MAX, Fabric, HOST, HOST_NUMBER, Halt, SWITCH, TIMER_BITS, is_arrival};
use crate::observer::Observer;
use crate::parts::Parts;
use crate::queue::{Event, first_key_at, first_key_behind, time_of_key};
use crate::wire::Wire;

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
        let (parts, wires) = (self.parts, &self.wires);
        self.pending
            .set_apart(apart, |event| part_of_source(parts, wires, event.rank()));
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
            if self.handle(event, RouteHint::NONE, observer) {
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
            self.pending.begin_windows(first);
            // What begins to leave for another part from now on arrives behind the lookahead.
            let span = self.lookahead.min(self.pending.window_max());
            let mut limit = first_key_at(first.saturating_add(span)).min(first_key_behind(until));
            let mut latest = self.now;
            let mut halt = None;
            let groups = self.parts.groups();
            let hosts_apart = self.hosts_complete_nothing_before(limit);
            let mut part = 0;
            while part < self.pending.parts() {
                let parts = match part < groups && !hosts_apart {
                    true => part..groups,
                    false => part..part + 1,
                };
                part = parts.end;
                if !parts.clone().any(|part| self.pending.has_before(part, limit)) {
                    continue;
                }
                match self.run_parts(parts, first, limit, observer) {
                    Ok(at) => latest = latest.max(at),
                    Err(Interrupted::Stuck) => halt = Some(Halt::Stuck),
                    Err(Interrupted::Completed(event)) => {
                        debug_assert!(!hosts_apart, "{event:?} has completed something");
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

    /// Whether no host can complete anything by an event whose key is below `limit`. What arrives before is pending already: it was sent
    /// a link's delay ago at least. So an acknowledgement that arrives before is of what was sent before the window.
    fn hosts_complete_nothing_before(&self, limit: u128) -> bool {
        let until = time_of_key(limit);
        let is_quiet =
            |event: Event| !is_arrival(event) || self.store.completes_nothing(Handle(event.what()));
        let mut groups = (0..self.parts.groups()).filter(|group| self.pending.has_before(*group, limit));
        !self.hosts_linked
            && groups.all(|group| {
                let hosts = &self.hosts[self.parts.hosts_of(group, self.hosts.len())];
                hosts.iter().all(|node| node.host.completes_nothing_before(until))
                    && self.pending.all_before(group, limit, is_quiet)
            })
    }

    /// Handles the events of some parts from `begin` on whose keys are below `limit`; when the last one was.
    fn run_parts(
        &mut self,
        parts: Range<usize>,
        begin: Picos,
        limit: u128,
        observer: &mut impl Observer,
    ) -> Result<Picos, Interrupted> {
        let (mut at, mut at_once) = (Picos::ZERO, 0);
        let mut came = Ok(());
        let of_hosts = parts.start < self.parts.groups();
        let store = &self.store;
        let see = |event| {
            if is_arrival(event) {
                store.prefetch(Handle(event.what()), of_hosts);
            }
        };
        let switch = match of_hosts {
            true => None,
            false => self.switches.get(parts.start - self.parts.groups()),
        };
        // A window has many frames to few destinations.
        let mut known = [(0, RouteHint::NONE); KNOWN_ROUTES];
        let ahead = |event| {
            let arrival = switch.filter(|_| is_arrival(event));
            let (Some(node), Some(to)) = (arrival, store.destination(Handle(event.what()))) else {
                return RouteHint::NONE;
            };
            let place = &mut known[place_of(to)];
            if place.0 != to || place.1 == RouteHint::NONE {
                *place = (to, node.switch.look_ahead(to));
            }
            place.1
        };
        self.pending.open_window(parts, begin, limit, see, ahead);
        while let Some((event, ahead)) = self.pending.take() {
            at_once = if event.at > at { 0 } else { at_once + 1 };
            if at_once > EVENTS_AT_ONCE_MAX {
                came = Err(Interrupted::Stuck);
                break;
            }
            at = event.at;
            self.now = at;
            self.store.under_way.at(at);
            if self.handle(event, ahead, observer) {
                came = Err(Interrupted::Completed(event));
                break;
            }
        }
        let (parts, wires) = (self.parts, &self.wires);
        self.pending
            .shut_window(|event| part_of_source(parts, wires, event.rank()));
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

/// Routes of a window that are kept while it is opened.
const KNOWN_ROUTES: usize = 64;

/// Where the route of a destination is kept: by a product with the golden ratio, so that neighbours lie apart.
#[inline]
fn place_of(destination: u32) -> usize {
    (destination.wrapping_mul(0x9e37_79b9) >> (u32::BITS - KNOWN_ROUTES.ilog2())) as usize % KNOWN_ROUTES
}

/// Whose events those of a source are.
fn part_of_source(parts: Parts, wires: &[Wire], source: u32) -> usize {
    if source & SWITCH != 0 {
        parts.of_switch(((source & !SWITCH) >> TIMER_BITS) as usize)
    } else if source & HOST != 0 {
        parts.of_host((source & HOST_NUMBER) as usize)
    } else {
        wires[source as usize].to_part as usize
    }
}
