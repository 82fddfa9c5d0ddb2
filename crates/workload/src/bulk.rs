//! Bulk-synchronous jobs: permutations, incasts and collectives. Such a job repeats a pattern of messages for
//! a number of iterations. An iteration begins after the previous iteration has ended at all ranks.

mod steps;

use xoff_units::{Picos, count_noun};

use super::completion_scope::CompletionScope;
use super::job_context::{ConnectionBuilder, JobContext};
use super::messages::TransferTag;
use super::pattern::{Pairs, Pattern, Transfer};
use super::random::RandomStream;
use super::spec::{Collective, Incast, Permutation, Verb};
use super::split::transmission_time;
pub use steps::StepUnit;

/// Tag of the timer that begins an iteration.
const BEGIN_ITERATION: TransferTag = TransferTag {
    edge: u32::MAX,
    sequence: 0,
};
/// Value in [`BulkJob::connections`] for an edge inside a node. Such an edge does not use the network.
const LOCAL_EDGE: u32 = u32::MAX;

/// Number of ranks that [`BulkJob::iteration_continues`] examines at most.
const LATE_RANKS_EXAMINED_MAX: usize = 4;

/// A completed or running iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iteration {
    /// Index of the size in [`IterationSchedule::sizes`].
    pub(super) size: usize,
    pub(super) warmup: bool,
    /// Time at which the first message was posted, after the compute gap.
    pub(super) start: Picos,
    /// Time at which the last rank had all its data.
    pub(super) end: Picos,
    /// Time at which the first receiving rank had all its data.
    pub(super) first_rank_end: Picos,
    /// The rank that was last to have all its data.
    pub(super) slowest_rank: u32,
}

/// Number, sizes and times of the iterations.
#[derive(Clone, Debug)]
struct IterationSchedule {
    sizes: Vec<u64>,
    /// Number of iterations of each size, including the warm-up.
    iterations_per_size: u32,
    warmup: u32,
    /// Time between two iterations.
    gap: Picos,
    /// Whether the gap also precedes the first iteration.
    gap_before_first: bool,
}

/// A bulk-synchronous job.
#[derive(Debug)]
pub(super) struct BulkJob {
    pub(super) pattern: Pattern,
    /// Index of the connection of each edge, or [`LOCAL_EDGE`].
    pub(super) connections: Vec<u32>,
    schedule: IterationSchedule,
    nvlink_bps: Option<u64>,
    /// Whether every message has a flow record.
    has_flow_records: bool,
    /// Time until which the NVLink of each rank is busy.
    nvlink_busy_until: Vec<Picos>,
    /// Host of each rank.
    hosts: Vec<u32>,
    /// Number of transfers that each rank still has to receive.
    missing_transfers: Vec<u64>,
    /// For each caller of [`BulkJob::iteration_continues`]: a rank that probably misses transfers for some time.
    late_ranks: Vec<usize>,
    /// Number of ranks that still have to receive a transfer.
    unfinished_ranks: u32,
    /// Number of transfers of the running iteration that are not posted yet.
    unposted_transfers: u64,
    /// Whether a transfer can only be sent by the rank at which another transfer has arrived.
    posts_at_receiver_only: bool,
    running: Option<Iteration>,
    pub(super) done: Vec<Iteration>,
    sends: Vec<Transfer>,
    /// Times of the steps. `None` if they are not recorded.
    steps: Option<Box<steps::RecordedSteps>>,
}

impl BulkJob {
    /// Makes the job of a valid permutation.
    pub(super) fn permutation(
        spec: &Permutation,
        mut random: RandomStream,
        connect: &mut ConnectionBuilder<'_>,
    ) -> BulkJob {
        let order = random.derangement(spec.hosts.len());
        let pairs = order.iter().enumerate().map(|(from, &to)| (from as u32, to));
        let schedule = IterationSchedule::of_one_size(spec.bytes, spec.iterations, spec.gap);
        let pattern = Pattern::Pairs(Pairs::new(pairs));
        BulkJob::new(pattern, &spec.hosts, schedule, true, connect)
    }

    /// Makes the job of a valid incast.
    pub(super) fn incast(spec: &Incast, connect: &mut ConnectionBuilder<'_>) -> BulkJob {
        let receiver = spec.senders.len() as u32;
        let hosts: Vec<u32> = spec.senders.iter().copied().chain([spec.receiver]).collect();
        let schedule = IterationSchedule::of_one_size(spec.bytes, spec.iterations, spec.gap);
        let pattern = Pattern::Pairs(Pairs::new((0..receiver).map(move |from| (from, receiver))));
        BulkJob::new(pattern, &hosts, schedule, true, connect)
    }

    /// Makes the job of a valid collective.
    pub(super) fn collective(spec: &Collective, connect: &mut ConnectionBuilder<'_>) -> BulkJob {
        let schedule = IterationSchedule {
            sizes: spec.bytes.clone(),
            iterations_per_size: spec.warmup.saturating_add(spec.iterations),
            warmup: spec.warmup,
            gap: spec.compute_gap,
            gap_before_first: true,
        };
        let mut bulk = BulkJob::new(Pattern::collective(spec), &spec.ranks, schedule, false, connect);
        bulk.nvlink_bps = spec.nvlink_bps;
        bulk
    }

    /// Creates a job. All edges from one rank to another rank share a connection. Several such edges exist
    /// only in a double binary tree.
    fn new(
        pattern: Pattern,
        hosts: &[u32],
        schedule: IterationSchedule,
        has_flow_records: bool,
        connect: &mut ConnectionBuilder<'_>,
    ) -> BulkJob {
        let mut known = std::collections::BTreeMap::new();
        let mut connection = |from: u32, to: u32| {
            let (src, dst) = (hosts[from as usize], hosts[to as usize]);
            *known
                .entry((from, to))
                .or_insert_with(|| connect.add_connection(src, dst))
        };
        let of_edge = pattern.edges().iter().map(|edge| match edge.network {
            true => connection(edge.from, edge.to),
            false => LOCAL_EDGE,
        });
        let connections: Vec<u32> = of_edge.collect();
        BulkJob {
            // The requester of a READ is the destination of the data, and a transfer inside a node ends at
            // another host.
            posts_at_receiver_only: connect.spec.verb != Verb::Read && !connections.contains(&LOCAL_EDGE),
            connections,
            pattern,
            schedule,
            nvlink_bps: None,
            has_flow_records,
            nvlink_busy_until: vec![Picos::ZERO; hosts.len()],
            hosts: hosts.to_vec(),
            missing_transfers: vec![0; hosts.len()],
            late_ranks: Vec::new(),
            unfinished_ranks: 0,
            unposted_transfers: 0,
            running: None,
            done: Vec::new(),
            sends: Vec::new(),
            steps: None,
        }
    }

    pub(super) fn start(&mut self, start: Picos, context: &mut JobContext<'_>) {
        let gap = if self.schedule.gap_before_first {
            self.schedule.gap
        } else {
            Picos::ZERO
        };
        context.schedule_recorded_time(start.saturating_add(gap), BEGIN_ITERATION);
    }

    pub(super) fn handle_timer(&mut self, tag: TransferTag, context: &mut JobContext<'_>) {
        if tag == BEGIN_ITERATION {
            self.begin_iteration(context);
        } else {
            self.handle_arrival(tag, Picos::ZERO, context);
        }
    }

    /// Handles a transfer that has arrived at the receiving rank. `latency` is the time since it was posted.
    pub(super) fn handle_arrival(&mut self, tag: TransferTag, latency: Picos, context: &mut JobContext<'_>) {
        let mut sends = std::mem::take(&mut self.sends);
        match &mut self.steps {
            None => self.pattern.handle_arrival(tag.edge, tag.sequence, &mut sends),
            Some(steps) => {
                let iteration = self.done.len() as u64;
                let times = (context.now, latency, iteration);
                steps.handle_arrival(&mut self.pattern, tag, times, &mut sends);
            }
        }
        self.post_transfers(&mut sends, context);
        self.sends = sends;
        let to = self.pattern.edges()[tag.edge as usize].to;
        let waiting = &mut self.missing_transfers[to as usize];
        if *waiting > 1 {
            *waiting -= 1;
            return;
        }
        *waiting = 0;
        self.unfinished_ranks = self.unfinished_ranks.saturating_sub(1);
        if let Some(running) = &mut self.running {
            running.first_rank_end = running.first_rank_end.min(context.recorded_now());
            running.slowest_rank = to;
        }
        self.end_iteration_if_complete(context);
    }

    pub(super) fn is_over(&self) -> bool {
        self.running.is_none() && self.done.len() == self.schedule.iteration_count()
    }

    /// Returns which hosts the next completions can change. An iteration ends at all hosts, but not before its last
    /// message has arrived. After all messages of an iteration are posted, completions are only counted until then.
    pub(super) fn completion_scope(&self) -> CompletionScope {
        if self.running.is_none() || self.posts_at_receiver_only && self.unposted_transfers > 0 {
            CompletionScope::CompletingHost
        } else if self.unposted_transfers == 0 {
            CompletionScope::CompletingHostUntilStepEnds
        } else {
            CompletionScope::AllHosts
        }
    }

    /// Returns whether the iteration does not end because a rank certainly misses transfers. `misses_messages` returns
    /// whether a host receives fewer than a number of messages, or `None` for a host that the caller does not know.
    /// Only a few known ranks are examined, from the rank that was the answer to the previous call of the same caller.
    pub(super) fn iteration_continues(
        &mut self,
        caller: usize,
        misses_messages: &mut impl FnMut(u32, u64) -> Option<bool>,
    ) -> bool {
        let ranks = self.missing_transfers.len();
        if self.late_ranks.len() <= caller {
            self.late_ranks.resize(caller + 1, 0);
        }
        let (mut rank, mut examined) = (self.late_ranks[caller], 0);
        for _ in 0..ranks {
            let missing = self.missing_transfers[rank];
            if missing > 0 {
                match misses_messages(self.hosts[rank], missing) {
                    Some(true) => {
                        self.late_ranks[caller] = rank;
                        return true;
                    }
                    Some(false) => examined += 1,
                    None => {}
                }
                if examined == LATE_RANKS_EXAMINED_MAX {
                    break;
                }
            }
            rank = (rank + 1) % ranks;
        }
        false
    }

    pub(super) fn progress(&self) -> String {
        let waiting = match self.running {
            Some(_) => format!(
                ", waiting for data: {}",
                count_noun(self.unfinished_ranks as u64, "rank")
            ),
            None => String::new(),
        };
        format!(
            "{} of {} complete{waiting}",
            self.done.len(),
            count_noun(self.schedule.iteration_count() as u64, "iteration")
        )
    }

    pub(super) fn sizes(&self) -> &[u64] {
        &self.schedule.sizes
    }

    /// Returns the payload of all iterations between hosts, in bytes.
    pub(super) fn total_bytes(&self) -> u64 {
        let network_edges = || {
            let edges = 0..self.connections.len() as u32;
            edges.filter(|edge| self.connections[*edge as usize] != LOCAL_EDGE)
        };
        let of_size = |bytes| {
            let of_edges = network_edges().map(|edge| self.pattern.bytes_on_edge(edge, bytes));
            of_edges.fold(0, u64::saturating_add)
        };
        let sizes = self.schedule.sizes.iter().map(|bytes| of_size(*bytes));
        sizes
            .fold(0, u64::saturating_add)
            .saturating_mul(self.iterations_per_size())
    }

    /// Returns the number of iterations of each size, including the warm-up.
    pub(super) fn iterations_per_size(&self) -> u64 {
        u64::from(self.schedule.iterations_per_size)
    }

    /// Returns the time between two iterations, and whether it also precedes the first iteration.
    pub(super) fn iteration_gap(&self) -> (Picos, bool) {
        (self.schedule.gap, self.schedule.gap_before_first)
    }

    fn begin_iteration(&mut self, context: &mut JobContext<'_>) {
        let number = self.done.len();
        let rounds = self.schedule.iterations_per_size as usize;
        let size = number / rounds.max(1);
        let Some(&bytes) = self.schedule.sizes.get(size) else {
            return;
        };
        self.running = Some(Iteration {
            size,
            warmup: number % rounds < self.schedule.warmup as usize,
            start: context.recorded_now(),
            end: Picos::NEVER,
            first_rank_end: Picos::NEVER,
            slowest_rank: 0,
        });
        self.record_iteration(context.now, context.counts);
        let mut sends = std::mem::take(&mut self.sends);
        self.pattern.begin(bytes, &mut sends);
        self.missing_transfers.fill(0);
        self.unposted_transfers = 0;
        for (index, edge) in self.pattern.edges().iter().enumerate() {
            let transfers = self.pattern.transfer_count(index as u32);
            self.missing_transfers[edge.to as usize] += transfers;
            self.unposted_transfers += transfers;
        }
        self.unfinished_ranks = self
            .missing_transfers
            .iter()
            .filter(|waiting| **waiting > 0)
            .count() as u32;
        self.post_transfers(&mut sends, context);
        self.sends = sends;
        self.end_iteration_if_complete(context);
    }

    fn post_transfers(&mut self, sends: &mut Vec<Transfer>, context: &mut JobContext<'_>) {
        self.unposted_transfers = self.unposted_transfers.saturating_sub(sends.len() as u64);
        for transfer in sends.drain(..) {
            let tag = TransferTag {
                edge: transfer.edge,
                sequence: transfer.sequence,
            };
            let connection = self.connections[transfer.edge as usize];
            if connection != LOCAL_EDGE {
                context.post(
                    connection,
                    transfer.bytes,
                    tag,
                    context.recorded_now(),
                    self.has_flow_records,
                );
                continue;
            }
            let mut at = context.now;
            if let Some(bps) = self.nvlink_bps {
                let busy =
                    &mut self.nvlink_busy_until[self.pattern.edges()[transfer.edge as usize].from as usize];
                at = at
                    .max(*busy)
                    .saturating_add(transmission_time(transfer.bytes, bps));
                *busy = at;
            }
            context.schedule_job_timer(at, tag);
        }
    }

    fn end_iteration_if_complete(&mut self, context: &mut JobContext<'_>) {
        if self.unfinished_ranks > 0 {
            return;
        }
        let Some(mut iteration) = self.running.take() else {
            return;
        };
        iteration.end = context.recorded_now();
        iteration.first_rank_end = iteration.first_rank_end.min(iteration.end);
        self.done.push(iteration);
        if self.done.len() < self.schedule.iteration_count() {
            context.schedule_job_timer(context.now.saturating_add(self.schedule.gap), BEGIN_ITERATION);
        }
    }
}

impl IterationSchedule {
    /// Returns a schedule in which all iterations transfer the same number of bytes. The gap is between two
    /// iterations, but not before the first iteration.
    fn of_one_size(bytes: u64, iterations: u32, gap: Picos) -> IterationSchedule {
        IterationSchedule {
            sizes: vec![bytes],
            iterations_per_size: iterations,
            warmup: 0,
            gap,
            gap_before_first: false,
        }
    }

    fn iteration_count(&self) -> usize {
        self.sizes.len() * self.iterations_per_size as usize
    }
}
