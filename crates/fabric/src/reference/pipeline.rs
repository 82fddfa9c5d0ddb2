//! Computes the arrival time of the last packet of a message. The packets pass several links in series by
//! store and forward.
//!
//! The arithmetic is the same as in the event loop of the fabric. Times are in picoseconds, and [`LinkRate`]
//! gives the transmission times. The gap after a frame does not delay the arrival of the frame.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::{LinkRate, LinkTiming, Picos};

/// Largest number of packets between two comparisons of the state of parallel links. The comparisons find a
/// period after which the state repeats.
const PERIOD_MAX: u64 = 4_096;
/// Largest number of packets at the end of a message that can be computed stage by stage.
const TAIL_MAX: u64 = 65_536;

/// A link and the switch at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkHop {
    /// Speed and framing of the sender.
    pub(super) timing: LinkTiming,
    /// Bytes of the VLAN tag of frames on this link, 0 without a tag.
    pub(super) tag_bytes: u32,
    /// Delay of the link plus pipeline latency of the switch at its end.
    pub(super) latency: Picos,
}

impl LinkHop {
    /// Returns the time in picoseconds for which a frame and its gap occupy the link.
    fn transmission_ps(&self, frame_len: u32) -> u64 {
        let line = LinkRate::new(self.timing);
        line.transmission_time(line.mac_len(frame_len + self.tag_bytes)).0
    }

    /// Returns the arrival time of a frame in picoseconds. The transmission of the frame, including the gap,
    /// ends at `end`.
    fn arrival_ps(&self, end: u64) -> u64 {
        let gap = LinkRate::new(self.timing).timing().gap_duration().0;
        end.saturating_sub(gap).saturating_add(self.latency.0)
    }
}

/// Consecutive packets of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EqualLengthPackets {
    /// Length of each frame in bytes, without FCS.
    pub(super) frame_len: u32,
    pub(super) count: u64,
}

/// Returns the arrival time of the last packet of `train`, a list of packets, over one path. The first packet
/// may leave at `released`. The computing time does not depend on the number of packets.
///
/// A packet leaves a link when it has arrived and the previous packet has left. The last departure is
/// therefore a longest path through a table of links (columns) and packets (rows). Each step of this path
/// goes to the next link or to the next packet. In a run of `c` equal packets, the path has `c - 1` more
/// cells than there are links. All of these extra cells are on the slowest link.
pub(super) fn last_arrival_over_path(
    path: &[LinkHop],
    train: &[EqualLengthPackets],
    released: Picos,
) -> Picos {
    // Time at which each link is free. The latencies of the earlier links are not included.
    let mut free = vec![0_u64; path.len()];
    for run in train.iter().filter(|run| run.count > 0) {
        let occupied: Vec<u64> = path
            .iter()
            .map(|hop| hop.transmission_ps(run.frame_len))
            .collect();
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
    let arrival = path.iter().fold(last, |at, hop| hop.arrival_ps(at));
    Picos(released.0.saturating_add(arrival))
}

/// Order in which packets queue for the links of a stage (a group of parallel links).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueOrder {
    /// Each switch receives all its packets from one link, so packets stay in sending order.
    AsSent,
    /// Each switch sends all its packets into one link. Packets from several links queue in the order of
    /// their arrival.
    AsArrived,
    /// The order is unknown, because several incoming links share the links of a switch or because hashes
    /// select links. The computation assumes that a packet never waits for packets that it overtakes. No real
    /// order is faster.
    Unknown,
}

/// Parallel links. Each packet uses one of these links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// Each kind of link with the number of links of this kind.
    pub(super) links: Vec<(LinkHop, usize)>,
    pub(super) order: QueueOrder,
}

impl Stage {
    /// Creates a stage with one link for all packets.
    pub(super) fn single_link(hop: LinkHop) -> Stage {
        Stage {
            links: vec![(hop, 1)],
            order: QueueOrder::AsArrived,
        }
    }

    fn link_count(&self) -> usize {
        self.links.iter().map(|(_, count)| (*count).max(1)).sum()
    }
}

/// Returns the arrival time of the last packet of `train`, a list of packets, over stages of parallel links.
/// In each stage, a packet uses the link that delivers it first.
///
/// Equal packets stay in order and pass all stages one after the other. The last packets of a message can be
/// shorter and can overtake longer packets. The number of such packets is limited by the number of links in
/// the widest stage. These packets are computed stage by stage, in the order of arrival.
pub(super) fn last_arrival_over_stages(
    stages: &[Stage],
    train: &[EqualLengthPackets],
    released: Picos,
) -> Picos {
    let mut pipeline = Pipeline::new(stages, released.0);
    let packets: u64 = train.iter().map(|run| run.count).sum();
    let mut head = packets - reorderable_packet_count(stages, train).min(packets);
    let mut tail = Vec::new();
    for run in train {
        let in_order = head.min(run.count);
        head -= in_order;
        pipeline.send_equal_length_packets(&EqualLengthPackets {
            count: in_order,
            ..*run
        });
        let left = run.count - in_order;
        tail.extend(std::iter::repeat_n(run.frame_len, left as usize));
    }
    pipeline.send_last_packets(&tail);
    Picos(pipeline.last_arrival)
}

/// Returns the number of packets at the end of a message that can overtake or be overtaken. These are the
/// packets after the longest run (consecutive packets of equal length) and the last `n` packets of this run.
/// `n` is the largest number of parallel links.
fn reorderable_packet_count(stages: &[Stage], train: &[EqualLengthPackets]) -> u64 {
    let width = stages.iter().map(Stage::link_count).max().unwrap_or(1);
    let longest = (0..train.len()).max_by_key(|run| train[*run].count).unwrap_or(0);
    let behind: u64 = train.iter().skip(longest + 1).map(|run| run.count).sum();
    behind.saturating_add(width as u64).min(TAIL_MAX)
}

/// Links of one kind in a stage.
struct LinkGroup {
    hop: LinkHop,
    /// Time at which each link is free, in picoseconds.
    free: BinaryHeap<Reverse<u64>>,
    /// Transmission time of a packet of the current run, in picoseconds.
    occupied: u64,
}

struct StageState {
    kinds: Vec<LinkGroup>,
    order: QueueOrder,
    /// Latest arrival of a packet at this stage, in picoseconds.
    latest: u64,
}

impl StageState {
    fn new(stage: &Stage) -> StageState {
        let links = |(hop, count): &(LinkHop, usize)| LinkGroup {
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
            links.occupied = links.hop.transmission_ps(frame_len);
        }
    }

    /// Sends a packet that arrives at the stage at `at`. Returns the arrival time after the stage.
    fn send_packet(&mut self, at: u64) -> u64 {
        let overtakes = self.order == QueueOrder::Unknown && at < self.latest;
        let arrival = |links: &LinkGroup| {
            let free = links.free.peek().map_or(0, |Reverse(free)| *free);
            let start = if overtakes { at } else { at.max(free) };
            links.hop.arrival_ps(start + links.occupied)
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

    /// Sends packets through the stage. `times` contains the arrival time of each packet at the stage. The
    /// method replaces these times by the arrival times after the stage.
    fn send_packets_through(&mut self, frame_lens: &[u32], times: &mut [u64]) {
        if self.order == QueueOrder::AsArrived && self.kinds.len() == 1 {
            self.send_in_arrival_order(frame_lens, times);
            return;
        }
        for (frame_len, time) in frame_lens.iter().zip(times) {
            self.set_frame_len(*frame_len);
            *time = self.send_packet(*time);
        }
    }

    /// Sends packets through a stage in which packets queue in the order of arrival. The method selects the
    /// links as if the packets arrived in sending order: each packet uses the link that is free first.
    /// Packets of equal length therefore use the links in turn.
    fn send_in_arrival_order(&mut self, frame_lens: &[u32], times: &mut [u64]) {
        let hop = self.kinds[0].hop;
        let mut free: Vec<u64> = self.kinds[0].free.iter().map(|Reverse(free)| *free).collect();
        free.sort_unstable();
        let mut in_turn: BinaryHeap<_> = free.iter().copied().zip(0..).map(Reverse).collect();
        let mut queues = vec![Vec::new(); free.len()];
        for (packet, (frame_len, at)) in frame_lens.iter().zip(&*times).enumerate() {
            let Some(mut first) = in_turn.peek_mut() else {
                return;
            };
            first.0.0 = first.0.0.max(*at) + hop.transmission_ps(*frame_len);
            queues[first.0.1 as usize].push((*at, packet));
        }
        for (queue, free) in queues.iter_mut().zip(&mut free) {
            queue.sort_unstable();
            for (at, packet) in queue {
                *free = (*free).max(*at) + hop.transmission_ps(frame_lens[*packet]);
                times[*packet] = hop.arrival_ps(*free);
            }
        }
        self.kinds[0].free = free.into_iter().map(Reverse).collect();
    }

    /// Returns the sorted times at which the links of the stage become free. All links of the stage must be
    /// of the same kind.
    fn sorted_free_times(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.kinds[0].free.iter().map(|Reverse(free)| *free).collect();
        all.sort_unstable();
        all
    }

    fn shift_stage_times(&mut self, free_by: u64, latest_by: u64) {
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

    fn send_equal_length_packets(&mut self, run: &EqualLengthPackets) {
        for stage in &mut self.stages {
            stage.set_frame_len(run.frame_len);
        }
        let period = self.packets_per_period();
        let mut left = run.count;
        while let Some(period) = period.filter(|period| left > 2 * period) {
            let before: Vec<Vec<u64>> = self.stages.iter().map(StageState::sorted_free_times).collect();
            self.send_packets(period);
            left -= period;
            if let Some(growth) = self.growth_per_period(&before, period) {
                self.skip_periods(&growth, left / period);
                left %= period;
            }
        }
        self.send_packets(left);
    }

    fn send_packets(&mut self, count: u64) {
        for _ in 0..count {
            let released = self.released;
            let arrived = self
                .stages
                .iter_mut()
                .fold(released, |at, stage| stage.send_packet(at));
            self.last_arrival = self.last_arrival.max(arrived);
        }
    }

    /// Sends the last packets of a message, which can overtake each other.
    fn send_last_packets(&mut self, frame_lens: &[u32]) {
        let mut times = vec![self.released; frame_lens.len()];
        for stage in &mut self.stages {
            stage.send_packets_through(frame_lens, &mut times);
        }
        let last = times.into_iter().max().unwrap_or(0);
        self.last_arrival = self.last_arrival.max(last);
    }

    /// Returns the number of packets in a period. After a period of equal packets, all links of a stage have
    /// sent the same number of packets, for every stage. Returns `None` if the links of a stage differ or if
    /// the number is too large.
    fn packets_per_period(&self) -> Option<u64> {
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

    /// Returns how much the times of each stage grow over one period of `period` packets. Returns `None` if
    /// the growth can differ between periods. All periods grow equally if the times of all links of a stage
    /// grow by the larger of two values: the growth of the previous stage, and the transmission time of the
    /// links of this stage.
    fn growth_per_period(&self, before: &[Vec<u64>], period: u64) -> Option<Vec<u64>> {
        let mut all = Vec::with_capacity(self.stages.len());
        let mut arrivals = 0;
        for (stage, before) in self.stages.iter().zip(before) {
            let links = &stage.kinds[0];
            let own = links.occupied * (period / links.free.len() as u64);
            let growth = own.max(arrivals);
            let after = stage.sorted_free_times();
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

    /// Advances all times by a number of periods without computing single packets.
    fn skip_periods(&mut self, growth: &[u64], periods: u64) {
        let mut arrivals = 0;
        for (stage, growth) in self.stages.iter_mut().zip(growth) {
            let by = growth.saturating_mul(periods);
            stage.shift_stage_times(by, arrivals);
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
