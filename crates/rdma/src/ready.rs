//! Whose turn it is, and when: per class for transmission, and for timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::Picos;

use super::finished::Finished;
use super::turns::Round;

/// NIC classes.
pub(super) const CLASSES: usize = 8;

/// What one NIC class has to send: finished packets (acknowledgements, CNPs) first, then the queue pairs with data by the time
/// at which they may send; those of one time in the order in which they came.
#[derive(Debug, Default)]
struct ClassQueue {
    finished: VecDeque<(Picos, Finished)>,
    /// When, the place in line, and which. All of them whole words: the heap reads in large pieces what it has just written.
    waiting: BinaryHeap<Reverse<(Picos, u64, u64)>>,
    order: u64,
    round: Option<Round>,
}

impl ClassQueue {
    fn push_finished(&mut self, now: Picos, finished: Finished) {
        self.finished.push_back((now, finished));
    }

    fn pop_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front().map(|(_, finished)| finished)
    }

    /// Enters a queue pair that may send from `due` on.
    fn push(&mut self, due: Picos, qp: u32) {
        if let Some(round) = &mut self.round {
            round.set_due(qp, due);
        }
        self.waiting.push(Reverse((due, self.order, u64::from(qp))));
        self.order += 1;
    }

    /// Moves a queue pair that is entered to another time, or takes it out at [`Picos::NEVER`]. Only where they take turns.
    fn retime(&mut self, due: Picos, qp: u32) {
        let Some(round) = &mut self.round else {
            debug_assert!(false, "only queue pairs that take turns are moved");
            return;
        };
        round.remove_ready(qp);
        round.set_due(qp, due);
        if due != Picos::NEVER {
            self.push(due, qp);
        }
        self.drop_obsolete();
    }

    /// Removes obsolete entries from the front.
    fn drop_obsolete(&mut self) {
        let Some(round) = &self.round else { return };
        while let Some(Reverse((due, _, qp))) = self.waiting.peek()
            && round.due(*qp as u32) != *due
        {
            self.waiting.pop();
        }
    }

    /// From now on those that may send take turns in the order of their numbers, however long each has waited.
    fn take_turns(&mut self) {
        self.round.get_or_insert_default();
    }

    /// Takes the queue pair whose turn it is.
    fn pop(&mut self, now: Picos) -> Option<u32> {
        if self.round.is_some() {
            return self.pop_in_turn(now);
        }
        self.pop_first(now)
    }

    /// The one behind the last one, cyclically, among those that may send.
    fn pop_in_turn(&mut self, now: Picos) -> Option<u32> {
        let round = self.round.get_or_insert_default();
        round.fire(now);
        while let Some(qp) = self.pop_first(now) {
            self.round.get_or_insert_default().add_ready(qp);
            self.drop_obsolete();
        }
        self.round.as_mut()?.take_next()
    }

    /// The one that has waited longest.
    fn pop_first(&mut self, now: Picos) -> Option<u32> {
        let &Reverse((due, _, qp)) = self.waiting.peek()?;
        if due > now {
            return None;
        }
        self.waiting.pop();
        Some(qp as u32)
    }

    /// When it first has something to send; perhaps in the past.
    #[inline]
    fn earliest(&self) -> Picos {
        if let Some((at, _)) = self.finished.front() {
            return *at;
        }
        let due = self
            .waiting
            .peek()
            .map_or(Picos::NEVER, |Reverse((due, ..))| *due);
        match &self.round {
            None => due,
            Some(round) => round.next_look(due),
        }
    }
}

/// All classes, and when each first has something to send: that is asked for far more often than it changes, and all eight
/// queues are sixteen cache lines.
#[derive(Debug)]
pub(super) struct Classes {
    queues: [ClassQueue; CLASSES],
    earliest: [Picos; CLASSES],
    /// Bit *n*: class *n* has something to send, now or later.
    waiting: u8,
    /// Bit *n*: queue pairs of class *n* take turns and have had data.
    in_turns: u8,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes {
            queues: Default::default(),
            earliest: [Picos::NEVER; CLASSES],
            waiting: 0,
            in_turns: 0,
        }
    }
}

impl Classes {
    /// As [`ClassQueue::earliest`], of each class.
    #[inline]
    pub(super) fn earliest(&self) -> &[Picos; CLASSES] {
        &self.earliest
    }

    /// Which of them are not [`Picos::NEVER`].
    #[inline]
    pub(super) fn waiting(&self) -> u8 {
        self.waiting
    }

    #[inline]
    pub(super) fn push_finished(&mut self, class: u8, now: Picos, finished: Finished) {
        self.change(class, |queue| queue.push_finished(now, finished));
    }

    #[inline]
    pub(super) fn pop_finished(&mut self, class: u8) -> Option<Finished> {
        match self.queues[usize::from(class) % CLASSES].finished.is_empty() {
            true => None,
            false => self.change(class, ClassQueue::pop_finished),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, class: u8, due: Picos, qp: u32) {
        self.change(class, |queue| queue.push(due, qp));
    }

    #[inline]
    pub(super) fn pop(&mut self, class: u8, now: Picos) -> Option<u32> {
        self.change(class, |queue| queue.pop(now))
    }

    /// See [`ClassQueue::retime`].
    pub(super) fn retime(&mut self, class: u8, due: Picos, qp: u32) {
        self.change(class, |queue| queue.retime(due, qp));
    }

    /// A queue pair that takes turns has data left, and its rate allows the next packet at `available`; [`Picos::NEVER`] if it has none.
    /// `has_new_rate`: congestion control has computed its rate. `is_active`: it has a message that is not complete.
    pub(super) fn set_next_available(
        &mut self,
        class: u8,
        now: Picos,
        qp: u32,
        available: Picos,
        has_new_rate: bool,
        is_active: bool,
    ) {
        self.in_turns |= 1 << (usize::from(class) % CLASSES);
        self.change(class, |queue| {
            if let Some(round) = &mut queue.round {
                round.set_active(qp, is_active);
                round.set_next_available(qp, available);
                if has_new_rate {
                    round.advance_timer(now, available);
                }
            }
        });
    }

    /// Whether queue pairs take turns.
    pub(super) fn takes_turns(&self) -> bool {
        self.queues.iter().any(|queue| queue.round.is_some())
    }

    /// See [`Round::begin_event`].
    pub(super) fn begin_event(&mut self, now: Picos) {
        self.change_rounds(|round| round.begin_event(now));
    }

    /// See [`Round::end_event`].
    pub(super) fn end_event(&mut self, now: Picos) {
        self.change_rounds(|round| round.end_event(now));
    }

    /// See [`Round::sent`].
    pub(super) fn sent(&mut self, free: Picos) {
        self.change_rounds(|round| round.sent(free));
    }

    fn change_rounds(&mut self, change: impl Fn(&mut Round)) {
        let mut left = self.in_turns;
        while left != 0 {
            let class = left.trailing_zeros() as u8;
            left &= left - 1;
            self.change(class, |queue| {
                if let Some(round) = &mut queue.round {
                    change(round);
                }
            });
        }
    }

    pub(super) fn take_turns(&mut self) {
        self.queues.iter_mut().for_each(ClassQueue::take_turns);
    }

    #[inline]
    fn change<R>(&mut self, class: u8, change: impl FnOnce(&mut ClassQueue) -> R) -> R {
        let class = usize::from(class) % CLASSES;
        let result = change(&mut self.queues[class]);
        let earliest = self.queues[class].earliest();
        self.earliest[class] = earliest;
        self.waiting = self.waiting & !(1 << class) | u8::from(earliest != Picos::NEVER) << class;
        result
    }
}

/// Timers of queue pairs, one each. A timer that moves later stays where it is and is asked again when it comes: so the
/// acknowledgement of a packet, which moves the timeout of its queue pair, costs nothing here.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Picos, u32)>>,
}

impl Timers {
    /// Sees to it that the queue pair is asked at `deadline` or before; `armed` is its own memory of when it is asked.
    #[inline]
    pub(super) fn arm(&mut self, qp: u32, deadline: Picos, armed: &mut Picos) {
        if deadline < *armed {
            *armed = deadline;
            self.heap.push(Reverse((deadline, qp)));
        }
    }

    /// When the next one is to be asked.
    pub(super) fn next(&self) -> Picos {
        self.heap.peek().map_or(Picos::NEVER, |Reverse((at, _))| *at)
    }

    /// The next entry that is due: its time and queue pair. An entry whose time is not the one that its queue pair remembers is
    /// void.
    pub(super) fn pop(&mut self, now: Picos) -> Option<(Picos, u32)> {
        let &Reverse((at, qp)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, qp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_due_at_one_time_take_turns() {
        let mut queue = ClassQueue::default();
        for qp in [7, 3, 5] {
            queue.push(Picos(10), qp);
        }
        queue.push(Picos(4), 9);
        assert_eq!(queue.earliest(), Picos(4));
        assert_eq!(queue.pop(Picos(3)), None);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Picos(10))).collect();
        assert_eq!(order, [9, 7, 3, 5]);
        assert_eq!(queue.earliest(), Picos::NEVER);
    }

    #[test]
    fn in_turns_the_one_behind_the_last_comes_next() {
        let mut queue = ClassQueue::default();
        queue.take_turns();
        for (due, qp) in [(1, 4), (2, 2), (3, 9)] {
            queue.push(Picos(due), qp);
            queue.round.as_mut().unwrap().set_active(qp, true);
        }
        assert_eq!(queue.pop(Picos(0)), None);
        assert_eq!(queue.pop(Picos(2)), Some(4), "the one behind the first");
        assert_eq!(queue.earliest(), Picos(2), "2 still waits");
        queue.push(Picos(2), 4);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Picos(5))).collect();
        assert_eq!(order, [9, 2, 4]);
        assert_eq!(queue.earliest(), Picos::NEVER);
    }

    #[test]
    fn in_turns_a_queue_pair_moves_to_another_time() {
        let mut queue = ClassQueue::default();
        queue.take_turns();
        for (due, qp) in [(5, 1), (6, 2), (7, 3)] {
            queue.push(Picos(due), qp);
        }
        queue.retime(Picos(9), 1);
        queue.retime(Picos(2), 3);
        assert_eq!((queue.pop(Picos(5)), queue.pop(Picos(5))), (Some(3), None));
        queue.retime(Picos::NEVER, 2);
        assert_eq!(queue.pop(Picos(8)), None);
        queue.push(Picos(6), 2);
        assert_eq!((queue.pop(Picos(9)), queue.pop(Picos(9))), (Some(1), Some(2)));
        assert_eq!(queue.earliest(), Picos::NEVER);
    }

    #[test]
    fn a_timer_that_moves_later_is_not_entered_again() {
        let (mut timers, mut armed) = (Timers::default(), Picos::NEVER);
        timers.arm(1, Picos(10), &mut armed);
        timers.arm(1, Picos(20), &mut armed);
        assert_eq!((timers.next(), armed), (Picos(10), Picos(10)));
        timers.arm(1, Picos(5), &mut armed);
        assert_eq!(timers.pop(Picos(10)), Some((Picos(5), 1)));
        assert_eq!(
            timers.pop(Picos(10)),
            Some((Picos(10), 1)),
            "void: the queue pair remembers 5"
        );
        assert_eq!(timers.pop(Picos(100)), None);
    }
}
