//! The link between the port of the instrument and a device in another program, in virtual time.

use std::collections::VecDeque;

use xoff_host::HostConfigError;
use xoff_lockstep::{Connection, Frame, HostRequest, LinkError, Message, OrderError, Reply, ReplyBody};
use xoff_units::{LinkTiming, Picos};

use crate::device::{Counters, Operation, Settings, Unsupported};
use crate::device_port::InFlight;
use crate::link_frame::{Defect, LinkFrame};
use crate::lockstep_frame::{from_wire_bytes, to_wire_bytes};
use crate::lockstep_request::{to_counters, to_request, to_settings};
use crate::medium::{Answer, Medium, MediumError};
use crate::observation::{CONTROL_EVENT, Observations, SENT_EVENT};
use crate::step::TimeMeasurement;
use crate::stimulus_port::StimulusPort;
use crate::timing::MediumTiming;

/// Longest time of a request in virtual time.
const REQUEST_MAX: Picos = Picos::from_millis(1_000);
/// Largest memory of the frames that wait until the device grants their time, in bytes: about 20 ms at 400 Gb/s.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// The device of a check after its reset.
#[derive(Clone, Debug)]
pub(crate) struct LockstepDevice {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    /// Start of the check in the time of the connection.
    pub(crate) epoch: Picos,
}

/// The port of the instrument, and a device at the other end of a connection.
pub(crate) struct LockstepLink<'a> {
    connection: &'a mut Connection,
    device: LockstepDevice,
    /// A data frame of each class of the device.
    frames: &'a [Vec<u8>],
    port: StimulusPort,
    now: Picos,
    from_device: VecDeque<InFlight>,
    /// Memory of `from_device` in bytes.
    waiting_bytes: usize,
    /// The latest last bit of all frames.
    last_bit: Picos,
    last_sent: (u64, Picos),
    reply: Option<Reply>,
    /// Number of frames of the device with a wrong FCS or the error flag.
    damaged_frames: u64,
    /// The reason why the connection does not work any more.
    failure: Option<LinkError>,
}

/// Returns the memory of a waiting frame in bytes.
fn memory_bytes(frame: &LinkFrame) -> usize {
    size_of::<InFlight>() + frame.bytes.len()
}

/// Converts a time of the connection. [`Picos::NEVER`] remains.
fn since_epoch(time_ps: u64, epoch: Picos) -> Picos {
    match time_ps {
        u64::MAX => Picos::NEVER,
        time_ps => Picos(time_ps).since(epoch),
    }
}

impl<'a> LockstepLink<'a> {
    pub(crate) fn new(
        link: LinkTiming,
        connection: &'a mut Connection,
        device: LockstepDevice,
        frames: &'a [Vec<u8>],
    ) -> Result<LockstepLink<'a>, HostConfigError> {
        Ok(LockstepLink {
            connection,
            port: StimulusPort::new(link, device.mac)?,
            device,
            frames,
            now: Picos::ZERO,
            from_device: VecDeque::new(),
            waiting_bytes: 0,
            last_bit: Picos::ZERO,
            last_sent: (0, Picos::ZERO),
            reply: None,
            damaged_frames: 0,
            failure: None,
        })
    }

    /// Returns the time of the connection after all frames.
    pub(crate) fn end(&self) -> Picos {
        self.to_connection(self.now.max(self.last_bit))
    }

    /// Returns the number of frames of the device with a wrong FCS or the error flag.
    pub(crate) fn damaged_frames(&self) -> u64 {
        self.damaged_frames
    }

    /// Returns the reason why the connection does not work any more.
    pub(crate) fn failure(&self) -> Option<&LinkError> {
        self.failure.as_ref()
    }

    fn to_connection(&self, time: Picos) -> Picos {
        self.device.epoch.saturating_add(time)
    }

    /// Waits for a message of the device.
    fn receive(&mut self) -> Result<(), LinkError> {
        match self.connection.receive()? {
            Message::Grant(_) => {}
            Message::Reply(reply) => self.reply = Some(reply),
            Message::Frame(frame) => {
                let [start, end] = [frame.first_bit_ps, frame.last_bit_ps]
                    .map(|time_ps| since_epoch(time_ps, self.device.epoch));
                let frame = from_wire_bytes(frame.bytes, frame.has_error);
                self.waiting_bytes += memory_bytes(&frame);
                if self.waiting_bytes > WAITING_BYTES_MAX {
                    return Err(LinkError::Order(OrderError::UngrantedFrames(WAITING_BYTES_MAX)));
                }
                self.last_bit = self.last_bit.max(end);
                self.from_device.push_back(InFlight { start, end, frame });
            }
            message => {
                return Err(LinkError::Order(OrderError::NotPermitted {
                    kind: message.kind_name(),
                    rule: "a simulator sends FRAME, GRANT, REPLY and BYE",
                }));
            }
        }
        Ok(())
    }

    /// Processes the events of the next time, or advances to `until` if there are none before. Returns early with a
    /// reply. Returns the kinds of the events as a mask.
    fn process_events(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, LinkError> {
        loop {
            let arrival = self.from_device.front().map_or(Picos::NEVER, |frame| frame.end);
            let next = arrival.min(self.port.next_departure()).max(self.now);
            let target = next.min(until);
            let state = self.connection.state();
            let waits_for_reply = state.awaits_reply() && !state.is_counted();
            if since_epoch(state.horizon(), self.device.epoch) < target || waits_for_reply {
                let target = self.to_connection(target);
                self.connection.grant_until(target.0)?;
                self.receive()?;
                match self.reply {
                    Some(_) => return Ok(0),
                    None => continue,
                }
            }
            if next > until {
                self.now = until;
                return Ok(0);
            }
            self.now = next;
            return Ok(self.deliver(observations) | self.send_due_frame(observations)?);
        }
    }

    /// Records all frames of the device whose last bit has arrived.
    fn deliver(&mut self, observations: &mut Observations) -> u16 {
        let mut events = 0;
        while let Some(arrived) = self.from_device.pop_front_if(|frame| frame.end <= self.now) {
            self.waiting_bytes -= memory_bytes(&arrived.frame);
            if arrived.frame.defect == Some(Defect::WrongFcs) {
                self.damaged_frames += 1;
                continue;
            }
            let event = observations.record(arrived.start, arrived.end, arrived.frame.bytes);
            if event == CONTROL_EVENT
                && let Some(control) = observations.control.last()
            {
                self.port.receive_control(self.now, &control.bytes);
            }
            events |= event;
        }
        events
    }

    /// Sends the frame that leaves the port of the instrument now.
    fn send_due_frame(&mut self, observations: &mut Observations) -> Result<u16, LinkError> {
        if self.port.next_departure() > self.now {
            return Ok(0);
        }
        let Some(departure) = self.port.transmit(self.now) else {
            return Ok(0);
        };
        observations.record_sent(departure.end, &departure.frame.bytes);
        self.last_bit = self.last_bit.max(departure.end);
        let frame = Message::Frame(Frame {
            first_bit_ps: self.to_connection(self.now).0,
            last_bit_ps: self.to_connection(departure.end).0,
            has_error: false,
            bytes: to_wire_bytes(&departure.frame),
        });
        self.connection.send(&frame)?;
        match departure.number {
            Some(number) => {
                self.last_sent = (number, departure.end);
                Ok(SENT_EVENT)
            }
            None => Ok(0),
        }
    }

    /// Sends a request to the host of the device, and carries frames until its reply.
    fn call(&mut self, request: HostRequest, observations: &mut Observations) -> Answer<ReplyBody> {
        let message = Message::Request {
            time_ps: self.to_connection(self.now).0,
            request,
        };
        let sent = self.connection.send(&message);
        self.keep_failure(sent)?;
        let deadline = self.now + REQUEST_MAX;
        while self.reply.is_none() && self.now < deadline {
            let result = self.process_events(deadline, observations);
            self.keep_failure(result)?;
        }
        let Some(reply) = self.reply.take() else {
            return Err("the device gives no answer within 1 s of virtual time"
                .to_owned()
                .into());
        };
        // The operation takes effect at the time of the reply, for example at the next clock edge of the device.
        let replied_at = since_epoch(reply.time_ps, self.device.epoch);
        while self.now < replied_at {
            let result = self.process_events(replied_at, observations);
            self.keep_failure(result)?;
        }
        match reply.body {
            ReplyBody::Unsupported(reason) => Ok(Err(Unsupported(reason))),
            body => Ok(Ok(body)),
        }
    }

    /// Keeps the reason why the connection does not work any more.
    fn keep_failure<T>(&mut self, result: Result<T, LinkError>) -> Result<T, MediumError> {
        result.map_err(|error| {
            self.failure = Some(error.clone());
            match error {
                LinkError::Interrupted => MediumError::Interrupted,
                error => MediumError::Failed(error.to_string()),
            }
        })
    }
}

fn wrong_reply() -> MediumError {
    MediumError::Failed("the device answers a request in the form of another request".to_owned())
}

impl Medium for LockstepLink<'_> {
    fn now(&self) -> Picos {
        self.now
    }

    fn timing(&self) -> MediumTiming {
        MediumTiming::EXACT
    }

    fn device_mac(&self) -> [u8; 6] {
        self.device.mac
    }

    fn port(&mut self) -> &mut StimulusPort {
        &mut self.port
    }

    fn last_sent(&self) -> (u64, Picos) {
        self.last_sent
    }

    fn step(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, MediumError> {
        let result = self.process_events(until, observations);
        self.keep_failure(result)
    }

    fn operate(&mut self, operation: Operation, observations: &mut Observations) -> Answer<()> {
        let request = to_request(operation, self.frames);
        match self.call(request, observations)? {
            Ok(ReplyBody::Done) => Ok(Ok(())),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn counters(&mut self, observations: &mut Observations) -> Answer<Counters> {
        match self.call(HostRequest::ReadCounters, observations)? {
            Ok(ReplyBody::Counters(values)) => Ok(Ok(to_counters(&values))),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn settings(&mut self, observations: &mut Observations) -> Answer<Settings> {
        match self.call(HostRequest::ReadSettings, observations)? {
            Ok(ReplyBody::Settings(values)) => Ok(Ok(to_settings(&values))),
            Ok(_) => Err(wrong_reply()),
            Err(unsupported) => Ok(Err(unsupported)),
        }
    }

    fn carries(&self, _: Defect) -> bool {
        true
    }

    fn find_disturbance(
        &mut self,
        _: Option<TimeMeasurement>,
        _: &mut Observations,
    ) -> Result<Option<String>, MediumError> {
        Ok(None)
    }
}
