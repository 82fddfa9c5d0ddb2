//! Tests of hosts in virtual time. Two hosts are connected directly, and every frame is recorded
//! with its time.

mod flows;
mod neighbours;
mod pauses;
mod receiving;
mod reference;
mod robustness;
mod settings;

use std::net::{Ipv4Addr, Ipv6Addr};

use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::parse::parse;
use xoff_wire::{MacControl, Pfc};

use super::*;

const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);
/// Time of a 1082-byte frame on a link of 1 Gb/s: 1106 bytes with FCS, preamble and gap.
const FRAME_TIME: Picos = Picos::from_nanos(8_848);
/// Wall clock of these tests at model time 0.
const WALL_EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Response time of a pause in these tests.
const RESPONSE: Picos = Picos::from_nanos(1_024);

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn ipv4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn ipv6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n))
}

/// Returns the configuration of host `n` with both addresses and without announcements.
fn host_config(n: u8) -> HostConfig {
    let mut config = HostConfig::new(format!("h{n}"), mac(n), GIGABIT);
    config.ipv4 = Some(ipv4(n));
    config.ipv6 = Some(ipv6(n));
    config.token = 0x1234_5678_9abc_def0;
    config.announce_interval = Picos::ZERO;
    config
}

/// Returns flow `id` from host 1 to host 2. All frames have 1082 bytes, except the first of each 64 MiB.
fn flow(id: u32, class: u8) -> FlowConfig {
    let mut flow = FlowConfig::lossless(id, ipv4(2).into(), Some(mac(2)));
    flow.class = class;
    flow.message_bytes = 64 << 20;
    flow
}

fn sender(flows: Vec<FlowConfig>) -> Host {
    let mut config = host_config(1);
    config.flows = flows;
    Host::new(&config).unwrap()
}

fn receiver() -> Host {
    Host::new(&host_config(2)).unwrap()
}

/// A sent frame.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentFrame {
    /// Start of the transmission.
    at: Picos,
    bytes: Vec<u8>,
}

impl SentFrame {
    /// Returns the stamp, or `None` for ARP, neighbour discovery and PFC.
    fn stamp(&self) -> Option<PayloadStamp> {
        let view = xoff_wire::RoceView::new_checked(&self.bytes).ok()?;
        PayloadStamp::read(view.payload())
    }
}

fn wall_ns(now: Picos) -> u64 {
    WALL_EPOCH_NS + now.as_nanos()
}

/// Runs a single host until `end` with calls at its deadlines. Returns the frames of its flows.
fn run_single_host(host: &mut Host, from: Picos, end: Picos) -> Vec<SentFrame> {
    let mut sent = Vec::new();
    let mut buf = vec![0; host.frame_len_max()];
    let mut now = from;
    while now < end {
        while let Some(len) = host.transmit(now, wall_ns(now), &mut buf) {
            sent.push(SentFrame {
                at: now,
                bytes: buf[..len].to_vec(),
            });
        }
        let next = host.next_deadline();
        assert!(
            next > now,
            "nothing is left to do at {now:?}, yet the deadline is {next:?}"
        );
        now = next;
    }
    sent.retain(|frame| frame.stamp().is_some());
    sent
}

/// Counts the frames of a single host without storing them, for rates over long times.
fn count_frames_of_single_host(host: &mut Host, end: Picos) -> u64 {
    let mut buf = vec![0; host.frame_len_max()];
    let mut now = Picos::ZERO;
    while now < end {
        while host.transmit(now, wall_ns(now), &mut buf).is_some() {}
        now = host.next_deadline();
    }
    host.sent_frames()
}

fn deliver_pfc(host: &mut Host, now: Picos, enable: u8, quanta: [u16; 8]) {
    let frame = MacControl::Pfc(Pfc { enable, quanta }).to_frame(mac(9));
    host.receive(now, wall_ns(now), &frame, &parse(&frame));
}

/// Two hosts on a link without delay. The frames that `tamper` returns for a sent frame arrive, in this
/// order, with the last bit of the frame.
struct Cable<T: FnMut(usize, Vec<u8>) -> Vec<Vec<u8>>> {
    hosts: [Host; 2],
    now: Picos,
    in_flight: Vec<(Picos, usize, Vec<u8>)>,
    tamper: T,
    log: Vec<(usize, SentFrame)>,
}

impl<T: FnMut(usize, Vec<u8>) -> Vec<Vec<u8>>> Cable<T> {
    fn new(hosts: [Host; 2], tamper: T) -> Cable<T> {
        Cable {
            hosts,
            now: Picos::ZERO,
            in_flight: Vec::new(),
            tamper,
            log: Vec::new(),
        }
    }

    fn run(&mut self, end: Picos) {
        let mut buf = [0; 9_216];
        while self.now < end {
            for side in 0..2 {
                while let Some(len) = self.hosts[side].transmit(self.now, wall_ns(self.now), &mut buf) {
                    let bytes = buf[..len].to_vec();
                    self.log.push((
                        side,
                        SentFrame {
                            at: self.now,
                            bytes: bytes.clone(),
                        },
                    ));
                    let wire = GIGABIT.wire_len(GIGABIT.mac_len(len as u32));
                    let arrival = self.now + GIGABIT.duration(wire);
                    for frame in (self.tamper)(side, bytes) {
                        self.in_flight.push((arrival, 1 - side, frame));
                    }
                }
            }
            let arrival = self
                .in_flight
                .iter()
                .map(|(at, ..)| *at)
                .min()
                .unwrap_or(Picos::NEVER);
            self.now = arrival
                .min(self.hosts[0].next_deadline())
                .min(self.hosts[1].next_deadline());
            let now = self.now;
            let (due, later) = std::mem::take(&mut self.in_flight)
                .into_iter()
                .partition(|(at, ..)| *at <= now);
            self.in_flight = later;
            let due: Vec<(Picos, usize, Vec<u8>)> = due;
            for (_, to, frame) in due {
                self.hosts[to].receive(now, wall_ns(now), &frame, &parse(&frame));
            }
        }
    }

    /// Runs until `stop`, then until all frames in flight have arrived.
    fn run_and_drain(&mut self, stop: Picos) {
        self.run(stop);
        self.hosts.iter_mut().for_each(Host::stop);
        self.run(stop + Picos::from_millis(10));
    }
}
