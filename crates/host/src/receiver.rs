//! The receiving end: what arrived, in which order, unharmed or not, and how long it took.

use std::collections::HashMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;
use xoff_units::Picos;
use xoff_wire::bth::MASK_24;
use xoff_wire::{Ecn, Ipv4Packet, Ipv6Packet, Opcode, RoceView, Transport};

use super::sequence::{Order, SequenceWindow};
use super::stamp::Stamp;
use xoff_telemetry::LatencyReport;

/// Most flows (stamped and others) that a receiver tells apart; frames of further ones are only counted.
pub const TRACKED_FLOWS_MAX: usize = 65_536;

/// Latencies beyond a minute are recorded as a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// What a receiver saw of one flow of a model host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFlow {
    /// The sender's run ([`super::HostConfig::token`]).
    pub token: u64,
    /// Number of the flow.
    pub flow: u32,
    /// Where it came from.
    pub src_ip: IpAddr,
    /// Queue pair it was sent to.
    pub dst_qp: u32,
    /// Class in which its sender queues it.
    pub class: u8,
    /// Frames sent at least: the newest sequence number plus one. What was lost behind the newest frame only its sender
    /// knows.
    pub expected_frames: u64,
    /// Frames that arrived with a valid ICRC, each counted once.
    pub received_frames: u64,
    /// Frames that arrived after one that was sent later. One that comes more than
    /// [`super::REORDER_WINDOW_FRAMES`] behind is counted here but not as received.
    pub reordered_frames: u64,
    /// Further arrivals of a frame that had arrived.
    pub duplicate_frames: u64,
    /// Frames with a wrong ICRC. They count as nothing else.
    pub icrc_errors: u64,
    /// Frames whose PSN did not fit their sequence number: the sender numbered them wrongly.
    pub psn_errors: u64,
    /// Frames that arrived marked CE.
    pub ce_marked_frames: u64,
    /// Payload bytes of the received frames, without headers, pad and ICRC.
    pub payload_bytes: u64,
    /// First and last arrival, in nanoseconds of model time.
    pub arrivals_ns: (u64, u64),
    /// Payload bits per second of model time between the first and the last arrival (the first frame's own bits, which
    /// took their time before it, left out); 0 for fewer than two frames.
    pub goodput_bps: u64,
    /// From the stamp to the arrival, in model time.
    pub latency_ns: LatencyReport,
    /// Frames that arrived before they were sent by the clocks at hand (a clock was set); not in `latency_ns`.
    pub clock_errors: u64,
}

/// What a receiver saw of RoCE packets without our stamp, by source address and destination queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignFlow {
    /// Where they came from.
    pub src_ip: IpAddr,
    /// Queue pair they were sent to.
    pub dst_qp: u32,
    /// Packets with a valid ICRC.
    pub frames: u64,
    /// Of those, requests (SEND and WRITE of RC and UC), whose PSNs follow each other.
    pub requests: u64,
    /// PSNs that were skipped.
    pub missing_psns: u64,
    /// Requests with a PSN behind the newest: reordered, or repeated by their sender.
    pub out_of_order: u64,
    /// Packets with a wrong ICRC.
    pub icrc_errors: u64,
}

/// What belongs to no flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveTotals {
    /// RoCE frames for this host, whatever became of them.
    pub roce_frames: u64,
    /// Frames of another run.
    pub stale_frames: u64,
    /// Frames with a wrong ICRC that no known flow can be blamed for.
    pub unattributed_icrc_errors: u64,
    /// Frames of flows beyond [`TRACKED_FLOWS_MAX`].
    pub untracked_frames: u64,
    /// Frames with the address of another host (the switch flooded them).
    pub flooded_frames: u64,
    /// RoCE packets that a switch has trimmed. Without their ICRC they are dropped, as a NIC does it.
    pub trimmed_frames: u64,
    /// MAC control frames that mean nothing.
    pub malformed_control_frames: u64,
    /// Anything else: ARP, neighbour discovery, other protocols.
    pub other_frames: u64,
}

#[derive(Clone, Debug)]
struct Tracked {
    flow: ReceivedFlow,
    window: SequenceWindow,
    /// PSN of sequence number 0.
    first_psn: u32,
    first_payload: u64,
    arrivals: (Picos, Picos),
    latency: Histogram<u64>,
}

#[derive(Clone, Debug)]
struct Foreign {
    flow: ForeignFlow,
    expected_psn: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Stamped(usize),
    Foreign(usize),
}

/// Takes RoCE frames and keeps account of them.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    token: Option<u64>,
    dilate: u64,
    tracked: Vec<Tracked>,
    foreign: Vec<Foreign>,
    by_stamp: HashMap<(u64, u32), usize>,
    by_peer: HashMap<(IpAddr, u32), Peer>,
    pub(super) totals: ReceiveTotals,
    received_frames: u64,
}

impl Receiver {
    /// Takes frames of one run only, or (`None`) of any.
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

    /// Frames received of all flows, for progress.
    pub(super) fn received_frames(&self) -> u64 {
        self.received_frames
    }

    pub(super) fn receive(&mut self, now: Picos, wall_ns: u64, frame: &[u8], view: &RoceView<'_>) {
        self.totals.roce_frames += 1;
        let peer = (source(frame, view), view.bth().dest_qp());
        if !view.icrc_is_valid() {
            return self.blame(peer);
        }
        match Stamp::read(view.payload()) {
            Some(stamp) if self.token.is_some_and(|own| own != stamp.token) => self.totals.stale_frames += 1,
            Some(stamp) => self.receive_stamped(now, wall_ns, peer, &stamp, view),
            None => self.receive_foreign(peer, view),
        }
    }

    /// A frame whose ICRC is wrong, whatever is stored of it.
    pub(super) fn receive_damaged(&mut self, frame: &[u8]) {
        match RoceView::new_checked(frame) {
            Ok(view) => self.blame((source(frame, &view), view.bth().dest_qp())),
            Err(_) => self.totals.unattributed_icrc_errors += 1,
        }
    }

    /// The flow that a frame with a wrong ICRC seems to be of counts it.
    fn blame(&mut self, peer: (IpAddr, u32)) {
        match self.by_peer.get(&peer) {
            Some(Peer::Stamped(at)) => self.tracked[*at].flow.icrc_errors += 1,
            Some(Peer::Foreign(at)) => self.foreign[*at].flow.icrc_errors += 1,
            None => self.totals.unattributed_icrc_errors += 1,
        }
    }

    fn receive_stamped(
        &mut self,
        now: Picos,
        wall_ns: u64,
        peer: (IpAddr, u32),
        stamp: &Stamp,
        view: &RoceView<'_>,
    ) {
        let psn = view.bth().psn();
        let Some(at) = self.track(now, peer, stamp, psn) else {
            self.totals.untracked_frames += 1;
            return;
        };
        let tracked = &mut self.tracked[at];
        if psn != tracked.first_psn.wrapping_add(stamp.sequence as u32) & MASK_24 {
            tracked.flow.psn_errors += 1;
        }
        match tracked.window.note(stamp.sequence) {
            Order::Newest => {}
            Order::Reordered => tracked.flow.reordered_frames += 1,
            Order::Duplicate => {
                tracked.flow.duplicate_frames += 1;
                return;
            }
            Order::TooOld => {
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

    fn track(&mut self, now: Picos, peer: (IpAddr, u32), stamp: &Stamp, psn: u32) -> Option<usize> {
        let key = (stamp.token, stamp.flow);
        if let Some(at) = self.by_stamp.get(&key) {
            return Some(*at);
        }
        if self.tracked.len() + self.foreign.len() >= TRACKED_FLOWS_MAX {
            return None;
        }
        let at = self.tracked.len();
        self.tracked.push(Tracked {
            flow: ReceivedFlow::new(stamp, peer),
            window: SequenceWindow::new(),
            first_psn: psn.wrapping_sub(stamp.sequence as u32) & MASK_24,
            first_payload: 0,
            arrivals: (now, now),
            // The bounds are constants that the histogram accepts.
            latency: Histogram::new_with_max(LATENCY_MAX_NS, 2).ok()?,
        });
        self.by_stamp.insert(key, at);
        self.by_peer.insert(peer, Peer::Stamped(at));
        Some(at)
    }

    fn receive_foreign(&mut self, peer: (IpAddr, u32), view: &RoceView<'_>) {
        let at = match self.by_peer.get(&peer) {
            Some(Peer::Foreign(at)) => *at,
            // The queue pair of a stamped flow: something else answers on it, such as acknowledgements.
            Some(Peer::Stamped(_)) => {
                self.totals.other_frames += 1;
                return;
            }
            None if self.tracked.len() + self.foreign.len() >= TRACKED_FLOWS_MAX => {
                self.totals.untracked_frames += 1;
                return;
            }
            None => {
                self.foreign.push(Foreign {
                    flow: ForeignFlow::new(peer),
                    expected_psn: None,
                });
                self.by_peer.insert(peer, Peer::Foreign(self.foreign.len() - 1));
                self.foreign.len() - 1
            }
        };
        self.foreign[at].note(view.bth().opcode(), view.bth().psn());
    }

    /// What arrived of one stamped flow.
    pub(super) fn received(&self, token: u64, flow: u32) -> Option<ReceivedFlow> {
        self.by_stamp
            .get(&(token, flow))
            .map(|at| self.tracked[*at].result())
    }

    /// Frames with a wrong ICRC.
    pub(super) fn icrc_errors(&self) -> u64 {
        let tracked = self.tracked.iter().map(|tracked| tracked.flow.icrc_errors);
        let foreign = self.foreign.iter().map(|peer| peer.flow.icrc_errors);
        self.totals.unattributed_icrc_errors + tracked.chain(foreign).sum::<u64>()
    }

    /// The stamped flows, by token and number, and the others, by address and queue pair.
    pub(super) fn results(&self) -> (Vec<ReceivedFlow>, Vec<ForeignFlow>) {
        let mut tracked: Vec<ReceivedFlow> = self.tracked.iter().map(Tracked::result).collect();
        tracked.sort_by_key(|flow| (flow.token, flow.flow));
        let mut foreign: Vec<ForeignFlow> = self.foreign.iter().map(|peer| peer.flow.clone()).collect();
        foreign.sort_by_key(|flow| (flow.src_ip, flow.dst_qp));
        (tracked, foreign)
    }
}

impl Tracked {
    fn result(&self) -> ReceivedFlow {
        let (first, last) = self.arrivals;
        let bits = u128::from(self.flow.payload_bytes - self.first_payload) * 8;
        let goodput = (bits * 1_000_000_000_000)
            .checked_div(u128::from(last.since(first).0))
            .unwrap_or(0);
        let quantile = |q| self.latency.value_at_quantile(q).min(self.latency.max());
        ReceivedFlow {
            expected_frames: self.window.next(),
            arrivals_ns: (first.as_nanos(), last.as_nanos()),
            goodput_bps: u64::try_from(goodput).unwrap_or(u64::MAX),
            latency_ns: LatencyReport {
                p50: quantile(0.5),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: self.latency.max(),
            },
            ..self.flow.clone()
        }
    }
}

impl ReceivedFlow {
    fn new(stamp: &Stamp, (src_ip, dst_qp): (IpAddr, u32)) -> ReceivedFlow {
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

    /// Frames missing up to the newest one.
    pub fn missing_frames(&self) -> u64 {
        self.expected_frames.saturating_sub(self.received_frames)
    }
}

impl ForeignFlow {
    fn new((src_ip, dst_qp): (IpAddr, u32)) -> ForeignFlow {
        ForeignFlow {
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

impl Foreign {
    fn note(&mut self, opcode: Opcode, psn: u32) {
        self.flow.frames += 1;
        // SEND and WRITE come first in the numbering of each transport.
        let request = matches!(opcode.transport(), Transport::Rc | Transport::Uc)
            && opcode.code() & 0x1f <= Opcode::RcWriteOnlyImm.code();
        if !request {
            return;
        }
        self.flow.requests += 1;
        let expected = self.expected_psn.unwrap_or(psn);
        let ahead = psn.wrapping_sub(expected) & MASK_24;
        // Half of the PSN space lies ahead (IBTA 9.7.1).
        if ahead >= 1 << 23 {
            self.flow.out_of_order += 1;
            return;
        }
        self.flow.missing_psns += u64::from(ahead);
        self.expected_psn = Some(psn.wrapping_add(1) & MASK_24);
    }
}

fn source(frame: &[u8], view: &RoceView<'_>) -> IpAddr {
    let ip = &frame[view.ip_offset()..];
    if view.is_ipv6() {
        IpAddr::V6(Ipv6Packet::new_unchecked(ip).src_addr())
    } else {
        IpAddr::V4(Ipv4Packet::new_unchecked(ip).src_addr())
    }
}
