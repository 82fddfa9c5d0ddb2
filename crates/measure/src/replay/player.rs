//! The second pass: the frames of a capture on their way through a switch.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io::{self, Read};
use std::rc::Rc;

use xoff_dataplane::config::{ClassMaps, SwitchConfig, TrustMode};
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{DropReason, FrameStore, Picos, PortId, ReceivedFrame, Transmit};
use xoff_wire::parse::{ParsedHeaders, Payload, parse_prefix};

use super::header::ParsedHeader;
use super::mapping::{Mapping, SkipReason};
use super::store::{CaptureStore, Origin};
use super::survey::Survey;
use super::timeline::{BeyondModelTime, Timeline};
use super::witness::{Counts, Loss, Losses};
use xoff_capture::{CapturedFrame, ReadError, Reader};
use xoff_driver::{IngressPacer, VirtualSwitch};
use xoff_telemetry::SwitchSnapshot;

/// How long after the last arrival the switch may still be busy, in model time. By then even a port of 10 Mb/s has sent
/// what 75 MB of buffer hold.
const DRAIN_MAX: Picos = Picos::from_millis(60_000);
/// Congestion experienced.
const CE: u8 = 3;

/// When frames are offered to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As captured, faster by a factor: numerator, denominator.
    Captured(u64, u64),
    /// All at once, so that each port gets its frames as fast as its link carries them.
    BackToBack,
}

/// A frame that leaves the switch.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The port.
    pub port: PortId,
    /// When it begins to leave.
    pub at: Picos,
    /// What is stored of it.
    pub data: &'a [u8],
    /// Its length.
    pub len: u32,
    /// The frame of the capture that it is; `None`: the switch made it.
    pub origin: Option<&'a Origin>,
    /// The queue it waited in, where it has an origin.
    pub queue: Option<u8>,
    /// The switch set CE.
    pub marked: bool,
}

/// A frame, or a copy of a flooded one, that the switch dropped.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    /// The port that counts it.
    pub port: PortId,
    /// When.
    pub at: Picos,
    /// Why.
    pub reason: DropReason,
    /// The buffer limit that decided, where one did.
    pub refusal: Option<BufferRefusal>,
    /// The frame.
    pub origin: &'a Origin,
}

/// Where the frames go.
pub trait Sink {
    /// A frame leaves.
    ///
    /// # Errors
    /// Those of a file.
    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()>;

    /// A frame is dropped.
    ///
    /// # Errors
    /// Those of a file.
    fn lost(&mut self, lost: &Lost<'_>) -> io::Result<()>;
}

/// Why a replay ended early.
#[derive(Debug)]
pub enum PlayError {
    /// The capture cannot be read any more.
    Read(ReadError),
    /// The sink takes no more.
    Write(io::Error),
    /// A frame's stamp lies beyond the end of model time: its number, and how many days after the first frame.
    TooLate(u64, u64),
}

/// What became of the frames, by count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames offered to the switch.
    pub offered: u64,
    /// Usable frames of the capture that were not.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Flow control that the switch obeyed or noted.
    pub control: u64,
    /// Frames for the switch's own protocols.
    pub punted: u64,
    /// Frames that were queued, on one port or more.
    pub forwarded: u64,
    /// Copies of them that were queued, one for each port.
    pub copies: u64,
    /// Copies of them that were dropped.
    pub copies_dropped: u64,
    /// Frames that were queued nowhere.
    pub dropped: u64,
    /// Frames that had to wait for their next hop, whatever became of them.
    pub waited: u64,
    /// Frames of those that waited still when the run was over.
    pub held: u64,
    /// Frames of the switch's own that left, flow control apart.
    pub own: u64,
    /// Frames whose stamp was before that of an earlier frame; they arrived as soon as they could.
    pub disordered: u64,
    /// Gaps over an hour between the stamps of two frames, which were cut to a second.
    pub gaps_cut: u64,
    /// Frames that were still queued when the run was given up.
    pub queued: u64,
    /// Stations that the switch was told of before the first frame.
    pub learnt: u64,
}

/// What a replay leaves.
#[derive(Debug)]
pub struct Played {
    /// What became of the frames.
    pub tally: Tally,
    /// The last state of the switch.
    pub snapshot: SwitchSnapshot,
}

/// A frame that its port's wire has no room for yet.
#[derive(Debug)]
struct Waiting {
    header: ParsedHeader,
    origin: Origin,
}

/// A replay in progress.
#[derive(Debug)]
pub struct Player<'a, S> {
    switch: VirtualSwitch<CaptureStore>,
    config: SwitchConfig,
    /// Frames in flight to the ports, no faster than the links carry them.
    pacer: IngressPacer,
    /// Time of the next arrival at each port that has a frame in flight.
    arrivals: BinaryHeap<Reverse<(Picos, PortId)>>,
    mapping: &'a Mapping,
    timeline: Timeline,
    waiting: Vec<VecDeque<Waiting>>,
    /// Traffic class to queue, for each port.
    queues: Vec<[u8; TRAFFIC_CLASSES]>,
    tally: Tally,
    witness: Losses,
    sink: &'a mut S,
}

impl<'a, S: Sink> Player<'a, S> {
    /// A switch at time zero with nothing in it.
    pub fn new(
        config: SwitchConfig,
        mapping: &'a Mapping,
        survey: &Survey,
        pace: Pace,
        sink: &'a mut S,
    ) -> Player<'a, S> {
        let ports = config.ports.len();
        let mut switch = VirtualSwitch::new(&config, CaptureStore::default());
        switch.set_links_up();
        Player {
            queues: config
                .ports
                .iter()
                .map(|port| port.classify.tc_to_queue)
                .collect(),
            switch,
            pacer: IngressPacer::new(config.ports.iter().map(|port| port.link)),
            arrivals: BinaryHeap::new(),
            config,
            mapping,
            timeline: Timeline::new(pace, survey.first_ns),
            waiting: (0..ports).map(|_| VecDeque::new()).collect(),
            tally: Tally::default(),
            witness: Losses::new(),
            sink,
        }
    }

    /// Tells the switch where the stations are, as if each had spoken already.
    pub fn learn(&mut self, survey: &Survey) {
        let mut learnt = BTreeSet::new();
        for observation in &survey.observations {
            let Some((port, seen_on)) = self.mapping.place_of(observation) else {
                continue;
            };
            let (station, tag) = (observation.station, observation.tag);
            let told = self
                .switch
                .change(|switch, now, _, _| switch.learn_address(now, station, port, seen_on, tag));
            if told {
                learnt.insert(station);
            }
        }
        self.tally.learnt = learnt.len() as u64;
    }

    /// Plays all frames of a capture, and lets the switch finish.
    ///
    /// # Errors
    /// [`PlayError`]; a capture that ends early is no error.
    pub fn play(mut self, reader: &mut Reader<impl Read>) -> Result<Played, PlayError> {
        let mut next = self.read(reader)?;
        loop {
            // Whatever arrives up to the next event is on its way before that event.
            while let Some((port, frame)) = next.take_if(|(_, frame)| {
                let due = self.next_event();
                due.is_none_or(|due| frame.origin.at <= due)
            }) {
                self.waiting[port.index()].push_back(frame);
                self.fill(port);
                next = self.read(reader)?;
            }
            if self.is_stuck() || !self.step() {
                break;
            }
            self.deliver().map_err(PlayError::Write)?;
            (0..self.waiting.len() as u16).for_each(|port| self.fill(PortId(port)));
        }
        Ok(self.finish())
    }

    /// Time of the next event: a deadline of the switch or an arrival.
    fn next_event(&self) -> Option<Picos> {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        self.switch.next_event().into_iter().chain(arrival).min()
    }

    /// Handles everything that happens at the time of the next event. False if no event is left. At one time, deadlines of the
    /// switch come before arrivals, and arrivals are in the order of the ports.
    fn step(&mut self) -> bool {
        let Some(now) = self.next_event() else {
            return false;
        };
        loop {
            if self.switch.next_event().is_some_and(|at| at <= now) {
                self.switch.step(now);
            } else if let Some(Reverse((at, port))) = self.arrivals.peek().copied()
                && at <= now
            {
                self.arrivals.pop();
                self.arrive(at, port);
            } else {
                return true;
            }
        }
    }

    /// The first frame in flight to a port arrives.
    fn arrive(&mut self, at: Picos, port: PortId) {
        let Some((_, arrival)) = self.pacer.pop(port) else {
            return;
        };
        if let Some((next, _)) = self.pacer.first(port) {
            self.arrivals.push(Reverse((*next, port)));
        }
        self.switch.advance_to(at);
        let verdict = self.switch.receive(port, &arrival);
        self.witness.arrived(at, &arrival, &verdict, self.switch.switch());
    }

    /// The next frame that comes in somewhere, and where.
    fn read(&mut self, reader: &mut Reader<impl Read>) -> Result<Option<(PortId, Waiting)>, PlayError> {
        loop {
            let record = match reader.next_frame() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                Err(error) if error.ends_capture() => return Ok(None),
                Err(error) => return Err(PlayError::Read(error)),
            };
            let header = ParsedHeader::of(&record);
            match self.mapping.port_of(&record, &header) {
                Ok(port) => {
                    let at = self.timeline.arrival(record.at_ns);
                    let at =
                        at.map_err(|BeyondModelTime { days }| PlayError::TooLate(record.number, days))?;
                    self.tally.offered += 1;
                    return Ok(Some((port, self.admit(record, header, port, at))));
                }
                Err(skip) => *self.tally.skipped.entry(skip).or_default() += 1,
            }
        }
    }

    fn admit(&self, record: CapturedFrame, header: ParsedHeader, port: PortId, at: Picos) -> Waiting {
        let (tc, pg) = class_of(&self.config.ports[port.index()].classify, &header.parsed);
        Waiting {
            origin: Origin {
                number: record.number,
                port,
                at,
                tc,
                pg,
                ecn: ecn(&header.parsed),
                data: Rc::from(record.data),
                len: record.len,
            },
            header,
        }
    }

    /// Whether nothing arrives any more, and what is left does not leave either.
    fn is_stuck(&self) -> bool {
        let give_up = self.witness.last_at.saturating_add(DRAIN_MAX);
        self.next_event().is_some_and(|at| at > give_up)
            && self.pacer.frames_in_flight() == 0
            && self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Puts on a port's wire what it has room for.
    fn fill(&mut self, port: PortId) {
        while self.pacer.room(port) > 0
            && let Some(Waiting { header, origin }) = self.waiting[port.index()].pop_front()
        {
            let (frame_len, received_at) = (origin.len, origin.at);
            let frame = self
                .switch
                .store_mut()
                .insert_completed(origin, &header.completion);
            let arrival = ReceivedFrame {
                frame,
                frame_len,
                parsed: header.parsed,
                received_at,
            };
            if let Some(at) = self.pacer.offer(self.switch.now(), port, arrival) {
                self.arrivals.push(Reverse((at, port)));
            }
        }
    }

    /// Hands on what a step brought out.
    fn deliver(&mut self) -> io::Result<()> {
        for loss in self.witness.losses.drain(..) {
            if let Some(origin) = self.switch.store().origin(loss.frame) {
                let Loss {
                    at,
                    port,
                    reason,
                    refusal,
                    ..
                } = loss;
                self.sink.lost(&Lost {
                    port,
                    at,
                    reason,
                    refusal,
                    origin,
                })?;
            }
        }
        self.deliver_unresolved()?;
        let mut result = Ok(());
        let (tally, sink) = (&mut self.tally, &mut *self.sink);
        let queues = &self.queues;
        self.switch.take_departures(|transmit, store| {
            let sent = sent(&transmit, store, queues);
            tally.own += u64::from(
                sent.origin.is_none()
                    && parse_prefix(sent.data, sent.data.len()).payload != Payload::MacControl,
            );
            if result.is_ok() {
                result = sink.sent(&sent);
            }
            store.release(transmit.frame);
        });
        self.switch.store_mut().reclaim();
        result
    }

    /// Frames that waited for a next hop in vain: no verdict tells of those, but the switch has released them.
    fn deliver_unresolved(&mut self) -> io::Result<()> {
        for frame in self.witness.held.drain(..) {
            let number = self.switch.store().origin(frame).map(|origin| origin.number);
            self.witness.waiting.extend(number);
        }
        if self.witness.waiting.is_empty() {
            return Ok(());
        }
        let reason = DropReason::UnresolvedNextHop;
        let sum = self.switch.switch().dropped_frames_for(reason);
        let known = std::mem::replace(&mut self.witness.sums[reason as usize], sum);
        let (at, store) = (self.switch.now(), self.switch.store());
        let waited = store.released().filter_map(|frame| store.origin(frame));
        for origin in waited.take((sum - known) as usize) {
            if self.witness.waiting.remove(&origin.number) {
                self.sink.lost(&Lost {
                    port: origin.port,
                    at,
                    reason,
                    refusal: None,
                    origin,
                })?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Played {
        let Counts {
            control,
            punted,
            forwarded,
            copies,
            copies_dropped,
            dropped,
            waited,
        } = self.witness.counts;
        self.tally = Tally {
            control,
            punted,
            forwarded,
            copies,
            copies_dropped,
            dropped,
            waited,
            disordered: self.timeline.disordered,
            gaps_cut: self.timeline.gaps_cut,
            held: self.switch.switch().held_frames() as u64,
            queued: self.switch.switch().queued_frames() as u64,
            ..self.tally
        };
        Played {
            snapshot: self
                .switch
                .snapshot(&self.config, |port| self.pacer.delayed_frames(port)),
            tally: self.tally,
        }
    }
}

fn sent<'a>(transmit: &Transmit, store: &'a CaptureStore, queues: &[[u8; TRAFFIC_CLASSES]]) -> Sent<'a> {
    let data = store.captured(transmit.frame);
    let prefix = store.prefix(transmit.frame);
    let len = store.frame_len(transmit.frame);
    let origin = store.origin(transmit.frame);
    let queue = |origin: &Origin| queues[transmit.port.index()][usize::from(origin.tc)] % PRIORITIES as u8;
    Sent {
        port: transmit.port,
        at: transmit.start,
        data,
        len,
        origin,
        queue: origin.map(queue),
        marked: origin
            .is_some_and(|origin| origin.ecn != CE && ecn(&parse_prefix(prefix, len as usize)) == CE),
    }
}

/// The ECN bits of an IP packet, 0 for anything else.
fn ecn(parsed: &ParsedHeaders) -> u8 {
    match parsed.payload {
        Payload::Ipv4 | Payload::Ipv6 => parsed.tos & 3,
        _ => 0,
    }
}

/// Traffic class and priority group of a frame that arrives on a port with these maps, as the switch finds them.
fn class_of(maps: &ClassMaps, parsed: &ParsedHeaders) -> (u8, u8) {
    let by_tag = || {
        parsed
            .tag
            .map_or(0, |tag| maps.dot1p_to_tc[usize::from(tag.pcp())])
    };
    let tc = match (maps.trust, parsed.dscp()) {
        (TrustMode::Dscp, Some(dscp)) => maps.dscp_to_tc[usize::from(dscp & 63)],
        _ => by_tag(),
    };
    let tc = tc % TRAFFIC_CLASSES as u8;
    (tc, maps.tc_to_pg[usize::from(tc)] % PRIORITIES as u8)
}
