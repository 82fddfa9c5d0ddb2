//! Faults of links: chosen frames that are lost or damaged.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::observer::FrameView;

/// What a fault does to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// It never arrives.
    Drop,
    /// It arrives with a wrong ICRC: the host that gets it drops it.
    Corrupt,
}

/// Which frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selector {
    /// All.
    All,
    /// Every *n*-th, n at least 1.
    EveryNth(u64),
    /// Each with this probability, in units of 2^-32 of certainty; drawn from a stream of the fault's own.
    Probability(u64),
    /// RoCE packets with this sequence number, to this queue pair if one is given.
    Psn {
        /// Packet sequence number.
        psn: u32,
        /// Destination queue pair.
        dst_qp: Option<u32>,
    },
}

/// A fault of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What it does.
    pub action: FaultAction,
    /// To which frames.
    pub selector: Selector,
    /// To how many of them at most.
    pub frames_max: u64,
    /// Frames of up to this length are left alone: 0 leaves none, 127 the acknowledgements.
    pub spares_up_to_len: u32,
}

#[derive(Clone, Debug)]
struct Active {
    fault: Fault,
    seen: u64,
    hits: u64,
    random: Xoshiro256PlusPlus,
}

/// The faults of one direction of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Vec<Active>);

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, fault: Fault, seed: u64) {
        let seed = seed.wrapping_add(self.0.len() as u64);
        self.0.push(Active {
            fault,
            seen: 0,
            hits: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What becomes of a frame: the first fault that chooses it decides.
    pub(super) fn strike(&mut self, frame: &FrameView<'_>) -> Option<FaultAction> {
        self.0.iter_mut().find_map(|active| active.strike(frame))
    }
}

impl Active {
    fn strike(&mut self, frame: &FrameView<'_>) -> Option<FaultAction> {
        if self.hits >= self.fault.frames_max || frame.frame_len <= self.fault.spares_up_to_len {
            return None;
        }
        self.seen += 1;
        let chosen = match self.fault.selector {
            Selector::All => true,
            Selector::EveryNth(n) => self.seen.is_multiple_of(n.max(1)),
            Selector::Probability(p) => u64::from(self.random.next_u32()) < p,
            Selector::Psn { psn, dst_qp } => frame
                .bth()
                .is_some_and(|bth| bth.psn() == psn && dst_qp.is_none_or(|qp| qp == bth.dest_qp())),
        };
        self.hits += u64::from(chosen);
        chosen.then_some(self.fault.action)
    }
}
