//! The directory of the names in a lab plan, for expressions of scripts.

use std::collections::HashMap;

use super::{FarEnd, LabPlan};
use crate::expr::NameDirectory;
use xoff_workload::{Endpoints, JobKind};

impl LabPlan {
    /// Returns the directory of all names that expressions of scripts can contain. These are the names of
    /// switches, ports with a link, hosts, flows, `send` steps, jobs and links.
    pub fn name_directory(&self) -> NameDirectory {
        let names = self
            .switches
            .iter()
            .map(|switch| (switch.name.clone(), Vec::new()));
        let mut switches: Vec<(String, Vec<String>)> = names.collect();
        for link in &self.links {
            switches[link.switch].1.push(link.port.clone());
            if let FarEnd::Switch { switch, port } = &link.far {
                switches[*switch].1.push(port.clone());
            }
        }
        let sends = self.script.send_steps().map(|send| &send.flow);
        let mut flows: Vec<(String, Vec<usize>)> = Vec::new();
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for flow in self.workload.flows.iter().chain(sends) {
            let position = *positions.entry(&flow.name).or_insert(flows.len());
            match flows.get_mut(position) {
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
            .map(|job| (job.name.clone(), job_senders(&job.kind)));
        let links = self.links.iter().map(|link| link.name.clone()).collect();
        NameDirectory::new(switches, hosts, flows, jobs.collect()).with_links(links)
    }
}

/// Returns the indices of the sending hosts of a job, sorted and without repetitions. A job has separate
/// counters for each of these hosts. Returns an empty list for a collective.
fn job_senders(kind: &JobKind) -> Vec<usize> {
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
