//! Rate limits for work that other stations cause, such as ICMP errors.

use xoff_units::Picos;

/// A rate limiter with a burst. Its state is one number (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug)]
pub(crate) struct RateLimit {
    interval: Picos,
    burst: Picos,
    /// Theoretical arrival time of the next event.
    next: Picos,
}

impl RateLimit {
    /// Creates a limiter that permits `per_second` events per second, and a burst of the same number. With 0,
    /// no event is permitted.
    pub(crate) fn new(per_second: u32) -> RateLimit {
        const SECOND: u64 = 1_000_000_000_000;
        RateLimit {
            interval: Picos(SECOND.checked_div(u64::from(per_second)).unwrap_or(0)),
            burst: Picos(SECOND),
            next: Picos::ZERO,
        }
    }

    /// Returns true and counts the event if the limit permits it at `now`.
    pub(crate) fn allow(&mut self, now: Picos) -> bool {
        let start = self.next.max(now);
        let next = start.saturating_add(self.interval);
        if self.interval == Picos::ZERO || next.since(now) > self.burst {
            return false;
        }
        self.next = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_a_burst_and_then_the_rate() {
        let mut limit = RateLimit::new(10);
        let allowed = |limit: &mut RateLimit, now| (0..100).filter(|_| limit.allow(now)).count();
        assert_eq!(allowed(&mut limit, Picos::ZERO), 10);
        assert_eq!(allowed(&mut limit, Picos::from_millis(99)), 0);
        assert_eq!(allowed(&mut limit, Picos::from_millis(100)), 1);
        assert_eq!(allowed(&mut limit, Picos::from_millis(350)), 2);
        assert_eq!(allowed(&mut limit, Picos::from_millis(60_000)), 10);
        assert_eq!(allowed(&mut RateLimit::new(0), Picos::from_millis(1)), 0);
    }
}
