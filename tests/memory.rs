//! The estimates of `--memory` against the measured peak memory of labs and configurations of different shapes.
#![allow(
    clippy::print_stdout,
    reason = "the output of a test shows its seed and its figures"
)]

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::tempdir;
use wait4::Wait4;
use xoff_testing::{run_program, write_file};

const XOFF: &str = env!("CARGO_BIN_EXE_xoff");

/// Returns the arguments of a command with another limit of memory.
fn with_limit<'a>(arguments: &[&'a str], limit: &'a str) -> Vec<&'a str> {
    [arguments, &["--memory", limit]].concat()
}

/// Returns the final estimate in MiB. A first estimate, before routes are computed, is a lower limit, so the limit
/// is raised above each estimate until the command is not refused.
fn estimate_mib(arguments: &[&str]) -> f64 {
    let mut estimate = None;
    let mut limit_kib = 1_u64;
    loop {
        let limit = format!("{limit_kib}K");
        let result = run_program(Command::new(XOFF).args(with_limit(arguments, &limit)));
        let text = format!("{}{}", result.stderr, result.stdout);
        let Some((_, rest)) = text.split_once("needs about ") else {
            return estimate.unwrap_or_else(|| panic!("no estimate in {text}"));
        };
        assert_eq!(result.code, Some(4), "{text}");
        let mib = parse_mib(rest);
        // The text of an estimate is rounded, so the limit also grows if the estimate is the same as before.
        limit_kib = (limit_kib + limit_kib / 20 + 1).max((mib * 1024.0) as u64 + 1);
        estimate = Some(mib);
    }
}

/// Parses a size such as `1.5 GiB` at the start of a text. Returns the number of MiB.
fn parse_mib(text: &str) -> f64 {
    let mut words = text.split([' ', ',']);
    let number: f64 = words.next().and_then(|word| word.parse().ok()).expect("a number");
    match words.next() {
        Some("GiB") => 1024.0 * number,
        Some("KiB") => number / 1024.0,
        Some("MiB") => number,
        unit => panic!("the unit {unit:?} in {text}"),
    }
}

/// Runs a command with a high limit and returns its peak memory in MiB.
fn peak_mib(arguments: &[&str]) -> f64 {
    let child = Command::new(XOFF)
        .args(with_limit(arguments, "64G"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let used = child.wait4().expect("the program ends");
    used.rusage.maxrss as f64 / f64::from(1 << 20)
}

/// Asserts that the estimate of a command is within a factor of 2 of its peak.
fn assert_estimate(name: &str, arguments: &[&str]) {
    let (estimate, peak) = (estimate_mib(arguments), peak_mib(arguments));
    println!("{name}: estimate {estimate:.0} MiB, peak {peak:.0} MiB");
    assert!(
        estimate < 2.0 * peak && peak < 2.0 * estimate,
        "{name}: the estimate is {estimate:.0} MiB, the peak {peak:.0} MiB"
    );
}

/// Eleven labs of different shapes. Each has another dominating part.
#[test]
fn estimates_of_labs_are_within_a_factor_of_two() {
    let folder = tempdir().expect("a folder");
    let many_flows: String = (0..4000)
        .map(|n| format!("    - {{name: f{n}, from: h{}, to: h64, rate: 1m}}\n", n % 63 + 1))
        .collect();
    let job = |fields: &str| format!("workload:\n  jobs:\n    - {{name: j, {fields}}}\n");
    let labs = [
        ("pair", "star: {hosts: 2, speed: 100g}", String::new()),
        ("star", "star: {hosts: 700, speed: 100g}", String::new()),
        (
            "leaf-spine",
            "leaf-spine: {leaves: 24, spines: 12, hosts: 12, speed: 100g}",
            String::new(),
        ),
        (
            "fat-tree",
            "fat-tree: {k: 8, speed: 100g, config: {preset: roce-lossless}}",
            job("kind: permutation, hosts: all, bytes: 64k"),
        ),
        (
            "all-to-all",
            "star: {hosts: 64, speed: 100g}",
            job("kind: alltoall, hosts: all, bytes: 64k"),
        ),
        (
            "queue-pairs",
            "star: {hosts: 48, speed: 100g}",
            job("kind: alltoall, hosts: all, bytes: 64k, qps: 16"),
        ),
        (
            "ring",
            "star: {hosts: 128, speed: 100g}",
            job("kind: ring-allreduce, hosts: all, bytes: 128k, qps: 16"),
        ),
        (
            "poisson",
            "star: {hosts: 16, speed: 100g}",
            job("kind: poisson, hosts: all, sizes: 1k, load: 50%, flows_max: 100000"),
        ),
        (
            "flow-list",
            "star: {hosts: 80, speed: 100g}",
            job("kind: flows, flows: [{from: all, to: all, bytes: 1k, count: 4}]"),
        ),
        (
            "long-links",
            "star: {hosts: 8, speed: 100g, delay: 2ms}",
            "workload:\n  duration: 5ms\n  drain: 5ms\n  flows:\n    - {name: f, from: [h1, h2, h3], to: h8, rate: 30%}\n"
                .to_owned(),
        ),
        (
            "open-loop",
            "star: {hosts: 64, speed: 100g}",
            format!("workload:\n  duration: 10us\n  drain: 10us\n  flows:\n{many_flows}"),
        ),
    ];
    for (name, fabric, workload) in labs {
        let text = format!("name: {name}\ntopology:\n  fabric:\n    {fabric}\n{workload}");
        let file = write_file(folder.path(), &format!("{name}.xoff.yml"), &text);
        let file = file.display().to_string();
        assert_estimate(name, &["lab", "run", &file, "--virtual", "--until", "5ms"]);
    }
}

#[test]
fn estimate_of_static_routes_is_within_a_factor_of_two() {
    let folder = tempdir().expect("a folder");
    let routes: Vec<String> = (0..20_000)
        .map(|n| {
            format!(
                r#""10.{}.{}.0/24": {{"nexthop": "10.0.0.1", "ifname": "Ethernet0"}}"#,
                n >> 8,
                n & 255
            )
        })
        .collect();
    let text = format!(
        r#"{{"PORT": {{"Ethernet0": {{"speed": "100000"}}}}, "INTERFACE": {{"Ethernet0|10.0.0.0/31": {{}}}},
        "STATIC_ROUTE": {{{}}}}}"#,
        routes.join(", ")
    );
    let file = write_file(folder.path(), "routes.config_db.json", &text);
    assert_estimate("routes", &["config", "check", &file.display().to_string()]);
}

/// The refusal comes before the work: it needs little memory itself, and it names what to change.
#[test]
fn a_lab_beyond_the_limit_is_refused_before_it_is_built() {
    let folder = tempdir().expect("a folder");
    let text = "name: big\ntopology:\n  fabric:\n    star: {hosts: 200, speed: 100g}\nworkload:\n  jobs:\n    - \
                {name: a, kind: alltoall, hosts: all, bytes: 1m, qps: 4096}\n";
    let file = write_file(folder.path(), "big.xoff.yml", text);
    let file = file.display().to_string();
    for command in [["lab", "run"], ["lab", "check"]] {
        let arguments = [command[0], command[1], &file, "--virtual", "--memory", "1G"];
        let refused = run_program(Command::new(XOFF).args(arguments));
        assert_eq!(refused.code, Some(4), "{}", refused.stderr);
        for part in [
            "needs about 3",
            "the limit is 1.0 GiB (--memory)",
            "queue pairs of job a",
            "(`qps`)",
        ] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
        let child = Command::new(XOFF)
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let used = child.wait4().expect("ends");
        assert!(used.rusage.maxrss < 100 << 20, "{}", used.rusage.maxrss);
    }
    // Runs in parallel share the limit.
    let small = write_file(
        folder.path(),
        "small.xoff.yml",
        "name: small\ntopology:\n  fabric:\n    star: {hosts: 2, speed: 100g}\n",
    );
    let sweep = |jobs: &str| {
        let mut command = Command::new(XOFF);
        command.args([
            "lab",
            "run",
            &small.display().to_string(),
            "--virtual",
            "--seeds",
            "1..=8",
            "--until",
            "1us",
        ]);
        run_program(command.args(["--jobs", jobs, "--memory", "60M"])).code
    };
    assert_eq!((sweep("1"), sweep("8")), (Some(0), Some(4)));
    assert!(Path::new(&file).exists());
}

/// Long links hold frames that the estimate of a job does not contain. The run stops before its frames need more than
/// `--memory`. With the frames of open-loop flows, the lab is refused before it starts.
#[test]
fn run_stops_if_its_frames_need_more_memory_than_allowed() {
    let folder = tempdir().expect("a folder");
    let text = "name: long-links\ntopology:\n  fabric: {star: {hosts: 3, speed: 400g, delay: 40ms}}\n\
                workload:\n  jobs:\n    - {name: j, kind: permutation, hosts: all, bytes: 16g}\n";
    let file = write_file(folder.path(), "long-links.xoff.yml", text);
    let file = file.display().to_string();
    let limit_mib = 200;
    let limit = format!("{limit_mib}M");
    let arguments = with_limit(&["lab", "run", &file, "--virtual"], &limit);
    let child = Command::new(XOFF)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("the program starts");
    let mut output = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    stdout.read_to_string(&mut output).expect("text");
    let used = child.wait4().expect("the program ends");
    assert_eq!(used.status.code(), Some(1), "{output}");
    assert!(
        output.contains("need more memory than --memory allows") && output.contains("1 iteration complete"),
        "{output}"
    );
    let peak_mib = used.rusage.maxrss as f64 / f64::from(1 << 20);
    assert!(
        peak_mib < f64::from(limit_mib) && peak_mib > f64::from(limit_mib) / 2.0,
        "{peak_mib} MiB"
    );
    let text = text.replace(
        "  jobs:\n    - {name: j, kind: permutation, hosts: all, bytes: 16g}\n",
        "  duration: 1s\n  flows:\n    - {name: f, from: h1, to: h2, rate: 50%}\n",
    );
    let file = write_file(folder.path(), "flows.xoff.yml", &text);
    let file = file.display().to_string();
    let arguments = ["lab", "run", &file, "--virtual"];
    let result = run_program(Command::new(XOFF).args(with_limit(&arguments, &limit)));
    assert_eq!(result.code, Some(4), "{}", result.stderr);
    assert!(
        result.stderr.contains("frames of open-loop flows on links"),
        "{}",
        result.stderr
    );
}
