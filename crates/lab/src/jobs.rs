//! The jobs of a lab on its hosts, in virtual and in real time.

use std::fmt;
use std::net::IpAddr;

use xoff_units::Picos;

use super::model_hosts::next_hop_mac;
use super::plan::{IpVersion, LabPlan, TargetPlan};
use super::virtual_run::ReorderedConnectionReport;
use xoff_fabric::{FabricPlan, HostDirectory, JobHosts, Jobs, Paths, ReceivedPackets, ReferenceTimes};
use xoff_telemetry::failure::Failure;
use xoff_workload::{Workload, WorkloadResults};

/// Most messages that failed which are told.
const FAILED_TOLD: usize = 8;

/// Creates the queue pairs of a plan's jobs. Those that its script starts wait for it.
///
/// # Errors
/// A job that cannot be, or one that connects a pair of hosts that no path of links joins.
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
    if let Some(pair) = no_path(plan, &workload, &paths) {
        return Err(wrong(pair.to_string()).fix(UnconnectedPair::FIX));
    }
    let on = (paths, ReferenceTimes::new(fabric_plan));
    let mut jobs = Jobs::new(hosts, workload, &transports, &Addresses(plan), on, seed);
    for job in 0..plan.workload.jobs.jobs.len() {
        if plan.script.starts(TargetPlan::Job(job)) {
            jobs.hold_job(job);
        }
    }
    Ok(jobs)
}

/// A pair of hosts that a job connects and that no path of links joins.
pub(super) struct UnconnectedPair<'a> {
    pub(super) job: &'a str,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// Further pairs of the job without a path.
    pub(super) others: usize,
}

impl UnconnectedPair<'_> {
    pub(super) const FIX: &'static str =
        "add a link that joins their parts of the topology, or take the pair out of the job";
}

impl fmt::Display for UnconnectedPair<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnconnectedPair {
            job,
            from,
            to,
            others,
        } = self;
        write!(
            out,
            "job \"{job}\": {from} sends to {to}, but no path of links leads from {from} to {to}"
        )?;
        match others {
            0 => Ok(()),
            1 => write!(out, "; the same is true of another pair of the job"),
            others => write!(out, "; the same is true of {others} other pairs of the job"),
        }
    }
}

/// The first connection of a workload whose hosts no path joins, and how many others its job has.
fn no_path<'a>(plan: &'a LabPlan, workload: &Workload, paths: &Paths) -> Option<UnconnectedPair<'a>> {
    let connections = workload.connections().iter();
    let mut apart = connections.filter(|c| !paths.are_connected(c.src as usize, c.dst as usize));
    let first = apart.next()?;
    Some(UnconnectedPair {
        job: &plan.workload.jobs.jobs[first.job].name,
        from: &plan.hosts[first.src as usize].name,
        to: &plan.hosts[first.dst as usize].name,
        others: apart.filter(|other| other.job == first.job).count(),
    })
}

/// Where hosts of a plan are.
struct Addresses<'a>(&'a LabPlan);

impl HostDirectory for Addresses<'_> {
    fn address(&self, host: usize) -> IpAddr {
        self.0.hosts[host].ipv4.into()
    }

    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]> {
        next_hop_mac(self.0, from, to, IpVersion::V4)
    }
}

/// What became of the jobs.
pub(super) fn results(jobs: &Jobs) -> WorkloadResults {
    jobs.workload()
        .results(&|connection, bytes| jobs.least_time(connection, bytes))
}

/// Connections whose packets arrived out of order, of what arrived on each.
pub(super) fn reordered(
    plan: &LabPlan,
    jobs: &Jobs,
    arrivals: &[ReceivedPackets],
) -> Vec<ReorderedConnectionReport> {
    let name = |host: u32| plan.hosts[host as usize].name.clone();
    let reordered = arrivals.iter().zip(jobs.workload().connections());
    reordered
        .filter(|(arrivals, _)| arrivals.out_of_order_packets > 0)
        .map(|(arrivals, connection)| ReorderedConnectionReport {
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
                xoff_telemetry::format_nanos(failed.at.since(began).as_nanos()),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::plan::TimeMode;
    use crate::{LabOptions, VirtualLab, parse_lab};

    /// Sets up a lab of four nodes with two GPUs each, whose rails nothing joins.
    fn rails(routes: &str, job: &str, seed: u64) -> Result<VirtualLab, String> {
        let text = format!(
            "name: rails\ntopology:\n  fabric:\n    rail: {{nodes: 4, gpus: 2, spines: 0, speed: 100g, config: {{preset: roce-lossless}}}}\n{routes}\
             workload:\n  jobs:\n    - {{name: j, {job}}}\n"
        );
        let plan =
            parse_lab(&text, "lab.yml", Path::new(""), TimeMode::Virtual).map_err(|all| all.to_string())?;
        let options = LabOptions {
            seed,
            ..LabOptions::default()
        };
        VirtualLab::new(plan, options).map_err(|failure| failure.to_string())
    }

    #[test]
    fn pairs_that_the_seed_decides_need_a_path_with_that_seed() {
        for (kind, from) in [
            (
                "kind: permutation, hosts: [n1-g1, n2-g1, n1-g2, n2-g2], bytes: 1k",
                "",
            ),
            (
                "kind: poisson, from: [n1-g1], to: [n2-g1, n3-g2], sizes: 1k, load: 10%, flows_max: 2",
                "n1-g1",
            ),
        ] {
            let mut refused = 0;
            for seed in 0..32 {
                let Err(why) = rails("", kind, seed) else { continue };
                refused += 1;
                assert!(why.contains(&format!("job \"j\": {from}")), "{why}");
                assert!(
                    why.contains(" sends to ") && why.contains("no path of links leads"),
                    "{why}"
                );
            }
            assert!((1..32).contains(&refused), "{kind}: {refused} seeds are refused");
        }
    }

    #[test]
    fn without_routes_the_paths_of_a_job_are_checked_too() {
        let routes = "  routes: none\n";
        let flow = |to: &str| format!("kind: flows, flows: [{{from: n1-g1, to: {to}, bytes: 1k}}]");
        let lab = rails(routes, &flow("n2-g1"), 0);
        lab.unwrap_or_else(|why| panic!("{why}"));
        let why = rails(routes, &flow("n2-g2"), 0).expect_err("another rail");
        assert!(
            why.contains("job \"j\": n1-g1 sends to n2-g2, but no path of links leads from n1-g1 to n2-g2"),
            "{why}"
        );
    }
}
