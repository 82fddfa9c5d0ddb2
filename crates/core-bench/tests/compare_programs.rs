//! `core-bench compare` with programs and saved results.
//!
//! The programs are scripts that print fixed or random results, so that the speed of the machine does not
//! matter. A disturbed machine can make a comparison in turns inconclusive, but it cannot reverse the result.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xoff_testing::{ProgramResult, bench_result_json, run_program, write_file};

fn run_compare(a: &Path, b: &Path, options: &[&str]) -> ProgramResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_core-bench"));
    run_program(command.arg("compare").args([a, b]).args(options))
}

fn write_program(folder: &TempDir, name: &str, script: &str) -> PathBuf {
    let path = write_file(folder.path(), name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file belongs to this process");
    path
}

/// Writes a program that prints this number of instructions as its figure.
fn write_counting_program(folder: &TempDir, name: &str, instructions: f64) -> PathBuf {
    let text = bench_result_json(
        "core",
        "ecmp/instructions",
        "instructions",
        &instructions.to_string(),
        "",
    );
    write_program(folder, name, &format!("cat <<'END'\n{text}\nEND"))
}

/// Writes a program that prints a random figure between `nanos` and 2 % more, in nanoseconds.
fn write_timing_program(folder: &TempDir, name: &str, nanos: f64) -> PathBuf {
    let text = bench_result_json("core", "ecmp/time", "ns", "VALUE", "");
    let draw = format!(
        "value=$(od -An -N4 -tu4 /dev/urandom | awk '{{ printf \"%.6f\", {nanos} * (1 + 0.02 * $1 / 4294967296) }}')"
    );
    write_program(
        folder,
        name,
        &format!("{draw}\nsed s/VALUE/$value/ <<'END'\n{text}\nEND"),
    )
}

#[test]
fn instructions_are_compared_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let a = write_counting_program(&folder, "a", 1_000.0);
    for (b, gate, code, words) in [
        (1_000.0, "3", 0, "ecmp/instructions: the same"),
        (1_050.0, "3", 1, "B is 5.0 % more"),
        (1_020.0, "3", 0, "less than the gate"),
        (900.0, "3", 0, "B is 10.0 % less"),
    ] {
        let b = write_counting_program(&folder, "b", b);
        let result = run_compare(&a, &b, &["--gate", gate, "--by", "instructions"]);
        assert_eq!(result.code, Some(code), "{} {}", result.stdout, result.stderr);
        assert!(result.stdout.contains(words), "{words}: {}", result.stdout);
    }
}

#[test]
fn programs_that_take_time_are_compared_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let (a, same) = (
        write_timing_program(&folder, "a", 100.0),
        write_timing_program(&folder, "same", 100.0),
    );
    let slower = write_timing_program(&folder, "slower", 105.0);
    let result = run_compare(&a, &same, &["--gate", "3"]);
    assert!(
        matches!(result.code, Some(0 | 5)),
        "{} {}",
        result.stdout,
        result.stderr
    );
    let result = run_compare(&a, &slower, &["--gate", "3"]);
    assert!(
        matches!(result.code, Some(1 | 5)),
        "{} {}",
        result.stdout,
        result.stderr
    );
    assert!(!result.stdout.contains("equal"), "{}", result.stdout);
}

#[test]
fn a_result_of_another_bench_is_refused_after_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let saved = write_file(
        folder.path(),
        "ndr.json",
        &bench_result_json("ndr", "ecmp/time", "ns", "1", ""),
    );
    let runs = folder.path().join("runs");
    let text = bench_result_json("core", "ecmp/time", "ns", "1", "");
    let script = format!("echo run >> {}\ncat <<'END'\n{text}\nEND", runs.display());
    let result = run_compare(&saved, &write_program(&folder, "core", &script), &[]);
    assert_eq!(result.code, Some(2), "{}", result.stderr);
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n");
}

#[test]
fn a_program_that_fails_or_prints_no_result_is_reported_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let a = write_file(
        folder.path(),
        "a.json",
        &bench_result_json("core", "ecmp/time", "ns", "1", ""),
    );
    for (name, script, code, message) in [
        ("fails", "echo no such thing >&2; exit 3", 3, "no such thing"),
        ("talks", "echo hello", 3, "prints no result"),
        // Exit code 1 of a side does not mean that the side is slower.
        ("silent", "exit 1", 3, "it printed nothing"),
        ("no-workload", "echo no workload >&2; exit 2", 2, "no workload"),
        ("no-file", "echo no such file >&2; exit 4", 4, "no such file"),
    ] {
        let result = run_compare(&a, &write_program(&folder, name, script), &[]);
        assert_eq!(
            result.code,
            Some(code),
            "{name}: {} {}",
            result.stdout,
            result.stderr
        );
        assert!(result.stderr.contains(message), "{message}: {}", result.stderr);
        assert_eq!(result.stdout, "", "{name}");
    }
}

#[test]
fn arguments_that_a_program_refuses_are_a_usage_error() {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_core-bench"));
    for (arguments, message) in [
        (&["--workload", "nope"][..], "nope"),
        (&["--", "run", "--nope"], "--nope"),
    ] {
        let result = run_compare(&own, &own, arguments);
        assert_eq!(result.code, Some(2), "{arguments:?}: {}", result.stderr);
        assert!(
            result.stderr.contains(message),
            "{arguments:?}: {}",
            result.stderr
        );
    }
}

#[test]
fn configurations_are_refused_with_the_command_that_compares_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_file(folder.path(), "config_db.json", "{}");
    let result = run_compare(&config, &config, &[]);
    assert_eq!(result.code, Some(2), "{}", result.stderr);
    assert!(result.stderr.contains("xoff bench compare"), "{}", result.stderr);
}
