//! The sending side of a tester port. The port sends one frame at a time. Each stream has its own rate, and
//! received pauses stop the streams of the port.

use std::collections::VecDeque;
use std::rc::Rc;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::PauseReceiver;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::parse::{ParsedHeaders, parse_prefix};

use super::frames::{FrameHeader, numbered_station_mac};
use super::traffic::{StreamDestination, TrafficStream};

/// Send times are computed in femtoseconds, so that rates stay exact over millions of frames.
const FEMTOS_PER_PICO: u128 = 1_000;

/// Header bytes of a stream's frames, for one frame length and one flow.
#[derive(Clone, Debug)]
pub(super) struct FrameTemplate {
    pub(super) bytes: Rc<[u8]>,
    pub(super) parsed: ParsedHeaders,
    pub(super) frame_len: u32,
}

/// Settings of the frame headers. All frames of a trial use them.
pub(super) struct HeaderSettings<'a> {
    /// Returns the switch port of a tester port.
    pub(super) switch_port: &'a dyn Fn(usize) -> u16,
    /// DSCP, or PCP if the frames are tagged.
    pub(super) class_code: u8,
    pub(super) is_tagged: bool,
}

impl HeaderSettings<'_> {
    fn build_template(&self, stream: &TrafficStream, variant: u32, frame_len: u32) -> FrameTemplate {
        let header = FrameHeader {
            to: match stream.to {
                StreamDestination::Port(port) => {
                    numbered_station_mac((self.switch_port)(port), variant % stream.targets)
                }
                StreamDestination::Broadcast => [0xff; 6],
            },
            from: numbered_station_mac((self.switch_port)(stream.from), variant % stream.sources),
            class_code: self.class_code,
            is_tagged: self.is_tagged,
            flow: (variant % u32::from(stream.flows)) as u16,
            frame_len,
        };
        let bytes: Rc<[u8]> = header.to_bytes().into();
        let parsed = parse_prefix(&bytes, frame_len as usize);
        FrameTemplate {
            bytes,
            parsed,
            frame_len,
        }
    }
}

/// The sender of one stream.
#[derive(Debug)]
pub(super) struct StreamSender {
    pub(super) stream: TrafficStream,
    pub(super) templates: Vec<FrameTemplate>,
    /// For each frame length: the transmission time on the link in picoseconds, and the interval to the next
    /// frame in femtoseconds.
    spans: Vec<(Picos, u128)>,
    lengths: usize,
    /// Number of different headers, which the frames use in turn.
    variants: u64,
    due_fs: u128,
    until: Picos,
    pub(super) sent: u64,
    /// Frames that were due but not sent before the stream ended.
    withheld: u64,
    is_over: bool,
}

impl StreamSender {
    /// Creates a sender for a trial that starts at `begin`. The first frame is delayed by `phase` frame
    /// intervals, where `phase` is at least 0 and below 1.
    pub(super) fn new(
        stream: TrafficStream,
        (begin, phase): (Picos, f64),
        headers: &HeaderSettings<'_>,
        link: &LinkTiming,
    ) -> StreamSender {
        let lengths = stream.size.lengths();
        let variants = u64::from(stream.flows)
            .max(u64::from(stream.sources))
            .max(u64::from(stream.targets));
        let templates = lengths
            .iter()
            .flat_map(|bytes| (0..variants).map(move |variant| (*bytes, variant)))
            .map(|(bytes, variant)| headers.build_template(&stream, variant as u32, bytes - link.fcs_bytes))
            .collect();
        let spans: Vec<(Picos, u128)> = lengths
            .iter()
            .map(|bytes| {
                let span = link.duration(link.wire_len(link.mac_len(bytes - link.fcs_bytes)));
                // The line rate is exact. Other rates are rounded to a femtosecond per frame.
                let interval = match stream.share >= 1.0 {
                    true => u128::from(span.0) * FEMTOS_PER_PICO,
                    false => (span.0 as f64 * FEMTOS_PER_PICO as f64 / stream.share).round() as u128,
                };
                (span, interval)
            })
            .collect();
        let first = begin.saturating_add(stream.start);
        StreamSender {
            stream,
            templates,
            lengths: lengths.len(),
            variants,
            due_fs: u128::from(first.0) * FEMTOS_PER_PICO + (spans[0].1 as f64 * phase) as u128,
            spans,
            until: begin.saturating_add(stream.until),
            sent: 0,
            withheld: 0,
            is_over: stream.frames == Some(0),
        }
    }

    fn due_time(&self) -> Picos {
        Picos((self.due_fs / FEMTOS_PER_PICO) as u64)
    }

    /// Advances the due time by one frame interval.
    fn advance_due_time(&mut self) {
        let number = self.sent + self.withheld;
        self.due_fs += self.spans[(number % self.lengths as u64) as usize].1;
    }

    /// Returns the template index and the link time of the next frame.
    pub(super) fn next_template(&self) -> (usize, Picos) {
        let length = (self.sent % self.lengths as u64) as usize;
        let variant = self.sent / self.lengths as u64 % self.variants;
        (
            length * self.variants as usize + variant as usize,
            self.spans[length].0,
        )
    }

    pub(super) fn count_sent_frame(&mut self) {
        self.advance_due_time();
        self.sent += 1;
        self.is_over |= self.stream.frames == Some(self.sent);
    }

    /// Ends the stream if its duration is over at `now`. Frames that were due before the end, but were not
    /// sent, are counted as withheld.
    fn close_if_over(&mut self, now: Picos) {
        if self.is_over || now < self.until {
            return;
        }
        self.is_over = true;
        while self.due_time() < self.until
            && self
                .stream
                .frames
                .is_none_or(|most| self.sent + self.withheld < most)
        {
            self.advance_due_time();
            self.withheld += 1;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the number of frames that the rate and the duration of the stream require. This number is the
    /// sum of the frames that were sent and the frames that a pause withheld. The number is final when the
    /// stream is over.
    pub(super) fn wanted_frames(&self) -> u64 {
        self.sent + self.withheld
    }
}

/// A received pause that has not taken effect.
#[derive(Clone, Copy, Debug)]
struct PendingPause {
    at: Picos,
    enable: u8,
    quanta: [u16; PRIORITIES],
}

/// The transmit side of a tester port.
#[derive(Debug)]
pub(super) struct PortSender {
    link: LinkTiming,
    free_at: Picos,
    /// Indices of the streams that the port sends.
    pub(super) streams: Vec<usize>,
    /// Time of the next scheduled [`PortSender::next_action`] call.
    pub(super) scheduled_at: Picos,
    pauses: PauseReceiver,
    pending: VecDeque<PendingPause>,
    /// The priorities that stop the port's frames when they are paused, as a bit mask.
    priorities: u8,
    honours_pauses: bool,
}

/// What a port does at the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendAction {
    /// Sends a frame of this stream.
    Send(usize),
    /// Waits until this time.
    Wait(Picos),
    /// Has nothing to send.
    Idle,
}

impl PortSender {
    pub(super) fn new(link: LinkTiming, priorities: u8, honours_pauses: bool) -> PortSender {
        PortSender {
            link,
            free_at: Picos::ZERO,
            streams: Vec::new(),
            scheduled_at: Picos::NEVER,
            pauses: PauseReceiver::new(),
            pending: VecDeque::new(),
            priorities,
            honours_pauses,
        }
    }

    pub(super) fn link(&self) -> &LinkTiming {
        &self.link
    }

    /// Accepts a received pause that takes effect at `at`.
    pub(super) fn receive_pause(&mut self, at: Picos, enable: u8, quanta: [u16; PRIORITIES]) {
        self.pending.push_back(PendingPause { at, enable, quanta });
    }

    fn apply_due_pauses(&mut self, now: Picos) {
        while let Some(pause) = self.pending.pop_front_if(|first| first.at <= now) {
            self.pauses
                .receive(pause.at, pause.enable, &pause.quanta, self.priorities, &self.link);
        }
        self.pauses.expire(now);
    }

    /// Returns the total time, up to `now`, for which the traffic class of the port was paused.
    pub(super) fn paused_time(&mut self, now: Picos) -> Picos {
        self.apply_due_pauses(now);
        Picos(self.pauses.paused_ps(now).into_iter().max().unwrap_or(0))
    }

    /// Returns the time of the next change of the port's pauses, or `None` if no change is due.
    pub(super) fn next_pause_change(&mut self, now: Picos) -> Option<Picos> {
        self.apply_due_pauses(now);
        let pending = self.pending.front().map_or(Picos::NEVER, |first| first.at);
        let at = self.pauses.next_change().min(pending);
        (at != Picos::NEVER).then_some(at)
    }

    /// Decides what the port does at `now`.
    pub(super) fn next_action(&mut self, now: Picos, senders: &mut [StreamSender]) -> SendAction {
        self.apply_due_pauses(now);
        if self.free_at > now {
            return SendAction::Wait(self.free_at);
        }
        let is_paused = self.honours_pauses && self.pauses.paused_priorities() != 0;
        let mut first: Option<(Picos, usize)> = None;
        for &index in &self.streams {
            let sender = &mut senders[index];
            sender.close_if_over(now);
            let due = sender.due_time();
            // A stream that has ended needs no further call.
            if !sender.is_over && first.is_none_or(|(earliest, _)| due < earliest) {
                first = Some((due, index));
            }
        }
        match first {
            None => SendAction::Idle,
            Some((due, index)) if due <= now && !is_paused => SendAction::Send(index),
            // A paused stream must be closed when its time is over.
            Some((_, index)) if is_paused => {
                SendAction::Wait(self.pauses.next_change().min(senders[index].until.max(now)))
            }
            // A frame that is due after the end is never sent, but the stream must be closed at the end.
            Some((due, index)) => SendAction::Wait(due.min(senders[index].until)),
        }
    }

    /// Occupies the link for the duration of a frame that starts at `now`.
    pub(super) fn occupy_link(&mut self, now: Picos, link_time: Picos) {
        self.free_at = now.saturating_add(link_time);
    }
}
