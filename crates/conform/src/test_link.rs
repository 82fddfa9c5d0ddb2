//! The link between the port of the instrument and the device, in virtual time.

use std::collections::VecDeque;

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos, count_noun};

use crate::device::{Counters, DeviceUnderTest, Operation, Settings, Unsupported};
use crate::link_frame::{Defect, LinkFrame};
use crate::medium::{Answer, Medium, MediumError};
use crate::observation::{CONTROL_EVENT, Observations, SENT_EVENT};
use crate::step::TimeMeasurement;
use crate::stimulus_port::StimulusPort;
use crate::timing::MediumTiming;

/// Largest number of frames of the device that wait for its link. A device that sends faster than its link
/// reaches it.
const WAITING_FRAMES_MAX: usize = 4_096;
/// Time after which a device is called again whose deadline does not advance.
const STUCK_DEVICE_DELAY: Picos = Picos::from_nanos(1_000);

/// A frame in flight.
#[derive(Debug)]
struct InFlight {
    start: Picos,
    end: Picos,
    frame: LinkFrame,
}

/// The port of the instrument and the device, connected by a link without delay. Each direction carries one frame at
/// a time.
pub(crate) struct TestLink {
    now: Picos,
    device: Box<dyn DeviceUnderTest>,
    port: StimulusPort,
    link: LinkTiming,
    to_device: VecDeque<InFlight>,
    from_device: VecDeque<InFlight>,
    device_free_at: Picos,
    /// The next call of the device.
    device_due: Picos,
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
            device,
            link,
            to_device: VecDeque::new(),
            from_device: VecDeque::new(),
            device_free_at: Picos::ZERO,
            device_due: Picos::ZERO,
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
            .min(self.device_due)
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
        if self.device_due <= next {
            self.call_device()?;
        }
        Ok(events)
    }

    /// Delivers all frames whose last bit has arrived.
    fn deliver(&mut self, observations: &mut Observations) -> u16 {
        let mut events = 0;
        while let Some(arrived) = self.to_device.pop_front_if(|frame| frame.end <= self.now) {
            self.device.receive(self.now, arrived.frame);
            self.device_due = self.now;
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
        while let Some(frame) = self.device.transmit(self.now) {
            let start = self.now.max(self.device_free_at);
            let end = start + frame.duration(&self.link);
            self.device_free_at = start + frame.occupied(&self.link);
            self.from_device.push_back(InFlight { start, end, frame });
            if self.from_device.len() > WAITING_FRAMES_MAX {
                let frames = count_noun(self.from_device.len() as u64, "frame");
                return Err(format!(
                    "the device sends more than its link can carry: {frames} wait"
                ));
            }
        }
        let deadline = self.device.next_deadline();
        self.device_due = match deadline > self.now {
            true => deadline,
            false => self.now.saturating_add(STUCK_DEVICE_DELAY),
        };
        Ok(())
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
        self.device.mac()
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
        let result: Result<(), Unsupported> = self.device.operate(self.now, operation);
        // The device was changed, so its next deadline must be read again.
        self.device_due = self.now;
        Ok(result)
    }

    fn counters(&mut self, _: &mut Observations) -> Answer<Counters> {
        Ok(self.device.counters(self.now))
    }

    fn settings(&mut self, _: &mut Observations) -> Answer<Settings> {
        Ok(self.device.settings(self.now))
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
            .field("device", &self.device.name())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
