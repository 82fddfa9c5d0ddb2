//! Transmission queues of the NIC classes (transmit queues), and timers of the queue pairs.

use xoff_units::{Picos, prefetch};

use super::inline_queue::{InlineHeap, InlineQueue};
use super::round_robin::RoundRobin;
use super::unpaced::UnpacedPacket;

/// Number of NIC classes.
pub(super) const CLASS_COUNT: usize = 8;

/// Transmission queue of one NIC class. Unpaced packets, such as acknowledgements and CNPs, leave first.
/// Queue pairs with data follow in the order of their departure times. If departure times are equal, the
/// queue pair that was queued first sends first.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct ClassQueue {
    unpaced: InlineQueue<(Picos, UnpacedPacket)>,
    /// Waiting queue pairs, with departure time, order of queueing and index. All three fields have 64 bits
    /// for speed: the heap reads an entry in large pieces directly after the fields were written. With
    /// narrower fields, the processor would stall in this read.
    waiting: InlineHeap<(Picos, u64, u64)>,
    /// Round-robin state, if the class uses round robin.
    round: Option<Box<RoundRobin>>,
}

impl ClassQueue {
    fn push_unpaced(&mut self, now: Picos, unpaced: UnpacedPacket) {
        self.unpaced.push_back((now, unpaced));
    }

    fn pop_unpaced(&mut self) -> Option<UnpacedPacket> {
        self.unpaced.pop_front().map(|(_, unpaced)| unpaced)
    }

    /// Queues a queue pair. The queue pair may send from `due` on. Queue pairs with equal times leave in the
    /// order of `order`.
    fn push(&mut self, due: Picos, order: u64, qp: u32) {
        if let Some(round) = &mut self.round {
            round.set_due(qp, due);
        }
        self.waiting.push((due, order, u64::from(qp)));
    }

    /// Changes the departure time of a waiting queue pair. [`Picos::NEVER`] removes the queue pair. Used only
    /// with round robin.
    fn move_departure(&mut self, due: Picos, order: u64, qp: u32) {
        let Some(round) = &mut self.round else {
            debug_assert!(false, "only queue pairs that take turns are moved");
            return;
        };
        round.remove_ready(qp);
        round.set_due(qp, due);
        if due != Picos::NEVER {
            self.push(due, order, qp);
        }
        self.remove_obsolete();
    }

    /// Removes the obsolete entries at the front of the heap: their departure time has changed since.
    fn remove_obsolete(&mut self) {
        let Some(round) = &self.round else { return };
        while let Some((due, _, qp)) = self.waiting.peek()
            && round.due_time(*qp as u32) != *due
        {
            self.waiting.pop();
        }
    }

    /// Enables round robin: the queue pairs that may send take turns, in the order of their indices.
    fn enable_round_robin(&mut self) {
        self.round.get_or_insert_default();
    }

    /// Takes the next queue pair that may send at `now`. Returns `None` if no queue pair may send.
    fn pop(&mut self, now: Picos) -> Option<u32> {
        if self.round.is_some() {
            return self.pop_round_robin(now);
        }
        self.pop_earliest(now)
    }

    /// Takes the next queue pair in round-robin order.
    fn pop_round_robin(&mut self, now: Picos) -> Option<u32> {
        let round = self.round.get_or_insert_default();
        round.on_poll(now);
        while let Some(qp) = self.pop_earliest(now) {
            self.round.get_or_insert_default().add_ready(qp);
            self.remove_obsolete();
        }
        self.round.as_mut()?.pop_next()
    }

    /// Takes the queue pair with the earliest departure time.
    fn pop_earliest(&mut self, now: Picos) -> Option<u32> {
        let &(due, _, qp) = self.waiting.peek()?;
        if due > now {
            return None;
        }
        self.waiting.pop();
        Some(qp as u32)
    }

    /// Returns the earliest departure time, which can be in the past.
    #[inline]
    fn earliest_departure(&self) -> Picos {
        if let Some((at, _)) = self.unpaced.front() {
            return *at;
        }
        let due = self.waiting.peek().map_or(Picos::NEVER, |(due, ..)| *due);
        match &self.round {
            None => due,
            Some(round) => round.next_poll(due),
        }
    }
}

/// Transmission queues of all classes. The earliest departure times are also stored in one array,
/// because they are read far more often than they change. A read from the eight queues would need
/// sixteen cache lines.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ClassQueues {
    /// Classes with a packet to send, now or later. Bit *n* is class *n*.
    waiting: u8,
    /// Classes that use round robin and have had queue pairs with data. Bit *n* is class *n*.
    round_robin_classes: u8,
    /// The class whose queue changed last, and the one that changed last before it.
    latest_classes: [u8; 2],
    /// Number of queue pairs that were queued so far, in all classes.
    order: u64,
    earliest: [Picos; CLASS_COUNT],
    queues: [ClassQueue; CLASS_COUNT],
}

impl Default for ClassQueues {
    fn default() -> ClassQueues {
        ClassQueues {
            queues: Default::default(),
            earliest: [Picos::NEVER; CLASS_COUNT],
            waiting: 0,
            round_robin_classes: 0,
            latest_classes: [0; 2],
            order: 0,
        }
    }
}

impl ClassQueues {
    /// Returns [`ClassQueue::earliest_departure`] of each class.
    #[inline]
    pub(super) fn earliest_departures(&self) -> &[Picos; CLASS_COUNT] {
        &self.earliest
    }

    /// Returns the classes that have a packet to send, now or later. Bit *n* is class *n*.
    #[inline]
    pub(super) fn waiting_classes(&self) -> u8 {
        self.waiting
    }

    /// Fetches the queues of the two classes that changed last, without waiting for them. Queue pairs normally use one
    /// class for data and one for acknowledgements.
    #[inline]
    pub(super) fn prefetch_latest_classes(&self) {
        for class in self.latest_classes {
            let queue = &self.queues[usize::from(class) % CLASS_COUNT];
            prefetch(queue);
            prefetch(&queue.waiting);
        }
    }

    #[inline]
    pub(super) fn push_unpaced(&mut self, class: u8, now: Picos, unpaced: UnpacedPacket) {
        self.update_class(class, |queue| queue.push_unpaced(now, unpaced));
    }

    #[inline]
    pub(super) fn pop_unpaced(&mut self, class: u8) -> Option<UnpacedPacket> {
        match self.queues[usize::from(class) % CLASS_COUNT].unpaced.is_empty() {
            true => None,
            false => self.update_class(class, ClassQueue::pop_unpaced),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, class: u8, due: Picos, qp: u32) {
        let order = self.next_order();
        self.update_class(class, |queue| queue.push(due, order, qp));
    }

    #[inline]
    pub(super) fn pop(&mut self, class: u8, now: Picos) -> Option<u32> {
        self.update_class(class, |queue| queue.pop(now))
    }

    /// Calls [`ClassQueue::move_departure`] of a class.
    pub(super) fn move_departure(&mut self, class: u8, due: Picos, qp: u32) {
        let order = self.next_order();
        self.update_class(class, |queue| queue.move_departure(due, order, qp));
    }

    #[inline]
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Sets the time at which a queue pair may send its next packet according to its rate. [`Picos::NEVER`]
    /// means that the queue pair has no data. `has_new_rate` is true if congestion control has computed a new
    /// rate. `is_active` is true if the queue pair has an incomplete message. Used only with round robin.
    pub(super) fn set_next_available(
        &mut self,
        class: u8,
        now: Picos,
        qp: u32,
        available: Picos,
        has_new_rate: bool,
        is_active: bool,
    ) {
        self.round_robin_classes |= 1 << (usize::from(class) % CLASS_COUNT);
        self.update_class(class, |queue| {
            if let Some(round) = &mut queue.round {
                round.set_active(qp, is_active);
                round.set_next_available(qp, available);
                if has_new_rate {
                    round.advance_timer(now, available);
                }
            }
        });
    }

    /// Returns whether the classes use round robin.
    pub(super) fn uses_round_robin(&self) -> bool {
        self.queues.iter().any(|queue| queue.round.is_some())
    }

    /// Calls [`RoundRobin::begin_event`] of each class.
    pub(super) fn begin_event(&mut self, now: Picos) {
        self.update_rounds(|round| round.begin_event(now));
    }

    /// Calls [`RoundRobin::end_event`] of each class.
    pub(super) fn end_event(&mut self, now: Picos) {
        self.update_rounds(|round| round.end_event(now));
    }

    /// Calls [`RoundRobin::on_packet_sent`] of each class.
    pub(super) fn on_packet_sent(&mut self, link_free: Picos) {
        self.update_rounds(|round| round.on_packet_sent(link_free));
    }

    fn update_rounds(&mut self, change: impl Fn(&mut RoundRobin)) {
        let mut left = self.round_robin_classes;
        while left != 0 {
            let class = left.trailing_zeros() as u8;
            left &= left - 1;
            self.update_class(class, |queue| {
                if let Some(round) = &mut queue.round {
                    change(round);
                }
            });
        }
    }

    pub(super) fn enable_round_robin(&mut self) {
        self.queues.iter_mut().for_each(ClassQueue::enable_round_robin);
    }

    #[inline]
    fn update_class<R>(&mut self, class: u8, change: impl FnOnce(&mut ClassQueue) -> R) -> R {
        let class = usize::from(class) % CLASS_COUNT;
        if self.latest_classes[0] != class as u8 {
            self.latest_classes = [class as u8, self.latest_classes[0]];
        }
        let result = change(&mut self.queues[class]);
        let earliest = self.queues[class].earliest_departure();
        self.earliest[class] = earliest;
        self.waiting = self.waiting & !(1 << class) | u8::from(earliest != Picos::NEVER) << class;
        result
    }
}

/// The timers of the queue pairs, one timer for each queue pair. If a timer moves to a later time, its entry
/// in the heap does not change. When the old entry is due, the timer is compared with its current deadline.
/// Each acknowledgement moves a timeout to a later time, so acknowledgements need no heap operation.
#[derive(Debug, Default)]
pub(super) struct QpTimers {
    heap: InlineHeap<(Picos, u32)>,
}

impl QpTimers {
    /// Sets the timer of a queue pair, so that it fires at `deadline` or earlier. The queue pair stores the
    /// time of its current entry in `armed`.
    #[inline]
    pub(super) fn arm(&mut self, qp: u32, deadline: Picos, armed: &mut Picos) {
        if deadline < *armed {
            *armed = deadline;
            self.heap.push((deadline, qp));
        }
    }

    /// Returns the time of the first entry. Returns [`Picos::NEVER`] without entries.
    pub(super) fn next(&self) -> Picos {
        self.heap.peek().map_or(Picos::NEVER, |(at, _)| *at)
    }

    /// Removes the next entry that is due and returns its time and its queue pair. If the queue pair stores a
    /// different time, the entry is obsolete, and the caller ignores it.
    pub(super) fn pop(&mut self, now: Picos) -> Option<(Picos, u32)> {
        let &(at, qp) = self.heap.peek()?;
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
    fn queue_pairs_with_equal_times_leave_in_order() {
        let mut queue = ClassQueue::default();
        for (order, qp) in [(0, 7), (1, 3), (2, 5)] {
            queue.push(Picos(10), order, qp);
        }
        queue.push(Picos(4), 3, 9);
        assert_eq!(queue.earliest_departure(), Picos(4));
        assert_eq!(queue.pop(Picos(3)), None);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Picos(10))).collect();
        assert_eq!(order, [9, 7, 3, 5]);
        assert_eq!(queue.earliest_departure(), Picos::NEVER);
    }

    #[test]
    fn round_robin_selects_the_next_index() {
        let mut queue = ClassQueue::default();
        queue.enable_round_robin();
        for (due, qp) in [(1, 4), (2, 2), (3, 9)] {
            queue.push(Picos(due), due, qp);
            queue.round.as_mut().unwrap().set_active(qp, true);
        }
        assert_eq!(queue.pop(Picos(0)), None);
        assert_eq!(queue.pop(Picos(2)), Some(4), "the one behind the first");
        assert_eq!(queue.earliest_departure(), Picos(2), "2 still waits");
        queue.push(Picos(2), 4, 4);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Picos(5))).collect();
        assert_eq!(order, [9, 2, 4]);
        assert_eq!(queue.earliest_departure(), Picos::NEVER);
    }

    #[test]
    fn with_round_robin_a_queue_pair_can_move_to_another_time() {
        let mut queue = ClassQueue::default();
        queue.enable_round_robin();
        for (due, qp) in [(5, 1), (6, 2), (7, 3)] {
            queue.push(Picos(due), due, qp);
        }
        queue.move_departure(Picos(9), 8, 1);
        queue.move_departure(Picos(2), 9, 3);
        assert_eq!((queue.pop(Picos(5)), queue.pop(Picos(5))), (Some(3), None));
        queue.move_departure(Picos::NEVER, 10, 2);
        assert_eq!(queue.pop(Picos(8)), None);
        queue.push(Picos(6), 11, 2);
        assert_eq!((queue.pop(Picos(9)), queue.pop(Picos(9))), (Some(1), Some(2)));
        assert_eq!(queue.earliest_departure(), Picos::NEVER);
    }

    #[test]
    fn a_timer_that_moves_later_keeps_its_entry() {
        let (mut timers, mut armed) = (QpTimers::default(), Picos::NEVER);
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
