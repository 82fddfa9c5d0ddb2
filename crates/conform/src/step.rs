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
