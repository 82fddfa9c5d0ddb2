//! What becomes of arrivals, as far as verdicts and counters tell.

use std::collections::{BTreeMap, HashSet};

use xoff_dataplane::mmu::BufferRefusal;
use xoff_dataplane::{DropReason, ForwardingResult, FrameHandle, Picos, PortId, ReceivedFrame, Switch};

/// A dropped frame, before its bytes are looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) frame: FrameHandle,
    pub(super) at: Picos,
    pub(super) port: PortId,
    pub(super) reason: DropReason,
    pub(super) refusal: Option<BufferRefusal>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) control: u64,
    pub(super) punted: u64,
    pub(super) forwarded: u64,
    pub(super) copies: u64,
    pub(super) copies_dropped: u64,
    pub(super) dropped: u64,
    pub(super) waited: u64,
}

/// Writes down what becomes of arrivals.
#[derive(Debug)]
pub(super) struct Losses {
    pub(super) losses: Vec<Loss>,
    pub(super) counts: Counts,
    /// Drops that the switch has counted so far, by reason and port.
    pub(super) counted: BTreeMap<(DropReason, u16), u64>,
    /// Frames that have just begun to wait for their next hop.
    pub(super) held: Vec<FrameHandle>,
    /// Numbers of frames that wait for their next hop, or did.
    pub(super) waiting: HashSet<u64>,
    /// Their sum, by reason.
    pub(super) sums: [u64; DropReason::COUNT],
    pub(super) last_at: Picos,
}

/// Why a copy of a flooded frame can be dropped.
const OF_COPIES: [DropReason; 6] = [
    DropReason::EgressVlanFilter,
    DropReason::ExceedsL2Mtu,
    DropReason::QueueDropped,
    DropReason::WredDropped,
    DropReason::L3EgressLinkDown,
    DropReason::NoBufferSpace,
];

impl Losses {
    pub(super) fn new() -> Losses {
        Losses {
            losses: Vec::new(),
            counts: Counts::default(),
            counted: BTreeMap::new(),
            held: Vec::new(),
            waiting: HashSet::new(),
            sums: [0; DropReason::COUNT],
            last_at: Picos::ZERO,
        }
    }

    /// A flooded frame can be dropped on some ports and leave by others; the verdict does not speak of those.
    fn find_copies(&mut self, at: Picos, arrival: &ReceivedFrame, switch: &Switch) {
        let mut lost = Vec::new();
        self.look(at, switch, |port, reason| lost.push((port, reason)));
        self.counts.copies_dropped += lost.len() as u64;
        self.losses.extend(lost.into_iter().map(|(port, reason)| Loss {
            frame: arrival.frame,
            at,
            port,
            reason,
            refusal: switch.last_refusal(port, reason),
        }));
    }

    /// Calls `found` for every drop of a copy that the switch has counted since the last look.
    fn look(&mut self, at: Picos, switch: &Switch, mut found: impl FnMut(PortId, DropReason)) {
        for reason in OF_COPIES {
            let sum = switch.dropped_frames_for(reason);
            if sum == self.sums[reason as usize] {
                continue;
            }
            self.sums[reason as usize] = sum;
            for port in (0..switch.port_count() as u16).map(PortId) {
                let counters = switch.port_counters(at, port);
                let drops: u64 = counters.drops[reason as usize].iter().sum();
                let before = self.counted.insert((reason, port.0), drops).unwrap_or(0);
                (before..drops).for_each(|_| found(port, reason));
            }
        }
    }

    /// Counts an arrival by the verdict of the switch.
    pub(super) fn arrived(
        &mut self,
        at: Picos,
        arrival: &ReceivedFrame,
        verdict: &ForwardingResult,
        switch: &Switch,
    ) {
        self.last_at = at;
        match *verdict {
            ForwardingResult::Forwarded { copies } => {
                self.counts.forwarded += 1;
                self.counts.copies += u64::from(copies);
                // With two ports there is one way out, and its drop is the verdict.
                if switch.port_count() > 2 {
                    self.find_copies(at, arrival, switch);
                }
            }
            ForwardingResult::Control => self.counts.control += 1,
            ForwardingResult::Punted => {
                self.counts.punted += 1;
                self.look(at, switch, |_, _| {});
            }
            ForwardingResult::Held => {
                self.counts.waited += 1;
                self.held.push(arrival.frame);
            }
            ForwardingResult::Dropped(drop) => {
                self.counts.dropped += 1;
                self.sums[drop.reason as usize] += 1;
                *self.counted.entry((drop.reason, drop.port.0)).or_default() += 1;
                self.losses.push(Loss {
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
