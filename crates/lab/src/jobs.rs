//! Creates the jobs of a lab on its hosts and collects their results. Used in virtual time and in real time.

use std::net::IpAddr;

use xoff_units::Picos;

use super::model_hosts::next_hop_mac;
use super::plan::{IpVersion, LabPlan, WorkloadTarget};
use super::unconnected_pair::{UnconnectedPair, first_unconnected_pair};
use crate::report::ReorderedConnectionReport;
use xoff_fabric::{FabricPlan, HostDirectory, JobHosts, Jobs, Paths, ReceivedPackets, ReferenceTimes};
use xoff_telemetry::failure::Failure;
use xoff_workload::{Workload, WorkloadResults};

/// Largest number of failed messages in a report.
const FAILED_MESSAGES_LISTED_MAX: usize = 8;

/// Creates the jobs of a plan and their queue pairs. If a script step starts a job, the job waits
/// for this step.
///
/// # Errors
/// Fails if a job is invalid, or if a job connects two hosts without a path of links between them.
pub(super) fn create_jobs(
    plan: &LabPlan,
    fabric_plan: &FabricPlan,
    seed: u64,
    hosts: &mut impl JobHosts,
) -> Result<Jobs, Failure> {
    let invalid = |error: String| Failure::configuration(error).at(&plan.name);
    let paths = Paths::new(fabric_plan);
    let speed = |host: u32| {
        let host = fabric_plan.hosts.get(host as usize);
        host.map_or(0, |host| u64::from(host.nic.link.speed_mbps) * 1_000_000)
    };
    let workload =
        Workload::new(&plan.workload.jobs, seed, &speed).map_err(|error| invalid(error.to_string()))?;
    let transports = plan
        .transports
        .iter()
        .map(|transport| {
            transport
                .to_job_transport()
                .map_err(|error| invalid(format!("transport {}: {error}", transport.name)))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    if let Some(pair) = first_unconnected_pair(plan, &workload, &paths) {
        return Err(invalid(pair.to_string()).fix(UnconnectedPair::FIX));
    }
    let routing = (paths, ReferenceTimes::new(fabric_plan));
    let mut jobs = Jobs::new(hosts, workload, &transports, &PlanAddresses(plan), routing, seed);
    for target in plan.script.started_targets() {
        if let WorkloadTarget::Job(job) = target {
            jobs.hold_job(job);
        }
    }
    Ok(jobs)
}

/// The addresses of the hosts of a plan.
struct PlanAddresses<'a>(&'a LabPlan);

impl HostDirectory for PlanAddresses<'_> {
    fn address(&self, host: usize) -> IpAddr {
        self.0.hosts[host].ipv4.into()
    }

    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]> {
        next_hop_mac(self.0, from, to, IpVersion::V4)
    }
}

/// Returns the results of all jobs. Points in time count from the start of the workload.
pub(super) fn workload_results(jobs: &Jobs, workload_start: Picos) -> WorkloadResults {
    jobs.workload()
        .results(&|connection, bytes| jobs.least_time(connection, bytes))
        .since(workload_start)
}

/// Returns the connections on which packets arrived out of order. `received` contains the packet counts of
/// all connections, in the order of the connections.
pub(super) fn reordered_connections(
    plan: &LabPlan,
    jobs: &Jobs,
    received: &[ReceivedPackets],
) -> Vec<ReorderedConnectionReport> {
    let name = |host: u32| plan.hosts[host as usize].name.clone();
    let reordered = received.iter().zip(jobs.workload().connections());
    reordered
        .filter(|(received, _)| received.out_of_order_packets > 0)
        .map(|(received, connection)| ReorderedConnectionReport {
            job: plan.workload.jobs.jobs[connection.job].name.clone(),
            src: name(connection.src),
            dst: name(connection.dst),
            data_packets: received.data_packets,
            out_of_order_packets: received.out_of_order_packets,
        })
        .collect()
}

/// Describes the first failed messages, one line each. The times in the text start at the start of
/// the workload.
pub(super) fn describe_failed_messages(plan: &LabPlan, jobs: &Jobs, workload_start: Picos) -> Vec<String> {
    let first = jobs.failed().iter().take(FAILED_MESSAGES_LISTED_MAX);
    first
        .map(|failed| {
            let (src, dst) = failed.hosts;
            let name = |host: u32| &plan.hosts[host as usize].name;
            format!(
                "{} to {}: a message failed after {}: {}",
                name(src),
                name(dst),
                xoff_telemetry::format_nanos(failed.at.since(workload_start).as_nanos()),
                failed.why
            )
        })
        .collect()
}

/// Describes the interruption of a run by the user, `elapsed_ns` of model time after the start of the workload.
/// `unfinished_jobs` is the result of [`describe_unfinished_jobs`].
pub(super) fn describe_interruption(elapsed_ns: u64, unfinished_jobs: &str) -> String {
    format!(
        "interrupted at {} of model time, and all figures end there{unfinished_jobs}",
        xoff_telemetry::format_nanos(elapsed_ns)
    )
}

/// Describes the unfinished jobs as the end of a message, which begins with `; not done: `. Returns an empty
/// text if all jobs are finished.
pub(super) fn describe_unfinished_jobs(plan: &LabPlan, jobs: &Jobs) -> String {
    let host_name = |host: u32| plan.hosts[host as usize].name.as_str();
    match jobs.is_finished() {
        true => String::new(),
        false => format!(
            "; not done: {}",
            jobs.workload().pending_description(host_name).trim_end()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use xoff_units::Picos;

    use crate::plan::TimeMode;
    use crate::{LabOptions, VirtualLab, parse_lab};

    /// Sets up a lab of four nodes with two GPUs each. GPU 1 of each node is connected to one switch, and GPU
    /// 2 to another switch. The switches are not connected.
    fn rail_lab(routes: &str, job: &str, seed: u64) -> Result<VirtualLab, String> {
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
    fn random_pairs_of_a_seed_need_a_path() {
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
            let mut rejected = 0;
            for seed in 0..32 {
                let Err(why) = rail_lab("", kind, seed) else {
                    continue;
                };
                rejected += 1;
                assert!(why.contains(&format!("job \"j\": {from}")), "{why}");
                assert!(
                    why.contains(" sends to ") && why.contains("no path of links leads"),
                    "{why}"
                );
            }
            assert!(
                (1..32).contains(&rejected),
                "{kind}: {rejected} seeds are rejected"
            );
        }
    }

    #[test]
    fn times_of_jobs_count_from_the_start_of_the_workload() {
        let job = "start: 10us, kind: flows, flows: [{from: n1-g1, to: n2-g1, bytes: 1k, start: 5us}]";
        let mut lab = rail_lab("", job, 0).unwrap_or_else(|why| panic!("{why}"));
        lab.resolve_addresses(&mut ())
            .unwrap_or_else(|why| panic!("{why}"));
        assert!(
            lab.workload_start > Picos::ZERO,
            "the hosts resolve addresses first"
        );
        lab.start_workload(&mut ());
        lab.run(Picos::from_millis(1), true, &mut ());
        let results = lab.job_results();
        assert!(results.jobs[0].finished);
        assert_eq!(
            (results.jobs[0].start_ns, results.flows[0].start_ns),
            (10_000, 15_000)
        );
    }

    #[test]
    fn paths_of_a_job_are_checked_without_routes() {
        let routes = "  routes: none\n";
        let flow = |to: &str| format!("kind: flows, flows: [{{from: n1-g1, to: {to}, bytes: 1k}}]");
        let lab = rail_lab(routes, &flow("n2-g1"), 0);
        lab.unwrap_or_else(|why| panic!("{why}"));
        let why = rail_lab(routes, &flow("n2-g2"), 0).expect_err("another rail");
        assert!(
            why.contains("job \"j\": n1-g1 sends to n2-g2, but no path of links leads from n1-g1 to n2-g2"),
            "{why}"
        );
    }

    /// A search from one host to another visits all cores of a fat tree. The cores with the same neighbours are looked
    /// up once.
    #[test]
    fn the_search_for_a_reference_time_is_linear_in_the_ports_of_a_switch() {
        for k in [4, 8] {
            let text = format!(
                "name: x\ntopology:\n  fabric:\n    fat-tree: {{k: {k}, speed: 100g, config: {{preset: roce-lossless}}}}\n\
                 workload:\n  jobs:\n    - {{name: j, kind: permutation, hosts: all, bytes: 4k}}\n"
            );
            let plan = parse_lab(&text, "lab.yml", Path::new(""), TimeMode::Virtual)
                .unwrap_or_else(|problems| panic!("{problems}"));
            let lab =
                VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
            let jobs = &lab.simulation.jobs;
            let connections = jobs.workload().connections();
            for connection in connections {
                assert!(jobs.least_time(connection, 4_096).is_some(), "{connection:?}");
            }
            let per_pair = jobs.reference_times().forwarding_look_ups() / connections.len() as u64;
            // An edge switch and half of the aggregation switches in both pods, and a core of each group.
            let most = 2 + 3 * k / 2;
            assert!(
                (1..=most).contains(&per_pair),
                "k = {k}: {per_pair} look-ups for a pair"
            );
        }
    }
}
