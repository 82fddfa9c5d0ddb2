//! What is pending in a fabric: in one order, or each part's events in theirs.
//!
//! A frame takes at least a link's delay from one node to the next. So what happens at a node within that time of the earliest
//! pending event (the *lookahead*, as conservative parallel simulation calls it) hangs on nothing that happens at others
//! meanwhile, and each node may go through its events of that window alone: with its own state, tables and code in the caches, and a
//! handful of pending events instead of all of them. What becomes of anything is the same. Only somebody who watches the whole
//! fabric sees a difference: the order in which he hears of different nodes.
//!
//! Where a host may complete something within a window, all hosts are one part for its length: whoever drives the fabric gives any of
//! them work without delay when one has completed something.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use xoff_dataplane::route::RouteHint;
use xoff_units::Picos;

use super::queue::{Event, EventQueue, first_key_at};
use super::window::Window;

/// Pending events of a part that is not handled now, but for those that are [far](Pending::far). Half a cache line: each frame that
/// leaves for another part touches one of these.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Later {
    /// When the first of all of them is, far ones too; [`Picos::NEVER`]: there is none.
    first: Picos,
    /// Those of the next windows, in no order: nearly all, frames on their way above all. A window looks at each once or twice,
    /// where a heap would compare it with others as often as it has levels.
    near: Vec<Event>,
}

const _: () = assert!(size_of::<Later>() == 32);

impl Later {
    const EMPTY: Later = Later {
        first: Picos::NEVER,
        near: Vec::new(),
    };
}

/// Events of a part that are not near.
type Far = BinaryHeap<Reverse<Event>>;

/// Within so many windows an event is near.
const NEAR_WINDOWS: u64 = 4;

/// Pending events.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// Of all parts, where they are handled in one order.
    together: EventQueue,
    /// Of the part that is handled now, where each goes on by itself: those in the window.
    window: Window,
    /// Of each part: those behind the window.
    later: Vec<Later>,
    /// Of each part: those behind the next windows.
    far: Vec<Far>,
    /// Events before that are near.
    near_until: Picos,
    is_apart: bool,
    /// The parts that are handled now: usually one.
    open: Range<usize>,
    /// The key at which the window ends.
    limit: u128,
}

impl Pending {
    /// Of a fabric with so many parts, whose shortest frame takes `frame` on the fastest link.
    pub(super) fn new(parts: usize, frame: Picos) -> Pending {
        Pending {
            together: EventQueue::default(),
            window: Window::new(frame),
            later: vec![Later::EMPTY; parts],
            far: vec![Far::new(); parts],
            near_until: Picos::ZERO,
            is_apart: false,
            open: 0..0,
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
            for (later, far) in self.later.iter_mut().zip(&mut self.far) {
                let far = far.drain().map(|Reverse(event)| event);
                let events = later.near.drain(..).chain(far);
                events.for_each(|event| self.together.push(event));
                later.first = Picos::NEVER;
            }
        }
    }

    /// Adds an event of a part. At each place that does so it is nearly always one of the window, or nearly always not.
    #[inline(always)]
    pub(super) fn push(&mut self, part: usize, event: Event) {
        if event.key() < self.limit && self.open.contains(&part) {
            self.window.push(event);
        } else if self.is_apart {
            self.push_later(part, event);
        } else {
            self.together.push(event);
        }
    }

    #[inline(always)]
    fn push_later(&mut self, part: usize, event: Event) {
        let later = &mut self.later[part];
        later.first = later.first.min(event.at);
        match event.at < self.near_until {
            true => later.near.push(event),
            false => self.far[part].push(Reverse(event)),
        }
    }

    /// Takes away all events of which `of` says so, in no order.
    pub(super) fn remove(&mut self, of: impl Fn(Event) -> bool) -> Vec<Event> {
        let mut removed = Vec::new();
        let mut stays = |event: &Event| {
            let goes = of(*event);
            if goes {
                removed.push(*event);
            }
            !goes
        };
        if !self.is_apart {
            let events = self.together.drain().into_iter();
            events.filter(stays).for_each(|event| self.together.push(event));
            return removed;
        }
        for (later, far) in self.later.iter_mut().zip(&mut self.far) {
            later.near.retain(&mut stays);
            far.retain(|Reverse(event)| stays(event));
            let near = later.near.iter().map(|event| event.at).min();
            let far = far.peek().map(|Reverse(event)| event.at);
            later.first = near.into_iter().chain(far).min().unwrap_or(Picos::NEVER);
        }
        removed
    }

    /// All events, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let near = self.later.iter().flat_map(|later| later.near.iter().copied());
        let far = self.far.iter().flatten().map(|Reverse(event)| *event);
        self.together.iter().chain(near).chain(far)
    }

    /// How many events are pending.
    pub(super) fn len(&self) -> usize {
        match self.is_apart {
            true => {
                let near = self.later.iter().map(|later| later.near.len());
                near.chain(self.far.iter().map(Far::len)).sum()
            }
            false => self.together.len(),
        }
    }

    /// The time of the earliest event.
    pub(super) fn earliest(&self) -> Option<Picos> {
        match self.is_apart {
            true => {
                let first = self.later.iter().map(|later| later.first).min();
                first.filter(|at| *at != Picos::NEVER)
            }
            false => self.together.earliest(),
        }
    }

    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.later.len()
    }

    /// Whether all events of a part whose keys are below `limit` are such as `is` says, where each part has its own order.
    pub(super) fn all_before(&self, part: usize, limit: u128, mut is: impl FnMut(Event) -> bool) -> bool {
        let (near, far) = (&self.later[part].near, &self.far[part]);
        let mut fits = |event: Event| event.key() >= limit || is(event);
        let first_is_far = far.peek().is_some_and(|Reverse(event)| event.key() < limit);
        near.iter().all(|event| fits(*event))
            && (!first_is_far || far.iter().all(|Reverse(event)| fits(*event)))
    }

    /// Whether a part has an event whose key may be below `limit`; where each part has its own order.
    #[inline]
    pub(super) fn has_before(&self, part: usize, limit: u128) -> bool {
        first_key_at(self.later[part].first) < limit
    }

    /// Windows begin at `begin` from now on.
    pub(super) fn begin_windows(&mut self, begin: Picos) {
        let ahead = Picos(NEAR_WINDOWS * self.window_max().0);
        self.near_until = begin.saturating_add(ahead);
    }

    /// Makes some parts those that are handled: their events from `begin` on whose keys are below `limit`, no longer than
    /// [`Pending::window_max`]. Where each part has its own order. Hands each event to `see`, and then, when all have been seen, to
    /// `ahead`, which says what is to be known before its turn comes.
    pub(super) fn open_window(
        &mut self,
        parts: Range<usize>,
        begin: Picos,
        limit: u128,
        mut see: impl FnMut(Event),
        ahead: impl FnMut(Event) -> RouteHint,
    ) {
        (self.open, self.limit) = (parts.clone(), limit);
        self.window.begin_at(begin);
        for part in parts {
            if self.has_before(part, limit) {
                self.enter_window(part, &mut see);
            }
        }
        self.window.open(ahead);
    }

    /// Moves the events of a part that lie in the window there.
    fn enter_window(&mut self, part: usize, see: &mut impl FnMut(Event)) {
        let (near, far) = (&mut self.later[part].near, &mut self.far[part]);
        let (mut behind, mut first_behind) = (0, Picos::NEVER);
        for index in 0..near.len() {
            let event = near[index];
            if event.key() < self.limit {
                see(event);
                self.window.fill(event);
            } else {
                near[behind] = event;
                behind += 1;
                first_behind = first_behind.min(event.at);
            }
        }
        near.truncate(behind);
        while let Some(first) = far.peek_mut() {
            if first.0.key() >= self.limit {
                first_behind = first_behind.min(first.0.at);
                break;
            }
            let Reverse(event) = PeekMut::pop(first);
            see(event);
            self.window.fill(event);
        }
        self.later[part].first = first_behind;
    }

    /// Takes the next event of the window, with what is known of it ahead.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Event, RouteHint)> {
        self.window.take()
    }

    /// The parts are handled no more: what has not been taken stays pending. `part`: whose an event is.
    pub(super) fn shut_window(&mut self, part: impl Fn(Event) -> usize) {
        (self.open, self.limit) = (0..0, 0);
        while let Some((left, _)) = self.window.take() {
            self.push_later(part(left), left);
        }
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
