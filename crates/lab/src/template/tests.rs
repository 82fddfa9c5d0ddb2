use std::collections::BTreeMap;
use std::path::Path;

use super::super::parse_lab;
use super::super::plan::{FarEnd, LabPlan, TimeMode};

fn parse_fabric(fabric: &str) -> LabPlan {
    let text = format!("name: t\ntopology:\n  fabric: {{{fabric}}}\n");
    parse_lab(&text, "t.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns every link as `SWITCH:PORT-PEER`, where the peer is `HOST` or `SWITCH:PORT`.
fn link_texts(plan: &LabPlan) -> Vec<String> {
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

/// Returns the number of links of each switch.
fn link_counts(plan: &LabPlan) -> BTreeMap<&str, usize> {
    let degree = |switch: usize| {
        plan.links
            .iter()
            .filter(|link| link.port_at_switch(switch).is_some())
            .count()
    };
    plan.switches
        .iter()
        .enumerate()
        .map(|(at, switch)| (switch.name.as_str(), degree(at)))
        .collect()
}

#[test]
fn leaf_spine_template_is_a_full_mesh() {
    let plan = parse_fabric(
        "leaf-spine: {leaves: 2, spines: 2, hosts: 1, speed: 100g, uplink_speed: 400g, delay: 1us, uplink_delay: 2us}",
    );
    assert_eq!(
        link_texts(&plan),
        [
            "leaf1:Ethernet0-h1",
            "leaf2:Ethernet0-h2",
            "leaf1:Ethernet4-spine1:Ethernet0",
            "leaf1:Ethernet8-spine2:Ethernet0",
            "leaf2:Ethernet4-spine1:Ethernet4",
            "leaf2:Ethernet8-spine2:Ethernet4",
        ]
    );
    let link_properties = |link: usize| {
        (
            plan.links[link].speed_mbps,
            plan.links[link].delay_ns,
            plan.links[link].source.as_str(),
        )
    };
    assert_eq!(link_properties(0), (Some(100_000), 1000, "t.xoff.yml:3"));
    assert_eq!(link_properties(2), (Some(400_000), 2000, "t.xoff.yml:3"));
}

#[test]
fn fat_tree_with_k_8_has_80_switches_and_128_hosts() {
    let plan = parse_fabric("fat-tree: {k: 8, speed: 100g}");
    assert_eq!(
        (plan.switches.len(), plan.hosts.len(), plan.links.len()),
        (80, 128, 384)
    );
    assert!(link_counts(&plan).values().all(|degree| *degree == 8));
    let links = link_texts(&plan);
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
fn gpu_of_a_rail_is_connected_to_the_leaf_of_its_number() {
    let plan = parse_fabric("rail: {nodes: 2, gpus: 3, spines: 1, uplinks: 2, speed: 400g}");
    let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(hosts, ["n1-g1", "n1-g2", "n1-g3", "n2-g1", "n2-g2", "n2-g3"]);
    let rails: Vec<usize> = (0..6)
        .filter_map(|host| Some(plan.link_of_host(host)?.switch))
        .collect();
    assert_eq!(rails, [0, 1, 2, 0, 1, 2]);
    assert_eq!(
        link_counts(&plan),
        BTreeMap::from([("leaf1", 4), ("leaf2", 4), ("leaf3", 4), ("spine1", 6)])
    );
}

#[test]
fn star_and_dumbbell_templates_have_the_documented_links() {
    assert_eq!(
        link_texts(&parse_fabric("star: {hosts: 2}")),
        ["sw1:Ethernet0-h1", "sw1:Ethernet4-h2"]
    );
    assert_eq!(
        link_texts(&parse_fabric("dumbbell: {left: 1, right: 2}")),
        [
            "sw1:Ethernet0-h1",
            "sw2:Ethernet0-h2",
            "sw2:Ethernet4-h3",
            "sw1:Ethernet4-sw2:Ethernet8"
        ]
    );
}

#[test]
fn cores_connect_the_groups_of_a_rail_fabric() {
    let plan = parse_fabric(
        "rail: {nodes: 3, gpus: 2, group_nodes: 2, spines: 2, uplinks: 3, cores: 4, core_uplinks: 2}",
    );
    // Each leaf: 2 or 1 hosts and 2 * 3 uplinks. Each spine: 2 * 3 links to leaves and 2 cores with 2 links.
    let switches = [
        ("core1", 4),
        ("core2", 4),
        ("core3", 4),
        ("core4", 4),
        ("group1-leaf1", 8),
        ("group1-leaf2", 8),
        ("group1-spine1", 10),
        ("group1-spine2", 10),
        ("group2-leaf1", 7),
        ("group2-leaf2", 7),
        ("group2-spine1", 10),
        ("group2-spine2", 10),
    ];
    assert_eq!(link_counts(&plan), BTreeMap::from(switches));
    let texts = link_texts(&plan);
    let has_link = |from: &str, to: &str| {
        texts
            .iter()
            .filter(|text| text.starts_with(&format!("{from}:")) && text.contains(&format!("-{to}:")))
            .count()
    };
    assert_eq!(has_link("group1-spine1", "core2"), 2);
    assert_eq!(has_link("group2-spine2", "core3"), 2);
    assert_eq!(has_link("group2-spine2", "core2"), 0);
    assert_eq!(has_link("group1-leaf1", "group2-spine1"), 0);
    let leaf = |host: usize| {
        plan.link_of_host(host)
            .map(|link| plan.switches[link.switch].name.as_str())
    };
    assert_eq!(leaf(3), Some("group1-leaf2"));
    assert_eq!(leaf(4), Some("group2-leaf1"));
}

#[test]
fn spines_connect_the_groups_of_a_rail_fabric_without_cores() {
    let plan = parse_fabric("rail: {nodes: 4, gpus: 1, group_nodes: 2, spines: 2}");
    let switches = [
        ("group1-leaf1", 4),
        ("group2-leaf1", 4),
        ("spine1", 2),
        ("spine2", 2),
    ];
    assert_eq!(link_counts(&plan), BTreeMap::from(switches));
}
