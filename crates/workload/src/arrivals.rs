//! Random arrivals. The flows of each source start at the times of a Poisson process.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use xoff_units::Picos;

use super::random::RandomStream;
use super::spec::{Endpoints, FLOWS_MAX, FlowSpec, Poisson, SpecProblem};

/// A host that starts flows at random times.
#[derive(Debug)]
struct PoissonSource {
    host: u32,
    destinations: Vec<u32>,
    /// Mean time between two flows in picoseconds.
    mean_interval_ps: u64,
    random: RandomStream,
}

impl Poisson {
    /// Returns the expected number of flows, at most [`FLOWS_MAX`]. `line_rate_bps` returns the line rate of a host in
    /// bits per second.
    pub fn expected_flows(&self, line_rate_bps: &dyn Fn(u32) -> u64) -> u64 {
        let until = self.until.unwrap_or(Picos::NEVER).0 as f64;
        let expected: f64 = make_sources(self, 0, line_rate_bps)
            .iter()
            .map(|source| until / source.mean_interval_ps.max(1) as f64)
            .sum();
        let flows_max = self.flows_max.map_or(f64::INFINITY, f64::from);
        expected.min(flows_max).min(FLOWS_MAX as f64) as u64
    }
}

/// Draws all flows of a valid job, sorted by start time. Returns [`SpecProblem::TooManyFlows`] if there are
/// more than [`FLOWS_MAX`] flows.
pub(super) fn draw_flows(
    spec: &Poisson,
    mut random: RandomStream,
    line_rate_bps: &dyn Fn(u32) -> u64,
) -> Result<Vec<FlowSpec>, SpecProblem> {
    let base = random.integer_below(u64::MAX) ^ spec.seed;
    let mut sources = make_sources(spec, base, line_rate_bps);
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, source) in sources.iter_mut().enumerate() {
        next.push(Reverse((
            source.random.exponential(source.mean_interval_ps),
            index,
        )));
    }
    let until = spec.until.unwrap_or(Picos::NEVER).0;
    let flows_max = spec.flows_max.map_or(usize::MAX, |flows_max| flows_max as usize);
    let expected: f64 = sources
        .iter()
        .map(|source| until as f64 / source.mean_interval_ps.max(1) as f64)
        .sum();
    if expected.min(flows_max as f64) > FLOWS_MAX as f64 {
        return Err(SpecProblem::TooManyFlows);
    }
    let mut flows = Vec::new();
    while let Some(Reverse((start, index))) = next.pop()
        && flows.len() < flows_max
        && start <= until
    {
        if flows.len() == FLOWS_MAX {
            return Err(SpecProblem::TooManyFlows);
        }
        let source = &mut sources[index];
        let dst = source.destinations[source.random.integer_below(source.destinations.len() as u64) as usize];
        let bytes = spec.sizes.sample(source.random.unit_interval());
        flows.push(FlowSpec::once(source.host, dst, bytes, Picos(start)));
        // At least one picosecond, so that the time of a source advances.
        let pause = source.random.exponential(source.mean_interval_ps).max(1);
        next.push(Reverse((start.saturating_add(pause), index)));
    }
    Ok(flows)
}

fn make_sources(spec: &Poisson, base: u64, line_rate_bps: &dyn Fn(u32) -> u64) -> Vec<PoissonSource> {
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
        PoissonSource {
            host,
            destinations,
            mean_interval_ps: (1e12 / flows_per_s) as u64,
            random: RandomStream::new(base, u64::from(host)),
        }
    };
    destinations.into_iter().map(source).collect()
}
