//! Runs a selection of checks in lock step on a device in another program.

use std::sync::atomic::Ordering;

use xoff_lockstep::{BARE_MAC_FLAG, Connection, LinkError, Message, ReplyBody};
use xoff_units::{Picos, count_noun};

use crate::check::{Check, CheckFuture, CheckGroup};
use crate::executor::{CheckEnd, CheckLimits, run_future};
use crate::instrument::Instrument;
use crate::lockstep_link::{LockstepDevice, LockstepLink};
use crate::matrix::{Matrix, run_own_checks};
use crate::model::Mutant;
use crate::outcome::{CheckReport, RunReport};
use crate::port_session::{PortRunError, device_frames};
use crate::session::{CheckRun, RunOptions, run_selected_checks};
use crate::step::Stop;
use crate::timing::TimingClass;

/// The checks that a MAC without a host carries.
const BARE_MAC_CHECKS: &[&str] = &[
    "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A12", "A13", "A15", "A16", "A17", "A18", "A19",
    "A20", "A25", "B3", "B4", "B5", "B6", "B7",
];

/// Runs checks in virtual time on the device at the other end of a connection. `notify` is called with the report of
/// each check. If the preflight fails, no check runs.
///
/// # Errors
/// The speed is not allowed, or the device breaks the rules of the connection before the first check.
pub fn run_checks_in_lockstep(
    options: &RunOptions,
    connection: Connection,
    notify: impl FnMut(&CheckReport),
) -> Result<RunReport, PortRunError> {
    let mut runner = LockstepRunner::new(options, connection)?;
    let name = runner.start_device(options.mutant)?.name;
    let run = |check: Option<&'static Check>, steps: fn(Instrument) -> CheckFuture| {
        let end = match (
            &runner.failure,
            check.and_then(|check| runner.reason_to_skip(check)),
        ) {
            // The run ends after the check in which the connection failed.
            (Some(_), _) => CheckEnd::not_started(Stop::Interrupted),
            (None, Some(reason)) => CheckEnd::not_started(Stop::Skip(reason)),
            (None, None) => match runner.run(steps, options.mutant) {
                Err(PortRunError::Environment(reason)) => {
                    runner.failure = Some(reason.clone());
                    CheckEnd::not_started(Stop::Inconclusive(reason))
                }
                end => end?,
            },
        };
        Ok::<_, PortRunError>(CheckRun { end, attempts: 1 })
    };
    let mut report = run_selected_checks(options, name, TimingClass::Exact, run, notify)?;
    match &runner.failure {
        Some(reason) if report.checks.is_empty() => return Err(PortRunError::Environment(reason.clone())),
        Some(_) => report.is_interrupted = false,
        None => {}
    }
    report.failure = runner.end();
    Ok(report)
}

/// Runs all checks on the model device in lock step, and each mutant on its own check. `notify` is called with the name
/// of the device and the report of each check.
///
/// # Errors
/// As [`run_checks_in_lockstep`], and if the run is interrupted.
pub fn run_matrix_in_lockstep(
    options: &RunOptions,
    connection: Connection,
    notify: impl FnMut(&str, &CheckReport),
) -> Result<Matrix, PortRunError> {
    let mut runner = LockstepRunner::new(options, connection)?;
    let run = |check: &'static Check, mutant| {
        let end = runner.run(check.run, mutant)?;
        match (&end.result, &runner.failure) {
            (Err(Stop::Interrupted), _) => Err(PortRunError::Interrupted),
            (_, Some(reason)) => Err(PortRunError::Environment(reason.clone())),
            _ => Ok(CheckReport::new(check, end.result, None, end.duration.as_nanos())),
        }
    };
    let matrix = run_own_checks(options.link.speed_mbps, &options.checks, run, notify)?;
    runner.end();
    Ok(matrix)
}

/// Runs single checks in lock step.
struct LockstepRunner<'a> {
    options: &'a RunOptions,
    connection: Connection,
    /// A data frame of each class of the device.
    frames: Vec<Vec<u8>>,
    /// Time of the connection.
    now: Picos,
    /// The reason why the connection does not work any more.
    failure: Option<String>,
}

impl<'a> LockstepRunner<'a> {
    fn new(options: &'a RunOptions, connection: Connection) -> Result<LockstepRunner<'a>, PortRunError> {
        Ok(LockstepRunner {
            options,
            connection,
            frames: device_frames(options)?,
            now: Picos::ZERO,
            failure: None,
        })
    }

    /// Returns the reason why the device cannot carry a check.
    fn reason_to_skip(&self, check: &Check) -> Option<String> {
        let is_bare = self.connection.peer().flags & BARE_MAC_FLAG != 0;
        if !is_bare || BARE_MAC_CHECKS.contains(&check.id) {
            return None;
        }
        let lacks = match (check.group(), check.id) {
            (CheckGroup::Reception, "A10" | "A11" | "A14") => "settings of PFC that change under traffic",
            (CheckGroup::Reception, _) => "a host that sends and counts for a long time",
            (CheckGroup::Generation, _) => "the receive buffer and the counters of a host",
            (CheckGroup::Configuration, _) => "DCBX, settings and counters of a host",
        };
        Some(format!(
            "the simulator is a MAC without a host; the check needs {lacks}"
        ))
    }

    /// Brings the device to its initial state.
    fn start_device(&mut self, mutant: Option<&Mutant>) -> Result<LockstepDevice, PortRunError> {
        let reset = Message::Reset {
            time_ps: self.now.0,
            speed_bps: u64::from(self.options.link.speed_mbps) * 1_000_000,
            mutant: mutant.map_or_else(String::new, |mutant| mutant.name.to_owned()),
        };
        self.connection.send(&reset).map_err(connection_error)?;
        match self.connection.receive().map_err(connection_error)? {
            Message::Reply(reply) => match reply.body {
                ReplyBody::Started { mac, name } => {
                    self.now = Picos(reply.time_ps);
                    Ok(LockstepDevice {
                        name: match name.is_empty() {
                            true => self.connection.peer().name.clone(),
                            false => name,
                        },
                        mac,
                        epoch: self.now,
                    })
                }
                ReplyBody::Unsupported(reason) => Err(PortRunError::Environment(reason)),
                _ => Err(PortRunError::Environment(
                    "the device answers a RESET message in a wrong form".to_owned(),
                )),
            },
            message => Err(PortRunError::Environment(format!(
                "the device answers a RESET message by a {} message",
                message.kind_name()
            ))),
        }
    }

    /// Runs a check on a device in its initial state.
    fn run(
        &mut self,
        steps: fn(Instrument) -> CheckFuture,
        mutant: Option<&Mutant>,
    ) -> Result<CheckEnd, PortRunError> {
        if self.options.stop.load(Ordering::Relaxed) {
            return Ok(CheckEnd::not_started(Stop::Interrupted));
        }
        let device = match self.start_device(mutant) {
            Err(PortRunError::Interrupted) => return Ok(CheckEnd::not_started(Stop::Interrupted)),
            device => device?,
        };
        let link = self.options.link;
        let limits = CheckLimits {
            records_frames: self.options.records_frames,
            ..CheckLimits::unlimited(self.options.scale)
        };
        let mut medium = LockstepLink::new(link, &mut self.connection, device, &self.frames)?;
        let mut end = run_future(steps, link, &mut medium, limits);
        let damaged = medium.damaged_frames();
        // A whole nanosecond, so that times are easy to read.
        self.now = Picos::from_nanos(medium.end().0.div_ceil(1_000));
        match medium.failure() {
            None | Some(LinkError::Interrupted) => {}
            Some(error) => self.failure = Some(error.to_string()),
        }
        if let (1.., Err(Stop::Fail(reason) | Stop::Inconclusive(reason))) = (damaged, &mut end.result) {
            let frames = count_noun(damaged, "frame");
            *reason += &format!("; {frames} of the device with a wrong FCS or the error flag were discarded");
        }
        Ok(end)
    }

    /// Ends the connection, and sends the peer the reason of an error. Returns this reason.
    fn end(self) -> Option<String> {
        self.connection.close(self.failure.as_deref().unwrap_or_default());
        self.failure
    }
}

fn connection_error(error: LinkError) -> PortRunError {
    match error {
        LinkError::Interrupted => PortRunError::Interrupted,
        error => PortRunError::Environment(error.to_string()),
    }
}
