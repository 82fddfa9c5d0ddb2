//! A model device behind a network port: executes the requests of the instrument in real time.

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos};

use crate::delay_log::DelayLog;
use crate::device::DeviceUnderTest;
use crate::far_host::{FarHostReply, FarHostRequest, SettingsMessage};
use crate::link_frame::{Defect, LinkFrame};
use crate::model::{ModelDevice, MutantDevice, all_mutants};
use crate::timing::TOLERANCE;

/// Length of the shortest frame without FCS, in bytes.
const SHORTEST_FRAME: usize = 60;
/// Time after which a device is called again whose deadline does not advance.
const STUCK_DEVICE_DELAY: Picos = Picos::from_nanos(1_000);

/// The model device or a mutant, with the frames that it has sent. The caller passes the time, the received frames and
/// the requests. Events are processed at their times, also if the caller is late.
#[derive(Default)]
pub struct ServedDevice {
    device: Option<Box<dyn DeviceUnderTest>>,
    now: Picos,
    /// The next call of the device.
    due: Picos,
    delays: DelayLog,
    lost_frames: u64,
}

impl std::fmt::Debug for ServedDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedDevice")
            .field("device", &self.device.as_ref().map(|device| device.name()))
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl ServedDevice {
    /// Returns the time of the next call of [`ServedDevice::advance`] if no frame and no request arrives.
    pub fn next_deadline(&self) -> Picos {
        match self.device {
            Some(_) => self.due,
            None => Picos::NEVER,
        }
    }

    /// Processes the deadlines until `now`, and calls `send` with each frame and the time at which its transmission
    /// starts.
    pub fn advance(&mut self, now: Picos, mut send: impl FnMut(Picos, &[u8])) {
        let Some(device) = &mut self.device else { return };
        while self.due <= now {
            self.now = self.now.max(self.due);
            while let Some(frame) = device.transmit(self.now) {
                send(self.now, &frame.bytes);
            }
            let deadline = device.next_deadline();
            self.due = match deadline > self.now {
                true => deadline,
                false => self.now.saturating_add(STUCK_DEVICE_DELAY),
            };
        }
    }

    /// Passes a frame to the device. Its last bit arrived at `at`.
    pub fn receive(&mut self, at: Picos, bytes: &[u8], send: impl FnMut(Picos, &[u8])) {
        self.advance(at, send);
        self.now = self.now.max(at);
        let Some(device) = &mut self.device else { return };
        let frame = LinkFrame {
            bytes: bytes.to_vec(),
            defect: (bytes.len() < SHORTEST_FRAME).then_some(Defect::Runt),
        };
        device.receive(self.now, frame);
        self.due = self.now;
    }

    /// Notes that a frame or a wake-up at `at` was late by `delay`.
    pub fn note_delay(&mut self, at: Picos, delay: Picos) {
        self.delays.add(at, delay, TOLERANCE);
    }

    /// Notes that the port has lost frames.
    pub fn note_lost_frames(&mut self, count: u64) {
        self.lost_frames += count;
    }

    /// Executes a request at `now`. The caller has called [`ServedDevice::advance`] with this time.
    pub fn execute(&mut self, now: Picos, request: FarHostRequest) -> FarHostReply {
        self.now = self.now.max(now);
        if let FarHostRequest::Start {
            speed_mbps, mutant, ..
        } = &request
        {
            return match self.start(LinkTiming::ethernet(*speed_mbps), mutant.as_deref()) {
                Ok(reply) => reply,
                Err(error) => FarHostReply::Unsupported(error.to_string()),
            };
        }
        if request == FarHostRequest::ReadDisturbance {
            return FarHostReply::Disturbance {
                delays_ns: self.delays_before(),
                lost_frames: self.lost_frames,
            };
        }
        let Some(device) = &mut self.device else {
            return FarHostReply::Unsupported("the device was not started".to_owned());
        };
        let unsupported = |reason: crate::device::Unsupported| FarHostReply::Unsupported(reason.0);
        match request {
            FarHostRequest::Operate(operation) => {
                let result = device.operate(self.now, operation);
                // The device was changed, so its next deadline must be read again.
                self.due = self.now;
                result.map_or_else(unsupported, |()| FarHostReply::Done)
            }
            FarHostRequest::ReadCounters => device
                .counters(self.now)
                .map_or_else(unsupported, |counters| FarHostReply::Counters(Box::new(counters))),
            FarHostRequest::ReadSettings => device.settings(self.now).map_or_else(unsupported, |settings| {
                FarHostReply::Settings(SettingsMessage::from(&settings))
            }),
            FarHostRequest::ReadDisturbance | FarHostRequest::Start { .. } => FarHostReply::Done,
        }
    }

    /// Returns the time since each delay and its length, in nanoseconds.
    fn delays_before(&self) -> Vec<[u64; 2]> {
        let delays = self.delays.delays().iter();
        delays
            .map(|delay| [self.now.since(delay.at).as_nanos(), delay.length.as_nanos()])
            .collect()
    }

    fn start(&mut self, link: LinkTiming, mutant: Option<&str>) -> Result<FarHostReply, HostConfigError> {
        let device: Box<dyn DeviceUnderTest> = match mutant {
            None => Box::new(ModelDevice::new(link)?),
            Some(name) => match all_mutants().find(|mutant| mutant.name == name) {
                Some(mutant) => Box::new(MutantDevice::new(mutant, link)?),
                None => return Ok(FarHostReply::Unsupported(format!("there is no mutant `{name}`"))),
            },
        };
        let started = FarHostReply::Started {
            name: device.name(),
            mac: device.mac(),
        };
        self.device = Some(device);
        self.due = self.now;
        self.delays = DelayLog::default();
        self.lost_frames = 0;
        Ok(started)
    }
}
