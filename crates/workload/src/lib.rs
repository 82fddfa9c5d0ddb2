//! What is sent when, and what came of it: flows, permutations, incasts, collectives, random arrivals, replays.
//!
//! A [`Workload`] is sans-IO: it says which messages to post ([`Post`]) and is told when the receiver has one whole
//! ([`Workload::received`]) and when the sender has its last acknowledgement ([`Workload::acknowledged`]). How bytes
//! move between is the driver's business. Nothing here reads a clock, and the same [`Spec`] and seed give the same
//! messages.
//!
//! Steps of a collective are made as their data dependencies are met and forgotten once delivered. What stays is one
//! record per flow (of the kinds made of flows) and one per iteration.

mod arrivals;
mod bulk;
mod check;
mod distribution;
mod engine;
mod flow_list;
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
mod summary;
#[cfg(test)]
mod tests;

pub use distribution::{DistributionError, SizeDistribution};
pub use engine::{Connection, Post, Workload};
pub use flow_list::{FlowListError, FlowListFormat, ListedFlow, parse_flow_list};
pub use latency::Latency;
pub use messages::MessageId;
pub use nccl::NcclRun;
pub use results::{
    CollectiveResults, FlowResult, FlowSummary, IterationResult, JobResults, Results, SizeBin, SizeResults,
};
pub use spec::{
    Algorithm, Collective, Endpoints, FLOWS_MAX, FlowSpec, Framing, Incast, JobKind, JobSpec, Permutation,
    Poisson, Problem, RANKS_MAX, Repeat, Spec, SpecError, Spread, Verb,
};
pub use summary::Summary;
