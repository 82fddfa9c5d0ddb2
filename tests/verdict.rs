//! Tests of the verdict of labs in virtual time: traffic that is missing, expectations, and frames longer than an MTU.

use std::fs;
use std::process::{Command, Stdio};

/// Runs a lab file in virtual time. Returns the exit code, the output, the errors and the report.
fn run_lab(text: &str) -> (Option<i32>, String, String, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("lab.yml"), text).expect("a file in a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(folder.path())
        .args([
            "lab",
            "run",
            "lab.yml",
            "--virtual",
            "--until",
            "5ms",
            "--report",
            "r.json",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("xoff can be started");
    let report = fs::read(folder.path().join("r.json")).unwrap_or_default();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
        serde_json::from_slice(&report).unwrap_or_default(),
    )
}

/// Three hosts at a switch with these ports, and this workload.
fn three_host_lab(ports: &str, workload: &str) -> String {
    format!(
        "name: evidence\ntopology:\n  nodes:\n    sw1: {{kind: switch, config: [{{preset: roce-lossless}}, {{PORT: {ports}}}]}}\n    \
         h1: {{kind: model}}\n    h2: {{kind: model}}\n    h3: {{kind: model}}\n  links:\n    \
         - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 10g}}\n    \
         - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 10g}}\n    \
         - {{endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"], speed: 10g}}\n{workload}"
    )
}

#[test]
fn a_lab_without_evidence_is_never_clean() {
    let short_mtu = "{Ethernet0: {mtu: \"1000\"}}";
    let flows = |flows: &str| format!("workload:\n  duration: 100us\n  drain: 1ms\n  flows:\n{flows}");
    let lossy = "    - {name: long, from: h1, to: h3, rate: 10%";
    let other = "    - {name: good, from: h2, to: h3, rate: 10%}\n";
    let cases = [
        ("no workload", three_host_lab("{}", ""), 0, "; no traffic"),
        (
            "every frame is longer than the MTU",
            three_host_lab(short_mtu, &flows(&format!("{lossy}}}\n"))),
            5,
            "verdict: no traffic: none of ",
        ),
        (
            "some lossy frames are longer than the MTU",
            three_host_lab(short_mtu, &flows(&format!("{lossy}}}\n{other}"))),
            0,
            "of class 0 longer than the MTU (EXCEEDS_L2_MTU)",
        ),
        (
            "long frames of a flow with an expectation",
            three_host_lab(
                short_mtu,
                &flows(&format!("{lossy}, expect: 'frames>=0'}}\n{other}")),
            ),
            1,
            "of flow long with the expectation frames>=0 longer than the MTU",
        ),
        (
            "long frames of a lossless class",
            three_host_lab(short_mtu, &flows(&format!("{lossy}, dscp: 26}}\n{other}"))),
            1,
            "of the lossless class 3 longer than the MTU",
        ),
        (
            "long frames of a job",
            three_host_lab(
                short_mtu,
                "transports: {default: {transport: uc, mtu: 1024, dscp: 0}}\nworkload:\n  jobs:\n    \
                 - {name: train, kind: flows, flows: [{from: h1, to: h3, bytes: 64K}, {from: h2, to: h3, bytes: 64K}]}\n",
            ),
            1,
            "of job train longer than the MTU",
        ),
        (
            "an expectation that does not hold",
            three_host_lab(
                "{}",
                &flows("    - {name: a, from: h1, to: h3, rate: 10%, expect: ['frames>=1', 'bytes>=1G']}\n"),
            ),
            1,
            "flow a, h1 to h3: expected bytes>=1000000000, and ",
        ),
        (
            "expectations that hold",
            three_host_lab(
                "{}",
                &flows("    - {name: a, from: h1, to: h3, rate: 10%, expect: 'frames>=5'}\n"),
            ),
            0,
            "verdict: clean\n",
        ),
        (
            "a flow that starts after the end",
            three_host_lab(
                "{}",
                "workload:\n  duration: 1s\n  flows:\n    - {name: a, from: h1, to: h3, start: 10ms}\n",
            ),
            5,
            "verdict: no traffic: no frame was offered",
        ),
    ];
    for (name, text, code, words) in cases {
        let (exit, out, err, report) = run_lab(&text);
        assert_eq!(exit, Some(code), "{name}:\n{out}\n{err}");
        assert!(out.contains(words), "{name}: no {words:?} in\n{out}");
        assert_eq!(out.contains("verdict: clean"), code == 0, "{name}:\n{out}");
        let verdict = match code {
            0 => "clean",
            1 => "failed",
            _ => "no-traffic",
        };
        assert_eq!(report["verdict"], verdict, "{name}");
    }
}

#[test]
fn a_wrong_expectation_is_an_error_of_the_lab_file() {
    let text = three_host_lab(
        "{}",
        "workload:\n  duration: 1ms\n  flows:\n    - {name: a, from: h1, to: h3, expect: 'packets>=1'}\n",
    );
    let (exit, out, err, _) = run_lab(&text);
    assert_eq!(exit, Some(4), "{out}\n{err}");
    for part in ["\"packets>=1\" is not an expectation", "frames>=1000"] {
        assert!(err.contains(part), "no {part:?} in\n{err}");
    }
}
