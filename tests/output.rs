//! Tests of standard output and standard error: each command with a closed pipe, with a full device, and with a
//! standard error that cannot be written.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use xoff_testing::TWO_HOST_LAB;

/// A result of a benchmark, as `--save` writes it.
fn saved_result() -> String {
    let samples = ["1.0"; 40].join(", ");
    xoff_testing::bench_result_json("core", "frame", "ns", &samples, "")
}

/// The files that the commands of [`cases`] read.
fn write_inputs(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write("lab.xoff.yml", TWO_HOST_LAB);
    write("failing.xoff.yml", &TWO_HOST_LAB.replace("== 0", "== 1"));
    write(
        "config.json",
        "{\"PORT\": {\"Ethernet0\": {\"speed\": \"10000\"}}}",
    );
    write(
        "invalid.json",
        "{\"PORT\": {\"Ethernet0\": {\"speed\": \"fast\"}}}",
    );
    write("saved.json", &saved_result());
    // A pcap file with one frame of 60 bytes.
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let record = [1, 0, 60, 60];
    let words = header.iter().chain(&record);
    let mut capture: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    capture.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    capture.resize(capture.len() + 46, 0);
    std::fs::write(folder.join("in.pcap"), capture).expect("a file");
}

/// Commands that need no privilege and no running switch. Each name of a file is relative to the folder of
/// [`write_inputs`], and `REPO` is the folder of the repository.
const CASES: &[&str] = &[
    "--help",
    "--version",
    "bench --help",
    "lab check lab.xoff.yml --virtual",
    "lab check lab.xoff.yml --virtual --format json",
    "lab check lab.xoff.yml --virtual --format junit",
    "lab check failing.xoff.yml --virtual --format table",
    "lab run lab.xoff.yml --virtual",
    "lab run lab.xoff.yml --virtual --format json",
    "lab run lab.xoff.yml --virtual --format nccl",
    "lab run lab.xoff.yml --virtual --seeds 1..=2 --report parts.json",
    "lab merge parts.json",
    "lab compare lab.xoff.yml --virtual --lb ecmp,flowlet --seeds 1",
    "lab import --ns3 REPO/tests/oracles/victim_pfc",
    "lab ls",
    "lab ls --json",
    "config check config.json",
    "config check config.json --format json",
    "config check invalid.json",
    "replay in.pcap --out out.pcapng",
    "replay in.pcap --out out.pcapng --json",
    "show load-balancing groups --report report.json",
    "bench oracle REPO/tests/oracles/victim_pfc",
    "bench ndr REPO/testbeds/incast.config_db.json --sizes 1518 --trial-duration 1ms --ports Ethernet0,Ethernet4",
    "bench latency REPO/testbeds/incast.config_db.json --sizes 1518 --trial-duration 1ms --ports Ethernet0,Ethernet4",
    "bench compare saved.json saved.json",
    "bench core --config REPO/testbeds/incast.config_db.json --frames 100",
    "bench placement --shape 4/4 --qps 1 --seeds 1..=10 --trials 10 --tolerance 1",
    "bench probe REPO/testbeds/incast.config_db.json",
    "bench ai --fabric star:4 --collectives allreduce --bytes 16K --seeds 1",
    "bench tune-buffers --ports 4 --pattern standstill:2 --seeds 1 --no-sweep",
    "bench rfc2544 REPO/testbeds/incast.config_db.json throughput --sizes 1518 --ports Ethernet0,Ethernet4",
    "bench rfc2889 REPO/testbeds/incast.config_db.json mesh --sizes 1518 --ports Ethernet0,Ethernet4",
    "bench rfc8239 REPO/testbeds/incast.config_db.json linerate --sizes 1518 --ports Ethernet0,Ethernet4",
    "conform list",
    "conform explain A5",
    "conform run --virtual A1",
    "conform run --virtual B1 --kselftest",
    "conform matrix --own --format markdown",
    "doctor --json",
    "doctor",
    "completions bash",
    "man",
    "schema api",
    "config check invalid.json --format json",
    "lab run missing.xoff.yml --virtual --json",
];

/// Commands that need a running switch, a network device or a namespace. `tests/conform_port`, `tests/lab_cleanup` and
/// `tests/switch_run` run them. This file tests only their help.
const CASES_WITH_DEVICES: &[&str] = &[
    "switch run",
    "host run",
    "conform device",
    "pfc",
    "lab up",
    "lab down",
    "lab exec",
    "config get",
    "config apply",
    "config set",
    "config patch",
    "config interface",
    "show",
    "clear",
];

struct Runner {
    folder: TempDir,
}

impl Runner {
    fn run(&self, case: &str, stdout: Stdio, stderr: Stdio) -> Output {
        let case = case.replace("REPO", env!("CARGO_MANIFEST_DIR"));
        Command::new(env!("CARGO_BIN_EXE_xoff"))
            .args(case.split(' '))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .output()
            .expect("the program starts")
    }

    /// Asserts that the exit code is the same with a closed pipe, and follows the rule with a full device.
    fn check(&self, case: &str) {
        let expected = self.run(case, Stdio::piped(), Stdio::piped());
        let code = expected.status.code().expect("no signal");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            code <= 5 && code != 2,
            "{case}: {code} {}",
            text(&expected.stderr)
        );

        let closed = self.run(case, closed_pipe(), Stdio::piped());
        let messages = text(&closed.stderr);
        assert_eq!(closed.status.code(), Some(code), "{case} | true: {messages}");
        assert!(
            !messages.contains("panicked") && !messages.contains("standard output"),
            "{messages}"
        );

        let full = self.run(case, full_device(), Stdio::piped());
        let messages = text(&full.stderr);
        let after_failed_write = match (code, expected.stdout.is_empty()) {
            (1 | 4 | 5, _) | (_, true) => code,
            _ => 3,
        };
        assert_eq!(
            full.status.code(),
            Some(after_failed_write),
            "{case} > /dev/full: {messages}"
        );
        let reports = messages.matches("where: standard output").count();
        assert_eq!(
            reports,
            usize::from(!expected.stdout.is_empty()),
            "{case}: {messages}"
        );

        let silent = self.run(case, Stdio::null(), full_device());
        assert_eq!(silent.status.code(), Some(code), "{case} 2> /dev/full");
        let silent = self.run(case, Stdio::null(), closed_pipe());
        assert_eq!(
            silent.status.code(),
            Some(code),
            "{case} with a closed standard error"
        );
    }
}

/// Returns a pipe whose reader has ended.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full_device() -> Stdio {
    let device = OpenOptions::new().write(true).open("/dev/full");
    device.expect("the device exists").into()
}

fn runner() -> Runner {
    let folder = TempDir::new().expect("a folder");
    write_inputs(folder.path());
    let runner = Runner { folder };
    let report = runner.run(
        "lab run lab.xoff.yml --virtual --report report.json",
        Stdio::null(),
        Stdio::null(),
    );
    assert!(report.status.success());
    runner
}

#[test]
fn every_command_survives_outputs_that_cannot_be_written() {
    let runner = runner();
    for case in CASES {
        runner.check(case);
    }
}

/// Returns the subcommands that the help of a command lists.
fn listed_subcommands(runner: &Runner, command: &str) -> Vec<String> {
    let case = format!("{command} --help");
    let help = runner.run(case.trim(), Stdio::piped(), Stdio::null());
    let text = String::from_utf8(help.stdout).expect("text");
    let Some((_, list)) = text.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A name has two spaces before it. Continued descriptions have more.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let first_words = names.filter_map(|line| line.split_whitespace().next());
    first_words
        .filter(|name| *name != "help")
        .map(|name| format!("{command} {name}").trim().to_owned())
        .collect()
}

#[test]
fn every_subcommand_has_a_case_and_its_help_can_be_cut() {
    let runner = runner();
    let mut leaves = BTreeSet::new();
    let mut commands = vec![String::new()];
    while let Some(command) = commands.pop() {
        let subcommands = listed_subcommands(&runner, &command);
        if subcommands.is_empty() {
            leaves.insert(command);
        }
        commands.extend(subcommands);
    }
    assert!(leaves.len() > 40, "{leaves:?}");
    for leaf in &leaves {
        let has_case = |cases: &[&str]| {
            let prefix = format!("{leaf} ");
            cases.iter().any(|case| format!("{case} ").starts_with(&prefix))
        };
        let needs_device = CASES_WITH_DEVICES
            .iter()
            .any(|command| format!("{leaf} ").starts_with(&format!("{command} ")));
        assert!(has_case(CASES) || needs_device, "no case for `xoff {leaf}`");
        let help = format!("{leaf} --help");
        let closed = runner.run(&help, closed_pipe(), Stdio::piped());
        assert_eq!(closed.status.code(), Some(0), "{help} | true");
        assert!(closed.stderr.is_empty(), "{help} | true");
        let full = runner.run(&help, full_device(), Stdio::piped());
        assert_eq!(full.status.code(), Some(3), "{help} > /dev/full");
    }
}

#[test]
fn a_capture_on_standard_output_follows_the_same_rules() {
    let runner = runner();
    let case = "replay in.pcap --out -";
    let expected = runner.run(case, Stdio::piped(), Stdio::piped());
    assert_eq!(expected.status.code(), Some(0));
    assert!(expected.stdout.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "pcapng");
    let closed = runner.run(case, closed_pipe(), Stdio::piped());
    assert_eq!(closed.status.code(), Some(0));
    let full = runner.run(case, full_device(), Stdio::piped());
    assert_eq!(full.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&full.stderr).contains("where: standard output"));
}

#[test]
fn files_of_a_run_are_written_after_the_reader_has_left() {
    let runner = runner();
    let case = "lab run lab.xoff.yml --virtual --report after.json --events events.log";
    for output in [closed_pipe(), full_device()] {
        runner.run(case, output, Stdio::null());
        for name in ["after.json", "events.log"] {
            let path = runner.folder.path().join(name);
            let written = File::open(&path)
                .and_then(|file| file.metadata())
                .expect("a file");
            assert!(written.len() > 0, "{name}");
            std::fs::remove_file(path).expect("the file exists");
        }
    }
}

#[test]
fn messages_of_the_parser_have_their_exit_codes_on_any_output() {
    let runner = runner();
    for (case, code) in [("lab fly", 2), ("", 2), ("lab run", 2), ("lab run --help", 0)] {
        let arguments = if case.is_empty() { "lab" } else { case };
        let silent = runner.run(arguments, Stdio::null(), closed_pipe());
        assert_eq!(silent.status.code(), Some(code), "{arguments}");
        let silent = runner.run(arguments, Stdio::null(), full_device());
        assert_eq!(silent.status.code(), Some(code), "{arguments}");
    }
}
