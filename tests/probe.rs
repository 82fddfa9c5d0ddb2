//! Tests of `xoff bench probe`: its table, its JSON and its exit codes.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The configuration of one of four pipes of a Tomahawk 2 in an Arista 7260CX3. Frames of DSCP 26 are in
/// class 3.
const TOMAHAWK_2: &str = r#"{"XOFF_SWITCH": {"localhost": {"cell_size": "208"}},
    "PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": {"speed": "100000"}, "Ethernet8": {"speed": "100000"}},
    "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "8332272", "xoff": "1956864"},
        "egress_lossless_pool": {"type": "egress", "mode": "static", "size": "33329088"}},
    "BUFFER_PROFILE": {
        "pg": {"pool": "ingress_lossless_pool", "size": "1248", "dynamic_th": "0", "xoff": "101088", "xon_offset": "2496"},
        "queue": {"pool": "egress_lossless_pool", "size": "0", "static_th": "33329088"}},
    "BUFFER_PG": {"Ethernet0|3": {"profile": "pg"}, "Ethernet4|3": {"profile": "pg"}, "Ethernet8|3": {"profile": "pg"}},
    "BUFFER_QUEUE": {"Ethernet0|3": {"profile": "queue"}, "Ethernet4|3": {"profile": "queue"}, "Ethernet8|3": {"profile": "queue"}},
    "DSCP_TO_TC_MAP": {"M": {"26": "3"}}, "TC_TO_QUEUE_MAP": {"M": {"3": "3"}}, "TC_TO_PRIORITY_GROUP_MAP": {"M": {"3": "3"}},
    "PORT_QOS_MAP": {
        "Ethernet0": {"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M", "pfc_enable": "3"},
        "Ethernet4": {"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M", "pfc_enable": "3"},
        "Ethernet8": {"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M", "pfc_enable": "3"}}}"#;

struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    fn new() -> TestFolder {
        TestFolder {
            folder: TempDir::new().expect("a folder"),
        }
    }

    fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

fn run_probe(file: &PathBuf, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["bench", "probe"])
        .arg(file)
        .args(options)
        .output()
        .expect("xoff runs")
}

#[test]
fn the_buffer_of_a_tomahawk_2_is_measured_to_the_cell() {
    let files = TestFolder::new();
    let output = run_probe(
        &files.write_file("th2.json", TOMAHAWK_2),
        &["--class", "3", "--verify", "1", "--json"],
    );
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "xoff.probe/1");
    assert_eq!(report["holds"], true);
    let class = &report["classes"][0];
    assert_eq!(
        (&class["class"], &class["hold"]),
        (&Value::from(3), &Value::from("pause"))
    );
    let thresholds = class["thresholds"].as_array().expect("thresholds");
    let cells: Vec<(&str, Option<u64>, Option<u64>)> = thresholds
        .iter()
        .map(|threshold| {
            let cells = |field: &str| threshold[field].as_u64();
            (
                threshold["name"].as_str().expect("a name"),
                cells("cells"),
                cells("expected_cells"),
            )
        })
        .collect();
    let both = |name, cells| (name, Some(cells), Some(cells));
    assert_eq!(
        cells,
        [
            both("xoff", 20_036),
            both("xon", 12),
            both("headroom", 486),
            both("drop", 20_523)
        ]
    );
}

#[test]
fn an_unexpected_result_exits_with_1() {
    let files = TestFolder::new();
    let is = files.write_file("is.json", &TOMAHAWK_2.replace("101088", "100880"));
    let wanted = files.write_file("wanted.json", TOMAHAWK_2);
    let wanted = wanted.to_str().expect("a path");
    let common = [
        "--class",
        "3",
        "--verify",
        "1",
        "--to",
        "Ethernet4",
        "--expect",
        wanted,
    ];
    let output = run_probe(&is, &common);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("DIFFERS") && table.contains("485"), "{table}");
    assert!(!table.contains("xon"), "one egress: {table}");
    let tolerant = run_probe(&is, &[&common[..], &["--tolerance", "1"]].concat());
    assert_eq!(tolerant.status.code(), Some(0));
}

#[test]
fn switches_that_cannot_be_probed_are_refused() {
    let files = TestFolder::new();
    let good = files.write_file("good.json", TOMAHAWK_2);
    for (options, code, text) in [
        (
            &["--port", "Ethernet1"][..],
            2,
            "the switch has no port Ethernet1",
        ),
        (&["--to", "Ethernet0"], 2, "without the ingress port"),
        (
            &["--class", "7"],
            2,
            "no frame that comes in on Ethernet0 has traffic class 7",
        ),
        (&["--class", "16"], 2, "16"),
        (&["--frame-size", "9000"], 2, "longer than the ports' MTU"),
    ] {
        let output = run_probe(&good, options);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{options:?}: {errors}");
        assert!(errors.contains(text), "{options:?}: {errors}");
    }
    let one_port = files.write_file("one.json", r#"{"PORT": {"Ethernet0": {}}}"#);
    assert_eq!(run_probe(&one_port, &[]).status.code(), Some(4));
    assert_eq!(
        run_probe(&files.folder.path().join("none.json"), &[])
            .status
            .code(),
        Some(4)
    );
}
