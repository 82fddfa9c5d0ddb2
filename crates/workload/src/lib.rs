//! Workloads of a lab: flows, permutations, incasts, collectives, random arrivals and replays. The crate also
//! computes their results.
//!
//! A [`Workload`] does no I/O and reads no clock. A workload returns the messages to post ([`MessagePost`]).
//! The caller, called the driver, moves the bytes and makes two reports for each message:
//! [`Workload::received`] when the receiver has all bytes, and [`Workload::acknowledged`] when the sender has
//! the last acknowledgement. The same [`WorkloadSpec`] and seed give the same messages.
//!
//! A collective creates the messages of a step only when the data for the step is available, so a long
//! collective needs little memory. The workload keeps one record per message of a flow and one record
//! per iteration.
//!
//! # Examples
//!
//! This example starts a ring AllReduce of 4 MB over four hosts. Each host first sends a quarter of the data
//! to its neighbour:
//!
//! ```
//! use xoff_units::Picos;
//! use xoff_workload::{Algorithm, Collective, JobKind, JobSpec, Workload, WorkloadSpec};
//!
//! let ring = Collective::new(Algorithm::RingAllReduce, vec![0, 1, 2, 3], 4_000_000);
//! let spec = WorkloadSpec { jobs: vec![JobSpec::new("allreduce", JobKind::Collective(ring))] };
//! let line_rate_bps = |host: u32| if host < 4 { 400_000_000_000 } else { 0 };
//! let mut workload = Workload::new(&spec, 1, &line_rate_bps)?;
//!
//! let mut posts = Vec::new();
//! workload.start(Picos::ZERO, &mut posts);
//! assert_eq!(posts.len(), 4);
//! assert!(posts.iter().all(|post| post.bytes == 1_000_000));
//! # Ok::<(), xoff_workload::SpecError>(())
//! ```

mod arrivals;
mod bulk;
mod check;
mod completion_scope;
mod distribution;
mod engine;
mod flow_list;
mod job_context;
mod latency;
mod list;
mod messages;
mod nccl;
mod pattern;
mod random;
mod results;
mod roofline;
mod spec;
mod split;
mod step_times;
mod summary;
#[cfg(test)]
mod tests;

pub use bulk::StepUnit;
pub use completion_scope::CompletionScope;
pub use distribution::{DistributionError, SizeDistribution};
pub use engine::{StepMark, Workload};
pub use flow_list::{FlowListError, FlowListFormat, ListedFlow, parse_flow_list};
pub use job_context::{Connection, MessagePost};
pub use latency::LatencyQuantiles;
pub use messages::MessageId;
pub use nccl::NcclRun;
pub use results::{
    CollectiveResults, FlowResult, FlowSummary, IterationResult, JobResults, SizeBin, SizeResults,
    WorkloadResults,
};
pub use spec::{
    Algorithm, Collective, Endpoints, FLOWS_MAX, FlowSpec, Framing, Incast, JobKind, JobSpec, MessageSpread,
    Permutation, Poisson, RANKS_MAX, Repeat, SpecError, SpecProblem, Verb, WorkloadSpec,
};
pub use step_times::StepWindow;
pub use summary::DistributionSummary;
