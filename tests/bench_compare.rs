//! `xoff bench compare` with configurations, labs and saved results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xoff_testing::{ProgramResult, bench_result_json, run_program, write_file};

fn run_compare(a: &Path, b: &Path, options: &[&str]) -> ProgramResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    run_program(command.args(["bench", "compare"]).args([a, b]).args(options))
}

#[test]
fn saved_results_are_compared_by_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let around = |middle: f64, step: f64| -> String {
        let values = (-7..=7).map(|n| (middle + f64::from(n) * step).to_string());
        values.collect::<Vec<_>>().join(",")
    };
    let saved = |name: &str, samples: &str, tainted: &str| {
        write_file(
            folder.path(),
            name,
            &bench_result_json("core", "ecmp/time", "ns", samples, tainted),
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
        let result = run_compare(&a, &b, &["--gate", "3"]);
        assert_eq!(result.code, Some(code), "{} {}", result.stdout, result.stderr);
        assert!(result.stdout.contains(words), "{words}: {}", result.stdout);
        assert!(
            result.stdout.contains("not measured in turns"),
            "{}",
            result.stdout
        );
    }
    let json = run_compare(&a, &a, &["--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &value["schema"]), (Some(0), &"xoff-compare/1".into()));
    assert_eq!(value["figures"][0]["verdict"], "no-difference");
}

#[test]
fn results_of_different_machines_are_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    let text = bench_result_json("core", "ecmp/time", "ns", "1,1.1,1.2,1.3", "");
    let a = write_file(folder.path(), "a.json", &text);
    let b = write_file(
        folder.path(),
        "b.json",
        &text.replace("\"cores\": 2", "\"cores\": 64"),
    );
    let result = run_compare(&a, &b, &["--gate", "3"]);
    assert_eq!(result.code, Some(5), "{}", result.stdout);
    assert!(result.stdout.contains("different machines"), "{}", result.stdout);
    let kernel = write_file(
        folder.path(),
        "kernel.json",
        &text.replace("\"kernel\": \"6\"", "\"kernel\": \"7\""),
    );
    let result = run_compare(&a, &kernel, &["--gate", "3"]);
    assert_eq!(result.code, Some(5), "{}", result.stdout);
    assert!(result.stdout.contains("kernel 6 and 7"), "{}", result.stdout);
}

#[test]
fn a_result_without_machine_is_inconclusive_against_one_with_machine() {
    let folder = tempfile::tempdir().unwrap();
    let text = bench_result_json("core", "ecmp/time", "ns", "1,1.1,1.2,1.3", "");
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["environment"] = serde_json::Value::Null;
    let with = write_file(folder.path(), "with.json", &text);
    let without = write_file(folder.path(), "without.json", &value.to_string());
    let result = run_compare(&with, &without, &[]);
    assert_eq!(result.code, Some(5), "{}", result.stdout);
    let words = "A was measured on a machine, but B does not name its machine";
    assert!(result.stdout.contains(words), "{}", result.stdout);
    // The result of virtual time does not depend on the machine.
    assert_eq!(run_compare(&without, &without, &["--gate", "3"]).code, Some(0));
}

#[test]
fn a_gate_on_a_figure_that_b_lacks_fails() {
    let folder = tempfile::tempdir().unwrap();
    let figure = |name: &str, unit: &str, better: &str| {
        format!(r#"{{"name": "{name}", "unit": "{unit}", "better": "{better}", "samples": [1]}}"#)
    };
    let saved = |name: &str, figures: &[String]| {
        let text = format!(
            r#"{{"schema": "xoff-bench/1", "bench": "ndr", "subject": "s", "seed": 1, "environment": null,
            "tainted": [], "notes": [], "figures": [{}]}}"#,
            figures.join(",")
        );
        write_file(folder.path(), name, &text)
    };
    let (rate, time) = (
        figure("rate", "frames/s", "bigger"),
        figure("time", "ns", "smaller"),
    );
    let one = saved("one.json", std::slice::from_ref(&rate));
    let two = saved("two.json", &[rate.clone(), time.clone()]);
    let unit = saved("unit.json", &[rate.clone(), figure("time", "us", "smaller")]);
    let better = saved("better.json", &[rate.clone(), figure("time", "ns", "bigger")]);
    for (a, b, gated) in [
        (&two, &one, 5),
        (&two, &unit, 5),
        (&two, &better, 5),
        (&one, &two, 0),
    ] {
        let result = run_compare(a, b, &["--gate", "3"]);
        assert_eq!(result.code, Some(gated), "{}", result.stdout);
        assert!(
            result.stdout.contains("note: ") && result.stdout.contains("time"),
            "{}",
            result.stdout
        );
        let last = result.stdout.lines().last().unwrap_or_default();
        assert_eq!(
            last.starts_with(
                "inconclusive: the gate cannot be applied to time, because side B has no such figures"
            ),
            gated == 5,
            "{last}"
        );
        assert_eq!(run_compare(a, b, &[]).code, Some(0));
    }
    let twice = saved("twice.json", &[rate.clone(), time.clone(), time]);
    let result = run_compare(&one, &twice, &[]);
    assert_eq!(result.code, Some(4), "{}", result.stderr);
    assert!(result.stderr.contains("time occurs twice"), "{}", result.stderr);
}

#[test]
fn a_change_from_zero_has_no_percentage() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |name: &str, value: &str| {
        let text = bench_result_json("ndr", "loss", "percent", value, "");
        let mut result: serde_json::Value = serde_json::from_str(&text).unwrap();
        result["environment"] = serde_json::Value::Null;
        write_file(folder.path(), name, &result.to_string())
    };
    let (none, some) = (saved("none.json", "0"), saved("some.json", "72.07"));
    let result = run_compare(&none, &some, &["--gate", "3"]);
    assert_eq!(result.code, Some(1), "{}", result.stdout);
    assert!(
        result.stdout.contains("from 0 to 72.07 percent"),
        "{}",
        result.stdout
    );
    let result = run_compare(&some, &none, &["--gate", "3", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&result.stdout).unwrap();
    let figure = &value["figures"][0];
    assert_eq!((result.code, &figure["verdict"]), (Some(0), &"better".into()));
    assert!(
        figure["worse_percent"].is_null() && figure["low_percent"].is_null(),
        "{figure}"
    );
}

#[test]
fn incomparable_results_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, bench: &str, figure: &str| {
        write_file(
            folder.path(),
            name,
            &bench_result_json(bench, figure, "ns", "1", ""),
        )
    };
    let a = of("a.json", "core", "ecmp/time");
    let other_bench = of("ndr.json", "ndr", "ecmp/time");
    let other_figure = of("figure.json", "core", "fabric/time");
    let other_schema = write_file(folder.path(), "schema.json", r#"{"schema": "xoff-bench/9"}"#);
    let broken = write_file(folder.path(), "broken.json", "{");
    let text = write_file(folder.path(), "notes.txt", "");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_xoff"));
    let missing = folder.path().join("missing");
    for (b, code, words) in [
        (&other_bench, 2, "core and ndr"),
        (&other_figure, 2, "no figure in common"),
        (&other_schema, 4, "xoff-bench/9"),
        (&broken, 4, "broken.json"),
        (&text, 4, "notes.txt"),
        (&program, 2, "core-bench compare"),
        (&missing, 2, "missing"),
    ] {
        let result = run_compare(&a, b, &[]);
        assert_eq!(
            result.code,
            Some(code),
            "{b:?}: {} {}",
            result.stdout,
            result.stderr
        );
        assert!(result.stderr.contains(words), "{words}: {}", result.stderr);
        assert_eq!(result.stdout, "", "{b:?}");
    }
    for gate in ["0", "-3", "nan", "many"] {
        let result = run_compare(&a, &a, &["--gate", gate]);
        assert_eq!(result.code, Some(2), "{gate}");
    }
}

#[test]
fn an_invalid_configuration_or_lab_is_an_error_and_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let good = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testbeds/incast.config_db.json");
    let text = fs::read_to_string(&good).unwrap();
    let speed = text.replacen("\"speed\": \"1000\"", "\"speed\": \"-5\"", 1);
    assert_ne!(speed, text);
    for (name, text, words) in [
        ("speed.json", speed.as_str(), "speed"),
        ("empty.json", "{}", "forwards nothing"),
        ("array.json", "[]", "array.json"),
        ("nothing.json", "", "nothing.json"),
        ("broken.yml", "name: [", "broken.yml"),
        ("empty.yml", "", "empty.yml"),
    ] {
        let bad = write_file(folder.path(), name, text);
        let result = run_compare(&bad, &good, &["--gate", "3"]);
        assert_eq!(result.code, Some(4), "{name}: {}", result.stderr);
        assert!(result.stderr.contains(words), "{name}: {}", result.stderr);
        let option = if name.ends_with(".yml") {
            "--lab"
        } else {
            "--config"
        };
        let mut core = Command::new(env!("CARGO_BIN_EXE_xoff"));
        let result = run_program(core.args(["bench", "core", option]).arg(&bad));
        assert_eq!(result.code, Some(4), "{name}: {}", result.stderr);
        // The error is printed directly and not as the failure of a subprocess.
        assert!(
            !result.stderr.contains("could not be measured"),
            "{name}: {}",
            result.stderr
        );
    }
    for option in ["--config", "--lab"] {
        let mut core = Command::new(env!("CARGO_BIN_EXE_xoff"));
        let result = run_program(core.args(["bench", "core", option, "/does/not/exist"]));
        assert_eq!(result.code, Some(4), "{option}: {}", result.stderr);
    }
}

#[test]
fn compare_runs_other_benches_on_configurations() {
    let config = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testbeds/incast.config_db.json");
    let ndr = [
        "--gate",
        "1",
        "--",
        "ndr",
        "--sizes",
        "1518",
        "--trial-duration",
        "1ms",
        "--json",
    ];
    let result = run_compare(&config, &config, &ndr);
    assert_eq!(result.code, Some(0), "{} {}", result.stdout, result.stderr);
    assert!(result.stdout.contains("1518/ndr"), "{}", result.stdout);
    for (words, code, said) in [
        (&["ndr", "--sizes", "nope"][..], 2, "nope"),
        (&["ndr", "--format", "csv"], 2, "--format csv"),
        (&["placement"], 2, "placement"),
        (&["core", "--workload", "ecmp"], 2, "--workload"),
    ] {
        let result = run_compare(&config, &config, &[&["--"], words].concat());
        assert_eq!(result.code, Some(code), "{words:?}: {}", result.stderr);
        assert!(result.stderr.contains(said), "{words:?}: {}", result.stderr);
    }
    let folder = tempfile::tempdir().unwrap();
    let saved = write_file(
        folder.path(),
        "a.json",
        &bench_result_json("core", "ecmp/time", "ns", "1", ""),
    );
    let result = run_compare(&saved, &saved, &["--", "core"]);
    assert_eq!(result.code, Some(2), "{}", result.stderr);
}
