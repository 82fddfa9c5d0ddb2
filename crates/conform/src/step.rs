//! Results of the steps of a check.

/// The reason why a check ends without its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The device does not meet the criterion.
    Fail(String),
    /// The device or the medium cannot carry the check.
    Skip(String),
    /// The check proves nothing.
    Inconclusive(String),
}

/// The result of a step of a check.
pub type Step<T = ()> = Result<T, Stop>;
