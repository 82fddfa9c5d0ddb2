//! Tests of `xoff lab compare`: the table, the files, percentages of a single switch, balance, determinism
//! and refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const COLLECTIVE_LAB: &str = "
name: collective
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, delay: 1us, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: none}
workload:
  jobs:
    - {name: reduce, kind: ring-allreduce, hosts: [h1, h3, h2, h4], bytes: 256K}
";

/// One flow across a fabric with two spines.
const ONE_FLOW_LAB: &str = "
name: one-flow
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 1, speed: 100g, delay: 1us, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024}
workload:
  jobs:
    - {name: copy, kind: flows, flows: [{from: h1, to: h2, bytes: 1M}]}
";

const STAR_LAB: &str = "
name: star
topology:
  fabric:
    star: {hosts: 4, speed: 25g, delay: 1us, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: none}
workload:
  jobs:
    - {name: swap, kind: permutation, hosts: all, bytes: 256K}
";

const OPEN_LOOP_LAB: &str = "
name: open
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, delay: 1us, config: {preset: roce-lossless}}
workload:
  duration: 20us
  drain: 1ms
  flows:
    - {name: across, from: [h1, h2], to: h3, lossless: true, rate: 90%}
";

struct CompareRun {
    folder: TempDir,
    out: String,
    err: String,
}

impl CompareRun {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read_text(&self, name: &str) -> String {
        read_file(&self.path(name))
    }

    fn read_json(&self) -> Value {
        serde_json::from_str(&self.read_text("all.json")).expect("JSON")
    }
}

fn read_file(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `xoff lab compare lab.yml --virtual --json all.json --csv all.csv` with more arguments and checks the
/// exit code.
fn run_compare(text: &str, arguments: &[&str], exit: i32) -> CompareRun {
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
            "--csv",
            "all.csv",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("xoff can be started");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}\n{out}\n{err}");
    CompareRun { folder, out, err }
}

/// Returns the row of a scheme. `None`: the row of the single switch.
fn row_of_scheme<'a>(json: &'a Value, scheme: Option<&str>) -> &'a Value {
    let rows = json["rows"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["scheme"].as_str() == scheme);
    found.unwrap_or_else(|| panic!("no row of {scheme:?} in {json}"))
}

const KPIS: [&str; 14] = [
    "bus_bandwidth_gbytes_per_s",
    "dropped_frames",
    "ecn_marked_ratio",
    "frame_latency_p999_ns",
    "goodput_bps",
    "jct_ns",
    "jct_ratio",
    "link_jain_index",
    "link_max_mean_ratio",
    "message_latency_p999_ns",
    "out_of_order_ratio",
    "pausing_ns",
    "percent_of_one_switch",
    "slowdown_p999",
];

#[test]
fn every_scheme_and_the_single_switch_have_a_row() {
    let by = "transports.default.congestion=none,dcqcn";
    let ran = run_compare(
        COLLECTIVE_LAB,
        &["--by", by, "--seeds", "1..=3", "--plots", "plots"],
        0,
    );
    for part in [
        "lab collective, virtual time: median [smallest, largest] of 3 seeds",
        "Busbw GB/s",
        "% of one switch",
        "JCT ratio",
        "P99.9 message",
        "Max/mean",
        "Jain",
        "Paused",
        "ECN-marked",
        "Reordered",
        "Drops",
        "one switch",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in\n{}", ran.out);
    }
    let json = ran.read_json();
    assert_eq!(json["schema"], "xoff.compare/1");
    assert_eq!(json["time"], "virtual");
    assert_eq!(json["compared"]["path"], "transports.default.congestion");
    // Congestion control also matters on a single switch, so each value has its own single-switch row.
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(12));
    for row in json["rows"].as_array().expect("rows") {
        let names: Vec<&str> = row["figures"]
            .as_object()
            .map(|figures| figures.keys().map(String::as_str).collect())
            .unwrap_or_default();
        assert_eq!(names, KPIS);
    }
    let none = &row_of_scheme(&json, Some("none"))["figures"];
    let percent = &none["percent_of_one_switch"];
    let [min, median, max] = ["min", "median", "max"].map(|of| percent[of].as_f64().expect("a number"));
    assert!(
        10.0 < min && min <= median && median <= max && max < 100.0,
        "{percent}"
    );
    assert_eq!(none["slowdown_p999"], Value::Null);
    assert!(
        none["message_latency_p999_ns"]["median"]
            .as_f64()
            .is_some_and(|ns| ns > 1_000.0)
    );
    assert_eq!(
        row_of_scheme(&json, None)["figures"]["percent_of_one_switch"]["median"],
        100.0
    );
    assert_eq!(
        row_of_scheme(&json, None)["figures"]["link_jain_index"],
        Value::Null
    );
    let csv = ran.read_text("all.csv");
    let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields, [5 + 3 * KPIS.len(); 5], "{csv}");
    for name in [
        "jct",
        "links",
        "none-queues",
        "none-pauses",
        "dcqcn-queues",
        "dcqcn-pauses",
    ] {
        let svg = ran.read_text(&format!("plots/{name}.svg"));
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}: {svg}"
        );
    }
    assert!(
        ran.read_text("plots/links.svg")
            .contains("mean of the links between switches")
    );
}

#[test]
fn schemes_are_added_to_a_lab_without_a_scheme() {
    let arguments = ["--lb", "ecmp,random", "--seeds", "1..=2"];
    let ran = run_compare(COLLECTIVE_LAB, &arguments, 0);
    let json = ran.read_json();
    assert!(ran.out.contains("Scheme"), "{}", ran.out);
    assert_eq!(json["compared"]["path"], "topology.defaults.load_balancing");
    // A single switch has no paths to balance, so its row is the same for all schemes.
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(6));
    let ecmp = &row_of_scheme(&json, Some("ecmp"))["figures"];
    assert_eq!(ecmp["out_of_order_ratio"]["max"], 0.0, "{ecmp}");
    let random = &row_of_scheme(&json, Some("random"))["figures"];
    assert!(
        random["out_of_order_ratio"]["min"]
            .as_f64()
            .is_some_and(|ratio| ratio > 0.0)
    );
    assert!(
        ran.err.contains("warning: random: ") && ran.err.contains("go-back-N"),
        "{}",
        ran.err
    );
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(1));
    let tolerant = COLLECTIVE_LAB.replace("mtu: 1024", "mtu: 1024, out_of_order: true");
    let ran = run_compare(&tolerant, &arguments, 0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let json = ran.read_json();
    let slowest = |scheme| {
        row_of_scheme(&json, Some(scheme))["figures"]["jct_ns"]["max"]
            .as_f64()
            .expect("a time")
    };
    // One of the two seeds places both flows of a leaf on one uplink under ECMP.
    assert!(slowest("random") < slowest("ecmp"), "{}", ran.out);
}

#[test]
fn equal_comparisons_give_equal_bytes() {
    let arguments = |jobs: &'static str| {
        [
            "--by",
            "workload.jobs.0.bytes=64K,256K",
            "--seeds",
            "1,7",
            "--jobs",
            jobs,
            "--plots",
            "p",
        ]
    };
    let (one, two) = (
        run_compare(COLLECTIVE_LAB, &arguments("1"), 0),
        run_compare(COLLECTIVE_LAB, &arguments("2"), 0),
    );
    assert_eq!(one.out, two.out);
    for file in [
        "all.json",
        "all.csv",
        "p/jct.svg",
        "p/links.svg",
        "p/64K-queues.svg",
        "p/64K-pauses.svg",
    ] {
        assert!(one.read_text(file) == two.read_text(file), "{file} differs");
    }
}

#[test]
fn a_lab_of_one_switch_reaches_100_percent_of_one_switch() {
    let ran = run_compare(
        STAR_LAB,
        &[
            "--by",
            "transports.default.congestion=none,dcqcn",
            "--seeds",
            "1..=2",
        ],
        0,
    );
    let json = ran.read_json();
    for scheme in ["none", "dcqcn"] {
        let percent = &row_of_scheme(&json, Some(scheme))["figures"]["percent_of_one_switch"];
        assert_eq!(
            [&percent["min"], &percent["median"], &percent["max"]],
            [100.0; 3],
            "{scheme}"
        );
    }
    assert!(!ran.out.contains("Jain"), "{}", ran.out);
}

#[test]
fn a_single_flow_uses_one_of_two_spines() {
    let json = run_compare(ONE_FLOW_LAB, &["--by", "transports.default.mtu=1024"], 0).read_json();
    let figures = &row_of_scheme(&json, Some("1024"))["figures"];
    // Data uses one of two uplinks and one of two downlinks. Acknowledgements count on none of these links.
    assert_eq!(figures["link_max_mean_ratio"]["median"], 2.0, "{figures}");
    assert_eq!(figures["link_jain_index"]["median"], 0.5);
    assert!(figures["slowdown_p999"]["median"].as_f64().is_some());
    let one_spine = ONE_FLOW_LAB.replace("spines: 2", "spines: 1");
    let json = run_compare(&one_spine, &["--by", "transports.default.mtu=1024"], 0).read_json();
    let figures = &row_of_scheme(&json, Some("1024"))["figures"];
    assert_eq!(figures["link_max_mean_ratio"]["median"], 1.0);
    assert_eq!(figures["link_jain_index"]["median"], 1.0);
}

#[test]
fn open_loop_flows_are_compared_by_goodput() {
    let ran = run_compare(
        OPEN_LOOP_LAB,
        &["--by", "topology.fabric.leaf-spine.spines=1,2"],
        0,
    );
    for part in ["Goodput", "P99.9 frame", "% of one switch"] {
        assert!(ran.out.contains(part), "no {part:?} in\n{}", ran.out);
    }
    let json = ran.read_json();
    assert!(row_of_scheme(&json, Some("2"))["job"].is_null());
    let percent = row_of_scheme(&json, Some("1"))["figures"]["percent_of_one_switch"]["median"].as_f64();
    assert!(
        percent.is_some_and(|percent| percent > 80.0 && percent < 110.0),
        "{percent:?}"
    );
}

#[test]
fn several_set_options_give_all_combinations() {
    let ran = run_compare(
        COLLECTIVE_LAB,
        &[
            "--by",
            "transports.default.congestion=none,dcqcn",
            "--set",
            "workload.jobs.0.bytes=64K,128K",
        ],
        0,
    );
    let json = ran.read_json();
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["rows"][0]["values"], serde_json::json!(["64K"]));
    assert_eq!(json["parameters"][0]["path"], "workload.jobs.0.bytes");
}

#[test]
fn invalid_comparisons_are_refused_with_a_reason() {
    for (arguments, exit, part) in [
        (&[][..], 2, "--lb"),
        (&["--lb", "ecmp,ecmp"][..], 2, "twice"),
        (&["--lb", "ecmp,,flowlet"][..], 2, "empty"),
        (&["--lb", "no-such-scheme"][..], 2, "--lb no-such-scheme"),
        (&["--lb", "ecmp,ecpm"][..], 2, "did you mean `ecmp`?"),
        (
            &["--by", "topology.defaults.load_balancing=ecmp,x"][..],
            2,
            "--by topology.defaults.load_balancing=x",
        ),
        (
            &["--by", "transports.default.congestoin=none"][..],
            2,
            "transports.default.congestion",
        ),
        (
            &[
                "--by",
                "transports.default.mtu=1024",
                "--set",
                "transports.default.mtu=512",
            ][..],
            2,
            "is the compared field",
        ),
        (&["--by", "transports.default.mtu=1"][..], 4, "mtu"),
        (
            &["--by", "transports.default.mtu=512", "--plots", "lab.yml"][..],
            2,
            "cannot create the folder",
        ),
    ] {
        let ran = run_compare(COLLECTIVE_LAB, arguments, exit);
        assert!(
            ran.err.contains(part),
            "{arguments:?}: no {part:?} in\n{}",
            ran.err
        );
        assert!(!ran.path("all.json").exists());
    }
}

/// No packet arrives within 1 us, so no job ends. The runs fail, and they prove something.
#[test]
fn runs_that_do_not_end_fail_the_comparison_and_the_sweep() {
    let ran = run_compare(COLLECTIVE_LAB, &["--lb", "ecmp,random", "--until", "1us"], 1);
    assert!(ran.out.contains("3 runs failed"), "{}", ran.out);
    let sweep = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(ran.folder.path())
        .args([
            "lab",
            "run",
            "lab.yml",
            "--virtual",
            "--seeds",
            "1..=2",
            "--until",
            "1us",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("xoff can be started");
    assert_eq!(sweep.status.code(), Some(1), "{sweep:?}");
}
