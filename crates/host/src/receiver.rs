//! Receiver of open-loop flows: counts arrivals, order, wrong ICRCs and latency.

use std::collections::HashMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;
use xoff_units::Picos;
use xoff_wire::bth::MASK_24;
use xoff_wire::{Ecn, Ipv4Packet, Ipv6Packet, Opcode, RoceView, Transport};

use super::sequence::{ArrivalOrder, SequenceWindow};
use super::stamp::PayloadStamp;
use xoff_telemetry::LatencyReport;

/// Largest number of flows, with or without a stamp, for which a receiver keeps results. For further flows,
/// the receiver only counts the frames.
pub const TRACKED_FLOWS_MAX: usize = 65_536;

/// Largest recorded latency, one minute. Longer latencies are recorded as one minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Results of the receiver for one flow of a model host. Frames of such flows carry a [`PayloadStamp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFlow {
    /// Identifier of the run of the sender ([`super::HostConfig::token`]).
    pub token: u64,
    /// Number of the flow ([`super::FlowConfig::id`]).
    pub flow: u32,
    /// Source IP address.
    pub src_ip: IpAddr,
    /// Number of the destination queue pair, 24 bits.
    pub dst_qp: u32,
    /// Class of the flow at the sender.
    pub class: u8,
    /// Smallest possible number of sent frames: the newest sequence number plus one. Lost frames with larger
    /// sequence numbers are not included.
    pub expected_frames: u64,
    /// Number of frames with a valid ICRC, without duplicates and without frames that are too late
    /// for [`super::REORDER_WINDOW_FRAMES`].
    pub received_frames: u64,
    /// Number of reordered frames. For example, frame 7 is reordered if it arrives after frame 8. A frame
    /// that is more than [`super::REORDER_WINDOW_FRAMES`] behind the newest frame is counted here, but not
    /// as received.
    pub reordered_frames: u64,
    /// Number of frames that had already arrived.
    pub duplicate_frames: u64,
    /// Number of frames with a wrong ICRC and with the source address and destination queue pair of this
    /// flow. No second counter includes these frames.
    pub icrc_errors: u64,
    /// Number of frames with a PSN that does not match the sequence number in the stamp. This number is 0
    /// unless the sender has an error.
    pub psn_errors: u64,
    /// Number of received frames with an ECN mark (CE).
    pub ce_marked_frames: u64,
    /// Payload bytes of the received frames, without headers, padding and ICRC.
    pub payload_bytes: u64,
    /// Model times of the first and the last arrival, in nanoseconds.
    pub arrivals_ns: (u64, u64),
    /// Payload rate between the first and the last arrival, in bits per second of model time. The payload of
    /// the first frame is not included, because the frame was transmitted before this period. The rate is 0
    /// for fewer than two frames.
    pub goodput_bps: u64,
    /// Latencies from the sending time in the stamp to the arrival, in nanoseconds of model time. Latencies
    /// above one minute count as one minute.
    pub latency_ns: LatencyReport,
    /// Number of frames with an arrival time that is before the sending time, because a clock was set during
    /// the run. `latency_ns` does not include these frames.
    pub clock_errors: u64,
}

/// Results of the receiver for RoCE packets without a stamp. Such packets do not come from model hosts. Each
/// combination of source address and destination queue pair has its own results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstampedFlow {
    /// Source IP address.
    pub src_ip: IpAddr,
    /// Number of the destination queue pair, 24 bits.
    pub dst_qp: u32,
    /// Number of packets with a valid ICRC.
    pub frames: u64,
    /// Number of SEND and WRITE request packets of the transports RC and UC. These packets have
    /// consecutive PSNs.
    pub requests: u64,
    /// Number of PSNs that the request packets skipped. A packet that arrives later does not reduce
    /// this number.
    pub missing_psns: u64,
    /// Number of request packets with a PSN below the newest PSN. These packets were reordered
    /// or retransmitted.
    pub out_of_order: u64,
    /// Number of packets with a wrong ICRC.
    pub icrc_errors: u64,
}

/// Counts of received frames that are not attributed to single flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveTotals {
    /// Number of RoCE frames that no queue pair of this host has accepted. Frames of open-loop flows are
    /// included. In virtual time, frames with a wrong ICRC are not included.
    pub roce_frames: u64,
    /// Number of frames with the token of another run.
    pub stale_frames: u64,
    /// Number of frames with a wrong ICRC that belong to no known flow.
    pub unattributed_icrc_errors: u64,
    /// Number of frames of flows beyond [`TRACKED_FLOWS_MAX`].
    pub untracked_frames: u64,
    /// Number of frames whose unicast destination MAC address is not that of this host. A switch floods a
    /// frame if it does not know the destination address.
    pub flooded_frames: u64,
    /// Number of RoCE packets that a switch has trimmed. These packets have no ICRC, so the host drops them
    /// as a real NIC does.
    pub trimmed_frames: u64,
    /// Number of MAC control frames that cannot be parsed.
    pub malformed_control_frames: u64,
    /// Number of all other frames, such as ARP and neighbour discovery.
    pub other_frames: u64,
}

#[derive(Clone, Debug)]
struct TrackedFlow {
    flow: ReceivedFlow,
    window: SequenceWindow,
    /// PSN of sequence number 0.
    first_psn: u32,
    first_payload: u64,
    arrivals: (Picos, Picos),
    latency: Histogram<u64>,
}

#[derive(Clone, Debug)]
struct TrackedForeignFlow {
    flow: UnstampedFlow,
    expected_psn: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum FlowIndex {
    Stamped(usize),
    Foreign(usize),
}

/// Counts received RoCE frames.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    token: Option<u64>,
    dilate: u64,
    tracked: Vec<TrackedFlow>,
    foreign: Vec<TrackedForeignFlow>,
    by_stamp: HashMap<(u64, u32), usize>,
    by_peer: HashMap<(IpAddr, u32), FlowIndex>,
    pub(super) totals: ReceiveTotals,
    received_frames: u64,
}

impl Receiver {
    /// Creates a receiver for the frames of one run. `None`: the receiver accepts frames of all runs.
    pub(super) fn new(token: Option<u64>, dilate: u32) -> Receiver {
        Receiver {
            token,
            dilate: u64::from(dilate.max(1)),
            tracked: Vec::new(),
            foreign: Vec::new(),
            by_stamp: HashMap::new(),
            by_peer: HashMap::new(),
            totals: ReceiveTotals::default(),
            received_frames: 0,
        }
    }

    /// Returns the number of received frames of all stamped flows.
    pub(super) fn received_frames(&self) -> u64 {
        self.received_frames
    }

    pub(super) fn receive(&mut self, now: Picos, wall_ns: u64, frame: &[u8], view: &RoceView<'_>) -> bool {
        self.totals.roce_frames += 1;
        let peer = (source_address(frame, view), view.bth().dest_qp());
        if !view.icrc_is_valid() {
            self.count_icrc_error(peer);
            return true;
        }
        let stamp = PayloadStamp::read(view.payload());
        let belongs_to_flow = stamp.is_some();
        match stamp {
            Some(stamp) if self.token.is_some_and(|own| own != stamp.token) => self.totals.stale_frames += 1,
            Some(stamp) => self.receive_test_packet(now, wall_ns, peer, &stamp, view),
            None => self.receive_foreign(peer, view),
        }
        belongs_to_flow
    }

    /// Counts a frame with a wrong ICRC in virtual time.
    pub(super) fn receive_damaged(&mut self, frame: &[u8]) {
        match RoceView::new_checked(frame) {
            Ok(view) => self.count_icrc_error((source_address(frame, &view), view.bth().dest_qp())),
            Err(_) => self.totals.unattributed_icrc_errors += 1,
        }
    }

    /// Counts a frame with a wrong ICRC for the flow that has the same source address and queue pair.
    fn count_icrc_error(&mut self, peer: (IpAddr, u32)) {
        match self.by_peer.get(&peer) {
            Some(FlowIndex::Stamped(at)) => self.tracked[*at].flow.icrc_errors += 1,
            Some(FlowIndex::Foreign(at)) => self.foreign[*at].flow.icrc_errors += 1,
            None => self.totals.unattributed_icrc_errors += 1,
        }
    }

    fn receive_test_packet(
        &mut self,
        now: Picos,
        wall_ns: u64,
        peer: (IpAddr, u32),
        stamp: &PayloadStamp,
        view: &RoceView<'_>,
    ) {
        let psn = view.bth().psn();
        let Some(at) = self.track_flow(now, peer, stamp, psn) else {
            self.totals.untracked_frames += 1;
            return;
        };
        let tracked = &mut self.tracked[at];
        if psn != tracked.first_psn.wrapping_add(stamp.sequence as u32) & MASK_24 {
            tracked.flow.psn_errors += 1;
        }
        match tracked.window.record(stamp.sequence) {
            ArrivalOrder::Newest => {}
            ArrivalOrder::Reordered => tracked.flow.reordered_frames += 1,
            ArrivalOrder::Duplicate => {
                tracked.flow.duplicate_frames += 1;
                return;
            }
            ArrivalOrder::TooOld => {
                tracked.flow.reordered_frames += 1;
                return;
            }
        }
        self.received_frames += 1;
        tracked.flow.received_frames += 1;
        tracked.flow.ce_marked_frames += u64::from(Ecn::from_tos(view.tos()) == Ecn::Ce);
        tracked.flow.payload_bytes += view.payload().len() as u64;
        if tracked.flow.received_frames == 1 {
            tracked.first_payload = view.payload().len() as u64;
        }
        tracked.arrivals.1 = now;
        match wall_ns.checked_sub(stamp.wall_ns) {
            Some(wall) => tracked.latency.saturating_record(wall / self.dilate),
            None => tracked.flow.clock_errors += 1,
        }
    }

    fn track_flow(
        &mut self,
        now: Picos,
        peer: (IpAddr, u32),
        stamp: &PayloadStamp,
        psn: u32,
    ) -> Option<usize> {
        let key = (stamp.token, stamp.flow);
        if let Some(at) = self.by_stamp.get(&key) {
            return Some(*at);
        }
        if self.tracked.len() + self.foreign.len() >= TRACKED_FLOWS_MAX {
            return None;
        }
        let at = self.tracked.len();
        self.tracked.push(TrackedFlow {
            flow: ReceivedFlow::new(stamp, peer),
            window: SequenceWindow::new(),
            first_psn: psn.wrapping_sub(stamp.sequence as u32) & MASK_24,
            first_payload: 0,
            arrivals: (now, now),
            // The bounds are constants that the histogram accepts.
            latency: Histogram::new_with_max(LATENCY_MAX_NS, 2).ok()?,
        });
        self.by_stamp.insert(key, at);
        self.by_peer.insert(peer, FlowIndex::Stamped(at));
        Some(at)
    }

    fn receive_foreign(&mut self, peer: (IpAddr, u32), view: &RoceView<'_>) {
        let at = match self.by_peer.get(&peer) {
            Some(FlowIndex::Foreign(at)) => *at,
            // This is the queue pair of a stamped flow. Another sender uses it, for example
            // for acknowledgements.
            Some(FlowIndex::Stamped(_)) => {
                self.totals.other_frames += 1;
                return;
            }
            None if self.tracked.len() + self.foreign.len() >= TRACKED_FLOWS_MAX => {
                self.totals.untracked_frames += 1;
                return;
            }
            None => {
                self.foreign.push(TrackedForeignFlow {
                    flow: UnstampedFlow::new(peer),
                    expected_psn: None,
                });
                self.by_peer
                    .insert(peer, FlowIndex::Foreign(self.foreign.len() - 1));
                self.foreign.len() - 1
            }
        };
        self.foreign[at].record_packet(view.bth().opcode(), view.bth().psn());
    }

    /// Returns the results of one stamped flow. Returns `None` if no frame of the flow has arrived.
    pub(super) fn received(&self, token: u64, flow: u32) -> Option<ReceivedFlow> {
        self.by_stamp
            .get(&(token, flow))
            .map(|at| self.tracked[*at].result())
    }

    /// Returns the result of a flow without its latencies, which are 0.
    pub(super) fn received_counters(&self, token: u64, flow: u32) -> Option<ReceivedFlow> {
        self.by_stamp
            .get(&(token, flow))
            .map(|at| self.tracked[*at].counters())
    }

    /// Returns the number of all frames with a wrong ICRC.
    pub(super) fn icrc_errors(&self) -> u64 {
        let tracked = self.tracked.iter().map(|tracked| tracked.flow.icrc_errors);
        let foreign = self.foreign.iter().map(|peer| peer.flow.icrc_errors);
        self.totals.unattributed_icrc_errors + tracked.chain(foreign).sum::<u64>()
    }

    /// Returns the results of all flows. Flows with a stamp are sorted by token (run identifier) and number.
    /// Flows without a stamp are sorted by source address and queue pair.
    pub(super) fn results(&self) -> (Vec<ReceivedFlow>, Vec<UnstampedFlow>) {
        let mut tracked: Vec<ReceivedFlow> = self.tracked.iter().map(TrackedFlow::result).collect();
        tracked.sort_by_key(|flow| (flow.token, flow.flow));
        let mut foreign: Vec<UnstampedFlow> = self.foreign.iter().map(|peer| peer.flow.clone()).collect();
        foreign.sort_by_key(|flow| (flow.src_ip, flow.dst_qp));
        (tracked, foreign)
    }
}

impl TrackedFlow {
    fn result(&self) -> ReceivedFlow {
        let quantile = |q| self.latency.value_at_quantile(q).min(self.latency.max());
        ReceivedFlow {
            latency_ns: LatencyReport {
                p50: quantile(0.5),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: self.latency.max(),
            },
            ..self.counters()
        }
    }

    /// Returns the result without latencies, whose computation takes longer than that of all other values.
    fn counters(&self) -> ReceivedFlow {
        let (first, last) = self.arrivals;
        let bits = u128::from(self.flow.payload_bytes - self.first_payload) * 8;
        let goodput = (bits * 1_000_000_000_000)
            .checked_div(u128::from(last.since(first).0))
            .unwrap_or(0);
        ReceivedFlow {
            expected_frames: self.window.next(),
            arrivals_ns: (first.as_nanos(), last.as_nanos()),
            goodput_bps: u64::try_from(goodput).unwrap_or(u64::MAX),
            ..self.flow.clone()
        }
    }
}

impl ReceivedFlow {
    fn new(stamp: &PayloadStamp, (src_ip, dst_qp): (IpAddr, u32)) -> ReceivedFlow {
        ReceivedFlow {
            token: stamp.token,
            flow: stamp.flow,
            src_ip,
            dst_qp,
            class: stamp.class,
            expected_frames: 0,
            received_frames: 0,
            reordered_frames: 0,
            duplicate_frames: 0,
            icrc_errors: 0,
            psn_errors: 0,
            ce_marked_frames: 0,
            payload_bytes: 0,
            arrivals_ns: (0, 0),
            goodput_bps: 0,
            latency_ns: LatencyReport::default(),
            clock_errors: 0,
        }
    }

    /// Returns the number of sent frames that have not been received. Lost frames after the newest received
    /// frame are not included.
    pub fn missing_frames(&self) -> u64 {
        self.expected_frames.saturating_sub(self.received_frames)
    }
}

impl UnstampedFlow {
    fn new((src_ip, dst_qp): (IpAddr, u32)) -> UnstampedFlow {
        UnstampedFlow {
            src_ip,
            dst_qp,
            frames: 0,
            requests: 0,
            missing_psns: 0,
            out_of_order: 0,
            icrc_errors: 0,
        }
    }
}

impl TrackedForeignFlow {
    fn record_packet(&mut self, opcode: Opcode, psn: u32) {
        self.flow.frames += 1;
        // In each transport, SEND and WRITE have the lowest opcodes.
        let request = matches!(opcode.transport(), Transport::Rc | Transport::Uc)
            && opcode.code() & 0x1f <= Opcode::RcWriteOnlyImm.code();
        if !request {
            return;
        }
        self.flow.requests += 1;
        let expected = self.expected_psn.unwrap_or(psn);
        let ahead = psn.wrapping_sub(expected) & MASK_24;
        // PSNs in the next half of the PSN space are newer (IBTA 9.7.1).
        if ahead >= 1 << 23 {
            self.flow.out_of_order += 1;
            return;
        }
        self.flow.missing_psns += u64::from(ahead);
        self.expected_psn = Some(psn.wrapping_add(1) & MASK_24);
    }
}

fn source_address(frame: &[u8], view: &RoceView<'_>) -> IpAddr {
    let ip = &frame[view.ip_offset()..];
    if view.is_ipv6() {
        IpAddr::V6(Ipv6Packet::new_unchecked(ip).src_addr())
    } else {
        IpAddr::V4(Ipv4Packet::new_unchecked(ip).src_addr())
    }
}
