//! The facts of a lab that decide its verdict: the traffic of its workload, the expectations of its flows, and the
//! classes whose frames must not exceed an MTU.

use std::collections::BTreeMap;

use super::plan::{FlowPlan, LabPlan};
use crate::report::{HostReport, Report};
use xoff_fabric::FabricPlan;
use xoff_telemetry::FlowReport;
use xoff_telemetry::verdict::{ExpectationResult, ProtectedClasses, Traffic};

/// Decides the verdict of a lab. Call this function when the report has all results of flows and hosts.
pub(super) fn judge(report: &mut Report, plan: &LabPlan, fabric: &FabricPlan) {
    let traffic = workload_traffic(plan, report);
    let expectations = compare_expectations(plan, &report.flows);
    report.judge(traffic, expectations, &protected_classes(plan, fabric));
}

/// Returns the traffic of the workload. A lab without a workload needs no traffic.
fn workload_traffic(plan: &LabPlan, report: &Report) -> Traffic {
    let workload = &plan.workload;
    if workload.flows.is_empty() && workload.jobs.jobs.is_empty() {
        return Traffic {
            notes: vec!["no traffic of a workload".to_owned()],
            ..Traffic::default()
        };
    }
    let hosts = match (&report.virtual_time, &report.real_time) {
        (Some(virtual_time), _) => &virtual_time.hosts[..],
        (None, Some(real_time)) => &real_time.hosts[..],
        (None, None) => &[],
    };
    let of_hosts = |counter: &str| -> u64 {
        let count = |host: &HostReport| host.counters.get(counter).copied().unwrap_or(0);
        hosts.iter().map(count).sum()
    };
    Traffic {
        offered_frames: Some(report.totals.sent_frames + of_hosts("tx_packets")),
        arrived_frames: Some(report.totals.received_frames + of_hosts("rx_data_packets")),
        notes: Vec::new(),
    }
}

/// Compares the expectations of flows with the frames that arrived.
fn compare_expectations(plan: &LabPlan, reports: &[FlowReport]) -> Vec<ExpectationResult> {
    let of_flow = |(index, flow): (usize, &FlowPlan)| -> Vec<ExpectationResult> {
        let (src, dst) = (&plan.hosts[flow.from].name, &plan.hosts[flow.to].name);
        // The reports have the order of the flows. A flow whose hosts died has no report.
        let report = reports
            .get(index)
            .filter(|report| report.src == *src && report.dst == *dst);
        let arrived = report.map_or((0, 0), |report| (report.received_frames, report.received_bytes));
        let place = format!("flow {}, {src} to {dst}", flow.name);
        let expected = flow.expect.iter();
        expected
            .map(|expected| expected.compare(&place, arrived.0, arrived.1))
            .collect()
    };
    plan.workload.flows.iter().enumerate().flat_map(of_flow).collect()
}

/// Returns the classes of jobs, of lossless flows and of flows with expectations, at each switch.
fn protected_classes(plan: &LabPlan, fabric: &FabricPlan) -> ProtectedClasses {
    let owners = owners_by_dscp(plan);
    let mut protected = ProtectedClasses::default();
    for switch in &fabric.switches {
        for (dscp, owner) in &owners {
            // An egress port counts frames by the class that their ingress port selected.
            let mut classes: Vec<u8> = switch
                .ports
                .iter()
                .map(|port| port.classify.traffic_class_of(Some(*dscp), None))
                .collect();
            classes.sort_unstable();
            classes.dedup();
            for port in &switch.ports {
                for class in &classes {
                    protected.protect(&switch.name, &port.name, *class, owner);
                }
            }
        }
    }
    protected
}

/// Returns the DSCPs whose frames must arrive, each with the name of one of their senders.
fn owners_by_dscp(plan: &LabPlan) -> BTreeMap<u8, String> {
    let mut owners = BTreeMap::new();
    for job in &plan.workload.jobs.jobs {
        if let Some(transport) = plan.transports.get(job.transport) {
            for dscp in transport.dscp {
                owners.entry(dscp).or_insert_with(|| format!("job {}", job.name));
            }
        }
    }
    for flow in &plan.workload.flows {
        let owner = match (flow.lossless, flow.expect.first()) {
            (true, _) => format!("the lossless flow {}", flow.name),
            (false, Some(expected)) => format!("flow {} with the expectation {expected}", flow.name),
            (false, None) => continue,
        };
        owners.entry(flow.dscp).or_insert(owner);
    }
    owners
}
