//! The core's path in steady state: four ports send 1082-octet RoCEv2 frames to a fifth, in bursts of 32; 64 flows, bridged
//! or routed.

use std::net::Ipv4Addr;

use xoff_dataplane::config::BridgingConfig;
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameHandle, FrameStore, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use crate::route_table;
use crate::slot_ring::SlotRing;
use xoff_measure::frame_cost::BURST;
use xoff_measure::frame_cost::{Load, run_bursts};

const SENDERS: u16 = 4;
const RECEIVER: u16 = 4;
/// Addresses behind each of four senders, each a flow: 64. The receiver has as many as one sender.
const STATIONS: u8 = 16;
/// Octets that forwarding may change: addresses, hops, checksum.
pub(super) const REWRITTEN: usize = 26;
/// Frames that wait when a burst arrives, over both queues: deep enough for WRED to draw for each one.
const STANDING: usize = 256;
/// Frames there are, at most.
const FRAMES_MAX: usize = 512;
const _: () = assert!(STANDING + 2 * BURST <= FRAMES_MAX);

/// A switch under steady load, and the frames that go round through it.
#[derive(Debug)]
pub struct ManyToOne {
    switch: VirtualSwitch<VecStore>,
    bursts: u64,
    /// Frames out of the switch, to arrive again: used in the order of their departure, as slots of a ring are.
    idle: SlotRing<FrameHandle, FRAMES_MAX>,
    /// The port that a frame, by its handle, comes in by, and how it begins.
    ingress: Vec<(PortId, [u8; REWRITTEN])>,
    path: ForwardingMode,
}

/// How frames get from the senders to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingMode {
    /// By their MAC addresses.
    Bridged,
    /// By as many routes, half of them over four equal-cost next hops.
    Routed {
        /// Number of routes beside those of the interfaces.
        routes: u32,
    },
}

impl ManyToOne {
    /// Learns all addresses and fills the receiver's queues.
    pub fn new(path: ForwardingMode) -> ManyToOne {
        let mut config = crate::switch_config::switch_config(RECEIVER + 1);
        if let ForwardingMode::Routed { routes } = path {
            config.bridging = BridgingConfig::Vlans(Vec::new());
            config.routing = route_table::config(routes);
        }
        let mut new = ManyToOne {
            switch: VirtualSwitch::new(&config, VecStore::new(STANDING + 2 * BURST)),
            bursts: 0,
            idle: SlotRing::new(FrameHandle(0)),
            ingress: Vec::new(),
            path,
        };
        new.switch.keep_punts();
        new.switch.set_links_up();
        match path {
            ForwardingMode::Bridged => new.learn(),
            ForwardingMode::Routed { .. } => new.flush(), // the questions about next hops
        }
        for n in 0..(STANDING + BURST) as u32 {
            let port = n as u16 % SENDERS;
            let frame = frame(port, n, path);
            let handle = new
                .switch
                .store_mut()
                .insert(&frame)
                .expect("a slot for each frame");
            let begin = *frame.first_chunk().expect("long enough");
            new.ingress.resize(handle.0 as usize + 1, (PortId(0), begin));
            new.ingress[handle.0 as usize] = (PortId(port), begin);
            new.idle.push(handle);
        }
        new.arrive(STANDING);
        assert_eq!(
            new.switch.switch().queued_frames() + 1,
            STANDING,
            "one is on the link"
        );
        new
    }

    /// A burst arrives, and as many frames leave.
    pub fn burst(&mut self) {
        self.bursts += 1;
        self.arrive(BURST);
        self.depart(BURST);
    }

    fn arrive(&mut self, frames: usize) {
        for _ in 0..frames {
            let Some(frame) = self.idle.pop() else {
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

    fn depart(&mut self, frames: usize) {
        let mut departed = 0;
        while departed < frames && self.switch.step(Picos::NEVER) == Step::Deadline {
            departed += self.take_departures();
        }
    }

    /// Queues the frames that have left to arrive again, and counts them.
    #[inline]
    fn take_departures(&mut self) -> usize {
        let (ingress, idle) = (&self.ingress, &mut self.idle);
        let departed = self.switch.departures().len();
        self.switch.take_departures(|departure, store| {
            // The frame arrives again as it was: a hop less each time would end it. Its headers are written now and not just
            // before it arrives, when they would still be in the store buffer.
            let (_, begin) = ingress[departure.frame.0 as usize];
            store.prefix_mut(departure.frame)[..REWRITTEN].copy_from_slice(&begin);
            idle.push(departure.frame);
        });
        departed
    }

    /// Every station is heard once, so that nothing floods.
    fn learn(&mut self) {
        for port in 0..=RECEIVER {
            for station in 0..STATIONS {
                let mut frame = [0; 60];
                frame[..6].fill(0xff);
                frame[6..12].copy_from_slice(&mac(port, station));
                let handle = self.switch.store_mut().insert(&frame).expect("a slot");
                let arrival = ReceivedFrame {
                    frame: handle,
                    frame_len: 60,
                    parsed: parse(&frame),
                    received_at: self.switch.now(),
                };
                self.switch.receive(PortId(port), &arrival);
                self.flush();
            }
        }
    }

    /// Lets everything leave and gives the slots back.
    fn flush(&mut self) {
        while self.switch.step(Picos::NEVER) == Step::Deadline {}
        let mut last = self.switch.now();
        self.switch.take_departures(|departure, store| {
            last = last.max(departure.end);
            store.release(departure.frame);
        });
        self.switch.advance_to(last);
    }
}

impl Load for ManyToOne {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.burst())
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
            return Err("nothing was marked".to_owned());
        }
        let learnt = match self.path {
            ForwardingMode::Bridged => 5 * usize::from(STATIONS),
            ForwardingMode::Routed { .. } => 0,
        };
        match self.switch.switch().fdb_entries(self.switch.now()).len() {
            found if found == learnt => Ok(()),
            found => Err(format!("{found} addresses were learnt, not {learnt}")),
        }
    }
}

fn mac(port: u16, station: u8) -> [u8; 6] {
    [2, 0, 0, 0, port as u8, station]
}

/// Frame `n` from `port`: stations take turns, and so do the two classes.
pub(super) fn frame(port: u16, n: u32, way: ForwardingMode) -> Vec<u8> {
    let station = (n / u32::from(SENDERS)) as u8 % STATIONS;
    let (to, dst) = match way {
        ForwardingMode::Bridged => (
            mac(RECEIVER, station),
            Ipv4Addr::new(10, 0, RECEIVER as u8, station),
        ),
        ForwardingMode::Routed { routes } => (
            route_table::ROUTER_MAC,
            route_table::destination(routes, port, station),
        ),
    };
    let src = Ipv4Addr::new(10, 0, port as u8, station);
    let dscp = 3 + (n / u32::from(SENDERS)) as u8 % 2;
    crate::frames::write_frame(mac(port, station), to, src, dst, dscp, 17, n)
}
