//! The handle of a check to the instrument.
//!
//! A check is a future. It asks the instrument to send frames, to wait, and to operate the device. The executor polls
//! the future again when the awaited event has happened in model time.

use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use serde::Serialize;
use xoff_dataplane::pfc::response_quanta_max;
use xoff_units::{LinkTiming, Picos};
use xoff_wire::PRIORITIES;

use crate::device::{Counters, Operation, Settings, Unsupported};
use crate::link_frame::{Defect, LinkFrame};
use crate::medium::Medium;
use crate::observation::{CONTROL_EVENT, CapturedFrame, Observations, SENT_EVENT};
use crate::step::{Step, Stop};
use crate::stimulus_port::GeneratorCommand;
use crate::timing::MediumTiming;
use crate::traffic::DATA_FRAME_LEN;

/// Parameters of a run that change the length of checks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CheckScale {
    /// Factor of counts and durations that do not change what a check proves. Above 0, at most 1.
    #[serde(rename = "scale")]
    pub factor: f64,
    /// True: the counts and durations of the long forms, such as a million transitions.
    #[serde(rename = "long")]
    pub is_long: bool,
}

impl Default for CheckScale {
    fn default() -> CheckScale {
        CheckScale {
            factor: 1.0,
            is_long: false,
        }
    }
}

/// A request of a check to the executor.
#[derive(Debug)]
pub(crate) enum Request {
    Send { at: Picos, frame: LinkFrame },
    CancelScheduled,
    Generator(GeneratorCommand),
    Operate(Operation),
    ReadCounters,
    ReadSettings,
    ReadGeneratedFrames,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Done,
    /// The number of a scheduled frame.
    Scheduled(u64),
    Operated(Result<(), Unsupported>),
    Counters(Box<Result<Counters, Unsupported>>),
    Settings(Box<Result<Settings, Unsupported>>),
    GeneratedFrames([u64; PRIORITIES]),
}

/// The state that a check and the executor share.
#[derive(Debug)]
pub(crate) struct InstrumentState {
    pub(crate) now: Picos,
    pub(crate) link: LinkTiming,
    pub(crate) device_mac: [u8; 6],
    pub(crate) scale: CheckScale,
    pub(crate) timing: MediumTiming,
    /// Longest time of the check.
    pub(crate) duration_max: Picos,
    /// Whether frames with a wrong FCS, and frames that are too short, can be sent.
    pub(crate) carries_defects: [bool; 2],
    pub(crate) observations: Observations,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) replies: VecDeque<Reply>,
    /// The check is polled again at this time.
    pub(crate) wake_at: Picos,
    /// The check is polled again at an event of this mask.
    pub(crate) watched: u16,
    /// Number of the last scheduled frame that left, and the time of its last bit.
    pub(crate) last_sent: (u64, Picos),
}

/// The instrument as a check sees it. Copies share one instrument.
#[derive(Clone, Debug)]
pub struct Instrument {
    state: Rc<RefCell<InstrumentState>>,
}

impl Instrument {
    pub(crate) fn new(
        link: LinkTiming,
        medium: &dyn Medium,
        scale: CheckScale,
        duration_max: Picos,
    ) -> Instrument {
        Instrument {
            state: Rc::new(RefCell::new(InstrumentState {
                now: medium.now(),
                link,
                device_mac: medium.device_mac(),
                scale,
                timing: medium.timing(),
                duration_max,
                carries_defects: [Defect::WrongFcs, Defect::Runt].map(|defect| medium.carries(defect)),
                observations: Observations::default(),
                requests: VecDeque::new(),
                replies: VecDeque::new(),
                wake_at: Picos::ZERO,
                watched: 0,
                last_sent: (0, Picos::ZERO),
            })),
        }
    }

    pub(crate) fn state(&self) -> &RefCell<InstrumentState> {
        &self.state
    }

    /// Returns the current model time.
    pub(crate) fn now(&self) -> Picos {
        self.state.borrow().now
    }

    pub(crate) fn link(&self) -> LinkTiming {
        self.state.borrow().link
    }

    pub(crate) fn device_mac(&self) -> [u8; 6] {
        self.state.borrow().device_mac
    }

    /// Returns whether the long forms of checks are requested.
    pub(crate) fn is_long(&self) -> bool {
        self.state.borrow().scale.is_long
    }

    /// Returns a count with the factor of the run, at least `least`.
    pub(crate) fn scaled(&self, count: u64, least: u64) -> u64 {
        ((count as f64 * self.state.borrow().scale.factor) as u64).max(least)
    }

    /// Returns the time of a number of pause quanta.
    pub(crate) fn quanta(&self, quanta: u64) -> Picos {
        Picos(quanta * 512_000_000 / u64::from(self.link().speed_mbps))
    }

    /// Returns the longest permitted time from a pause frame to its effect (IEEE 802.3 31B.3.7), with the tolerance of
    /// the medium.
    pub(crate) fn response_budget(&self) -> Picos {
        self.response_time() + self.timing().tolerance
    }

    /// Returns the longest permitted time from a pause frame to its effect (IEEE 802.3 31B.3.7).
    pub(crate) fn response_time(&self) -> Picos {
        self.quanta(u64::from(response_quanta_max(self.link().speed_mbps)))
    }

    /// Returns how precisely the medium times frames.
    pub(crate) fn timing(&self) -> MediumTiming {
        self.state.borrow().timing
    }

    /// Returns the longest time of the check. A check that takes longer is inconclusive.
    pub(crate) fn duration_max(&self) -> Picos {
        self.state.borrow().duration_max
    }

    /// Returns whether the medium carries frames with a defect.
    pub(crate) fn carries(&self, defect: Defect) -> bool {
        let [wrong_fcs, runt] = self.state.borrow().carries_defects;
        match defect {
            Defect::WrongFcs => wrong_fcs,
            Defect::Runt => runt,
        }
    }

    /// Returns the length in quanta of a window in which a rate is measured: `quanta`, or more if the medium needs a
    /// longer window.
    pub(crate) fn window_quanta(&self, quanta: u64) -> u64 {
        let shortest = self.timing().shortest_window;
        quanta.max(shortest.0.div_ceil(self.quanta(1).0))
    }

    /// Returns a pause time in quanta for a window in which the rates of other classes are measured, at most the
    /// longest pause time.
    pub(crate) fn window_pause(&self, quanta: u16) -> u16 {
        u16::try_from(self.window_quanta(u64::from(quanta))).unwrap_or(u16::MAX)
    }

    /// Returns a pause time in quanta whose length can be measured: `quanta`, or more if the medium needs more.
    ///
    /// # Errors
    /// [`Stop::Inconclusive`] if the longest pause is too short to be measured.
    pub(crate) fn measured_pause(&self, quanta: u16) -> Step<u16> {
        let shortest = self.timing().shortest_measured_pause;
        let least = shortest.0.div_ceil(self.quanta(1).0);
        u16::try_from(least).map(|least| quanta.max(least)).map_err(|_| {
            let longest = self.quanta(u64::from(u16::MAX)).0 / 1_000_000;
            let shortest = shortest.0 / 1_000_000;
            Stop::Inconclusive(format!(
                "the longest pause lasts {longest} us at this speed, and the instrument measures pauses of {shortest} us \
                 or more"
            ))
        })
    }

    /// Returns the time in which data frames fill as many bytes as the link carries in `quanta` at full rate.
    pub(crate) fn traffic_span(&self, quanta: u64) -> Picos {
        self.quanta(quanta * 1_000 / u64::from(self.timing().traffic_permille))
    }

    /// Returns the time for which a data frame occupies the link.
    pub(crate) fn frame_time(&self) -> Picos {
        LinkFrame::new(vec![0; DATA_FRAME_LEN as usize]).occupied(&self.link())
    }

    /// Returns the observed frames.
    pub(crate) fn observations(&self) -> Ref<'_, Observations> {
        Ref::map(self.state.borrow(), |state| &state.observations)
    }

    /// Waits for the reply to a request.
    async fn request(&self, request: Request) -> Reply {
        self.state.borrow_mut().requests.push_back(request);
        poll_fn(|_| match self.state.borrow_mut().replies.pop_front() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
        .await
    }

    /// Waits until an event of the mask has happened, or until `deadline`.
    async fn wait_for_event(&self, watched: u16, deadline: Picos) {
        let mut has_waited = false;
        poll_fn(|_| {
            if has_waited {
                return Poll::Ready(());
            }
            has_waited = true;
            let mut state = self.state.borrow_mut();
            state.wake_at = deadline;
            state.watched = watched;
            Poll::Pending
        })
        .await;
    }

    /// Waits until the time `at`.
    pub(crate) async fn wait_until(&self, at: Picos) {
        while self.now() < at {
            self.wait_for_event(0, at).await;
        }
    }

    /// Waits for a span of time.
    pub(crate) async fn wait(&self, span: Picos) {
        self.wait_until(self.now() + span).await;
    }

    /// Schedules a frame. Its transmission starts at `at`, or later if the link is busy.
    pub(crate) async fn send_at(&self, at: Picos, frame: LinkFrame) -> u64 {
        match self.request(Request::Send { at, frame }).await {
            Reply::Scheduled(number) => number,
            _ => 0,
        }
    }

    /// Sends a frame and waits for its last bit. Returns the time of the last bit.
    pub(crate) async fn send(&self, frame: LinkFrame) -> Picos {
        let number = self.send_at(self.now(), frame).await;
        while self.state.borrow().last_sent.0 < number {
            self.wait_for_event(SENT_EVENT, Picos::NEVER).await;
        }
        let end = self.state.borrow().last_sent.1;
        self.wait_until(end).await;
        end
    }

    /// Removes all frames that are scheduled for later.
    pub(crate) async fn cancel_scheduled(&self) {
        self.request(Request::CancelScheduled).await;
    }

    /// Changes the generator of data frames.
    pub(crate) async fn generator(&self, command: GeneratorCommand) {
        self.request(Request::Generator(command)).await;
    }

    /// Sends data frames of a class to the device.
    pub(crate) async fn generate(&self, class: u8, share_permille: u32) {
        self.generate_frames(class, share_permille, false).await;
    }

    /// Sends data frames of a class to the device, with a priority tag if `is_tagged`.
    pub(crate) async fn generate_frames(&self, class: u8, share_permille: u32, is_tagged: bool) {
        let command = GeneratorCommand::Start {
            class,
            share_permille: self.timing().link_share(share_permille),
            is_tagged,
        };
        self.generator(command).await;
    }

    /// Returns the number of data frames sent to the device, by class.
    pub(crate) async fn generated_frames(&self) -> [u64; PRIORITIES] {
        match self.request(Request::ReadGeneratedFrames).await {
            Reply::GeneratedFrames(frames) => frames,
            _ => [0; PRIORITIES],
        }
    }

    /// Changes the device.
    ///
    /// # Errors
    /// [`Stop::Skip`] if the device cannot execute the operation.
    pub(crate) async fn operate(&self, operation: Operation) -> Step {
        let operation = match operation {
            Operation::StartTraffic {
                class,
                share_permille,
            } => Operation::StartTraffic {
                class,
                share_permille: self.timing().link_share(share_permille),
            },
            other => other,
        };
        match self.request(Request::Operate(operation)).await {
            Reply::Operated(result) => result.map_err(skip),
            _ => Err(missing_reply()),
        }
    }

    /// Reads the counters of the device.
    ///
    /// # Errors
    /// [`Stop::Skip`] if the device has no readable counters.
    pub(crate) async fn counters(&self) -> Step<Counters> {
        match self.request(Request::ReadCounters).await {
            Reply::Counters(counters) => counters.map_err(skip),
            _ => Err(missing_reply()),
        }
    }

    /// Reads the settings of the device.
    ///
    /// # Errors
    /// [`Stop::Skip`] if the device has no readable settings.
    pub(crate) async fn settings(&self) -> Step<Settings> {
        match self.request(Request::ReadSettings).await {
            Reply::Settings(settings) => settings.map_err(skip),
            _ => Err(missing_reply()),
        }
    }

    /// Waits for the next data frame of a class that starts at `after` or later. Returns its start, or `None` if no
    /// such frame has ended at `deadline`.
    pub(crate) async fn next_data_frame(&self, class: u8, after: Picos, deadline: Picos) -> Option<Picos> {
        loop {
            let found = self
                .observations()
                .started_between(class, after, Picos::NEVER)
                .first()
                .map(|frame| frame.start);
            if found.is_some() || self.now() >= deadline {
                return found;
            }
            self.wait_for_event(1 << class, deadline).await;
        }
    }

    /// Waits for the next MAC control frame that ends at `after` or later and that satisfies a condition. Returns
    /// `None` if there is no such frame at `deadline`.
    pub(crate) async fn next_control_frame(
        &self,
        after: Picos,
        deadline: Picos,
        is_wanted: impl Fn(&CapturedFrame) -> bool,
    ) -> Option<CapturedFrame> {
        let mut searched = 0;
        loop {
            let found = {
                let observations = self.observations();
                let frames = observations.control_since(after);
                let unsearched = frames.get(searched..).unwrap_or_default();
                searched = frames.len();
                unsearched.iter().find(|frame| is_wanted(frame)).cloned()
            };
            if found.is_some() || self.now() >= deadline {
                return found;
            }
            self.wait_for_event(CONTROL_EVENT, deadline).await;
        }
    }
}

fn skip(unsupported: Unsupported) -> Stop {
    Stop::Skip(unsupported.0)
}

/// The executor answers each request with the reply of its kind, so this is an error of the executor.
fn missing_reply() -> Stop {
    Stop::Inconclusive("the executor gave no answer to a request".to_owned())
}
