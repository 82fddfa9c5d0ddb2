//! Tests of the load balancing groups in the report of a switch.

use std::path::Path;

use xoff_units::Picos;

use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_telemetry::{GroupReport, LoadBalancingReport};

/// Returns the report of leaf1 after two of its hosts have sent to the other leaf.
fn leaf1_report(scheme: &str) -> LoadBalancingReport {
    let text = format!(
        "name: x
topology:
  defaults: {{load_balancing: {scheme}}}
  fabric:
    leaf-spine: {{leaves: 2, spines: 2, hosts: 2, speed: 100g, delay: 500ns}}
transports:
  default: {{recovery: selective-repeat}}
workload:
  jobs:
    - {{name: a, kind: flows, flows: [{{from: h1, to: h3, bytes: 100K}}, {{from: h2, to: h4, bytes: 100K}}]}}
"
    );
    let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.run(Picos::from_millis(10), true, &mut ());
    lab.report().switches[0]
        .load_balancing
        .clone()
        .expect("leaf1 has a group")
}

fn only_group(report: &LoadBalancingReport) -> &GroupReport {
    let [group] = report.groups.as_slice() else {
        panic!("one group: {report:?}")
    };
    assert_eq!((group.name.as_str(), group.routes), ("10.0.1.0/24", 1));
    assert_eq!(group.site, Some(2));
    let members: Vec<(&str, Option<&str>)> = group
        .members
        .iter()
        .map(|member| (member.ports[0].as_str(), member.next_hop.as_deref()))
        .collect();
    assert_eq!(
        members,
        [
            ("Ethernet8", Some("172.16.0.1")),
            ("Ethernet12", Some("172.16.0.3"))
        ]
    );
    assert!(
        group
            .members
            .iter()
            .all(|member| member.usable && member.speed_mbps == 100_000)
    );
    group
}

#[test]
fn round_robin_group_counts_the_packets_of_its_members() {
    let report = leaf1_report("round-robin");
    let group = only_group(&report);
    assert_eq!(group.scheme, "round-robin");
    let [first, second] = [0, 1].map(|at| group.members[at].packets.expect("it is counted"));
    assert!(first.abs_diff(second) <= 1 && first > 90, "{first}, {second}");
    let ratio = group.max_mean_ratio.expect("something was sent");
    assert!((1.0..1.02).contains(&ratio), "{ratio}");
    assert!(group.moves.is_empty() && group.table.is_none() && report.moves.is_empty());
}

#[test]
fn flowlet_group_reports_its_flow_moves() {
    let report = leaf1_report("flowlet");
    let group = only_group(&report);
    let table = group.table.expect("flowlets have a table");
    assert_eq!((table.flows_max, table.overflow_packets), (4096, 0));
    assert_eq!(group.moves.get("new"), Some(&2), "{:?}", group.moves);
    let first = report.moves.first().expect("a flow was placed");
    assert_eq!(
        (first.group.as_str(), first.reason.as_str(), &first.from),
        ("10.0.1.0/24", "new", &None)
    );
    assert!(first.to.starts_with("Ethernet"), "{first:?}");
}

#[test]
fn ecmp_group_reports_the_load_of_its_links() {
    let report = leaf1_report("ecmp");
    let group = only_group(&report);
    assert_eq!(group.scheme, "ecmp");
    assert!(
        group
            .members
            .iter()
            .all(|member| member.packets.is_none() && member.band.is_none())
    );
    assert!(group.members.iter().map(|member| member.tx_bytes).sum::<u64>() > 200_000);
    assert!(group.jain_index.is_some());
}
