//! Counts forwarded and dropped frames. The counts come from the forwarding results and the drop counters of
//! the switch.

use std::collections::{BTreeMap, HashSet};

use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{DropReason, ForwardingResult, FrameHandle, Picos, PortId, ReceivedFrame, Switch};

/// A dropped frame whose bytes are still in the frame store.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingDrop {
    pub(super) frame: FrameHandle,
    pub(super) at: Picos,
    pub(super) port: PortId,
    pub(super) reason: DropReason,
    pub(super) refusal: Option<BufferRefusal>,
}

/// Number of received frames for each forwarding result. [`FrameTally`](super::FrameTally) describes
/// the fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ForwardingCounts {
    pub(super) control: u64,
    pub(super) punted: u64,
    pub(super) forwarded: u64,
    pub(super) copies: u64,
    pub(super) copies_dropped: u64,
    pub(super) dropped: u64,
    pub(super) waited: u64,
}

/// Records the dropped frames and counts the forwarding results.
#[derive(Debug)]
pub(super) struct DropTracker {
    pub(super) pending: Vec<PendingDrop>,
    pub(super) counts: ForwardingCounts,
    /// Number of drops that the switch has counted so far, for each reason and port.
    pub(super) counted_drops: BTreeMap<(DropReason, u16), u64>,
    /// Frames that have started to wait for the MAC address of a next hop since the last delivery to
    /// the sink.
    pub(super) newly_held: Vec<FrameHandle>,
    /// Numbers of the frames that wait or waited for their next hop.
    pub(super) waiting_numbers: HashSet<u64>,
    /// Sum of [`Self::counted_drops`] over all ports, for each reason.
    pub(super) counted_by_reason: [u64; DropReason::COUNT],
    pub(super) last_arrival_at: Picos,
}

/// Reasons for which the switch drops a single copy of a flooded frame.
const COPY_DROP_REASONS: [DropReason; 6] = [
    DropReason::EgressVlanFilter,
    DropReason::ExceedsL2Mtu,
    DropReason::QueueDropped,
    DropReason::WredDropped,
    DropReason::L3EgressLinkDown,
    DropReason::NoBufferSpace,
];

impl DropTracker {
    pub(super) fn new() -> DropTracker {
        DropTracker {
            pending: Vec::new(),
            counts: ForwardingCounts::default(),
            counted_drops: BTreeMap::new(),
            newly_held: Vec::new(),
            waiting_numbers: HashSet::new(),
            counted_by_reason: [0; DropReason::COUNT],
            last_arrival_at: Picos::ZERO,
        }
    }

    /// Records the dropped copies of a flooded frame, because its forwarding result does not contain them.
    fn record_copy_drops(&mut self, at: Picos, arrival: &ReceivedFrame, switch: &Switch) {
        let mut lost = Vec::new();
        self.for_each_new_copy_drop(at, switch, |port, reason| lost.push((port, reason)));
        self.counts.copies_dropped += lost.len() as u64;
        self.pending
            .extend(lost.into_iter().map(|(port, reason)| PendingDrop {
                frame: arrival.frame,
                at,
                port,
                reason,
                refusal: switch.last_refusal(port, reason),
            }));
    }

    /// Calls `on_drop` for every dropped copy that the switch has counted since the last call.
    fn for_each_new_copy_drop(
        &mut self,
        at: Picos,
        switch: &Switch,
        mut on_drop: impl FnMut(PortId, DropReason),
    ) {
        for reason in COPY_DROP_REASONS {
            let sum = switch.dropped_frames_for(reason);
            if sum == self.counted_by_reason[reason as usize] {
                continue;
            }
            self.counted_by_reason[reason as usize] = sum;
            for port in (0..switch.port_count() as u16).map(PortId) {
                let counters = switch.port_counters(at, port);
                let drops: u64 = counters.drops[reason as usize].iter().sum();
                let before = self.counted_drops.insert((reason, port.0), drops).unwrap_or(0);
                (before..drops).for_each(|_| on_drop(port, reason));
            }
        }
    }

    /// Counts a received frame by its forwarding result.
    pub(super) fn count_arrival(
        &mut self,
        at: Picos,
        arrival: &ReceivedFrame,
        verdict: &ForwardingResult,
        switch: &Switch,
    ) {
        self.last_arrival_at = at;
        match *verdict {
            ForwardingResult::Forwarded { copies } => {
                self.counts.forwarded += 1;
                self.counts.copies += u64::from(copies);
                // A switch with two ports makes only one copy of a frame, and the forwarding result reports
                // the drop of this copy.
                if switch.port_count() > 2 {
                    self.record_copy_drops(at, arrival, switch);
                }
            }
            ForwardingResult::Control => self.counts.control += 1,
            ForwardingResult::Punted => {
                self.counts.punted += 1;
                self.for_each_new_copy_drop(at, switch, |_, _| {});
            }
            ForwardingResult::Held => {
                self.counts.waited += 1;
                self.newly_held.push(arrival.frame);
            }
            ForwardingResult::Dropped(drop) => {
                self.counts.dropped += 1;
                self.counted_by_reason[drop.reason as usize] += 1;
                *self.counted_drops.entry((drop.reason, drop.port.0)).or_default() += 1;
                self.pending.push(PendingDrop {
                    frame: arrival.frame,
                    at,
                    port: drop.port,
                    reason: drop.reason,
                    refusal: drop.refusal,
                });
            }
        }
    }
}
