//! The core's path in steady state: four ports send 1082-octet RoCEv2 frames to a fifth, in bursts of 32; 64 flows, bridged
//! or routed.

use std::net::Ipv4Addr;

use super::routing;
use xoff_dataplane::config::{
    BalancingConfig, Bridging, BufferProfile, ClassMaps, GlobalPause, MarkPoint, PauseModel, PfcConfig,
    PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, Schedule, SwitchConfig, Threshold, Trust,
    WatchdogConfig, Wred,
};
use xoff_dataplane::parse::parse;
use xoff_dataplane::store::VecStore;
use xoff_dataplane::wire::{Addresses, BthFields, Extension, Opcode, Path, Reth, RocePacket};
use xoff_dataplane::{Arrival, Deadline, Handle, LinkTiming, Outputs, Picos, PortId, Store, Switch, Verdict};

/// Frames per burst.
pub(crate) const BURST: usize = 32;
/// A message of 1 KiB: 1082 octets with Ethernet, IPv4, UDP, BTH, RETH and ICRC.
const PAYLOAD: usize = 1_008;
const SENDERS: u16 = 4;
const RECEIVER: u16 = 4;
/// Addresses behind each of four senders, each a flow: 64. The receiver has as many as one sender.
const STATIONS: u8 = 16;
/// Octets that forwarding may change: addresses, hops, checksum.
pub(crate) const REWRITTEN: usize = 26;
/// Frames that wait when a burst arrives, over both queues: deep enough for WRED to draw for each one.
const STANDING: usize = 256;

/// A switch under steady load, and the frames that go round through it.
pub(crate) struct Workload {
    switch: Switch,
    store: VecStore,
    outputs: Outputs,
    now: Picos,
    bursts: u64,
    /// When the receiver's link wants to be served.
    due: Option<Deadline>,
    /// Frames out of the switch, to arrive again: used in the order of their departure, as slots of a ring are.
    idle: std::collections::VecDeque<Handle>,
    /// The port that a frame, by its handle, comes in by, and how it begins.
    ingress: Vec<(PortId, [u8; REWRITTEN])>,
    path: Way,
}

/// How frames get from the senders to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By their MAC addresses.
    Bridged,
    /// By as many routes, half of them over four equal-cost next hops.
    Routed {
        /// Number of routes beside those of the interfaces.
        routes: u32,
    },
}

impl Workload {
    /// Learns all addresses and fills the receiver's queues.
    pub(crate) fn new(path: Way) -> Workload {
        let mut config = config();
        if let Way::Routed { routes } = path {
            config.bridging = Bridging::Vlans(Vec::new());
            config.routing = routing::config(routes);
        }
        let mut new = Workload {
            switch: Switch::new(&config),
            store: VecStore::new(STANDING + 2 * BURST),
            outputs: Outputs::with_capacity(4 * BURST),
            now: Picos::ZERO,
            bursts: 0,
            due: None,
            idle: std::collections::VecDeque::with_capacity(STANDING + 2 * BURST),
            ingress: Vec::new(),
            path,
        };
        for port in 0..=RECEIVER {
            new.switch
                .set_link(new.now, PortId(port), true, &mut new.store, &mut new.outputs);
        }
        match path {
            Way::Bridged => new.learn(),
            Way::Routed { .. } => new.flush(), // the questions about next hops
        }
        for n in 0..(STANDING + BURST) as u32 {
            let port = n as u16 % SENDERS;
            let frame = frame(port, n, path);
            let handle = new.store.insert(&frame).expect("a slot for each frame");
            let begin = *frame.first_chunk().expect("long enough");
            new.ingress.resize(handle.0 as usize + 1, (PortId(0), begin));
            new.ingress[handle.0 as usize] = (PortId(port), begin);
            new.idle.push_back(handle);
        }
        new.arrive(STANDING);
        assert_eq!(new.switch.frames_queued() + 1, STANDING, "one is on the link");
        new
    }

    /// Bursts so far.
    pub(crate) fn bursts(&self) -> u64 {
        self.bursts
    }

    /// A burst arrives, and as many frames leave.
    pub(crate) fn burst(&mut self) {
        self.bursts += 1;
        self.arrive(BURST);
        self.depart(BURST);
    }

    /// Panics unless the load was what it should have been: nothing lost, marks, learnt addresses.
    pub(crate) fn check(&self) {
        self.switch.check();
        let counters = |port| self.switch.port_counters(self.now, PortId(port));
        assert!((0..=RECEIVER).all(|port| counters(port).dropped() == 0), "drops");
        assert!(counters(RECEIVER).ecn_marked > 0, "no marks");
        let learnt = match self.path {
            Way::Bridged => 5 * usize::from(STATIONS),
            Way::Routed { .. } => 0,
        };
        assert_eq!(self.switch.fdb_entries(self.now).len(), learnt);
    }

    fn arrive(&mut self, frames: usize) {
        for _ in 0..frames {
            let Some(frame) = self.idle.pop_front() else {
                return;
            };
            let bytes = self.store.prefix(frame);
            let arrival = Arrival {
                frame,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_at: self.now,
            };
            let (port, _) = self.ingress[frame.0 as usize];
            let verdict = self
                .switch
                .receive(self.now, port, &arrival, &mut self.store, &mut self.outputs);
            debug_assert_eq!(verdict, Verdict::Forwarded { copies: 1 });
        }
        self.drain();
    }

    fn depart(&mut self, frames: usize) {
        for _ in 0..frames {
            let Some(due) = self.due.take() else { return };
            self.now = due.at;
            self.switch
                .expire(self.now, due.timer, &mut self.store, &mut self.outputs);
            self.drain();
        }
    }

    fn drain(&mut self) {
        // At most one frame leaves per call, so the order of the list does not matter.
        while let Some(transmit) = self.outputs.transmits.pop() {
            // It goes round as it was: one hop less each time would end it. Not just before it arrives again, when what was
            // written would still lie in the store buffer.
            let (_, begin) = self.ingress[transmit.frame.0 as usize];
            self.store.prefix_mut(transmit.frame)[..REWRITTEN].copy_from_slice(&begin);
            self.idle.push_back(transmit.frame);
        }
        if let Some(due) = self.outputs.deadlines.pop() {
            self.due = Some(due);
            self.outputs.deadlines.clear();
        }
    }

    /// Every station is heard once, so that nothing floods.
    fn learn(&mut self) {
        for port in 0..=RECEIVER {
            for station in 0..STATIONS {
                let mut frame = [0; 60];
                frame[..6].fill(0xff);
                frame[6..12].copy_from_slice(&mac(port, station));
                let handle = self.store.insert(&frame).expect("a slot");
                let arrival = Arrival {
                    frame: handle,
                    frame_len: 60,
                    parsed: parse(&frame),
                    received_at: self.now,
                };
                self.switch.receive(
                    self.now,
                    PortId(port),
                    &arrival,
                    &mut self.store,
                    &mut self.outputs,
                );
                self.flush();
            }
        }
    }

    /// Lets everything leave and gives the slots back.
    fn flush(&mut self) {
        let mut deadlines: Vec<Deadline> = self.outputs.deadlines.drain(..).collect();
        while let Some(due) = deadlines.pop() {
            self.now = self.now.max(due.at);
            self.switch
                .expire(self.now, due.timer, &mut self.store, &mut self.outputs);
            deadlines.append(&mut self.outputs.deadlines);
        }
        for transmit in self.outputs.transmits.drain(..) {
            self.now = self.now.max(transmit.end);
            self.store.release(transmit.frame);
        }
    }
}

fn mac(port: u16, station: u8) -> [u8; 6] {
    [2, 0, 0, 0, port as u8, station]
}

/// Frame `n` from `port`: stations take turns, and so do the two classes.
fn frame(port: u16, n: u32, way: Way) -> Vec<u8> {
    let station = (n / u32::from(SENDERS)) as u8 % STATIONS;
    let (to, dst) = match way {
        Way::Bridged => (
            mac(RECEIVER, station),
            Ipv4Addr::new(10, 0, RECEIVER as u8, station),
        ),
        Way::Routed { routes } => (routing::MAC, routing::destination(routes, port, station)),
    };
    let src = Ipv4Addr::new(10, 0, port as u8, station);
    let dscp = 3 + (n / u32::from(SENDERS)) as u8 % 2;
    roce(mac(port, station), to, src, dst, dscp, 17, n)
}

/// A frame of a queue pair, half of them of each of the two classes.
pub(crate) fn roce_frame(
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    queue_pair: u32,
) -> Vec<u8> {
    roce(from, to, src, dst, 3 + (queue_pair / 4) as u8 % 2, queue_pair, 0)
}

fn roce(
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    dscp: u8,
    queue_pair: u32,
    psn: u32,
) -> Vec<u8> {
    let mut path = Path::new(from, to, Addresses::V4 { src, dst });
    path.dscp = dscp;
    let reth = Reth {
        virtual_address: 0x1000,
        rkey: 1,
        dma_len: PAYLOAD as u32,
    };
    let packet = RocePacket {
        path: &path,
        bth: BthFields::new(Opcode::RcWriteOnly, queue_pair, psn),
        extensions: &[Extension::Reth(reth)],
    };
    let mut frame = vec![0; packet.frame_len(PAYLOAD)];
    packet
        .emit(&mut frame, PAYLOAD, |payload| payload.fill(0x5a))
        .expect("a buffer of that length");
    assert_eq!(frame.len(), 1_082);
    frame
}

/// Ports of 100 Gb/s; priorities 3 and 4 lossless with PFC, each queue of its own DWRR weight, ECN on both.
pub(crate) fn config() -> SwitchConfig {
    let profile = |name: &str, pool, xoff_bytes| BufferProfile {
        name: name.into(),
        pool,
        size_bytes: 1_248,
        threshold: Threshold::Dynamic(0),
        xoff_bytes,
        xon_bytes: 0,
        xon_offset_bytes: 2_496,
        trim: false,
    };
    let pool = |name: &str, side, xoff_bytes| PoolConfig {
        name: name.into(),
        side,
        size_bytes: 32 << 20,
        xoff_bytes,
    };
    SwitchConfig {
        name: "bench".into(),
        mac: [2; 6],
        seed: 1,
        cell_bytes: 208,
        pipeline_latency: Picos::ZERO,
        mark_point: MarkPoint::Dequeue,
        fdb_ageing: Picos::from_millis(600_000),
        fdb_entries_max: 4_096,
        frames_max: 4_096,
        ports: (0..=RECEIVER).map(port).collect(),
        pools: vec![
            pool("ingress", PoolSide::Ingress, 4 << 20),
            pool("egress", PoolSide::Egress, 0),
        ],
        profiles: vec![profile("ingress", 0, 100 << 10), profile("egress", 1, 0)],
        port_profiles: Vec::new(),
        lags: Vec::new(),
        bridging: Bridging::Transparent,
        routing: RoutingConfig::default(),
        balancing: BalancingConfig::default(),
        watchdog: WatchdogConfig::default(),
        trimming: None,
    }
}

pub(crate) fn port(index: u16) -> PortConfig {
    let identity = |n: usize| n as u8 % 8;
    PortConfig {
        name: format!("Ethernet{index}"),
        mac: [2, 0, 0, 1, 0, index as u8],
        admin_up: true,
        mtu: 9_100,
        link: LinkTiming::ethernet(100_000),
        tpid: 0x8100,
        classify: ClassMaps {
            trust: Trust::Dscp,
            dscp_to_tc: std::array::from_fn(identity),
            dot1p_to_tc: std::array::from_fn(identity),
            tc_to_queue: std::array::from_fn(identity),
            tc_to_pg: std::array::from_fn(identity),
        },
        pfc: PfcConfig {
            enabled: 0b1_1000,
            asymmetric: false,
            pause_quanta: 0xffff,
            refresh: Picos::from_micros(200),
            priority_to_queue: std::array::from_fn(identity),
            priority_to_pg: std::array::from_fn(identity),
            pauses: PauseModel::Timed,
            global: GlobalPause::default(),
        },
        watchdog: None,
        tc_to_dscp: [None; 16],
        pgs: [0; 8],
        queues: std::array::from_fn(|n| QueueConfig {
            profile: 1,
            schedule: Schedule::Dwrr {
                weight: 14 + u8::from(n == 3),
            },
            shaper: None,
            wred: Some(Wred {
                min_bytes: 50_000,
                max_bytes: 500_000,
                max_probability: (1 << 32) / 20,
                ecn: true,
                drop: false,
            }),
        }),
        shaper: None,
    }
}
