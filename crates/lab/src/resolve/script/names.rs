//! The names to which the steps of a script refer. Each lookup is a search in a map, because a script can have
//! 100 000 steps in a lab with thousands of hosts.

use std::collections::{HashMap, HashSet};

use super::super::super::plan::{FarEnd, LabPlan, LinkDirectionPlan, LinkPlan, WorkloadTarget};
use super::super::workload::HostLinks;

/// The objects of a lab by the names that a script can use.
pub(super) struct ScriptNames<'a> {
    pub(super) host_links: HostLinks<'a>,
    /// The links by their names, and the directions of links by the names of their ends.
    directions: HashMap<String, LinkDirectionPlan>,
    /// The jobs and flows of the workload.
    targets: HashMap<&'a str, Vec<WorkloadTarget>>,
    /// The names of jobs and flows in the order of the lab file.
    target_names: Vec<&'a str>,
    flow_names: HashSet<&'a str>,
    /// The ports of each switch that have a link.
    ports: HashMap<usize, Vec<&'a str>>,
    links: &'a [LinkPlan],
    /// The number of `send` steps that were resolved so far.
    pub(super) send_count: usize,
}

impl<'a> ScriptNames<'a> {
    pub(super) fn new(plan: &'a LabPlan) -> ScriptNames<'a> {
        let mut names = ScriptNames {
            host_links: HostLinks::new(plan.hosts.len(), &plan.links),
            directions: HashMap::new(),
            targets: HashMap::new(),
            target_names: Vec::new(),
            flow_names: plan
                .workload
                .flows
                .iter()
                .map(|flow| flow.name.as_str())
                .collect(),
            ports: HashMap::new(),
            links: &plan.links,
            send_count: 0,
        };
        names.add_links(plan);
        names.add_targets(plan);
        names
    }

    /// Adds the names of links and of their ends. Of several equal names, the first applies.
    fn add_links(&mut self, plan: &'a LabPlan) {
        for (link, names) in plan.links.iter().enumerate() {
            let both = LinkDirectionPlan {
                link,
                from_switch: true,
                from_far: true,
            };
            let from_switch = LinkDirectionPlan {
                from_far: false,
                ..both
            };
            let from_far = LinkDirectionPlan {
                from_switch: false,
                ..both
            };
            let [near, far] = link_end_names(names, plan);
            for (name, direction) in [(names.name.clone(), both), (near, from_switch), (far, from_far)] {
                self.directions.entry(name).or_insert(direction);
            }
            self.ports.entry(names.switch).or_default().push(&names.port);
            if let FarEnd::Switch { switch, port } = &names.far {
                self.ports.entry(*switch).or_default().push(port);
            }
        }
    }

    /// Adds the names of jobs and flows. A job hides flows of the same name.
    fn add_targets(&mut self, plan: &'a LabPlan) {
        for (index, job) in plan.workload.jobs.jobs.iter().enumerate() {
            let target = WorkloadTarget::Job(index);
            self.targets.entry(&job.name).or_insert_with(|| vec![target]);
            self.target_names.push(&job.name);
        }
        for (index, flow) in plan.workload.flows.iter().enumerate() {
            let targets = self.targets.entry(&flow.name).or_default();
            if !matches!(targets.first(), Some(WorkloadTarget::Job(_))) {
                targets.push(WorkloadTarget::Flow(index));
            }
            self.target_names.push(&flow.name);
        }
        self.target_names.dedup();
    }

    /// Returns the link or the direction of a link with this name.
    pub(super) fn find_direction(&self, name: &str) -> Option<LinkDirectionPlan> {
        self.directions.get(name).copied()
    }

    /// Returns the names of all links.
    pub(super) fn link_names(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.links.iter().map(|link| link.name.as_str())
    }

    /// Returns the jobs or flows with this name. The list is empty for an unknown name.
    pub(super) fn find_targets(&self, name: &str) -> &[WorkloadTarget] {
        self.targets.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the names of all jobs and flows.
    pub(super) fn target_names(&self) -> impl Iterator<Item = &'a str> + Clone + '_ {
        self.target_names.iter().copied()
    }

    /// Returns whether a flow of the workload has this name.
    pub(super) fn is_flow(&self, name: &str) -> bool {
        self.flow_names.contains(name)
    }

    /// Returns the names of the ports of a switch that have a link.
    pub(super) fn ports_of_switch(&self, switch: usize) -> &[&'a str] {
        self.ports.get(&switch).map_or(&[], Vec::as_slice)
    }
}

/// Returns the names of both ends of a link, in the form that a lab file uses.
fn link_end_names(link: &LinkPlan, plan: &LabPlan) -> [String; 2] {
    let near = format!("{}:{}", plan.switches[link.switch].name, link.port);
    let far = match &link.far {
        FarEnd::Host(host) => format!("{}:{}", plan.hosts[*host].name, plan.hosts[*host].interface),
        FarEnd::Switch { switch, port } => format!("{}:{port}", plan.switches[*switch].name),
        FarEnd::External(device) => format!("external:{device}"),
    };
    [near, far]
}
