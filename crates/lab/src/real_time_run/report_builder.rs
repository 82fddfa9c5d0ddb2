//! The report of a lab in real time: links, queue pairs and jobs.

use crate::jobs;
use crate::plan::LabPlan;
use crate::real_time_run::job_run::JobRun;
use crate::report::{HostReport, LinkBalanceReport, RealTimeRunReport, Report};
use crate::virtual_run::{LinkTraffic, link_reports};
use xoff_fabric::{FabricPlan, LinkEnd};
use xoff_runtime::hosts::HostRunResult;
use xoff_telemetry::SwitchReport;

/// The state of a lab at the end of a run, from which the report is built.
pub(super) struct FinishedLabState<'a> {
    pub(super) plan: &'a LabPlan,
    pub(super) fabric: &'a FabricPlan,
    pub(super) dilate: u32,
    pub(super) hosts: &'a [HostRunResult],
    pub(super) job_run: &'a JobRun,
}

impl FinishedLabState<'_> {
    /// Adds the results of hosts, links and jobs to a report.
    pub(super) fn add_results_to_report(&self, report: &mut Report) {
        for host in self.hosts {
            report.add_queue_pair_counters(&host.queue_pairs);
            let mut plans = self.plan.hosts.iter();
            let index = plans.position(|plan| plan.name == host.results.name);
            let expects_lossless = index.is_some_and(|index| self.plan.expects_lossless(index));
            report.add_receiver(&host.results, expects_lossless);
        }
        let run = self.job_run;
        let connections = run.jobs.workload().connections();
        let span = run.elapsed();
        let links = link_reports(
            self.plan,
            self.fabric,
            connections,
            &self.link_traffic(&report.switches),
            span,
        );
        report.real_time = Some(RealTimeRunReport {
            model_time_ns: span.as_nanos(),
            dilate: self.dilate,
            hosts: self.hosts.iter().map(host_report).collect(),
            balance: LinkBalanceReport::of_links(&links),
            links,
            reordered: jobs::reordered_connections(self.plan, &run.jobs, &run.received),
        });
        let results = jobs::workload_results(&run.jobs, run.workload_start);
        report.jobs = Some(results).filter(|results| !results.jobs.is_empty());
        let failed = jobs::describe_failed_messages(self.plan, &run.jobs, run.workload_start);
        report.failures.extend(failed);
        report.warnings.extend_from_slice(&run.signal_warnings);
    }

    /// Returns the traffic of both directions of each link. The traffic from plain hosts and virtual machines
    /// is unknown and counts as 0.
    fn link_traffic(&self, switches: &[SwitchReport]) -> Vec<[LinkTraffic; 2]> {
        let sent = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, port } => {
                self.switch_port_traffic(switches, switch as usize, usize::from(port))
            }
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

    fn switch_port_traffic(&self, switches: &[SwitchReport], switch: usize, port: usize) -> LinkTraffic {
        let config = &self.fabric.switches[switch];
        let report = switches.iter().find(|report| report.name == config.name);
        let port = report.and_then(|report| report.ports.get(port));
        port.map_or_else(LinkTraffic::default, |port| LinkTraffic {
            packets: port.tx_packets,
            bytes: port.tx_bytes,
        })
    }
}

fn host_report(outcome: &HostRunResult) -> HostReport {
    let results = &outcome.results;
    HostReport::new(&results.name, &outcome.queue_pairs, &results.nic)
}
