//! Validation of job specifications.

use std::collections::BTreeSet;

use super::list::message_count;
use super::spec::{
    Algorithm, Collective, EDGES_MAX, Endpoints, FLOWS_MAX, FlowSpec, JobKind, JobSpec, Poisson, RANKS_MAX,
    Repeat, SLICES_MAX, SpecError, SpecProblem,
};

type LineRates<'a> = &'a dyn Fn(u32) -> u64;

impl JobSpec {
    pub(super) fn spec_error(&self, problem: SpecProblem) -> SpecError {
        SpecError {
            job: self.name.clone(),
            problem,
        }
    }

    /// Checks that the job is valid. `line_rate_bps` returns the line rate of a host in bits per second, or 0
    /// if the host does not exist.
    ///
    /// # Errors
    ///
    /// Returns the first problem of the job ([`SpecProblem`]).
    pub fn check(&self, line_rate_bps: LineRates<'_>) -> Result<(), SpecError> {
        self.find_problem(line_rate_bps)
            .map_err(|problem| self.spec_error(problem))
    }

    fn find_problem(&self, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
        check_positive("qps_per_connection", u64::from(self.qps_per_connection))?;
        check_positive("payload_bytes", u64::from(self.framing.payload_bytes))?;
        check_positive("wire_bytes", u64::from(self.framing.wire_bytes))?;
        match &self.kind {
            JobKind::Flows(list) | JobKind::Replay(list) => check_flows(list, self.background, line_rate_bps),
            JobKind::Permutation(permutation) => {
                check_positive("iterations", u64::from(permutation.iterations))?;
                check_distinct_hosts(&permutation.hosts, 2, line_rate_bps)?;
                check_record_count(permutation.hosts.len(), permutation.iterations)
            }
            JobKind::Incast(incast) => {
                check_positive("iterations", u64::from(incast.iterations))?;
                check_distinct_hosts(&incast.senders, 1, line_rate_bps)?;
                check_pair(incast.senders[0], incast.receiver, line_rate_bps)?;
                if incast.senders.contains(&incast.receiver) {
                    return Err(SpecProblem::SelfFlow(incast.receiver));
                }
                check_record_count(incast.senders.len(), incast.iterations)
            }
            JobKind::Collective(spec) => check_collective(spec, line_rate_bps),
            JobKind::Poisson(spec) => check_poisson(spec, line_rate_bps),
        }
    }
}

fn check_positive(name: &'static str, value: u64) -> Result<(), SpecProblem> {
    if value == 0 {
        Err(SpecProblem::Zero(name))
    } else {
        Ok(())
    }
}

fn check_host_exists(host: u32, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    if line_rate_bps(host) == 0 {
        Err(SpecProblem::UnknownHost(host))
    } else {
        Ok(())
    }
}

fn check_pair(src: u32, dst: u32, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    check_host_exists(src, line_rate_bps)?;
    check_host_exists(dst, line_rate_bps)?;
    if src == dst {
        Err(SpecProblem::SelfFlow(src))
    } else {
        Ok(())
    }
}

/// Checks that the list has at least `min` hosts, and that no host is listed twice.
fn check_distinct_hosts(hosts: &[u32], min: usize, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    if hosts.len() < min || hosts.len() > RANKS_MAX {
        return Err(SpecProblem::RankCount {
            got: hosts.len(),
            min,
        });
    }
    let mut seen = BTreeSet::new();
    for &host in hosts {
        check_host_exists(host, line_rate_bps)?;
        if !seen.insert(host) {
            return Err(SpecProblem::DuplicateHost(host));
        }
    }
    Ok(())
}

fn check_record_count(messages: usize, iterations: u32) -> Result<(), SpecProblem> {
    match messages.saturating_mul(iterations as usize) > FLOWS_MAX {
        true => Err(SpecProblem::TooManyFlows),
        false => Ok(()),
    }
}

/// Checks a list of flows. The number of messages is not limited for background flows, because they stop when
/// all other jobs have ended.
fn check_flows(list: &[FlowSpec], background: bool, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    if list.is_empty() {
        return Err(SpecProblem::Empty("flows"));
    }
    let mut total = 0_u64;
    for flow in list {
        check_pair(flow.src, flow.dst, line_rate_bps)?;
        check_positive("count", u64::from(message_count(flow)))?;
        // With an interval of 0, up to four thousand million messages would be due at the same time.
        if let Repeat::Every { interval, .. } = flow.repeat {
            check_positive("interval", interval.0)?;
        }
        total += u64::from(message_count(flow));
    }
    if list.len() > FLOWS_MAX || (!background && total > FLOWS_MAX as u64) {
        return Err(SpecProblem::TooManyFlows);
    }
    Ok(())
}

fn check_collective(spec: &Collective, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    check_positive("iterations", u64::from(spec.iterations))?;
    check_positive("gpus_per_node", u64::from(spec.gpus_per_node))?;
    check_positive("slice_bytes", spec.slice_bytes.unwrap_or(1))?;
    check_positive("nvlink_bps", spec.nvlink_bps.unwrap_or(1))?;
    check_distinct_hosts(&spec.ranks, 2, line_rate_bps)?;
    let (ranks, gpus) = (spec.ranks.len() as u64, u64::from(spec.gpus_per_node));
    if !ranks.is_multiple_of(gpus) || ranks == gpus {
        return Err(SpecProblem::Nodes {
            ranks: spec.ranks.len(),
            gpus_per_node: spec.gpus_per_node,
        });
    }
    let edges = match spec.algorithm {
        Algorithm::RingAllReduce | Algorithm::RingAllGather | Algorithm::RingReduceScatter => gpus * ranks,
        Algorithm::TreeAllReduce => 4 * gpus * ranks,
        Algorithm::AllToAll { rail_aligned: false } => ranks * (ranks - 1),
        Algorithm::AllToAll { rail_aligned: true } => ranks * (gpus + ranks / gpus),
    };
    if edges > EDGES_MAX {
        return Err(SpecProblem::TooManyConnections(edges));
    }
    let Some(largest) = spec.bytes.iter().max() else {
        return Err(SpecProblem::Empty("sizes"));
    };
    match spec.slice_bytes {
        Some(slice) if largest.div_ceil(slice) > SLICES_MAX => Err(SpecProblem::TooManySlices(slice)),
        _ => Ok(()),
    }
}

fn check_poisson(spec: &Poisson, line_rate_bps: LineRates<'_>) -> Result<(), SpecProblem> {
    if !(spec.load > 0.0 && spec.load.is_finite()) {
        return Err(SpecProblem::Load);
    }
    if spec.until.is_none() && spec.flows_max.is_none() {
        return Err(SpecProblem::Endless);
    }
    match &spec.endpoints {
        Endpoints::Pairs(pairs) if pairs.is_empty() => Err(SpecProblem::Empty("pairs")),
        Endpoints::Pairs(pairs) => pairs
            .iter()
            .try_for_each(|&(src, dst)| check_pair(src, dst, line_rate_bps)),
        Endpoints::Sets {
            sources,
            destinations,
        } => {
            check_distinct_hosts(sources, 1, line_rate_bps)?;
            check_distinct_hosts(destinations, 1, line_rate_bps)?;
            match (destinations.as_slice(), sources.contains(&destinations[0])) {
                ([only], true) => Err(SpecProblem::SelfFlow(*only)),
                _ => Ok(()),
            }
        }
    }
}
