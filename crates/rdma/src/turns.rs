//! Queue pairs that take turns as in the NIC of the ns-3 models (`QbbNetDevice::DequeueAndTransmit`, `RdmaEgressQueue::GetNextQindex`).
//!
//! That NIC looks for a packet when something happens: a frame arrives, a message is posted, its link becomes free, its timer fires. If it
//! finds none it sets the timer to the time at which the first queue pair with data left may send again, whether its window is open or not. If that
//! time has passed, or a timer is set already, it sets none. So a queue pair whose time comes may wait for the next event.

use std::collections::BTreeSet;

use xoff_units::Picos;

/// The state of one NIC class.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Queue pairs that may send, by their numbers.
    ready: BTreeSet<u32>,
    /// Queue pairs with messages, by their numbers, and those without that the NIC has not removed yet.
    group: Vec<u32>,
    /// Those of the group without messages.
    finished: BTreeSet<u32>,
    /// Place in the group of the last one that had its turn. Removals do not change it, so that it may come to mean another one.
    last: usize,
    /// When each queue pair may send; [`Picos::NEVER`] for one that is not entered. An entry of the heap of waiting queue pairs with
    /// another time is obsolete, and never the first.
    due: Vec<Picos>,
    /// Queue pairs with data left, by the time at which their rate allows the next packet.
    with_data: BTreeSet<(Picos, u32)>,
    /// That time of each queue pair; [`Picos::NEVER`] for one without data left.
    next_available: Vec<Picos>,
    /// When the timer fires; a time that has passed if it is not set.
    timer: Picos,
    /// When the NIC looks for a packet, or has looked last.
    look_at: Picos,
    /// It looks then because its link becomes free.
    awaits_link: bool,
}

impl Round {
    /// When a queue pair may send.
    pub(super) fn due(&self, qp: u32) -> Picos {
        self.due.get(qp as usize).copied().unwrap_or(Picos::NEVER)
    }

    pub(super) fn set_due(&mut self, qp: u32, due: Picos) {
        *entry(&mut self.due, qp) = due;
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

    /// A queue pair has messages, or none any more.
    pub(super) fn set_active(&mut self, qp: u32, is_active: bool) {
        match (self.group.binary_search(&qp), is_active) {
            (Err(place), true) => self.group.insert(place, qp),
            (Ok(_), true) => drop(self.finished.remove(&qp)),
            (Ok(_), false) => drop(self.finished.insert(qp)),
            (Err(_), false) => {}
        }
    }

    /// Takes the one behind the last one, cyclically, among those that may send.
    pub(super) fn take_next(&mut self) -> Option<u32> {
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

    /// Removes those of the finished ones that the NIC passes while it looks.
    fn remove_finished(&mut self, is_passed: impl Fn(u32) -> bool) {
        if self.finished.is_empty() {
            return;
        }
        let finished = &mut self.finished;
        self.group.retain(|qp| !(is_passed(*qp) && finished.remove(qp)));
    }

    /// A queue pair has data left, and its rate allows the next packet at `available`; [`Picos::NEVER`] if it has none.
    pub(super) fn set_next_available(&mut self, qp: u32, available: Picos) {
        let before = std::mem::replace(entry(&mut self.next_available, qp), available);
        if before == available {
            return;
        }
        self.with_data.remove(&(before, qp));
        if available != Picos::NEVER {
            self.with_data.insert((available, qp));
        }
    }

    /// The rate of a queue pair has been computed, and it may send at `available`: a timer that is set fires then if that is earlier
    /// (`QbbNetDevice::UpdateNextAvail`).
    pub(super) fn advance_timer(&mut self, now: Picos, available: Picos) {
        if self.timer > now && available < self.timer {
            self.timer = available.max(now);
        }
    }

    /// When the NIC finds a packet or looks again, given when the first queue pair may send.
    pub(super) fn next_look(&self, due: Picos) -> Picos {
        match self.has_ready() || due <= self.look_at {
            true => self.look_at,
            false => self.timer_after_look().unwrap_or(Picos::NEVER),
        }
    }

    /// The timer as the last look leaves it if it finds nothing.
    fn timer_after_look(&self) -> Option<Picos> {
        if self.timer > self.look_at {
            return Some(self.timer);
        }
        let (first, _) = self.with_data.first()?;
        (*first > self.look_at).then_some(*first)
    }

    /// The NIC takes a packet at `now`. If that is later than its last look the timer has fired.
    pub(super) fn fire(&mut self, now: Picos) {
        if now > self.look_at {
            self.remove_finished(|_| true);
            self.timer = Picos::ZERO;
            self.look_at = now;
            self.awaits_link = false;
        }
    }

    /// Something happens at `now`. A look before it found nothing: takes account of that before anything changes.
    pub(super) fn begin_event(&mut self, now: Picos) {
        // What arrives at the moment at which the link becomes free was under way before the packet that leaves it, so it comes first.
        if self.look_at < now || self.look_at == now && !self.awaits_link {
            self.remove_finished(|_| true);
            self.timer = self.timer_after_look().unwrap_or(Picos::ZERO);
        }
    }

    /// What happens at `now` makes the NIC look, unless its link is busy: then it looks when that is free.
    pub(super) fn end_event(&mut self, now: Picos) {
        if now > self.look_at {
            self.look_at = now;
            self.awaits_link = false;
        }
    }

    /// A packet leaves, and the link is free again at `free`: the NIC looks then.
    pub(super) fn sent(&mut self, free: Picos) {
        self.look_at = free;
        self.awaits_link = true;
    }
}

/// The entry of a queue pair, made if there is none.
fn entry(times: &mut Vec<Picos>, qp: u32) -> &mut Picos {
    let at = qp as usize;
    if times.len() <= at {
        times.resize(at + 1, Picos::NEVER);
    }
    &mut times[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue pair 1 is held by its window, 2 may send at 20. The NIC looks at 10: it sets a timer for 20 while 1 has none earlier.
    #[test]
    fn the_timer_is_set_unless_the_time_of_a_held_queue_pair_has_passed() {
        let mut round = Round::default();
        round.set_next_available(2, Picos(20));
        round.end_event(Picos(10));
        assert_eq!(round.next_look(Picos(20)), Picos(20));
        round.set_next_available(1, Picos(15));
        assert_eq!(
            round.next_look(Picos(20)),
            Picos(15),
            "the time of a held one counts"
        );
        round.set_next_available(1, Picos(5));
        assert_eq!(round.next_look(Picos(20)), Picos::NEVER, "it has passed");
        round.begin_event(Picos(30));
        round.end_event(Picos(30));
        assert_eq!(
            round.next_look(Picos(20)),
            Picos(30),
            "what happens makes the NIC look"
        );
    }

    #[test]
    fn a_timer_that_is_set_stays_and_a_change_of_rate_advances_it() {
        let mut round = Round::default();
        round.set_next_available(1, Picos(50));
        round.end_event(Picos(10));
        round.begin_event(Picos(20));
        round.set_next_available(2, Picos(15));
        round.end_event(Picos(20));
        assert_eq!(round.next_look(Picos(50)), Picos(50));
        round.advance_timer(Picos(20), Picos(40));
        assert_eq!(round.next_look(Picos(50)), Picos(40));
        round.advance_timer(Picos(20), Picos(45));
        round.advance_timer(Picos(20), Picos(10));
        // It fires at once: the look of the event at 20 takes its place, and finds that the time of 2 has passed.
        assert_eq!(round.next_look(Picos(50)), Picos::NEVER);
        round.set_next_available(1, Picos::NEVER);
        round.set_next_available(2, Picos::NEVER);
        round.sent(Picos(60));
        assert_eq!(round.next_look(Picos::NEVER), Picos::NEVER);
    }

    /// 3 had the last turn. 1 finishes, and a look that finds nothing removes it: the place of the last turn is that of 5 then.
    #[test]
    fn the_place_of_the_last_turn_stays_when_finished_ones_are_removed() {
        let mut round = Round::default();
        for qp in [1, 3, 5] {
            round.set_active(qp, true);
        }
        round.add_ready(3);
        assert_eq!(round.take_next(), Some(3));
        round.set_active(1, false);
        round.end_event(Picos(1));
        round.begin_event(Picos(2));
        round.end_event(Picos(2));
        round.add_ready(3);
        round.add_ready(5);
        assert_eq!(round.take_next(), Some(3), "behind 5");
        assert_eq!(round.take_next(), Some(5));
    }

    #[test]
    fn a_finished_one_that_is_passed_is_removed() {
        let mut round = Round::default();
        for qp in [1, 3, 5] {
            round.set_active(qp, true);
        }
        round.add_ready(1);
        assert_eq!(round.take_next(), Some(1));
        round.set_active(3, false);
        round.add_ready(5);
        round.add_ready(1);
        assert_eq!(round.take_next(), Some(5));
        assert_eq!((round.group.as_slice(), round.last), ([1, 5].as_slice(), 1));
        assert_eq!(round.take_next(), Some(1));
    }
}
