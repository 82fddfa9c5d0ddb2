//! The port of the instrument: frames at given times, and data frames of a generator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_host::{FlowRate, Host, HostConfigError};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::PRIORITIES;
use xoff_wire::parse::parse;

use crate::link_frame::LinkFrame;
use crate::traffic::{INSTRUMENT_MAC, flow_of_class, traffic_host};

/// A change of the generator of data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeneratorCommand {
    /// Send data frames of a class.
    Start {
        /// The class, 0 to 7.
        class: u8,
        /// Share of the link in thousandths.
        share_permille: u32,
        /// True: the frames have a priority tag with the class as PCP, and the DSCP of class 3.
        is_tagged: bool,
    },
    /// Stop the data frames of all classes.
    Stop,
    /// Honour the PFC frames of the device for these priorities. Bit *n* is priority *n*.
    SetPfc(u8),
    /// The time from the arrival of a PFC frame to its effect.
    SetResponseTime(Picos),
}

/// A frame that waits for its time.
#[derive(Debug)]
struct ScheduledFrame {
    /// Time and number of the frame. Frames with equal times leave in the order of their numbers.
    order: Reverse<(Picos, u64)>,
    frame: LinkFrame,
}

impl PartialEq for ScheduledFrame {
    fn eq(&self, other: &ScheduledFrame) -> bool {
        self.order == other.order
    }
}

impl Eq for ScheduledFrame {}

impl PartialOrd for ScheduledFrame {
    fn partial_cmp(&self, other: &ScheduledFrame) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledFrame {
    fn cmp(&self, other: &ScheduledFrame) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// The port of the instrument. It sends one frame at a time at link speed. Scheduled frames leave before data frames.
#[derive(Debug)]
pub(crate) struct StimulusPort {
    link: LinkTiming,
    free_at: Picos,
    scheduled: BinaryHeap<ScheduledFrame>,
    scheduled_count: u64,
    generator: Host,
    buffer: Vec<u8>,
}

/// A frame that leaves the port.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) frame: LinkFrame,
    /// The time of the last bit.
    pub(crate) end: Picos,
    /// The number of a scheduled frame. `None` for a data frame.
    pub(crate) number: Option<u64>,
}

impl StimulusPort {
    /// Creates the port. `device_mac` is the destination of the data frames.
    pub(crate) fn new(link: LinkTiming, device_mac: [u8; 6]) -> Result<StimulusPort, HostConfigError> {
        let generator = Host::new(&traffic_host("instrument", INSTRUMENT_MAC, device_mac, link))?;
        Ok(StimulusPort {
            link,
            free_at: Picos::ZERO,
            scheduled: BinaryHeap::new(),
            scheduled_count: 0,
            buffer: vec![0; generator.frame_len_max()],
            generator,
        })
    }

    /// Schedules a frame and returns its number. The transmission starts at `at`, or later if the link is busy.
    pub(crate) fn schedule(&mut self, at: Picos, frame: LinkFrame) -> u64 {
        self.scheduled_count += 1;
        let number = self.scheduled_count;
        self.scheduled.push(ScheduledFrame {
            order: Reverse((at, number)),
            frame,
        });
        number
    }

    /// Removes all scheduled frames.
    pub(crate) fn cancel_scheduled(&mut self) {
        self.scheduled.clear();
    }

    pub(crate) fn command(&mut self, now: Picos, command: GeneratorCommand) {
        match command {
            GeneratorCommand::Start {
                class,
                share_permille,
                is_tagged,
            } => {
                let flow = flow_of_class(class, is_tagged);
                let rate = FlowRate::LinkShare((share_permille * 1_000).clamp(1, 1_000_000));
                let is_known =
                    self.generator.set_flow_rate(flow, rate) && self.generator.start_flow(now, flow);
                debug_assert!(is_known, "the generator has a flow of each class");
            }
            GeneratorCommand::Stop => self.generator.stop(),
            GeneratorCommand::SetPfc(honoured) => self.generator.set_pfc(now, honoured),
            GeneratorCommand::SetResponseTime(response) => self.generator.set_response_time(response),
        }
    }

    /// Processes a MAC control frame of the device.
    pub(crate) fn receive_control(&mut self, now: Picos, bytes: &[u8]) {
        self.generator.receive(now, now.as_nanos(), bytes, &parse(bytes));
    }

    /// Returns the number of data frames that the generator has sent, by class. Tagged frames are not included.
    pub(crate) fn generated_frames(&self) -> [u64; PRIORITIES] {
        let sent = |class| self.generator.sent_flow(flow_of_class(class as u8, false));
        std::array::from_fn(|class| sent(class).map_or(0, |flow| flow.sent_frames))
    }

    /// Returns the time at which the next frame can leave, or at which the generator must be called.
    pub(crate) fn next_departure(&self) -> Picos {
        let scheduled = self
            .scheduled
            .peek()
            .map_or(Picos::NEVER, |frame| frame.order.0.0);
        scheduled.min(self.generator.next_deadline()).max(self.free_at)
    }

    /// Returns the time at which the next scheduled frame can leave.
    pub(crate) fn next_scheduled(&self) -> Picos {
        let scheduled = self.scheduled.peek();
        scheduled.map_or(Picos::NEVER, |frame| frame.order.0.0.max(self.free_at))
    }

    /// Returns the frame whose transmission starts at `now`.
    pub(crate) fn transmit(&mut self, now: Picos) -> Option<Departure> {
        if now < self.free_at {
            return None;
        }
        let is_due = |frame: &ScheduledFrame| frame.order.0.0 <= now;
        let (frame, number) = match self.scheduled.peek().is_some_and(is_due) {
            true => {
                let scheduled = self.scheduled.pop()?;
                (scheduled.frame, Some(scheduled.order.0.1))
            }
            false => {
                let frame_len = self.generator.transmit(now, now.as_nanos(), &mut self.buffer)?;
                (LinkFrame::new(self.buffer[..frame_len].to_vec()), None)
            }
        };
        self.free_at = now + frame.occupied(&self.link);
        let end = now + frame.duration(&self.link);
        Some(Departure { frame, end, number })
    }
}
