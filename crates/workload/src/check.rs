//! Whether a job can be.

use std::collections::BTreeSet;

use super::list::messages;
use super::spec::{
    Algorithm, Collective, EDGES_MAX, Endpoints, FLOWS_MAX, FlowSpec, JobKind, JobSpec, Poisson, Problem,
    RANKS_MAX, Repeat, SLICES_MAX, SpecError,
};

type Rates<'a> = &'a dyn Fn(u32) -> u64;

impl JobSpec {
    pub(super) fn error(&self, problem: Problem) -> SpecError {
        SpecError {
            job: self.name.clone(),
            problem,
        }
    }

    /// Whether the job can be, with hosts of these line rates in bits per second, 0 for one that does not exist.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, line_rate_bps: Rates<'_>) -> Result<(), SpecError> {
        self.problem(line_rate_bps).map_err(|problem| self.error(problem))
    }

    fn problem(&self, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
        positive("qps_per_connection", u64::from(self.qps_per_connection))?;
        positive("payload_bytes", u64::from(self.framing.payload_bytes))?;
        positive("wire_bytes", u64::from(self.framing.wire_bytes))?;
        match &self.kind {
            JobKind::Flows(list) | JobKind::Replay(list) => flows(list, self.background, line_rate_bps),
            JobKind::Permutation(permutation) => {
                positive("iterations", u64::from(permutation.iterations))?;
                different(&permutation.hosts, 2, line_rate_bps)?;
                records(permutation.hosts.len(), permutation.iterations)
            }
            JobKind::Incast(incast) => {
                positive("iterations", u64::from(incast.iterations))?;
                different(&incast.senders, 1, line_rate_bps)?;
                pair(incast.senders[0], incast.receiver, line_rate_bps)?;
                if incast.senders.contains(&incast.receiver) {
                    return Err(Problem::SelfFlow(incast.receiver));
                }
                records(incast.senders.len(), incast.iterations)
            }
            JobKind::Collective(spec) => collective(spec, line_rate_bps),
            JobKind::Poisson(spec) => poisson(spec, line_rate_bps),
        }
    }
}

fn positive(name: &'static str, value: u64) -> Result<(), Problem> {
    if value == 0 {
        Err(Problem::Zero(name))
    } else {
        Ok(())
    }
}

fn known(host: u32, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    if line_rate_bps(host) == 0 {
        Err(Problem::UnknownHost(host))
    } else {
        Ok(())
    }
}

fn pair(src: u32, dst: u32, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    known(src, line_rate_bps)?;
    known(dst, line_rate_bps)?;
    if src == dst {
        Err(Problem::SelfFlow(src))
    } else {
        Ok(())
    }
}

/// So many hosts or more, each once.
fn different(hosts: &[u32], least: usize, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    if hosts.len() < least || hosts.len() > RANKS_MAX {
        return Err(Problem::RankCount {
            got: hosts.len(),
            least,
        });
    }
    let mut seen = BTreeSet::new();
    for &host in hosts {
        known(host, line_rate_bps)?;
        if !seen.insert(host) {
            return Err(Problem::DuplicateHost(host));
        }
    }
    Ok(())
}

fn records(messages: usize, iterations: u32) -> Result<(), Problem> {
    match messages.saturating_mul(iterations as usize) > FLOWS_MAX {
        true => Err(Problem::TooManyFlows),
        false => Ok(()),
    }
}

/// Flows in the background may be meant to go on for ever, and are stopped.
fn flows(list: &[FlowSpec], background: bool, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    if list.is_empty() {
        return Err(Problem::Empty("flows"));
    }
    let mut total = 0_u64;
    for flow in list {
        pair(flow.src, flow.dst, line_rate_bps)?;
        positive("count", u64::from(messages(flow)))?;
        // Without an interval all messages would be due at once, and there may be four thousand million.
        if let Repeat::Every { interval, .. } = flow.repeat {
            positive("interval", interval.0)?;
        }
        total += u64::from(messages(flow));
    }
    if list.len() > FLOWS_MAX || (!background && total > FLOWS_MAX as u64) {
        return Err(Problem::TooManyFlows);
    }
    Ok(())
}

fn collective(spec: &Collective, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    positive("iterations", u64::from(spec.iterations))?;
    positive("gpus_per_node", u64::from(spec.gpus_per_node))?;
    positive("slice_bytes", spec.slice_bytes.unwrap_or(1))?;
    positive("nvlink_bps", spec.nvlink_bps.unwrap_or(1))?;
    different(&spec.ranks, 2, line_rate_bps)?;
    let (ranks, gpus) = (spec.ranks.len() as u64, u64::from(spec.gpus_per_node));
    if !ranks.is_multiple_of(gpus) || ranks == gpus {
        return Err(Problem::Nodes {
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
        return Err(Problem::TooManyConnections(edges));
    }
    let Some(largest) = spec.bytes.iter().max() else {
        return Err(Problem::Empty("sizes"));
    };
    match spec.slice_bytes {
        Some(slice) if largest.div_ceil(slice) > SLICES_MAX => Err(Problem::TooManySlices(slice)),
        _ => Ok(()),
    }
}

fn poisson(spec: &Poisson, line_rate_bps: Rates<'_>) -> Result<(), Problem> {
    if !(spec.load > 0.0 && spec.load.is_finite()) {
        return Err(Problem::Load);
    }
    if spec.until.is_none() && spec.flows_max.is_none() {
        return Err(Problem::Endless);
    }
    match &spec.endpoints {
        Endpoints::Pairs(pairs) if pairs.is_empty() => Err(Problem::Empty("pairs")),
        Endpoints::Pairs(pairs) => pairs
            .iter()
            .try_for_each(|&(src, dst)| pair(src, dst, line_rate_bps)),
        Endpoints::Sets {
            sources,
            destinations,
        } => {
            different(sources, 1, line_rate_bps)?;
            different(destinations, 1, line_rate_bps)?;
            match (destinations.as_slice(), sources.contains(&destinations[0])) {
                ([only], true) => Err(Problem::SelfFlow(*only)),
                _ => Ok(()),
            }
        }
    }
}
