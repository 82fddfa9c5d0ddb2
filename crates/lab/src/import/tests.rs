use std::fs;

use super::*;
use crate::plan::{LabPlan, TimeMode};
use crate::resolve::parse_lab;

/// A scenario with two switches and two hosts at each switch. The link between the switches is faster and
/// longer than the host links.
const TOPOLOGY: &str = "6 2 5\n4 5\n0 4 100Gbps 0.001ms 0\n1 4 100Gbps 0.001ms 0\n4 5 400Gbps 0.002ms 0\n5 2 100Gbps 0.001ms 0\n5 3 100Gbps 1us 0\n";
const FLOWS: &str = "3\n0 2 3 100 100000 2\n1 2 3 100 200000 2.000001\n0 1 3 100 5000 2\n";
const SETTINGS: &str = "\
CC_MODE 1
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 1000Mb/s
PACKET_PAYLOAD_SIZE 1000
L2_ACK_INTERVAL 1
HAS_WIN 0
GLOBAL_T 1
VAR_WIN 0
FAST_REACT 1
U_TARGET 0.95
MI_THRESH 0
MULTI_RATE 0
ENABLE_QCN 1
ACK_HIGH_PRIO 0
KMAX_MAP 2 100000000000 400 400000000000 1600
KMIN_MAP 2 100000000000 100 400000000000 400
PMAX_MAP 2 100000000000 0.2 400000000000 0.2
BUFFER_SIZE 16
SIMULATOR_STOP_TIME 2.5
";

fn import_files(topology: &str, flows: &str, settings: &str) -> ImportedLab {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("topology.txt", topology),
        ("flow.txt", flows),
        ("config.txt", settings),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    import_ns3(&folder.path().join("config.txt")).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Imports the default scenario with `settings` after the default settings. Later values count.
fn import_with(settings: &str) -> ImportedLab {
    import_files(TOPOLOGY, FLOWS, &format!("{SETTINGS}{settings}\n"))
}

/// Parses an imported lab in the same way as `xoff lab run --virtual`.
fn parse_imported(imported: &ImportedLab) -> LabPlan {
    let folder = std::path::Path::new("/nowhere");
    parse_lab(&imported.text, "imported.xoff.yml", folder, TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}\n{}", imported.text))
}

fn has_line(imported: &ImportedLab, line: &str) -> bool {
    imported.text.lines().any(|text_line| text_line.trim() == line)
}

#[test]
fn imported_lab_has_the_nodes_links_and_flows_of_the_scenario() {
    let imported = import_with("");
    assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    let plan = parse_imported(&imported);
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["h0", "h1", "h2", "h3"]);
    assert_eq!(plan.switches.len(), 2);
    for line in [
        r#"- {endpoints: ["h0:eth0", "s4:Ethernet0"], speed: 100g, delay: 1us}"#,
        r#"- {endpoints: ["s4:Ethernet8", "s5:Ethernet0"], speed: 400g, delay: 2us}"#,
        r#"- {endpoints: ["s5:Ethernet8", "h3:eth0"], speed: 100g, delay: 1us}"#,
        "- {from: h0, to: h2, bytes: 100000}",
        "- {from: h1, to: h2, bytes: 200000, start: 1us}",
        "wait: {until: job.priority3.done == 1, at_most: 500ms}",
    ] {
        assert!(has_line(&imported, line), "{line}\n{}", imported.text);
    }
}

/// In the model (`third.cc`), each port takes 4 KiB and three times its bandwidth-delay product from the
/// buffer of 16 MiB. The rest of the buffer is shared.
///
/// A priority group can use 1/8 of the free buffer. On faster ports, the share is larger.
#[test]
fn buffers_and_ecn_thresholds_equal_those_of_the_model() {
    let imported = import_with("");
    let shared = (16 << 20) - 3 * 4_096 - 2 * 37_500 - 300_000;
    for line in [
        format!("flows: {{type: ingress, mode: dynamic, size: {shared}}}"),
        "pg_100g_1us: {pool: flows, size: 41596, xoff: 37500, xon_offset: 3072, dynamic_th: -3}".to_owned(),
        "pg_400g_2us: {pool: flows, size: 304096, xoff: 300000, xon_offset: 3072, dynamic_th: -1}".to_owned(),
        r#"ecn_400g: {ecn: ecn_all, wred_green_enable: "true", green_min_threshold: 400000, green_max_threshold: 1600000, green_drop_probability: 20}"#.to_owned(),
        r#""Ethernet8|3": {scheduler: flows, wred_profile: ecn_400g}"#.to_owned(),
    ] {
        assert!(has_line(&imported, &line), "{line}\n{}", imported.text);
    }
    let small = import_with("BUFFER_SIZE 0");
    assert!(
        small.notes[0].contains("BUFFER_SIZE is smaller"),
        "{:?}",
        small.notes
    );
    parse_imported(&small);
}

/// The import supports every combination of congestion control and window settings. It returns notes about
/// differences from the model.
#[test]
fn every_congestion_control_and_window_setting_is_imported() {
    for (mode, name) in [
        (1, "dcqcn-nic"),
        (3, "hpcc"),
        (7, "timely"),
        (8, "dctcp"),
        (10, "hpcc"),
    ] {
        for bits in 0..16 {
            let [has_win, var_win, global_t, high] = [0, 1, 2, 3].map(|bit| bits >> bit & 1);
            let imported = import_with(&format!(
                "CC_MODE {mode}\nHAS_WIN {has_win}\nVAR_WIN {var_win}\nGLOBAL_T {global_t}\nACK_HIGH_PRIO {high}"
            ));
            parse_imported(&imported);
            let text = &imported.text;
            assert!(text.contains(&format!("congestion: {{name: {name}")), "{text}");
            assert_eq!(text.contains("ack_dscp: 0"), high == 1);
            let is_hpcc = name == "hpcc";
            assert_eq!(text.contains("window_bytes:"), has_win == 1 && !is_hpcc, "{text}");
            let window_differs = match is_hpcc {
                true => has_win == 0 || var_win == 0,
                false => has_win == 1 && var_win == 1,
            };
            let noted = imported.notes.iter().any(|note| note.contains("VAR_WIN"));
            assert_eq!(noted, window_differs, "{mode} {bits:b} {:?}", imported.notes);
        }
    }
}

/// With `GLOBAL_T` 0, each flow uses the round-trip time of its own pair of hosts, so the windows differ.
#[test]
fn global_t_zero_gives_each_pair_of_hosts_its_own_window() {
    let global = import_with("HAS_WIN 1");
    let own = import_with("HAS_WIN 1\nGLOBAL_T 0");
    let windows = |imported: &ImportedLab| -> Vec<String> {
        let lines = imported.text.lines().map(str::trim);
        lines
            .filter(|line| line.starts_with("window_bytes"))
            .map(str::to_owned)
            .collect()
    };
    // 2 x (1 + 2 + 1) us and 1000 bytes on 100, 400 and 100 Gb/s: 8180 ns at 100 Gb/s. Behind one switch
    // 4160 ns.
    assert_eq!(windows(&global), ["window_bytes: 102250"]);
    assert_eq!(windows(&own), ["window_bytes: 52000", "window_bytes: 102250"]);
    parse_imported(&own);
}

#[test]
fn settings_without_a_counterpart_are_noted() {
    for (settings, note) in [
        ("ENABLE_QCN 0", "ENABLE_QCN 0: nothing is marked"),
        ("CC_MODE 8\nENABLE_QCN 0", "ENABLE_QCN 0: nothing is marked"),
        ("RATE_BOUND 0", "RATE_BOUND 0: flows use the rate of their link"),
        (
            "CC_MODE 3\nHAS_WIN 1\nVAR_WIN 1\nMULTI_RATE 1",
            "MULTI_RATE 1 has no counterpart",
        ),
        (
            "CC_MODE 3\nHAS_WIN 1\nVAR_WIN 1\nU_TARGET 1.5",
            "U_TARGET is 1.5; the lab has 1",
        ),
        (
            "CC_MODE 10\nHAS_WIN 1\nVAR_WIN 1",
            "CC_MODE 10 (HPCC-PINT) becomes hpcc",
        ),
        (
            "PMAX_MAP 2 100000000000 0.125 400000000000 0.2",
            "PMAX_MAP: probabilities are whole percent",
        ),
        ("MIN_RATE 1bps", "MIN_RATE is 1; the lab has 1000"),
        (
            "FLEX_MODE 7",
            "settings that the HPCC model does not know are left out: FLEX_MODE",
        ),
    ] {
        let imported = import_with(settings);
        assert!(
            imported.notes.iter().any(|other| other.starts_with(note)),
            "{settings}: {:?}",
            imported.notes
        );
        assert!(
            imported.text.contains(&format!("# - {note}")),
            "the header comment contains the notes too"
        );
        parse_imported(&imported);
    }
}

/// In the model each flow has its own queue pair.
#[test]
fn flows_of_a_pair_of_hosts_use_separate_queue_pairs() {
    let flows =
        "5\n0 2 3 100 1000 2\n0 2 3 100 1000 2\n0 2 3 100 1000 2\n1 2 3 100 1000 2\n1 2 4 100 1000 2\n";
    let imported = import_files(TOPOLOGY, flows, SETTINGS);
    parse_imported(&imported);
    assert!(
        imported
            .text
            .contains("name: priority3\n      kind: flows\n      transport: priority3\n      qps: 3\n")
    );
    assert!(
        imported
            .text
            .contains("name: priority4\n      kind: flows\n      transport: priority4\n      qps: 1\n")
    );
    assert!(imported.text.contains("    dscp: 32\n"), "priority 4");
    assert!(imported.text.contains(r#"pfc_enable: "3,4""#));
    // One pair of hosts has 8 flows and 16 pairs have one flow. The 16 pairs must not get 8 queue pairs each.
    let mut flows = String::from("24\n");
    for index in 0..24 {
        let src = if index < 8 { 0 } else { index - 7 };
        flows.push_str(&format!("{src} 17 3 100 1000 2\n"));
    }
    let links: String = (0..18).map(|host| format!("{host} 18 100Gbps 1us 0\n")).collect();
    let imported = import_files(&format!("19 1 18\n18\n{links}"), &flows, SETTINGS);
    assert!(
        imported.text.contains("name: priority3-qps1\n"),
        "{}",
        imported.text
    );
    assert!(imported.text.contains("name: priority3-qps8\n"));
    parse_imported(&imported);
}

#[test]
fn parallel_links_equal_paths_and_unlinked_nodes_are_noted() {
    let topology = "7 2 4\n4 5\n0 4 100Gbps 1us 0\n4 5 100Gbps 1us 0\n5 4 100Gbps 1us 0\n5 2 100Gbps 1us 0\n";
    let imported = import_files(topology, "1\n0 2 3 100 1000 2\n", SETTINGS);
    let notes = imported.notes.join("\n");
    assert!(notes.contains("several links between them"), "{notes}");
    assert!(notes.contains("left out: 3 nodes without a link"), "{notes}");
    parse_imported(&imported);
    let square = "6 4 6\n2 3 4 5\n0 2 100Gbps 1us 0\n2 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n3 5 100Gbps 1us 0\n4 5 100Gbps 1us 0\n5 1 100Gbps 1us 0\n";
    let imported = import_files(square, "1\n0 1 3 100 1000 2\n", SETTINGS);
    assert!(
        imported.notes[0].contains("several shortest paths"),
        "{:?}",
        imported.notes
    );
    parse_imported(&imported);
}

#[test]
fn lab_with_30000_imported_flows_is_parsed() {
    let flows: String = (0..30_000)
        .map(|index| format!("{} 2 3 100 1000 2.{index:09}\n", index % 2))
        .collect();
    let imported = import_files(TOPOLOGY, &format!("30000\n{flows}"), SETTINGS);
    let lab = xoff_lab_file::parse_lab(&imported.text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lab.topology.links.len(), 5);
}

#[test]
fn scenario_with_unreachable_hosts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let topology = "4 2 2\n2 3\n0 2 100Gbps 1us 0\n1 3 100Gbps 1us 0\n";
    for (name, content) in [
        ("topology.txt", topology),
        ("flow.txt", "1\n0 1 3 100 1000 2\n"),
        ("config.txt", SETTINGS),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let failure = import_ns3(folder.path()).unwrap_err().to_string();
    assert!(
        failure.contains("no path leads from host 0 to host 1"),
        "{failure}"
    );
}
