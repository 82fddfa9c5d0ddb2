//! The specification of a workload. Hosts are indices.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xoff_units::Picos;

use super::distribution::SizeDistribution;

/// Largest number of flows of a job, including the arrivals of a [`Poisson`] job. The workload keeps a record
/// of each flow.
pub const FLOWS_MAX: usize = 1 << 24;
/// Largest number of ranks or hosts of a job.
pub const RANKS_MAX: usize = 1 << 16;
/// Largest number of connections of a job, including edges inside nodes.
pub(super) const EDGES_MAX: u64 = 1 << 24;
/// Largest number of slices of the largest size of a collective.
pub(super) const SLICES_MAX: u64 = 1 << 20;

/// The specification of all jobs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// The jobs. They run at the same time.
    pub jobs: Vec<JobSpec>,
}

/// The specification of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job in reports.
    pub name: String,
    /// Start time, counted from [`super::Workload::start`].
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// The kind and the traffic of the job.
    pub kind: JobKind,
    /// Index of the transport options in the driver (traffic class, DSCP, congestion control). The workload
    /// does not use the index itself.
    pub transport: usize,
    /// Queue pairs of each connection, at least 1 (`NCCL_IB_QPS_PER_CONNECTION`).
    pub qps_per_connection: u16,
    /// How the queue pairs of a connection share its messages.
    pub spread: MessageSpread,
    /// The RDMA operation of the messages.
    pub verb: Verb,
    /// Whether the job is background traffic. A background job posts no more messages when all other jobs
    /// have ended. If a run has only background jobs, all of them run to their end.
    pub background: bool,
    /// Payload and length of a full frame. Rooflines depend on it.
    pub framing: Framing,
}

impl JobSpec {
    /// Creates a job that starts immediately, with transport 0, one queue pair per connection, RDMA WRITE
    /// messages and no framing.
    pub fn new(name: impl Into<String>, kind: JobKind) -> JobSpec {
        JobSpec {
            name: name.into(),
            start: Picos::ZERO,
            kind,
            transport: 0,
            qps_per_connection: 1,
            spread: MessageSpread::RoundRobin,
            verb: Verb::Write,
            background: false,
            framing: Framing::NONE,
        }
    }
}

/// Payload and length of a full frame. Their ratio is the efficiency of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Framing {
    /// Payload of a full frame in bytes (the path MTU), at least 1.
    pub payload_bytes: u32,
    /// Length of a full frame on the link in bytes, including headers, FCS, preamble and gap.
    pub wire_bytes: u32,
}

impl Framing {
    /// Frames without overhead. Rooflines then use the line rate.
    pub const NONE: Framing = Framing {
        payload_bytes: 1,
        wire_bytes: 1,
    };
}

/// The RDMA operation that carries a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// RDMA SEND. The receiver needs a posted receive.
    Send,
    /// RDMA WRITE. It carries immediate data if the receiver must get a completion.
    #[default]
    Write,
    /// RDMA READ. The data also moves from [`super::Connection::src`] to `dst`, but `dst` requests it. The
    /// driver reports the message as received and acknowledged at the same time.
    Read,
}

/// How the queue pairs of a connection share its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageSpread {
    /// Each message uses one queue pair. The queue pairs take turns.
    #[default]
    RoundRobin,
    /// Each message is divided evenly over all queue pairs (`NCCL_IB_SPLIT_DATA_ON_QPS=1`).
    Split,
}

/// The kind and the traffic of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobKind {
    /// Independent flows.
    Flows(Vec<FlowSpec>),
    /// Every host sends to one other host and receives from one other host.
    Permutation(Permutation),
    /// Many hosts send to one host.
    Incast(Incast),
    /// A collective operation.
    Collective(Collective),
    /// Flows with random start times.
    Poisson(Poisson),
    /// Flows of a file. They are sent like [`JobKind::Flows`], and reports show another kind.
    Replay(Vec<FlowSpec>),
}

/// A flow: one message, or several messages between the same two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Index of the sending host.
    pub src: u32,
    /// Index of the receiving host, different from `src`.
    pub dst: u32,
    /// Payload of a message in bytes. A message of 0 bytes is one packet without payload.
    pub bytes: u64,
    /// Time at which the first message is posted, counted from the start of the job.
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// Whether more messages follow.
    pub repeat: Repeat,
}

impl FlowSpec {
    /// Makes a flow of one message.
    pub fn once(src: u32, dst: u32, bytes: u64, start: Picos) -> FlowSpec {
        FlowSpec {
            src,
            dst,
            bytes,
            start,
            repeat: Repeat::Once,
        }
    }
}

/// Whether further messages follow the first message. Each message counts as a flow in the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Repeat {
    /// The flow has one message.
    #[default]
    Once,
    /// Open loop: messages are posted at a constant interval. Earlier messages may still be in flight.
    Every {
        /// Time between the starts of two messages, at least 1 ps.
        #[serde(with = "xoff_units::serde_picos")]
        interval: Picos,
        /// Number of messages, at least 1.
        count: u32,
    },
    /// Closed loop: a message is posted after the previous one is received and acknowledged.
    AfterCompletion {
        /// Time from the acknowledgement to the next message.
        #[serde(with = "xoff_units::serde_picos")]
        gap: Picos,
        /// Number of messages, at least 1.
        count: u32,
    },
}

/// Every host sends a message to one other host, which the seed selects. An iteration ends when all hosts
/// have received their message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permutation {
    /// At least two hosts, all different.
    pub hosts: Vec<u32>,
    /// Payload that each host sends, in bytes.
    pub bytes: u64,
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Time from the end of an iteration to the start of the next one.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// All senders send to one receiver at the same time. An iteration ends when the receiver has
/// received all messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incast {
    /// At least one sender, all different, none of them the receiver.
    pub senders: Vec<u32>,
    /// Index of the receiving host.
    pub receiver: u32,
    /// Payload that each sender sends, in bytes.
    pub bytes: u64,
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Time from the end of an iteration to the start of the next one.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// A collective operation, run with several sizes as in nccl-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// The operation and its algorithm.
    pub algorithm: Algorithm,
    /// Host of each rank. Each GPU has one NIC. At least two hosts, all different. Rank `r` is GPU `r %
    /// gpus_per_node` of node `r / gpus_per_node`.
    pub ranks: Vec<u32>,
    /// Number of GPUs per node. It must be at least 1 and divide the number of ranks. A job needs at least
    /// two nodes. Data between the GPUs of a node moves over NVLink and not over the network.
    pub gpus_per_node: u32,
    /// Sizes in bytes, as defined by nccl-tests. The size is the whole array, also for AllGather and
    /// ReduceScatter. For AllToAll it is the data that one rank sends, including the part for itself. A size
    /// of 0 sends nothing. At least one size is needed.
    pub bytes: Vec<u64>,
    /// Iterations of each size, at least 1.
    pub iterations: u32,
    /// Warm-up iterations of each size. They run first and are not measured.
    pub warmup: u32,
    /// Time of computation before each iteration. No data is sent in this time.
    #[serde(with = "xoff_units::serde_picos")]
    pub compute_gap: Picos,
    /// Largest slice of a ring or tree step in bytes, at least 1. A rank forwards a slice as soon as the
    /// slice has arrived (pipelining). With `None`, a rank forwards whole chunks. NCCL uses 512 KiB (buffers
    /// of 4 MiB, 8 steps).
    pub slice_bytes: Option<u64>,
    /// NVLink rate of a GPU in bits per second. `None` means that transfers inside a node take no time.
    pub nvlink_bps: Option<u64>,
}

impl Collective {
    /// Makes a collective with one size, one iteration, one GPU per node and whole chunks.
    pub fn new(algorithm: Algorithm, ranks: Vec<u32>, bytes: u64) -> Collective {
        Collective {
            algorithm,
            ranks,
            gpus_per_node: 1,
            bytes: vec![bytes],
            iterations: 1,
            warmup: 0,
            compute_gap: Picos::ZERO,
            slice_bytes: None,
            nvlink_bps: None,
        }
    }
}

/// A collective operation and its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// AllReduce over a ring: ReduceScatter followed by AllGather, `2(n-1)` steps.
    RingAllReduce,
    /// AllReduce over a double binary tree. Each tree carries half of the data (Sanders, Speck, Träff 2009;
    /// NCCL 2.4).
    TreeAllReduce,
    /// AllGather over a ring, `n-1` steps.
    RingAllGather,
    /// ReduceScatter over a ring, `n-1` steps.
    RingReduceScatter,
    /// Every rank sends a different part to every other rank. All parts are posted at the same time, in the
    /// order of ranks, beginning with the next rank.
    AllToAll {
        /// Whether data first moves inside the node to the GPU of the destination's rail (PXN of NCCL). This
        /// GPU combines all messages to one GPU of another node into one message. The network then carries
        /// traffic only within rails.
        rail_aligned: bool,
    },
}

impl Algorithm {
    /// Name of the operation in nccl-tests: `all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`.
    pub fn operation(self) -> &'static str {
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => "all_reduce",
            Algorithm::RingAllGather => "all_gather",
            Algorithm::RingReduceScatter => "reduce_scatter",
            Algorithm::AllToAll { .. } => "alltoall",
        }
    }

    /// Bus bandwidth divided by algorithm bandwidth for `n` ranks (nccl-tests, `doc/PERFORMANCE.md`):
    /// `2(n-1)/n` for AllReduce, `(n-1)/n` for the other operations.
    pub fn bus_factor(self, n: u32) -> f64 {
        let share = f64::from(n.saturating_sub(1)) / f64::from(n.max(1));
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => 2.0 * share,
            _ => share,
        }
    }
}

/// Flows that start at random: a Poisson process at each source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poisson {
    /// Sources and destinations.
    pub endpoints: Endpoints,
    /// Distribution of the flow sizes.
    pub sizes: SizeDistribution,
    /// Offered load, above 0: the payload rate of a source divided by its line rate. The value 1 is 100 %.
    /// Headers do not count, as in the generator of HPCC.
    pub load: f64,
    /// Latest start of a flow, counted from the start of the job. One of `until` and `flows_max` must be set.
    #[serde(with = "xoff_units::serde_picos::option")]
    pub until: Option<Picos>,
    /// Largest number of flows. One of `until` and `flows_max` must be set.
    pub flows_max: Option<u32>,
    /// Number that is combined with the seed of the run.
    pub seed: u64,
}

/// Sources and destinations of random flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoints {
    /// Pairs of source and destination. If a source has several pairs, it selects a random pair
    /// for each flow.
    Pairs(Vec<(u32, u32)>),
    /// Each source selects one of the other destinations at random for each flow.
    Sets {
        /// Sources, all different.
        sources: Vec<u32>,
        /// Destinations, all different. Each source needs at least one destination other than itself.
        destinations: Vec<u32>,
    },
}

/// The error of an invalid workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job `{job}`: {problem}")]
pub struct SpecError {
    /// Name of the job.
    pub job: String,
    /// The problem of the job.
    pub problem: SpecProblem,
}

/// A problem of a job specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecProblem {
    /// The host does not exist or has no link.
    #[error("there is no host {0}, or it has no link")]
    UnknownHost(u32),
    /// A host is listed twice.
    #[error("host {0} is listed twice")]
    DuplicateHost(u32),
    /// A flow leads from a host to itself.
    #[error("host {0} sends to itself")]
    SelfFlow(u32),
    /// The number of hosts or ranks is outside its range.
    #[error("{got} ranks or hosts; expected {min} to {RANKS_MAX}")]
    RankCount {
        /// Number of hosts or ranks given.
        got: usize,
        /// Smallest valid number.
        min: usize,
    },
    /// The ranks do not fill all nodes, or they fill only one node.
    #[error("{ranks} ranks at {gpus_per_node} per node are not two or more full nodes")]
    Nodes {
        /// Number of ranks given.
        ranks: usize,
        /// GPUs per node given.
        gpus_per_node: u32,
    },
    /// The named number must be positive.
    #[error("`{0}` must be positive")]
    Zero(&'static str),
    /// The named list is empty.
    #[error("the list `{0}` is empty")]
    Empty(&'static str),
    /// The offered load is not a positive number.
    #[error("the load is not a positive number")]
    Load,
    /// Random arrivals need an end.
    #[error("neither `until` nor `flows_max` ends the arrivals")]
    Endless,
    /// The ranks need too many connections.
    #[error("{0} connections between its ranks are more than {EDGES_MAX}")]
    TooManyConnections(u64),
    /// The slice size gives too many slices.
    #[error("slices of {0} bytes divide the largest size into more than {SLICES_MAX}")]
    TooManySlices(u64),
    /// The job has too many flows.
    #[error("more than {FLOWS_MAX} flows")]
    TooManyFlows,
}
