//! Tests of the checks on the model device, on mutants, and on devices that misbehave.

mod devices;
mod formats;
mod real_time;

use std::sync::atomic::{AtomicBool, Ordering};

use xoff_telemetry::failure::Exit;
use xoff_units::LinkTiming;

use super::*;

const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);
/// The scale of matrices, also of docs/conform-matrix.md.
const MATRIX_SCALE: CheckScale = CheckScale {
    factor: 0.1,
    is_long: false,
};

/// Returns the options of a run of single checks.
fn options(ids: &[&str]) -> RunOptions {
    let checks = ids.iter().map(|id| find_check(id).expect("a check"));
    RunOptions {
        checks: checks.collect(),
        ..RunOptions::new(GIGABIT)
    }
}

/// Returns a mutant by its name.
fn mutant(name: &str) -> &'static Mutant {
    all_mutants()
        .find(|mutant| mutant.name == name)
        .expect("a mutant")
}

#[test]
fn all_checks_pass_on_the_model_host_at_all_speeds() {
    for speed_mbps in [1_000, 10_000, 25_000, 100_000, 400_000] {
        let options = RunOptions::new(LinkTiming::ethernet(speed_mbps));
        let report = run_checks(&options).expect("an allowed speed");
        let counts = report.counts;
        assert_eq!(
            (counts.pass, counts.info),
            (39, 4),
            "{}",
            report::format_run(&report)
        );
        assert_eq!(report.exit(), Exit::Ok);
        assert_eq!(report.kselftest_exit_code(), 0);
    }
}

#[test]
fn the_matrix_is_right_and_equals_its_page() {
    let matrix = run_matrix(
        MatrixScope::Full,
        GIGABIT,
        MATRIX_SCALE,
        2,
        &AtomicBool::new(false),
    )
    .expect("an allowed speed");
    assert_eq!(matrix.problems(), Vec::<String>::new());
    let page = include_str!("../../../docs/conform-matrix.md");
    assert_eq!(
        report::format_matrix_markdown(&matrix),
        page,
        "write the page with `xoff conform matrix --format markdown > docs/conform-matrix.md`"
    );
}

#[test]
fn mutants_are_detected_at_100_gigabits() {
    let link = LinkTiming::ethernet(100_000);
    let matrix = run_matrix(
        MatrixScope::OwnChecks,
        link,
        MATRIX_SCALE,
        2,
        &AtomicBool::new(false),
    )
    .expect("an allowed speed");
    assert_eq!(matrix.problems(), Vec::<String>::new());
}

#[test]
fn a_run_is_repeatable() {
    let run = || serde_json::to_string(&run_checks(&options(&["A2", "A23", "B1", "C6"])).expect("a report"));
    assert_eq!(run().expect("JSON"), run().expect("JSON"));
}

#[test]
fn the_43_checks_are_described_and_their_prerequisites_exist() {
    let ids = |letter: char, count: usize| (1..=count).map(move |number| format!("{letter}{number}"));
    let expected: Vec<String> = ids('A', 26).chain(ids('B', 11)).chain(ids('C', 6)).collect();
    let found: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(found, expected);
    for check in CHECKS {
        for text in [
            check.title,
            check.stimulus,
            check.observation,
            check.criterion,
            check.clause,
        ] {
            assert!(!text.is_empty(), "{}", check.id);
        }
        for id in check.prerequisites {
            assert!(
                find_check(id).is_some_and(|other| other.id != check.id),
                "{}",
                check.id
            );
        }
        let group = match check.id.as_bytes()[0] {
            b'A' => CheckGroup::Reception,
            b'B' => CheckGroup::Generation,
            _ => CheckGroup::Configuration,
        };
        assert_eq!(check.group(), group);
    }
}

#[test]
fn a_failed_prerequisite_is_named() {
    let options = RunOptions {
        mutant: Some(mutant("resumes-late")),
        ..options(&["A5", "A6", "A7"])
    };
    let report = run_checks(&options).expect("a report");
    let results: Vec<_> = report
        .checks
        .iter()
        .map(|check| (check.outcome, check.failed_prerequisites.as_slice()))
        .collect();
    let expected: [(CheckOutcome, &[&str]); 3] = [
        (CheckOutcome::Fail, &[]),
        (CheckOutcome::Fail, &["A5"]),
        (CheckOutcome::Pass, &[]),
    ];
    assert_eq!(results, expected);
    assert_eq!(
        (report.exit(), report.kselftest_exit_code()),
        (Exit::CheckFailed, 1)
    );
}

#[test]
fn expected_deviations_do_not_fail_a_run_and_unexpected_passes_do() {
    let nic = NicFile::parse(
        "nic: test\nxfail:\n  - check: A8\n    why: old firmware\n",
        "nic.yml",
    )
    .expect("a NIC file");
    let run = |mutant: Option<&'static Mutant>| {
        let options = RunOptions {
            mutant,
            nic: Some(nic.clone()),
            ..options(&["A8", "A9"])
        };
        run_checks(&options).expect("a report")
    };
    let expected = run(Some(mutant("ignores-vector")));
    assert_eq!(expected.checks[0].outcome, CheckOutcome::Xfail);
    assert!(expected.checks[0].detail.contains("old firmware"));
    assert_eq!(expected.exit(), Exit::Ok);
    let unexpected = run(None);
    assert_eq!(unexpected.checks[0].outcome, CheckOutcome::Xpass);
    assert!(
        unexpected.checks[0]
            .detail
            .contains("remove A8 from its xfail list")
    );
    assert_eq!(
        (unexpected.exit(), unexpected.kselftest_exit_code()),
        (Exit::CheckFailed, 1)
    );
}

#[test]
fn a_deviation_with_forms_expects_no_failure_with_another_form() {
    let text = "nic: test\nxfail: [{check: A17, forms: [50 bytes], why: no shortest frame}]\n";
    let nic = NicFile::parse(text, "nic.yml").expect("a NIC file");
    let run = |name: &str| {
        let options = RunOptions {
            mutant: Some(mutant(name)),
            nic: Some(nic.clone()),
            ..options(&["A17"])
        };
        let report = run_checks(&options).expect("a report");
        (report.checks[0].outcome, report.checks[0].detail.clone())
    };
    let (outcome, detail) = run("accepts-runts");
    assert_eq!(outcome, CheckOutcome::Xfail, "{detail}");
    for (name, form) in [
        ("accepts-bad-fcs", "wrong FCS: class 3"),
        ("only-64-bytes", "1518 bytes: class 3"),
    ] {
        let (outcome, detail) = run(name);
        assert_eq!(outcome, CheckOutcome::Fail);
        assert!(detail.contains(form), "{detail}");
        assert!(
            detail.ends_with("(only failures with 50 bytes are expected)"),
            "{detail}"
        );
    }
}

#[test]
fn wrong_nic_files_are_refused_with_a_correction() {
    let entry = |check: &str| format!("nic: n\nxfail:\n  - check: {check}\n    why: w\n");
    for (text, what, fix) in [
        (
            entry("A55"),
            "the check `A55`, which does not exist",
            "the checks are A1, A2",
        ),
        (
            entry("D3"),
            "the check `D3`, which does not exist",
            "`xoff conform list`",
        ),
        (entry("B9"), "B9 is informational", "remove"),
        (entry("A5") + "  - check: a5\n    why: w\n", "twice", "one entry"),
        (
            "nic: n\nxfail: [{check: A5, why: ' '}]\n".to_owned(),
            "A5 has no reason",
            "write why",
        ),
        (
            "nic: n\nxfail: [{check: A17, forms: [51 bytes], why: w}]\n".to_owned(),
            "A17 has no form `51 bytes`",
            "the forms are wrong FCS, 50 bytes",
        ),
        (
            "nic: n\nxfail: [{check: A5, forms: [long], why: w}]\n".to_owned(),
            "A5 has no form `long`",
            "A5 has no forms",
        ),
        ("nic: n\nxfails: []\n".to_owned(), "not valid", "`xfail`"),
        (String::new(), "not valid", "docs/conform.md"),
    ] {
        let failure = NicFile::parse(&text, "nic.yml").expect_err("a wrong file");
        assert_eq!(failure.exit, Exit::Configuration);
        assert!(failure.what.contains(what), "{failure}");
        assert!(
            failure.fix.as_deref().unwrap_or_default().contains(fix),
            "{failure}"
        );
    }
}

#[test]
fn errors_of_the_form_of_a_nic_file_name_the_line_without_its_text() {
    let failure = NicFile::parse("nic: n\nxfial: []\n", "my.yml").expect_err("a wrong file");
    assert_eq!(failure.location.as_deref(), Some("my.yml:2"));
    let why = failure.why.unwrap_or_default();
    assert!(
        why.contains("unknown field") && why.contains("xfial") && !why.contains('\n'),
        "{why}"
    );
}

#[test]
fn the_nic_files_of_the_repository_are_valid() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testbeds/nics"));
    let files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of NIC files")
        .collect();
    assert!(files.len() >= 2);
    for file in files {
        let path = file.expect("an entry").path();
        let nic = NicFile::read(&path).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(!nic.xfail.is_empty(), "{}", path.display());
    }
}

#[test]
fn an_interrupted_run_and_matrix_end_before_their_next_check() {
    let options = options(&["A1", "A5"]);
    options.stop.store(true, Ordering::Relaxed);
    let report = run_checks(&options).expect("a report");
    assert!(report.is_interrupted && report.checks.is_empty());
    assert_eq!(report.exit(), Exit::Interrupted);
    let matrix =
        run_matrix(MatrixScope::Full, GIGABIT, MATRIX_SCALE, 2, &options.stop).expect("an allowed speed");
    assert!(matrix.rows.iter().all(|row| row.reports.is_empty()));
}

#[test]
fn the_long_forms_have_more_transitions() {
    let text = |scale: CheckScale| {
        let options = RunOptions {
            scale,
            ..options(&["A23"])
        };
        run_checks(&options).expect("a report").checks[0].detail.clone()
    };
    assert!(text(CheckScale::default()).starts_with("10,000"));
    assert!(text(MATRIX_SCALE).starts_with("1,000"));
}
