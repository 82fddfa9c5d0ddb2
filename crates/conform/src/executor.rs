//! Runs a check on a medium.

use std::task::{Context, Poll, Waker};

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos};

use crate::check::{Check, CheckFuture};
use crate::device::DeviceUnderTest;
use crate::instrument::{CheckScale, Instrument, InstrumentState, Reply, Request};
use crate::medium::{Medium, MediumError};
use crate::step::{Step, Stop};
use crate::test_link::TestLink;
use crate::trace::Trace;

/// Largest number of events of a check. A check of the long form with a million transitions has 10 million.
const EVENTS_MAX: u64 = 200_000_000;

/// The end of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckEnd {
    pub(crate) result: Step<String>,
    /// Time of the check.
    pub(crate) duration: Picos,
    /// The frames of the check. `None`: they were not recorded.
    pub(crate) trace: Option<Trace>,
    /// The reason why a failure proves nothing.
    pub(crate) disturbance: Option<String>,
}

impl CheckEnd {
    /// Returns the end of a check that has not started.
    pub(crate) fn not_started(stop: Stop) -> CheckEnd {
        CheckEnd {
            result: Err(stop),
            duration: Picos::ZERO,
            trace: None,
            disturbance: None,
        }
    }
}

/// The limits of a check, and what is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckLimits {
    pub(crate) scale: CheckScale,
    /// Longest time of a check.
    pub(crate) duration_max: Picos,
    /// True: all frames are recorded.
    pub(crate) records_frames: bool,
}

impl CheckLimits {
    /// Returns limits without a longest time, and without a recording.
    pub(crate) fn unlimited(scale: CheckScale) -> CheckLimits {
        CheckLimits {
            scale,
            duration_max: Picos::NEVER,
            records_frames: false,
        }
    }
}

/// Runs a check against a device in virtual time. The device is new: no check has used it before.
///
/// # Errors
/// The speed of the link is not allowed.
pub(crate) fn run_check(
    check: &Check,
    link: LinkTiming,
    scale: CheckScale,
    device: Box<dyn DeviceUnderTest>,
) -> Result<CheckEnd, HostConfigError> {
    let mut test_link = TestLink::new(link, device)?;
    Ok(run_future(
        check.run,
        link,
        &mut test_link,
        CheckLimits::unlimited(scale),
    ))
}

/// Runs the function of a check on a medium.
pub(crate) fn run_future(
    start: fn(Instrument) -> CheckFuture,
    link: LinkTiming,
    medium: &mut dyn Medium,
    limits: CheckLimits,
) -> CheckEnd {
    let instrument = Instrument::new(link, medium, limits.scale, limits.duration_max);
    if limits.records_frames {
        instrument.state().borrow_mut().observations.trace = Some(Trace::default());
    }
    let mut future = start(instrument.clone());
    let mut context = Context::from_waker(Waker::noop());
    let mut events_left = EVENTS_MAX;
    let result = loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            break result;
        }
        let mut state = instrument.state().borrow_mut();
        let state = &mut *state;
        let done = match state.requests.pop_front() {
            Some(request) => execute(request, medium, state).map(|reply| state.replies.push_back(reply)),
            None => advance(medium, state, &mut events_left),
        };
        state.now = medium.now();
        state.last_sent = medium.last_sent();
        match done {
            Err(error) => break Err(error.into()),
            Ok(()) if state.now > limits.duration_max => {
                let seconds = limits.duration_max.0 / 1_000_000_000_000;
                let reason = format!("the check takes longer than {seconds} s");
                break Err(Stop::Inconclusive(reason));
            }
            Ok(()) => {}
        }
    };
    let mut state = instrument.state().borrow_mut();
    let measurement = match &result {
        Err(Stop::FailInTime { measurement, .. }) => Some(*measurement),
        _ => None,
    };
    let disturbance = match &result {
        Ok(_) | Err(Stop::Interrupted | Stop::Skip(_)) => Ok(None),
        Err(_) => medium.find_disturbance(measurement, &mut state.observations),
    };
    let (result, disturbance) = match (result, disturbance) {
        (Err(Stop::FailInTime { reason, .. }), Ok(disturbance)) => (Err(Stop::Fail(reason)), disturbance),
        (result, Ok(disturbance)) => (result, disturbance),
        (_, Err(error)) => (Err(error.into()), None),
    };
    CheckEnd {
        result,
        duration: medium.now(),
        trace: state.observations.trace.take(),
        disturbance,
    }
}

impl From<MediumError> for Stop {
    fn from(error: MediumError) -> Stop {
        match error {
            MediumError::Failed(reason) => Stop::Inconclusive(reason),
            MediumError::Interrupted => Stop::Interrupted,
        }
    }
}

/// Advances the time until the event for which the check waits.
fn advance(
    medium: &mut dyn Medium,
    state: &mut InstrumentState,
    events_left: &mut u64,
) -> Result<(), MediumError> {
    let mut events = 0;
    while medium.now() < state.wake_at && events & state.watched == 0 {
        events = medium.step(state.wake_at, &mut state.observations)?;
        *events_left = events_left
            .checked_sub(1)
            .ok_or_else(|| "the check has more events than permitted".to_owned())?;
        if medium.now() == Picos::NEVER {
            return Err("the check waits for an event that never happens"
                .to_owned()
                .into());
        }
    }
    state.watched = 0;
    Ok(())
}

/// Executes a request of a check.
fn execute(
    request: Request,
    medium: &mut dyn Medium,
    state: &mut InstrumentState,
) -> Result<Reply, MediumError> {
    let now = medium.now();
    let observations = &mut state.observations;
    Ok(match request {
        Request::Send { at, frame } => Reply::Scheduled(medium.port().schedule(at, frame)),
        Request::CancelScheduled => {
            medium.port().cancel_scheduled();
            Reply::Done
        }
        Request::Generator(command) => {
            medium.port().command(now, command);
            Reply::Done
        }
        Request::Operate(operation) => Reply::Operated(medium.operate(operation, observations)?),
        Request::ReadCounters => Reply::Counters(Box::new(medium.counters(observations)?)),
        Request::ReadSettings => Reply::Settings(Box::new(medium.settings(observations)?)),
        Request::ReadGeneratedFrames => Reply::GeneratedFrames(medium.port().generated_frames()),
    })
}
