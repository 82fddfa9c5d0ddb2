//! What a lab in real time has to say beside its switches and flows.

use serde::{Deserialize, Serialize};

use crate::jobs;
use crate::plan::LabPlan;
use crate::play::jobs::JobRun;
use crate::report::Report;
use crate::virtual_run::{
    HostReport, LinkBalanceReport, LinkReport, LinkTraffic, ReorderedConnectionReport, link_reports,
};
use xoff_fabric::{FabricPlan, LinkEnd};
use xoff_runtime::hosts::HostRunResult;
use xoff_telemetry::SwitchSnapshot;

/// The part of a report that labs in real time have: the same figures as [`VirtualReport`](crate::VirtualReport), as far as
/// there are any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealTimeReport {
    /// Model time of the workload, in nanoseconds: until its flows were over and its jobs done.
    pub model_time_ns: u64,
    /// Model time ran so many times slower than the wall.
    pub dilate: u32,
    /// What the queue pairs of each model host counted, under the names of Linux `hw_counters`.
    pub hosts: Vec<HostReport>,
    /// What each link carried, first from its first end to its second, then back.
    pub links: Vec<LinkReport>,
    /// How evenly links between switches were used; `None`: there was no choice to make.
    pub balance: Option<LinkBalanceReport>,
    /// Connections of jobs whose packets arrived out of order, in the order of the jobs.
    pub reordered: Vec<ReorderedConnectionReport>,
}

/// What is known at the end of a lab.
pub(super) struct Ended<'a> {
    pub(super) plan: &'a LabPlan,
    pub(super) fabric: &'a FabricPlan,
    pub(super) dilate: u32,
    pub(super) snapshots: &'a [SwitchSnapshot],
    pub(super) hosts: &'a [HostRunResult],
    pub(super) jobs: &'a JobRun,
}

impl Ended<'_> {
    /// Completes a report by what hosts, links and jobs have to say.
    pub(super) fn complete(&self, report: &mut Report) {
        for host in self.hosts {
            report.add_queue_pair_counters(&host.queue_pairs);
            let mut plans = self.plan.hosts.iter();
            let index = plans.position(|plan| plan.name == host.results.name);
            let expects_lossless = index.is_some_and(|index| self.plan.expects_lossless(index));
            report.add_receiver(&host.results, expects_lossless);
        }
        let run = self.jobs;
        let connections = run.jobs.workload().connections();
        let span = run.elapsed();
        let links = link_reports(self.plan, self.fabric, connections, &self.carried(), span);
        report.real_time = Some(RealTimeReport {
            model_time_ns: span.as_nanos(),
            dilate: self.dilate,
            hosts: self.hosts.iter().map(host_report).collect(),
            balance: LinkBalanceReport::of_links(&links),
            links,
            reordered: jobs::reordered(self.plan, &run.jobs, &run.arrivals),
        });
        report.jobs = Some(jobs::results(&run.jobs)).filter(|results| !results.jobs.is_empty());
        let failed = jobs::failed(self.plan, &run.jobs, run.began);
        report.failures.extend(failed);
        report.warnings.clone_from(&run.ineffective);
    }

    /// What both directions of every link carried. What the lab's own hosts are not is not known: a kernel, a guest.
    fn carried(&self) -> Vec<[LinkTraffic; 2]> {
        let sent = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, port } => self.by_switch(switch as usize, usize::from(port)),
            LinkEnd::Host(host) => {
                let name = &self.plan.hosts[host as usize].name;
                let outcome = self.hosts.iter().find(|outcome| outcome.results.name == *name);
                outcome.map_or_else(LinkTraffic::default, |outcome| {
                    LinkTraffic::of_nic(&outcome.results.nic)
                })
            }
        };
        let links = self.fabric.links.iter();
        links.map(|link| link.ends.map(sent)).collect()
    }

    fn by_switch(&self, switch: usize, port: usize) -> LinkTraffic {
        let config = &self.fabric.switches[switch];
        let snapshot = self
            .snapshots
            .iter()
            .find(|snapshot| snapshot.name == config.name);
        let port = snapshot.and_then(|snapshot| snapshot.ports.get(port));
        port.map_or_else(LinkTraffic::default, |port| LinkTraffic {
            packets: port.counters.tx_packets,
            bytes: port.counters.tx_bytes,
        })
    }
}

fn host_report(outcome: &HostRunResult) -> HostReport {
    let results = &outcome.results;
    HostReport::new(&results.name, &outcome.queue_pairs, &results.nic)
}
