//! Results of the steps of a check.

use xoff_units::Picos;

/// The reason why a check ends without its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The device does not meet the criterion.
    Fail(String),
    /// The device does not meet a criterion of time. Late wake-ups of the medium can be the cause.
    FailInTime {
        /// What the device did.
        reason: String,
        /// The measurement.
        measurement: TimeMeasurement,
    },
    /// The device or the medium cannot carry the check.
    Skip(String),
    /// The check proves nothing.
    Inconclusive(String),
    /// The user has interrupted the run.
    Interrupted,
}

/// The measurement of a criterion of time that a device does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMeasurement {
    /// Start of the measurement.
    pub from: Picos,
    /// End of the measurement.
    pub until: Picos,
    /// Time by which the device misses the criterion. Delays of less than this time between `from` and `until` are not
    /// the cause.
    pub excess: Picos,
}

/// The result of a step of a check.
pub type Step<T = ()> = Result<T, Stop>;

/// Separates the failed forms in a reason.
const FORM_SEPARATOR: &str = "; ";

/// The forms of a frame with which a check fails. The check goes on after a failure, so its reason names all failed
/// forms.
#[derive(Debug, Default)]
pub(crate) struct FormFailures {
    reasons: Vec<String>,
    /// The measurement with the largest excess. `None` before the first failure.
    measurement: Option<TimeMeasurement>,
    /// Whether a failure is not one of time.
    is_certain: bool,
}

impl FormFailures {
    /// Adds the result of a form.
    ///
    /// # Errors
    /// The check cannot go on: the result is neither a success nor a failure.
    pub(crate) fn add(&mut self, form: &str, result: Step) -> Step {
        let reason = match result {
            Ok(()) => return Ok(()),
            Err(Stop::Fail(reason)) => {
                self.is_certain = true;
                reason
            }
            Err(Stop::FailInTime { reason, measurement }) => {
                let is_largest = |largest: &TimeMeasurement| largest.excess < measurement.excess;
                if self.measurement.as_ref().is_none_or(is_largest) {
                    self.measurement = Some(measurement);
                }
                reason
            }
            Err(other) => return Err(other),
        };
        self.reasons.push(format!("{form}: {reason}"));
        Ok(())
    }

    /// Returns the result of all forms.
    ///
    /// # Errors
    /// A form has failed.
    pub(crate) fn finish(self) -> Step {
        let reason = self.reasons.join(FORM_SEPARATOR);
        match self.measurement {
            _ if reason.is_empty() => Ok(()),
            Some(measurement) if !self.is_certain => Err(Stop::FailInTime { reason, measurement }),
            _ => Err(Stop::Fail(reason)),
        }
    }
}

/// Returns whether each failed form in a reason is one of `forms`.
pub(crate) fn fails_only_with(reason: &str, forms: &[String]) -> bool {
    reason.split(FORM_SEPARATOR).all(|failure| {
        let form = failure.split_once(": ").map(|(form, _)| form);
        form.is_some_and(|form| forms.iter().any(|expected| expected == form))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_each_failed_form() {
        let in_time = |excess| {
            Err(Stop::FailInTime {
                reason: "late".to_owned(),
                measurement: TimeMeasurement {
                    from: Picos(0),
                    until: Picos(9),
                    excess: Picos(excess),
                },
            })
        };
        let mut failures = FormFailures::default();
        assert_eq!(failures.add("a", Ok(())), Ok(()));
        assert_eq!(failures.add("b", in_time(5)), Ok(()));
        assert_eq!(failures.add("c", in_time(3)), Ok(()));
        let Err(Stop::FailInTime { reason, measurement }) = failures.finish() else {
            panic!("a failure of time");
        };
        assert_eq!(
            (reason.as_str(), measurement.excess),
            ("b: late; c: late", Picos(5))
        );
        let forms = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(fails_only_with(&reason, &forms(&["c", "b"])));
        assert!(!fails_only_with(&reason, &forms(&["b"])));
        assert!(!fails_only_with("no form", &forms(&["b"])));
    }

    #[test]
    fn a_certain_failure_is_none_of_time() {
        let mut failures = FormFailures::default();
        assert_eq!(failures.add("a", Err(Stop::Fail("bad".to_owned()))), Ok(()));
        let skip = Stop::Skip("no".to_owned());
        assert_eq!(failures.add("b", Err(skip.clone())), Err(skip));
        assert_eq!(failures.finish(), Err(Stop::Fail("a: bad".to_owned())));
        assert_eq!(FormFailures::default().finish(), Ok(()));
    }
}
