//! Faults of links. A fault loses or corrupts selected frames.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::observer::FrameView;

/// Effect of a fault on a selected frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The link loses the frame.
    Drop,
    /// The frame arrives with a wrong ICRC. A receiving host discards the frame.
    Corrupt,
}

/// Rule that selects the frames that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameSelector {
    /// Selects all frames that [`Fault::spares_up_to_len`] does not protect.
    All,
    /// Selects every *n*-th frame. The value 0 has the same effect as 1: all frames. Frames that
    /// [`Fault::spares_up_to_len`] protects are not counted.
    EveryNth(u64),
    /// Selects each frame with this probability, in units of 2^-32. The value 2^32 selects every frame. Each
    /// fault has its own random numbers.
    Probability(u64),
    /// Selects RoCE packets with this packet sequence number (PSN).
    Psn {
        /// Packet sequence number, 24 bits.
        psn: u32,
        /// Number of the destination queue pair. `None` selects packets to all queue pairs.
        dst_qp: Option<u32>,
    },
}

/// A fault of one link direction. If a direction has several faults, the first fault that selects a
/// frame decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Effect on the selected frames.
    pub action: FaultAction,
    /// Rule that selects the frames.
    pub selector: FrameSelector,
    /// Largest number of affected frames. Afterwards the fault has no effect. [`u64::MAX`] means no limit.
    pub frames_max: u64,
    /// Frames up to this length are not affected. The length is in bytes, without FCS. With 0, all frames can
    /// be affected. With 127, acknowledgements are not affected.
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

    /// Returns the action of the first fault that selects the frame. Returns `None` if no fault selects it.
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
