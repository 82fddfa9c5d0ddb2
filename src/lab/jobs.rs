//! The jobs of a lab on its hosts, in virtual and in real time.

use std::net::IpAddr;

use xoff_dataplane::Picos;

use super::model_hosts::next_hop_mac;
use super::plan::{IpVersion, LabPlan, TargetPlan};
use super::virtual_run::ReorderedReport;
use crate::fabric::{Arrivals, Directory, FabricPlan, JobHosts, Jobs, Paths};
use crate::failure::Failure;
use crate::report;
use crate::workload::{Results, Workload};

/// Most messages that failed which are told.
const FAILED_TOLD: usize = 8;

/// Creates the queue pairs of a plan's jobs. Those that its script starts wait for it.
///
/// # Errors
/// A job that cannot be, hosts that no links join.
pub(super) fn jobs(
    plan: &LabPlan,
    fabric_plan: &FabricPlan,
    seed: u64,
    hosts: &mut impl JobHosts,
) -> Result<Jobs, Failure> {
    let wrong = |error: String| Failure::configuration(error).at(&plan.name);
    let paths = Paths::new(fabric_plan);
    let speed = |host: u32| {
        let host = fabric_plan.hosts.get(host as usize);
        host.map_or(0, |host| u64::from(host.nic.link.speed_mbps) * 1_000_000)
    };
    let workload =
        Workload::new(&plan.workload.jobs, seed, &speed).map_err(|error| wrong(error.to_string()))?;
    let transports = plan
        .transports
        .iter()
        .map(|transport| {
            transport
                .transport()
                .map_err(|error| wrong(format!("transport {}: {error}", transport.name)))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    if let Some(lost) = workload
        .connections()
        .iter()
        .find(|c| paths.between(c.src as usize, c.dst as usize).is_none())
    {
        let (src, dst) = (
            &plan.hosts[lost.src as usize].name,
            &plan.hosts[lost.dst as usize].name,
        );
        return Err(wrong(format!("no path of links leads from {src} to {dst}"))
            .fix("connect them, or take the pair out of the workload"));
    }
    let mut jobs = Jobs::new(hosts, workload, &transports, &Addresses(plan), paths, seed);
    for job in 0..plan.workload.jobs.jobs.len() {
        if plan.script.starts(TargetPlan::Job(job)) {
            jobs.hold(job);
        }
    }
    Ok(jobs)
}

/// Where hosts of a plan are.
struct Addresses<'a>(&'a LabPlan);

impl Directory for Addresses<'_> {
    fn address(&self, host: usize) -> IpAddr {
        self.0.hosts[host].ipv4.into()
    }

    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]> {
        next_hop_mac(self.0, from, to, IpVersion::V4)
    }
}

/// What became of the jobs.
pub(super) fn results(jobs: &Jobs) -> Results {
    jobs.workload()
        .results(&|src, dst, bytes, transport| jobs.ideal(src, dst, bytes, transport))
}

/// Connections whose packets arrived out of order, of what arrived on each.
pub(super) fn reordered(plan: &LabPlan, jobs: &Jobs, arrivals: &[Arrivals]) -> Vec<ReorderedReport> {
    let name = |host: u32| plan.hosts[host as usize].name.clone();
    let reordered = arrivals.iter().zip(jobs.workload().connections());
    reordered
        .filter(|(arrivals, _)| arrivals.out_of_order_packets > 0)
        .map(|(arrivals, connection)| ReorderedReport {
            job: plan.workload.jobs.jobs[connection.job].name.clone(),
            src: name(connection.src),
            dst: name(connection.dst),
            data_packets: arrivals.data_packets,
            out_of_order_packets: arrivals.out_of_order_packets,
        })
        .collect()
}

/// The first messages that failed, in words; the workload began at `began`.
pub(super) fn failed(plan: &LabPlan, jobs: &Jobs, began: Picos) -> Vec<String> {
    let first = jobs.failed().iter().take(FAILED_TOLD);
    first
        .map(|failed| {
            let (src, dst) = failed.hosts;
            let name = |host: u32| &plan.hosts[host as usize].name;
            format!(
                "{} to {}: a message failed after {}: {}",
                name(src),
                name(dst),
                report::nanos(failed.at.since(began).as_nanos()),
                failed.why
            )
        })
        .collect()
}

/// What is not done yet, to be put behind the reason; empty if everything is.
pub(super) fn unfinished(jobs: &Jobs) -> String {
    match jobs.is_finished() {
        true => String::new(),
        false => format!("; not done: {}", jobs.workload().pending_description().trim_end()),
    }
}
