//! A load in which four ports send RoCEv2 frames of 1082 bytes to a fifth port, bridged or routed.
//!
//! The 64 flows send in bursts of 32 frames.

use std::net::Ipv4Addr;

use xoff_dataplane::config::BridgingConfig;
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameHandle, FrameStore, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use crate::route_table;
use crate::slot_ring::SlotRing;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// Number of sending ports.
const SENDERS: u16 = 4;
/// Index of the receiving port.
const RECEIVER: u16 = 4;
/// Number of MAC addresses at each port. Each address of a sender is one flow.
const STATIONS_PER_PORT: u8 = 16;
/// Number of bytes at the start of a frame that forwarding changes: MAC addresses, TTL and IPv4 checksum.
pub(super) const REWRITTEN_BYTES: usize = 26;
/// Sum of the frames in the two queues when a burst arrives. At this queue length, WRED makes a decision for
/// each frame.
const QUEUED_FRAMES: usize = 256;
/// Largest number of frames in the load.
const FRAMES_MAX: usize = 512;
const _: () = assert!(QUEUED_FRAMES + 2 * BURST_FRAMES <= FRAMES_MAX);

/// A load in which four ports send to one port. Frames that have left the switch arrive again.
#[derive(Debug)]
pub struct ManyToOneLoad {
    switch: VirtualSwitch<VecStore>,
    bursts: u64,
    /// Frames outside the switch, which arrive again in the order of their departures.
    waiting: SlotRing<FrameHandle, FRAMES_MAX>,
    /// Ingress port and original first bytes of each frame, indexed by the frame handle.
    ingress: Vec<(PortId, [u8; REWRITTEN_BYTES])>,
    forwarding: ForwardingMode,
}

/// The way in which the switch of a [`ManyToOneLoad`] forwards frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingMode {
    /// Bridging by MAC addresses.
    Bridged,
    /// Routing. Half of the routes have four equal-cost next hops.
    Routed {
        /// Number of routes, without the connected routes of the interfaces.
        routes: u32,
    },
}

impl ManyToOneLoad {
    /// Creates the load. The switch has learned all addresses, and the queues of the receiving
    /// port are filled.
    pub fn new(forwarding: ForwardingMode) -> ManyToOneLoad {
        let mut config = crate::switch_config::switch_config(RECEIVER + 1);
        if let ForwardingMode::Routed { routes } = forwarding {
            config.bridging = BridgingConfig::Vlans(Vec::new());
            config.routing = route_table::routing_config(routes);
        }
        let mut new = ManyToOneLoad {
            switch: VirtualSwitch::new(&config, VecStore::new(QUEUED_FRAMES + 2 * BURST_FRAMES)),
            bursts: 0,
            waiting: SlotRing::new(FrameHandle(0)),
            ingress: Vec::new(),
            forwarding,
        };
        new.switch.store_punted_frames();
        new.switch.set_links_up();
        match forwarding {
            ForwardingMode::Bridged => new.learn_stations(),
            ForwardingMode::Routed { .. } => new.release_all_frames(), // ARP requests for next hops
        }
        for n in 0..(QUEUED_FRAMES + BURST_FRAMES) as u32 {
            let port = n as u16 % SENDERS;
            let frame = build_frame(port, n, forwarding);
            let handle = new
                .switch
                .store_mut()
                .insert(&frame)
                .expect("a slot for each frame");
            let headers = *frame.first_chunk().expect("long enough");
            new.ingress.resize(handle.0 as usize + 1, (PortId(0), headers));
            new.ingress[handle.0 as usize] = (PortId(port), headers);
            new.waiting.push(handle);
        }
        new.receive_frames(QUEUED_FRAMES);
        assert_eq!(
            new.switch.switch().queued_frames() + 1,
            QUEUED_FRAMES,
            "the link transmits one frame"
        );
        new
    }

    /// Receives one burst of frames and sends the same number of frames.
    pub fn run_burst(&mut self) {
        self.bursts += 1;
        self.receive_frames(BURST_FRAMES);
        self.send_frames(BURST_FRAMES);
    }

    fn receive_frames(&mut self, frames: usize) {
        for _ in 0..frames {
            let Some(frame) = self.waiting.pop() else {
                return;
            };
            let bytes = self.switch.store().prefix(frame);
            let arrival = ReceivedFrame {
                frame,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_at: self.switch.now(),
            };
            let (port, _) = self.ingress[frame.0 as usize];
            let verdict = self.switch.receive(port, &arrival);
            debug_assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
        }
        self.take_departures();
    }

    fn send_frames(&mut self, frames: usize) {
        let mut departed = 0;
        while departed < frames && self.switch.step(Picos::NEVER) == Step::Deadline {
            departed += self.take_departures();
        }
    }

    /// Restores the headers of frames that have left, so that the frames can arrive again. Returns the number
    /// of frames.
    #[inline]
    fn take_departures(&mut self) -> usize {
        let (ingress, waiting) = (&self.ingress, &mut self.waiting);
        let departed = self.switch.departures().len();
        self.switch.take_departures(|departure, store| {
            // Without this, the TTL would reach 0. Headers that are written immediately before the frame
            // arrives would be in the store buffer.
            let (_, headers) = ingress[departure.frame.0 as usize];
            store.prefix_mut(departure.frame)[..REWRITTEN_BYTES].copy_from_slice(&headers);
            waiting.push(departure.frame);
        });
        departed
    }

    /// Sends one broadcast frame from every station, so that the switch learns its address and
    /// floods no frame.
    fn learn_stations(&mut self) {
        for port in 0..=RECEIVER {
            for station in 0..STATIONS_PER_PORT {
                let mut frame = [0; 60];
                frame[..6].fill(0xff);
                frame[6..12].copy_from_slice(&station_mac(port, station));
                let handle = self.switch.store_mut().insert(&frame).expect("a slot");
                let arrival = ReceivedFrame {
                    frame: handle,
                    frame_len: 60,
                    parsed: parse(&frame),
                    received_at: self.switch.now(),
                };
                self.switch.receive(PortId(port), &arrival);
                self.release_all_frames();
            }
        }
    }

    /// Sends all frames of the switch and releases their frame slots.
    fn release_all_frames(&mut self) {
        while self.switch.step(Picos::NEVER) == Step::Deadline {}
        let mut last = self.switch.now();
        self.switch.take_departures(|departure, store| {
            last = last.max(departure.end);
            store.release(departure.frame);
        });
        self.switch.advance_to(last);
    }
}

impl FrameLoad for ManyToOneLoad {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.run_burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        let counters = |port| {
            self.switch
                .switch()
                .port_counters(self.switch.now(), PortId(port))
        };
        if let Some(port) = (0..=RECEIVER).find(|&port| counters(port).dropped_frames() > 0) {
            return Err(format!("port {port} dropped frames"));
        }
        if self.bursts > 1_000 && counters(RECEIVER).ecn_marked == 0 {
            return Err("no frame was marked".to_owned());
        }
        let learned = match self.forwarding {
            ForwardingMode::Bridged => 5 * usize::from(STATIONS_PER_PORT),
            ForwardingMode::Routed { .. } => 0,
        };
        match self.switch.switch().fdb_entries(self.switch.now()).len() {
            found if found == learned => Ok(()),
            found => Err(format!("the switch has learned {found} addresses, not {learned}")),
        }
    }
}

fn station_mac(port: u16, station: u8) -> [u8; 6] {
    [2, 0, 0, 0, port as u8, station]
}

/// Returns frame `n` of a sending port. The destination station (end system behind the receiving port) and
/// the lossless priority (one of two) change with `n`, in turn.
pub(super) fn build_frame(port: u16, n: u32, forwarding: ForwardingMode) -> Vec<u8> {
    let station = (n / u32::from(SENDERS)) as u8 % STATIONS_PER_PORT;
    let (destination_mac, dst) = match forwarding {
        ForwardingMode::Bridged => (
            station_mac(RECEIVER, station),
            Ipv4Addr::new(10, 0, RECEIVER as u8, station),
        ),
        ForwardingMode::Routed { routes } => (
            route_table::ROUTER_MAC,
            route_table::flow_destination(routes, port, station),
        ),
    };
    let src = Ipv4Addr::new(10, 0, port as u8, station);
    let dscp = 3 + (n / u32::from(SENDERS)) as u8 % 2;
    crate::frames::write_frame(station_mac(port, station), destination_mac, src, dst, dscp, 17, n)
}
