//! Pairs of hosts that a job connects although no path of links leads from one host to the other.

use std::fmt;

use super::plan::LabPlan;
use xoff_fabric::Paths;
use xoff_workload::Workload;

/// A job sends data from one host to another, but no path of links exists between them.
pub(super) struct UnconnectedPair<'a> {
    pub(super) job: &'a str,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// Number of other pairs of the job without a path.
    pub(super) others: usize,
}

impl UnconnectedPair<'_> {
    pub(super) const FIX: &'static str =
        "add a link between their parts of the topology, or remove the pair from the job";
}

impl fmt::Display for UnconnectedPair<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnconnectedPair {
            job,
            from,
            to,
            others,
        } = self;
        write!(
            out,
            "job \"{job}\": {from} sends to {to}, but no path of links leads from {from} to {to}"
        )?;
        match others {
            0 => Ok(()),
            1 => write!(out, "; the same is true of another pair of the job"),
            others => write!(out, "; the same is true of {others} other pairs of the job"),
        }
    }
}

/// Returns the first pair of hosts that communicate without a path between them. The result contains the
/// number of other such pairs in the same job. Returns `None` if all pairs have paths.
pub(super) fn first_unconnected_pair<'a>(
    plan: &'a LabPlan,
    workload: &Workload,
    paths: &Paths,
) -> Option<UnconnectedPair<'a>> {
    let connections = workload.connections().iter();
    let mut unconnected = connections.filter(|c| !paths.are_connected(c.src as usize, c.dst as usize));
    let first = unconnected.next()?;
    Some(UnconnectedPair {
        job: &plan.workload.jobs.jobs[first.job].name,
        from: &plan.hosts[first.src as usize].name,
        to: &plan.hosts[first.dst as usize].name,
        others: unconnected.filter(|other| other.job == first.job).count(),
    })
}
