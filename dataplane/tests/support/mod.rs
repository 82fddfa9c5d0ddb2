//! Runs one switch in virtual time, with an event queue, and records the frames that leave each port.

#![allow(dead_code, unreachable_pub)] // no test binary uses all items

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
pub struct SentFrame {
    pub start: Picos,
    pub end: Picos,
    pub bytes: Vec<u8>,
}

impl SentFrame {
    /// Returns the PFC frame. `None` for other frames.
    pub fn pfc(&self) -> Option<Pfc> {
        match MacControl::parse(&self.bytes) {
            Ok(MacControl::Pfc(pfc)) => Some(pfc),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HarnessEvent {
    ReceivedFrame(PortId, Vec<u8>),
    PeerReceives(PortId, Vec<u8>),
    PeerSends(PortId),
}

pub struct Harness {
    driver: VirtualSwitch<VecStore, HarnessEvent>,
    /// True if the bytes of sent frames are kept. Otherwise only counters and the digest are kept.
    pub records_frames: bool,
    /// The drops of scheduled frames.
    pub dropped: Vec<xoff_dataplane::DroppedFrame>,
    pub punts: Vec<PuntedFrame>,
    /// Events of the switch.
    pub switch_events: Vec<SwitchEvent>,
    /// CRC over all sent frames with their ports and times.
    digest: crc32fast::Hasher,
    links: Vec<LinkTiming>,
    sent: Vec<Vec<SentFrame>>,
    peers: Vec<Option<Sender>>,
    /// Departures that are being collected. Empty between calls.
    departures: Vec<Transmit>,
}

impl Harness {
    /// Creates a switch whose links are all up at time zero.
    pub fn new(config: &SwitchConfig) -> Harness {
        let ports = config.ports.len();
        let mut harness = Harness {
            driver: VirtualSwitch::new(config, VecStore::new(1 << 20)),
            records_frames: true,
            dropped: Vec::new(),
            punts: Vec::new(),
            switch_events: Vec::new(),
            digest: crc32fast::Hasher::new(),
            links: config.ports.iter().map(|port| port.link).collect(),
            sent: vec![Vec::new(); ports],
            peers: (0..ports).map(|_| None).collect(),
            departures: Vec::new(),
        };
        harness.driver.store_punted_frames();
        for port in 0..ports as u16 {
            harness.set_link(port, true);
        }
        harness
    }

    /// Creates a switch that has learnt the address `station_mac(n)` at port *n*. The record of sent frames
    /// is empty.
    pub fn with_learnt_addresses(config: &SwitchConfig) -> Harness {
        let mut harness = Harness::new(config);
        let ports = config.ports.len() as u8;
        for port in 0..ports {
            let to = if port == 0 {
                [0xff; 6]
            } else {
                frames::station_mac(0)
            };
            let frame = frames::ethernet_frame(to, frames::station_mac(port), 60);
            harness.receive(u16::from(port), &frame);
        }
        harness.run();
        harness.run_for(Picos::from_millis(10)); // until every link is idle
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
        self.driver
            .schedule(at, HarnessEvent::ReceivedFrame(PortId(port), bytes));
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
        let frame = MacControl::Pfc(Pfc { enable, quanta }).to_frame(frames::station_mac(0xee));
        self.receive(port, &frame)
    }

    pub fn set_link(&mut self, port: u16, up: bool) {
        self.driver.set_link(PortId(port), up);
        self.drain();
    }

    pub fn set_tx_enabled(&mut self, port: u16, on: bool) {
        let port = PortId(port);
        self.call_switch(|now, switch, store, outputs| switch.set_tx_enabled(now, port, on, store, outputs));
    }

    pub fn set_queue_enabled(&mut self, port: u16, queue: u8, on: bool) {
        let queue = QueueId::new(PortId(port), queue);
        self.call_switch(|now, switch, store, outputs| {
            switch.set_queue_enabled(now, queue, on, store, outputs)
        });
    }

    pub fn apply(&mut self, config: &SwitchConfig) {
        let applied =
            self.call_switch(|now, switch, store, outputs| switch.apply_config(now, config, store, outputs));
        applied.expect("same ports");
        self.links = config.ports.iter().map(|port| port.link).collect();
    }

    /// Calls the switch directly and records its outputs.
    pub fn call_switch<R>(
        &mut self,
        f: impl FnOnce(Picos, &mut Switch, &mut VecStore, &mut Outputs) -> R,
    ) -> R {
        let result = self
            .driver
            .change(|switch, now, store, outputs| f(now, switch, store, outputs));
        self.drain();
        result
    }

    /// Connects a sender that honours PFC to a port.
    pub fn connect_peer(&mut self, port: u16, sender: Sender) {
        self.peers[usize::from(port)] = Some(sender);
        self.driver
            .schedule(self.now(), HarnessEvent::PeerSends(PortId(port)));
    }

    pub fn peer(&self, port: u16) -> &Sender {
        self.peers[usize::from(port)]
            .as_ref()
            .expect("a peer is connected")
    }

    /// Handles all events up to and including `until`.
    pub fn run_until(&mut self, until: Picos) {
        while self.handle_next_event(until) {}
        self.driver.advance_to(until);
    }

    /// Advances the time without handling the events that become due, like a driver that wakes up late.
    pub fn skip_time(&mut self, span: Picos) {
        self.driver.advance_past_events(self.now() + span);
    }

    pub fn run_for(&mut self, span: Picos) {
        self.run_until(self.now() + span);
    }

    /// Handles all events until none is left.
    pub fn run(&mut self) {
        while self.handle_next_event(Picos::NEVER) {}
    }

    pub fn sent(&self, port: u16) -> &[SentFrame] {
        &self.sent[usize::from(port)]
    }

    /// Takes the frames sent since the last call.
    pub fn take_sent(&mut self, port: u16) -> Vec<SentFrame> {
        std::mem::take(&mut self.sent[usize::from(port)])
    }

    /// Returns true if no event is left.
    pub fn is_idle(&self) -> bool {
        self.driver.next_event().is_none()
    }

    /// Returns the sent frames without PFC frames.
    pub fn data_sent(&self, port: u16) -> Vec<SentFrame> {
        let data = |sent: &&SentFrame| sent.pfc().is_none();
        self.sent(port).iter().filter(data).cloned().collect()
    }

    /// Returns the sent PFC frames with their start times.
    pub fn pfc_sent(&self, port: u16) -> Vec<(Picos, Pfc)> {
        let pfc = |sent: &SentFrame| sent.pfc().map(|pfc| (sent.start, pfc));
        self.sent(port).iter().filter_map(pfc).collect()
    }

    pub fn clear_sent(&mut self) {
        self.sent.iter_mut().for_each(Vec::clear);
    }

    pub fn counters(&self, port: u16) -> PortCounters {
        self.switch().port_counters(self.now(), PortId(port))
    }

    /// Returns the number of drops of one reason on a port, for all traffic classes.
    pub fn drop_count(&self, port: u16, reason: DropReason) -> u64 {
        self.counters(port).drops[reason as usize].iter().sum()
    }

    /// Returns a digest of all sent frames. Two runs have the same digest if the same bytes left the same
    /// ports at the same times.
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

    /// Handles the next event up to `until`. Returns false if there is none.
    fn handle_next_event(&mut self, until: Picos) -> bool {
        match self.driver.step(until) {
            Step::Idle => return false,
            Step::Deadline => self.drain(),
            Step::Event(event) => self.handle_event(event),
        }
        true
    }

    fn handle_event(&mut self, event: HarnessEvent) {
        match event {
            HarnessEvent::ReceivedFrame(port, bytes) => {
                if let ForwardingResult::Dropped(drop) = self.receive(port.0, &bytes) {
                    self.dropped.push(drop);
                }
            }
            HarnessEvent::PeerReceives(port, bytes) => {
                let now = self.now();
                if let Some(peer) = &mut self.peers[port.index()] {
                    peer.receive(now, &bytes);
                }
                self.driver.schedule(now, HarnessEvent::PeerSends(port));
            }
            HarnessEvent::PeerSends(port) => self.let_peer_send(port),
        }
    }

    fn let_peer_send(&mut self, port: PortId) {
        let Some(peer) = &mut self.peers[port.index()] else {
            return;
        };
        let (frame, again) = peer.start_next_frame(self.driver.now());
        if let Some((arrives, bytes)) = frame {
            self.driver
                .schedule(arrives, HarnessEvent::ReceivedFrame(port, bytes));
        }
        if again < Picos::NEVER {
            self.driver.schedule(again, HarnessEvent::PeerSends(port));
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
                let heard = HarnessEvent::PeerReceives(departure.port, bytes.clone());
                self.driver.schedule(departure.end, heard);
            }
            if self.records_frames {
                self.sent[departure.port.index()].push(SentFrame {
                    start: departure.start,
                    end: departure.end,
                    bytes,
                });
            }
        }
        self.departures = departures;
        let punts = &mut self.punts;
        self.driver.take_punts(|punt, _| punts.push(punt));
        self.switch_events.extend(self.driver.take_events());
    }
}
