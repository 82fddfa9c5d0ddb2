//! Runs a check against a device in model time.

use std::task::{Context, Poll, Waker};

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos};

use crate::check::{Check, CheckFuture};
use crate::device::DeviceUnderTest;
use crate::instrument::{CheckScale, Instrument, InstrumentState, Reply, Request};
use crate::step::{Step, Stop};
use crate::test_link::TestLink;

/// Largest number of events of a check. A check of the long form with a million transitions has 10 million.
const EVENTS_MAX: u64 = 200_000_000;

/// The end of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckEnd {
    pub(crate) result: Step<String>,
    /// Model time of the end.
    pub(crate) model_time: Picos,
}

/// Runs a check against a device. The device is new: no check has used it before.
///
/// # Errors
/// The speed of the link is not allowed.
pub(crate) fn run_check(
    check: &Check,
    link: LinkTiming,
    scale: CheckScale,
    device: Box<dyn DeviceUnderTest>,
) -> Result<CheckEnd, HostConfigError> {
    run_future(check.run, link, scale, device)
}

/// Runs the function of a check against a device.
pub(crate) fn run_future(
    start: fn(Instrument) -> CheckFuture,
    link: LinkTiming,
    scale: CheckScale,
    device: Box<dyn DeviceUnderTest>,
) -> Result<CheckEnd, HostConfigError> {
    let instrument = Instrument::new(link, device.mac(), scale);
    let mut test_link = TestLink::new(link, device)?;
    let mut future = start(instrument.clone());
    let mut context = Context::from_waker(Waker::noop());
    let mut events_left = EVENTS_MAX;
    let result = loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            break result;
        }
        let mut state = instrument.state().borrow_mut();
        if let Some(request) = state.requests.pop_front() {
            let reply = execute(request, &mut test_link);
            state.replies.push_back(reply);
            continue;
        }
        if let Err(reason) = advance(&mut test_link, &mut state, &mut events_left) {
            break Err(Stop::Inconclusive(reason));
        }
    };
    Ok(CheckEnd {
        result,
        model_time: test_link.now,
    })
}

/// Advances the model time until the event for which the check waits.
fn advance(
    test_link: &mut TestLink,
    state: &mut InstrumentState,
    events_left: &mut u64,
) -> Result<(), String> {
    let mut events = 0;
    while test_link.now < state.wake_at && events & state.watched == 0 {
        events = test_link.step(state.wake_at, &mut state.observations)?;
        *events_left = events_left
            .checked_sub(1)
            .ok_or("the check has more events than permitted")?;
        if test_link.now == Picos::NEVER {
            return Err("the check waits for an event that never happens".to_owned());
        }
    }
    state.now = test_link.now;
    state.last_sent = test_link.last_sent;
    state.watched = 0;
    Ok(())
}

/// Executes a request of a check.
fn execute(request: Request, test_link: &mut TestLink) -> Reply {
    let now = test_link.now;
    match request {
        Request::Send { at, frame } => Reply::Scheduled(test_link.port.schedule(at, frame)),
        Request::CancelScheduled => {
            test_link.port.cancel_scheduled();
            Reply::Done
        }
        Request::Generator(command) => {
            test_link.port.command(now, command);
            Reply::Done
        }
        Request::Operate(operation) => {
            let result = test_link.device.operate(now, operation);
            test_link.device_changed();
            Reply::Operated(result)
        }
        Request::ReadCounters => Reply::Counters(Box::new(test_link.device.counters(now))),
        Request::ReadSettings => Reply::Settings(Box::new(test_link.device.settings(now))),
        Request::ReadGeneratedFrames => Reply::GeneratedFrames(test_link.port.generated_frames()),
    }
}
