//! Random arrivals: a Poisson process at each source.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use xoff_units::Picos;

use super::random::Draws;
use super::spec::{Endpoints, FLOWS_MAX, FlowSpec, Poisson, Problem};

/// One source: whom it may send to, how often it does.
#[derive(Debug)]
struct Source {
    host: u32,
    destinations: Vec<u32>,
    /// Mean time between two flows, picoseconds.
    interval: u64,
    draws: Draws,
}

/// All flows of a job that has been checked, by start.
pub(super) fn draw(
    spec: &Poisson,
    mut draws: Draws,
    line_rate_bps: &dyn Fn(u32) -> u64,
) -> Result<Vec<FlowSpec>, Problem> {
    let base = draws.below(u64::MAX) ^ spec.seed;
    let mut sources = sources(spec, base, line_rate_bps);
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, source) in sources.iter_mut().enumerate() {
        next.push(Reverse((source.draws.exponential(source.interval), index)));
    }
    let until = spec.until.unwrap_or(Picos::NEVER).0;
    let most = spec.flows_max.map_or(usize::MAX, |most| most as usize);
    let expected: f64 = sources
        .iter()
        .map(|source| until as f64 / source.interval.max(1) as f64)
        .sum();
    if expected.min(most as f64) > FLOWS_MAX as f64 {
        return Err(Problem::TooManyFlows);
    }
    let mut flows = Vec::new();
    while let Some(Reverse((start, index))) = next.pop()
        && flows.len() < most
        && start <= until
    {
        if flows.len() == FLOWS_MAX {
            return Err(Problem::TooManyFlows);
        }
        let source = &mut sources[index];
        let dst = source.destinations[source.draws.below(source.destinations.len() as u64) as usize];
        let bytes = spec.sizes.sample(source.draws.unit());
        flows.push(FlowSpec::once(source.host, dst, bytes, Picos(start)));
        // At least a picosecond, so that a source cannot stand still.
        let pause = source.draws.exponential(source.interval).max(1);
        next.push(Reverse((start.saturating_add(pause), index)));
    }
    Ok(flows)
}

fn sources(spec: &Poisson, base: u64, line_rate_bps: &dyn Fn(u32) -> u64) -> Vec<Source> {
    let mut destinations: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    match &spec.endpoints {
        Endpoints::Pairs(pairs) => {
            for &(src, dst) in pairs {
                destinations.entry(src).or_default().push(dst);
            }
        }
        Endpoints::Sets {
            sources,
            destinations: all,
        } => {
            for &src in sources {
                let others = all.iter().copied().filter(|dst| *dst != src);
                destinations.insert(src, others.collect());
            }
        }
    }
    let source = |(host, destinations)| {
        let flows_per_s = spec.load * line_rate_bps(host) as f64 / 8.0 / spec.sizes.mean_bytes();
        Source {
            host,
            destinations,
            interval: (1e12 / flows_per_s) as u64,
            draws: Draws::new(base, u64::from(host)),
        }
    };
    destinations.into_iter().map(source).collect()
}
