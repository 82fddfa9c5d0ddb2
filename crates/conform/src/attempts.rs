//! Repeats a check in real time until its result is certain.
//!
//! A failure counts only if neither the instrument nor the far host was late and no port lost a frame, and if it
//! happens twice. A check that fails and passes is decided by the majority of three attempts.

use xoff_units::Picos;

use crate::executor::CheckEnd;
use crate::step::Stop;

/// Largest number of attempts of a check.
const ATTEMPTS_MAX: u32 = 8;
/// Number of equal results that decide a check whose attempts had different results, and number of failures.
const MAJORITY: u32 = 2;

/// The attempts of a check so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Longest time of all attempts together.
    duration_max: Picos,
    spent: Picos,
    count: u32,
    passes: u32,
    failures: u32,
    /// Number of attempts without a result that nothing disturbed.
    undecided: u32,
}

impl Attempts {
    pub(crate) fn new(duration_max: Picos) -> Attempts {
        Attempts {
            duration_max,
            spent: Picos::ZERO,
            count: 0,
            passes: 0,
            failures: 0,
            undecided: 0,
        }
    }

    /// Returns the longest time of the next attempt.
    pub(crate) fn remaining(&self) -> Picos {
        self.duration_max.since(self.spent)
    }

    /// Returns the number of attempts.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds an attempt. Returns the end of the check if it is decided or if there is no time for another attempt.
    pub(crate) fn add(&mut self, end: CheckEnd) -> Option<CheckEnd> {
        self.count += 1;
        self.spent += end.duration;
        let is_decided = match (&end.result, &end.disturbance) {
            (Ok(_), _) => {
                self.passes += 1;
                self.failures == 0 || self.passes >= MAJORITY
            }
            (Err(Stop::Skip(_) | Stop::Interrupted), _) => true,
            (Err(Stop::Fail(_) | Stop::FailInTime { .. }), None) => {
                self.failures += 1;
                self.failures >= MAJORITY
            }
            (Err(Stop::Inconclusive(_)), None) => {
                self.undecided += 1;
                self.undecided >= MAJORITY
            }
            (Err(_), Some(_)) => false,
        };
        if is_decided {
            return Some(end);
        }
        let has_time = self.remaining() >= end.duration && self.count < ATTEMPTS_MAX;
        (!has_time).then(|| self.give_up(end))
    }

    /// Returns the end of a check without time for another attempt.
    fn give_up(&self, end: CheckEnd) -> CheckEnd {
        let reason = match (end.result, &end.disturbance) {
            (Err(Stop::Fail(reason)), None) if self.passes == 0 => {
                return CheckEnd {
                    result: Err(Stop::Fail(reason)),
                    ..end
                };
            }
            (Err(Stop::Fail(reason)), None) => format!("an attempt passes, another fails: {reason}"),
            (Err(Stop::Fail(reason) | Stop::Inconclusive(reason)), Some(disturbance)) => {
                format!("too noisy for the criterion: {disturbance} ({reason})")
            }
            (Err(Stop::Inconclusive(reason)), None) => reason,
            (Ok(detail), _) => format!("an attempt fails, another passes: {detail}"),
            (Err(stop), _) => {
                return CheckEnd {
                    result: Err(stop),
                    ..end
                };
            }
        };
        CheckEnd {
            result: Err(Stop::Inconclusive(reason)),
            duration: end.duration,
            trace: end.trace,
            disturbance: end.disturbance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Step;

    fn end(result: Step<String>, disturbance: Option<&str>) -> CheckEnd {
        CheckEnd {
            result,
            duration: Picos::from_millis(1_000),
            trace: None,
            disturbance: disturbance.map(str::to_owned),
        }
    }

    fn pass() -> CheckEnd {
        end(Ok("good".to_owned()), None)
    }

    fn fail(disturbance: Option<&str>) -> CheckEnd {
        end(Err(Stop::Fail("bad".to_owned())), disturbance)
    }

    /// Adds ends until the check is decided. Returns its result and the number of attempts.
    fn decide(ends: &[CheckEnd]) -> (Step<String>, u32) {
        let mut attempts = Attempts::new(Picos::from_millis(10_000));
        let decided = ends.iter().cycle().find_map(|end| attempts.add(end.clone()));
        (decided.expect("a limit of attempts").result, attempts.count())
    }

    #[test]
    fn a_pass_needs_one_attempt_and_a_failure_two() {
        assert_eq!(decide(&[pass()]), (Ok("good".to_owned()), 1));
        assert_eq!(decide(&[fail(None)]), (Err(Stop::Fail("bad".to_owned())), 2));
        let skip = end(Err(Stop::Skip("no".to_owned())), None);
        assert_eq!(decide(&[skip]), (Err(Stop::Skip("no".to_owned())), 1));
    }

    #[test]
    fn different_results_are_decided_by_the_majority() {
        assert_eq!(decide(&[fail(None), pass(), pass()]).0, Ok("good".to_owned()));
        let (result, attempts) = decide(&[fail(None), pass(), fail(None)]);
        assert_eq!((result, attempts), (Err(Stop::Fail("bad".to_owned())), 3));
    }

    #[test]
    fn a_failure_under_disturbance_is_never_a_failure() {
        let (result, attempts) = decide(&[fail(Some("late"))]);
        let reason = "too noisy for the criterion: late (bad)".to_owned();
        assert_eq!(
            (result, attempts),
            (Err(Stop::Inconclusive(reason)), ATTEMPTS_MAX)
        );
        assert_eq!(decide(&[fail(Some("late")), pass()]).0, Ok("good".to_owned()));
    }

    #[test]
    fn a_check_without_time_for_a_second_attempt_keeps_an_undisturbed_failure() {
        let mut attempts = Attempts::new(Picos::from_millis(1_500));
        let decided = attempts.add(fail(None)).expect("no more time");
        assert_eq!(decided.result, Err(Stop::Fail("bad".to_owned())));
    }

    #[test]
    fn an_inconclusive_attempt_is_repeated_once() {
        let silent = end(Err(Stop::Inconclusive("silent".to_owned())), None);
        assert_eq!(
            decide(&[silent]),
            (Err(Stop::Inconclusive("silent".to_owned())), 2)
        );
    }
}
