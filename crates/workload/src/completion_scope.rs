//! Which hosts the completion of a message can change. Drivers that process hosts separately depend on it.

/// Hosts that change when a message is completed, as long as no message that is posted from now on has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionScope {
    /// A completion can change any host or end a job.
    AllHosts,
    /// A completion changes at most the host at which it occurs: [`Workload::received`](crate::Workload::received) and
    /// [`Workload::acknowledged`](crate::Workload::acknowledged) post messages only at the host for which they are
    /// called, no job ends, and no timer is set. For different hosts, the driver may call these methods in any order of
    /// time: the results are the same.
    CompletingHost,
    /// As [`CompletionScope::CompletingHost`], until an iteration of a job ends. An iteration ends at all hosts, when
    /// each host has received its messages ([`Workload::no_step_ends`](crate::Workload::no_step_ends)).
    CompletingHostUntilStepEnds,
}
