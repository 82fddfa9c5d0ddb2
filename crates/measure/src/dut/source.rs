//! What a port of the tester sends next, and when: streams by their rates, one frame after the other, classes stopped by pauses.

use std::collections::VecDeque;
use std::rc::Rc;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::PauseReceiver;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::parse::{ParsedHeaders, parse_prefix};

use super::frames::{Header, numbered_station};
use super::traffic::{Destination, Stream};

/// Due times are kept in femtoseconds, so that rates stay exact over millions of frames.
const FEMTOS: u128 = 1_000;

/// Headers of a stream's frames: one for each length and flow.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) octets: Rc<[u8]>,
    pub(super) parsed: ParsedHeaders,
    pub(super) frame_len: u32,
}

/// What headers of a trial's frames have in common.
pub(super) struct Headers<'a> {
    /// The device's port that a port of the tester is at.
    pub(super) at: &'a dyn Fn(usize) -> u16,
    /// DSCP or 802.1p priority.
    pub(super) code: u8,
    pub(super) is_tagged: bool,
}

impl Headers<'_> {
    fn template(&self, stream: &Stream, variant: u32, frame_len: u32) -> Template {
        let header = Header {
            to: match stream.to {
                Destination::Port(port) => numbered_station((self.at)(port), variant % stream.targets),
                Destination::Broadcast => [0xff; 6],
            },
            from: numbered_station((self.at)(stream.from), variant % stream.sources),
            code: self.code,
            is_tagged: self.is_tagged,
            flow: (variant % u32::from(stream.flows)) as u16,
            frame_len,
        };
        let octets: Rc<[u8]> = header.octets().into();
        let parsed = parse_prefix(&octets, frame_len as usize);
        Template {
            octets,
            parsed,
            frame_len,
        }
    }
}

/// A stream that is being sent.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) stream: Stream,
    pub(super) templates: Vec<Template>,
    /// Link time of each length, and the time from such a frame to the next.
    spans: Vec<(Picos, u128)>,
    lengths: usize,
    /// Headers among which its frames take turns.
    variants: u64,
    due_fs: u128,
    until: Picos,
    pub(super) sent: u64,
    /// Frames that were due and not sent when the stream ended.
    withheld: u64,
    is_over: bool,
}

impl Sending {
    /// Begins at a time, a part of an interval (0 to 1) later.
    pub(super) fn new(
        stream: Stream,
        (begin, phase): (Picos, f64),
        headers: &Headers<'_>,
        link: &LinkTiming,
    ) -> Sending {
        let lengths = stream.size.lengths();
        let variants = u64::from(stream.flows)
            .max(u64::from(stream.sources))
            .max(u64::from(stream.targets));
        let templates = lengths
            .iter()
            .flat_map(|bytes| (0..variants).map(move |variant| (*bytes, variant)))
            .map(|(bytes, variant)| headers.template(&stream, variant as u32, bytes - link.fcs_bytes))
            .collect();
        let spans: Vec<(Picos, u128)> = lengths
            .iter()
            .map(|bytes| {
                let span = link.duration(link.wire_len(link.mac_len(bytes - link.fcs_bytes)));
                // The full rate is exact; others are to a femtosecond a frame.
                let interval = match stream.share >= 1.0 {
                    true => u128::from(span.0) * FEMTOS,
                    false => (span.0 as f64 * FEMTOS as f64 / stream.share).round() as u128,
                };
                (span, interval)
            })
            .collect();
        let first = begin.saturating_add(stream.start);
        Sending {
            stream,
            templates,
            lengths: lengths.len(),
            variants,
            due_fs: u128::from(first.0) * FEMTOS + (spans[0].1 as f64 * phase) as u128,
            spans,
            until: begin.saturating_add(stream.until),
            sent: 0,
            withheld: 0,
            is_over: stream.frames == Some(0),
        }
    }

    fn due(&self) -> Picos {
        Picos((self.due_fs / FEMTOS) as u64)
    }

    /// The frame that is due is sent or given up: on to the next.
    fn step(&mut self) {
        let number = self.sent + self.withheld;
        self.due_fs += self.spans[(number % self.lengths as u64) as usize].1;
    }

    /// Which template the next frame has, and its link time.
    pub(super) fn next(&self) -> (usize, Picos) {
        let length = (self.sent % self.lengths as u64) as usize;
        let variant = self.sent / self.lengths as u64 % self.variants;
        (
            length * self.variants as usize + variant as usize,
            self.spans[length].0,
        )
    }

    pub(super) fn take(&mut self) {
        self.step();
        self.sent += 1;
        self.is_over |= self.stream.frames == Some(self.sent);
    }

    /// Ends the stream if its time is over at `now`: what was due and has not been sent is withheld.
    fn end_at(&mut self, now: Picos) {
        if self.is_over || now < self.until {
            return;
        }
        self.is_over = true;
        while self.due() < self.until
            && self
                .stream
                .frames
                .is_none_or(|most| self.sent + self.withheld < most)
        {
            self.step();
            self.withheld += 1;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Frames that its rate and time ask for; once it is over.
    pub(super) fn wanted(&self) -> u64 {
        self.sent + self.withheld
    }
}

/// A pause on its way into effect.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Picos,
    enable: u8,
    quanta: [u16; PRIORITIES],
}

/// A port's transmit side.
#[derive(Debug)]
pub(super) struct Source {
    link: LinkTiming,
    free_at: Picos,
    /// Indices of the streams it sends.
    pub(super) streams: Vec<usize>,
    /// Its next call is due then.
    pub(super) armed: Picos,
    pauses: PauseReceiver,
    pending: VecDeque<Pending>,
    /// Priorities whose pauses stop its frames.
    priorities: u8,
    is_obeying: bool,
}

/// What a source does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This stream's frame leaves now.
    Send(usize),
    /// Nothing before this time.
    Wait(Picos),
    /// Nothing until a pause ends by a frame, or for ever.
    Idle,
}

impl Source {
    pub(super) fn new(link: LinkTiming, priorities: u8, is_obeying: bool) -> Source {
        Source {
            link,
            free_at: Picos::ZERO,
            streams: Vec::new(),
            armed: Picos::NEVER,
            pauses: PauseReceiver::new(),
            pending: VecDeque::new(),
            priorities,
            is_obeying,
        }
    }

    pub(super) fn link(&self) -> &LinkTiming {
        &self.link
    }

    /// A pause that takes effect at `at`.
    pub(super) fn hear(&mut self, at: Picos, enable: u8, quanta: [u16; PRIORITIES]) {
        self.pending.push_back(Pending { at, enable, quanta });
    }

    fn advance(&mut self, now: Picos) {
        while let Some(pause) = self.pending.pop_front_if(|first| first.at <= now) {
            self.pauses
                .receive(pause.at, pause.enable, &pause.quanta, self.priorities, &self.link);
        }
        self.pauses.expire(now);
    }

    /// Time for which a class of its frames was paused, ever.
    pub(super) fn paused(&mut self, now: Picos) -> Picos {
        self.advance(now);
        Picos(self.pauses.paused_ps(now).into_iter().max().unwrap_or(0))
    }

    /// When the next thing happens to the pauses that hold it, or will; `None`: nothing holds it.
    pub(super) fn held_until(&mut self, now: Picos) -> Option<Picos> {
        self.advance(now);
        let pending = self.pending.front().map_or(Picos::NEVER, |first| first.at);
        let at = self.pauses.next_change().min(pending);
        (at != Picos::NEVER).then_some(at)
    }

    /// What it does at `now`.
    pub(super) fn next(&mut self, now: Picos, all: &mut [Sending]) -> Next {
        self.advance(now);
        if self.free_at > now {
            return Next::Wait(self.free_at);
        }
        let held = self.is_obeying && self.pauses.paused_priorities() != 0;
        let mut first: Option<(Picos, usize)> = None;
        for &index in &self.streams {
            let sending = &mut all[index];
            sending.end_at(now);
            let due = sending.due();
            // A stream that is over after this frame's time asks for no call.
            if !sending.is_over && first.is_none_or(|(earliest, _)| due < earliest) {
                first = Some((due, index));
            }
        }
        match first {
            None => Next::Idle,
            Some((due, index)) if due <= now && !held => Next::Send(index),
            // At its end a held stream is closed.
            Some((_, index)) if held => Next::Wait(self.pauses.next_change().min(all[index].until.max(now))),
            // A frame due behind the end never leaves, but its stream must be closed then.
            Some((due, index)) => Next::Wait(due.min(all[index].until)),
        }
    }

    /// A frame of this link time leaves now.
    pub(super) fn sent(&mut self, now: Picos, span: Picos) {
        self.free_at = now.saturating_add(span);
    }
}
