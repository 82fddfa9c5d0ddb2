//! When the last of a train of packets arrives: store and forward over links in a row, each of which sends one packet after the other.
//!
//! All arithmetic is that of the fabric: picoseconds, occupation by [`Line`], a gap behind each frame that its arrival does not
//! wait for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::{Line, LinkTiming, Picos};

/// Most packets after which the state of a spread pipeline is looked at for repetition.
const PERIOD_MAX: u64 = 4_096;

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
        let gap = Line::new(self.timing).timing().gap().0;
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

/// Links side by side, of which each packet takes any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// Links and how many there are of each kind.
    pub(super) links: Vec<(Hop, usize)>,
}

/// As [`over_path`], where packets are spread over the links of each stage as well as can be: each takes the link that delivers it
/// first.
pub(super) fn over_stages(stages: &[Stage], train: &[Run], released: Picos) -> Picos {
    let mut pipeline = Pipeline::new(stages, released.0);
    for run in train {
        pipeline.send(run);
    }
    Picos(pipeline.last_arrival)
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
    /// When the latest packet arrived here.
    latest: u64,
}

impl StageState {
    /// Sends a packet that arrives at `at`; when it arrives behind the stage.
    fn pass(&mut self, at: u64) -> u64 {
        // A short packet may overtake longer ones on other links. It then waits for none of those.
        let overtakes = at < self.latest;
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
            self.latest = at;
            let links = &mut self.kinds[best];
            if let Some(mut first) = links.free.peek_mut() {
                first.0 = at.max(first.0) + links.occupied;
            }
        }
        arrived
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
        let state = |stage: &Stage| StageState {
            kinds: stage
                .links
                .iter()
                .map(|(hop, count)| Links {
                    hop: *hop,
                    free: std::iter::repeat_n(Reverse(0), (*count).max(1)).collect(),
                    occupied: 0,
                })
                .collect(),
            latest: 0,
        };
        Pipeline {
            stages: stages.iter().map(state).collect(),
            released,
            last_arrival: released,
        }
    }

    fn send(&mut self, run: &Run) {
        for links in self.stages.iter_mut().flat_map(|stage| &mut stage.kinds) {
            links.occupied = links.hop.occupied(run.frame_len);
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
