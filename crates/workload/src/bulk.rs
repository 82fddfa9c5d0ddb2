//! Bulk-synchronous jobs: iterations of a pattern, each of which begins when the one before is over at all ranks.

use xoff_units::Picos;

use super::engine::{Connect, Context};
use super::messages::Tag;
use super::pattern::{Pairs, Pattern, Transfer};
use super::random::Draws;
use super::spec::{Collective, Incast, Permutation};
use super::split::duration;

/// The tag of the timer that begins an iteration.
const BEGIN: Tag = Tag {
    edge: u32::MAX,
    sequence: 0,
};
/// An edge that the network has no part in.
const LOCAL: u32 = u32::MAX;

/// One iteration that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iteration {
    /// Index of its size.
    pub(super) size: usize,
    pub(super) warmup: bool,
    /// When the first message could go: after the compute gap.
    pub(super) start: Picos,
    /// When the last rank had everything.
    pub(super) end: Picos,
    /// When the first rank that receives anything had everything.
    pub(super) first_end: Picos,
    /// The last rank.
    pub(super) slowest: u32,
}

/// When iterations begin.
#[derive(Clone, Debug)]
struct Schedule {
    sizes: Vec<u64>,
    /// Of each size, warm-up included.
    rounds: u32,
    warmup: u32,
    /// Before each iteration, or only between two.
    gap: Picos,
    gap_before_first: bool,
}

/// A bulk-synchronous job.
#[derive(Debug)]
pub(super) struct Bulk {
    pub(super) pattern: Pattern,
    /// Connection of each edge, or [`LOCAL`].
    pub(super) connections: Vec<u32>,
    schedule: Schedule,
    nvlink_bps: Option<u64>,
    /// Whether every message is a flow of its own in results.
    record: bool,
    /// Until when a rank's NVLink sends what it has been given.
    nvlink_busy: Vec<Picos>,
    /// Transfers that each rank still waits for.
    waiting: Vec<u64>,
    /// Ranks that wait for any.
    unfinished: u32,
    running: Option<Iteration>,
    pub(super) done: Vec<Iteration>,
    sends: Vec<Transfer>,
}

impl Bulk {
    /// Of a job that has been checked.
    pub(super) fn permutation(spec: &Permutation, mut draws: Draws, connect: &mut Connect<'_>) -> Bulk {
        let order = draws.derangement(spec.hosts.len());
        let pairs = order.iter().enumerate().map(|(from, &to)| (from as u32, to));
        let schedule = Schedule::even(spec.bytes, spec.iterations, spec.gap);
        let pattern = Pattern::Pairs(Pairs::new(pairs));
        Bulk::new(pattern, &spec.hosts, schedule, true, connect)
    }

    /// Of a job that has been checked.
    pub(super) fn incast(spec: &Incast, connect: &mut Connect<'_>) -> Bulk {
        let receiver = spec.senders.len() as u32;
        let hosts: Vec<u32> = spec.senders.iter().copied().chain([spec.receiver]).collect();
        let schedule = Schedule::even(spec.bytes, spec.iterations, spec.gap);
        let pattern = Pattern::Pairs(Pairs::new((0..receiver).map(move |from| (from, receiver))));
        Bulk::new(pattern, &hosts, schedule, true, connect)
    }

    /// Of a job that has been checked.
    pub(super) fn collective(spec: &Collective, connect: &mut Connect<'_>) -> Bulk {
        let schedule = Schedule {
            sizes: spec.bytes.clone(),
            rounds: spec.warmup.saturating_add(spec.iterations),
            warmup: spec.warmup,
            gap: spec.compute_gap,
            gap_before_first: true,
        };
        let mut bulk = Bulk::new(Pattern::collective(spec), &spec.ranks, schedule, false, connect);
        bulk.nvlink_bps = spec.nvlink_bps;
        bulk
    }

    /// Edges between the same ranks share a connection; that happens where trees do.
    fn new(
        pattern: Pattern,
        hosts: &[u32],
        schedule: Schedule,
        record: bool,
        connect: &mut Connect<'_>,
    ) -> Bulk {
        let mut known = std::collections::BTreeMap::new();
        let mut connection = |from: u32, to: u32| {
            let (src, dst) = (hosts[from as usize], hosts[to as usize]);
            *known.entry((from, to)).or_insert_with(|| connect.add(src, dst))
        };
        let of_edge = pattern.edges().iter().map(|edge| match edge.network {
            true => connection(edge.from, edge.to),
            false => LOCAL,
        });
        Bulk {
            connections: of_edge.collect(),
            pattern,
            schedule,
            nvlink_bps: None,
            record,
            nvlink_busy: vec![Picos::ZERO; hosts.len()],
            waiting: vec![0; hosts.len()],
            unfinished: 0,
            running: None,
            done: Vec::new(),
            sends: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, start: Picos, context: &mut Context<'_>) {
        let gap = if self.schedule.gap_before_first {
            self.schedule.gap
        } else {
            Picos::ZERO
        };
        context.later(start.saturating_add(gap), BEGIN);
    }

    pub(super) fn called(&mut self, tag: Tag, context: &mut Context<'_>) {
        if tag == BEGIN {
            self.begin(context);
        } else {
            self.arrived(tag, context);
        }
    }

    /// A transfer is at its rank.
    pub(super) fn arrived(&mut self, tag: Tag, context: &mut Context<'_>) {
        let mut sends = std::mem::take(&mut self.sends);
        self.pattern.arrived(tag.edge, tag.sequence, &mut sends);
        self.send(&mut sends, context);
        self.sends = sends;
        let to = self.pattern.edges()[tag.edge as usize].to;
        let waiting = &mut self.waiting[to as usize];
        if *waiting > 1 {
            *waiting -= 1;
            return;
        }
        *waiting = 0;
        self.unfinished = self.unfinished.saturating_sub(1);
        if let Some(running) = &mut self.running {
            running.first_end = running.first_end.min(context.now);
            running.slowest = to;
        }
        self.end_if_all_have(context);
    }

    pub(super) fn is_over(&self) -> bool {
        self.running.is_none() && self.done.len() == self.schedule.total()
    }

    pub(super) fn progress(&self) -> String {
        let waiting = match self.running {
            Some(_) => format!(", {} ranks wait for data", self.unfinished),
            None => String::new(),
        };
        format!(
            "{} of {} iterations complete{waiting}",
            self.done.len(),
            self.schedule.total()
        )
    }

    pub(super) fn sizes(&self) -> &[u64] {
        &self.schedule.sizes
    }

    /// Iterations of each size, warm-up included.
    pub(super) fn rounds(&self) -> u64 {
        u64::from(self.schedule.rounds)
    }

    /// What passes between iterations, and whether the first one waits for it, too.
    pub(super) fn gap(&self) -> (Picos, bool) {
        (self.schedule.gap, self.schedule.gap_before_first)
    }

    fn begin(&mut self, context: &mut Context<'_>) {
        let number = self.done.len();
        let rounds = self.schedule.rounds as usize;
        let size = number / rounds.max(1);
        let Some(&bytes) = self.schedule.sizes.get(size) else {
            return;
        };
        self.running = Some(Iteration {
            size,
            warmup: number % rounds < self.schedule.warmup as usize,
            start: context.now,
            end: Picos::NEVER,
            first_end: Picos::NEVER,
            slowest: 0,
        });
        let mut sends = std::mem::take(&mut self.sends);
        self.pattern.begin(bytes, &mut sends);
        self.waiting.fill(0);
        for (index, edge) in self.pattern.edges().iter().enumerate() {
            self.waiting[edge.to as usize] += self.pattern.transfers(index as u32);
        }
        self.unfinished = self.waiting.iter().filter(|waiting| **waiting > 0).count() as u32;
        self.send(&mut sends, context);
        self.sends = sends;
        self.end_if_all_have(context);
    }

    fn send(&mut self, sends: &mut Vec<Transfer>, context: &mut Context<'_>) {
        for transfer in sends.drain(..) {
            let tag = Tag {
                edge: transfer.edge,
                sequence: transfer.sequence,
            };
            let connection = self.connections[transfer.edge as usize];
            if connection != LOCAL {
                context.post(connection, transfer.bytes, tag, context.now, self.record);
                continue;
            }
            let mut at = context.now;
            if let Some(bps) = self.nvlink_bps {
                let busy = &mut self.nvlink_busy[self.pattern.edges()[transfer.edge as usize].from as usize];
                at = at.max(*busy).saturating_add(duration(transfer.bytes, bps));
                *busy = at;
            }
            context.later(at, tag);
        }
    }

    fn end_if_all_have(&mut self, context: &mut Context<'_>) {
        if self.unfinished > 0 {
            return;
        }
        let Some(mut iteration) = self.running.take() else {
            return;
        };
        iteration.end = context.now;
        iteration.first_end = iteration.first_end.min(context.now);
        self.done.push(iteration);
        if self.done.len() < self.schedule.total() {
            context.later(context.now.saturating_add(self.schedule.gap), BEGIN);
        }
    }
}

impl Schedule {
    /// One size; the gap is between iterations.
    fn even(bytes: u64, iterations: u32, gap: Picos) -> Schedule {
        Schedule {
            sizes: vec![bytes],
            rounds: iterations,
            warmup: 0,
            gap,
            gap_before_first: false,
        }
    }

    fn total(&self) -> usize {
        self.sizes.len() * self.rounds as usize
    }
}
