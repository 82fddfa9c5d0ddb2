//! The link between the port of the instrument and the device, in virtual time.

use std::collections::VecDeque;

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos, count_noun};

use crate::device::{Counters, DeviceUnderTest, Operation, Settings};
use crate::device_port::{DevicePort, InFlight};
use crate::link_frame::Defect;
use crate::medium::{Answer, Medium, MediumError};
use crate::observation::{CONTROL_EVENT, Observations, SENT_EVENT};
use crate::step::TimeMeasurement;
use crate::stimulus_port::StimulusPort;
use crate::timing::MediumTiming;

/// Largest number of frames of the device that wait for its link. A device that sends faster than its link
/// reaches it.
const WAITING_FRAMES_MAX: usize = 4_096;

/// The port of the instrument and the device, connected by a link without delay. Each direction carries one frame at
/// a time.
pub(crate) struct TestLink {
    now: Picos,
    device: DevicePort,
    port: StimulusPort,
    to_device: VecDeque<InFlight>,
    from_device: VecDeque<InFlight>,
    /// Number of the last scheduled frame that left, and its end.
    last_sent: (u64, Picos),
}

impl TestLink {
    pub(crate) fn new(
        link: LinkTiming,
        device: Box<dyn DeviceUnderTest>,
    ) -> Result<TestLink, HostConfigError> {
        Ok(TestLink {
            now: Picos::ZERO,
            port: StimulusPort::new(link, device.mac())?,
            device: DevicePort::new(device, link),
            to_device: VecDeque::new(),
            from_device: VecDeque::new(),
            last_sent: (0, Picos::ZERO),
        })
    }

    /// Processes the events of the next time, or advances to `until` if there are none before. Returns the kinds of
    /// the events as a mask.
    ///
    /// # Errors
    /// The device sends more than its link can carry.
    fn process_events(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, String> {
        let arrival = |frames: &VecDeque<InFlight>| frames.front().map_or(Picos::NEVER, |frame| frame.end);
        let next = arrival(&self.to_device)
            .min(arrival(&self.from_device))
            .min(self.port.next_departure())
            .min(self.device.due())
            .max(self.now);
        if next > until {
            self.now = until;
            return Ok(0);
        }
        self.now = next;
        let mut events = self.deliver(observations);
        if self.port.next_departure() <= next
            && let Some(departure) = self.port.transmit(next)
        {
            if let Some(number) = departure.number {
                self.last_sent = (number, departure.end);
                events |= SENT_EVENT;
            }
            observations.record_sent(departure.end, &departure.frame.bytes);
            self.to_device.push_back(InFlight {
                start: next,
                end: departure.end,
                frame: departure.frame,
            });
        }
        if self.device.due() <= next {
            self.call_device()?;
        }
        Ok(events)
    }

    /// Delivers all frames whose last bit has arrived.
    fn deliver(&mut self, observations: &mut Observations) -> u16 {
        let mut events = 0;
        while let Some(arrived) = self.to_device.pop_front_if(|frame| frame.end <= self.now) {
            self.device.receive(self.now, arrived.frame);
        }
        while let Some(arrived) = self.from_device.pop_front_if(|frame| frame.end <= self.now) {
            let bytes = arrived.frame.bytes;
            let event = observations.record(arrived.start, arrived.end, bytes);
            if event == CONTROL_EVENT
                && let Some(control) = observations.control.last()
            {
                self.port.receive_control(self.now, &control.bytes);
            }
            events |= event;
        }
        events
    }

    /// Takes the frames that the device sends now.
    fn call_device(&mut self) -> Result<(), String> {
        let from_device = &mut self.from_device;
        self.device.transmit(self.now, |frame| {
            from_device.push_back(frame);
            let waiting = from_device.len();
            match waiting > WAITING_FRAMES_MAX {
                true => Err(format!(
                    "the device sends more than its link can carry: {} wait",
                    count_noun(waiting as u64, "frame")
                )),
                false => Ok(()),
            }
        })
    }
}

impl Medium for TestLink {
    fn now(&self) -> Picos {
        self.now
    }

    fn timing(&self) -> MediumTiming {
        MediumTiming::EXACT
    }

    fn device_mac(&self) -> [u8; 6] {
        self.device.device().mac()
    }

    fn port(&mut self) -> &mut StimulusPort {
        &mut self.port
    }

    fn last_sent(&self) -> (u64, Picos) {
        self.last_sent
    }

    fn step(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, MediumError> {
        Ok(self.process_events(until, observations)?)
    }

    fn operate(&mut self, operation: Operation, _: &mut Observations) -> Answer<()> {
        Ok(self.device.operate(self.now, operation))
    }

    fn counters(&mut self, _: &mut Observations) -> Answer<Counters> {
        Ok(self.device.device().counters(self.now))
    }

    fn settings(&mut self, _: &mut Observations) -> Answer<Settings> {
        Ok(self.device.device().settings(self.now))
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

impl std::fmt::Debug for TestLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestLink")
            .field("now", &self.now)
            .field("device", &self.device.device().name())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
