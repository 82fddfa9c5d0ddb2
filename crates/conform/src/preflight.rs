//! The preflight: do MAC control frames pass between instrument and device?
//!
//! A bridge between the two, and many NICs, consume MAC control frames. All checks would fail there without a hint of
//! the cause.

use crate::check::CheckFuture;
use crate::checks::preflight_steps::{sends_from_device, sends_to_device};
use crate::instrument::Instrument;
use crate::step::{Step, Stop};
use serde::Serialize;

/// Whether MAC control frames pass in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Passage {
    /// They pass.
    Passes,
    /// They are consumed between instrument and device.
    Swallowed,
    /// The device gives no sign.
    Unknown,
}

/// The result of the preflight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreflightReport {
    /// MAC control frames to the device.
    pub to_device: Passage,
    /// MAC control frames from the device.
    pub from_device: Passage,
    /// The findings as text.
    pub detail: String,
}

impl PreflightReport {
    /// Returns whether the device gave no sign in both directions.
    pub fn is_unknown(&self) -> bool {
        [self.to_device, self.from_device] == [Passage::Unknown; 2]
    }

    /// Returns whether MAC control frames are consumed, so the checks would prove nothing.
    pub fn has_failed(&self) -> bool {
        [self.to_device, self.from_device].contains(&Passage::Swallowed)
    }
}

/// Runs the preflight. `run` runs the steps of a direction on a device that is in its initial state.
///
/// # Errors
/// The error of `run`.
pub(crate) fn run_preflight<E>(
    mut run: impl FnMut(fn(Instrument) -> CheckFuture) -> Result<Step<String>, E>,
) -> Result<PreflightReport, E> {
    let to_device: fn(Instrument) -> CheckFuture =
        |i| Box::pin(async move { sends_to_device(&i).await.map(|()| String::new()) });
    let from_device: fn(Instrument) -> CheckFuture =
        |i| Box::pin(async move { sends_from_device(&i).await.map(|()| String::new()) });
    let (to_device, to_detail) = find_passage(run(to_device)?);
    let (from_device, from_detail) = find_passage(run(from_device)?);
    let details = [("to the device", to_detail), ("from the device", from_detail)];
    let details: Vec<String> = details
        .into_iter()
        .filter(|(_, detail)| !detail.is_empty())
        .map(|(direction, detail)| format!("{direction}: {detail}"))
        .collect();
    Ok(PreflightReport {
        to_device,
        from_device,
        detail: details.join("; "),
    })
}

/// Returns the finding of a direction, and the reason if MAC control frames do not pass.
fn find_passage(result: Step<String>) -> (Passage, String) {
    match result {
        Ok(_) => (Passage::Passes, String::new()),
        Err(Stop::Fail(reason) | Stop::FailInTime { reason, .. }) => (Passage::Swallowed, reason),
        Err(Stop::Skip(reason) | Stop::Inconclusive(reason)) => (Passage::Unknown, reason),
        Err(Stop::Interrupted) => (Passage::Unknown, "interrupted".to_owned()),
    }
}
