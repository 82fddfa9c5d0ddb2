//! What links carried, and how evenly.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use xoff_dataplane::{LinkTiming, Picos, PortId};

use super::super::plan::LabPlan;
use super::build::VirtualLab;
use crate::plot::PortName;
use xoff_fabric::{Fabric, FabricPlan, LinkEnd, LinkPlan};
use xoff_host::NicCounters;
use xoff_units::{jain_index, max_mean_ratio};
use xoff_workload::Connection;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Name of the link.
    pub name: String,
    /// The end that sends: `leaf1:Ethernet16`, or the name of a host.
    pub from: String,
    /// The end that receives.
    pub to: String,
    /// Speed of the sending end, in Mb/s.
    pub speed_mbps: u32,
    /// Frames sent since the workload started, MAC control frames not counted.
    pub tx_packets: u64,
    /// Their bytes, from destination address to FCS.
    pub tx_bytes: u64,
    /// Share of the workload's time in which the link was busy with them, preamble and gap included; `None` before time
    /// has passed.
    pub utilisation: Option<f64>,
    /// Both ends are switches.
    pub between_switches: bool,
    /// It is on a shortest path from a host of the workload to another that it sends data to.
    pub usable: bool,
}

/// How evenly the directions of links between switches that the workload could have used were loaded. A load is time: what
/// the link carried, at its own speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// How many directions of links.
    pub links: u32,
    /// The largest load over the mean one: 1 if all are equal.
    pub max_mean_ratio: f64,
    /// Jain's index `(sum x)^2 / (n * sum x^2)` of the loads: 1 if all are equal, `1/n` if one has everything.
    pub jain_index: f64,
}

impl BalanceReport {
    /// Of all links; `None` where none between switches was usable, or nothing was sent.
    pub fn of(links: &[LinkReport]) -> Option<BalanceReport> {
        let of_interest = links.iter().filter(|link| link.between_switches && link.usable);
        let loads: Vec<f64> = of_interest.map(LinkReport::load).collect();
        Some(BalanceReport {
            links: loads.len() as u32,
            max_mean_ratio: max_mean_ratio(&loads)?,
            jain_index: jain_index(&loads)?,
        })
    }
}

impl LinkReport {
    /// Octets over speed: proportional to the time that the link was busy.
    fn load(&self) -> f64 {
        let octets = self.tx_bytes + self.tx_packets * u64::from(overhead(self.speed_mbps));
        octets as f64 / f64::from(self.speed_mbps.max(1))
    }

    fn utilisation_in(&self, span: Picos) -> Option<f64> {
        // Mb/s are bits in a microsecond.
        let span_us = span.0 as f64 / 1e6;
        (span.0 > 0).then(|| self.load() * 8.0 / span_us)
    }
}

/// Octets that Ethernet spends on a frame beside it.
fn overhead(speed_mbps: u32) -> u32 {
    LinkTiming::ethernet(speed_mbps).overhead_bytes
}

/// What one direction of a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// What both directions of every link have carried since the fabric was made.
pub(super) fn carried(fabric: &Fabric, plan: &FabricPlan) -> Vec<[Carried; 2]> {
    let sent = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, port } => {
            let counters = fabric
                .switch(switch as usize)
                .port_counters(fabric.now(), PortId(port));
            Carried {
                packets: counters.tx_packets,
                bytes: counters.tx_bytes,
            }
        }
        LinkEnd::Host(host) => Carried::by_nic(&fabric.host(host as usize).nic_counters(fabric.now())),
    };
    plan.links
        .iter()
        .map(|link| [sent(link.ends[0]), sent(link.ends[1])])
        .collect()
}

impl Carried {
    /// What a host's NIC has sent.
    pub(crate) fn by_nic(counters: &NicCounters) -> Carried {
        Carried {
            packets: counters.all_tx_frames(),
            bytes: counters.all_tx_bytes(),
        }
    }
}

impl VirtualLab {
    /// What every link has carried since the workload started, both directions of one after the other.
    pub(super) fn link_reports(&self) -> Vec<LinkReport> {
        let mut carried = carried(&self.simulation.fabric, &self.fabric_plan);
        for (now, before) in carried.iter_mut().zip(&self.carried_before) {
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
            &carried,
            self.elapsed(),
        )
    }

    /// What plots call the ports of the switches.
    pub(super) fn names(&self) -> Vec<PortName> {
        let connections = self.simulation.jobs.workload().connections();
        let usable = usable_by(&self.plan, &self.fabric_plan, connections);
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

    /// What an end of a link is called.
    pub(super) fn end_name(&self, end: LinkEnd) -> String {
        end_name(&self.plan, &self.fabric_plan, end)
    }
}

/// What every link has carried within `span`, both directions of one after the other.
pub(crate) fn link_reports(
    plan: &LabPlan,
    fabric: &FabricPlan,
    connections: &[Connection],
    carried: &[[Carried; 2]],
    span: Picos,
) -> Vec<LinkReport> {
    let usable = usable_by(plan, fabric, connections);
    let mut reports = Vec::with_capacity(2 * carried.len());
    for (link, carried) in fabric.links.iter().zip(carried) {
        let [a, b] = link.ends;
        for ([from, to], carried) in [[a, b], [b, a]].into_iter().zip(carried) {
            let mut report = LinkReport {
                name: link.name.clone(),
                from: end_name(plan, fabric, from),
                to: end_name(plan, fabric, to),
                speed_mbps: speed_mbps(fabric, from),
                tx_packets: carried.packets,
                tx_bytes: carried.bytes,
                utilisation: None,
                between_switches: [from, to].iter().all(|end| matches!(end, LinkEnd::Switch { .. })),
                usable: usable.contains(&from),
            };
            report.utilisation = report.utilisation_in(span);
            reports.push(report);
        }
    }
    reports
}

/// The sending ends of all directions of links that are on a shortest path of the workload's data.
fn usable_by(plan: &LabPlan, fabric: &FabricPlan, connections: &[Connection]) -> BTreeSet<LinkEnd> {
    let jobs = connections
        .iter()
        .map(|connection| (connection.src, connection.dst));
    let flows = plan.workload.flows.iter();
    let flows = flows.map(|flow| (flow.from as u32, flow.to as u32));
    let (switches, hosts) = (fabric.switches.len(), fabric.hosts.len());
    usable(&fabric.links, switches, hosts, jobs.chain(flows))
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

/// The sending ends of all directions of links that are on a shortest path, by number of links, between hosts of these pairs.
fn usable(
    plan: &[LinkPlan],
    switches: usize,
    hosts: usize,
    pairs: impl Iterator<Item = (u32, u32)>,
) -> BTreeSet<LinkEnd> {
    let node = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, .. } => switch as usize,
        LinkEnd::Host(host) => switches + host as usize,
    };
    // By node: the own end of each link, and the node at its other end.
    let mut links: Vec<Vec<(LinkEnd, usize)>> = vec![Vec::new(); switches + hosts];
    for link in plan {
        let [a, b] = link.ends;
        links[node(a)].push((a, node(b)));
        links[node(b)].push((b, node(a)));
    }
    let mut sources: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in pairs {
        let to = sources.entry(switches + to as usize).or_default();
        to.insert(switches + from as usize);
    }
    let mut used = BTreeSet::new();
    let mut distance = vec![usize::MAX; links.len()];
    let mut queue = Vec::new();
    for (goal, starts) in sources {
        distance.fill(usize::MAX);
        distance[goal] = 0;
        queue.clear();
        queue.push(goal);
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            // Hosts forward nothing.
            if at >= switches && at != goal {
                continue;
            }
            for &(_, neighbour) in &links[at] {
                if distance[neighbour] == usize::MAX {
                    distance[neighbour] = distance[at] + 1;
                    queue.push(neighbour);
                }
            }
        }
        let mut seen: BTreeSet<usize> = starts;
        let mut open: Vec<usize> = seen.iter().copied().collect();
        while let Some(at) = open.pop() {
            for &(end, neighbour) in &links[at] {
                let nearer = distance[at] != usize::MAX && distance[neighbour] < distance[at];
                if nearer && (neighbour < switches || neighbour == goal) {
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

    fn link(speed_mbps: u32, tx_bytes: u64, usable: bool) -> LinkReport {
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
    fn balance_is_of_usable_links_between_switches_at_their_speeds() {
        let equal = [
            link(100, 1_000, true),
            link(100, 1_000, true),
            link(100, 0, false),
        ];
        let balance = BalanceReport::of(&equal).unwrap();
        assert_eq!(
            (balance.links, balance.max_mean_ratio, balance.jain_index),
            (2, 1.0, 1.0)
        );
        // Twice as fast and twice as much is the same load.
        let speeds = [link(100, 1_000, true), link(200, 2_000, true)];
        assert_eq!(BalanceReport::of(&speeds).unwrap().max_mean_ratio, 1.0);
        // Loads 3, 1, 0, 0: the largest is three times the mean, and Jain's index 16 / (4 * 10).
        let uneven = [3_000, 1_000, 0, 0].map(|bytes| link(100, bytes, true));
        let balance = BalanceReport::of(&uneven).unwrap();
        assert_eq!((balance.max_mean_ratio, balance.jain_index), (3.0, 0.4));
        assert_eq!(BalanceReport::of(&[link(100, 0, true)]), None);
        let mut to_host = link(100, 1_000, true);
        to_host.between_switches = false;
        assert_eq!(BalanceReport::of(&[to_host]), None);
    }

    #[test]
    fn utilisation_has_preamble_and_gap() {
        let mut busy = link(100_000, 1_230 * 1_000, true);
        busy.tx_packets = 1_000;
        // 1250 octets at 100 Gb/s are 100 ns.
        assert_eq!(busy.utilisation_in(Picos::from_micros(200)), Some(0.5));
        assert_eq!(busy.utilisation_in(Picos::ZERO), None);
    }

    /// Two leaves, two spines, a host at each leaf and a second one at the first: switches 0 to 3, hosts 0 to 2.
    #[test]
    fn usable_are_the_directions_on_shortest_paths() {
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
        let across = usable(&links, 4, 3, [(0, 2)].into_iter());
        let expected = [
            LinkEnd::Host(0),
            port(0, 2),
            port(0, 3),
            port(2, 1),
            port(3, 1),
            port(1, 0),
        ];
        assert_eq!(across, expected.into());
        let inside = usable(&links, 4, 3, [(0, 1)].into_iter());
        assert_eq!(inside, [LinkEnd::Host(0), port(0, 1)].into());
    }
}
