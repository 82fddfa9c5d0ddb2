//! The second pass over a capture. It sends the frames through a switch in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io::{self, Read};
use std::rc::Rc;

use xoff_dataplane::config::{ClassMaps, SwitchConfig, TrustMode};
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{DropReason, FrameStore, Picos, PortId, ReceivedFrame, Transmit};
use xoff_wire::parse::{ParsedHeaders, Payload, parse_prefix};

use super::drop_tracker::{DropTracker, ForwardingCounts, PendingDrop};
use super::mapping::{PortMapping, SkipReason};
use super::parsed_header::CapturedHeaders;
use super::replay_pace::ReplayPace;
use super::store::{CaptureStore, FrameOrigin};
use super::survey::CaptureSurvey;
use super::timeline::{ModelTimeExceededError, Timeline};
use xoff_capture::{CapturedFrame, ReadError, Reader};
use xoff_driver::{IngressPacer, VirtualSwitch};
use xoff_telemetry::SwitchReport;

/// Longest model time that the switch may need after the last arrival. Within this time, a port of 10 Mb/s
/// sends the contents of a buffer of 75 MB.
const DRAIN_TIME_MAX: Picos = Picos::from_millis(60_000);
/// Largest memory of the frames that wait for their ingress links, in bytes. While this memory is full, no
/// frame is read from the capture. Without this limit, a replay at link speed would keep the whole capture in
/// memory.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Memory of a waiting frame in addition to its captured bytes, in bytes.
const WAITING_FRAME_BYTES: usize = size_of::<PendingFrame>() + 32;
/// ECN value of Congestion Experienced (RFC 3168).
const CE: u8 = 3;

/// A frame that leaves the switch.
#[derive(Clone, Copy, Debug)]
pub struct SentFrame<'a> {
    /// The egress port.
    pub port: PortId,
    /// Model time at which the transmission of the frame starts.
    pub at: Picos,
    /// The bytes of the frame as it leaves the switch. If the capture has only a part of the frame, the bytes
    /// that were not captured are missing.
    pub data: &'a [u8],
    /// Length of the frame without FCS, in bytes.
    pub len: u32,
    /// The captured frame from which this frame was made, or `None` if the switch created the frame.
    pub origin: Option<&'a FrameOrigin>,
    /// Egress queue of the frame, 0 to 7, or `None` if the switch created the frame.
    pub queue: Option<u8>,
    /// True if the switch has set the ECN mark (CE).
    pub marked: bool,
}

/// A frame that the switch dropped, or a dropped copy of a flooded frame.
#[derive(Clone, Copy, Debug)]
pub struct DroppedFrame<'a> {
    /// The port that counts the drop.
    pub port: PortId,
    /// Model time of the drop.
    pub at: Picos,
    /// Reason of the drop, as in the drop counters of the switch.
    pub reason: DropReason,
    /// The buffer limit that caused the drop. `None` if no buffer limit caused the drop.
    pub refusal: Option<BufferRefusal>,
    /// The captured frame that was dropped, or of which a copy was dropped.
    pub origin: &'a FrameOrigin,
}

/// A receiver of the frames that a switch sends and drops.
pub trait FrameSink {
    /// Writes a frame that left the switch.
    ///
    /// # Errors
    /// The output cannot be written.
    fn write_sent(&mut self, sent: &SentFrame<'_>) -> io::Result<()>;

    /// Writes a frame that was dropped.
    ///
    /// # Errors
    /// The output cannot be written.
    fn write_dropped(&mut self, dropped: &DroppedFrame<'_>) -> io::Result<()>;
}

/// The reason for which a replay ended early.
#[derive(Debug)]
pub enum ReplayError {
    /// The capture cannot be read any further.
    Read(ReadError),
    /// The output cannot be written.
    Write(io::Error),
    /// A frame would arrive after the end of model time. The fields are the number of the frame in the
    /// capture, from 1, and the days since the first frame.
    TooLate(u64, u64),
}

/// The number of frames for each result of the replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTally {
    /// Frames of the capture that were offered to the switch.
    pub offered: u64,
    /// Usable frames of the capture that were not offered, for each reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Flow control frames that the switch received.
    pub control: u64,
    /// Frames that the switch passed to its own protocols (punted frames).
    pub punted: u64,
    /// Frames that were queued at one port or more.
    pub forwarded: u64,
    /// Queued copies of the frames in `forwarded`, one for each egress port.
    pub copies: u64,
    /// Copies of the frames in `forwarded` that were dropped.
    pub copies_dropped: u64,
    /// Frames that were dropped and left through no port.
    pub dropped: u64,
    /// Number of frames that waited for the MAC address of a next hop. A frame is counted even if it was
    /// dropped later.
    pub waited: u64,
    /// Frames that still waited for the MAC address of their next hop at the end of the run.
    pub held: u64,
    /// Frames that the switch created and sent, without flow control frames.
    pub own: u64,
    /// Frames with a smaller time stamp than a previous frame of the capture, by at most an hour. Such a
    /// frame arrives at the same time as the previous frame.
    pub disordered: u64,
    /// Number of gaps between two time stamps that were shortened to one second. A gap is shortened if it is
    /// longer than an hour, or if the capture would not fit in model time.
    pub gaps_cut: u64,
    /// Frames that were still in a queue at the end of the run.
    pub queued: u64,
    /// Number of stations that were in the forwarding database before the first frame.
    pub learnt: u64,
}

/// The frame counts of a replay and the final state of the switch.
#[derive(Debug)]
pub struct ReplayResult {
    /// The number of frames for each result.
    pub tally: FrameTally,
    /// The final state of the switch.
    pub switch: SwitchReport,
}

/// A frame that waits until its ingress link has space.
#[derive(Debug)]
struct PendingFrame {
    header: CapturedHeaders,
    origin: FrameOrigin,
}

impl PendingFrame {
    /// Returns the memory of the frame in bytes.
    fn memory_bytes(&self) -> usize {
        self.origin.data.len() + WAITING_FRAME_BYTES
    }
}

/// A replay in progress: the second pass over a capture.
#[derive(Debug)]
pub struct ReplayRun<'a, S> {
    switch: VirtualSwitch<CaptureStore>,
    config: SwitchConfig,
    /// Frames in flight to the ports. Each port receives frames at most at the speed of its link.
    pacer: IngressPacer,
    /// Time of the next arrival at each port that has a frame in flight.
    arrivals: BinaryHeap<Reverse<(Picos, PortId)>>,
    mapping: &'a PortMapping,
    timeline: Timeline,
    waiting: Vec<VecDeque<PendingFrame>>,
    /// Memory of the frames in `waiting`, in bytes.
    waiting_bytes: usize,
    /// Largest value of `waiting_bytes` at which another frame is read.
    waiting_bytes_max: usize,
    /// For each port, the queue of each traffic class.
    queues: Vec<[u8; TRAFFIC_CLASSES]>,
    tally: FrameTally,
    drops: DropTracker,
    sink: &'a mut S,
}

impl<'a, S: FrameSink> ReplayRun<'a, S> {
    /// Creates a replay with an empty switch at model time 0. `survey` must come from the same capture
    /// as `mapping`.
    pub fn new(
        config: SwitchConfig,
        mapping: &'a PortMapping,
        survey: &CaptureSurvey,
        pace: ReplayPace,
        sink: &'a mut S,
    ) -> ReplayRun<'a, S> {
        let ports = config.ports.len();
        let mut switch = VirtualSwitch::new(&config, CaptureStore::default());
        switch.set_links_up();
        ReplayRun {
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
            waiting_bytes: 0,
            waiting_bytes_max: WAITING_BYTES_MAX,
            tally: FrameTally::default(),
            drops: DropTracker::new(),
            sink,
        }
    }

    /// Sets the largest memory of the frames that wait for their ingress links, in bytes. If the frames of a
    /// capture need more memory, a frame behind them in the capture may arrive later than its time stamp.
    pub fn set_waiting_bytes_max(&mut self, bytes: usize) {
        self.waiting_bytes_max = bytes;
    }

    /// Adds the stations of the capture to the forwarding database. The switch then forwards as if each
    /// station had already sent a frame.
    pub fn learn_stations(&mut self, survey: &CaptureSurvey) {
        let mut learnt = BTreeSet::new();
        for observation in &survey.observations {
            let Some((port, seen_on)) = self.mapping.ports_of_observation(observation) else {
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

    /// Replays all frames of a capture and runs the switch until it is idle. If frames stay in queues, the
    /// run ends one minute of model time after the last arrival.
    ///
    /// # Errors
    /// The capture cannot be read, the output cannot be written, or a frame arrives after the end of model
    /// time ([`ReplayError`]). A capture that ends early is not an error.
    pub fn run(mut self, reader: &mut Reader<impl Read>) -> Result<ReplayResult, ReplayError> {
        let mut next = self.read_frame(reader)?;
        loop {
            // Frames that arrive before or at the next event are put in flight before this event.
            while let Some((port, frame)) = next.take_if(|(_, frame)| {
                let due = self.next_event_time();
                self.waiting_bytes < self.waiting_bytes_max && due.is_none_or(|due| frame.origin.at <= due)
            }) {
                self.waiting_bytes += frame.memory_bytes();
                self.waiting[port.index()].push_back(frame);
                self.offer_pending_frames(port);
                next = self.read_frame(reader)?;
            }
            if self.is_stalled() || !self.handle_next_events() {
                break;
            }
            self.write_results().map_err(ReplayError::Write)?;
            (0..self.waiting.len() as u16).for_each(|port| self.offer_pending_frames(PortId(port)));
        }
        Ok(self.into_result())
    }

    /// Returns the time of the next event: a deadline of the switch or an arrival.
    fn next_event_time(&self) -> Option<Picos> {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        self.switch.next_event().into_iter().chain(arrival).min()
    }

    /// Handles all events at the time of the next event. Returns false if no event is left. Deadlines of the
    /// switch come before arrivals, and arrivals are handled in the order of the ports.
    fn handle_next_events(&mut self) -> bool {
        let Some(now) = self.next_event_time() else {
            return false;
        };
        loop {
            if self.switch.next_event().is_some_and(|at| at <= now) {
                self.switch.step(now);
            } else if let Some(Reverse((at, port))) = self.arrivals.peek().copied()
                && at <= now
            {
                self.arrivals.pop();
                self.receive_frame(at, port);
            } else {
                return true;
            }
        }
    }

    /// Delivers the first frame in flight to a port.
    fn receive_frame(&mut self, at: Picos, port: PortId) {
        let Some((_, arrival)) = self.pacer.pop(port) else {
            return;
        };
        if let Some((next, _)) = self.pacer.first(port) {
            self.arrivals.push(Reverse((*next, port)));
        }
        self.switch.advance_to(at);
        let verdict = self.switch.receive(port, &arrival);
        self.drops
            .count_arrival(at, &arrival, &verdict, self.switch.switch());
    }

    /// Returns the next frame of the capture that has an ingress port, with this port. Frames without an
    /// ingress port are skipped. Returns `None` at the end of the capture.
    fn read_frame(
        &mut self,
        reader: &mut Reader<impl Read>,
    ) -> Result<Option<(PortId, PendingFrame)>, ReplayError> {
        loop {
            let record = match reader.next_frame() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                Err(error) if error.ends_capture() => return Ok(None),
                Err(error) => return Err(ReplayError::Read(error)),
            };
            let header = CapturedHeaders::of(&record);
            match self.mapping.ingress_port_of(&record, &header) {
                Ok(port) => {
                    let at = self.timeline.next_arrival(record.at_ns);
                    let at = at.map_err(|ModelTimeExceededError { days }| {
                        ReplayError::TooLate(record.number, days)
                    })?;
                    self.tally.offered += 1;
                    return Ok(Some((port, self.new_pending_frame(record, header, port, at))));
                }
                Err(skip) => *self.tally.skipped.entry(skip).or_default() += 1,
            }
        }
    }

    fn new_pending_frame(
        &self,
        record: CapturedFrame,
        header: CapturedHeaders,
        port: PortId,
        at: Picos,
    ) -> PendingFrame {
        let (tc, pg) = classify(&self.config.ports[port.index()].classify, &header.parsed);
        PendingFrame {
            origin: FrameOrigin {
                number: record.number,
                port,
                at,
                tc,
                pg,
                ecn: ecn_bits(&header.parsed),
                data: Rc::from(record.data),
                len: record.len,
            },
            header,
        }
    }

    /// Returns whether all frames have arrived and the queued frames do not leave.
    fn is_stalled(&self) -> bool {
        let give_up = self.drops.last_arrival_at.saturating_add(DRAIN_TIME_MAX);
        self.next_event_time().is_some_and(|at| at > give_up)
            && self.pacer.frames_in_flight() == 0
            && self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Puts waiting frames in flight to a port while its ingress link has space.
    fn offer_pending_frames(&mut self, port: PortId) {
        while self.pacer.free_frames(port) > 0
            && let Some(pending) = self.waiting[port.index()].pop_front()
        {
            self.waiting_bytes -= pending.memory_bytes();
            let PendingFrame { header, origin } = pending;
            let (frame_len, received_at) = (origin.len, origin.at);
            let frame = self
                .switch
                .store_mut()
                .insert_with_completion(origin, &header.completion);
            let arrival = ReceivedFrame {
                frame,
                frame_len,
                parsed: header.parsed,
                received_at,
            };
            if let Some(at) = self.pacer.add_paced(self.switch.now(), port, arrival) {
                self.arrivals.push(Reverse((at, port)));
            }
        }
    }

    /// Passes the frames that a step has sent or dropped to the sink.
    fn write_results(&mut self) -> io::Result<()> {
        for loss in self.drops.pending.drain(..) {
            if let Some(origin) = self.switch.store().origin(loss.frame) {
                let PendingDrop {
                    at,
                    port,
                    reason,
                    refusal,
                    ..
                } = loss;
                self.sink.write_dropped(&DroppedFrame {
                    port,
                    at,
                    reason,
                    refusal,
                    origin,
                })?;
            }
        }
        self.write_unresolved_drops()?;
        let mut result = Ok(());
        let (tally, sink) = (&mut self.tally, &mut *self.sink);
        let queues = &self.queues;
        self.switch.take_departures(|transmit, store| {
            let sent = describe_departure(&transmit, store, queues);
            tally.own += u64::from(
                sent.origin.is_none()
                    && parse_prefix(sent.data, sent.data.len()).payload != Payload::MacControl,
            );
            if result.is_ok() {
                result = sink.write_sent(&sent);
            }
            store.release(transmit.frame);
        });
        self.switch.store_mut().reclaim_released();
        result
    }

    /// Passes to the sink all frames with an unresolved next hop that the switch has dropped. The switch
    /// releases such frames without a forwarding result.
    fn write_unresolved_drops(&mut self) -> io::Result<()> {
        for frame in self.drops.newly_held.drain(..) {
            let number = self.switch.store().origin(frame).map(|origin| origin.number);
            self.drops.waiting_numbers.extend(number);
        }
        if self.drops.waiting_numbers.is_empty() {
            return Ok(());
        }
        let reason = DropReason::UnresolvedNextHop;
        let sum = self.switch.switch().dropped_frames_for(reason);
        let known = std::mem::replace(&mut self.drops.counted_by_reason[reason as usize], sum);
        let (at, store) = (self.switch.now(), self.switch.store());
        let waited = store.released_frames().filter_map(|frame| store.origin(frame));
        for origin in waited.take((sum - known) as usize) {
            if self.drops.waiting_numbers.remove(&origin.number) {
                self.sink.write_dropped(&DroppedFrame {
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

    fn into_result(mut self) -> ReplayResult {
        let ForwardingCounts {
            control,
            punted,
            forwarded,
            copies,
            copies_dropped,
            dropped,
            waited,
        } = self.drops.counts;
        self.tally = FrameTally {
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
        ReplayResult {
            switch: self
                .switch
                .snapshot(&self.config, |port| self.pacer.delayed_frames(port))
                .into_report(),
            tally: self.tally,
        }
    }
}

fn describe_departure<'a>(
    transmit: &Transmit,
    store: &'a CaptureStore,
    queues: &[[u8; TRAFFIC_CLASSES]],
) -> SentFrame<'a> {
    let data = store.captured_bytes(transmit.frame);
    let prefix = store.prefix(transmit.frame);
    let len = store.frame_len(transmit.frame);
    let origin = store.origin(transmit.frame);
    let queue =
        |origin: &FrameOrigin| queues[transmit.port.index()][usize::from(origin.tc)] % PRIORITIES as u8;
    SentFrame {
        port: transmit.port,
        at: transmit.start,
        data,
        len,
        origin,
        queue: origin.map(queue),
        marked: origin
            .is_some_and(|origin| origin.ecn != CE && ecn_bits(&parse_prefix(prefix, len as usize)) == CE),
    }
}

/// Returns the ECN bits of an IP packet, or 0 for any other frame.
fn ecn_bits(parsed: &ParsedHeaders) -> u8 {
    match parsed.payload {
        Payload::Ipv4 | Payload::Ipv6 => parsed.tos & 3,
        _ => 0,
    }
}

/// Returns the traffic class and the priority group of a frame at a port with these maps.
fn classify(maps: &ClassMaps, parsed: &ParsedHeaders) -> (u8, u8) {
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
