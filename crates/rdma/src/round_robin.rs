//! Round-robin selection of queue pairs, as in the NIC of the ns-3 models
//! (`QbbNetDevice::DequeueAndTransmit`, `RdmaEgressQueue::GetNextQindex`).
//!
//! The ns-3 NIC polls its queue pairs at certain events: a frame arrives, a message is posted, the link
//! becomes free, or the timer of the NIC fires. If the poll finds no packet, the NIC starts its timer. For
//! each queue pair with data, the rate permits the next packet at a certain time. The timer fires at the
//! earliest of these times, even if the window of this queue pair is full. The NIC starts no timer if this
//! time has passed or if the timer is running. A queue pair that may send can therefore wait until the
//! next event.

use std::collections::BTreeSet;

use xoff_units::Picos;

/// Round-robin state of one NIC class.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// Indices of the queue pairs that may send.
    ready: BTreeSet<u32>,
    /// Indices of all queue pairs that the NIC polls, sorted. A queue pair without messages stays in the list
    /// until the NIC removes it at a poll.
    group: Vec<u32>,
    /// Queue pairs of `group` without messages.
    finished: BTreeSet<u32>,
    /// Position in `group` of the last selected queue pair. As in ns-3, the number stays the same when a
    /// queue pair is removed from `group`. After a removal, the position can therefore belong to a queue pair
    /// that was not the last selected one.
    last: usize,
    /// Departure time of each queue pair. [`Picos::NEVER`] if the queue pair is not queued. An entry in the
    /// heap of waiting queue pairs is obsolete if its time differs from this time. The first entry of the
    /// heap is never obsolete.
    due: Vec<Picos>,
    /// Queue pairs with data. They are sorted by the time at which the rate of the queue pair permits the
    /// next packet.
    with_data: BTreeSet<(Picos, u32)>,
    /// The time in `with_data` of each queue pair. [`Picos::NEVER`] without data.
    next_available: Vec<Picos>,
    /// Time at which the timer fires. If the time is in the past, no timer is running.
    timer: Picos,
    /// Time of the next poll or of the last poll.
    poll_at: Picos,
    /// True if the poll at `poll_at` occurs because the link becomes free.
    awaits_link: bool,
}

impl RoundRobin {
    /// Returns the departure time of a queue pair.
    pub(super) fn due_time(&self, qp: u32) -> Picos {
        self.due.get(qp as usize).copied().unwrap_or(Picos::NEVER)
    }

    pub(super) fn set_due(&mut self, qp: u32, due: Picos) {
        *time_entry(&mut self.due, qp) = due;
    }

    pub(super) fn add_ready(&mut self, qp: u32) {
        self.ready.insert(qp);
    }

    pub(super) fn remove_ready(&mut self, qp: u32) {
        self.ready.remove(&qp);
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Records whether a queue pair has incomplete messages.
    pub(super) fn set_active(&mut self, qp: u32, is_active: bool) {
        match (self.group.binary_search(&qp), is_active) {
            (Err(place), true) => self.group.insert(place, qp),
            (Ok(_), true) => drop(self.finished.remove(&qp)),
            (Ok(_), false) => drop(self.finished.insert(qp)),
            (Err(_), false) => {}
        }
    }

    /// Takes the next queue pair that may send. The search starts after the last selected queue pair and
    /// continues at the start of the list.
    pub(super) fn pop_next(&mut self) -> Option<u32> {
        let last = match self.group.len() {
            0 => 0,
            len => self.group[self.last % len],
        };
        let behind = self.ready.range(last.saturating_add(1)..).next();
        let next = *behind.or_else(|| self.ready.first())?;
        self.ready.remove(&next);
        self.set_due(next, Picos::NEVER);
        self.remove_finished(|qp| match next > last {
            true => qp > last && qp < next,
            false => qp > last || qp < next,
        });
        self.last = self.group.binary_search(&next).unwrap_or(0);
        Some(next)
    }

    /// Removes queue pairs without messages. `is_passed` tells which queue pairs the poll passes.
    fn remove_finished(&mut self, is_passed: impl Fn(u32) -> bool) {
        if self.finished.is_empty() {
            return;
        }
        let finished = &mut self.finished;
        self.group.retain(|qp| !(is_passed(*qp) && finished.remove(qp)));
    }

    /// Sets the time at which the rate of a queue pair permits its next packet. [`Picos::NEVER`] means that
    /// it has no data.
    pub(super) fn set_next_available(&mut self, qp: u32, available: Picos) {
        let before = std::mem::replace(time_entry(&mut self.next_available, qp), available);
        if before == available {
            return;
        }
        self.with_data.remove(&(before, qp));
        if available != Picos::NEVER {
            self.with_data.insert((available, qp));
        }
    }

    /// If the timer is running and `available` is earlier, moves the timer to `available`. Called when
    /// congestion control has computed a rate (`QbbNetDevice::UpdateNextAvail`).
    pub(super) fn advance_timer(&mut self, now: Picos, available: Picos) {
        if self.timer > now && available < self.timer {
            self.timer = available.max(now);
        }
    }

    /// Returns the time at which the NIC finds a packet or polls again. If a packet may be sent now, this is
    /// the time of the last poll. `due` is the earliest departure time.
    pub(super) fn next_poll(&self, due: Picos) -> Picos {
        match self.has_ready() || due <= self.poll_at {
            true => self.poll_at,
            false => self.timer_after_poll().unwrap_or(Picos::NEVER),
        }
    }

    /// Returns the time at which the timer fires if the last poll finds no packet. Returns `None` if no timer
    /// runs then.
    fn timer_after_poll(&self) -> Option<Picos> {
        if self.timer > self.poll_at {
            return Some(self.timer);
        }
        let (first, _) = self.with_data.first()?;
        (*first > self.poll_at).then_some(*first)
    }

    /// Processes a poll at `now`. If `now` is after the last poll, the timer has caused this poll, and the
    /// timer stops.
    pub(super) fn on_poll(&mut self, now: Picos) {
        if now > self.poll_at {
            self.remove_finished(|_| true);
            self.timer = Picos::ZERO;
            self.poll_at = now;
            self.awaits_link = false;
        }
    }

    /// Starts an event at `now`. If an earlier poll found no packet, its effects come first: the timer
    /// starts, and queue pairs without messages are removed.
    pub(super) fn begin_event(&mut self, now: Picos) {
        // A frame can arrive at the time at which the link becomes free. This frame was in flight before the
        // departing packet, so it is processed first.
        if self.poll_at < now || self.poll_at == now && !self.awaits_link {
            self.remove_finished(|_| true);
            self.timer = self.timer_after_poll().unwrap_or(Picos::ZERO);
        }
    }

    /// Ends an event at `now`. The NIC polls at `now`, or when its link becomes free.
    pub(super) fn end_event(&mut self, now: Picos) {
        if now > self.poll_at {
            self.poll_at = now;
            self.awaits_link = false;
        }
    }

    /// Records that a packet leaves. The NIC polls again at `link_free`, when the link is free.
    pub(super) fn on_packet_sent(&mut self, link_free: Picos) {
        self.poll_at = link_free;
        self.awaits_link = true;
    }
}

/// Returns the time of a queue pair. Extends the vector if necessary.
fn time_entry(times: &mut Vec<Picos>, qp: u32) -> &mut Picos {
    let at = qp as usize;
    if times.len() <= at {
        times.resize(at + 1, Picos::NEVER);
    }
    &mut times[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window of queue pair 1 is full, and queue pair 2 may send at time 20. The poll at time 10 starts a
    /// timer for time 20. If the rate of queue pair 1 permits a packet earlier, the timer uses
    /// this earlier time.
    #[test]
    fn the_timer_starts_unless_the_time_of_a_blocked_queue_pair_has_passed() {
        let mut round = RoundRobin::default();
        round.set_next_available(2, Picos(20));
        round.end_event(Picos(10));
        assert_eq!(round.next_poll(Picos(20)), Picos(20));
        round.set_next_available(1, Picos(15));
        assert_eq!(
            round.next_poll(Picos(20)),
            Picos(15),
            "the time of a held one counts"
        );
        round.set_next_available(1, Picos(5));
        assert_eq!(round.next_poll(Picos(20)), Picos::NEVER, "it has passed");
        round.begin_event(Picos(30));
        round.end_event(Picos(30));
        assert_eq!(
            round.next_poll(Picos(20)),
            Picos(30),
            "what happens makes the NIC look"
        );
    }

    #[test]
    fn a_rate_change_advances_a_running_timer() {
        let mut round = RoundRobin::default();
        round.set_next_available(1, Picos(50));
        round.end_event(Picos(10));
        round.begin_event(Picos(20));
        round.set_next_available(2, Picos(15));
        round.end_event(Picos(20));
        assert_eq!(round.next_poll(Picos(50)), Picos(50));
        round.advance_timer(Picos(20), Picos(40));
        assert_eq!(round.next_poll(Picos(50)), Picos(40));
        round.advance_timer(Picos(20), Picos(45));
        round.advance_timer(Picos(20), Picos(10));
        // The timer fires at once. The poll of the event at 20 replaces it and finds that the time of queue
        // pair 2 has passed.
        assert_eq!(round.next_poll(Picos(50)), Picos::NEVER);
        round.set_next_available(1, Picos::NEVER);
        round.set_next_available(2, Picos::NEVER);
        round.on_packet_sent(Picos(60));
        assert_eq!(round.next_poll(Picos::NEVER), Picos::NEVER);
    }

    /// Queue pair 3 was selected last. Queue pair 1 finishes, and a poll without a packet removes it. The
    /// stored position then refers to queue pair 5.
    #[test]
    fn the_stored_position_does_not_change_when_queue_pairs_are_removed() {
        let mut round = RoundRobin::default();
        for qp in [1, 3, 5] {
            round.set_active(qp, true);
        }
        round.add_ready(3);
        assert_eq!(round.pop_next(), Some(3));
        round.set_active(1, false);
        round.end_event(Picos(1));
        round.begin_event(Picos(2));
        round.end_event(Picos(2));
        round.add_ready(3);
        round.add_ready(5);
        assert_eq!(round.pop_next(), Some(3), "behind 5");
        assert_eq!(round.pop_next(), Some(5));
    }

    #[test]
    fn a_poll_removes_finished_queue_pairs_that_it_passes() {
        let mut round = RoundRobin::default();
        for qp in [1, 3, 5] {
            round.set_active(qp, true);
        }
        round.add_ready(1);
        assert_eq!(round.pop_next(), Some(1));
        round.set_active(3, false);
        round.add_ready(5);
        round.add_ready(1);
        assert_eq!(round.pop_next(), Some(5));
        assert_eq!((round.group.as_slice(), round.last), ([1, 5].as_slice(), 1));
        assert_eq!(round.pop_next(), Some(1));
    }
}
