//! The specification of a workload. A host is an index in the host list of the driver. A time is relative to
//! the start of the workload or of the job.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xoff_units::Picos;

use super::distribution::SizeDistribution;

/// Largest number of messages with a flow record in a job: messages of flows, of permutations, of incasts and
/// of random arrivals ([`Poisson`]). Each record stays in memory until the end of the run.
pub const FLOWS_MAX: usize = 1 << 24;
/// Largest number of ranks of a collective. For jobs that are not collectives, this is the largest number of
/// hosts in a list.
pub const RANKS_MAX: usize = 1 << 16;
/// Largest number of connections of a collective. Pairs of GPUs in the same node count as well.
pub(super) const EDGES_MAX: u64 = 1 << 24;
/// Largest number of slices into which a collective may divide its largest size.
pub(super) const SLICES_MAX: u64 = 1 << 20;

/// The specification of all jobs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// The jobs. They run at the same time, and each job has its own start time.
    pub jobs: Vec<JobSpec>,
}

/// The specification of one job: its traffic, its start time and its transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job in reports and error messages.
    pub name: String,
    /// Start time of the job, counted from [`Workload::start`](super::Workload::start). The start time of a
    /// held job counts from [`Workload::start_job`](super::Workload::start_job).
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// The kind and the traffic of the job.
    pub kind: JobKind,
    /// Index in a list of the driver that holds the transport options: traffic
    /// class, DSCP and congestion control. The workload only copies the index
    /// to [`Connection::transport`](super::Connection::transport).
    pub transport: usize,
    /// Number of queue pairs of each connection, at least 1 (`NCCL_IB_QPS_PER_CONNECTION` of NCCL).
    pub qps_per_connection: u16,
    /// How the queue pairs of a connection share the messages.
    pub spread: MessageSpread,
    /// The RDMA operation of the messages.
    pub verb: Verb,
    /// Whether the job is background traffic. A background job posts no more messages after all other jobs
    /// have ended. If a run has only background jobs, all of them run to their end.
    pub background: bool,
    /// Payload and length of a full frame. The workload uses the ratio to compute rooflines, which are lower
    /// bounds of completion times.
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

/// Payload and length of a full frame. The payload divided by the length is the efficiency of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Framing {
    /// Payload of a full frame in bytes (the path MTU), at least 1.
    pub payload_bytes: u32,
    /// Length of a full frame on the link in bytes, at least 1. The length includes headers, FCS, preamble
    /// and interframe gap.
    pub wire_bytes: u32,
}

impl Framing {
    /// Framing without overhead: the ratio is 1, so rooflines use the whole line rate.
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
    /// RDMA WRITE. The driver adds immediate data if the receiver must get a completion.
    #[default]
    Write,
    /// RDMA READ. The data also moves from [`Connection::src`](super::Connection::src) to `dst`, but `dst`
    /// requests the data. The driver reports a READ message as received and as acknowledged at the same time.
    Read,
}

/// How the queue pairs of a connection share the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageSpread {
    /// Each message uses one queue pair. The queue pairs are used in turn.
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
    /// Flows from a file. The workload sends them like [`JobKind::Flows`]. Reports show the kind `replay`.
    Replay(Vec<FlowSpec>),
}

/// A flow: one message, or several messages between the same two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Index of the sending host in the host list of the driver.
    pub src: u32,
    /// Index of the receiving host in the host list of the driver. This index must differ from `src`.
    pub dst: u32,
    /// Payload of each message in bytes. A message of 0 bytes is one packet without payload.
    pub bytes: u64,
    /// Time at which the first message is posted, counted from the start of the job.
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// Whether more messages follow the first message, and when.
    pub repeat: Repeat,
}

impl FlowSpec {
    /// Makes a flow of one message with `bytes` bytes of payload. `start` counts from the start of the job.
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

/// Number and times of the messages of a flow. The results list each message as a flow.
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
    /// Closed loop: each message is posted after the previous message is received and acknowledged.
    AfterCompletion {
        /// Time from the completion of a message (received and acknowledged) to the next message.
        #[serde(with = "xoff_units::serde_picos")]
        gap: Picos,
        /// Number of messages, at least 1.
        count: u32,
    },
}

/// In each iteration, every host sends one message and receives one message. No host sends to itself. The
/// seed selects the receivers once for all iterations. An iteration ends when all hosts have received
/// their message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permutation {
    /// Indices of the hosts: 2 to [`RANKS_MAX`] different hosts.
    pub hosts: Vec<u32>,
    /// Payload that each host sends in an iteration, in bytes.
    pub bytes: u64,
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Time from the end of an iteration to the start of the next one.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// In each iteration, all senders send one message to the receiver at the same time. An iteration ends when
/// the receiver has received all messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incast {
    /// Indices of the senders: 1 to [`RANKS_MAX`] different hosts. The receiver must not be in the list.
    pub senders: Vec<u32>,
    /// Index of the receiving host in the host list of the driver.
    pub receiver: u32,
    /// Payload that each sender sends in an iteration, in bytes.
    pub bytes: u64,
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Time from the end of an iteration to the start of the next one.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// A collective operation that runs with one size after another, as in nccl-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// The operation and its algorithm.
    pub algorithm: Algorithm,
    /// The host of each rank, indexed by rank. A rank is one GPU with its own NIC. There are 2 to
    /// [`RANKS_MAX`] ranks, and each rank has a different host. Rank `r` is GPU `r % gpus_per_node` of node
    /// `r / gpus_per_node`.
    pub ranks: Vec<u32>,
    /// Number of GPUs per node, at least 1. The number of ranks must be a multiple of this number, and the
    /// ranks must fill at least two nodes. GPUs of the same node exchange data over NVLink and not over
    /// the network.
    pub gpus_per_node: u32,
    /// Sizes in bytes with the meaning of nccl-tests; at least one size. A size is the length of the whole
    /// array, also for AllGather and ReduceScatter. For AllToAll, the size is the data that one rank sends,
    /// including the part for itself. An iteration with size 0 sends nothing.
    pub bytes: Vec<u64>,
    /// Iterations of each size, at least 1.
    pub iterations: u32,
    /// Warm-up iterations of each size. They run before the measured iterations.
    pub warmup: u32,
    /// Time of computation before each iteration. The job sends no data in this time.
    #[serde(with = "xoff_units::serde_picos")]
    pub compute_gap: Picos,
    /// Largest slice of a ring or tree step in bytes, at least 1. A rank forwards a slice as soon as the
    /// slice has arrived (pipelining). If the value is `None`, a rank forwards whole chunks. NCCL divides a
    /// buffer of 4 MiB into 8 steps, which are slices of 512 KiB. AllToAll ignores the value.
    pub slice_bytes: Option<u64>,
    /// NVLink rate of a GPU in bits per second, at least 1. If the value is `None`, transfers inside a node
    /// take no time.
    pub nvlink_bps: Option<u64>,
}

impl Collective {
    /// Makes a collective with one size in bytes, one iteration, one GPU per node and whole chunks. It has no
    /// warm-up and no compute gap.
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
    /// AllReduce over two binary trees (the double binary tree of NCCL 2.4; Sanders, Speck, Träff 2009). Each
    /// tree carries half of the data.
    TreeAllReduce,
    /// AllGather over a ring, `n-1` steps.
    RingAllGather,
    /// ReduceScatter over a ring, `n-1` steps.
    RingReduceScatter,
    /// Every rank sends a different part to every other rank. A rank posts all parts at the same time. Rank
    /// `r` begins with the part for rank `r + 1`, so the ranks begin with different receivers.
    AllToAll {
        /// Whether data first moves inside the node to the GPU with the same position as the destination GPU
        /// (PXN of NCCL). This GPU combines the parts of all GPUs of its node into one message. Network
        /// traffic then stays within a rail, which is the set of all GPUs with the same position.
        rail_aligned: bool,
    },
}

impl Algorithm {
    /// Returns the name of the operation in nccl-tests: `all_reduce`, `all_gather`,
    /// `reduce_scatter`, `alltoall`.
    pub fn operation(self) -> &'static str {
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => "all_reduce",
            Algorithm::RingAllGather => "all_gather",
            Algorithm::RingReduceScatter => "reduce_scatter",
            Algorithm::AllToAll { .. } => "alltoall",
        }
    }

    /// Returns the bus bandwidth divided by the algorithm bandwidth for `n` ranks (nccl-tests,
    /// `doc/PERFORMANCE.md`). The result is `2(n-1)/n` for AllReduce and `(n-1)/n` for any operation except
    /// AllReduce. It is 0 if `n` is 0.
    pub fn bus_factor(self, n: u32) -> f64 {
        let share = f64::from(n.saturating_sub(1)) / f64::from(n.max(1));
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => 2.0 * share,
            _ => share,
        }
    }
}

/// Flows with random start times. The start times at each source are a Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poisson {
    /// Sources and destinations of the flows.
    pub endpoints: Endpoints,
    /// Distribution of the payload of a flow in bytes.
    pub sizes: SizeDistribution,
    /// Offered load: the mean payload rate of a source divided by its line rate, above 0. The value 1 is
    /// 100 %, and larger values are allowed. Headers are not included, as in the traffic generator of HPCC.
    pub load: f64,
    /// Latest start of a flow, counted from the start of the job. `None` means no limit. At least one of
    /// `until` and `flows_max` must be set.
    #[serde(with = "xoff_units::serde_picos::option")]
    pub until: Option<Picos>,
    /// Largest number of flows. `None` means no limit other than [`FLOWS_MAX`]. At least one of `until` and
    /// `flows_max` must be set.
    pub flows_max: Option<u32>,
    /// Number that the random generator of the job combines with the seed of the run.
    pub seed: u64,
}

/// Sources and destinations of random flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoints {
    /// Pairs of source and destination, at least one. If a source has several pairs, each of its flows uses a
    /// random pair.
    Pairs(Vec<(u32, u32)>),
    /// For each flow, a source selects a random destination other than itself.
    Sets {
        /// Sources: 1 to [`RANKS_MAX`] hosts, all different.
        sources: Vec<u32>,
        /// Destinations: 1 to [`RANKS_MAX`] hosts, all different. Each source needs at least one destination
        /// other than itself.
        destinations: Vec<u32>,
    },
}

/// The reason why a workload is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job `{job}`: {problem}")]
pub struct SpecError {
    /// Name of the invalid job.
    pub job: String,
    /// The first problem of this job.
    pub problem: SpecProblem,
}

/// A problem of a job specification, such as an unknown host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecProblem {
    /// The host with this index does not exist or has no link.
    #[error("there is no host {0}, or it has no link")]
    UnknownHost(u32),
    /// The host with this index is twice in a list.
    #[error("host {0} is listed twice")]
    DuplicateHost(u32),
    /// The host with this index would send to itself.
    #[error("host {0} sends to itself")]
    SelfFlow(u32),
    /// The number of hosts or ranks is below `min` or above [`RANKS_MAX`].
    #[error("{got} ranks or hosts; expected {min} to {RANKS_MAX}")]
    RankCount {
        /// Number of hosts or ranks given.
        got: usize,
        /// Smallest valid number.
        min: usize,
    },
    /// The number of ranks is not a multiple of the number of GPUs per node, or all ranks are in one node.
    #[error("{ranks} ranks at {gpus_per_node} per node are not two or more full nodes")]
    Nodes {
        /// Number of ranks given.
        ranks: usize,
        /// GPUs per node given.
        gpus_per_node: u32,
    },
    /// The number with this name is 0. It must be positive.
    #[error("`{0}` must be positive")]
    Zero(&'static str),
    /// The named list is empty.
    #[error("the list `{0}` is empty")]
    Empty(&'static str),
    /// The offered load is not a positive finite number.
    #[error("the load is not a positive number")]
    Load,
    /// A job of random arrivals has neither `until` nor `flows_max`, so it has no end.
    #[error("neither `until` nor `flows_max` ends the arrivals")]
    Endless,
    /// The ranks need this number of connections, which is too large.
    #[error("{0} connections between its ranks are more than {EDGES_MAX}")]
    TooManyConnections(u64),
    /// Slices of this size in bytes divide the largest size into too many slices.
    #[error("slices with a size of {0} divide the largest size into more than {SLICES_MAX}")]
    TooManySlices(u64),
    /// The job has more than [`FLOWS_MAX`] flows or messages.
    #[error("more than {FLOWS_MAX} flows")]
    TooManyFlows,
}
