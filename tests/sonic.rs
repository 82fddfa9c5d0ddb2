//! SONiC's tests as labs (`tests/sonic/`): the core of them here, all by `xoff lab check tests/sonic/*.xoff.yml --virtual --format table`;
//! and `docs/sonic-tests.md`, which has to have a row for each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Labs that take well below a second even without optimisation, one of each kind.
const CORE: &[&str] = &[
    "testQosSaiPfcXoffLimit",
    "testQosSaiPfcXoffLimitTomahawk",
    "testQosSaiPfcXonLimit",
    "testQosSaiHeadroomPoolSize",
    "testQosSaiPgSharedWatermark",
    "testQosSaiLossyQueue",
    "testQosSaiDscpQueueMapping",
    "testQosSaiDwrr",
    "testQosSaiEcn",
    "test_pfc_pause",
    "test_pfc_counters",
    "test_pfc_pause_zero_mac",
    "test_dequeue_ecn_with_snappi",
    "test_drop_counters",
    "test_ars_acl_disable",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names of the lab files, without their ending.
fn files() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("tests/sonic")).expect("the folder is there");
    let names = entries.map(|entry| {
        entry
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names
        .filter_map(|name| name.strip_suffix(".xoff.yml").map(str::to_owned))
        .collect()
}

/// A row of the table: its cells.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells = line.trim().trim_matches('|').split(" | ");
        cells.map(str::trim).collect()
    })
}

#[test]
fn the_core_of_sonics_tests_passes() {
    let files: Vec<String> = CORE
        .iter()
        .map(|name| format!("tests/sonic/{name}.xoff.yml"))
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", "check", "--virtual", "--format", "table"])
        .args(&files)
        .current_dir(root())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let passed = format!("{} tests: {} passed, 0 failed", CORE.len(), CORE.len());
    assert!(text.contains(&passed), "{text}");
}

#[test]
fn every_lab_has_a_row_and_every_row_its_lab() {
    let text = fs::read_to_string(root().join("docs/sonic-tests.md")).expect("readable");
    let mut named = BTreeSet::new();
    for row in rows(&text) {
        let Some(ours) = row.get(1) else { continue };
        for name in ours.split('`').skip(1).step_by(2) {
            named.insert(name.to_owned());
        }
    }
    assert_eq!(named, files());
}

#[test]
fn labs_are_called_as_their_files_or_begin_alike() {
    for name in files() {
        let path = root().join(format!("tests/sonic/{name}.xoff.yml"));
        let text = fs::read_to_string(path).expect("readable");
        let lab = text
            .lines()
            .find_map(|line| line.strip_prefix("name: "))
            .expect("a name");
        // The name of a lab has 48 letters at most.
        assert!(
            name == lab || (name.len() > 48 && lab.get(..20) == name.get(..20)),
            "{name}: {lab}"
        );
        assert!(
            text.contains("# Upstream: ") || text.contains("Upstream: "),
            "{name} does not say what it is made after"
        );
    }
}
