//! Tests of cluster load balancing in whole fabrics in virtual time, with learnt queue pairs and with queue
//! pairs that the lab announces.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use xoff_dataplane::balance::MoveReason;
use xoff_fabric::{FabricPlan, PlannedFlow, PlannedHop, place_flows};
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};

/// Four leaves, four spines and four hosts per leaf. Rank *i* of the ring is on leaf *i* mod 4.
const RING_LAB: &str = "
name: ring
topology:
  defaults: {load_balancing: cluster}
  fabric:
    leaf-spine: {leaves: 4, spines: 4, hosts: 4, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}
load_balancing: {announce: false}
transports:
  default: {mtu: 4096, congestion: none}
workload:
  jobs:
    - {name: job, kind: ring-allreduce, hosts: [h1, h5, h9, h13, h2, h6, h10, h14, h3, h7, h11, h15, h4, h8, h12, h16], bytes: 8M}
";

fn all_to_all_lab() -> String {
    RING_LAB
        .replace("ring-allreduce", "alltoall")
        .replace("bytes: 8M", "bytes: 4M, qps: 2")
}

/// Runs `xoff lab compare` for some schemes. Returns the figures of each scheme and of the single switch.
fn run_compare(text: &str, schemes: &str, options: &[&str]) -> BTreeMap<String, Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("lab.yml"), text).expect("a file in a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(folder.path())
        .args([
            "lab",
            "compare",
            "lab.yml",
            "--virtual",
            "--json",
            "all.json",
            "--lb",
            schemes,
        ])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("xoff can be started");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    let text = fs::read_to_string(folder.path().join("all.json")).expect("a file that was written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            (
                row["scheme"].as_str().unwrap_or("one switch").to_owned(),
                row["figures"].clone(),
            )
        })
        .collect()
}

fn median(figures: &Value, name: &str) -> f64 {
    figures[name]["median"]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} in {figures}"))
}

/// Asserts at least `percent` percent of the performance of a single switch, without reordering and loss.
fn assert_like_one_switch(figures: &Value, percent: f64) {
    assert!(median(figures, "percent_of_one_switch") >= percent, "{figures}");
    assert_eq!(median(figures, "out_of_order_ratio"), 0.0, "{figures}");
    assert_eq!(median(figures, "dropped_frames"), 0.0, "{figures}");
}

#[test]
fn a_ring_in_a_fabric_is_as_fast_as_on_one_switch() {
    let rows = run_compare(RING_LAB, "ecmp,cluster", &["--seeds", "1..=3"]);
    assert_like_one_switch(&rows["cluster"], 95.0);
    assert!(median(&rows["ecmp"], "percent_of_one_switch") < 80.0);
    let announced = run_compare(
        RING_LAB,
        "cluster",
        &["--set", "load_balancing.announce=true", "--seeds", "1..=3"],
    );
    assert_like_one_switch(&announced["cluster"], 95.0);
}

#[test]
fn all_to_all_with_many_queue_pairs_loads_links_evenly() {
    let rows = run_compare(&all_to_all_lab(), "ecmp,cluster", &[]);
    assert_like_one_switch(&rows["cluster"], 90.0);
    assert!(
        median(&rows["cluster"], "link_max_mean_ratio") < 1.02,
        "{}",
        rows["cluster"]
    );
    assert!(
        median(&rows["ecmp"], "link_max_mean_ratio") > 1.1,
        "{}",
        rows["ecmp"]
    );
    let announced = run_compare(
        &all_to_all_lab(),
        "cluster",
        &["--set", "load_balancing.announce=true"],
    );
    assert_like_one_switch(&announced["cluster"], 90.0);
    assert!(median(&announced["cluster"], "link_max_mean_ratio") < 1.01);
}

fn virtual_lab(text: &str) -> VirtualLab {
    let plan = parse_lab(text, "lab.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    VirtualLab::new(plan, LabOptions::default()).expect("a lab that can be")
}

/// Returns the flow moves of all switches by reason.
fn moves_by_reason(lab: &VirtualLab) -> [u64; MoveReason::ALL.len()] {
    let fabric = &lab.simulation.fabric;
    let mut sum = [0; MoveReason::ALL.len()];
    for switch in 0..fabric.switch_count() {
        for group in fabric.switch(switch).balanced_groups(fabric.now()) {
            sum.iter_mut()
                .zip(group.moves)
                .for_each(|(sum, moves)| *sum += moves);
        }
    }
    sum
}

#[test]
fn announced_queue_pairs_are_placed_before_their_first_byte() {
    let mut lab = virtual_lab(&RING_LAB.replace("announce: false", "announce: true"));
    lab.start(&mut ()).expect("hosts that find each other");
    assert_eq!(moves_by_reason(&lab)[MoveReason::Announced as usize], 16);
    assert_eq!(moves_by_reason(&lab)[MoveReason::New as usize], 0);
    lab.run(xoff_units::Picos::from_millis(50), true, &mut ());
    assert!(lab.simulation.jobs.is_finished());
    // The switches learn the flows of acknowledgements.
    assert_eq!(moves_by_reason(&lab)[MoveReason::New as usize], 16);
    let groups = (0..4).flat_map(|leaf| {
        lab.simulation
            .fabric
            .switch(leaf)
            .balanced_groups(lab.simulation.fabric.now())
    });
    let heavy: u32 = groups
        .flat_map(|group| group.members.into_iter().filter_map(|member| member.flows))
        .sum();
    assert_eq!(heavy, 0, "flows of a job that is over are withdrawn");
}

#[test]
fn a_link_failure_moves_its_queue_pairs_without_loss() {
    let mut lab = virtual_lab(RING_LAB);
    lab.start(&mut ()).expect("hosts that find each other");
    lab.run(xoff_units::Picos::from_micros(200), true, &mut ());
    assert!(!lab.simulation.jobs.is_finished());
    let uplink = lab
        .plan
        .links
        .iter()
        .position(|link| link.name.contains("leaf1") && link.name.contains("spine2"));
    lab.simulation
        .fabric
        .set_link(uplink.expect("a link"), false, &mut ());
    lab.run(xoff_units::Picos::from_millis(500), true, &mut ());
    assert!(
        lab.simulation.jobs.is_finished(),
        "{}",
        lab.simulation.jobs.workload().pending_description(|_| "a host")
    );
    let moves = moves_by_reason(&lab);
    // The failed link carried one flow of data and one of acknowledgements in one direction, and the flows
    // from its other end in the other direction.
    assert!(
        (1..=8).contains(&moves[MoveReason::LinkDown as usize]),
        "{moves:?}"
    );
}

/// Number of flows on each uplink, by switch and port, and on each downlink, by the port of the uplink and
/// the last switch.
type LinkLoads = (BTreeMap<(usize, u16), usize>, BTreeMap<(u16, usize), usize>);

/// Returns the number of flows on each uplink and downlink.
fn flows_per_link(plan: &FabricPlan, flows: &[PlannedFlow], hops: &[PlannedHop]) -> LinkLoads {
    let (mut up, mut down) = (BTreeMap::new(), BTreeMap::new());
    for hop in hops {
        *up.entry((hop.switch, hop.port.0)).or_default() += 1;
        let destination = plan
            .hosts
            .iter()
            .position(|host| host.ipv4.map(Into::into) == Some(flows[hop.flow].destination));
        let leaf = plan.links.iter().find_map(|link| match link.ends {
            [a, b] if a == xoff_fabric::LinkEnd::Host(destination? as u32) => Some(b),
            [a, b] if b == xoff_fabric::LinkEnd::Host(destination? as u32) => Some(a),
            _ => None,
        });
        let Some(xoff_fabric::LinkEnd::Switch { switch, .. }) = leaf else {
            continue;
        };
        *down.entry((hop.port.0, switch as usize)).or_default() += 1;
    }
    (up, down)
}

/// Returns the flows between all pairs of hosts on different leaves that `keep` accepts. The numbers of flows
/// per host are unequal.
fn flows_between_leaves(
    plan: &FabricPlan,
    hosts: usize,
    keep: impl Fn(usize, usize) -> bool,
) -> Vec<PlannedFlow> {
    let flow = |from: usize, to: usize| PlannedFlow {
        from,
        destination: plan.hosts[to].ipv4.expect("an address").into(),
        turn: 0,
    };
    let all = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to && keep(*from, *to))
        .map(|(from, to)| flow(from, to))
        .collect()
}

fn largest_load_difference<K: Ord + Copy, G: Ord>(
    loads: &BTreeMap<K, usize>,
    group: impl Fn(&K) -> G,
) -> usize {
    let mut by: BTreeMap<G, (usize, usize, usize)> = BTreeMap::new();
    for (key, load) in loads {
        let seen = by.entry(group(key)).or_insert((usize::MAX, 0, 0));
        *seen = (seen.0.min(*load), seen.1.max(*load), seen.2 + 1);
    }
    by.values()
        .map(|(least, most, _)| most - least)
        .max()
        .unwrap_or(0)
}

#[test]
fn placements_are_even_on_all_uplinks_and_downlinks() {
    let text = RING_LAB.replace("spines: 4", "spines: 3");
    let plan = virtual_lab(&text).fabric_plan;
    let flows = flows_between_leaves(&plan, 16, |from, to| {
        from / 4 != to / 4 && (from * 7 + to * 5) % 11 > 2
    });
    let hops = place_flows(&plan, &flows);
    assert_eq!(hops.len(), flows.len());
    let (up, down) = flows_per_link(&plan, &flows, &hops);
    assert!(largest_load_difference(&up, |key| key.0) <= 1, "{up:?}");
    assert!(largest_load_difference(&down, |key| key.1) <= 1, "{down:?}");
}

#[test]
fn placements_in_three_tiers_are_even_in_both_stages() {
    let text = RING_LAB.replace(
        "leaf-spine: {leaves: 4, spines: 4, hosts: 4, ",
        "fat-tree: {k: 4, ",
    );
    let plan = virtual_lab(&text).fabric_plan;
    let flows = flows_between_leaves(&plan, 16, |_, _| true);
    let hops = place_flows(&plan, &flows);
    let across_pods = flows.len() - 16 * 3;
    // A path has no choice within an edge switch, one choice within a pod, and two choices otherwise.
    assert_eq!(hops.len(), 16 * 2 + across_pods * 2);
    let (up, _) = flows_per_link(&plan, &flows, &hops);
    assert!(largest_load_difference(&up, |key| key.0) <= 1, "{up:?}");
}

#[test]
fn placements_follow_link_speeds_in_regular_and_irregular_fabrics() {
    let mut plan = virtual_lab(RING_LAB).fabric_plan;
    let flows = flows_between_leaves(&plan, 16, |from, to| from / 4 != to / 4);
    // The first spine has four times the speed of the other spines.
    let fast = |plan: &mut FabricPlan, leaf: Option<usize>| {
        for link in plan.links.clone() {
            let names = link.ends.map(|end| match end {
                xoff_fabric::LinkEnd::Switch { switch, port } => (switch as usize, port),
                xoff_fabric::LinkEnd::Host(_) => (usize::MAX, 0),
            });
            let ours = names.iter().any(|(switch, _)| *switch == 4);
            let of_leaf = leaf.is_none_or(|leaf| names.iter().any(|(switch, _)| *switch == leaf));
            for (switch, port) in names.into_iter().filter(|_| ours && of_leaf) {
                let config = Arc::make_mut(&mut plan.switches[switch]);
                config.ports[usize::from(port)].link = xoff_units::LinkTiming::ethernet(400_000);
            }
        }
    };
    fast(&mut plan, None);
    let (up, _) = flows_per_link(&plan, &flows, &place_flows(&plan, &flows));
    let of_leaf: Vec<usize> = up
        .iter()
        .filter(|((switch, _), _)| *switch == 0)
        .map(|(_, load)| *load)
        .collect();
    // 48 flows use seven shares of capacity.
    assert!(
        (24..=28).contains(&of_leaf[0]) && of_leaf[1..].iter().all(|load| (6..=7).contains(load)),
        "{of_leaf:?}"
    );

    let mut plan = virtual_lab(RING_LAB).fabric_plan;
    fast(&mut plan, Some(1));
    let (up, _) = flows_per_link(&plan, &flows, &place_flows(&plan, &flows));
    let of = |leaf: usize| -> Vec<usize> {
        up.iter()
            .filter(|((switch, _), _)| *switch == leaf)
            .map(|(_, load)| *load)
            .collect()
    };
    // The downlink of the first spine is as slow as the other links, and a path is only as good as its busier
    // link.
    assert_eq!(of(1), [12; 4], "{up:?}");
    assert_eq!(of(0).iter().sum::<usize>(), 48);
    assert!(
        largest_load_difference(
            &up.into_iter().filter(|((switch, _), _)| *switch == 0).collect(),
            |key| key.0
        ) <= 3
    );
}
