//! `xoff conform` in lock step on the MAC in Verilog, under Verilator and cocotb.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lockstep::{Peer, checks, outcome, run_in_lockstep, socket_in};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether a command succeeds. Its output is discarded.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Builds the test bench with the MAC. Returns the path of the program.
fn build_bench(folder: &Path) -> PathBuf {
    let include = root().join("include");
    let build = Command::new("verilator")
        .args(["--cc", "--exe", "--build", "-j", "2", "-Wno-fatal", "-Wno-WIDTH"])
        .args(["--top-module", "xoff_mac", "--prefix", "Vxoff_mac", "--Mdir"])
        .arg(folder)
        .args(["-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"])
        .args(["-CFLAGS", &format!("-I{}", include.display())])
        .arg(root().join("examples/lockstep/rtl/mac_bench.cpp"))
        .arg(root().join("examples/lockstep/rtl/toy_mac.v"))
        .output()
        .expect("Verilator starts");
    assert!(build.status.success(), "{build:?}");
    folder.join("Vxoff_mac")
}

#[test]
fn a_mac_in_verilator_passes_repeatably_and_its_defects_fail() {
    if !succeeds("verilator", &["--version"]) || !succeeds("c++", &["--version"]) {
        eprintln!("skipped: there is no `verilator` or no C++ compiler `c++`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_bench(folder.path());
    let mut reports = Vec::new();
    for (arguments, selected, expected) in [
        (&[][..], &["A5", "A17", "A20", "B4"][..], &["pass"; 4][..]),
        (&["memory"], &["A5", "A17", "A20", "B4"], &["pass"; 4]),
        (&["+defect=1"], &["A6"], &["fail"]),
        (&["+defect=2"], &["A8"], &["fail"]),
        (&["+defect=3"], &["A7"], &["fail"]),
    ] {
        let socket = socket_in(&folder);
        let mut peer = Peer::start(Command::new(&program).arg(&socket).args(arguments));
        let run = run_in_lockstep(&socket, &[&["--speed", "10g"], selected].concat());
        let found = checks(&run);
        let outcomes: Vec<&str> = selected.iter().map(|id| outcome(&found, id)).collect();
        assert_eq!(outcomes, expected, "{arguments:?}: {run:?}");
        assert!(peer.succeeds(), "{arguments:?}");
        reports.push(run.stdout);
    }
    assert_eq!(reports[0], reports[1], "the transport changes nothing");
}

#[test]
fn a_mac_in_cocotb_sends_pfc() {
    if !succeeds("iverilog", &["-V"]) || !succeeds("python3", &["-c", "import cocotb"]) {
        eprintln!("skipped: there is no `iverilog` or no Python package `cocotb`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    let package = root().join("python/xoff-lockstep");
    let mut peer = Peer::start(
        Command::new("python3")
            .arg(package.join("examples/cocotb/test_mac.py"))
            .arg(&socket)
            .arg(root().join("examples/lockstep/rtl/toy_mac.v"))
            .arg("--build")
            .arg(folder.path().join("build"))
            .env("PYTHONPATH", package.join("src"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::null()),
    );
    let run = run_in_lockstep(&socket, &["--speed", "10g", "B3"]);
    assert_eq!(outcome(&checks(&run), "B3"), "pass", "{run:?}");
    assert!(peer.succeeds());
}
