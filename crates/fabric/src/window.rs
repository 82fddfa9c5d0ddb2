//! The events of a short span of time, in their order.
//!
//! A calendar: the span is cut into slots, so short that few hold more than one event. All of it is a few kilobytes that stay in the first cache,
//! and neither adding an event nor taking the next one compares it with others where it is alone in its slot.

use xoff_dataplane::route::RouteHint;
use xoff_units::Picos;

use super::queue::Event;

const SLOTS: usize = 2_048;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(WORDS == u32::BITS as usize);
/// Of the time of the shortest frame on the fastest link: so short is a slot.
const SLOTS_PER_FRAME: u64 = 8;
/// No event: the end of a list.
const NONE: u32 = u32::MAX;
/// So many places are taken in turn before those that have become free are used again.
const PLACES_MAX: usize = 1 << 14;

/// An event, and what follows it in its slot.
#[derive(Clone, Copy, Debug)]
struct Place {
    event: Event,
    next: u32,
    ahead: RouteHint,
}

/// Pending events of a span, the earliest first. Once one has been taken, none that comes before it is added.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The earliest one. It is looked up while the one before is handled: five loads that wait for each other, and a jump by what it is
    /// that nobody foresees, would hold up everything behind them.
    next: Event,
    /// What has been looked up for it when the window was opened.
    ahead: RouteHint,
    begin: Picos,
    /// A slot is 2^this picoseconds.
    slot_bits: u32,
    /// Which slots hold events.
    held: [u64; WORDS],
    /// Which words of `held` are not zero.
    words: u32,
    /// The first event of each slot that holds any.
    first: Box<[u32; SLOTS]>,
    /// The events in the order in which they came. A place is left empty by an event that is taken.
    places: Vec<Place>,
    /// So many places there may be before those that are left stand together again.
    places_max: usize,
}

impl Window {
    /// An empty one, for links whose shortest frame takes `frame`.
    pub(super) fn new(frame: Picos) -> Window {
        Window {
            next: Event::NONE,
            ahead: RouteHint::NONE,
            begin: Picos::ZERO,
            slot_bits: (frame.0 / SLOTS_PER_FRAME).max(1).ilog2().min(48),
            held: [0; WORDS],
            words: 0,
            first: Box::new([NONE; SLOTS]),
            places: Vec::new(),
            places_max: PLACES_MAX,
        }
    }

    /// How long a span it holds.
    pub(super) fn span(&self) -> Picos {
        Picos((SLOTS as u64) << self.slot_bits)
    }

    /// Begins anew at a time. It must be empty.
    pub(super) fn begin_at(&mut self, at: Picos) {
        debug_assert!(self.words == 0 && self.next == Event::NONE);
        self.begin = at;
        self.places.clear();
    }

    /// Adds an event of the span before any is taken; [`Window::open`] follows.
    #[inline(always)]
    pub(super) fn fill(&mut self, event: Event) {
        debug_assert!(self.covers(event) && self.next == Event::NONE);
        self.enter(event, RouteHint::NONE);
    }

    /// It has been filled. `ahead`: what is to be known of an event before its turn comes.
    #[inline(always)]
    pub(super) fn open(&mut self, mut ahead: impl FnMut(Event) -> RouteHint) {
        for place in &mut self.places {
            place.ahead = ahead(place.event);
        }
        (self.next, self.ahead) = self.take_entered();
    }

    fn covers(&self, event: Event) -> bool {
        event.at >= self.begin && event.at.since(self.begin) < self.span()
    }

    /// Adds an event of the span.
    #[inline(never)]
    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(self.covers(event));
        let (mut second, mut ahead) = (event, RouteHint::NONE);
        if event < self.next {
            second = std::mem::replace(&mut self.next, event);
            ahead = std::mem::replace(&mut self.ahead, RouteHint::NONE);
            if second == Event::NONE {
                return;
            }
        }
        self.enter(second, ahead);
    }

    /// Puts an event into the calendar.
    #[inline(always)]
    fn enter(&mut self, event: Event, ahead: RouteHint) {
        let slot = (event.at.0.wrapping_sub(self.begin.0) >> self.slot_bits) as usize % SLOTS;
        if self.places.len() >= self.places_max {
            self.move_together();
        }
        let index = self.places.len() as u32;
        self.places.push(Place {
            event,
            next: NONE,
            ahead,
        });
        self.words |= 1 << (slot / 64);
        let (word, bit) = (&mut self.held[slot / 64], 1 << (slot % 64));
        if *word & bit != 0 {
            return self.join(slot, index);
        }
        *word |= bit;
        self.first[slot] = index;
    }

    /// Gives the places of events that have been taken to others: those that are left stand together again, if they leave many places.
    #[cold]
    fn move_together(&mut self) {
        let mut left = Vec::new();
        while let (event, ahead) = self.take_entered()
            && event != Event::NONE
        {
            left.push((event, ahead));
        }
        self.places.clear();
        // Nothing is gained where all are left; then it grows.
        self.places_max = PLACES_MAX.max(2 * left.len());
        left.into_iter()
            .for_each(|(event, ahead)| self.enter(event, ahead));
    }

    /// Puts an event among those of its slot.
    #[inline(never)]
    fn join(&mut self, slot: usize, index: u32) {
        let event = self.places[index as usize].event;
        let mut before = NONE;
        let mut behind = self.first[slot];
        while let Some(other) = self.places.get(behind as usize)
            && other.event <= event
        {
            (before, behind) = (behind, other.next);
        }
        self.places[index as usize].next = behind;
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = index,
            None => self.first[slot] = index,
        }
    }

    /// Takes the earliest event, with what is known of it ahead.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Event, RouteHint)> {
        let second = self.take_entered();
        let first = (self.next, self.ahead);
        (self.next, self.ahead) = second;
        (first.0 != Event::NONE).then_some(first)
    }

    /// Takes the earliest event of the calendar; [`Event::NONE`] if there is none.
    #[inline]
    fn take_entered(&mut self) -> (Event, RouteHint) {
        if self.words == 0 {
            return (Event::NONE, RouteHint::NONE);
        }
        let word = self.words.trailing_zeros() as usize % WORDS;
        let slot = word * 64 + self.held[word].trailing_zeros() as usize % 64;
        let place = &self.places[self.first[slot] as usize];
        match place.next {
            NONE => {
                self.held[word] &= self.held[word] - 1;
                // No jump: nobody could tell which way.
                self.words &= !(u32::from(self.held[word] == 0) << word);
            }
            behind => self.first[slot] = behind,
        }
        (place.event, place.ahead)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use xoff_testing::random_generator;

    /// Events come out as from a heap, alone in their slots or many in one, while others are added at times that are not past.
    #[test]
    fn events_come_in_order_whatever_is_added_meanwhile() {
        let mut draw = random_generator(1);
        let mut window = Window::new(Picos(6_720));
        assert_eq!(window.span(), Picos(2_048 << 9));
        for round in 0..300 {
            let begin = draw(1 << 40);
            let span = window.span().0 >> draw(12);
            window.begin_at(Picos(begin));
            let (mut heap, mut now) = (BinaryHeap::new(), begin);
            for _ in 0..draw(40) {
                let event = Event::new(Picos(begin + draw(span)), draw(20) as u32, 0);
                window.fill(event);
                heap.push(Reverse(event));
            }
            window.open(|_| RouteHint::NONE);
            for step in 0..200 {
                let at = Picos(now + draw(begin + span - now));
                let event = Event::new(at, draw(20) as u32, 0);
                window.push(event);
                heap.push(Reverse(event));
                if step % 3 == 2 {
                    let expected = heap.pop().map(|Reverse(event)| event);
                    let taken = window.take().map(|(event, _)| event);
                    assert_eq!(taken, expected, "{round} {step}");
                    now = expected.map_or(now, |event| event.at.0);
                }
            }
            while let Some(Reverse(event)) = heap.pop() {
                let taken = window.take().map(|(event, _)| event);
                assert_eq!(taken, Some(event), "{round}");
            }
            assert_eq!(window.take(), None);
        }
    }

    /// Far more events than places are kept: those that have been taken give theirs to others.
    #[test]
    fn places_are_used_again() {
        let mut window = Window::new(Picos(6_720));
        window.begin_at(Picos::ZERO);
        for n in 0..40 {
            window.fill(Event::new(Picos(n % 3), n as u32, 0));
        }
        window.open(|_| RouteHint::NONE);
        let mut before = Event::new(Picos::ZERO, 0, 0);
        for n in 40..6 * PLACES_MAX as u64 {
            let (event, _) = window.take().expect("forty are always there");
            assert!(before <= event, "{n}: {before:?} {event:?}");
            before = event;
            window.push(Event::new(event.at.max(Picos(n / 4)), n as u32, 0));
            assert!(window.places.len() <= PLACES_MAX);
        }
        let left = std::iter::from_fn(|| window.take()).count();
        assert_eq!(left, 40);
    }
}
