//! Faults of links: selected frames are lost or corrupted.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::observer::FrameView;

/// Action of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The frame is lost.
    Drop,
    /// The frame arrives with a wrong ICRC, and the receiving host discards it.
    Corrupt,
}

/// Selection of the frames that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameSelector {
    /// All frames.
    All,
    /// Every *n*-th frame, with n at least 1.
    EveryNth(u64),
    /// Each frame is affected with this probability, in units of 2^-32. Each fault has its
    /// own random numbers.
    Probability(u64),
    /// RoCE packets with this packet sequence number, of one queue pair or of all.
    Psn {
        /// Packet sequence number, 24 bits.
        psn: u32,
        /// Number of the destination queue pair, or `None` for all.
        dst_qp: Option<u32>,
    },
}

/// A fault of one link direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Action on the selected frames.
    pub action: FaultAction,
    /// Selection of the frames.
    pub selector: FrameSelector,
    /// Maximum number of affected frames.
    pub frames_max: u64,
    /// Frames up to this length are not affected. With 0, all frames are affected. With 127, acknowledgements
    /// are not affected.
    pub spares_up_to_len: u32,
}

#[derive(Clone, Debug)]
struct ActiveFault {
    fault: Fault,
    seen: u64,
    hits: u64,
    random: Xoshiro256PlusPlus,
}

/// Faults of one link direction.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultList(Vec<ActiveFault>);

impl FaultList {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, fault: Fault, seed: u64) {
        let seed = seed.wrapping_add(self.0.len() as u64);
        self.0.push(ActiveFault {
            fault,
            seen: 0,
            hits: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the action on a frame. The first fault that selects the frame decides.
    pub(super) fn apply_to(&mut self, frame: &FrameView<'_>) -> Option<FaultAction> {
        self.0.iter_mut().find_map(|active| active.apply_to(frame))
    }
}

impl ActiveFault {
    fn apply_to(&mut self, frame: &FrameView<'_>) -> Option<FaultAction> {
        if self.hits >= self.fault.frames_max || frame.frame_len <= self.fault.spares_up_to_len {
            return None;
        }
        self.seen += 1;
        let chosen = match self.fault.selector {
            FrameSelector::All => true,
            FrameSelector::EveryNth(n) => self.seen.is_multiple_of(n.max(1)),
            FrameSelector::Probability(p) => u64::from(self.random.next_u32()) < p,
            FrameSelector::Psn { psn, dst_qp } => frame
                .bth()
                .is_some_and(|bth| bth.psn() == psn && dst_qp.is_none_or(|qp| qp == bth.dest_qp())),
        };
        self.hits += u64::from(chosen);
        chosen.then_some(self.fault.action)
    }
}
