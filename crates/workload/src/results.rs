//! The results of a workload: job completion times, flow completion times and bandwidths of collectives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_units::Picos;

use super::bulk::{BulkJob, Iteration};
use super::engine::{Job, JobRunner, Workload};
use super::job_context::{Connection, FlowRecord};
use super::latency::LatencyQuantiles;
use super::spec::{Algorithm, Collective, JobKind};
use xoff_units::{jain_index, max_mean_ratio};

use super::summary::DistributionSummary;

/// Upper limits of the size bins of [`FlowSummary::bins`] in bytes. The last bin contains all larger flows.
const SIZE_BIN_LIMITS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The results of all jobs. Points in time are times of the driver, or count from the time that
/// [`WorkloadResults::since`] was given. Times and durations are in nanoseconds
/// and rounded down. A duration is computed from picoseconds and then rounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResults {
    /// One entry for each job, in the order of [`WorkloadSpec::jobs`](super::WorkloadSpec::jobs).
    pub jobs: Vec<JobResults>,
    /// The messages of all jobs except collectives, sorted by job. The messages of a job are in the order in
    /// which they were posted.
    pub flows: Vec<FlowResult>,
}

/// The results of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResults {
    /// Name of the job ([`JobSpec::name`](super::JobSpec::name)).
    pub name: String,
    /// Kind of the job: `flows`, `permutation`, `incast`, `poisson`, `replay`, or the operation of a
    /// collective (`all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`).
    pub kind: String,
    /// Whether the job reached its end. False for a job that was stopped earlier.
    pub finished: bool,
    /// Start time of the job in the clock of the driver. For a held job that was never started, the value is
    /// the largest time (`u64::MAX / 1000`).
    pub start_ns: u64,
    /// Job completion time: from the start of the job to the reception of its last message, or to the end of
    /// its last iteration. `None` if the job is not finished.
    pub jct_ns: Option<u64>,
    /// Lower bound of `jct_ns`: the time that the links of the hosts need for the data. The bound includes
    /// the gaps between iterations or the start times of flows.
    pub roofline_ns: u64,
    /// Job completion time divided by its lower bound `roofline_ns`. `None` if the job is not finished or the
    /// bound is 0.
    pub jct_ratio: Option<f64>,
    /// Number of messages that the job has posted.
    pub posted_messages: u64,
    /// Payload bytes of all posted messages.
    pub posted_bytes: u64,
    /// Number of messages that were received completely.
    pub received_messages: u64,
    /// Payload bytes of all messages that were received completely.
    pub received_bytes: u64,
    /// Statistics of the durations of all complete iterations except the warm-up, in nanoseconds. `None` if
    /// no iteration except the warm-up is complete.
    pub iteration_ns: Option<DistributionSummary>,
    /// All complete iterations of a permutation, an incast or a collective, including the warm-up. Empty for
    /// jobs of all other kinds.
    pub iterations: Vec<IterationResult>,
    /// Results of a collective by size. `None` for other jobs.
    pub collective: Option<CollectiveResults>,
    /// Summary of the flows. `None` for a collective.
    pub flows: Option<FlowSummary>,
    /// Latencies of the messages of a collective in nanoseconds, from posting to complete reception. `None`
    /// if the job is not a collective or no message was received.
    #[serde(default)]
    pub message_latency_ns: Option<LatencyQuantiles>,
}

/// The result of one iteration of a permutation, an incast or a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationResult {
    /// Size of the iteration in bytes: the payload of each message, or the size of a collective with the
    /// meaning of nccl-tests ([`Collective::bytes`]).
    pub bytes: u64,
    /// Whether the iteration belongs to the warm-up and is not measured.
    pub warmup: bool,
    /// Time at which the first messages were posted, in the clock of the driver.
    pub start_ns: u64,
    /// Time from the first posted message until all ranks had all their data.
    pub time_ns: u64,
    /// Time from the first posted message until the first receiving rank had all its data.
    pub first_rank_ns: u64,
    /// The rank that was the last to receive all its data: an index in [`Collective::ranks`] or
    /// [`Permutation::hosts`](super::Permutation::hosts). In an incast, this is the number of senders,
    /// because only the receiver gets data.
    pub slowest_rank: u32,
}

/// The results of a collective: its parameters and, in `sizes`, the results of each size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectiveResults {
    /// Operation and algorithm: `RingAllReduce`, `TreeAllReduce`, `RingAllGather`, `RingReduceScatter`,
    /// `AllToAll` or `AllToAllRailAligned`.
    pub algorithm: String,
    /// Name of the operation in nccl-tests ([`Algorithm::operation`]).
    pub operation: String,
    /// Number of ranks (GPUs) in the collective.
    pub ranks: u32,
    /// Number of ranks (GPUs) per node.
    pub gpus_per_node: u32,
    /// Number of measured iterations of each size in the specification.
    pub iterations: u32,
    /// Number of warm-up iterations of each size in the specification.
    pub warmup: u32,
    /// Sizes in the order of the specification. A size without a completed measured iteration is omitted.
    pub sizes: Vec<SizeResults>,
}

/// The results of a collective for one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeResults {
    /// Size in bytes, with the meaning of nccl-tests ([`Collective::bytes`]).
    pub bytes: u64,
    /// Statistics of the durations of the measured iterations, in nanoseconds.
    pub time_ns: DistributionSummary,
    /// Duration of each measured iteration in nanoseconds, in the order of the iterations.
    pub times_ns: Vec<f64>,
    /// Roofline of one iteration: the time that the link of the busiest host needs for its bytes.
    pub roofline_ns: u64,
    /// Mean duration divided by `roofline_ns`. `None` if `roofline_ns` is 0.
    pub roofline_ratio: Option<f64>,
    /// Algorithm bandwidth: size divided by mean duration, in 10^9 bytes per second. The value is 0 if the
    /// mean duration is 0.
    pub algorithm_bandwidth_gbytes_per_s: f64,
    /// Bus bandwidth in 10^9 bytes per second: algorithm bandwidth times [`Algorithm::bus_factor`]. The bus
    /// bandwidth can be compared with the link speed for any number of ranks.
    pub bus_bandwidth_gbytes_per_s: f64,
}

/// The result of one message of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Index of the job in [`WorkloadResults::jobs`].
    pub job: u32,
    /// Index of the sending host in the host list of the driver.
    pub src: u32,
    /// Index of the receiving host in the host list of the driver.
    pub dst: u32,
    /// Payload of the message in bytes.
    pub bytes: u64,
    /// Time at which the message was due, in the clock of the driver.
    pub start_ns: u64,
    /// Flow completion time: from `start_ns` until all bytes of the message are received. `None` if the
    /// message was not received.
    pub completion_ns: Option<u64>,
    /// Time from `start_ns` to the last acknowledgement at the sender. `None` if the message was
    /// not acknowledged.
    pub sender_completion_ns: Option<u64>,
    /// The least possible flow completion time in nanoseconds: no other traffic, no window and no congestion
    /// control. The message uses all paths and queue pairs that it may use together. If switches hash a
    /// single queue pair to one of several paths, the fastest path is assumed. `None` if the driver does not
    /// know the time.
    pub ideal_ns: Option<u64>,
    /// Flow completion time divided by the least possible flow completion time. `None` if one of the two
    /// times is unknown, or if the least possible time is 0.
    pub slowdown: Option<f64>,
}

/// Summary of all flows of a job. Each message counts as one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Number of messages that the job has posted. Each message counts as one flow.
    pub count: u64,
    /// Number of messages that were received completely.
    pub completed: u64,
    /// Statistics of the flow completion times in nanoseconds. `None` if no flow was completed.
    pub completion_ns: Option<DistributionSummary>,
    /// Statistics of the slowdowns ([`FlowResult::slowdown`]). `None` if no slowdown is known.
    pub slowdown: Option<DistributionSummary>,
    /// The flows by size. Bins without a completed flow are omitted.
    pub bins: Vec<SizeBin>,
    /// Jain's fairness index of the throughputs, above 0 and at most 1. The value is 1 if all are equal. The
    /// throughput of a pair of hosts is the number of bytes received divided by the sum of the flow
    /// completion times. `None` if no bytes were received.
    pub jain_index: Option<f64>,
    /// The largest throughput of a pair of hosts divided by the mean throughput of all pairs, 1 or more.
    /// `None` if no bytes were received.
    pub max_mean_throughput_ratio: Option<f64>,
}

/// The completed flows with a size in one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeBin {
    /// Lower limit of the size in bytes, exclusive. `None` means no limit.
    pub above_bytes: Option<u64>,
    /// Upper limit of the size in bytes, inclusive. `None` means no limit.
    pub up_to_bytes: Option<u64>,
    /// Statistics of the flow completion times of the bin, in nanoseconds.
    pub completion_ns: DistributionSummary,
    /// Statistics of the slowdowns of the bin. `None` if no slowdown is known.
    pub slowdown: Option<DistributionSummary>,
}

impl WorkloadResults {
    /// Counts all points in time from `origin` instead of the zero of the driver. Held jobs that were never started
    /// keep the largest time.
    #[must_use]
    pub fn since(mut self, origin: Picos) -> WorkloadResults {
        let shift = |start_ns: &mut u64| {
            if *start_ns != Picos::NEVER.as_nanos() {
                *start_ns = start_ns.saturating_sub(origin.as_nanos());
            }
        };
        for job in &mut self.jobs {
            shift(&mut job.start_ns);
            job.iterations
                .iter_mut()
                .for_each(|iteration| shift(&mut iteration.start_ns));
        }
        self.flows.iter_mut().for_each(|flow| shift(&mut flow.start_ns));
        self
    }
}

/// Function that returns the least possible completion time of a message: its arguments are the connection
/// and the bytes of the message.
type LeastTimeOf<'a> = &'a dyn Fn(&Connection, u64) -> Option<Picos>;

impl Workload {
    /// Returns the results up to now. `least_time(connection, bytes)` must return the least possible
    /// completion time of a message ([`FlowResult::ideal_ns`]), or `None` if the time is unknown.
    pub fn results(&self, least_time: LeastTimeOf<'_>) -> WorkloadResults {
        let mut results = WorkloadResults::default();
        for (index, job) in self.jobs.iter().enumerate() {
            let records = &job.counts.records;
            let flow = |record: &FlowRecord| self.flow_result(index, record, least_time);
            let flows: Vec<FlowWithTime> = records.iter().map(flow).collect();
            let mut of_job = self.job_results(job);
            if !matches!(job.spec.kind, JobKind::Collective(_)) {
                of_job.flows = Some(summarise_flows(&flows));
            }
            results.jobs.push(of_job);
            results.flows.extend(flows.into_iter().map(|flow| flow.result));
        }
        results
    }

    fn flow_result(&self, index: usize, record: &FlowRecord, least_time: LeastTimeOf<'_>) -> FlowWithTime {
        let connection = &self.connections[record.connection as usize];
        let ideal = least_time(connection, record.bytes);
        let span = |end: Picos| (end != Picos::NEVER).then(|| end.since(record.start));
        let completion = span(record.received);
        let reference = ideal.filter(|ideal| *ideal > Picos::ZERO);
        let slowdown = completion
            .zip(reference)
            .map(|(span, ideal)| span.0 as f64 / ideal.0 as f64);
        FlowWithTime {
            completion,
            result: FlowResult {
                job: index as u32,
                src: connection.src,
                dst: connection.dst,
                bytes: record.bytes,
                start_ns: record.start.as_nanos(),
                completion_ns: completion.map(Picos::as_nanos),
                sender_completion_ns: span(record.acknowledged).map(Picos::as_nanos),
                ideal_ns: ideal.map(Picos::as_nanos),
                slowdown,
            },
        }
    }

    fn job_results(&self, job: &Job) -> JobResults {
        let counts = &job.counts;
        let finished = counts.start != Picos::NEVER && job.is_over();
        let roofline = self.job_roofline(job);
        let mut results = JobResults {
            name: job.spec.name.clone(),
            kind: job_kind_name(&job.spec.kind).to_owned(),
            finished,
            start_ns: counts.start.as_nanos(),
            roofline_ns: roofline.as_nanos(),
            posted_messages: counts.posted_messages,
            posted_bytes: counts.posted_bytes,
            received_messages: counts.received_messages,
            received_bytes: counts.received_bytes,
            message_latency_ns: counts.latencies.summary(),
            ..JobResults::default()
        };
        let mut end = counts.last_received;
        if let JobRunner::Bulk(bulk) = &job.runner {
            end = bulk.done.last().map_or(end, |iteration| iteration.end);
            results.iterations = bulk
                .done
                .iter()
                .map(|done| iteration_result(bulk, done))
                .collect();
            let measured = bulk.done.iter().filter(|done| !done.warmup);
            results.iteration_ns = DistributionSummary::of(measured.map(iteration_time_ns).collect());
            if let JobKind::Collective(spec) = &job.spec.kind {
                results.collective = Some(self.collective_results(job, bulk, spec));
            }
        }
        if finished {
            let jct = end.since(counts.start);
            results.jct_ns = Some(jct.as_nanos());
            results.jct_ratio = (roofline > Picos::ZERO).then(|| jct.0 as f64 / roofline.0 as f64);
        }
        results
    }

    /// Returns the roofline of a whole job, which is the lower bound of its completion time. The roofline
    /// covers all iterations and gaps, or the list of flows.
    fn job_roofline(&self, job: &Job) -> Picos {
        let framing = job.spec.framing;
        let bulk = match &job.runner {
            JobRunner::List(list) => return self.list_roofline(list, framing),
            JobRunner::Bulk(bulk) => bulk,
        };
        let (gap, before_first) = bulk.iteration_gap();
        let rounds = bulk.iterations_per_size();
        let gaps = rounds * bulk.sizes().len() as u64 - u64::from(!before_first);
        let sizes = bulk
            .sizes()
            .iter()
            .map(|bytes| self.iteration_roofline(bulk, *bytes, framing));
        let sending = sizes.fold(Picos::ZERO, |sum, span| sum.saturating_add(span));
        let times = |span: Picos, count: u64| Picos(span.0.saturating_mul(count));
        times(sending, rounds).saturating_add(times(gap, gaps))
    }

    fn collective_results(&self, job: &Job, bulk: &BulkJob, spec: &Collective) -> CollectiveResults {
        let mut sizes = Vec::new();
        for (size, &bytes) in spec.bytes.iter().enumerate() {
            let measured = bulk.done.iter().filter(|done| done.size == size && !done.warmup);
            let times_ns: Vec<f64> = measured.map(iteration_time_ns).collect();
            let Some(summary) = DistributionSummary::of(times_ns.clone()) else {
                continue;
            };
            let roofline = self.iteration_roofline(bulk, bytes, job.spec.framing);
            let bandwidth = if summary.avg > 0.0 {
                bytes as f64 / summary.avg
            } else {
                0.0
            };
            sizes.push(SizeResults {
                bytes,
                time_ns: summary,
                times_ns,
                roofline_ns: roofline.as_nanos(),
                roofline_ratio: (roofline > Picos::ZERO).then(|| summary.avg * 1000.0 / roofline.0 as f64),
                algorithm_bandwidth_gbytes_per_s: bandwidth,
                bus_bandwidth_gbytes_per_s: bandwidth * spec.algorithm.bus_factor(spec.ranks.len() as u32),
            });
        }
        CollectiveResults {
            algorithm: algorithm_name(spec.algorithm).to_owned(),
            operation: spec.algorithm.operation().to_owned(),
            ranks: spec.ranks.len() as u32,
            gpus_per_node: spec.gpus_per_node,
            iterations: spec.iterations,
            warmup: spec.warmup,
            sizes,
        }
    }
}

/// A flow result with its exact completion time.
struct FlowWithTime {
    completion: Option<Picos>,
    result: FlowResult,
}

fn job_kind_name(kind: &JobKind) -> &'static str {
    match kind {
        JobKind::Flows(_) => "flows",
        JobKind::Permutation(_) => "permutation",
        JobKind::Incast(_) => "incast",
        JobKind::Collective(collective) => collective.algorithm.operation(),
        JobKind::Poisson(_) => "poisson",
        JobKind::Replay(_) => "replay",
    }
}

fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RingAllReduce => "RingAllReduce",
        Algorithm::TreeAllReduce => "TreeAllReduce",
        Algorithm::RingAllGather => "RingAllGather",
        Algorithm::RingReduceScatter => "RingReduceScatter",
        Algorithm::AllToAll { rail_aligned: false } => "AllToAll",
        Algorithm::AllToAll { rail_aligned: true } => "AllToAllRailAligned",
    }
}

fn iteration_time_ns(iteration: &Iteration) -> f64 {
    picos_to_ns(iteration.end.since(iteration.start))
}

fn picos_to_ns(span: Picos) -> f64 {
    span.0 as f64 / 1000.0
}

fn iteration_result(bulk: &BulkJob, done: &Iteration) -> IterationResult {
    IterationResult {
        bytes: bulk.sizes().get(done.size).copied().unwrap_or_default(),
        warmup: done.warmup,
        start_ns: done.start.as_nanos(),
        time_ns: done.end.since(done.start).as_nanos(),
        first_rank_ns: done.first_rank_end.since(done.start).as_nanos(),
        slowest_rank: done.slowest_rank,
    }
}

fn summarise_flows(flows: &[FlowWithTime]) -> FlowSummary {
    let mut throughputs: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
    for FlowWithTime { completion, result } in flows {
        if let Some(completion) = completion {
            let (bits, time) = throughputs.entry((result.src, result.dst)).or_default();
            *bits += result.bytes as f64 * 8.0;
            *time += completion.0 as f64;
        }
    }
    let rates = throughputs
        .values()
        .filter(|(_, time)| *time > 0.0)
        .map(|(bits, time)| bits / time);
    let rates: Vec<f64> = rates.collect();
    let all = size_bin(flows, None, None);
    let edges = || SIZE_BIN_LIMITS.into_iter().map(Some);
    let ranges = std::iter::once(None).chain(edges()).zip(edges().chain([None]));
    FlowSummary {
        count: flows.len() as u64,
        completed: flows.iter().filter(|flow| flow.completion.is_some()).count() as u64,
        completion_ns: all.map(|all| all.completion_ns),
        slowdown: all.and_then(|all| all.slowdown),
        bins: ranges
            .filter_map(|(above, up_to)| size_bin(flows, above, up_to))
            .collect(),
        jain_index: jain_index(&rates),
        max_mean_throughput_ratio: max_mean_ratio(&rates),
    }
}

/// Makes the bin of a range of sizes. Returns `None` if no flow of the bin is complete.
fn size_bin(flows: &[FlowWithTime], above_bytes: Option<u64>, up_to_bytes: Option<u64>) -> Option<SizeBin> {
    let inside = |flow: &&FlowWithTime| {
        let bytes = flow.result.bytes;
        above_bytes.is_none_or(|above| bytes > above) && up_to_bytes.is_none_or(|up_to| bytes <= up_to)
    };
    let inside = || flows.iter().filter(inside);
    Some(SizeBin {
        above_bytes,
        up_to_bytes,
        completion_ns: DistributionSummary::of(
            inside()
                .filter_map(|flow| flow.completion.map(picos_to_ns))
                .collect(),
        )?,
        slowdown: DistributionSummary::of(inside().filter_map(|flow| flow.result.slowdown).collect()),
    })
}
