//! The whole path of a frame, by feature: half of the ports send to the other half, all of whose links are busy.
//!
//! Issue of the budget: routed over equal-cost next hops, lossless with PFC, WRED drawing for each frame, DWRR, frames in memory.
//! Flows are chosen so that the switch spreads them evenly, so each link gets back what it has sent and the load goes on for ever.

mod config;

pub use config::{FEATURES, Features};

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::ops::Range;

use xoff_dataplane::store::VecStore;
use xoff_dataplane::{
    Deadline, ForwardingResult, FrameHandle, FrameStore, Picos, PortId, ReceivedFrame, TimerId,
};
use xoff_driver::{Event, EventQueue, Step, VirtualSwitch};
use xoff_wire::parse::parse;

use crate::route_table::ROUTER_MAC;
use crate::slot_ring::SlotRing;
use xoff_measure::frame_cost::{BURST, FrameHeaders};
use xoff_measure::frame_cost::{Load, run_bursts};

/// Frames that wait at each link when a burst arrives, over its two queues.
const STANDING: usize = 32;
/// Links that are served, at most: half of the ports. One asks for one call at a time.
const LINKS_MAX: usize = 16;
/// Deadlines that can be pending while links come up and addresses are learnt.
const DEADLINES_MAX: usize = 128;
/// Frames there are, at most: what stands at the links, and two bursts.
const FRAMES_MAX: usize = 1_024;
/// So many arrivals ahead a frame's headers are written, as a network card puts them into a cache ahead of the driver. Not just
/// before they are read: they would still lie in the store buffer, in other pieces.
const AHEAD: usize = 8;
/// Source addresses behind each sender.
const STATIONS: usize = 16;

/// How frames find their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By ROUTER_MAC addresses.
    Bridged,
    /// By a route for each link.
    Routed,
    /// By one route whose next hops are behind all links.
    Ecmp,
}

/// What is sent through which switch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How frames find their way.
    pub way: Way,
    /// Ports, an even number; the first half sends.
    pub ports: u16,
    /// Flows, a multiple of half the ports.
    pub flows: usize,
    /// Octets of a frame without FCS.
    pub frame_bytes: usize,
}

/// What differs between the headers of flows that leave by one link: a quarter of a cache line, since whole headers of many flows
/// would take the first-level cache for themselves.
#[derive(Clone, Copy, Debug)]
struct Flow {
    ingress: PortId,
    /// The last octet of its source address on the link.
    station: u8,
    /// DSCP and ECN.
    traffic_class: u8,
    /// Checksum and addresses of IPv4, UDP source port.
    addresses: [u8; ADDRESSES.end - ADDRESSES.start],
}

const _: () = assert!(size_of::<Flow>() == 16);

/// Where parts of a [`Flow`] lie in a frame: the last octets of the source address on the link, of which the first is that of the
/// port; type of service; from the checksum of IPv4 to the UDP source port.
const STATION: Range<usize> = 10..12;
const TRAFFIC_CLASS: usize = 15;
const ADDRESSES: Range<usize> = 24..36;

impl Flow {
    fn new(ingress: PortId, header: &FrameHeaders) -> Flow {
        let mut addresses = [0; ADDRESSES.end - ADDRESSES.start];
        addresses.copy_from_slice(&header[ADDRESSES]);
        Flow {
            ingress,
            station: header[STATION.end - 1],
            traffic_class: header[TRAFFIC_CLASS],
            addresses,
        }
    }
}

/// What leaves by a link.
#[derive(Debug)]
struct Link {
    /// What the headers of its flows have in common.
    header: FrameHeaders,
    flows: Vec<Flow>,
    next: usize,
}

impl Link {
    fn new() -> Link {
        Link {
            header: [0; _],
            flows: Vec::new(),
            next: 0,
        }
    }

    /// A flow more, which begins like this.
    fn add(&mut self, ingress: PortId, header: FrameHeaders) {
        let flow = Flow::new(ingress, &header);
        if self.flows.is_empty() {
            self.header = header;
        }
        let mut written = [0; _];
        self.write(&flow, &mut written);
        assert_eq!(written, header, "flows differ in nothing else");
        self.flows.push(flow);
    }

    /// Makes a frame one of its next flow, and says where that comes in.
    #[inline(always)]
    fn write_next(&mut self, frame: &mut [u8]) -> PortId {
        let flow = self.flows[self.next];
        self.next += 1;
        if self.next == self.flows.len() {
            self.next = 0;
        }
        if let Some(header) = frame.first_chunk_mut() {
            self.write(&flow, header);
        }
        flow.ingress
    }

    #[inline(always)]
    fn write(&self, flow: &Flow, header: &mut FrameHeaders) {
        *header = self.header;
        header[STATION].copy_from_slice(&[flow.ingress.0 as u8, flow.station]);
        header[TRAFFIC_CLASS] = flow.traffic_class;
        header[ADDRESSES].copy_from_slice(&flow.addresses);
    }
}

/// A frame that is to arrive.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// The link by which it has left, so the one by whose flows it arrives.
    link: u16,
    /// Where it comes in, once its headers have been written.
    ingress: PortId,
    frame: FrameHandle,
}

/// Deadlines in the order in which they were asked for. All links of a mesh are equally fast and all frames equally long, so that is
/// the order of their times too, and a queue costs less than a heap.
#[derive(Debug)]
struct InOrder(SlotRing<Deadline, DEADLINES_MAX>);

impl Default for InOrder {
    fn default() -> Self {
        InOrder(SlotRing::new(Deadline {
            at: Picos::NEVER,
            timer: TimerId(0),
        }))
    }
}

impl EventQueue<Infallible> for InOrder {
    #[inline(always)]
    fn push(&mut self, at: Picos, event: Event<Infallible>) {
        let Event::Deadline(timer) = event;
        self.0.push(Deadline { at, timer });
    }

    fn next_time(&self) -> Option<Picos> {
        self.0.first().map(|due| due.at)
    }

    #[inline(always)]
    fn pop_until(&mut self, until: Picos) -> Option<(Picos, Event<Infallible>)> {
        if self.next_time()? > until {
            return None;
        }
        self.0.pop().map(|due| (due.at, Event::Deadline(due.timer)))
    }
}

/// A switch under steady load.
#[derive(Debug)]
pub struct Mesh {
    shape: Shape,
    features: Features,
    switch: VirtualSwitch<VecStore, Infallible, InOrder>,
    /// Frames to arrive, in the order they left.
    idle: SlotRing<Idle, FRAMES_MAX>,
    /// How many of them, from the first one on, have their headers.
    written: usize,
    links: Vec<Link>,
    sent: u64,
}

impl Mesh {
    /// Learns all addresses and fills all queues, in a switch with the features of the budget.
    pub fn new(shape: Shape) -> Mesh {
        Mesh::with(shape, Features::default())
    }

    /// As [`Mesh::new`], in a switch with these features.
    pub fn with(shape: Shape, features: Features) -> Mesh {
        let members = usize::from(shape.ports / 2);
        let slots = STANDING * members + 2 * BURST;
        assert!(members <= LINKS_MAX && slots <= FRAMES_MAX, "{shape:?}");
        let mut new = Mesh {
            shape,
            features,
            switch: VirtualSwitch::with_queue(
                &config::config(&shape, &features),
                VecStore::new(slots),
                InOrder::default(),
            ),
            idle: SlotRing::new(Idle {
                link: 0,
                ingress: PortId(0),
                frame: FrameHandle(0),
            }),
            written: 0,
            links: (0..members).map(|_| Link::new()).collect(),
            sent: 0,
        };
        new.switch.keep_punts();
        new.switch.set_links_up();
        new.flush(); // the questions about next hops
        new.learn();
        new.choose_flows();
        new.fill();
        new
    }

    /// A burst arrives, and as many frames leave.
    pub fn burst(&mut self) {
        self.arrive(BURST);
        for _ in 0..BURST {
            if !self.serve() {
                break;
            }
        }
    }

    /// The link sends that has waited longest; false: none waits.
    #[inline(always)]
    fn serve(&mut self) -> bool {
        let served = self.switch.step(Picos::NEVER) == Step::Deadline;
        self.take_departures();
        served
    }

    fn arrive(&mut self, frames: usize) {
        for _ in 0..frames {
            self.write_ahead();
            let Some(Idle { ingress, frame, .. }) = self.idle.pop() else {
                return;
            };
            self.written -= 1;
            let bytes = self.switch.store().prefix(frame);
            let arrival = ReceivedFrame {
                frame,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_at: self.switch.now(),
            };
            let verdict = self.switch.receive(ingress, &arrival);
            debug_assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
        }
        self.take_departures();
    }

    /// Writes the headers of frames that arrive soon: those of the next flows of the links that they have left by.
    #[inline(always)]
    fn write_ahead(&mut self) {
        while self.written <= AHEAD
            && let Some(idle) = self.idle.peek_mut(self.written)
        {
            let link = &mut self.links[usize::from(idle.link)];
            idle.ingress = link.write_next(self.switch.store_mut().prefix_mut(idle.frame));
            self.written += 1;
        }
    }

    #[inline(always)]
    fn take_departures(&mut self) {
        let (idle, half) = (&mut self.idle, self.shape.ports / 2);
        self.sent += self.switch.departures().len() as u64;
        self.switch.take_departures(|departure, _| {
            idle.push(Idle {
                link: departure.port.0 - half,
                ingress: PortId(0),
                frame: departure.frame,
            });
        });
    }

    /// The receivers are heard once, so that nothing floods.
    fn learn(&mut self) {
        if self.shape.way != Way::Bridged {
            return;
        }
        for port in self.shape.ports / 2..self.shape.ports {
            let mut frame = [0; 60];
            frame[..6].fill(0xff);
            frame[6..12].copy_from_slice(&station_mac(usize::from(port), 0));
            self.receive(PortId(port), &frame);
            self.flush();
        }
    }

    /// Tries flows until each link has its part.
    fn choose_flows(&mut self) {
        let part = self.shape.flows / self.links.len();
        for n in 0.. {
            if self.links.iter().all(|link| link.flows.len() == part) {
                return;
            }
            let (ingress, frame) = candidate(&self.shape, n);
            let member = self.way_of(ingress, &frame);
            let link = &mut self.links[member];
            if link.flows.len() < part {
                link.add(ingress, *frame.first_chunk().expect("a frame has headers"));
            }
        }
    }

    /// The link that a frame leaves by, in a switch at rest.
    fn way_of(&mut self, ingress: PortId, frame: &[u8]) -> usize {
        self.receive(ingress, frame);
        self.settle();
        let out = self.switch.departures().first().map(|transmit| transmit.port.0);
        self.flush();
        usize::from(out.expect("a frame leaves a switch at rest") - self.shape.ports / 2)
    }

    fn receive(&mut self, ingress: PortId, frame: &[u8]) {
        let handle = self.switch.store_mut().insert(frame).expect("a slot");
        let arrival = ReceivedFrame {
            frame: handle,
            frame_len: frame.len() as u32,
            parsed: parse(frame),
            received_at: self.switch.now(),
        };
        self.switch.receive(ingress, &arrival);
    }

    fn fill(&mut self) {
        let (_, frame) = candidate(&self.shape, 0);
        let links = self.links.len();
        for n in 0..STANDING * links + BURST {
            let handle = self
                .switch
                .store_mut()
                .insert(&frame)
                .expect("a slot for each frame");
            self.idle.push(Idle {
                link: (n % links) as u16,
                ingress: PortId(0),
                frame: handle,
            });
        }
        self.arrive(STANDING * self.links.len());
        // Behind a pipeline the first frames have not left when they come.
        while self.switch.switch().queued_frames() + links > STANDING * links && self.serve() {}
        assert_eq!(
            self.switch.switch().queued_frames() + self.links.len(),
            STANDING * self.links.len(),
            "one is on each link"
        );
    }

    /// Lets everything leave, and gives the slots back.
    fn flush(&mut self) {
        self.settle();
        let mut last = self.switch.now();
        self.switch.take_departures(|departure, store| {
            last = last.max(departure.end);
            store.release(departure.frame);
        });
        self.switch.advance_to(last);
    }

    /// Lets everything leave.
    fn settle(&mut self) {
        while self.switch.step(Picos::NEVER) == Step::Deadline {}
    }
}

impl Load for Mesh {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        let half = self.shape.ports / 2;
        let counters: Vec<_> = (0..self.shape.ports)
            .map(|port| {
                self.switch
                    .switch()
                    .port_counters(self.switch.now(), PortId(port))
            })
            .collect();
        if let Some(port) = counters.iter().position(|port| port.dropped_frames() > 0) {
            return Err(format!("port {port} dropped frames"));
        }
        let sent = |port: u16| -> u64 {
            let queues = &counters[usize::from(port)].queues;
            queues.iter().map(|queue| queue.packets).sum()
        };
        let per_link = self.sent / u64::from(half);
        for port in half..self.shape.ports {
            // Flows that were tried leave by the way, so a link may be ahead by those.
            if sent(port) < per_link {
                return Err(format!("port {port} sent {} frames, not {per_link}", sent(port)));
            }
            let marked = counters[usize::from(port)].ecn_marked;
            match self.features.wred {
                true if self.sent > 100_000 && marked == 0 => {
                    return Err(format!("port {port} marked nothing"));
                }
                false if marked > 0 => {
                    return Err(format!("port {port} marked {marked} frames without WRED"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The `n`th flow that is tried: where it comes in, and a frame of it.
fn candidate(shape: &Shape, n: usize) -> (PortId, Vec<u8>) {
    let half = usize::from(shape.ports / 2);
    let sender = n % half;
    let station = n / half % STATIONS;
    // Every link in turn for every sender: what way the address leads matters unless all links are equal-cost.
    let member = half + (n / half + n / (half * STATIONS)) % half;
    let host = Ipv4Addr::new(11, member as u8, (n >> 8) as u8, n as u8);
    let to = match shape.way {
        Way::Bridged => station_mac(member, 0),
        Way::Routed | Way::Ecmp => ROUTER_MAC,
    };
    let frame = crate::frames::frame_of_queue_pair(
        shape.frame_bytes,
        station_mac(sender, station),
        to,
        Ipv4Addr::new(10, 1, sender as u8, 16 + station as u8),
        host,
        n as u32,
    );
    (PortId(sender as u16), frame)
}

fn station_mac(port: usize, station: usize) -> [u8; 6] {
    [2, 0, 0, 2, port as u8, station as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_goes_round_without_loss_and_with_marks() {
        for (way, ports, flows, frame_bytes) in [
            (Way::Bridged, 8, 64, 1_082),
            (Way::Routed, 8, 64, 64),
            (Way::Ecmp, 8, 64, 4_200),
            (Way::Ecmp, 32, 10_000, 1_082),
        ] {
            let shape = Shape {
                way,
                ports,
                flows,
                frame_bytes,
            };
            let mut load = Mesh::new(shape);
            let frames = load.run(200_001);
            assert_eq!(frames, 200_032, "{shape:?}");
            load.check().unwrap_or_else(|why| panic!("{shape:?}: {why}"));
            // Those on the links have been handed out as well.
            assert_eq!(load.idle.len(), BURST + usize::from(ports / 2), "{shape:?}");
        }
    }

    #[test]
    fn every_feature_set_goes_round_without_loss() {
        let shape = Shape {
            way: Way::Ecmp,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        };
        for (name, _, features) in FEATURES {
            let mut load = Mesh::with(shape, features);
            load.run(200_001);
            load.check().unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(load.idle.len(), BURST + 4, "{name}");
        }
    }

    #[test]
    fn marks_without_wred_are_found() {
        let shape = Shape {
            way: Way::Bridged,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        };
        let mut load = Mesh::new(shape);
        load.run(200_001);
        load.features.wred = false;
        assert!(load.check().unwrap_err().contains("without WRED"));
    }
}
