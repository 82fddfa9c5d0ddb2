//! What came of a workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_units::Picos;

use super::bulk::{Bulk, Iteration};
use super::engine::{Connection, FlowRecord, Job, Runner, Workload};
use super::latency::Latency;
use super::spec::{Algorithm, Collective, JobKind};
use xoff_units::{jain_index, max_mean_ratio};

use super::summary::Summary;

/// Upper ends of the bins of flow sizes, in bytes; a last bin has what is larger.
const BINS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Results of all jobs. Times are the driver's, in nanoseconds rounded down; spans are computed before they are
/// rounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// One entry per job of the specification.
    pub jobs: Vec<JobResults>,
    /// Every message of jobs made of flows (all but collectives), in the order of posting within a job.
    pub flows: Vec<FlowResult>,
}

/// Results of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResults {
    /// Its name.
    pub name: String,
    /// `flows`, `permutation`, `incast`, `poisson`, `replay`, or the operation of a collective (`all_reduce`,
    /// `all_gather`, `reduce_scatter`, `alltoall`).
    pub kind: String,
    /// Whether it came to its end. A job in the background that was stopped did not.
    pub finished: bool,
    /// Its start.
    pub start_ns: u64,
    /// From its start until its last message was received, or its last iteration was over; `None` if it is not
    /// finished.
    pub jct_ns: Option<u64>,
    /// A lower bound of `jct_ns`: what the links of its hosts take for its bytes, and the gaps.
    pub roofline_ns: u64,
    /// `jct_ns` over `roofline_ns`, at least 1 in any network.
    pub jct_ratio: Option<f64>,
    /// Messages posted.
    pub posted_messages: u64,
    /// Payload posted.
    pub posted_bytes: u64,
    /// Messages that were received whole.
    pub received_messages: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// Times of iterations without warm-up in nanoseconds, over all sizes.
    pub iteration_ns: Option<Summary>,
    /// Iterations, warm-up included, of bulk-synchronous jobs.
    pub iterations: Vec<IterationResult>,
    /// Of a collective.
    pub collective: Option<CollectiveResults>,
    /// Of jobs made of flows.
    pub flows: Option<FlowSummary>,
    /// Of a collective: from posting a message until its receiver had it whole, in nanoseconds.
    #[serde(default)]
    pub message_latency_ns: Option<Latency>,
}

/// One iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationResult {
    /// Its size.
    pub bytes: u64,
    /// It is not measured.
    pub warmup: bool,
    /// When its first messages were posted.
    pub start_ns: u64,
    /// From there until all ranks had everything.
    pub time_ns: u64,
    /// From there until the first rank that receives anything had everything.
    pub first_rank_ns: u64,
    /// The last rank to have everything (position in the job's list of hosts).
    pub slowest_rank: u32,
}

/// A collective by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectiveResults {
    /// Operation and algorithm: `RingAllReduce`, `TreeAllReduce`, `RingAllGather`, `RingReduceScatter`,
    /// `AllToAll`, `AllToAllRailAligned`.
    pub algorithm: String,
    /// nccl-tests' name of the operation.
    pub operation: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Ranks of a node.
    pub gpus_per_node: u32,
    /// Measured iterations of each size.
    pub iterations: u32,
    /// Iterations of each size before those.
    pub warmup: u32,
    /// In the order of the specification; without sizes of which no measured iteration is over.
    pub sizes: Vec<SizeResults>,
}

/// A collective of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeResults {
    /// Size, by nccl-tests' meaning.
    pub bytes: u64,
    /// Times of measured iterations, in nanoseconds.
    pub time_ns: Summary,
    /// Each of them, in nanoseconds.
    pub times_ns: Vec<f64>,
    /// What the links take for an iteration's bytes.
    pub roofline_ns: u64,
    /// Average time over `roofline_ns`.
    pub roofline_ratio: Option<f64>,
    /// Size over average time, in 10^9 bytes per second.
    pub algorithm_bandwidth_gbytes_per_s: f64,
    /// Times the operation's factor: comparable with a link's speed, whatever the number of ranks.
    pub bus_bandwidth_gbytes_per_s: f64,
}

/// One message of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Index of its job.
    pub job: u32,
    /// Host that has the data.
    pub src: u32,
    /// Host that gets it.
    pub dst: u32,
    /// Payload.
    pub bytes: u64,
    /// When it was due.
    pub start_ns: u64,
    /// From its start until the receiver had it whole; `None`: it never had.
    pub completion_ns: Option<u64>,
    /// From its start until the sender had the last acknowledgement.
    pub sender_completion_ns: Option<u64>,
    /// The least time to the receiver's last byte, with no other traffic, no window and no congestion control, over all paths and queue
    /// pairs that the message may use. `None` if it is not known.
    pub ideal_ns: Option<u64>,
    /// Completion at the receiver over that, both in picoseconds; at least 1. `None` if either is missing.
    pub slowdown: Option<f64>,
}

/// All flows of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// How many were posted.
    pub count: u64,
    /// How many were received whole.
    pub completed: u64,
    /// Completion times at the receiver, in nanoseconds.
    pub completion_ns: Option<Summary>,
    /// Slowdowns.
    pub slowdown: Option<Summary>,
    /// The same by size; bins without flows are left out.
    pub bins: Vec<SizeBin>,
    /// Jain's index of the throughputs of connections (bytes received over the sum of their completion times).
    pub jain_index: Option<f64>,
    /// Largest of those throughputs over their mean.
    pub max_mean_throughput_ratio: Option<f64>,
}

/// Flows of a range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeBin {
    /// Flows larger than this (`None`: any) ...
    pub above_bytes: Option<u64>,
    /// ... and not larger than this (`None`: any).
    pub up_to_bytes: Option<u64>,
    /// Completion times at the receiver, in nanoseconds, of those that completed.
    pub completion_ns: Summary,
    /// Their slowdowns.
    pub slowdown: Option<Summary>,
}

/// The least time of a message of so many bytes on a connection.
type LeastTime<'a> = &'a dyn Fn(&Connection, u64) -> Option<Picos>;

impl Workload {
    /// The results so far. `least_time(connection, bytes)` is the least time in which a message of so many bytes can be at the receiver;
    /// `None` if that is not known.
    pub fn results(&self, least_time: LeastTime<'_>) -> Results {
        let mut results = Results::default();
        for (index, job) in self.jobs.iter().enumerate() {
            let records = &job.counts.records;
            let flow = |record: &FlowRecord| self.flow_result(index, record, least_time);
            let flows: Vec<Flow> = records.iter().map(flow).collect();
            let mut of_job = self.job_results(job);
            if !matches!(job.spec.kind, JobKind::Collective(_)) {
                of_job.flows = Some(summarise(&flows));
            }
            results.jobs.push(of_job);
            results.flows.extend(flows.into_iter().map(|flow| flow.result));
        }
        results
    }

    fn flow_result(&self, index: usize, record: &FlowRecord, least_time: LeastTime<'_>) -> Flow {
        let connection = &self.connections[record.connection as usize];
        let ideal = least_time(connection, record.bytes);
        let span = |end: Picos| (end != Picos::NEVER).then(|| end.since(record.start));
        let completion = span(record.received);
        let reference = ideal.filter(|ideal| *ideal > Picos::ZERO);
        let slowdown = completion
            .zip(reference)
            .map(|(span, ideal)| span.0 as f64 / ideal.0 as f64);
        Flow {
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
            kind: kind(&job.spec.kind).to_owned(),
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
        if let Runner::Bulk(bulk) = &job.runner {
            end = bulk.done.last().map_or(end, |iteration| iteration.end);
            results.iterations = bulk
                .done
                .iter()
                .map(|done| iteration_result(bulk, done))
                .collect();
            let measured = bulk.done.iter().filter(|done| !done.warmup);
            results.iteration_ns = Summary::of(measured.map(time_ns).collect());
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

    /// Of a whole job: all its iterations and gaps, or its list of flows.
    fn job_roofline(&self, job: &Job) -> Picos {
        let framing = job.spec.framing;
        let bulk = match &job.runner {
            Runner::List(list) => return self.list_roofline(list, framing),
            Runner::Bulk(bulk) => bulk,
        };
        let (gap, before_first) = bulk.gap();
        let rounds = bulk.rounds();
        let gaps = rounds * bulk.sizes().len() as u64 - u64::from(!before_first);
        let sizes = bulk
            .sizes()
            .iter()
            .map(|bytes| self.iteration_roofline(bulk, *bytes, framing));
        let sending = sizes.fold(Picos::ZERO, |sum, span| sum.saturating_add(span));
        let times = |span: Picos, count: u64| Picos(span.0.saturating_mul(count));
        times(sending, rounds).saturating_add(times(gap, gaps))
    }

    fn collective_results(&self, job: &Job, bulk: &Bulk, spec: &Collective) -> CollectiveResults {
        let mut sizes = Vec::new();
        for (size, &bytes) in spec.bytes.iter().enumerate() {
            let measured = bulk.done.iter().filter(|done| done.size == size && !done.warmup);
            let times_ns: Vec<f64> = measured.map(time_ns).collect();
            let Some(summary) = Summary::of(times_ns.clone()) else {
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
            algorithm: algorithm(spec.algorithm).to_owned(),
            operation: spec.algorithm.operation().to_owned(),
            ranks: spec.ranks.len() as u32,
            gpus_per_node: spec.gpus_per_node,
            iterations: spec.iterations,
            warmup: spec.warmup,
            sizes,
        }
    }
}

/// A flow with what is lost in its rounded numbers.
struct Flow {
    completion: Option<Picos>,
    result: FlowResult,
}

fn kind(kind: &JobKind) -> &'static str {
    match kind {
        JobKind::Flows(_) => "flows",
        JobKind::Permutation(_) => "permutation",
        JobKind::Incast(_) => "incast",
        JobKind::Collective(collective) => collective.algorithm.operation(),
        JobKind::Poisson(_) => "poisson",
        JobKind::Replay(_) => "replay",
    }
}

fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RingAllReduce => "RingAllReduce",
        Algorithm::TreeAllReduce => "TreeAllReduce",
        Algorithm::RingAllGather => "RingAllGather",
        Algorithm::RingReduceScatter => "RingReduceScatter",
        Algorithm::AllToAll { rail_aligned: false } => "AllToAll",
        Algorithm::AllToAll { rail_aligned: true } => "AllToAllRailAligned",
    }
}

fn time_ns(iteration: &Iteration) -> f64 {
    nanos(iteration.end.since(iteration.start))
}

fn nanos(span: Picos) -> f64 {
    span.0 as f64 / 1000.0
}

fn iteration_result(bulk: &Bulk, done: &Iteration) -> IterationResult {
    IterationResult {
        bytes: bulk.sizes().get(done.size).copied().unwrap_or_default(),
        warmup: done.warmup,
        start_ns: done.start.as_nanos(),
        time_ns: done.end.since(done.start).as_nanos(),
        first_rank_ns: done.first_end.since(done.start).as_nanos(),
        slowest_rank: done.slowest,
    }
}

fn summarise(flows: &[Flow]) -> FlowSummary {
    let mut throughputs: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
    for Flow { completion, result } in flows {
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
    let all = bin(flows, None, None);
    let edges = || BINS.into_iter().map(Some);
    let ranges = std::iter::once(None).chain(edges()).zip(edges().chain([None]));
    FlowSummary {
        count: flows.len() as u64,
        completed: flows.iter().filter(|flow| flow.completion.is_some()).count() as u64,
        completion_ns: all.map(|all| all.completion_ns),
        slowdown: all.and_then(|all| all.slowdown),
        bins: ranges
            .filter_map(|(above, up_to)| bin(flows, above, up_to))
            .collect(),
        jain_index: jain_index(&rates),
        max_mean_throughput_ratio: max_mean_ratio(&rates),
    }
}

/// Completed flows of a range of sizes; `None` if there are none.
fn bin(flows: &[Flow], above_bytes: Option<u64>, up_to_bytes: Option<u64>) -> Option<SizeBin> {
    let inside = |flow: &&Flow| {
        let bytes = flow.result.bytes;
        above_bytes.is_none_or(|above| bytes > above) && up_to_bytes.is_none_or(|up_to| bytes <= up_to)
    };
    let inside = || flows.iter().filter(inside);
    Some(SizeBin {
        above_bytes,
        up_to_bytes,
        completion_ns: Summary::of(inside().filter_map(|flow| flow.completion.map(nanos)).collect())?,
        slowdown: Summary::of(inside().filter_map(|flow| flow.result.slowdown).collect()),
    })
}
