//! Comparisons with published traces of the HPCC model of ns-3, and tests of `xoff bench oracle`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use xoff_lab::ns3::Scenario;
use xoff_measure::oracle::{ScenarioComparison, compare_scenario};

fn oracle_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracles")
        .join(name)
}

fn run_comparison(name: &str) -> ScenarioComparison {
    let folder = Scenario::read(&oracle_folder(name)).unwrap();
    compare_scenario(&folder, 0).unwrap()
}

fn run_xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Asserts that every completion time, every first pause and every transition is equal to the nanosecond.
/// These runs have no random decision.
fn assert_equal_traces(comparison: &ScenarioComparison, flows: usize, pauses: u64) {
    assert_eq!(comparison.flows.len(), flows);
    for flow in &comparison.flows {
        assert_eq!(flow.xoff_ns, flow.reference_ns, "{} -> {}", flow.src, flow.dst);
    }
    assert_eq!(
        (comparison.reference_pauses, comparison.xoff_pauses),
        (pauses, pauses)
    );
    for row in &comparison.pauses {
        assert_eq!(
            (row.xoff, row.xoff_first_ns),
            (row.reference, row.reference_first_ns),
            "{row:?}"
        );
    }
    assert!(comparison.is_within_bounds() && comparison.dropped_frames == 0);
}

#[test]
fn pauses_of_an_incast_of_eight_equal_ns3() {
    let comparison = run_comparison("incast8_pfc");
    assert!(!comparison.dcqcn);
    assert_equal_traces(&comparison, 8, 1_938);
    for flow in &comparison.ethernet {
        let difference = flow.difference.unwrap();
        assert!(difference.abs() < 0.005, "{flow:?}");
    }
}

#[test]
fn a_victim_flow_is_slowed_down_as_in_ns3() {
    let comparison = run_comparison("victim_pfc");
    assert_equal_traces(&comparison, 4, 533);
    // Flow 3 -> 5 shares no bottleneck with the others and still takes more than twice its time without other
    // traffic.
    let victim = comparison.flows.iter().find(|flow| flow.dst == 5).unwrap();
    assert!(victim.xoff_slowdown.unwrap() > 2.0);
}

#[test]
fn dcqcn_prevents_pauses_of_an_incast_as_in_ns3() {
    let comparison = run_comparison("incast8_dcqcn_step");
    assert!(comparison.dcqcn && comparison.is_within_bounds());
    assert_eq!(comparison.xoff_pauses, 0);
    assert!(
        comparison.largest_difference().unwrap() < 0.01,
        "{:?}",
        comparison.flows
    );
}

#[test]
fn bench_oracle_prints_tables_or_json_and_exits_with_0() {
    let victim = oracle_folder("victim_pfc");
    let victim = victim.to_str().unwrap();
    let table = run_xoff(&["bench", "oracle", victim]);
    assert_eq!(table.status.code(), Some(0), "{table:?}");
    let text = String::from_utf8(table.stdout).unwrap();
    for part in [
        "3 -> 5",
        "1,143.217",
        "switch 6 interface 5",
        "With Ethernet's real lengths",
        "ok: 533 transitions",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = run_xoff(&["bench", "oracle", victim, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["schema"], "xoff.oracle/1");
    assert_eq!(
        (&report["holds"], &report["folders"][0]["xoff_pauses"]),
        (&true.into(), &533.into())
    );
    assert_eq!(
        run_xoff(&["bench", "oracle", victim, "--json"]).stdout,
        json.stdout,
        "the same run"
    );
}

/// Returns a copy of a folder with one changed file.
fn folder_with_changed_file(name: &str, file: &str, change: impl Fn(String) -> String) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(oracle_folder(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let path = copy.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(text)).unwrap();
    copy
}

#[test]
fn a_result_beyond_the_bounds_exits_with_1() {
    let slower = folder_with_changed_file("victim_pfc", "fct.csv", |text| text.replace("1143217", "1149217"));
    let output = run_xoff(&["bench", "oracle", slower.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("beyond the bound")
            && text.contains("FAILED: completion times differ by up to 0.522 %"),
        "{text}"
    );
    assert!(text.contains("ok: 533 transitions"), "{text}");
}

#[test]
fn an_invalid_oracle_folder_exits_with_4_and_its_location() {
    type Change = fn(String) -> String;
    let cases: [(&str, Change, &str); 4] = [
        (
            "fct.csv",
            |text| text.replace("fct_ns,", "fct_us,"),
            "fct.csv:1:24",
        ),
        (
            "pfc.csv",
            |text| text.replacen("2000055453", "soon", 1),
            "pfc.csv:2:1",
        ),
        (
            "parameters.txt",
            |text| text.replace("CC_MODE 1", "CC_MODE 5"),
            "parameters.txt:3:9",
        ),
        (
            "flow.txt",
            |text| text.replace("3 5 3 100", "3 7 3 100"),
            "flow.txt:5:3",
        ),
    ];
    for (file, change, place) in cases {
        let wrong = folder_with_changed_file("victim_pfc", file, change);
        let output = run_xoff(&["bench", "oracle", wrong.path().to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{file}: {error}");
        assert!(
            error.contains(place) && error.contains("fix: expected"),
            "{file}: {error}"
        );
    }
    let nothing = run_xoff(&["bench", "oracle", "tests/oracles/absent"]);
    assert_eq!(nothing.status.code(), Some(4));
    assert_eq!(run_xoff(&["bench", "oracle"]).status.code(), Some(2));
}

/// A folder without recorded results runs without a comparison. A window larger than the flow
/// changes no result.
#[test]
fn oracle_results_are_optional_and_windows_equal_the_model() {
    let lone = |parameters: &str, config: &str| {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "topology.txt",
            "4 1 3\n3\n0 3 100Gbps 0.001ms 0\n1 3 100Gbps 0.001ms 0\n2 3 100Gbps 0.001ms 0\n\nnotes\n",
        );
        write("flow.txt", "1\n0 2 3 100 4490 2.0\nnotes\n");
        let common = "ALPHA_RESUME_INTERVAL 1 RP_TIMER 300 EWMA_GAIN 0.00390625 RATE_AI 20Mb/s RATE_HAI 200Mb/s \
                      MIN_RATE 1000Mb/s L2_ACK_INTERVAL 1 KMAX_MAP 1 100000000000 1600 KMIN_MAP 1 100000000000 400 \
                      PMAX_MAP 1 100000000000 0.2 BUFFER_SIZE 32";
        write(config, &format!("{common} {parameters}"));
        let comparison = compare_scenario(&Scenario::read(folder.path()).unwrap(), 0).unwrap();
        assert!(comparison.is_within_bounds() && comparison.flows[0].reference_ns.is_none());
        comparison.flows[0].xoff_ns.unwrap()
    };
    let plain = lone("CC_MODE 1 HAS_WIN 0", "parameters.txt");
    assert_eq!(plain, 4_466);
    assert_eq!(lone("CC_MODE 1 HAS_WIN 1 VAR_WIN 1", "config.txt"), plain);
    assert_eq!(lone("CC_MODE 8 HAS_WIN 1 VAR_WIN 1", "parameters.txt"), plain);
    // HPCC headers add 42 bytes to data packets and 28 bytes to acknowledgements.
    let hpcc = lone("CC_MODE 3 HAS_WIN 1 VAR_WIN 1 MULTI_RATE 0", "parameters.txt");
    assert!((plain..plain + 30).contains(&hpcc), "{hpcc}");
}
