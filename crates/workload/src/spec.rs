//! What a workload is told to be: plain data, with hosts as indices.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xoff_units::Picos;

use super::distribution::SizeDistribution;

/// Most flows of one job, arrivals of a [`Poisson`] job included: a record of each is kept.
pub const FLOWS_MAX: usize = 1 << 24;
/// Most ranks or hosts of one job.
pub const RANKS_MAX: usize = 1 << 16;
/// Most connections of one job, those inside nodes included.
pub(super) const EDGES_MAX: u64 = 1 << 24;
/// Most slices of the largest size of a collective.
pub(super) const SLICES_MAX: u64 = 1 << 20;

/// All jobs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// They run beside each other.
    pub jobs: Vec<JobSpec>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name, for reports.
    pub name: String,
    /// It starts this long after [`super::Workload::start`].
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// What it sends.
    pub kind: JobKind,
    /// An index into the driver's transport options (class, DSCP, congestion control); handed through.
    pub transport: usize,
    /// Queue pairs of each connection, at least 1 (NCCL's `NCCL_IB_QPS_PER_CONNECTION`).
    pub qps_per_connection: u16,
    /// How the queue pairs of a connection share its messages.
    pub spread: Spread,
    /// How messages are carried.
    pub verb: Verb,
    /// Traffic beside the real jobs: it posts no more once all other jobs are over. A run of background jobs only runs
    /// them to their end.
    pub background: bool,
    /// What a full frame costs on the wire; rooflines count with it.
    pub framing: Framing,
}

impl JobSpec {
    /// At the start, with transport 0, one queue pair per connection, WRITE, no framing.
    pub fn new(name: impl Into<String>, kind: JobKind) -> JobSpec {
        JobSpec {
            name: name.into(),
            start: Picos::ZERO,
            kind,
            transport: 0,
            qps_per_connection: 1,
            spread: Spread::RoundRobin,
            verb: Verb::Write,
            background: false,
            framing: Framing::NONE,
        }
    }
}

/// Payload of a full frame and its length on the wire. The link efficiency is their ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Framing {
    /// Bytes of payload (the path MTU), at least 1.
    pub payload_bytes: u32,
    /// Bytes on the wire: headers, FCS, preamble and gap included.
    pub wire_bytes: u32,
}

impl Framing {
    /// Payload costs nothing beside itself: rooflines are those of the bare line rate.
    pub const NONE: Framing = Framing {
        payload_bytes: 1,
        wire_bytes: 1,
    };
}

/// How messages are carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// RDMA SEND, which takes a posted receive.
    Send,
    /// RDMA WRITE (with immediate, where the receiver must learn of it).
    #[default]
    Write,
    /// RDMA READ: the data still goes from [`super::Connection::src`] to `dst`, but `dst` asks for it. The driver
    /// reports it received and acknowledged at the same moment.
    Read,
}

/// How the queue pairs of a connection share its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// Each message goes over one queue pair, in turn.
    #[default]
    RoundRobin,
    /// Each message is divided evenly over all queue pairs (NCCL's `NCCL_IB_SPLIT_DATA_ON_QPS=1`).
    Split,
}

/// What a job sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobKind {
    /// Flows, each by itself.
    Flows(Vec<FlowSpec>),
    /// Every host sends to one other, and is sent to by one other.
    Permutation(Permutation),
    /// All send to one.
    Incast(Incast),
    /// A collective operation.
    Collective(Collective),
    /// Flows that arrive at random.
    Poisson(Poisson),
    /// Flows out of a file. The same as [`JobKind::Flows`]; reports call it by another name.
    Replay(Vec<FlowSpec>),
}

/// A flow: a message, or a row of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Host that has the data.
    pub src: u32,
    /// Host that gets it; not `src`.
    pub dst: u32,
    /// Payload of a message in bytes; 0 is a message of one empty packet.
    pub bytes: u64,
    /// When it is posted, after the start of the job.
    #[serde(with = "xoff_units::serde_picos")]
    pub start: Picos,
    /// Whether more follow.
    pub repeat: Repeat,
}

impl FlowSpec {
    /// One message.
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

/// Whether further messages of a flow follow its first. Each counts as a flow of its own in results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Repeat {
    /// There is one message.
    #[default]
    Once,
    /// Open loop: messages are posted at this interval, whatever became of those before.
    Every {
        /// Between the starts of two messages, at least 1 ps.
        #[serde(with = "xoff_units::serde_picos")]
        interval: Picos,
        /// Messages in all, at least 1.
        count: u32,
    },
    /// Closed loop: the next one is posted when the one before is received and acknowledged.
    AfterCompletion {
        /// From the acknowledgement to the next message.
        #[serde(with = "xoff_units::serde_picos")]
        gap: Picos,
        /// Messages in all, at least 1.
        count: u32,
    },
}

/// Every host sends to one other: a derangement drawn once from the seed. An iteration is over when all have received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permutation {
    /// At least two, all different.
    pub hosts: Vec<u32>,
    /// Payload that each sends, in bytes.
    pub bytes: u64,
    /// At least 1.
    pub iterations: u32,
    /// From the end of an iteration to the start of the next.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// All send to one at once. An iteration is over when it has received everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incast {
    /// At least one, all different, none of them the receiver.
    pub senders: Vec<u32>,
    /// Who gets it.
    pub receiver: u32,
    /// Payload that each sends, in bytes.
    pub bytes: u64,
    /// At least 1.
    pub iterations: u32,
    /// From the end of an iteration to the start of the next.
    #[serde(with = "xoff_units::serde_picos")]
    pub gap: Picos,
}

/// A collective operation over ranks, swept over sizes as nccl-tests does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// Which one, and how.
    pub algorithm: Algorithm,
    /// Host of each rank: one NIC per GPU. At least two, all different; rank `r` is GPU `r % gpus_per_node` of node
    /// `r / gpus_per_node`.
    pub ranks: Vec<u32>,
    /// GPUs that share a node, at least 1, and a divisor of the number of ranks; at least two nodes. Between them data
    /// moves by NVLink, not over the network.
    pub gpus_per_node: u32,
    /// Sizes in bytes, by nccl-tests' meaning: the whole array (AllGather and ReduceScatter too); for AllToAll, all
    /// that one rank sends, itself included. A size of 0 sends nothing. At least one.
    pub bytes: Vec<u64>,
    /// Iterations of each size, at least 1.
    pub iterations: u32,
    /// Iterations of each size before those, run but not measured.
    pub warmup: u32,
    /// Computation before each iteration, in which nothing is sent.
    #[serde(with = "xoff_units::serde_picos")]
    pub compute_gap: Picos,
    /// Ring and tree steps are divided into slices of at most this many bytes, each of them forwarded as soon as it is
    /// there (pipelining); at least 1. `None` forwards whole chunks. NCCL's own is 512 KiB (4 MiB buffers, 8 steps).
    pub slice_bytes: Option<u64>,
    /// What a GPU sends to others of its node, bits per second; `None` takes no time.
    pub nvlink_bps: Option<u64>,
}

impl Collective {
    /// One size, one iteration, one GPU per node, whole chunks.
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
    /// AllReduce as ReduceScatter and AllGather around a ring: `2(n-1)` steps.
    RingAllReduce,
    /// AllReduce up and down two binary trees, each of which carries half (Sanders, Speck, Träff 2009; NCCL 2.4).
    TreeAllReduce,
    /// AllGather around a ring: `n-1` steps.
    RingAllGather,
    /// ReduceScatter around a ring: `n-1` steps.
    RingReduceScatter,
    /// Every rank sends another part to every rank, all at once, beginning with the next rank.
    AllToAll {
        /// Data moves inside the node to the GPU of the destination's rail first, where messages to one node's GPU are
        /// put together (NCCL's PXN): the network carries traffic within rails only.
        rail_aligned: bool,
    },
}

impl Algorithm {
    /// Name of the operation in nccl-tests' programs: `all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`.
    pub fn operation(self) -> &'static str {
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => "all_reduce",
            Algorithm::RingAllGather => "all_gather",
            Algorithm::RingReduceScatter => "reduce_scatter",
            Algorithm::AllToAll { .. } => "alltoall",
        }
    }

    /// Bus bandwidth over algorithm bandwidth for `n` ranks (nccl-tests, doc/PERFORMANCE.md): `2(n-1)/n` for AllReduce,
    /// `(n-1)/n` for the others.
    pub fn bus_factor(self, n: u32) -> f64 {
        let share = f64::from(n.saturating_sub(1)) / f64::from(n.max(1));
        match self {
            Algorithm::RingAllReduce | Algorithm::TreeAllReduce => 2.0 * share,
            _ => share,
        }
    }
}

/// Flows whose starts are a Poisson process at each source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poisson {
    /// Who sends to whom.
    pub endpoints: Endpoints,
    /// Sizes.
    pub sizes: SizeDistribution,
    /// Payload that a source offers over its line rate, above 0; 1 is 100 %. Headers are not counted, as in HPCC's
    /// generator.
    pub load: f64,
    /// No flow starts after this, from the start of the job.
    #[serde(with = "xoff_units::serde_picos::option")]
    pub until: Option<Picos>,
    /// No more flows than this in all. One of the two bounds must be given.
    pub flows_max: Option<u32>,
    /// Added to the seed of the run.
    pub seed: u64,
}

/// Who sends to whom at random.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoints {
    /// These pairs; a source that is in several chooses among them evenly.
    Pairs(Vec<(u32, u32)>),
    /// Each source chooses evenly among the destinations other than itself.
    Sets {
        /// All different.
        sources: Vec<u32>,
        /// All different; at least one that is not the source.
        destinations: Vec<u32>,
    },
}

/// Why a workload cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job `{job}`: {problem}")]
pub struct SpecError {
    /// Name of the job.
    pub job: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// An index that no host has, or a host without a link.
    #[error("there is no host {0}, or it has no link")]
    UnknownHost(u32),
    /// A host twice in a list of different ones.
    #[error("host {0} is listed twice")]
    DuplicateHost(u32),
    /// A flow from a host to itself.
    #[error("host {0} sends to itself")]
    SelfFlow(u32),
    /// Fewer hosts or ranks than it takes.
    #[error("{got} ranks or hosts; it takes {least} to {RANKS_MAX}")]
    RankCount {
        /// How many there are.
        got: usize,
        /// How many there must be.
        least: usize,
    },
    /// Ranks that do not fill their nodes, or fill only one.
    #[error("{ranks} ranks at {gpus_per_node} per node are not two or more full nodes")]
    Nodes {
        /// How many there are.
        ranks: usize,
        /// As given.
        gpus_per_node: u32,
    },
    /// A number that must be positive.
    #[error("`{0}` must be positive")]
    Zero(&'static str),
    /// Nothing to send.
    #[error("it has no {0}")]
    Empty(&'static str),
    /// A load that is not a positive number.
    #[error("the load is not a positive number")]
    Load,
    /// Random arrivals without an end.
    #[error("neither a time nor a number of flows ends it")]
    Endless,
    /// More edges between ranks than are kept.
    #[error("{0} connections between its ranks are more than {EDGES_MAX}")]
    TooManyConnections(u64),
    /// Slices so small that a chunk has too many.
    #[error("slices of {0} bytes divide the largest size into more than {SLICES_MAX}")]
    TooManySlices(u64),
    /// More flows than are kept.
    #[error("it has more than {FLOWS_MAX} flows")]
    TooManyFlows,
}
