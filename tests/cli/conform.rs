//! `xoff conform`: results, exit codes and files.

use super::{assert_refused, run_command, write_file};

#[test]
fn conform_reports_its_checks_with_the_exit_codes_of_xoff_and_kselftest() {
    let nic = concat!(env!("CARGO_MANIFEST_DIR"), "/testbeds/nics/example.yml");
    let mutant = ["--mutant", "ignores-vector"];
    for (options, code, text) in [
        (vec![], 0, "39 pass, 4 info"),
        (vec!["A8", mutant[0], mutant[1]], 1, "A8     FAIL"),
        (vec!["a8", mutant[0], mutant[1], "--nic", nic], 0, "1 xfail"),
        (vec!["A8", "--nic", nic], 1, "XPASS"),
        (
            vec!["A8", "--nic", nic, "--kselftest"],
            1,
            "not ok 1 A8 a clear enable bit means no pause # XPASS",
        ),
        (
            vec!["B", "--speed", "10g", "--scale", "0.5"],
            0,
            "10000 Mb/s, timing exact, counts and durations scaled by 0.5",
        ),
    ] {
        let run = run_command(&[&["conform", "run", "--virtual"], options.as_slice()].concat());
        assert_eq!(run.code, Some(code), "{options:?}: {run:?}");
        assert!(run.stdout.contains(text), "{options:?}: {run:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = write_file(
        folder.path(),
        "nic.yml",
        "nic: n\nxfail:\n  - {check: A99, why: w}\n",
    );
    let run = ["conform", "run", "--virtual"];
    assert_refused(
        &[&run[..], &["--nic", &wrong]].concat(),
        4,
        &["A99", "the checks are A1, A2"],
    );
    assert_refused(
        &[&run[..], &["A77"]].concat(),
        2,
        &["`A77`", "the checks are A1, A2"],
    );
    assert_refused(
        &[&run[..], &["--mutant", "none"]].concat(),
        2,
        &["`none`", "--mutant"],
    );
    assert_refused(&["conform", "run"], 2, &["--virtual"]);
    let both = run_command(&[&run[..], &["--kselftest", "--format", "json"]].concat());
    assert_eq!(both.code, Some(2), "{both:?}");
}

#[test]
fn conform_writes_json_and_junit_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (json, junit) = (path("report.json"), path("report.xml"));
    let run = run_command(&[
        "conform",
        "run",
        "--virtual",
        "A1",
        "C4",
        "--report",
        &json,
        "--junit",
        &junit,
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("a report")).expect("JSON");
    assert_eq!(report["counts"]["pass"], 1);
    assert_eq!(report["checks"][1]["outcome"], "info");
    assert!(
        std::fs::read_to_string(junit)
            .expect("a file")
            .contains("<testsuite name=\"xoff conform model host\"")
    );
}
