//! The names that a plan gives to things, for expressions.

use super::LabPlan;
use crate::expr::NameDirectory;
use xoff_workload::{Endpoints, JobKind};

impl LabPlan {
    /// What expressions may name: switches with the ports that have links, hosts, flows, sends and jobs.
    pub fn directory(&self) -> NameDirectory {
        let ports = |switch: usize| {
            self.links
                .iter()
                .filter_map(move |link| link.port_at(switch).map(str::to_owned))
        };
        let switches = self.switches.iter().enumerate();
        let switches = switches.map(|(at, switch)| (switch.name.clone(), ports(at).collect()));
        let sends = self.script.sends().map(|send| &send.flow);
        let mut flows: Vec<(String, Vec<usize>)> = Vec::new();
        for flow in self.workload.flows.iter().chain(sends) {
            match flows.iter_mut().find(|(name, _)| *name == flow.name) {
                Some((_, senders)) => senders.push(flow.from),
                None => flows.push((flow.name.clone(), vec![flow.from])),
            }
        }
        let hosts = self.hosts.iter().map(|host| host.name.clone()).collect();
        let jobs = self
            .workload
            .jobs
            .jobs
            .iter()
            .map(|job| (job.name.clone(), senders(&job.kind)));
        let links = self.links.iter().map(|link| link.name.clone()).collect();
        NameDirectory::new(switches.collect(), hosts, flows, jobs.collect()).with_links(links)
    }
}

/// Those whose flows a job tells apart.
fn senders(kind: &JobKind) -> Vec<usize> {
    let mut senders: Vec<u32> = match kind {
        JobKind::Flows(flows) | JobKind::Replay(flows) => flows.iter().map(|flow| flow.src).collect(),
        JobKind::Permutation(permutation) => permutation.hosts.clone(),
        JobKind::Incast(incast) => incast.senders.clone(),
        JobKind::Poisson(poisson) => match &poisson.endpoints {
            Endpoints::Pairs(pairs) => pairs.iter().map(|(src, _)| *src).collect(),
            Endpoints::Sets { sources, .. } => sources.clone(),
        },
        JobKind::Collective(_) => Vec::new(),
    };
    senders.sort_unstable();
    senders.dedup();
    senders.into_iter().map(|host| host as usize).collect()
}
