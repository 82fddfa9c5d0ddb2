//! Runs programs and writes files for them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a program that has ended.
#[derive(Debug)]
pub struct ProgramResult {
    /// Exit code, or `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a program to its end and returns its exit code and its output.
///
/// # Panics
/// The program cannot start, prints bytes that are not UTF-8, or reports a panic on standard error.
pub fn run_program(command: &mut Command) -> ProgramResult {
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let result = ProgramResult {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!result.stderr.contains("panicked"), "{}", result.stderr);
    result
}

/// Writes the text file `name` to a folder that exists, and returns its path.
///
/// # Panics
/// The file cannot be written.
pub fn write_file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

/// Returns the JSON text of a benchmark result with the schema `xoff-bench/1` and one figure (measured
/// quantity). `samples` and `tainted` are the items of the JSON arrays, such as `1.0, 2.0`.
pub fn bench_result_json(bench: &str, figure: &str, unit: &str, samples: &str, tainted: &str) -> String {
    let environment = r#"{"xoff_version": "0", "kernel": "6", "cpu_model": "c", "cores": 2, "governor": null,
        "clocksource": "tsc", "steal_percent": 0.0}"#;
    format!(
        r#"{{"schema": "xoff-bench/1", "bench": "{bench}", "subject": "s", "seed": 1, "environment": {environment},
        "tainted": [{tainted}], "notes": [], "figures": [{{"name": "{figure}", "unit": "{unit}", "better": "smaller",
        "samples": [{samples}]}}]}}"#
    )
}

/// A lab file with two model hosts at one switch. The hosts run a ring AllReduce of 10 KB, and the script expects
/// that the switch drops no frame.
pub const TWO_HOST_LAB: &str = "name: two-hosts
topology:
  nodes:
    sw1: {kind: switch}
    h1: {kind: model}
    h2: {kind: model}
  links:
    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]
    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]
workload:
  jobs:
    - {name: ring, kind: ring-allreduce, hosts: [h1, h2], bytes: 10k}
script:
  - wait: 1ms
  - expect: sw1.dropped_packets == 0
";
