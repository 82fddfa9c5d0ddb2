use std::collections::BTreeMap;
use std::path::Path;

use super::super::parse;
use super::super::plan::{FarEnd, LabPlan, TimeMode};

fn plan(fabric: &str) -> LabPlan {
    let text = format!("name: t\ntopology:\n  fabric: {{{fabric}}}\n");
    parse(&text, "t.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// Every link as `A:PORT-B:PORT`, the switch of the plan's view first.
fn links(plan: &LabPlan) -> Vec<String> {
    let far = |end: &FarEnd| match end {
        FarEnd::Host(host) => plan.hosts[*host].name.clone(),
        FarEnd::Switch { switch, port } => format!("{}:{port}", plan.switches[*switch].name),
        FarEnd::External(device) => device.clone(),
    };
    let link = |link: &super::super::plan::LinkPlan| {
        format!(
            "{}:{}-{}",
            plan.switches[link.switch].name,
            link.port,
            far(&link.far)
        )
    };
    plan.links.iter().map(link).collect()
}

/// How many links each switch has.
fn degrees(plan: &LabPlan) -> BTreeMap<&str, usize> {
    let degree = |switch: usize| {
        plan.links
            .iter()
            .filter(|link| link.port_at(switch).is_some())
            .count()
    };
    plan.switches
        .iter()
        .enumerate()
        .map(|(at, switch)| (switch.name.as_str(), degree(at)))
        .collect()
}

#[test]
fn leaves_and_spines_are_a_full_mesh() {
    let plan = plan(
        "leaf-spine: {leaves: 2, spines: 2, hosts: 1, speed: 100g, uplink_speed: 400g, delay: 1us, uplink_delay: 2us}",
    );
    assert_eq!(
        links(&plan),
        [
            "leaf1:Ethernet0-h1",
            "leaf2:Ethernet0-h2",
            "leaf1:Ethernet4-spine1:Ethernet0",
            "leaf1:Ethernet8-spine2:Ethernet0",
            "leaf2:Ethernet4-spine1:Ethernet4",
            "leaf2:Ethernet8-spine2:Ethernet4",
        ]
    );
    let facts = |at: usize| {
        (
            plan.links[at].speed_mbps,
            plan.links[at].delay_ns,
            plan.links[at].source.as_str(),
        )
    };
    assert_eq!(facts(0), (Some(100_000), 1000, "t.xoff.yml:3"));
    assert_eq!(facts(2), (Some(400_000), 2000, "t.xoff.yml:3"));
}

#[test]
fn a_fat_tree_of_eight_has_80_switches_of_eight_ports_and_128_hosts() {
    let plan = plan("fat-tree: {k: 8, speed: 100g}");
    assert_eq!(
        (plan.switches.len(), plan.hosts.len(), plan.links.len()),
        (80, 128, 384)
    );
    assert!(degrees(&plan).values().all(|degree| *degree == 8));
    let links = links(&plan);
    for link in [
        "pod1-edge1:Ethernet0-h1",
        "pod8-edge4:Ethernet12-h128",
        "pod2-edge3:Ethernet20-pod2-agg2:Ethernet8",
        "pod3-agg2:Ethernet16-core5:Ethernet8",
    ] {
        assert!(links.iter().any(|other| other == link), "{link}");
    }
}

#[test]
fn rail_r_is_leaf_r() {
    let plan = plan("rail: {nodes: 2, gpus: 3, spines: 1, uplinks: 2, speed: 400g}");
    let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(hosts, ["n1-g1", "n1-g2", "n1-g3", "n2-g1", "n2-g2", "n2-g3"]);
    let rails: Vec<usize> = (0..6)
        .filter_map(|host| Some(plan.link_of_host(host)?.switch))
        .collect();
    assert_eq!(rails, [0, 1, 2, 0, 1, 2]);
    assert_eq!(
        degrees(&plan),
        BTreeMap::from([("leaf1", 4), ("leaf2", 4), ("leaf3", 4), ("spine1", 6)])
    );
}

#[test]
fn stars_and_dumbbells() {
    assert_eq!(
        links(&plan("star: {hosts: 2}")),
        ["sw1:Ethernet0-h1", "sw1:Ethernet4-h2"]
    );
    assert_eq!(
        links(&plan("dumbbell: {left: 1, right: 2}")),
        [
            "sw1:Ethernet0-h1",
            "sw2:Ethernet0-h2",
            "sw2:Ethernet4-h3",
            "sw1:Ethernet4-sw2:Ethernet8"
        ]
    );
}
