//! Tests of SONiC's test cases as labs in `tests/sonic/`. This file runs a core of them, and `xoff lab check
//! tests/sonic/*.xoff.yml --virtual --format table` runs all. The file also checks that `docs/sonic-tests.md`
//! has a row for each lab.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Labs that take well below a second without optimisation, one of each kind.
const CORE_LABS: &[&str] = &[
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

fn workspace_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the names of the lab files without their extension.
fn lab_names() -> BTreeSet<String> {
    let entries = fs::read_dir(workspace_folder().join("tests/sonic")).expect("the folder is there");
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

/// Returns the rows of the table as lists of cells.
fn table_rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells = line.trim().trim_matches('|').split(" | ");
        cells.map(str::trim).collect()
    })
}

#[test]
fn core_labs_of_sonic_tests_pass() {
    let files: Vec<String> = CORE_LABS
        .iter()
        .map(|name| format!("tests/sonic/{name}.xoff.yml"))
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", "check", "--virtual", "--format", "table"])
        .args(&files)
        .current_dir(workspace_folder())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let passed = format!("{} tests: {} passed, 0 failed", CORE_LABS.len(), CORE_LABS.len());
    assert!(text.contains(&passed), "{text}");
}

/// Labs with several switches give the same result with several threads. All other labs have one switch, so they have
/// one thread.
#[test]
fn the_number_of_threads_changes_no_result() {
    let result_of = |threads: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
            .args([
                "lab",
                "check",
                "--virtual",
                "--format",
                "json",
                "--threads",
                threads,
            ])
            .arg("tests/sonic/test_ars_acl_disable.xoff.yml")
            .current_dir(workspace_folder())
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let result = result_of("1");
    assert!(result.contains("test_ars_acl_disable"), "{result}");
    for threads in ["2", "3", "8"] {
        assert_eq!(result_of(threads), result, "{threads} threads");
    }
}

#[test]
fn labs_and_rows_of_the_page_correspond() {
    let text = fs::read_to_string(workspace_folder().join("docs/sonic-tests.md")).expect("readable");
    let mut named = BTreeSet::new();
    for row in table_rows(&text) {
        let Some(ours) = row.get(1) else { continue };
        for name in ours.split('`').skip(1).step_by(2) {
            named.insert(name.to_owned());
        }
    }
    assert_eq!(named, lab_names());
}

#[test]
fn lab_names_equal_their_file_names_or_a_prefix() {
    for name in lab_names() {
        let path = workspace_folder().join(format!("tests/sonic/{name}.xoff.yml"));
        let text = fs::read_to_string(path).expect("readable");
        let lab = text
            .lines()
            .find_map(|line| line.strip_prefix("name: "))
            .expect("a name");
        // The name of a lab has at most 48 characters.
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
