//! Tests of ns-3 flow lists: node numbers and ignored columns.

use super::*;
use xoff_workload::JobKind;

/// Parses a lab with one switch, the first entry of `nodes`, and hosts, the other entries. The
/// job replays `list`.
fn parse_replay_lab(nodes: &[&str], list: &str, job_fields: &str) -> Result<LabPlan, Problems> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("flows.txt"), list).expect("a file");
    let mut text = "name: f\ntopology:\n  nodes:\n".to_owned();
    let [switch, hosts @ ..] = nodes else {
        panic!("nodes")
    };
    text += &format!("    {switch}: {{kind: switch}}\n");
    for host in hosts {
        text += &format!("    {host}: {{kind: model}}\n");
    }
    text += "  links:\n";
    for (index, host) in hosts.iter().enumerate() {
        text += &format!(
            "    - {{endpoints: [\"{host}:eth0\", \"{switch}:Ethernet{}\"]}}\n",
            4 * index
        );
    }
    text += &format!(
        "workload: {{jobs: [{{name: r, kind: replay, file: flows.txt, format: ns3{job_fields}}}]}}\n"
    );
    parse_lab(&text, "f.xoff.yml", folder.path(), TimeMode::Virtual)
}

/// Returns the names of the sender and the receiver of each flow.
fn flow_hosts(plan: &LabPlan) -> Vec<[&str; 2]> {
    let JobKind::Replay(flows) = &plan.workload.jobs.jobs[0].kind else {
        panic!("replay")
    };
    let name = |host: u32| plan.hosts[host as usize].name.as_str();
    flows
        .iter()
        .map(|flow| [name(flow.src), name(flow.dst)])
        .collect()
}

fn parse_valid_replay_lab(nodes: &[&str], list: &str, job_fields: &str) -> LabPlan {
    parse_replay_lab(nodes, list, job_fields).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn node_number_is_the_number_at_the_end_of_the_name() {
    let list = "2\n2 1 3 100 1000 0.0\n4 3 3 100 1000 0.0\n";
    let plan = parse_valid_replay_lab(&["n0", "n1", "n2", "n3", "n4"], list, "");
    assert_eq!(flow_hosts(&plan), [["n2", "n1"], ["n4", "n3"]]);
    // The order of the nodes and the rest of their names have no effect.
    let plan = parse_valid_replay_lab(&["tor", "gpu-4", "3", "node02", "h1"], list, "");
    assert_eq!(flow_hosts(&plan), [["node02", "h1"], ["gpu-4", "3"]]);
}

#[test]
fn job_field_nodes_assigns_node_numbers_to_hosts() {
    let list = "1\n0 2 3 100 1000 0.0\n";
    let plan = parse_valid_replay_lab(&["sw1", "h1", "h2", "h3"], list, ", nodes: all");
    assert_eq!(flow_hosts(&plan), [["h1", "h3"]]);
    let plan = parse_valid_replay_lab(&["sw1", "h1", "h2", "h3"], list, ", nodes: [h3, h1, h2]");
    assert_eq!(flow_hosts(&plan), [["h3", "h2"]]);
    let problems = parse_replay_lab(&["sw1", "h1", "h2"], list, ", nodes: all").unwrap_err();
    assert!(
        problems
            .to_string()
            .contains("line 2, column 3: `nodes` lists no node 2; its last one is node 1"),
        "{problems}"
    );
}

#[test]
fn ambiguous_and_unknown_node_numbers_are_refused() {
    for (nodes, list, error) in [
        (
            ["sw1", "h1", "h2", "h3"],
            "1\n0 2 3 100 1 0",
            "line 2, column 1: no node of the lab has the number 0: name the nodes by their numbers",
        ),
        (
            ["sw1", "h1", "h2", "h3"],
            "1\n2 1 3 100 1 0",
            "line 2, column 3: node 1 can be h1 or sw1",
        ),
        (
            ["n0", "a1", "b1", "h3"],
            "1\n3 1 3 100 1 0",
            "line 2, column 3: node 1 can be a1 or b1",
        ),
        (
            ["n0", "n1", "n2", "n3"],
            "1\n0 1 3 100 1 0",
            "line 2, column 1: node 0 is the switch n0; flows are between hosts",
        ),
        (
            ["n0", "n1", "n2", "n3"],
            "1\nn1 n2 3 100 1 0",
            "line 2, column 1: `n1` is not a node number",
        ),
    ] {
        let problems = parse_replay_lab(&nodes, list, "").unwrap_err().to_string();
        assert!(problems.contains(error), "{list:?}: {problems}");
    }
}

#[test]
fn flow_list_columns_without_effect_are_noted() {
    let nodes = ["n0", "n1", "n2", "n3"];
    let [note] = &parse_valid_replay_lab(&nodes, "2\n1 2 6 100 1 0\n3 2 3 100 1 0", "").notes[..] else {
        panic!("one note")
    };
    for part in [
        "job r: columns of",
        "flows.txt without effect: priority (3, 6: all packets of transport default have class 3)",
        "dst_port (RoCEv2 always sends to UDP port 4791)",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    let followed = parse_valid_replay_lab(&nodes, "1\n1 2 3 100 1 0", "").notes;
    assert!(
        followed.len() == 1 && !followed[0].contains("priority"),
        "{followed:?}"
    );
}
