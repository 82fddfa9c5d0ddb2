//! Builds the reports of the links of a fabric.

use std::collections::HashSet;

use xoff_units::Picos;

use super::super::plan::LabPlan;
use super::link_traffic::{LinkTraffic, traffic_of_links};
use super::shortest_path_ends::ends_on_shortest_paths;
use super::virtual_lab::VirtualLab;
use crate::plot::PlottedPort;
use crate::report::LinkReport;
use xoff_fabric::{FabricPlan, LinkEnd};
use xoff_workload::Connection;

impl VirtualLab {
    /// Returns a report for each direction of each link, with the traffic since the start of the workload.
    /// The two directions of a link follow each other.
    pub(super) fn link_reports(&self) -> Vec<LinkReport> {
        let mut traffic = traffic_of_links(&self.simulation.fabric, &self.fabric_plan);
        for (now, before) in traffic.iter_mut().zip(&self.traffic_before_workload) {
            for (now, before) in now.iter_mut().zip(before) {
                now.packets -= before.packets;
                now.bytes -= before.bytes;
            }
        }
        let connections = self.simulation.jobs.workload().connections();
        link_reports(
            &self.plan,
            &self.fabric_plan,
            connections,
            &traffic,
            self.elapsed(),
        )
    }

    /// Returns the names of all switch ports for plots.
    pub(super) fn port_names(&self) -> Vec<PlottedPort> {
        let connections = self.simulation.jobs.workload().connections();
        let usable = usable_link_ends(&self.plan, &self.fabric_plan, connections);
        let mut names = Vec::new();
        for (switch, config) in self.fabric_plan.switches.iter().enumerate() {
            for port in 0..config.ports.len() {
                let end = LinkEnd::Switch {
                    switch: switch as u32,
                    port: port as u16,
                };
                let peer = self.simulation.fabric.peer(end);
                names.push(PlottedPort {
                    port: self.end_name(end),
                    peer: peer.map_or_else(String::new, |peer| self.end_name(peer)),
                    between_switches: matches!(peer, Some(LinkEnd::Switch { .. })),
                    usable: usable.contains(&end),
                });
            }
        }
        names
    }

    /// Returns the name of an end of a link: a switch port such as `leaf1:Ethernet16`, or the name of a host.
    pub(super) fn end_name(&self, end: LinkEnd) -> String {
        end_name(&self.plan, &self.fabric_plan, end)
    }
}

/// Builds a report for each direction of each link from the traffic during `span`. The two directions of a
/// link follow each other.
pub(crate) fn link_reports(
    plan: &LabPlan,
    fabric: &FabricPlan,
    connections: &[Connection],
    traffic: &[[LinkTraffic; 2]],
    span: Picos,
) -> Vec<LinkReport> {
    let usable = usable_link_ends(plan, fabric, connections);
    let mut reports = Vec::with_capacity(2 * traffic.len());
    for (link, directions) in fabric.links.iter().zip(traffic) {
        let [a, b] = link.ends;
        for ([from, to], traffic) in [[a, b], [b, a]].into_iter().zip(directions) {
            let mut report = LinkReport {
                name: link.name.clone(),
                from: end_name(plan, fabric, from),
                to: end_name(plan, fabric, to),
                speed_mbps: speed_mbps(fabric, from),
                tx_packets: traffic.packets,
                tx_bytes: traffic.bytes,
                utilisation: None,
                between_switches: [from, to].iter().all(|end| matches!(end, LinkEnd::Switch { .. })),
                usable: usable.contains(&from),
            };
            report.utilisation = report.utilisation_during(span);
            reports.push(report);
        }
    }
    reports
}

/// Returns the sending ends of all link directions that the workload could use. These are the directions on
/// shortest paths of jobs and flows.
fn usable_link_ends(plan: &LabPlan, fabric: &FabricPlan, connections: &[Connection]) -> HashSet<LinkEnd> {
    let jobs = connections
        .iter()
        .map(|connection| (connection.src, connection.dst));
    let flows = plan.workload.flows.iter();
    let flows = flows.map(|flow| (flow.from as u32, flow.to as u32));
    let (switches, hosts) = (fabric.switches.len(), fabric.hosts.len());
    ends_on_shortest_paths(&fabric.links, switches, hosts, jobs.chain(flows)).ends
}

fn end_name(plan: &LabPlan, fabric: &FabricPlan, end: LinkEnd) -> String {
    match end {
        LinkEnd::Switch { switch, port } => {
            let config = &fabric.switches[switch as usize];
            format!("{}:{}", config.name, config.ports[usize::from(port)].name)
        }
        LinkEnd::Host(host) => plan.hosts[host as usize].name.clone(),
    }
}

fn speed_mbps(fabric: &FabricPlan, end: LinkEnd) -> u32 {
    match end {
        LinkEnd::Switch { switch, port } => {
            let config = &fabric.switches[switch as usize];
            config.ports[usize::from(port)].link.speed_mbps
        }
        LinkEnd::Host(host) => fabric.hosts[host as usize].nic.link.speed_mbps,
    }
}
