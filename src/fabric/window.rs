//! The events of a short span of time, in their order.
//!
//! A calendar: the span is cut into slots, so short that few hold more than one event. All of it is a few kilobytes that stay in the first cache,
//! and neither adding an event nor taking the next one compares it with others where it is alone in its slot.

use xoff_dataplane::Picos;

use super::queue::Event;

const SLOTS: usize = 2_048;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(WORDS == u32::BITS as usize);
/// Of the time of the shortest frame on the fastest link: so short is a slot.
const SLOTS_PER_FRAME: u64 = 8;
/// No event: the end of a list.
const NONE: u32 = u32::MAX;
/// So many places for events are added where there is none.
const PLACES: u32 = 64;

/// Pending events of a span, the earliest first. Once one has been taken, none that comes before it is added.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The earliest one. It is looked up while the one before is handled: five loads that wait for each other, and a jump by what it is
    /// that nobody foresees, would hold up everything behind them.
    next: Event,
    begin: Picos,
    /// A slot is 2^this picoseconds.
    slot_bits: u32,
    /// Which slots hold events.
    held: [u64; WORDS],
    /// Which words of `held` are not zero.
    words: u32,
    /// The first event of each slot that holds any.
    first: Box<[u32; SLOTS]>,
    /// The events, and what follows each in its slot; of free places, the next one.
    events: Vec<(Event, u32)>,
    /// First of the free places.
    free: u32,
}

impl Window {
    /// An empty one, for links whose shortest frame takes `frame`.
    pub(super) fn new(frame: Picos) -> Window {
        Window {
            next: Event::NONE,
            begin: Picos::ZERO,
            slot_bits: (frame.0 / SLOTS_PER_FRAME).max(1).ilog2().min(48),
            held: [0; WORDS],
            words: 0,
            first: Box::new([NONE; SLOTS]),
            events: Vec::new(),
            free: NONE,
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
    }

    /// Adds an event of the span before any is taken; [`Window::open`] follows.
    #[inline(always)]
    pub(super) fn fill(&mut self, event: Event) {
        debug_assert!(self.covers(event) && self.next == Event::NONE);
        self.enter(event);
    }

    /// It has been filled.
    pub(super) fn open(&mut self) {
        self.next = self.take_entered();
    }

    fn covers(&self, event: Event) -> bool {
        event.at >= self.begin && event.at.since(self.begin) < self.span()
    }

    /// Adds an event of the span.
    #[inline(never)]
    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(self.covers(event));
        let mut second = event;
        if event < self.next {
            second = std::mem::replace(&mut self.next, event);
            if second == Event::NONE {
                return;
            }
        }
        self.enter(second);
    }

    /// Puts an event into the calendar.
    #[inline(always)]
    fn enter(&mut self, event: Event) {
        let slot = (event.at.0.wrapping_sub(self.begin.0) >> self.slot_bits) as usize % SLOTS;
        if self.free == NONE {
            self.add_places();
        }
        let index = self.free;
        let place = &mut self.events[index as usize];
        self.free = std::mem::replace(place, (event, NONE)).1;
        self.words |= 1 << (slot / 64);
        let (word, bit) = (&mut self.held[slot / 64], 1 << (slot % 64));
        if *word & bit != 0 {
            return self.join(slot, index);
        }
        *word |= bit;
        self.first[slot] = index;
    }

    /// There is no free place.
    #[cold]
    fn add_places(&mut self) {
        let first = self.events.len() as u32;
        let more = (first + 1..first + PLACES).chain([NONE]);
        self.events.extend(more.map(|next| (Event::NONE, next)));
        self.free = first;
    }

    /// Puts an event among those of its slot.
    #[inline(never)]
    fn join(&mut self, slot: usize, index: u32) {
        let event = self.events[index as usize].0;
        let mut before = NONE;
        let mut behind = self.first[slot];
        while let Some((other, next)) = self.events.get(behind as usize)
            && *other <= event
        {
            (before, behind) = (behind, *next);
        }
        self.events[index as usize].1 = behind;
        match self.events.get_mut(before as usize) {
            Some((_, next)) => *next = index,
            None => self.first[slot] = index,
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Event> {
        let second = self.take_entered();
        let first = std::mem::replace(&mut self.next, second);
        (first != Event::NONE).then_some(first)
    }

    /// Takes the earliest event of the calendar; [`Event::NONE`] if there is none.
    #[inline]
    fn take_entered(&mut self) -> Event {
        if self.words == 0 {
            return Event::NONE;
        }
        let word = self.words.trailing_zeros() as usize % WORDS;
        let slot = word * 64 + self.held[word].trailing_zeros() as usize % 64;
        let index = self.first[slot];
        let (event, next) = &mut self.events[index as usize];
        let event = *event;
        match std::mem::replace(next, self.free) {
            NONE => {
                self.held[word] &= self.held[word] - 1;
                // No jump: nobody could tell which way.
                self.words &= !(u32::from(self.held[word] == 0) << word);
            }
            behind => self.first[slot] = behind,
        }
        self.free = index;
        event
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// Events come out as from a heap, alone in their slots or many in one, while others are added at times that are not past.
    #[test]
    fn events_come_in_order_whatever_is_added_meanwhile() {
        let mut state = 1_u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
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
            window.open();
            for step in 0..200 {
                let at = Picos(now + draw(begin + span - now));
                let event = Event::new(at, draw(20) as u32, 0);
                window.push(event);
                heap.push(Reverse(event));
                if step % 3 == 2 {
                    let expected = heap.pop().map(|Reverse(event)| event);
                    assert_eq!(window.take(), expected, "{round} {step}");
                    now = expected.map_or(now, |event| event.at.0);
                }
            }
            while let Some(Reverse(event)) = heap.pop() {
                assert_eq!(window.take(), Some(event), "{round}");
            }
            assert_eq!(window.take(), None);
        }
        assert!(window.events.len() <= 256, "places are used again");
    }
}
