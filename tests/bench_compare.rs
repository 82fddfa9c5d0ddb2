//! `xoff bench compare` as a user meets it: programs that answer, saved results, and what is refused.
//!
//! Programs here are scripts that print results with figures of their own; how fast this machine is is in none of them. Whether it
//! is quiet is, for comparisons in turns: those may be inconclusive, but never say the opposite.

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
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["bench", "compare"])
        .args([a, b])
        .args(more)
        .output()
        .expect("the program starts");
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
fn saved_results_are_compared_by_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let around = |middle: f64, step: f64| -> String {
        let values = (-7..=7).map(|n| (middle + f64::from(n) * step).to_string());
        values.collect::<Vec<_>>().join(",")
    };
    let saved = |name: &str, samples: &str, tainted: &str| {
        file(
            &folder,
            name,
            &result("core", "ecmp/time", "ns", samples, tainted),
        )
    };
    let a = saved("a.json", &around(100.0, 0.1), "");
    for (samples, tainted, code, words) in [
        (around(100.1, 0.1), "", 0, "equal within"),
        (around(105.0, 0.1), "", 1, "B is 5.0 % slower"),
        (around(102.0, 4.0), "", 5, "undecided"),
        (around(105.0, 0.1), "\"steal\"", 5, "tainted: B: steal"),
    ] {
        let b = saved("b.json", &samples, tainted);
        let told = compare(&a, &b, &["--gate", "3"]);
        assert_eq!(told.code, Some(code), "{} {}", told.stdout, told.stderr);
        assert!(told.stdout.contains(words), "{words}: {}", told.stdout);
        assert!(told.stdout.contains("not measured in turns"), "{}", told.stdout);
    }
    let json = compare(&a, &a, &["--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &value["schema"]), (Some(0), &"xoff-compare/1".into()));
    assert_eq!(value["figures"][0]["verdict"], "no-difference");
}

#[test]
fn another_machine_is_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let text = result("core", "ecmp/time", "ns", "1,1.1,1.2,1.3", "");
    let a = file(&folder, "a.json", &text);
    let b = file(&folder, "b.json", &text.replace("\"cores\": 2", "\"cores\": 64"));
    let told = compare(&a, &b, &["--gate", "3"]);
    assert_eq!(told.code, Some(5), "{}", told.stdout);
    assert!(told.stdout.contains("different machines"), "{}", told.stdout);
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let of =
        |name: &str, bench: &str, figure: &str| file(&folder, name, &result(bench, figure, "ns", "1", ""));
    let a = of("a.json", "core", "ecmp/time");
    let other_bench = of("ndr.json", "ndr", "ecmp/time");
    let other_figure = of("figure.json", "core", "fabric/time");
    let other_schema = file(&folder, "schema.json", r#"{"schema": "xoff-bench/9"}"#);
    let broken = file(&folder, "broken.json", "{");
    let text = file(&folder, "notes.txt", "");
    let fails = program(&folder, "fails", "echo no such thing >&2; exit 3");
    let talks = program(&folder, "talks", "echo hello");
    let missing = folder.path().join("missing");
    for (b, code, words) in [
        (&other_bench, 2, "core and ndr"),
        (&other_figure, 2, "no figure in common"),
        (&other_schema, 4, "xoff-bench/9"),
        (&broken, 4, "broken.json"),
        (&text, 2, "notes.txt"),
        (&fails, 3, "no such thing"),
        (&talks, 3, "prints no result"),
        (&missing, 2, "missing"),
    ] {
        let told = compare(&a, b, &[]);
        assert_eq!(told.code, Some(code), "{b:?}: {} {}", told.stdout, told.stderr);
        assert!(told.stderr.contains(words), "{words}: {}", told.stderr);
        assert_eq!(told.stdout, "", "{b:?}");
    }
    for gate in ["0", "-3", "nan", "many"] {
        let told = compare(&a, &a, &["--gate", gate]);
        assert_eq!(told.code, Some(2), "{gate}");
    }
}
