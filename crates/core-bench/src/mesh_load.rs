//! A load for the complete packet path. Frames enter at half of the ports and leave at the other half, and
//! all egress links are always busy.
//!
//! The workload `ecmp` uses this load. It has routing over equal-cost next hops, lossless priorities
//! with PFC, a WRED decision for each frame, and DWRR. The time budget of xoff for a frame refers to
//! this workload.
//!
//! The flows are selected so that the switch spreads them evenly over the egress links. When a frame has left
//! on a link, the load writes the headers of the next flow of this link into the frame, and the frame arrives
//! again. The load therefore does not end.

mod switch_features;

pub use switch_features::{FEATURE_VARIANTS, SwitchFeatures};

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
use xoff_measure::frame_cost::{BURST_FRAMES, FrameHeaders};
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// Sum of the frames in the two queues of an egress link when a burst arrives.
const QUEUED_FRAMES: usize = 32;
/// Largest number of egress links, which are half of the ports. Each link has one pending deadline.
const LINKS_MAX: usize = 16;
/// Largest number of pending deadlines while links come up and addresses are learned.
const DEADLINES_MAX: usize = 128;
/// Largest number of frames: the queued frames of all links and two bursts.
const FRAMES_MAX: usize = 1_024;
/// Number of frames by which the load writes headers in advance. A network card also writes headers into the
/// cache some time before the driver reads them. If the load wrote headers immediately before the read, the
/// headers would still be in the store buffer of the processor.
const HEADERS_AHEAD: usize = 8;
/// Number of source MAC addresses at each sending port.
const STATIONS_PER_PORT: usize = 16;

/// How the switch of a [`MeshLoad`] forwards frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshForwarding {
    /// Bridging by MAC addresses.
    Bridged,
    /// Routing with one route for each egress link.
    Routed,
    /// Routing with one route whose equal-cost next hops use all egress links.
    Ecmp,
}

/// The ports, flows and frames of a [`MeshLoad`].
#[derive(Clone, Copy, Debug)]
pub struct MeshTraffic {
    /// How the switch forwards the frames.
    pub forwarding: MeshForwarding,
    /// Number of ports, even and 2 to 32. The first half of the ports are the ingress ports, and the other
    /// half are the egress ports.
    pub ports: u16,
    /// Number of flows, a multiple of the number of egress ports.
    pub flows: usize,
    /// Length of a frame in bytes, without FCS.
    pub frame_bytes: usize,
}

/// The header fields in which the flows of one egress link differ.
///
/// A value of this type occupies a quarter of a cache line. The complete headers of many flows would fill the
/// first-level cache.
#[derive(Clone, Copy, Debug)]
struct FlowFields {
    ingress: PortId,
    /// Last byte of the source MAC address.
    station: u8,
    /// The DSCP and ECN byte.
    traffic_class: u8,
    /// The bytes from the IPv4 checksum to the UDP source port.
    addresses: [u8; ADDRESSES_RANGE.end - ADDRESSES_RANGE.start],
}

const _: () = assert!(size_of::<FlowFields>() == 16);

/// Offsets of the last two bytes of the source MAC address. The first byte of the range is the number of
/// the port.
const STATION_RANGE: Range<usize> = 10..12;
/// Offset of the DSCP and ECN byte.
const TRAFFIC_CLASS_OFFSET: usize = 15;
/// Offsets of the bytes from the IPv4 checksum to the UDP source port.
const ADDRESSES_RANGE: Range<usize> = 24..36;

impl FlowFields {
    fn from_headers(ingress: PortId, header: &FrameHeaders) -> FlowFields {
        let mut addresses = [0; ADDRESSES_RANGE.end - ADDRESSES_RANGE.start];
        addresses.copy_from_slice(&header[ADDRESSES_RANGE]);
        FlowFields {
            ingress,
            station: header[STATION_RANGE.end - 1],
            traffic_class: header[TRAFFIC_CLASS_OFFSET],
            addresses,
        }
    }
}

/// The flows that leave through one egress port.
#[derive(Debug)]
struct EgressLink {
    /// The headers that the flows have in common.
    common_headers: FrameHeaders,
    flows: Vec<FlowFields>,
    next: usize,
}

impl EgressLink {
    fn new() -> EgressLink {
        EgressLink {
            common_headers: [0; _],
            flows: Vec::new(),
            next: 0,
        }
    }

    /// Adds a flow with these headers.
    fn add_flow(&mut self, ingress: PortId, header: FrameHeaders) {
        let flow = FlowFields::from_headers(ingress, &header);
        if self.flows.is_empty() {
            self.common_headers = header;
        }
        let mut written = [0; _];
        self.write_headers(&flow, &mut written);
        assert_eq!(written, header, "flows differ only in the fields of FlowFields");
        self.flows.push(flow);
    }

    /// Writes the headers of the next flow into a frame, and returns the ingress port of the flow.
    #[inline(always)]
    fn write_next_flow(&mut self, frame: &mut [u8]) -> PortId {
        let flow = self.flows[self.next];
        self.next += 1;
        if self.next == self.flows.len() {
            self.next = 0;
        }
        if let Some(header) = frame.first_chunk_mut() {
            self.write_headers(&flow, header);
        }
        flow.ingress
    }

    #[inline(always)]
    fn write_headers(&self, flow: &FlowFields, header: &mut FrameHeaders) {
        *header = self.common_headers;
        header[STATION_RANGE].copy_from_slice(&[flow.ingress.0 as u8, flow.station]);
        header[TRAFFIC_CLASS_OFFSET] = flow.traffic_class;
        header[ADDRESSES_RANGE].copy_from_slice(&flow.addresses);
    }
}

/// A frame that waits outside the switch and arrives again.
#[derive(Clone, Copy, Debug)]
struct WaitingFrame {
    /// Index of the egress link through which the frame has left. The frame becomes a frame of a flow
    /// of this link.
    link: u16,
    /// Port at which the frame arrives. The value is valid as soon as the load has written the headers of
    /// the frame.
    ingress: PortId,
    frame: FrameHandle,
}

/// Pending deadlines, first in first out.
///
/// All links of the load have the same speed, and all frames have the same length. The switch therefore
/// always requests an earlier deadline before a later deadline. A simple queue keeps such deadlines sorted,
/// and costs less than a heap.
#[derive(Debug)]
struct FifoDeadlines(SlotRing<Deadline, DEADLINES_MAX>);

impl Default for FifoDeadlines {
    fn default() -> Self {
        FifoDeadlines(SlotRing::new(Deadline {
            at: Picos::NEVER,
            timer: TimerId(0),
        }))
    }
}

impl EventQueue<Infallible> for FifoDeadlines {
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

/// A load between all ports of a switch, with constantly filled egress queues.
#[derive(Debug)]
pub struct MeshLoad {
    traffic: MeshTraffic,
    features: SwitchFeatures,
    switch: VirtualSwitch<VecStore, Infallible, FifoDeadlines>,
    /// Frames that arrive next, in the order of their departures.
    waiting: SlotRing<WaitingFrame, FRAMES_MAX>,
    /// Number of frames at the start of `waiting` with headers that are already written.
    written: usize,
    links: Vec<EgressLink>,
    sent_frames: u64,
}

impl MeshLoad {
    /// Creates a load with the default features. The switch has already learned all addresses, and its egress
    /// queues are filled.
    ///
    /// # Panics
    ///
    /// Panics if `traffic` has more than 32 ports.
    pub fn new(traffic: MeshTraffic) -> MeshLoad {
        MeshLoad::with_features(traffic, SwitchFeatures::default())
    }

    /// Creates a load like [`MeshLoad::new`], with these features of the switch.
    ///
    /// # Panics
    ///
    /// Panics if `traffic` has more than 32 ports.
    pub fn with_features(traffic: MeshTraffic, features: SwitchFeatures) -> MeshLoad {
        let members = usize::from(traffic.ports / 2);
        let slots = QUEUED_FRAMES * members + 2 * BURST_FRAMES;
        assert!(members <= LINKS_MAX && slots <= FRAMES_MAX, "{traffic:?}");
        let mut new = MeshLoad {
            traffic,
            features,
            switch: VirtualSwitch::with_queue(
                &switch_features::mesh_switch_config(&traffic, &features),
                VecStore::new(slots),
                FifoDeadlines::default(),
            ),
            waiting: SlotRing::new(WaitingFrame {
                link: 0,
                ingress: PortId(0),
                frame: FrameHandle(0),
            }),
            written: 0,
            links: (0..members).map(|_| EgressLink::new()).collect(),
            sent_frames: 0,
        };
        new.switch.store_punted_frames();
        new.switch.set_links_up();
        new.release_all_frames(); // The switch has sent ARP requests for its next hops.
        new.learn_receivers();
        new.select_flows();
        new.fill_queues();
        new
    }

    /// Passes one burst of frames to the switch, and lets the switch send the same number of frames.
    pub fn run_burst(&mut self) {
        self.receive_frames(BURST_FRAMES);
        for _ in 0..BURST_FRAMES {
            if !self.send_next_frame() {
                break;
            }
        }
    }

    /// Advances to the next deadline, at which a link sends a frame. Returns false if no deadline is pending.
    #[inline(always)]
    fn send_next_frame(&mut self) -> bool {
        let served = self.switch.step(Picos::NEVER) == Step::Deadline;
        self.take_departures();
        served
    }

    fn receive_frames(&mut self, frames: usize) {
        for _ in 0..frames {
            self.write_headers_ahead();
            let Some(WaitingFrame { ingress, frame, .. }) = self.waiting.pop() else {
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

    /// Writes headers into the frames that arrive next, [`HEADERS_AHEAD`] frames in advance. A frame that has
    /// left on a link gets the headers of the next flow of this link.
    #[inline(always)]
    fn write_headers_ahead(&mut self) {
        while self.written <= HEADERS_AHEAD
            && let Some(waiting) = self.waiting.peek_mut(self.written)
        {
            let link = &mut self.links[usize::from(waiting.link)];
            waiting.ingress = link.write_next_flow(self.switch.store_mut().prefix_mut(waiting.frame));
            self.written += 1;
        }
    }

    #[inline(always)]
    fn take_departures(&mut self) {
        let (waiting, half) = (&mut self.waiting, self.traffic.ports / 2);
        self.sent_frames += self.switch.departures().len() as u64;
        self.switch.take_departures(|departure, _| {
            waiting.push(WaitingFrame {
                link: departure.port.0 - half,
                ingress: PortId(0),
                frame: departure.frame,
            });
        });
    }

    /// Sends one broadcast frame from every receiver, so that the switch learns its address and
    /// floods no frame.
    fn learn_receivers(&mut self) {
        if self.traffic.forwarding != MeshForwarding::Bridged {
            return;
        }
        for port in self.traffic.ports / 2..self.traffic.ports {
            let mut frame = [0; 60];
            frame[..6].fill(0xff);
            frame[6..12].copy_from_slice(&station_mac(usize::from(port), 0));
            self.receive(PortId(port), &frame);
            self.release_all_frames();
        }
    }

    /// Sends candidate flows through the switch until each egress link has its share of the flows.
    fn select_flows(&mut self) {
        let flows_per_link = self.traffic.flows / self.links.len();
        for n in 0.. {
            if self.links.iter().all(|link| link.flows.len() == flows_per_link) {
                return;
            }
            let (ingress, frame) = candidate_flow(&self.traffic, n);
            let member = self.find_egress_link(ingress, &frame);
            let link = &mut self.links[member];
            if link.flows.len() < flows_per_link {
                link.add_flow(ingress, *frame.first_chunk().expect("a frame has headers"));
            }
        }
    }

    /// Sends a frame through the idle switch and returns the index of its egress link.
    fn find_egress_link(&mut self, ingress: PortId, frame: &[u8]) -> usize {
        self.receive(ingress, frame);
        self.drain_queues();
        let egress = self.switch.departures().first().map(|departure| departure.port.0);
        self.release_all_frames();
        usize::from(egress.expect("a frame leaves an idle switch") - self.traffic.ports / 2)
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

    fn fill_queues(&mut self) {
        let (_, frame) = candidate_flow(&self.traffic, 0);
        let links = self.links.len();
        for n in 0..QUEUED_FRAMES * links + BURST_FRAMES {
            let handle = self
                .switch
                .store_mut()
                .insert(&frame)
                .expect("a slot for each frame");
            self.waiting.push(WaitingFrame {
                link: (n % links) as u16,
                ingress: PortId(0),
                frame: handle,
            });
        }
        self.receive_frames(QUEUED_FRAMES * self.links.len());
        // With a pipeline latency, the switch sends the first frames some time after their arrival.
        while self.switch.switch().queued_frames() + links > QUEUED_FRAMES * links && self.send_next_frame() {
        }
        assert_eq!(
            self.switch.switch().queued_frames() + self.links.len(),
            QUEUED_FRAMES * self.links.len(),
            "each link transmits one frame"
        );
    }

    /// Lets the switch send all its frames, and releases the frame slots.
    fn release_all_frames(&mut self) {
        self.drain_queues();
        let mut last = self.switch.now();
        self.switch.take_departures(|departure, store| {
            last = last.max(departure.end);
            store.release(departure.frame);
        });
        self.switch.advance_to(last);
    }

    /// Lets the switch send all its frames.
    fn drain_queues(&mut self) {
        while self.switch.step(Picos::NEVER) == Step::Deadline {}
    }
}

impl FrameLoad for MeshLoad {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.run_burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        let half = self.traffic.ports / 2;
        let counters: Vec<_> = (0..self.traffic.ports)
            .map(|port| {
                self.switch
                    .switch()
                    .port_counters(self.switch.now(), PortId(port))
            })
            .collect();
        if let Some(port) = counters.iter().position(|port| port.dropped_frames() > 0) {
            return Err(format!("port {port} dropped frames"));
        }
        let sent_by_port = |port: u16| -> u64 {
            let queues = &counters[usize::from(port)].queues;
            queues.iter().map(|queue| queue.packets).sum()
        };
        let per_link = self.sent_frames / u64::from(half);
        for port in half..self.traffic.ports {
            // A port may have sent more frames, because candidate flows are not counted in `sent_frames`.
            if sent_by_port(port) < per_link {
                return Err(format!(
                    "port {port} sent {} frames, not {per_link}",
                    sent_by_port(port)
                ));
            }
            let marked = counters[usize::from(port)].ecn_marked;
            match self.features.wred {
                true if self.sent_frames > 100_000 && marked == 0 => {
                    return Err(format!("port {port} marked no frame"));
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

/// Returns the ingress port and a frame of candidate flow `n`.
fn candidate_flow(traffic: &MeshTraffic, n: usize) -> (PortId, Vec<u8>) {
    let half = usize::from(traffic.ports / 2);
    let sender = n % half;
    let station = n / half % STATIONS_PER_PORT;
    // Every sender uses every egress link in turn. With bridging and with one route per link, the address
    // selects the link.
    let member = half + (n / half + n / (half * STATIONS_PER_PORT)) % half;
    let host = Ipv4Addr::new(11, member as u8, (n >> 8) as u8, n as u8);
    let destination_mac = match traffic.forwarding {
        MeshForwarding::Bridged => station_mac(member, 0),
        MeshForwarding::Routed | MeshForwarding::Ecmp => ROUTER_MAC,
    };
    let frame = crate::frames::frame_of_queue_pair(
        traffic.frame_bytes,
        station_mac(sender, station),
        destination_mac,
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
    fn every_forwarding_sends_without_loss_and_marks_frames() {
        for (forwarding, ports, flows, frame_bytes) in [
            (MeshForwarding::Bridged, 8, 64, 1_082),
            (MeshForwarding::Routed, 8, 64, 64),
            (MeshForwarding::Ecmp, 8, 64, 4_200),
            (MeshForwarding::Ecmp, 32, 10_000, 1_082),
        ] {
            let traffic = MeshTraffic {
                forwarding,
                ports,
                flows,
                frame_bytes,
            };
            let mut load = MeshLoad::new(traffic);
            let frames = load.run(200_001);
            assert_eq!(frames, 200_032, "{traffic:?}");
            load.check().unwrap_or_else(|why| panic!("{traffic:?}: {why}"));
            // The last burst and the frames in transmission wait outside the switch.
            assert_eq!(
                load.waiting.len(),
                BURST_FRAMES + usize::from(ports / 2),
                "{traffic:?}"
            );
        }
    }

    #[test]
    fn every_feature_variant_sends_without_loss() {
        let traffic = MeshTraffic {
            forwarding: MeshForwarding::Ecmp,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        };
        for (name, _, features) in FEATURE_VARIANTS {
            let mut load = MeshLoad::with_features(traffic, features);
            load.run(200_001);
            load.check().unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(load.waiting.len(), BURST_FRAMES + 4, "{name}");
        }
    }

    #[test]
    fn the_check_reports_marks_without_wred() {
        let traffic = MeshTraffic {
            forwarding: MeshForwarding::Bridged,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        };
        let mut load = MeshLoad::new(traffic);
        load.run(200_001);
        load.features.wred = false;
        assert!(load.check().unwrap_err().contains("without WRED"));
    }
}
