//! The link between the port of the instrument and the device in real time, on a network port.

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos, count_noun};

use crate::delay_log::DelayLog;
use crate::device::{Counters, Operation, Settings, Unsupported};
use crate::far_host::{FarHostReply, FarHostRequest};
use crate::link_frame::{Defect, LinkFrame};
use crate::medium::{Answer, Medium, MediumError};
use crate::observation::{CONTROL_EVENT, Observations, SENT_EVENT};
use crate::port_access::{ArrivedFrame, PortAccess};
use crate::step::TimeMeasurement;
use crate::stimulus_port::StimulusPort;
use crate::timing::MediumTiming;

/// Longest time until the far host answers a request.
const REPLY_MAX: Picos = Picos::from_millis(10_000);
/// Longest wait, after which the link looks for an interruption.
const WAIT_MAX: Picos = Picos::from_millis(20);
/// Time before a scheduled frame in which the thread does not sleep.
const AWAKE_TIME: Picos = Picos::from_micros(150);
/// Share of the time of a check, as a divisor, above which delays make every failure of a criterion of time worthless:
/// 5 %. The processor is then too busy.
const BUSY_DIVISOR: u64 = 20;
/// Error of the times of the far host.
const CLOCK_ERROR: Picos = Picos::from_millis(5);
/// Delay after which a failure proves nothing even if its criterion depends on no times.
const GROSS_DELAY: Picos = Picos::from_millis(20);
/// Largest number of frames of the device in a check. A device that floods the link reaches it.
const FRAMES_MAX: u64 = 3_000_000;
/// Largest number of MAC control frames of the device in a check.
const CONTROL_FRAMES_MAX: usize = 100_000;
/// Length of the shortest frame without FCS, in bytes.
const SHORTEST_FRAME: usize = 60;

/// The port of the instrument and the device, connected by a network port. Frames are sent when they are due on the
/// clock, and have the times of the clock.
pub(crate) struct RealTimeLink<'a> {
    access: &'a mut dyn PortAccess,
    port: StimulusPort,
    link: LinkTiming,
    timing: MediumTiming,
    device_mac: [u8; 6],
    /// The clock at the start of the check.
    started_at: Picos,
    now: Picos,
    /// The latest time at which the link was expected to read the clock again.
    expected_at: Picos,
    /// Delays of wake-ups and of the reception of frames.
    delays: DelayLog,
    received_frames: u64,
    arrived: Vec<ArrivedFrame>,
    /// End of the last received frame. The times of the kernel can go back by a little if its clock is corrected.
    last_arrival: Picos,
    last_sent: (u64, Picos),
    /// The reply of the far host to the last request.
    reply: Option<FarHostReply>,
    awaits_reply: bool,
}

impl<'a> RealTimeLink<'a> {
    pub(crate) fn new(
        link: LinkTiming,
        device_mac: [u8; 6],
        access: &'a mut dyn PortAccess,
    ) -> Result<RealTimeLink<'a>, HostConfigError> {
        let port = StimulusPort::new(link, device_mac)?;
        let started_at = access.now();
        Ok(RealTimeLink {
            access,
            port,
            link,
            timing: MediumTiming::real_time(link.speed_mbps),
            device_mac,
            started_at,
            now: Picos::ZERO,
            expected_at: Picos::ZERO,
            delays: DelayLog::default(),
            received_frames: 0,
            arrived: Vec::new(),
            last_arrival: Picos::ZERO,
            last_sent: (0, Picos::ZERO),
            reply: None,
            awaits_reply: false,
        })
    }

    fn read_clock(&mut self) {
        self.now = self.access.now().since(self.started_at).max(self.now);
        let late = self.now.since(self.expected_at);
        self.delays.add(self.now, late, self.timing.tolerance);
        self.expected_at = self.now;
    }

    /// Receives all waiting frames. Returns the kinds of the events as a mask.
    fn receive(&mut self, observations: &mut Observations) -> Result<u16, MediumError> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let received = self.access.receive(&mut arrived);
        let mut events = 0;
        for frame in arrived.drain(..) {
            let end = frame.at.since(self.started_at).max(self.last_arrival);
            self.last_arrival = end;
            let late = self.now.since(end);
            self.delays.add(self.now, late, self.timing.tolerance);
            self.received_frames += 1;
            let frame = LinkFrame::new(frame.bytes);
            let start = end.since(frame.duration(&self.link));
            let event = observations.record(start, end, frame.bytes);
            if event == CONTROL_EVENT
                && let Some(control) = observations.control.last()
            {
                self.port.receive_control(self.now, &control.bytes);
            }
            events |= event;
        }
        self.arrived = arrived;
        received?;
        if self.received_frames > FRAMES_MAX || observations.control.len() > CONTROL_FRAMES_MAX {
            let frames = count_noun(self.received_frames, "frame");
            let control = count_noun(observations.control.len() as u64, "MAC control frame");
            return Err(format!("the device floods the link: {frames}, {control}").into());
        }
        Ok(events)
    }

    /// Sends all frames that are due. Returns the kinds of the events as a mask.
    fn send_due_frames(&mut self, observations: &mut Observations) -> Result<u16, MediumError> {
        let mut events = 0;
        while self.port.next_departure() <= self.now {
            let Some(departure) = self.port.transmit(self.now) else {
                break;
            };
            let mut bytes = departure.frame.bytes;
            if departure.frame.defect.is_none() && bytes.len() < SHORTEST_FRAME {
                bytes.resize(SHORTEST_FRAME, 0);
            }
            let accepted_at = self.access.send(&bytes)?.since(self.started_at);
            let end = accepted_at.max(departure.end);
            observations.record_sent(end, &bytes);
            if let Some(number) = departure.number {
                self.last_sent = (number, end);
                events |= SENT_EVENT;
            }
        }
        Ok(events)
    }

    /// Processes the events until `until`, until the first event, or until a reply.
    fn process_events(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, MediumError> {
        loop {
            if self.access.is_interrupted() {
                return Err(MediumError::Interrupted);
            }
            self.read_clock();
            let events = self.receive(observations)? | self.send_due_frames(observations)?;
            if self.awaits_reply && self.reply.is_none() {
                self.reply = self.access.receive_reply()?;
            }
            if events != 0 || self.now >= until || self.reply.is_some() {
                return Ok(events);
            }
            let next = until
                .min(self.port.next_departure())
                .min(self.now.saturating_add(WAIT_MAX));
            self.expected_at = next.max(self.now);
            // The thread stays awake before a frame whose time matters.
            let asleep_until = next.min(self.port.next_scheduled().since(AWAKE_TIME));
            if asleep_until > self.now {
                self.access.wait(self.started_at.saturating_add(asleep_until));
            }
        }
    }

    /// Sends a request to the far host, and carries frames until its reply.
    pub(crate) fn call(
        &mut self,
        request: &FarHostRequest,
        observations: &mut Observations,
    ) -> Answer<FarHostReply> {
        if !self.access.has_far_host() {
            let reason = "no program runs at the far end: --device is not given, or --adapter is none";
            return Ok(Err(Unsupported(reason.to_owned())));
        }
        // Further requests to a far host that does not answer would fill its pipe, and the run would wait for ever.
        if self.access.is_interrupted() {
            return Err(MediumError::Interrupted);
        }
        self.access.send_request(request)?;
        let deadline = self.now + REPLY_MAX;
        self.awaits_reply = true;
        while self.reply.is_none() && self.now < deadline {
            self.process_events(deadline, observations)?;
        }
        self.awaits_reply = false;
        match self.reply.take() {
            Some(FarHostReply::Unsupported(reason)) => Ok(Err(Unsupported(reason))),
            Some(reply) => Ok(Ok(reply)),
            None => Err("the far host gives no answer within 10 s".to_owned().into()),
        }
    }
}

fn wrong_reply() -> MediumError {
    MediumError::Failed("the far host gave a wrong answer".to_owned())
}

impl Medium for RealTimeLink<'_> {
    fn now(&self) -> Picos {
        self.now
    }

    fn timing(&self) -> MediumTiming {
        self.timing
    }

    fn device_mac(&self) -> [u8; 6] {
        self.device_mac
    }

    fn port(&mut self) -> &mut StimulusPort {
        &mut self.port
    }

    fn last_sent(&self) -> (u64, Picos) {
        self.last_sent
    }

    fn step(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, MediumError> {
        self.process_events(until, observations)
    }

    fn operate(&mut self, operation: Operation, observations: &mut Observations) -> Answer<()> {
        match self.call(&FarHostRequest::Operate(operation), observations)? {
            Ok(FarHostReply::Done) => Ok(Ok(())),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn counters(&mut self, observations: &mut Observations) -> Answer<Counters> {
        match self.call(&FarHostRequest::ReadCounters, observations)? {
            Ok(FarHostReply::Counters(counters)) => Ok(Ok(*counters)),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn settings(&mut self, observations: &mut Observations) -> Answer<Settings> {
        match self.call(&FarHostRequest::ReadSettings, observations)? {
            Ok(FarHostReply::Settings(settings)) => Ok(Ok(settings.into())),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn carries(&self, defect: Defect) -> bool {
        self.access.carries(defect)
    }

    fn find_disturbance(
        &mut self,
        measurement: Option<TimeMeasurement>,
        observations: &mut Observations,
    ) -> Result<Option<String>, MediumError> {
        let tolerated = match measurement {
            Some(measurement) => measurement.excess.max(self.timing.tolerance),
            None => GROSS_DELAY,
        };
        let busy_time = Picos(self.now.0 / BUSY_DIVISOR);
        let find_delay = |log: &DelayLog, error: Picos| match measurement {
            Some(TimeMeasurement { from, until, .. }) => {
                let total = log.total_in(Picos::ZERO, Picos::NEVER);
                match total > busy_time {
                    true => total.max(tolerated + Picos(1)),
                    false => log.total_in(from.since(error), until.saturating_add(error)),
                }
            }
            None => log.longest(),
        };
        let mut delay = find_delay(&self.delays, Picos::ZERO);
        let mut lost = self.access.count_lost_frames();
        let mut place = "the instrument";
        if self.access.has_far_host()
            && let Ok(FarHostReply::Disturbance {
                delays_ns,
                lost_frames,
            }) = self.call(&FarHostRequest::ReadDisturbance, observations)?
        {
            lost += lost_frames;
            let mut far = DelayLog::default();
            for [age_ns, length_ns] in delays_ns {
                let at = self.now.since(Picos::from_nanos(age_ns));
                far.add(at, Picos::from_nanos(length_ns), self.timing.tolerance);
            }
            // The reply took some time, so the times of the far host are uncertain.
            let far_delay = find_delay(&far, CLOCK_ERROR);
            if far_delay > delay {
                (delay, place) = (far_delay, "the far host");
            }
        }
        let micros = |span: Picos| span.0 / 1_000_000;
        Ok(match () {
            () if lost > 0 => Some(format!("the ports lost {}", count_noun(lost, "frame"))),
            () if delay > tolerated => Some(format!(
                "the delays of {place} are {} us, tolerated are {} us",
                micros(delay),
                micros(tolerated)
            )),
            () => None,
        })
    }
}
