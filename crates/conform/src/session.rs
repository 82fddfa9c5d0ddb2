//! Runs a selection of checks against a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_host::HostConfigError;
use xoff_units::LinkTiming;

use crate::check::{Check, CheckFuture};
use crate::checks::CHECKS;
use crate::device::DeviceUnderTest;
use crate::executor::{CheckEnd, CheckLimits, run_future};
use crate::instrument::{CheckScale, Instrument};
use crate::model::{ModelDevice, Mutant, MutantDevice};
use crate::nic_file::NicFile;
use crate::outcome::{CheckOutcome, CheckReport, OutcomeCounts, RunReport};
use crate::preflight::run_preflight;
use crate::step::Stop;
use crate::test_link::TestLink;
use crate::timing::TimingClass;

/// Name and version of the JSON report.
const SCHEMA: &str = "xoff.conform/1";

/// The checks and the device of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Speed of the link between instrument and device.
    pub link: LinkTiming,
    /// Factors of counts and durations.
    pub scale: CheckScale,
    /// The checks in their order.
    pub checks: Vec<&'static Check>,
    /// A mutant as the device. `None`: the model device.
    pub mutant: Option<&'static Mutant>,
    /// Expected deviations.
    pub nic: Option<NicFile>,
    /// True: the frames of each check are recorded, for captures and pictures.
    pub records_frames: bool,
    /// Becomes true when the user interrupts the run. A run in virtual time ends before its next check, and
    /// a run on a port within its check.
    pub stop: Arc<AtomicBool>,
}

impl RunOptions {
    /// All checks against the model device, without expected deviations.
    pub fn new(link: LinkTiming) -> RunOptions {
        RunOptions {
            link,
            scale: CheckScale::default(),
            checks: CHECKS.to_vec(),
            mutant: None,
            nic: None,
            records_frames: false,
            stop: Arc::default(),
        }
    }
}

/// Creates the model device or a mutant.
pub(crate) fn make_device(
    mutant: Option<&Mutant>,
    link: LinkTiming,
) -> Result<Box<dyn DeviceUnderTest>, HostConfigError> {
    Ok(match mutant {
        None => Box::new(ModelDevice::new(link)?),
        Some(mutant) => Box::new(MutantDevice::new(mutant, link)?),
    })
}

/// Runs checks against the model device or a mutant.
///
/// # Errors
/// The speed of the link is not 1 to 1 600 000 Mb/s.
pub fn run_checks(options: &RunOptions) -> Result<RunReport, HostConfigError> {
    run_checks_on(options, || make_device(options.mutant, options.link))
}

/// Runs checks against any device. `make_device` creates a device for each check, so that no check depends on the
/// checks before it. If the preflight fails, no check runs.
///
/// # Errors
/// The speed of the link is not 1 to 1 600 000 Mb/s, or a device cannot be created.
pub fn run_checks_on(
    options: &RunOptions,
    make_device: impl Fn() -> Result<Box<dyn DeviceUnderTest>, HostConfigError>,
) -> Result<RunReport, HostConfigError> {
    let limits = CheckLimits {
        records_frames: options.records_frames,
        ..CheckLimits::unlimited(options.scale)
    };
    let run = |_, steps| {
        let mut test_link = TestLink::new(options.link, make_device()?)?;
        let end = run_future(steps, options.link, &mut test_link, limits);
        Ok(CheckRun { end, attempts: 1 })
    };
    let name = make_device()?.name();
    run_selected_checks(options, name, TimingClass::Exact, run, |_| ())
}

/// A check that ran, and the number of its attempts.
pub(crate) struct CheckRun {
    pub(crate) end: CheckEnd,
    pub(crate) attempts: u32,
}

/// Runs the preflight and the checks of a run. `run` runs the function of a check on a device in its initial state. It
/// gets no check for the preflight. `notify` is called with the report of each check.
///
/// # Errors
/// The error of `run`.
pub(crate) fn run_selected_checks<E>(
    options: &RunOptions,
    device: String,
    timing: TimingClass,
    mut run: impl FnMut(Option<&'static Check>, fn(Instrument) -> CheckFuture) -> Result<CheckRun, E>,
    mut notify: impl FnMut(&CheckReport),
) -> Result<RunReport, E> {
    let mut is_interrupted = false;
    let preflight = run_preflight(|steps| {
        let result = run(None, steps)?.end.result;
        is_interrupted |= result == Err(Stop::Interrupted);
        Ok(result)
    })?;
    let selected = if preflight.has_failed() || is_interrupted {
        &[][..]
    } else {
        &options.checks
    };
    let mut checks = Vec::with_capacity(selected.len());
    for check in selected {
        if options.stop.load(Ordering::Relaxed) {
            is_interrupted = true;
            break;
        }
        let deviation = options.nic.as_ref().and_then(|nic| nic.deviation(check.id));
        let CheckRun { end, attempts } = run(Some(*check), check.run)?;
        if end.result == Err(Stop::Interrupted) {
            is_interrupted = true;
            break;
        }
        let report = CheckReport::new(check, end.result, deviation, end.duration.as_nanos());
        checks.push(CheckReport {
            attempts,
            trace: end.trace,
            ..report
        });
        checks.iter().last().into_iter().for_each(&mut notify);
    }
    name_failed_prerequisites(&mut checks);
    Ok(RunReport {
        schema: SCHEMA,
        device,
        speed_mbps: options.link.speed_mbps,
        timing,
        is_interrupted,
        failure: None,
        scale: options.scale,
        nic: options.nic.as_ref().map(|nic| nic.nic.clone()),
        preflight,
        counts: OutcomeCounts::of(&checks),
        checks,
    })
}

/// Adds the failed prerequisites to each failed check.
fn name_failed_prerequisites(checks: &mut [CheckReport]) {
    let failed: Vec<&str> = checks
        .iter()
        .filter(|check| matches!(check.outcome, CheckOutcome::Fail | CheckOutcome::Xfail))
        .map(|check| check.check.id)
        .collect();
    for check in checks
        .iter_mut()
        .filter(|check| check.outcome == CheckOutcome::Fail)
    {
        let prerequisites = check.check.prerequisites.iter().copied();
        check.failed_prerequisites = prerequisites.filter(|id| failed.contains(id)).collect();
    }
}
