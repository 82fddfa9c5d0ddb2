//! Stages of a frame's way into its queue and out of it: buffer, turns on the link, marking.

use std::hint::black_box;

use xoff_dataplane::config::{QueueConfig, SchedulingMode, WredProfile};
use xoff_dataplane::mmu::Mmu;
use xoff_dataplane::stages::{Scheduler, SchedulerDecision, WredMarker};
use xoff_dataplane::{PgId, Picos, PortId, QueueId};
use xoff_wire::parse::{Payload, parse};
use xoff_wire::{Ecn, Ipv4Packet, mark_ce};

use super::FLOWS;
use crate::many_to_one;
use xoff_measure::frame_cost::BURST;
use xoff_measure::frame_cost::{Load, run_bursts};

/// Where the layer-3 header of an untagged frame lies.
const L3: usize = 14;
/// Octets of frames that take turns: what a link carries of three lengths, FCS included.
const LENGTHS: [u32; 4] = [68, 1_086, 1_086, 4_204];

/// Charges 32 frames, then gives 32 that came before them back: of 4 ports to 4 others, in two lossless groups.
#[derive(Debug)]
pub(super) struct Admission {
    mmu: Mmu,
    /// Group, queue and octets of frames that take turns.
    frames: Vec<(PgId, QueueId, u32)>,
    /// Of them, the first that comes next; those of the burst before it are in the buffer.
    at: usize,
    refused: u64,
    resumed: Vec<PgId>,
}

impl Admission {
    pub(super) fn new() -> Admission {
        let frame = |n: u32| {
            let (port, class) = (n as u16 % 4, 3 + (n / 4) as u8 % 2);
            let octets = LENGTHS[n as usize / 8 % LENGTHS.len()];
            (
                PgId::new(PortId(port), class),
                QueueId::new(PortId(4 + (n / 3) as u16 % 4), class),
                octets,
            )
        };
        let mut new = Admission {
            mmu: Mmu::new(&crate::switch_config::switch_config(8)),
            frames: (0..FLOWS).map(frame).collect(),
            at: 0,
            refused: 0,
            resumed: Vec::with_capacity(64),
        };
        new.admit();
        new
    }

    /// A burst comes.
    #[inline(always)]
    fn admit(&mut self) {
        for &(pg, queue, octets) in &self.frames[self.at..self.at + BURST] {
            let cells = self.mmu.frame_cells(black_box(octets));
            let admitted = self.mmu.try_admit(black_box(pg), black_box(queue), cells);
            self.refused += u64::from(!admitted);
        }
        self.at = (self.at + BURST) % self.frames.len();
    }

    /// The burst goes that begins with this frame.
    #[inline(always)]
    fn release(&mut self, first: usize) {
        for &(pg, queue, octets) in &self.frames[first..first + BURST] {
            let cells = self.mmu.frame_cells(black_box(octets));
            self.mmu.release_egress(black_box(queue), cells);
            self.mmu.release_ingress(black_box(pg), cells, &mut self.resumed);
        }
    }

    /// Where the burst begins that is in the buffer between two of them.
    fn held(&self) -> usize {
        (self.at + self.frames.len() - BURST) % self.frames.len()
    }
}

impl Load for Admission {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || {
            let before = self.held();
            self.admit();
            self.release(before);
        })
    }

    fn check(&self) -> Result<(), String> {
        self.mmu.assert_consistent();
        if self.refused > 0 || !self.resumed.is_empty() {
            return Err(format!(
                "{} frames were not plain, {} groups were in XOFF",
                self.refused,
                self.resumed.len()
            ));
        }
        let held = self.held();
        let cells = |octets: u32| self.mmu.frame_cells(octets);
        let expected: u32 = self.frames[held..held + BURST]
            .iter()
            .map(|frame| cells(frame.2))
            .sum();
        let group = |n: u16| self.mmu.pg_buffers(PgId(n)).total.current_cells;
        let queue = |n: u16| self.mmu.queue_buffers(QueueId(n)).total.current_cells;
        let found = ((0..64).map(group).sum(), (0..64).map(queue).sum());
        match found == (expected, expected) {
            true => Ok(()),
            false => Err(format!("groups and queues hold {found:?} cells, not {expected}")),
        }
    }
}

/// The strict queue beside the two that share by DWRR.
const STRICT: usize = 6;
/// One turn in so many finds a frame in the strict queue.
const STRICT_EVERY: usize = 8;

/// Chooses between two DWRR queues that never run empty, whose frames are of three lengths; every eighth turn is a strict queue's.
#[derive(Debug)]
pub(super) struct Scheduling {
    scheduler: Scheduler,
    /// Queues with frames, turn for turn.
    candidates: Vec<u8>,
    /// Octets of frames as they follow each other in every queue, and where each queue stands.
    octets: Vec<u32>,
    heads: [usize; 8],
    at: usize,
    /// Turns, turns and octets of each queue.
    turns: u64,
    chosen: [(u64, u64); 8],
}

impl Scheduling {
    pub(super) fn new() -> Scheduling {
        let queues: [QueueConfig; 8] = std::array::from_fn(|n| {
            let mut queue = crate::switch_config::port_config(0).queues[n];
            if n == STRICT {
                queue.schedule = SchedulingMode::Strict;
            }
            queue
        });
        let candidates = |n: u32| match (n as usize).is_multiple_of(STRICT_EVERY) {
            true => 0b1_1000 | 1 << STRICT,
            false => 0b1_1000,
        };
        Scheduling {
            scheduler: Scheduler::new(&queues),
            candidates: (0..FLOWS).map(candidates).collect(),
            octets: (0..FLOWS)
                .map(|n| LENGTHS[(n * 7 % 23) as usize % LENGTHS.len()])
                .collect(),
            heads: std::array::from_fn(|n| 5 * n),
            at: 0,
            turns: 0,
            chosen: [(0, 0); 8],
        }
    }

    #[inline(always)]
    fn turn(&mut self, candidates: u8) {
        let octets = |n: usize| self.octets[self.heads[n % 8] % FLOWS as usize];
        if let SchedulerDecision::Queue(n) = self.scheduler.select_queue(Picos::ZERO, candidates, octets) {
            let n = n % 8;
            let sent = octets(n);
            self.scheduler.record_sent(Picos::ZERO, n, sent, n == STRICT);
            self.heads[n] += 1;
            self.chosen[n].0 += 1;
            self.chosen[n].1 += u64::from(sent);
        }
    }
}

impl Load for Scheduling {
    fn run(&mut self, frames: u64) -> u64 {
        let count = run_bursts(frames, || {
            for n in self.at..self.at + BURST {
                self.turn(black_box(self.candidates[n]));
            }
            self.at = (self.at + BURST) % self.candidates.len();
        });
        self.turns += count;
        count
    }

    fn check(&self) -> Result<(), String> {
        let (strict, shared) = (self.chosen[STRICT].0, [self.chosen[3], self.chosen[4]]);
        if strict != self.turns / STRICT_EVERY as u64 {
            return Err(format!("the strict queue had {strict} of {} turns", self.turns));
        }
        if strict + shared[0].0 + shared[1].0 != self.turns {
            return Err("a turn was nobody's, or another queue's".to_owned());
        }
        // Weights 15 and 14; what one has over the other at any time is a few frames.
        let ratio = shared[0].1 as f64 / shared[1].1.max(1) as f64;
        match self.turns < 10_000 || (ratio - 15.0 / 14.0).abs() < 0.01 {
            true => Ok(()),
            false => Err(format!(
                "octets of the DWRR queues are as {ratio:.3}, not as 15 to 14"
            )),
        }
    }
}

/// Draws for 64 frames in turn that see queues of 1 to 64 frames, and marks those that are hit: every second one.
#[derive(Debug)]
pub(super) struct Marking {
    marker: WredMarker,
    wred: WredProfile,
    /// Frames, and the octets that wait behind each.
    frames: Vec<(Vec<u8>, u64)>,
    seen: u64,
    marked: u64,
}

impl Marking {
    pub(super) fn new() -> Marking {
        let frame = |n: u32| {
            let way = many_to_one::ForwardingMode::Routed { routes: 1_000 };
            // Depths in no order that could be learnt.
            let depth = u64::from(1 + n * 37 % FLOWS);
            (many_to_one::frame(n as u16 % 4, n, way), depth * 1_086)
        };
        Marking {
            marker: WredMarker::new(1, 0),
            wred: WredProfile {
                min_bytes: 0,
                max_bytes: u64::from(FLOWS) * 1_086,
                max_probability: 1 << 32,
                ecn: true,
                drop: false,
            },
            frames: (0..FLOWS).map(frame).collect(),
            seen: 0,
            marked: 0,
        }
    }
}

impl Load for Marking {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        let count = run_bursts(frames, || {
            for (frame, behind) in &mut self.frames[at..at + BURST] {
                // To mark a frame again takes what it took to mark it.
                if self.marker.decide_mark_or_drop(black_box(&self.wred), *behind) {
                    self.marked += u64::from(mark_ce(black_box(&mut frame[L3..]), Payload::Ipv4));
                }
            }
            at = (at + BURST) % self.frames.len();
        });
        self.seen += count;
        count
    }

    fn check(&self) -> Result<(), String> {
        for (frame, _) in &self.frames {
            if !parse(frame).is_ecn_capable() || !Ipv4Packet::new_unchecked(&frame[L3..]).verify_checksum() {
                return Err("a frame's header is not what it was but for CE".to_owned());
            }
        }
        let ce = |frame: &[u8]| Ecn::from_tos(parse(frame).tos) == Ecn::Ce;
        let share = self.marked as f64 / self.seen.max(1) as f64;
        if self.seen < 10_000 {
            return Ok(());
        }
        if !self.frames.iter().all(|(frame, _)| ce(frame)) {
            return Err("a frame was never marked".to_owned());
        }
        // The mean over all depths is 65 / 128; six standard deviations at 10 000 frames are 3 %.
        match (share - 65.0 / 128.0).abs() < 0.03 {
            true => Ok(()),
            false => Err(format!("{:.1} % were marked, not half", 100.0 * share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_stay_behind_are_found() {
        let mut load = Admission::new();
        load.run(64);
        load.frames[0].2 = 9_000;
        assert!(load.check().unwrap_err().contains("cells"));
    }

    #[test]
    fn other_shares_and_turns_are_found() {
        let mut load = Scheduling::new();
        load.run(20_000);
        load.chosen[3].1 *= 2;
        assert!(load.check().unwrap_err().contains("15 to 14"));
        load.chosen[STRICT].0 += 1;
        assert!(load.check().unwrap_err().contains("strict"));
    }

    #[test]
    fn other_marks_are_found() {
        let mut load = Marking::new();
        load.wred.max_probability /= 2;
        load.run(20_000);
        assert!(load.check().unwrap_err().contains("not half"));
        load.frames[9].0[L3 + 10] ^= 1;
        assert!(load.check().unwrap_err().contains("header"));
    }
}
