//! When the last of a train of packets arrives: store and forward over links in a row, each of which sends one packet after the other.
//!
//! All arithmetic is that of the fabric: picoseconds, occupation by [`Line`], a gap behind each frame that its arrival does not
//! wait for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::{Line, LinkTiming, Picos};

/// Most packets after which the state of parallel links is compared with that before them.
const PERIOD_MAX: u64 = 4_096;
/// Most packets at the end of a message that pass stage after stage.
const TAIL_MAX: u64 = 65_536;

/// A link with what follows it up to the next link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    /// Speed and framing of its sender.
    pub(super) timing: LinkTiming,
    /// Bytes of a VLAN tag that frames have on it.
    pub(super) tag_bytes: u32,
    /// Its propagation delay and the latency of the switch behind it.
    pub(super) latency: Picos,
}

impl Hop {
    /// Picoseconds for which a frame occupies the link, the gap behind it included.
    fn occupied(&self, frame_len: u32) -> u64 {
        let line = Line::new(self.timing);
        line.occupied(line.mac_len(frame_len + self.tag_bytes)).0
    }

    /// From the end of a frame's occupation to its arrival.
    fn arrival(&self, end: u64) -> u64 {
        let gap = Line::new(self.timing).timing().gap_duration().0;
        end.saturating_sub(gap).saturating_add(self.latency.0)
    }
}

/// Packets of one length in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Bytes of each as a socket sees it.
    pub(super) frame_len: u32,
    pub(super) count: u64,
}

/// When the last packet of `train` has arrived over one path, if the first may leave at `released`. Takes a time that does not depend
/// on the number of packets.
///
/// A packet leaves a link when it has arrived and the one before it has left. So the last departure is the largest sum of
/// occupations over all ways through the table of links and packets that go to the next link or to the next packet in each step.
/// In a run of `c` equal packets such a way has `c - 1` more cells than links; all of them are best on the slowest of these links.
pub(super) fn over_path(path: &[Hop], train: &[Run], released: Picos) -> Picos {
    // When each link is free again, less what the links before it take without any occupation.
    let mut free = vec![0_u64; path.len()];
    for run in train.iter().filter(|run| run.count > 0) {
        let occupied: Vec<u64> = path.iter().map(|hop| hop.occupied(run.frame_len)).collect();
        let before = free.clone();
        for (link, free) in free.iter_mut().enumerate() {
            let (mut sum, mut slowest) = (0_u64, 0);
            for first in (0..=link).rev() {
                sum = sum.saturating_add(occupied[first]);
                slowest = slowest.max(occupied[first]);
                let others = (run.count - 1).saturating_mul(slowest);
                *free = (*free).max(before[first].saturating_add(sum).saturating_add(others));
            }
        }
    }
    let last = free.last().copied().unwrap_or(0);
    let arrival = path.iter().fold(last, |at, hop| hop.arrival(at));
    Picos(released.0.saturating_add(arrival))
}

/// In which order packets queue for the links of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueOrder {
    /// Packets reach each switch over one link, so a packet never overtakes one that was sent before it over the same links.
    AsSent,
    /// Each switch sends into one link, where packets from several links queue in the order in which they arrive.
    AsArrived,
    /// Unknown: links of a switch are shared by several incoming links, or hashes place packets. A packet that overtakes others waits for
    /// none of them, which no real order can beat.
    Unknown,
}

/// Parallel links. Each packet takes one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// Links and how many there are of each kind.
    pub(super) links: Vec<(Hop, usize)>,
    pub(super) order: QueueOrder,
}

impl Stage {
    /// One link, at which all packets meet.
    pub(super) fn one(hop: Hop) -> Stage {
        Stage {
            links: vec![(hop, 1)],
            order: QueueOrder::AsArrived,
        }
    }

    fn link_count(&self) -> usize {
        self.links.iter().map(|(_, count)| (*count).max(1)).sum()
    }
}

/// As [`over_path`], where each packet takes the link of a stage that delivers it first.
///
/// Equal packets keep their order, so they pass all stages one after the other. The last packets of a message may be shorter and may
/// overtake longer ones, but no more of them than the widest stage has links. These packets pass stage after stage, in the order of
/// their arrival.
pub(super) fn over_stages(stages: &[Stage], train: &[Run], released: Picos) -> Picos {
    let mut pipeline = Pipeline::new(stages, released.0);
    let packets: u64 = train.iter().map(|run| run.count).sum();
    let mut head = packets - tail_len(stages, train).min(packets);
    let mut tail = Vec::new();
    for run in train {
        let in_order = head.min(run.count);
        head -= in_order;
        pipeline.send(&Run {
            count: in_order,
            ..*run
        });
        let left = run.count - in_order;
        tail.extend(std::iter::repeat_n(run.frame_len, left as usize));
    }
    pipeline.send_tail(&tail);
    Picos(pipeline.last_arrival)
}

/// Packets at the end of a train that may overtake or be overtaken: those behind its longest run, and as many before them as there are
/// links side by side.
fn tail_len(stages: &[Stage], train: &[Run]) -> u64 {
    let width = stages.iter().map(Stage::link_count).max().unwrap_or(1);
    let longest = (0..train.len()).max_by_key(|run| train[*run].count).unwrap_or(0);
    let behind: u64 = train.iter().skip(longest + 1).map(|run| run.count).sum();
    behind.saturating_add(width as u64).min(TAIL_MAX)
}

/// The links of a stage, of one kind.
struct Links {
    hop: Hop,
    /// When each is free.
    free: BinaryHeap<Reverse<u64>>,
    /// What a packet of the present run occupies.
    occupied: u64,
}

struct StageState {
    kinds: Vec<Links>,
    order: QueueOrder,
    /// When the latest packet arrived here.
    latest: u64,
}

impl StageState {
    fn new(stage: &Stage) -> StageState {
        let links = |(hop, count): &(Hop, usize)| Links {
            hop: *hop,
            free: std::iter::repeat_n(Reverse(0), (*count).max(1)).collect(),
            occupied: 0,
        };
        StageState {
            kinds: stage.links.iter().map(links).collect(),
            order: stage.order,
            latest: 0,
        }
    }

    fn set_frame_len(&mut self, frame_len: u32) {
        for links in &mut self.kinds {
            links.occupied = links.hop.occupied(frame_len);
        }
    }

    /// Sends a packet that arrives at `at`; returns when it arrives behind the stage.
    fn pass(&mut self, at: u64) -> u64 {
        let overtakes = self.order == QueueOrder::Unknown && at < self.latest;
        let arrival = |links: &Links| {
            let free = links.free.peek().map_or(0, |Reverse(free)| *free);
            let start = if overtakes { at } else { at.max(free) };
            links.hop.arrival(start + links.occupied)
        };
        let Some(best) = (0..self.kinds.len()).min_by_key(|kind| arrival(&self.kinds[*kind])) else {
            return at;
        };
        let arrived = arrival(&self.kinds[best]);
        if !overtakes {
            self.latest = self.latest.max(at);
            let links = &mut self.kinds[best];
            if let Some(mut first) = links.free.peek_mut() {
                first.0 = at.max(first.0) + links.occupied;
            }
        }
        arrived
    }

    /// Sends packets of these lengths that arrive at `times`, and replaces these by their arrivals behind the stage.
    fn pass_all(&mut self, frame_lens: &[u32], times: &mut [u64]) {
        if self.order == QueueOrder::AsArrived && self.kinds.len() == 1 {
            self.merge(frame_lens, times);
            return;
        }
        for (frame_len, time) in frame_lens.iter().zip(times) {
            self.set_frame_len(*frame_len);
            *time = self.pass(*time);
        }
    }

    /// The same where packets queue as they arrive. Each takes the link that is free first for packets in the order in which they were
    /// sent: so equal packets take the links in turn, as in the stages before, and each link has the packets of a fixed set of paths.
    fn merge(&mut self, frame_lens: &[u32], times: &mut [u64]) {
        let hop = self.kinds[0].hop;
        let mut free: Vec<u64> = self.kinds[0].free.iter().map(|Reverse(free)| *free).collect();
        free.sort_unstable();
        let mut in_turn: BinaryHeap<_> = free.iter().copied().zip(0..).map(Reverse).collect();
        let mut queues = vec![Vec::new(); free.len()];
        for (packet, (frame_len, at)) in frame_lens.iter().zip(&*times).enumerate() {
            let Some(mut first) = in_turn.peek_mut() else {
                return;
            };
            first.0.0 = first.0.0.max(*at) + hop.occupied(*frame_len);
            queues[first.0.1 as usize].push((*at, packet));
        }
        for (queue, free) in queues.iter_mut().zip(&mut free) {
            queue.sort_unstable();
            for (at, packet) in queue {
                *free = (*free).max(*at) + hop.occupied(frame_lens[*packet]);
                times[*packet] = hop.arrival(*free);
            }
        }
        self.kinds[0].free = free.into_iter().map(Reverse).collect();
    }

    /// When its links are free, in order; only of stages of one kind.
    fn sorted(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.kinds[0].free.iter().map(|Reverse(free)| *free).collect();
        all.sort_unstable();
        all
    }

    fn shift(&mut self, free_by: u64, latest_by: u64) {
        self.latest += latest_by;
        for links in &mut self.kinds {
            links.free = links
                .free
                .iter()
                .map(|Reverse(free)| Reverse(free + free_by))
                .collect();
        }
    }
}

struct Pipeline {
    stages: Vec<StageState>,
    released: u64,
    last_arrival: u64,
}

impl Pipeline {
    fn new(stages: &[Stage], released: u64) -> Pipeline {
        Pipeline {
            stages: stages.iter().map(StageState::new).collect(),
            released,
            last_arrival: released,
        }
    }

    fn send(&mut self, run: &Run) {
        for stage in &mut self.stages {
            stage.set_frame_len(run.frame_len);
        }
        let period = self.period();
        let mut left = run.count;
        while let Some(period) = period.filter(|period| left > 2 * period) {
            let before: Vec<Vec<u64>> = self.stages.iter().map(StageState::sorted).collect();
            self.send_packets(period);
            left -= period;
            if let Some(growth) = self.growth(&before, period) {
                self.skip(&growth, left / period);
                left %= period;
            }
        }
        self.send_packets(left);
    }

    fn send_packets(&mut self, count: u64) {
        for _ in 0..count {
            let released = self.released;
            let arrived = self.stages.iter_mut().fold(released, |at, stage| stage.pass(at));
            self.last_arrival = self.last_arrival.max(arrived);
        }
    }

    /// Sends the last packets, which may overtake each other.
    fn send_tail(&mut self, frame_lens: &[u32]) {
        let mut times = vec![self.released; frame_lens.len()];
        for stage in &mut self.stages {
            stage.pass_all(frame_lens, &mut times);
        }
        let last = times.into_iter().max().unwrap_or(0);
        self.last_arrival = self.last_arrival.max(last);
    }

    /// After so many equal packets all links of a stage have sent equally many; `None` where that is not so, or is too many.
    fn period(&self) -> Option<u64> {
        let mut period = 1_u64;
        for stage in &self.stages {
            let [links] = stage.kinds.as_slice() else {
                return None;
            };
            period = least_common_multiple(period, links.free.len() as u64);
            if period > PERIOD_MAX {
                return None;
            }
        }
        Some(period)
    }

    /// By how much each stage is later after `period` packets than before them, if it will be that for each further period: then all
    /// of its links are, and no less is possible, because it is the growth of the stage before or what its own links need.
    fn growth(&self, before: &[Vec<u64>], period: u64) -> Option<Vec<u64>> {
        let mut all = Vec::with_capacity(self.stages.len());
        let mut arrivals = 0;
        for (stage, before) in self.stages.iter().zip(before) {
            let links = &stage.kinds[0];
            let own = links.occupied * (period / links.free.len() as u64);
            let growth = own.max(arrivals);
            let after = stage.sorted();
            if !before
                .iter()
                .zip(after)
                .all(|(before, after)| before + growth == after)
            {
                return None;
            }
            all.push(growth);
            arrivals = growth;
        }
        Some(all)
    }

    /// Goes on by so many periods.
    fn skip(&mut self, growth: &[u64], periods: u64) {
        let mut arrivals = 0;
        for (stage, growth) in self.stages.iter_mut().zip(growth) {
            let by = growth.saturating_mul(periods);
            stage.shift(by, arrivals);
            arrivals = by;
        }
        self.last_arrival += arrivals;
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
