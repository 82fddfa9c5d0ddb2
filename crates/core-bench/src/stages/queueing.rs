//! Loads for the stages of a queue: buffer admission, scheduling and ECN marking.

use std::hint::black_box;

use xoff_dataplane::config::{QueueConfig, SchedulingMode, WredProfile};
use xoff_dataplane::mmu::Mmu;
use xoff_dataplane::stages::{Scheduler, SchedulerDecision, WredMarker};
use xoff_dataplane::{PgId, Picos, PortId, QueueId};
use xoff_wire::parse::{Payload, parse};
use xoff_wire::{Ecn, Ipv4Packet, mark_ce};

use super::FLOWS;
use crate::many_to_one_load;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// Offset of the IPv4 header in an untagged frame.
const IPV4_OFFSET: usize = 14;
/// Lengths of the frames in bytes, with FCS. The frames use these lengths in turn.
const FRAME_LENGTHS: [u32; 4] = [68, 1_086, 1_086, 4_204];

/// Charges a burst of 32 frames to the buffer, then releases the previous burst from the buffer.
///
/// The frames have two lossless priorities. They arrive at four ports and leave through four further ports.
#[derive(Debug)]
pub(super) struct AdmissionLoad {
    mmu: Mmu,
    /// Priority group, queue and length in bytes of each frame.
    frames: Vec<(PgId, QueueId, u32)>,
    /// Index of the first frame of the next burst. The frames of the previous burst are in the buffer.
    next: usize,
    refused: u64,
    /// Priority groups that have left XOFF.
    resumed: Vec<PgId>,
}

impl AdmissionLoad {
    pub(super) fn new() -> AdmissionLoad {
        let frame = |n: u32| {
            let (port, class) = (n as u16 % 4, 3 + (n / 4) as u8 % 2);
            let frame_bytes = FRAME_LENGTHS[n as usize / 8 % FRAME_LENGTHS.len()];
            (
                PgId::new(PortId(port), class),
                QueueId::new(PortId(4 + (n / 3) as u16 % 4), class),
                frame_bytes,
            )
        };
        let mut new = AdmissionLoad {
            mmu: Mmu::new(&crate::switch_config::switch_config(8)),
            frames: (0..FLOWS).map(frame).collect(),
            next: 0,
            refused: 0,
            resumed: Vec::with_capacity(64),
        };
        new.admit_burst();
        new
    }

    /// Charges the next burst to the buffer.
    #[inline(always)]
    fn admit_burst(&mut self) {
        for &(pg, queue, frame_bytes) in &self.frames[self.next..self.next + BURST_FRAMES] {
            let cells = self.mmu.frame_cells(black_box(frame_bytes));
            let admitted = self.mmu.try_admit(black_box(pg), black_box(queue), cells);
            self.refused += u64::from(!admitted);
        }
        self.next = (self.next + BURST_FRAMES) % self.frames.len();
    }

    /// Releases the burst that starts with the frame `first`.
    #[inline(always)]
    fn release_burst(&mut self, first: usize) {
        for &(pg, queue, frame_bytes) in &self.frames[first..first + BURST_FRAMES] {
            let cells = self.mmu.frame_cells(black_box(frame_bytes));
            self.mmu.release_egress(black_box(queue), cells);
            self.mmu.release_ingress(black_box(pg), cells, &mut self.resumed);
        }
    }

    /// Returns the index of the first frame of the burst that is in the buffer.
    fn first_buffered(&self) -> usize {
        (self.next + self.frames.len() - BURST_FRAMES) % self.frames.len()
    }
}

impl FrameLoad for AdmissionLoad {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || {
            let before = self.first_buffered();
            self.admit_burst();
            self.release_burst(before);
        })
    }

    fn check(&self) -> Result<(), String> {
        self.mmu.assert_consistent();
        if self.refused > 0 || !self.resumed.is_empty() {
            return Err(format!(
                "{} frames were refused, {} priority groups were in XOFF",
                self.refused,
                self.resumed.len()
            ));
        }
        let first = self.first_buffered();
        let cells = |frame_bytes: u32| self.mmu.frame_cells(frame_bytes);
        let expected: u32 = self.frames[first..first + BURST_FRAMES]
            .iter()
            .map(|frame| cells(frame.2))
            .sum();
        let group = |n: u16| self.mmu.pg_buffers(PgId(n)).total.current_cells;
        let queue = |n: u16| self.mmu.queue_buffers(QueueId(n)).total.current_cells;
        let found = ((0..64).map(group).sum(), (0..64).map(queue).sum());
        match found == (expected, expected) {
            true => Ok(()),
            false => Err(format!(
                "priority groups and queues use {found:?} cells, not {expected}"
            )),
        }
    }
}

/// Index of the queue with strict priority.
const STRICT_QUEUE: usize = 6;
/// Number of selections between two frames in the queue with strict priority.
const STRICT_QUEUE_INTERVAL: usize = 8;

/// Selects a queue for each transmission. Two DWRR queues are never empty, and their frames have three
/// different lengths.
///
/// At every eighth selection, a third queue with strict priority also has a frame.
#[derive(Debug)]
pub(super) struct SchedulerLoad {
    scheduler: Scheduler,
    /// Bit mask of the queues with frames, for each selection in turn.
    candidates: Vec<u8>,
    /// Lengths in bytes of successive frames, equal for all queues.
    frame_lengths: Vec<u32>,
    /// Index of the next frame length of each queue.
    heads: [usize; 8],
    next_candidates: usize,
    /// Number of selections.
    selections: u64,
    /// Number of sent frames and bytes of each queue.
    sent: [(u64, u64); 8],
}

impl SchedulerLoad {
    pub(super) fn new() -> SchedulerLoad {
        let queues: [QueueConfig; 8] = std::array::from_fn(|n| {
            let mut queue = crate::switch_config::port_config(0).queues[n];
            if n == STRICT_QUEUE {
                queue.schedule = SchedulingMode::Strict;
            }
            queue
        });
        let candidates = |n: u32| match (n as usize).is_multiple_of(STRICT_QUEUE_INTERVAL) {
            true => 0b1_1000 | 1 << STRICT_QUEUE,
            false => 0b1_1000,
        };
        SchedulerLoad {
            scheduler: Scheduler::new(&queues),
            candidates: (0..FLOWS).map(candidates).collect(),
            frame_lengths: (0..FLOWS)
                .map(|n| FRAME_LENGTHS[(n * 7 % 23) as usize % FRAME_LENGTHS.len()])
                .collect(),
            heads: std::array::from_fn(|n| 5 * n),
            next_candidates: 0,
            selections: 0,
            sent: [(0, 0); 8],
        }
    }

    #[inline(always)]
    fn select_queue(&mut self, candidates: u8) {
        let frame_bytes = |n: usize| self.frame_lengths[self.heads[n % 8] % FLOWS as usize];
        if let SchedulerDecision::Queue(n) = self.scheduler.select_queue(Picos::ZERO, candidates, frame_bytes)
        {
            let n = n % 8;
            let sent_bytes = frame_bytes(n);
            self.scheduler
                .record_sent(Picos::ZERO, n, sent_bytes, n == STRICT_QUEUE);
            self.heads[n] += 1;
            self.sent[n].0 += 1;
            self.sent[n].1 += u64::from(sent_bytes);
        }
    }
}

impl FrameLoad for SchedulerLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let count = run_bursts(frames, || {
            for n in self.next_candidates..self.next_candidates + BURST_FRAMES {
                self.select_queue(black_box(self.candidates[n]));
            }
            self.next_candidates = (self.next_candidates + BURST_FRAMES) % self.candidates.len();
        });
        self.selections += count;
        count
    }

    fn check(&self) -> Result<(), String> {
        let (strict, dwrr) = (self.sent[STRICT_QUEUE].0, [self.sent[3], self.sent[4]]);
        if strict != self.selections / STRICT_QUEUE_INTERVAL as u64 {
            return Err(format!(
                "the queue with strict priority sent {strict} of {} frames",
                self.selections
            ));
        }
        if strict + dwrr[0].0 + dwrr[1].0 != self.selections {
            return Err("a selection returned no queue or another queue".to_owned());
        }
        // The weights are 15 and 14. The sent bytes deviate from this ratio by a few frames at most.
        let ratio = dwrr[0].1 as f64 / dwrr[1].1.max(1) as f64;
        match self.selections < 10_000 || (ratio - 15.0 / 14.0).abs() < 0.01 {
            true => Ok(()),
            false => Err(format!(
                "the bytes of the DWRR queues have the ratio {ratio:.3}, not 15 to 14"
            )),
        }
    }
}

/// Makes a WRED decision for each of 64 frames in turn, and marks about half of the frames.
///
/// At a decision, the length of the queue is 1 to 64 frames.
#[derive(Debug)]
pub(super) struct WredMarkingLoad {
    marker: WredMarker,
    wred: WredProfile,
    /// Each frame, and the queue length in bytes at its decision.
    frames: Vec<(Vec<u8>, u64)>,
    decisions: u64,
    marked: u64,
}

impl WredMarkingLoad {
    pub(super) fn new() -> WredMarkingLoad {
        let frame = |n: u32| {
            let forwarding = many_to_one_load::ForwardingMode::Routed { routes: 1_000 };
            // The order of the queue lengths must not be predictable for the processor.
            let queued_frames = u64::from(1 + n * 37 % FLOWS);
            let frame = many_to_one_load::build_frame(n as u16 % 4, n, forwarding);
            (frame, queued_frames * 1_086)
        };
        WredMarkingLoad {
            marker: WredMarker::new(1, 0),
            wred: WredProfile {
                min_bytes: 0,
                max_bytes: u64::from(FLOWS) * 1_086,
                max_probability: 1 << 32,
                ecn: true,
                drop: false,
            },
            frames: (0..FLOWS).map(frame).collect(),
            decisions: 0,
            marked: 0,
        }
    }
}

impl FrameLoad for WredMarkingLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        let count = run_bursts(frames, || {
            for (frame, queue_bytes) in &mut self.frames[first..first + BURST_FRAMES] {
                // Marking a marked frame again costs the same time.
                if self
                    .marker
                    .decide_mark_or_drop(black_box(&self.wred), *queue_bytes)
                {
                    self.marked += u64::from(mark_ce(black_box(&mut frame[IPV4_OFFSET..]), Payload::Ipv4));
                }
            }
            first = (first + BURST_FRAMES) % self.frames.len();
        });
        self.decisions += count;
        count
    }

    fn check(&self) -> Result<(), String> {
        for (frame, _) in &self.frames {
            if !parse(frame).is_ecn_capable()
                || !Ipv4Packet::new_unchecked(&frame[IPV4_OFFSET..]).verify_checksum()
            {
                return Err("marking changed a header field other than ECN".to_owned());
            }
        }
        let is_marked = |frame: &[u8]| Ecn::from_tos(parse(frame).tos) == Ecn::Ce;
        let share = self.marked as f64 / self.decisions.max(1) as f64;
        if self.decisions < 10_000 {
            return Ok(());
        }
        if !self.frames.iter().all(|(frame, _)| is_marked(frame)) {
            return Err("a frame was never marked".to_owned());
        }
        // The mean probability over all queue lengths is 65/128. With 10 000 frames, six standard deviations
        // are 3 %.
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
    fn the_check_reports_cells_that_are_not_released() {
        let mut load = AdmissionLoad::new();
        load.run(64);
        load.frames[0].2 = 9_000;
        assert!(load.check().unwrap_err().contains("cells"));
    }

    #[test]
    fn the_check_reports_wrong_shares_and_selections() {
        let mut load = SchedulerLoad::new();
        load.run(20_000);
        load.sent[3].1 *= 2;
        assert!(load.check().unwrap_err().contains("15 to 14"));
        load.sent[STRICT_QUEUE].0 += 1;
        assert!(load.check().unwrap_err().contains("strict"));
    }

    #[test]
    fn the_check_reports_wrong_marks() {
        let mut load = WredMarkingLoad::new();
        load.wred.max_probability /= 2;
        load.run(20_000);
        assert!(load.check().unwrap_err().contains("not half"));
        load.frames[9].0[IPV4_OFFSET + 10] ^= 1;
        assert!(load.check().unwrap_err().contains("header"));
    }
}
