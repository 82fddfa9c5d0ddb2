//! The model device or a mutant at a connection in lock step.

use std::collections::VecDeque;

use xoff_lockstep::{Connection, Frame, HostRequest, LinkError, Message, OrderError, Reply, ReplyBody};
use xoff_units::{LinkTiming, Picos};

use crate::device_port::{DevicePort, InFlight};
use crate::lockstep_frame::{from_wire_bytes, to_wire_bytes};
use crate::lockstep_request::{from_counters, from_settings, to_operation};
use crate::model::all_mutants;
use crate::session::make_device;

/// Runs the model device, or the mutant that a reset names, until the peer is done.
///
/// # Errors
/// The peer breaks a rule or has ended.
pub fn serve_lockstep_device(connection: &mut Connection) -> Result<(), LinkError> {
    let mut server = DeviceServer {
        connection,
        device: None,
        epoch: Picos::ZERO,
        to_device: VecDeque::new(),
    };
    match server.serve() {
        Err(LinkError::Done) => Ok(()),
        result => result,
    }
}

/// The device with the frames that are on their way to it.
struct DeviceServer<'a> {
    connection: &'a mut Connection,
    device: Option<DevicePort>,
    /// Time of the last reset in the time of the connection. The time of the device starts there.
    epoch: Picos,
    to_device: VecDeque<InFlight>,
}

impl DeviceServer<'_> {
    fn serve(&mut self) -> Result<(), LinkError> {
        loop {
            let next = self.next_event();
            if next != Picos::NEVER && next <= self.to_local(self.connection.state().horizon()) {
                self.process_events(next)?;
                continue;
            }
            if self.device.is_some() {
                self.connection.grant_until(self.epoch.saturating_add(next).0)?;
            }
            let message = self.connection.receive()?;
            self.handle_message(message)?;
        }
    }

    fn to_local(&self, time_ps: u64) -> Picos {
        Picos(time_ps).since(self.epoch)
    }

    /// Returns the time of the next event if no further message arrives.
    fn next_event(&self) -> Picos {
        let due = self.device.as_ref().map_or(Picos::NEVER, DevicePort::due);
        self.to_device.front().map_or(due, |frame| frame.end.min(due))
    }

    /// Processes all events of a time.
    fn process_events(&mut self, now: Picos) -> Result<(), LinkError> {
        let Some(device) = &mut self.device else {
            return Ok(());
        };
        while let Some(arrived) = self.to_device.pop_front_if(|frame| frame.end <= now) {
            device.receive(now, arrived.frame);
        }
        if device.due() > now {
            return Ok(());
        }
        let (connection, epoch) = (&mut *self.connection, self.epoch);
        device.transmit(now, |sent| {
            connection.send(&Message::Frame(Frame {
                first_bit_ps: epoch.saturating_add(sent.start).0,
                last_bit_ps: epoch.saturating_add(sent.end).0,
                has_error: false,
                bytes: to_wire_bytes(&sent.frame),
            }))
        })
    }

    fn handle_message(&mut self, message: Message) -> Result<(), LinkError> {
        match message {
            Message::Grant(_) => Ok(()),
            Message::Frame(frame) => {
                let [start, end] =
                    [frame.first_bit_ps, frame.last_bit_ps].map(|time_ps| self.to_local(time_ps));
                let frame = from_wire_bytes(frame.bytes, frame.has_error);
                self.to_device.push_back(InFlight { start, end, frame });
                Ok(())
            }
            Message::Reset {
                time_ps,
                speed_bps,
                mutant,
            } => {
                self.epoch = Picos(time_ps);
                self.to_device.clear();
                let body = self.start(speed_bps, &mutant);
                self.reply(time_ps, body)
            }
            Message::Request { time_ps, request } => {
                let now = self.to_local(time_ps);
                while self.next_event() <= now {
                    let next = self.next_event();
                    self.process_events(next)?;
                }
                let body = self.execute(now, &request);
                self.reply(time_ps, body)
            }
            message => Err(LinkError::Order(OrderError::NotPermitted {
                kind: message.kind_name(),
                rule: "the peer of a device sends FRAME, GRANT, RESET, REQUEST and BYE",
            })),
        }
    }

    fn reply(&mut self, time_ps: u64, body: ReplyBody) -> Result<(), LinkError> {
        self.connection.send(&Message::Reply(Reply { time_ps, body }))
    }

    /// Replaces the device.
    fn start(&mut self, speed_bps: u64, mutant: &str) -> ReplyBody {
        self.device = None;
        let found = all_mutants().find(|candidate| candidate.name == mutant);
        if found.is_none() && !mutant.is_empty() {
            return ReplyBody::Unsupported(format!("the model device has no mutant `{mutant}`"));
        }
        let speed_mbps = u32::try_from(speed_bps / 1_000_000).unwrap_or(u32::MAX);
        let link = LinkTiming::ethernet(speed_mbps);
        match make_device(found, link) {
            Ok(device) => {
                let started = ReplyBody::Started {
                    mac: device.mac(),
                    name: device.name(),
                };
                self.device = Some(DevicePort::new(device, link));
                started
            }
            Err(error) => ReplyBody::Unsupported(error.to_string()),
        }
    }

    fn execute(&mut self, now: Picos, request: &HostRequest) -> ReplyBody {
        let Some(device) = &mut self.device else {
            return ReplyBody::Unsupported("the device was not started by a RESET message".to_owned());
        };
        let unsupported = |reason: crate::device::Unsupported| ReplyBody::Unsupported(reason.0);
        if let Some(operation) = to_operation(request) {
            let result = device.operate(now, operation);
            return result.map_or_else(unsupported, |()| ReplyBody::Done);
        }
        match request {
            HostRequest::ReadCounters => {
                let counters = device.device().counters(now);
                counters.map_or_else(unsupported, |counters| {
                    ReplyBody::Counters(Box::new(from_counters(&counters)))
                })
            }
            _ => {
                let settings = device.device().settings(now);
                settings.map_or_else(unsupported, |settings| {
                    ReplyBody::Settings(from_settings(&settings))
                })
            }
        }
    }
}
