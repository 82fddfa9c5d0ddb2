//! `xoff lab compare` through the program: the table, the files, percentages of one switch, balance, determinism, refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const COLLECTIVE: &str = "
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

/// One flow across two spines.
const ONE_FLOW: &str = "
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

const STAR: &str = "
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

const OPEN_LOOP: &str = "
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

struct Ran {
    folder: TempDir,
    out: String,
    err: String,
}

impl Ran {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        read(&self.path(name))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text("all.json")).expect("JSON")
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `xoff lab compare lab.yml --virtual --json all.json --csv all.csv ...` and checks how it ends.
fn compare(text: &str, arguments: &[&str], exit: i32) -> Ran {
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
    Ran { folder, out, err }
}

/// The row of a scheme, or without a name of the one switch.
fn row<'a>(json: &'a Value, scheme: Option<&str>) -> &'a Value {
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
fn every_scheme_has_a_row_and_so_has_the_one_switch() {
    let by = "transports.default.congestion=none,dcqcn";
    let ran = compare(
        COLLECTIVE,
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
    let json = ran.json();
    assert_eq!(json["schema"], "xoff.compare/1");
    assert_eq!(json["time"], "virtual");
    assert_eq!(json["compared"]["path"], "transports.default.congestion");
    // Congestion control matters on one switch, too: each value has its own.
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(12));
    for row in json["rows"].as_array().expect("rows") {
        let names: Vec<&str> = row["figures"]
            .as_object()
            .map(|figures| figures.keys().map(String::as_str).collect())
            .unwrap_or_default();
        assert_eq!(names, KPIS);
    }
    let none = &row(&json, Some("none"))["figures"];
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
        row(&json, None)["figures"]["percent_of_one_switch"]["median"],
        100.0
    );
    assert_eq!(row(&json, None)["figures"]["link_jain_index"], Value::Null);
    let csv = ran.text("all.csv");
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
        let svg = ran.text(&format!("plots/{name}.svg"));
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}: {svg}"
        );
    }
    assert!(
        ran.text("plots/links.svg")
            .contains("mean of the links between switches")
    );
}

#[test]
fn schemes_are_put_into_a_lab_that_names_none() {
    let arguments = ["--lb", "ecmp,random", "--seeds", "1..=2"];
    let ran = compare(COLLECTIVE, &arguments, 0);
    let json = ran.json();
    assert!(ran.out.contains("Scheme"), "{}", ran.out);
    assert_eq!(json["compared"]["path"], "topology.defaults.load_balancing");
    // Nothing is to be balanced on one switch: it is the same for all schemes.
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(6));
    let ecmp = &row(&json, Some("ecmp"))["figures"];
    assert_eq!(ecmp["out_of_order_ratio"]["max"], 0.0, "{ecmp}");
    let random = &row(&json, Some("random"))["figures"];
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
    let tolerant = COLLECTIVE.replace("mtu: 1024", "mtu: 1024, out_of_order: true");
    let ran = compare(&tolerant, &arguments, 0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let json = ran.json();
    let slowest = |scheme| {
        row(&json, Some(scheme))["figures"]["jct_ns"]["max"]
            .as_f64()
            .expect("a time")
    };
    // A seed in which ECMP puts both flows of a leaf on one uplink is among the two.
    assert!(slowest("random") < slowest("ecmp"), "{}", ran.out);
}

#[test]
fn the_same_comparison_gives_the_same_bytes() {
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
        compare(COLLECTIVE, &arguments("1"), 0),
        compare(COLLECTIVE, &arguments("2"), 0),
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
        assert!(one.text(file) == two.text(file), "{file} differs");
    }
}

#[test]
fn a_lab_of_one_switch_is_all_of_itself() {
    let ran = compare(
        STAR,
        &[
            "--by",
            "transports.default.congestion=none,dcqcn",
            "--seeds",
            "1..=2",
        ],
        0,
    );
    let json = ran.json();
    for scheme in ["none", "dcqcn"] {
        let percent = &row(&json, Some(scheme))["figures"]["percent_of_one_switch"];
        assert_eq!(
            [&percent["min"], &percent["median"], &percent["max"]],
            [100.0; 3],
            "{scheme}"
        );
    }
    assert!(!ran.out.contains("Jain"), "{}", ran.out);
}

#[test]
fn one_flow_uses_one_of_two_spines() {
    let json = compare(ONE_FLOW, &["--by", "transports.default.mtu=1024"], 0).json();
    let figures = &row(&json, Some("1024"))["figures"];
    // Data goes up one of two links and down one of two; acknowledgements count on none of these.
    assert_eq!(figures["link_max_mean_ratio"]["median"], 2.0, "{figures}");
    assert_eq!(figures["link_jain_index"]["median"], 0.5);
    assert!(figures["slowdown_p999"]["median"].as_f64().is_some());
    let one_spine = ONE_FLOW.replace("spines: 2", "spines: 1");
    let json = compare(&one_spine, &["--by", "transports.default.mtu=1024"], 0).json();
    let figures = &row(&json, Some("1024"))["figures"];
    assert_eq!(figures["link_max_mean_ratio"]["median"], 1.0);
    assert_eq!(figures["link_jain_index"]["median"], 1.0);
}

#[test]
fn flows_without_an_end_are_compared_by_goodput() {
    let ran = compare(OPEN_LOOP, &["--by", "topology.fabric.leaf-spine.spines=1,2"], 0);
    for part in ["Goodput", "P99.9 frame", "% of one switch"] {
        assert!(ran.out.contains(part), "no {part:?} in\n{}", ran.out);
    }
    let json = ran.json();
    assert!(row(&json, Some("2"))["job"].is_null());
    let percent = row(&json, Some("1"))["figures"]["percent_of_one_switch"]["median"].as_f64();
    assert!(
        percent.is_some_and(|percent| percent > 80.0 && percent < 110.0),
        "{percent:?}"
    );
}

#[test]
fn several_values_of_set_multiply() {
    let ran = compare(
        COLLECTIVE,
        &[
            "--by",
            "transports.default.congestion=none,dcqcn",
            "--set",
            "workload.jobs.0.bytes=64K,128K",
        ],
        0,
    );
    let json = ran.json();
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["rows"][0]["values"], serde_json::json!(["64K"]));
    assert_eq!(json["parameters"][0]["path"], "workload.jobs.0.bytes");
}

#[test]
fn what_cannot_be_compared_says_why() {
    for (arguments, exit, part) in [
        (&[][..], 2, "--lb"),
        (&["--lb", "ecmp,ecmp"][..], 2, "twice"),
        (&["--lb", "ecmp,,flowlet"][..], 2, "empty"),
        (&["--lb", "no-such-scheme"][..], 4, "load_balancing"),
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
            "what is compared",
        ),
        (&["--by", "transports.default.mtu=1"][..], 4, "mtu"),
        (
            &["--by", "transports.default.mtu=512", "--plots", "lab.yml"][..],
            2,
            "cannot make the folder",
        ),
    ] {
        let ran = compare(COLLECTIVE, arguments, exit);
        assert!(
            ran.err.contains(part),
            "{arguments:?}: no {part:?} in\n{}",
            ran.err
        );
        assert!(!ran.path("all.json").exists());
    }
}
