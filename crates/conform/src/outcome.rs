//! Results of checks and of a run.

use serde::Serialize;
use xoff_telemetry::failure::Exit;

use crate::check::Check;
use crate::instrument::CheckScale;
use crate::nic_file::ExpectedDeviation;
use crate::preflight::PreflightReport;
use crate::step::{Step, Stop};
use crate::timing::TimingClass;
use crate::trace::Trace;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The device meets the criterion.
    Pass,
    /// The device does not meet the criterion.
    Fail,
    /// The device or the medium cannot carry the check.
    Skip,
    /// The device does not meet the criterion, as the NIC file expects.
    Xfail,
    /// The device meets the criterion, although the NIC file expects a deviation.
    Xpass,
    /// The check proves nothing.
    Inconclusive,
    /// An informational check reports a value.
    Info,
}

impl CheckOutcome {
    /// Returns the outcome in capital letters, as in tables.
    pub fn name(self) -> &'static str {
        match self {
            CheckOutcome::Pass => "PASS",
            CheckOutcome::Fail => "FAIL",
            CheckOutcome::Skip => "SKIP",
            CheckOutcome::Xfail => "XFAIL",
            CheckOutcome::Xpass => "XPASS",
            CheckOutcome::Inconclusive => "INCONCLUSIVE",
            CheckOutcome::Info => "INFO",
        }
    }

    /// Returns whether the outcome fails a run.
    pub fn is_failure(self) -> bool {
        matches!(self, CheckOutcome::Fail | CheckOutcome::Xpass)
    }
}

/// The report of a check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The check.
    #[serde(flatten)]
    pub check: &'static Check,
    /// The result.
    pub outcome: CheckOutcome,
    /// The measured values, or the reason of another result than PASS.
    pub detail: String,
    /// Prerequisites of the check that failed in the same run. They can be the cause of its failure.
    pub failed_prerequisites: Vec<&'static str>,
    /// Time that the check took, in nanoseconds of model time, or of the clock in real time.
    pub model_time_ns: u64,
    /// Number of attempts. In real time, a failure is repeated.
    pub attempts: u32,
    /// The frames of the last attempt. `None`: they were not recorded.
    #[serde(skip)]
    pub trace: Option<Trace>,
}

impl CheckReport {
    /// Makes the report of a check from its end. `deviation` is the expected deviation.
    pub(crate) fn new(
        check: &'static Check,
        result: Step<String>,
        deviation: Option<&ExpectedDeviation>,
        model_time_ns: u64,
    ) -> CheckReport {
        let (outcome, detail) = match result {
            Ok(detail) if check.is_informational => (CheckOutcome::Info, detail),
            Err(Stop::Fail(reason) | Stop::FailInTime { reason, .. }) if check.is_informational => {
                (CheckOutcome::Info, reason)
            }
            Ok(detail) => (CheckOutcome::Pass, detail),
            Err(Stop::Fail(reason) | Stop::FailInTime { reason, .. }) => (CheckOutcome::Fail, reason),
            Err(Stop::Skip(reason)) => (CheckOutcome::Skip, reason),
            Err(Stop::Inconclusive(reason)) => (CheckOutcome::Inconclusive, reason),
            Err(Stop::Interrupted) => (CheckOutcome::Inconclusive, "interrupted".to_owned()),
        };
        let (outcome, detail) = match (outcome, deviation) {
            (_, None) => (outcome, detail),
            (CheckOutcome::Fail, Some(expected)) if expected.explains(&detail) => (
                CheckOutcome::Xfail,
                format!("{detail} (expected: {})", expected.why),
            ),
            (CheckOutcome::Fail, Some(expected)) => (
                CheckOutcome::Fail,
                format!(
                    "{detail} (only failures with {} are expected)",
                    expected.forms.join(", ")
                ),
            ),
            (CheckOutcome::Pass, Some(expected)) => (
                CheckOutcome::Xpass,
                format!(
                    "{detail}; the NIC file expects a failure ({}): remove {} from its xfail list",
                    expected.why, check.id
                ),
            ),
            (_, Some(_)) => (outcome, detail),
        };
        CheckReport {
            check,
            outcome,
            detail,
            failed_prerequisites: Vec::new(),
            model_time_ns,
            attempts: 1,
            trace: None,
        }
    }

    /// Returns the detail with the failed prerequisites.
    pub fn describe(&self) -> String {
        match self.failed_prerequisites.as_slice() {
            [] => self.detail.clone(),
            failed => format!("{}; first look at {}", self.detail, failed.join(", ")),
        }
    }
}

/// Number of checks with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct OutcomeCounts {
    pub pass: u32,
    pub fail: u32,
    pub skip: u32,
    pub xfail: u32,
    pub xpass: u32,
    pub inconclusive: u32,
    pub info: u32,
}

impl OutcomeCounts {
    /// Counts the results of checks.
    pub fn of(checks: &[CheckReport]) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for check in checks {
            *match check.outcome {
                CheckOutcome::Pass => &mut counts.pass,
                CheckOutcome::Fail => &mut counts.fail,
                CheckOutcome::Skip => &mut counts.skip,
                CheckOutcome::Xfail => &mut counts.xfail,
                CheckOutcome::Xpass => &mut counts.xpass,
                CheckOutcome::Inconclusive => &mut counts.inconclusive,
                CheckOutcome::Info => &mut counts.info,
            } += 1;
        }
        counts
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Name and version of this format.
    pub schema: &'static str,
    /// Name of the device.
    pub device: String,
    /// Speed of the link in Mb/s.
    pub speed_mbps: u32,
    /// Timing class of the run. In virtual time, all times are exact.
    pub timing: TimingClass,
    /// True: the user interrupted the run, so `checks` contains only the checks before.
    pub is_interrupted: bool,
    /// The reason why the port or the far host stopped working during the run. `checks` then contains the checks
    /// before, and the check during which it happened. `None`: it worked until the end.
    pub failure: Option<String>,
    /// Factors of counts and durations.
    #[serde(flatten)]
    pub scale: CheckScale,
    /// Name of the NIC file. `None`: no deviation was expected.
    pub nic: Option<String>,
    /// Whether MAC control frames pass in both directions.
    pub preflight: PreflightReport,
    /// Number of checks with each result.
    pub counts: OutcomeCounts,
    /// The checks. Empty if the preflight failed.
    pub checks: Vec<CheckReport>,
}

impl RunReport {
    /// Returns the exit code of the run.
    pub fn exit(&self) -> Exit {
        let counts = &self.counts;
        if self.is_interrupted {
            return Exit::Interrupted;
        }
        if self.preflight.has_failed() || self.failure.is_some() {
            return Exit::Environment;
        }
        let decided = counts.pass + counts.xfail + counts.info;
        // On a real port, nothing else shows that there is a device.
        let is_absent = self.timing != TimingClass::Exact && self.preflight.is_unknown();
        match () {
            () if counts.fail + counts.xpass > 0 => Exit::CheckFailed,
            () if counts.inconclusive > 0 || decided == 0 || is_absent => Exit::Inconclusive,
            () => Exit::Ok,
        }
    }

    /// Returns the exit code of kselftest: 0 pass, 1 fail, 4 skip. An inconclusive run is a skip.
    pub fn kselftest_exit_code(&self) -> u8 {
        match self.exit() {
            Exit::Ok => 0,
            Exit::CheckFailed => 1,
            _ => 4,
        }
    }
}
