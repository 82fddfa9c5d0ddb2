//! `core-bench compare` with programs and saved results.
//!
//! The programs are scripts that print fixed or random results, so that the speed of the machine does not matter. A disturbed
//! machine can make a comparison in turns inconclusive, but it cannot reverse the result.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

struct Told {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn compare(a: &Path, b: &Path, more: &[&str]) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_core-bench"));
    tell(command.arg("compare").args([a, b]).args(more))
}

fn tell(command: &mut Command) -> Told {
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let told = Told {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!told.stderr.contains("panicked"), "{}", told.stderr);
    told
}

/// What a bench would have printed: one figure with these samples.
fn result(bench: &str, name: &str, unit: &str, samples: &str, tainted: &str) -> String {
    let environment = r#"{"xoff_version": "0", "kernel": "6", "cpu_model": "c", "cores": 2, "governor": null,
        "clocksource": "tsc", "steal_percent": 0.0}"#;
    format!(
        r#"{{"schema": "xoff-bench/1", "bench": "{bench}", "subject": "s", "seed": 1, "environment": {environment},
        "tainted": [{tainted}], "notes": [], "figures": [{{"name": "{name}", "unit": "{unit}", "better": "smaller",
        "samples": [{samples}]}}]}}"#
    )
}

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file in a folder of ours");
    path
}

fn program(folder: &TempDir, name: &str, script: &str) -> PathBuf {
    let path = file(folder, name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// A program whose figure is this many instructions.
fn counting(folder: &TempDir, name: &str, instructions: f64) -> PathBuf {
    let text = result(
        "core",
        "ecmp/instructions",
        "instructions",
        &instructions.to_string(),
        "",
    );
    program(folder, name, &format!("cat <<'END'\n{text}\nEND"))
}

/// A program whose figure is this many nanoseconds, and up to two percent more.
fn timing(folder: &TempDir, name: &str, nanos: f64) -> PathBuf {
    let text = result("core", "ecmp/time", "ns", "VALUE", "");
    let draw = format!(
        "value=$(od -An -N4 -tu4 /dev/urandom | awk '{{ printf \"%.6f\", {nanos} * (1 + 0.02 * $1 / 4294967296) }}')"
    );
    program(
        folder,
        name,
        &format!("{draw}\nsed s/VALUE/$value/ <<'END'\n{text}\nEND"),
    )
}

#[test]
fn instructions_are_compared_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let a = counting(&folder, "a", 1_000.0);
    for (b, gate, code, words) in [
        (1_000.0, "3", 0, "ecmp/instructions: the same"),
        (1_050.0, "3", 1, "B is 5.0 % more"),
        (1_020.0, "3", 0, "less than the gate"),
        (900.0, "3", 0, "B is 10.0 % less"),
    ] {
        let b = counting(&folder, "b", b);
        let told = compare(&a, &b, &["--gate", gate, "--by", "instructions"]);
        assert_eq!(told.code, Some(code), "{} {}", told.stdout, told.stderr);
        assert!(told.stdout.contains(words), "{words}: {}", told.stdout);
    }
}

#[test]
fn programs_that_take_time_are_compared_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let (a, same) = (timing(&folder, "a", 100.0), timing(&folder, "same", 100.0));
    let slower = timing(&folder, "slower", 105.0);
    let told = compare(&a, &same, &["--gate", "3"]);
    assert!(
        matches!(told.code, Some(0 | 5)),
        "{} {}",
        told.stdout,
        told.stderr
    );
    let told = compare(&a, &slower, &["--gate", "3"]);
    assert!(
        matches!(told.code, Some(1 | 5)),
        "{} {}",
        told.stdout,
        told.stderr
    );
    assert!(!told.stdout.contains("equal"), "{}", told.stdout);
}

#[test]
fn a_result_of_another_bench_is_refused_after_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let saved = file(&folder, "ndr.json", &result("ndr", "ecmp/time", "ns", "1", ""));
    let runs = folder.path().join("runs");
    let text = result("core", "ecmp/time", "ns", "1", "");
    let script = format!("echo run >> {}\ncat <<'END'\n{text}\nEND", runs.display());
    let told = compare(&saved, &program(&folder, "core", &script), &[]);
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n");
}

#[test]
fn a_program_that_fails_or_prints_no_result_is_reported_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let a = file(&folder, "a.json", &result("core", "ecmp/time", "ns", "1", ""));
    for (name, script, code, message) in [
        ("fails", "echo no such thing >&2; exit 3", 3, "no such thing"),
        ("talks", "echo hello", 3, "prints no result"),
        // Exit code 1 of a side does not mean that the side is slower.
        ("silent", "exit 1", 3, "it printed nothing"),
        ("no-workload", "echo no workload >&2; exit 2", 2, "no workload"),
        ("no-file", "echo no such file >&2; exit 4", 4, "no such file"),
    ] {
        let told = compare(&a, &program(&folder, name, script), &[]);
        assert_eq!(told.code, Some(code), "{name}: {} {}", told.stdout, told.stderr);
        assert!(told.stderr.contains(message), "{message}: {}", told.stderr);
        assert_eq!(told.stdout, "", "{name}");
    }
}

#[test]
fn arguments_that_a_program_refuses_are_a_usage_error() {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_core-bench"));
    for (arguments, message) in [
        (&["--workload", "nope"][..], "nope"),
        (&["--", "run", "--nope"], "--nope"),
    ] {
        let told = compare(&own, &own, arguments);
        assert_eq!(told.code, Some(2), "{arguments:?}: {}", told.stderr);
        assert!(told.stderr.contains(message), "{arguments:?}: {}", told.stderr);
    }
}

#[test]
fn configurations_are_refused_with_the_command_that_compares_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = file(&folder, "config_db.json", "{}");
    let told = compare(&config, &config, &[]);
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    assert!(told.stderr.contains("xoff bench compare"), "{}", told.stderr);
}
