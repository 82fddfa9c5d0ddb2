//! Runs one switch in virtual time, with an event queue, and records the frames that leave each port.

#![allow(dead_code, unreachable_pub)] // every test binary uses its own part

pub mod config;
pub mod frames;
pub mod net;
pub mod packets;
pub mod random;
pub mod sender;

use sender::Sender;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{
    DropReason, ForwardingResult, FrameStore, LinkTiming, Outputs, Picos, PortId, PuntedFrame, QueueId,
    ReceivedFrame, Switch, SwitchEvent, Transmit,
};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;
use xoff_wire::{MacControl, Pfc};

/// A frame that a port sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub start: Picos,
    pub end: Picos,
    pub bytes: Vec<u8>,
}

impl Sent {
    /// The PFC frame. `None` for other frames.
    pub fn pfc(&self) -> Option<Pfc> {
        match MacControl::parse(&self.bytes) {
            Ok(MacControl::Pfc(pfc)) => Some(pfc),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    ReceivedFrame(PortId, Vec<u8>),
    PeerHears(PortId, Vec<u8>),
    PeerSends(PortId),
}

pub struct Harness {
    driver: VirtualSwitch<VecStore, What>,
    /// True if the bytes of sent frames are kept. Otherwise only counters and the digest are kept.
    pub record: bool,
    /// The drops of scheduled frames.
    pub dropped: Vec<xoff_dataplane::DroppedFrame>,
    pub punts: Vec<PuntedFrame>,
    /// Events of the switch.
    pub told: Vec<SwitchEvent>,
    /// CRC over all sent frames with their ports and times.
    digest: crc32fast::Hasher,
    links: Vec<LinkTiming>,
    sent: Vec<Vec<Sent>>,
    peers: Vec<Option<Sender>>,
    /// Departures in progress; empty between calls.
    departures: Vec<Transmit>,
}

impl Harness {
    /// Creates a switch whose links are all up at time zero.
    pub fn new(config: &SwitchConfig) -> Harness {
        let ports = config.ports.len();
        let mut harness = Harness {
            driver: VirtualSwitch::new(config, VecStore::new(1 << 20)),
            record: true,
            dropped: Vec::new(),
            punts: Vec::new(),
            told: Vec::new(),
            digest: crc32fast::Hasher::new(),
            links: config.ports.iter().map(|port| port.link).collect(),
            sent: vec![Vec::new(); ports],
            peers: (0..ports).map(|_| None).collect(),
            departures: Vec::new(),
        };
        harness.driver.keep_punts();
        for port in 0..ports as u16 {
            harness.set_link(port, true);
        }
        harness
    }

    /// As [`Harness::new`], with address `mac(n)` learnt at port *n*. The frames for that are removed from
    /// the record.
    pub fn learnt(config: &SwitchConfig) -> Harness {
        let mut harness = Harness::new(config);
        let ports = config.ports.len() as u8;
        for port in 0..ports {
            let to = if port == 0 { [0xff; 6] } else { frames::mac(0) };
            let frame = frames::ethernet(to, frames::mac(port), 60);
            harness.receive(u16::from(port), &frame);
        }
        harness.run();
        harness.run_for(Picos::from_millis(10)); // until every link is free
        harness.clear_sent();
        harness.switch_mut().clear_watermarks();
        harness
    }

    pub fn now(&self) -> Picos {
        self.driver.now()
    }

    pub fn switch(&self) -> &Switch {
        self.driver.switch()
    }

    pub fn switch_mut(&mut self) -> &mut Switch {
        self.driver.switch_mut()
    }

    pub fn store(&self) -> &VecStore {
        self.driver.store()
    }

    pub fn store_mut(&mut self) -> &mut VecStore {
        self.driver.store_mut()
    }

    /// Passes a frame to the switch now.
    pub fn receive(&mut self, port: u16, bytes: &[u8]) -> ForwardingResult {
        let frame = self.store_mut().insert(bytes).expect("the store has room");
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.now(),
        };
        let verdict = self.driver.receive(PortId(port), &arrival);
        self.drain();
        verdict
    }

    /// Calls [`Harness::receive`] `count` times. Returns the number of dropped frames.
    pub fn receive_many(&mut self, count: usize, port: u16, bytes: &[u8]) -> usize {
        let dropped = |verdict| matches!(verdict, ForwardingResult::Dropped(_));
        (0..count).filter(|_| dropped(self.receive(port, bytes))).count()
    }

    /// Schedules a frame whose last bit arrives at `at`.
    pub fn receive_at(&mut self, at: Picos, port: u16, bytes: Vec<u8>) {
        self.driver.schedule(at, What::ReceivedFrame(PortId(port), bytes));
    }

    /// Schedules `count` frames back to back on the link of `port`. Returns the time of the last arrival.
    pub fn receive_back_to_back(&mut self, port: u16, frames: impl IntoIterator<Item = Vec<u8>>) -> Picos {
        let link = self.links[usize::from(port)];
        let mut at = self.now();
        for bytes in frames {
            at += link.duration(link.wire_len(link.mac_len(bytes.len() as u32)));
            self.receive_at(at, port, bytes);
        }
        at
    }

    pub fn receive_pfc(&mut self, port: u16, enable: u8, quanta: [u16; 8]) -> ForwardingResult {
        let frame = MacControl::Pfc(Pfc { enable, quanta }).to_frame(frames::mac(0xee));
        self.receive(port, &frame)
    }

    pub fn set_link(&mut self, port: u16, up: bool) {
        self.driver.set_link(PortId(port), up);
        self.drain();
    }

    pub fn set_tx_enabled(&mut self, port: u16, on: bool) {
        let port = PortId(port);
        self.with(|now, switch, store, outputs| switch.set_tx_enabled(now, port, on, store, outputs));
    }

    pub fn set_queue_enabled(&mut self, port: u16, queue: u8, on: bool) {
        let queue = QueueId::new(PortId(port), queue);
        self.with(|now, switch, store, outputs| switch.set_queue_enabled(now, queue, on, store, outputs));
    }

    pub fn apply(&mut self, config: &SwitchConfig) {
        let applied =
            self.with(|now, switch, store, outputs| switch.apply_config(now, config, store, outputs));
        applied.expect("same ports");
        self.links = config.ports.iter().map(|port| port.link).collect();
    }

    /// Calls the switch directly and records its outputs.
    pub fn with<R>(&mut self, f: impl FnOnce(Picos, &mut Switch, &mut VecStore, &mut Outputs) -> R) -> R {
        let result = self
            .driver
            .change(|switch, now, store, outputs| f(now, switch, store, outputs));
        self.drain();
        result
    }

    /// Connects a sender that honours PFC to a port.
    pub fn connect(&mut self, port: u16, sender: Sender) {
        self.peers[usize::from(port)] = Some(sender);
        self.driver.schedule(self.now(), What::PeerSends(PortId(port)));
    }

    pub fn peer(&self, port: u16) -> &Sender {
        self.peers[usize::from(port)]
            .as_ref()
            .expect("a peer is connected")
    }

    /// Handles all events up to and including `until`.
    pub fn run_until(&mut self, until: Picos) {
        while self.step(until) {}
        self.driver.advance_to(until);
    }

    /// Lets time pass without handling what is due meanwhile, as a driver that wakes up late does.
    pub fn be_late(&mut self, span: Picos) {
        self.driver.advance_past_events(self.now() + span);
    }

    pub fn run_for(&mut self, span: Picos) {
        self.run_until(self.now() + span);
    }

    /// Handles all events until none is left.
    pub fn run(&mut self) {
        while self.step(Picos::NEVER) {}
    }

    pub fn sent(&self, port: u16) -> &[Sent] {
        &self.sent[usize::from(port)]
    }

    /// Takes the frames sent since the last call.
    pub fn take_sent(&mut self, port: u16) -> Vec<Sent> {
        std::mem::take(&mut self.sent[usize::from(port)])
    }

    /// True if no event is left.
    pub fn is_idle(&self) -> bool {
        self.driver.next_event().is_none()
    }

    /// Sent frames, without PFC frames.
    pub fn data_sent(&self, port: u16) -> Vec<Sent> {
        let data = |sent: &&Sent| sent.pfc().is_none();
        self.sent(port).iter().filter(data).cloned().collect()
    }

    /// Sent PFC frames with their start times.
    pub fn pfc_sent(&self, port: u16) -> Vec<(Picos, Pfc)> {
        let pfc = |sent: &Sent| sent.pfc().map(|pfc| (sent.start, pfc));
        self.sent(port).iter().filter_map(pfc).collect()
    }

    pub fn clear_sent(&mut self) {
        self.sent.iter_mut().for_each(Vec::clear);
    }

    pub fn counters(&self, port: u16) -> PortCounters {
        self.switch().port_counters(self.now(), PortId(port))
    }

    /// Drops of one reason on a port, for all traffic classes.
    pub fn drops(&self, port: u16, reason: DropReason) -> u64 {
        self.counters(port).drops[reason as usize].iter().sum()
    }

    /// A digest. Two runs have the same digest if the same bytes left the same ports at the same times.
    pub fn digest(&self) -> u32 {
        self.digest.clone().finalize()
    }

    /// Asserts that no frame, slot or cell is in use.
    pub fn assert_empty(&self) {
        self.switch().assert_consistent();
        assert_eq!(self.switch().queued_frames(), 0, "frames in queues");
        assert_eq!(self.store().in_use(), 0, "slots in use");
        for port in 0..self.links.len() as u16 {
            for n in 0..8 {
                let group = self
                    .switch()
                    .pg_buffers(xoff_dataplane::PgId::new(PortId(port), n));
                assert_eq!(
                    group.total.current_cells, 0,
                    "port {port}, priority group {n}: {group:?}"
                );
                assert!(
                    !group.xoff,
                    "port {port}, priority group {n} is empty and in XOFF"
                );
                let queue = self
                    .switch()
                    .queue_buffers(xoff_dataplane::QueueId::new(PortId(port), n));
                assert_eq!(queue.total.current_cells, 0, "port {port}, queue {n}: {queue:?}");
            }
        }
    }

    /// Handles the next event up to `until`; false if there is none.
    fn step(&mut self, until: Picos) -> bool {
        match self.driver.step(until) {
            Step::Idle => return false,
            Step::Deadline => self.drain(),
            Step::Event(what) => self.handle(what),
        }
        true
    }

    fn handle(&mut self, what: What) {
        match what {
            What::ReceivedFrame(port, bytes) => {
                if let ForwardingResult::Dropped(drop) = self.receive(port.0, &bytes) {
                    self.dropped.push(drop);
                }
            }
            What::PeerHears(port, bytes) => {
                let now = self.now();
                if let Some(peer) = &mut self.peers[port.index()] {
                    peer.hear(now, &bytes);
                }
                self.driver.schedule(now, What::PeerSends(port));
            }
            What::PeerSends(port) => self.let_peer_send(port),
        }
    }

    fn let_peer_send(&mut self, port: PortId) {
        let Some(peer) = &mut self.peers[port.index()] else {
            return;
        };
        let (frame, again) = peer.send(self.driver.now());
        if let Some((arrives, bytes)) = frame {
            self.driver.schedule(arrives, What::ReceivedFrame(port, bytes));
        }
        if again < Picos::NEVER {
            self.driver.schedule(again, What::PeerSends(port));
        }
    }

    fn drain(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.driver
            .take_departures(|departure, _| departures.push(departure));
        for departure in departures.drain(..) {
            let bytes = self.store().contents(departure.frame);
            self.store_mut().release(departure.frame);
            self.digest.update(&departure.port.0.to_le_bytes());
            self.digest.update(&departure.start.0.to_le_bytes());
            self.digest.update(&departure.end.0.to_le_bytes());
            self.digest.update(&bytes);
            if self.peers[departure.port.index()].is_some() {
                let heard = What::PeerHears(departure.port, bytes.clone());
                self.driver.schedule(departure.end, heard);
            }
            if self.record {
                self.sent[departure.port.index()].push(Sent {
                    start: departure.start,
                    end: departure.end,
                    bytes,
                });
            }
        }
        self.departures = departures;
        let punts = &mut self.punts;
        self.driver.take_punts(|punt, _| punts.push(punt));
        self.told.extend(self.driver.take_events());
    }
}
