//! What is pending in a fabric: in one order, or each part's events in theirs.
//!
//! A frame takes at least a link's delay from one node to the next. So what happens at a node within that time of the earliest
//! pending event (the *lookahead*, as conservative parallel simulation calls it) hangs on nothing that happens at others
//! meanwhile, and each node may go through its events of that window alone: with its own state, tables and code in the caches, and a
//! handful of pending events instead of all of them. What becomes of anything is the same. Only somebody who watches the whole
//! fabric sees a difference: the order in which he hears of different nodes.
//!
//! Hosts are one part: whoever drives the fabric gives them work without delay when one of them has completed something.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use xoff_dataplane::Picos;

use super::plan::End;
use super::queue::{Event, EventQueue, first_key_at};
use super::window::Window;

/// The part that all hosts are.
pub(super) const HOSTS: usize = 0;

/// The part that a node belongs to: each switch is one.
#[inline]
pub(super) fn part_of(end: End) -> usize {
    match end {
        End::Switch { switch, .. } => part_of_switch(switch as usize),
        End::Host(_) => HOSTS,
    }
}

/// The part that a switch is.
#[inline]
pub(super) fn part_of_switch(switch: usize) -> usize {
    switch + 1
}

/// Pending events.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// Of all parts, where they are handled in one order.
    together: EventQueue,
    /// Of the part that is handled now, where each goes on by itself: those in the window.
    window: Window,
    /// Of each part: those behind the window.
    later: Vec<BinaryHeap<Reverse<Event>>>,
    /// When the first of each of these is; [`Picos::NEVER`]: there is none. Side by side, since for each window all parts are asked.
    firsts: Vec<Picos>,
    is_apart: bool,
    /// The part that is handled now.
    part: usize,
    /// The key at which the window ends.
    limit: u128,
}

/// No part.
const NONE: usize = usize::MAX;

impl Pending {
    /// Of a fabric whose switches have so many ports, and whose shortest frame takes `frame` on the fastest link.
    pub(super) fn new(ports: impl Iterator<Item = usize>, frame: Picos) -> Pending {
        let of_hosts = BinaryHeap::with_capacity(64);
        let of_switches = ports.map(|ports| BinaryHeap::with_capacity(4 * ports));
        let later: Vec<_> = std::iter::once(of_hosts).chain(of_switches).collect();
        Pending {
            together: EventQueue::default(),
            window: Window::new(frame),
            firsts: vec![Picos::NEVER; later.len()],
            later,
            is_apart: false,
            part: NONE,
            limit: 0,
        }
    }

    /// The longest that a window may be.
    pub(super) fn window_max(&self) -> Picos {
        self.window.span()
    }

    /// Gives each part its own order, or all of them one. `part`: whose an event is.
    pub(super) fn set_apart(&mut self, apart: bool, part: impl Fn(Event) -> usize) {
        if self.is_apart == apart {
            return;
        }
        self.is_apart = apart;
        if apart {
            for event in self.together.drain() {
                self.push_later(part(event), event);
            }
        } else {
            for Reverse(event) in self.later.iter_mut().flat_map(BinaryHeap::drain) {
                self.together.push(event);
            }
            self.firsts.fill(Picos::NEVER);
        }
    }

    /// Adds an event of a part.
    #[inline]
    pub(super) fn push(&mut self, part: usize, event: Event) {
        if part == self.part && event.key() < self.limit {
            self.window.push(event);
        } else if self.is_apart {
            self.push_later(part, event);
        } else {
            self.together.push(event);
        }
    }

    #[inline]
    fn push_later(&mut self, part: usize, event: Event) {
        self.later[part].push(Reverse(event));
        self.firsts[part] = self.firsts[part].min(event.at);
    }

    /// How many events are pending.
    pub(super) fn len(&self) -> usize {
        match self.is_apart {
            true => self.later.iter().map(BinaryHeap::len).sum(),
            false => self.together.len(),
        }
    }

    /// The time of the earliest event.
    pub(super) fn earliest(&self) -> Option<Picos> {
        match self.is_apart {
            true => {
                let first = self.firsts.iter().min().copied();
                first.filter(|at| *at != Picos::NEVER)
            }
            false => self.together.earliest(),
        }
    }

    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.later.len()
    }

    /// Whether a part has an event whose key may be below `limit`; where each part has its own order.
    #[inline]
    pub(super) fn has_before(&self, part: usize, limit: u128) -> bool {
        first_key_at(self.firsts[part]) < limit
    }

    /// Makes a part the one that is handled: its events from `begin` on whose keys are below `limit`, no longer than [`Pending::window_max`]. Where
    /// each part has its own order.
    pub(super) fn open_window(&mut self, part: usize, begin: Picos, limit: u128) {
        (self.part, self.limit) = (part, limit);
        self.window.begin_at(begin);
        while let Some(first) = self.later[part].peek_mut()
            && first.0.key() < limit
        {
            self.window.push(PeekMut::pop(first).0);
        }
    }

    /// Takes the next event of the window.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Event> {
        self.window.take()
    }

    /// The part is handled no more: what has not been taken stays pending.
    pub(super) fn shut_window(&mut self) {
        let later = &mut self.later[self.part];
        while let Some(left) = self.window.take() {
            later.push(Reverse(left));
        }
        let first = later.peek();
        self.firsts[self.part] = first.map_or(Picos::NEVER, |Reverse(event)| event.at);
        self.part = NONE;
    }

    /// The earliest event if it is not later than `until`, where all have one order; see [`EventQueue::peek`].
    #[inline]
    pub(super) fn peek(&mut self, until: Picos) -> Option<Event> {
        self.together.peek(until)
    }

    /// Removes the event that [`Pending::peek`] has shown.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.together.pop();
    }
}
