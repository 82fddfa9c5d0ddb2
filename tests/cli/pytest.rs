//! The plugin for pytest: one test per check of `xoff conform`.

use std::path::Path;
use std::process::{Command, Output};

fn has_pytest() -> bool {
    let found = Command::new("python3").args(["-c", "import pytest"]).output();
    found.is_ok_and(|output| output.status.success())
}

/// Runs the checks under pytest.
fn run_pytest(options: &[&str]) -> Output {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/xoff-conform/src");
    Command::new("python3")
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA"])
        .args(["--pyargs", "xoff_conform.test_checks"])
        .args(options)
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        .env("PYTEST_PLUGINS", "xoff_conform.plugin")
        .env("XOFF", env!("CARGO_BIN_EXE_xoff"))
        .output()
        .expect("python3 starts")
}

#[test]
fn pytest_has_one_test_per_check_with_its_verdict() {
    if !has_pytest() {
        eprintln!("skipped: there is no Python package `pytest`");
        return;
    }
    let selection = [
        "-k",
        "A5 or A6 or A15",
        "--xoff-virtual",
        "--xoff-mutant",
        "adds-timers",
    ];
    let output = run_pytest(&selection);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for part in [
        "PASSED",
        "test_check[A5]",
        "FAILED",
        "test_check[A6]",
        "criterion    T/2 + T: the timer is set again",
        "A15 info: PFC: ignored",
        "1 failed, 1 passed, 1 skipped, 40 deselected",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn pytest_starts_a_simulator_in_lock_step() {
    if !has_pytest() {
        eprintln!("skipped: there is no Python package `pytest`");
        return;
    }
    let peer = format!(
        "{} conform device --lockstep {{socket}}",
        env!("CARGO_BIN_EXE_xoff")
    );
    let output = run_pytest(&["-k", "A8 or A9", "--xoff-peer", &peer]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("2 passed, 41 deselected"), "{output:?}");
}

#[test]
fn pytest_reports_why_no_check_ran() {
    if !has_pytest() {
        eprintln!("skipped: there is no Python package `pytest`");
        return;
    }
    let output = run_pytest(&["-k", "A8", "--xoff-virtual", "--xoff-mutant", "none"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("there is no mutant `none`"), "{output:?}");
    assert!(text.contains("1 error"), "{output:?}");
}
