//! `xoff bench compare` with configurations, labs and saved results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

struct Told {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn compare(a: &Path, b: &Path, more: &[&str]) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    tell(command.args(["bench", "compare"]).args([a, b]).args(more))
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
    let kernel = file(
        &folder,
        "kernel.json",
        &text.replace("\"kernel\": \"6\"", "\"kernel\": \"7\""),
    );
    let told = compare(&a, &kernel, &["--gate", "3"]);
    assert_eq!(told.code, Some(5), "{}", told.stdout);
    assert!(told.stdout.contains("kernel 6 and 7"), "{}", told.stdout);
}

#[test]
fn a_result_that_names_no_machine_is_inconclusive_beside_one_that_does() {
    let folder = tempfile::tempdir().unwrap();
    let text = result("core", "ecmp/time", "ns", "1,1.1,1.2,1.3", "");
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["environment"] = serde_json::Value::Null;
    let with = file(&folder, "with.json", &text);
    let without = file(&folder, "without.json", &value.to_string());
    let told = compare(&with, &without, &[]);
    assert_eq!(told.code, Some(5), "{}", told.stdout);
    let words = "A was measured on a machine, B says nothing of its own";
    assert!(told.stdout.contains(words), "{}", told.stdout);
    // Virtual time hangs on no machine.
    assert_eq!(compare(&without, &without, &["--gate", "3"]).code, Some(0));
}

#[test]
fn what_b_lacks_cannot_be_gated_on() {
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
        file(&folder, name, &text)
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
        let told = compare(a, b, &["--gate", "3"]);
        assert_eq!(told.code, Some(gated), "{}", told.stdout);
        assert!(
            told.stdout.contains("note: ") && told.stdout.contains("time"),
            "{}",
            told.stdout
        );
        let last = told.stdout.lines().last().unwrap_or_default();
        assert_eq!(
            last == "inconclusive: no gate can hold time",
            gated == 5,
            "{last}"
        );
        assert_eq!(compare(a, b, &[]).code, Some(0));
    }
    let twice = saved("twice.json", &[rate.clone(), time.clone(), time]);
    let told = compare(&one, &twice, &[]);
    assert_eq!(told.code, Some(4), "{}", told.stderr);
    assert!(told.stderr.contains("time is there twice"), "{}", told.stderr);
}

#[test]
fn from_nothing_to_something_is_no_percentage() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |name: &str, value: &str| {
        let text = result("ndr", "loss", "percent", value, "");
        let mut result: serde_json::Value = serde_json::from_str(&text).unwrap();
        result["environment"] = serde_json::Value::Null;
        file(&folder, name, &result.to_string())
    };
    let (none, some) = (saved("none.json", "0"), saved("some.json", "72.07"));
    let told = compare(&none, &some, &["--gate", "3"]);
    assert_eq!(told.code, Some(1), "{}", told.stdout);
    assert!(told.stdout.contains("from 0 to 72.07 percent"), "{}", told.stdout);
    let told = compare(&some, &none, &["--gate", "3", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let figure = &value["figures"][0];
    assert_eq!((told.code, &figure["verdict"]), (Some(0), &"better".into()));
    assert!(
        figure["worse_percent"].is_null() && figure["low_percent"].is_null(),
        "{figure}"
    );
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
    let program = PathBuf::from(env!("CARGO_BIN_EXE_xoff"));
    let missing = folder.path().join("missing");
    for (b, code, words) in [
        (&other_bench, 2, "core and ndr"),
        (&other_figure, 2, "no figure in common"),
        (&other_schema, 4, "xoff-bench/9"),
        (&broken, 4, "broken.json"),
        (&text, 2, "notes.txt"),
        (&program, 2, "core-bench compare"),
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

#[test]
fn a_wrong_configuration_or_lab_is_no_side_that_is_worse() {
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
        let bad = file(&folder, name, text);
        let told = compare(&bad, &good, &["--gate", "3"]);
        assert_eq!(told.code, Some(4), "{name}: {}", told.stderr);
        assert!(told.stderr.contains(words), "{name}: {}", told.stderr);
        let option = if name.ends_with(".yml") {
            "--lab"
        } else {
            "--config"
        };
        let mut core = Command::new(env!("CARGO_BIN_EXE_xoff"));
        let told = tell(core.args(["bench", "core", option]).arg(&bad));
        assert_eq!(told.code, Some(4), "{name}: {}", told.stderr);
        // By itself, not as the failure of a process within.
        assert!(
            !told.stderr.contains("could not be measured"),
            "{name}: {}",
            told.stderr
        );
    }
    for option in ["--config", "--lab"] {
        let mut core = Command::new(env!("CARGO_BIN_EXE_xoff"));
        let told = tell(core.args(["bench", "core", option, "/does/not/exist"]));
        assert_eq!(told.code, Some(4), "{option}: {}", told.stderr);
    }
}

#[test]
fn another_bench_runs_on_configurations_too() {
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
    let told = compare(&config, &config, &ndr);
    assert_eq!(told.code, Some(0), "{} {}", told.stdout, told.stderr);
    assert!(told.stdout.contains("1518/ndr"), "{}", told.stdout);
    for (words, code, said) in [
        (&["ndr", "--sizes", "nope"][..], 2, "nope"),
        (&["ndr", "--format", "csv"], 2, "--format csv"),
        (&["placement"], 2, "placement"),
        (&["core", "--workload", "ecmp"], 2, "--workload"),
    ] {
        let told = compare(&config, &config, &[&["--"], words].concat());
        assert_eq!(told.code, Some(code), "{words:?}: {}", told.stderr);
        assert!(told.stderr.contains(said), "{words:?}: {}", told.stderr);
    }
    let folder = tempfile::tempdir().unwrap();
    let saved = file(&folder, "a.json", &result("core", "ecmp/time", "ns", "1", ""));
    let told = compare(&saved, &saved, &["--", "core"]);
    assert_eq!(told.code, Some(2), "{}", told.stderr);
}
