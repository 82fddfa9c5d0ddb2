//! Traffic and load balance of the links of a fabric.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use xoff_dataplane::{LinkTiming, Picos, PortId};

use super::super::plan::LabPlan;
use super::virtual_lab::VirtualLab;
use crate::plot::PortName;
use xoff_fabric::{Fabric, FabricPlan, LinkEnd, LinkPlan};
use xoff_host::NicCounters;
use xoff_units::{jain_index, max_mean_ratio};
use xoff_workload::Connection;

/// The report of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Name of the link.
    pub name: String,
    /// The sending end of this direction. The name is a switch port, such as `leaf1:Ethernet16`, or a host.
    pub from: String,
    /// The receiving end.
    pub to: String,
    /// Speed of the sending end, in Mb/s.
    pub speed_mbps: u32,
    /// Frames sent since the start of the workload, without MAC control frames.
    pub tx_packets: u64,
    /// Bytes of these frames, from the destination address to the FCS.
    pub tx_bytes: u64,
    /// Utilisation of this direction since the start of the workload. The value 0.5 means that frames, with
    /// preambles and gaps, occupied the link for half of the time. `None` if no time has passed.
    pub utilisation: Option<f64>,
    /// Whether both ends are switches.
    pub between_switches: bool,
    /// Whether the workload could use this direction. This is the case if the direction is on a shortest path
    /// from a sender to a receiver.
    pub usable: bool,
}

/// The load balance of the links between switches. Each direction of a link counts separately, and only
/// directions that the workload could use are included. The load of a direction is the number of sent bytes
/// divided by the speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkBalanceReport {
    /// Number of usable link directions between switches.
    pub links: u32,
    /// Largest load divided by the mean load. The value is 1 if all loads are equal.
    pub max_mean_ratio: f64,
    /// Jain's index `(sum x)^2 / (n * sum x^2)` of the n loads. The value is 1 if all loads are equal. The
    /// value is `1/n` if a single direction carries all traffic.
    pub jain_index: f64,
}

impl LinkBalanceReport {
    /// Computes the load balance of the links between switches. Returns `None` if the workload could use none
    /// of these links, or if they carried no traffic.
    pub fn of_links(links: &[LinkReport]) -> Option<LinkBalanceReport> {
        let balanced = links.iter().filter(|link| link.between_switches && link.usable);
        let loads: Vec<f64> = balanced.map(LinkReport::load).collect();
        Some(LinkBalanceReport {
            links: loads.len() as u32,
            max_mean_ratio: max_mean_ratio(&loads)?,
            jain_index: jain_index(&loads)?,
        })
    }
}

impl LinkReport {
    /// Returns the bytes on the link divided by the speed. This is proportional to the time that the link was
    /// busy.
    fn load(&self) -> f64 {
        let bytes = self.tx_bytes + self.tx_packets * u64::from(overhead_bytes_per_frame(self.speed_mbps));
        bytes as f64 / f64::from(self.speed_mbps.max(1))
    }

    fn utilisation_during(&self, span: Picos) -> Option<f64> {
        // A speed in Mb/s is a number of bits per microsecond.
        let span_us = span.0 as f64 / 1e6;
        (span.0 > 0).then(|| self.load() * 8.0 / span_us)
    }
}

/// Bytes of preamble, start delimiter and inter-frame gap of each frame.
fn overhead_bytes_per_frame(speed_mbps: u32) -> u32 {
    LinkTiming::ethernet(speed_mbps).overhead_bytes
}

/// Frames and bytes that one direction of a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkTraffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Returns the traffic of both directions of each link since the creation of the fabric.
pub(super) fn traffic_of_links(fabric: &Fabric, plan: &FabricPlan) -> Vec<[LinkTraffic; 2]> {
    let sent = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, port } => {
            let counters = fabric
                .switch(switch as usize)
                .port_counters(fabric.now(), PortId(port));
            LinkTraffic {
                packets: counters.tx_packets,
                bytes: counters.tx_bytes,
            }
        }
        LinkEnd::Host(host) => LinkTraffic::of_nic(&fabric.host(host as usize).nic_counters(fabric.now())),
    };
    plan.links
        .iter()
        .map(|link| [sent(link.ends[0]), sent(link.ends[1])])
        .collect()
}

impl LinkTraffic {
    /// Returns the traffic that the NIC of a host has sent.
    pub(crate) fn of_nic(counters: &NicCounters) -> LinkTraffic {
        LinkTraffic {
            packets: counters.all_tx_frames(),
            bytes: counters.all_tx_bytes(),
        }
    }
}

impl VirtualLab {
    /// Returns a report for each direction of each link since the start of the workload. The two directions
    /// of a link follow each other.
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
    pub(super) fn port_names(&self) -> Vec<PortName> {
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
                names.push(PortName {
                    port: self.end_name(end),
                    peer: peer.map_or_else(String::new, |peer| self.end_name(peer)),
                    between_switches: matches!(peer, Some(LinkEnd::Switch { .. })),
                    usable: usable.contains(&end),
                });
            }
        }
        names
    }

    /// Returns the name of an end of a link. The name is a switch port, such as `leaf1:Ethernet16`, or a
    /// host.
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

/// Returns the sending end of each link direction that the workload could use. Such a direction is on a
/// shortest path of a job or flow.
fn usable_link_ends(plan: &LabPlan, fabric: &FabricPlan, connections: &[Connection]) -> BTreeSet<LinkEnd> {
    let jobs = connections
        .iter()
        .map(|connection| (connection.src, connection.dst));
    let flows = plan.workload.flows.iter();
    let flows = flows.map(|flow| (flow.from as u32, flow.to as u32));
    let (switches, hosts) = (fabric.switches.len(), fabric.hosts.len());
    ends_on_shortest_paths(&fabric.links, switches, hosts, jobs.chain(flows))
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

/// Returns the sending end of each link direction that is on a shortest path of at least one pair. A pair
/// contains the indices of a source host and a destination host. The length of a path is its number of links.
fn ends_on_shortest_paths(
    links: &[LinkPlan],
    switch_count: usize,
    host_count: usize,
    pairs: impl Iterator<Item = (u32, u32)>,
) -> BTreeSet<LinkEnd> {
    let node = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, .. } => switch as usize,
        LinkEnd::Host(host) => switch_count + host as usize,
    };
    // For each node: its end of each link, and the node at the other end.
    let mut neighbours: Vec<Vec<(LinkEnd, usize)>> = vec![Vec::new(); switch_count + host_count];
    for link in links {
        let [a, b] = link.ends;
        neighbours[node(a)].push((a, node(b)));
        neighbours[node(b)].push((b, node(a)));
    }
    let mut sources: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in pairs {
        let to = sources.entry(switch_count + to as usize).or_default();
        to.insert(switch_count + from as usize);
    }
    let mut used = BTreeSet::new();
    let mut distance = vec![usize::MAX; neighbours.len()];
    let mut queue = Vec::new();
    for (goal, starts) in sources {
        distance.fill(usize::MAX);
        distance[goal] = 0;
        queue.clear();
        queue.push(goal);
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            // Hosts forward no frames.
            if at >= switch_count && at != goal {
                continue;
            }
            for &(_, neighbour) in &neighbours[at] {
                if distance[neighbour] == usize::MAX {
                    distance[neighbour] = distance[at] + 1;
                    queue.push(neighbour);
                }
            }
        }
        let mut seen: BTreeSet<usize> = starts;
        let mut open: Vec<usize> = seen.iter().copied().collect();
        while let Some(at) = open.pop() {
            for &(end, neighbour) in &neighbours[at] {
                let nearer = distance[at] != usize::MAX && distance[neighbour] < distance[at];
                if nearer && (neighbour < switch_count || neighbour == goal) {
                    used.insert(end);
                    if seen.insert(neighbour) {
                        open.push(neighbour);
                    }
                }
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_report(speed_mbps: u32, tx_bytes: u64, usable: bool) -> LinkReport {
        LinkReport {
            name: String::new(),
            from: String::new(),
            to: String::new(),
            speed_mbps,
            tx_packets: 0,
            tx_bytes,
            utilisation: None,
            between_switches: true,
            usable,
        }
    }

    #[test]
    fn balance_uses_usable_links_between_switches_and_their_speeds() {
        let equal = [
            link_report(100, 1_000, true),
            link_report(100, 1_000, true),
            link_report(100, 0, false),
        ];
        let balance = LinkBalanceReport::of_links(&equal).unwrap();
        assert_eq!(
            (balance.links, balance.max_mean_ratio, balance.jain_index),
            (2, 1.0, 1.0)
        );
        // Twice the bytes at twice the speed are the same load.
        let speeds = [link_report(100, 1_000, true), link_report(200, 2_000, true)];
        assert_eq!(LinkBalanceReport::of_links(&speeds).unwrap().max_mean_ratio, 1.0);
        // Loads 3, 1, 0, 0: the largest is three times the mean, and Jain's index 16 / (4 * 10).
        let uneven = [3_000, 1_000, 0, 0].map(|bytes| link_report(100, bytes, true));
        let balance = LinkBalanceReport::of_links(&uneven).unwrap();
        assert_eq!((balance.max_mean_ratio, balance.jain_index), (3.0, 0.4));
        assert_eq!(LinkBalanceReport::of_links(&[link_report(100, 0, true)]), None);
        let mut to_host = link_report(100, 1_000, true);
        to_host.between_switches = false;
        assert_eq!(LinkBalanceReport::of_links(&[to_host]), None);
    }

    #[test]
    fn utilisation_includes_preamble_and_gap() {
        let mut busy = link_report(100_000, 1_230 * 1_000, true);
        busy.tx_packets = 1_000;
        // 1250 bytes take 100 ns at 100 Gb/s.
        assert_eq!(busy.utilisation_during(Picos::from_micros(200)), Some(0.5));
        assert_eq!(busy.utilisation_during(Picos::ZERO), None);
    }

    /// Switches 0 and 1 are leaves, and switches 2 and 3 are spines. Hosts 0 and 1 are connected to leaf 0,
    /// and host 2 is connected to leaf 1.
    #[test]
    fn ends_on_shortest_paths_are_usable() {
        let port = |switch: u32, port: u16| LinkEnd::Switch { switch, port };
        let ends = [
            [LinkEnd::Host(0), port(0, 0)],
            [LinkEnd::Host(1), port(0, 1)],
            [LinkEnd::Host(2), port(1, 0)],
            [port(0, 2), port(2, 0)],
            [port(0, 3), port(3, 0)],
            [port(1, 2), port(2, 1)],
            [port(1, 3), port(3, 1)],
        ];
        let links = ends.map(|ends| LinkPlan {
            name: String::new(),
            ends,
            delay: Picos::ZERO,
        });
        let across = ends_on_shortest_paths(&links, 4, 3, [(0, 2)].into_iter());
        let expected = [
            LinkEnd::Host(0),
            port(0, 2),
            port(0, 3),
            port(2, 1),
            port(3, 1),
            port(1, 0),
        ];
        assert_eq!(across, expected.into());
        let inside = ends_on_shortest_paths(&links, 4, 3, [(0, 1)].into_iter());
        assert_eq!(inside, [LinkEnd::Host(0), port(0, 1)].into());
    }
}
