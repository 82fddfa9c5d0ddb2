//! Tests of the files that commands read and write: devices, pipes and standard input as inputs, and results
//! behind symbolic links.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tempfile::TempDir;
use xoff_testing::TWO_HOST_LAB;

const CONFIG: &str =
    "{\"PORT\": {\"Ethernet0\": {\"speed\": \"10000\"}, \"Ethernet4\": {\"speed\": \"10000\"}}}";

/// A configuration that forwards frames.
const FORWARDING: &str = include_str!("../testbeds/incast.config_db.json");

fn xoff(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command
        .args(arguments.split(' '))
        .current_dir(folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &str) -> Output {
    xoff(folder, arguments).output().expect("the program starts")
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a pcap file with a frame every microsecond from one station to another.
fn capture(frames: u32, frame_bytes: usize) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in 0..frames {
        let record = [
            frame / 1_000_000,
            frame % 1_000_000,
            frame_bytes as u32,
            frame_bytes as u32,
        ];
        file.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        let end = file.len() + frame_bytes;
        file.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        file.resize(end, 0);
    }
    file
}

/// The commands that read a configuration, a lab or a capture. `INPUT` is its path.
const READERS: &[(&str, &str)] = &[
    ("config check INPUT", CONFIG),
    ("replay in.pcap --out out.pcapng --config INPUT", CONFIG),
    ("bench probe INPUT", FORWARDING),
    ("bench core --frames 100 --config INPUT", FORWARDING),
    ("bench core --rounds 1 --config INPUT", FORWARDING),
    (
        "bench placement --shape 4/4 --qps 1 --seeds 1..=10 --trials 10 --tolerance 1 --config INPUT",
        "{}",
    ),
    ("bench ndr INPUT --sizes 1518 --trial-duration 1ms", FORWARDING),
    ("lab run INPUT --virtual", TWO_HOST_LAB),
    ("lab run INPUT --virtual --seeds 1..=2", TWO_HOST_LAB),
    (
        "lab run INPUT --virtual --set workload.jobs.0.bytes=20k",
        TWO_HOST_LAB,
    ),
    ("lab check INPUT --virtual", TWO_HOST_LAB),
    (
        "lab compare INPUT --virtual --lb ecmp,flowlet --seeds 1",
        TWO_HOST_LAB,
    ),
    ("bench core --frames 100 --lab INPUT", TWO_HOST_LAB),
];

fn inputs() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("in.pcap"), capture(3, 60)).expect("a file");
    folder
}

#[test]
fn standard_input_and_pipes_are_inputs() {
    let folder = inputs();
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    for (command, text) in READERS {
        let file = folder.path().join("input");
        fs::write(&file, text).expect("a file");
        let expected = run(folder.path(), &command.replace("INPUT", "input"));
        // Other programs can disturb a measurement of time (exit code 5).
        let code = |output: &Output| output.status.code().map(|code| if code == 5 { 0 } else { code });
        let expected_code = code(&expected);
        assert!(
            matches!(expected_code, Some(0 | 1)),
            "{command}: {}",
            stderr_text(&expected)
        );

        let from_stdin = xoff(folder.path(), &command.replace("INPUT", "-"))
            .stdin(File::open(&file).expect("a file"))
            .output()
            .expect("the program starts");
        assert_eq!(
            code(&from_stdin),
            expected_code,
            "{command} < input: {}",
            stderr_text(&from_stdin)
        );

        let name = pipe.clone();
        let writer = std::thread::spawn(move || fs::write(name, text).expect("the pipe has a reader"));
        let from_pipe = run(folder.path(), &command.replace("INPUT", "pipe"));
        assert_eq!(
            code(&from_pipe),
            expected_code,
            "{command} pipe: {}",
            stderr_text(&from_pipe)
        );
        writer.join().expect("the pipe was read");

        // Process substitution of a shell: the input is the path of an open file of the process.
        let line = format!("exec 9<&0; exec \"$0\" {}", command.replace("INPUT", "/dev/fd/9"));
        let mut shell = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_xoff")])
            .current_dir(folder.path())
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdin = shell.stdin.take().expect("a pipe");
        stdin.write_all(text.as_bytes()).expect("the pipe has a reader");
        drop(stdin);
        let substituted = shell.wait_with_output().expect("the shell ends");
        assert_eq!(
            code(&substituted),
            expected_code,
            "{command} <(...): {}",
            stderr_text(&substituted)
        );
    }
}

#[test]
fn devices_without_an_end_stop_at_a_named_limit() {
    let folder = inputs();
    for (command, limit) in [
        ("config check /dev/zero", "limit of a configuration, 128 MiB"),
        ("lab run /dev/zero --virtual", "limit of a lab file, 128 MiB"),
        ("lab check /dev/zero --virtual", "limit of a lab file, 128 MiB"),
        ("lab merge /dev/zero", "limit of a result, 256 MiB"),
    ] {
        let output = run(folder.path(), command);
        let text = stderr_text(&output) + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(4), "{command}: {text}");
        assert!(text.contains(limit), "{command}: {text}");
    }
    let output = run(folder.path(), "replay /dev/zero --out out.pcapng");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr_text(&output).contains("not a capture"));
}

/// Starts a command, and returns it after it has printed that it waits for data.
fn start_waiting(folder: &Path, command: &str) -> Child {
    let mut child = xoff(folder, command)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let stderr = child.stderr.as_mut().expect("a pipe");
    BufReader::new(stderr).read_line(&mut line).expect("text");
    assert_eq!(line, "note: waiting for data from pipe\n", "{command}");
    child
}

#[test]
fn a_pipe_without_a_writer_is_reported_and_can_be_interrupted() {
    let folder = inputs();
    mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    let commands = [
        "config check pipe",
        "lab run pipe",
        "lab run pipe --virtual --seeds 1..=2",
        "replay pipe --out out.pcapng",
        "switch run --config pipe --port Ethernet0=lo",
        "bench core --config pipe",
    ];
    let children: Vec<Child> = commands
        .iter()
        .map(|command| start_waiting(folder.path(), command))
        .collect();
    for (mut child, command) in children.into_iter().zip(commands) {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("the process exists");
        let status = child.wait().expect("the process ends");
        assert!(!status.success(), "{command}: {status}");
    }
}

#[test]
fn a_capture_from_a_pipe_gives_the_same_result_as_a_file() {
    let folder = inputs();
    let data = capture(5_000, 100);
    fs::write(folder.path().join("in.pcap"), &data).expect("a file");
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    assert!(
        run(folder.path(), "replay in.pcap --out file.pcapng")
            .status
            .success()
    );
    let piped = |more: &str| {
        let mut child = xoff(folder.path(), &format!("replay - --out pipe.pcapng{more}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The program may stop to read at its limit.
        let _ = child.stdin.take().expect("a pipe").write_all(&data);
        child.wait_with_output().expect("the program ends")
    };
    assert!(piped("").status.success());
    // The first block, the section header, contains the name of the input. The second word is its length.
    let blocks_after_header = |name: &str| {
        let data = read(name);
        let len = u32::from_le_bytes(data[4..8].try_into().expect("four bytes"));
        data[len as usize..].to_vec()
    };
    assert!(blocks_after_header("file.pcapng") == blocks_after_header("pipe.pcapng"));
    let limited = piped(" --spool 100K");
    assert_eq!(limited.status.code(), Some(4));
    let text = stderr_text(&limited);
    assert!(text.contains("the limit of --spool is 102400 bytes"), "{text}");
    let names: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 3, "no temporary file is left: {names:?}");
}

/// Returns the peak memory in KiB of a command that has ended successfully.
fn peak_memory_kib(folder: &Path, arguments: &str) -> u64 {
    let mut child = xoff(folder, arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(now.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("the process exists") {
            assert!(status.success(), "{arguments}: {status}");
            return peak;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn the_memory_of_a_replay_does_not_grow_with_the_capture() {
    let folder = inputs();
    // Frames of 9000 bytes: 180 MB in 20 000 frames.
    fs::write(folder.path().join("large.pcap"), capture(20_000, 9_000)).expect("a file");
    for pace in ["", " --back-to-back"] {
        let arguments = format!("replay large.pcap --speed 100g --out /dev/null{pace}");
        let peak = peak_memory_kib(folder.path(), &arguments);
        assert!(peak > 1_000 && peak < 130_000, "{arguments}: {peak} KiB");
    }
}

#[test]
fn results_do_not_follow_links_in_folders_of_others() {
    let folder = inputs();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("a folder");
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("own folder");
    fs::write(folder.path().join("lab.xoff.yml"), TWO_HOST_LAB).expect("a file");
    fs::write(folder.path().join("precious"), "kept").expect("a file");
    symlink(folder.path().join("precious"), shared.join("trap")).expect("a link");
    for command in [
        "lab run lab.xoff.yml --virtual --report shared/trap",
        "lab run lab.xoff.yml --virtual --events shared/trap",
        "lab run lab.xoff.yml --virtual --nccl-json shared/trap",
        "lab run lab.xoff.yml --virtual --seeds 1..=2 --csv shared/trap",
        "lab run lab.xoff.yml --virtual --pcap h1:eth0--sw1:Ethernet0=shared/trap",
        "lab check lab.xoff.yml --virtual --report shared/trap",
        "lab compare lab.xoff.yml --virtual --lb ecmp,flowlet --seeds 1 --json shared/trap",
        "replay in.pcap --out shared/trap",
        "replay in.pcap --out out.pcapng --drops shared/trap",
        "replay in.pcap --out out.pcapng --report shared/trap",
    ] {
        let output = run(folder.path(), command);
        let text = stderr_text(&output);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{command}: {text}");
        assert!(text.contains("symbolic link"), "{command}: {text}");
        assert_eq!(
            fs::read_to_string(folder.path().join("precious")).expect("a file"),
            "kept"
        );
    }
    // The same link in a folder of the caller is followed, and stays a link.
    fs::set_permissions(&shared, Permissions::from_mode(0o755)).expect("own folder");
    let output = run(
        folder.path(),
        "lab run lab.xoff.yml --virtual --report shared/trap",
    );
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert!(shared.join("trap").is_symlink());
    assert!(
        fs::read_to_string(folder.path().join("precious"))
            .expect("a file")
            .starts_with('{')
    );
}

#[test]
fn results_go_to_devices_and_open_files() {
    let folder = inputs();
    fs::write(folder.path().join("lab.xoff.yml"), TWO_HOST_LAB).expect("a file");
    let to_stdout = run(
        folder.path(),
        "lab run lab.xoff.yml --virtual --report /dev/stdout",
    );
    assert!(to_stdout.status.success());
    assert!(String::from_utf8_lossy(&to_stdout.stdout).contains("\"schema\""));
    let to_null = run(folder.path(), "lab run lab.xoff.yml --virtual --report /dev/null");
    assert!(to_null.status.success());
    let full = run(folder.path(), "lab run lab.xoff.yml --virtual --report /dev/full");
    assert_eq!(full.status.code(), Some(3), "{}", stderr_text(&full));
    let events = run(folder.path(), "lab run lab.xoff.yml --virtual --events /dev/full");
    assert_eq!(events.status.code(), Some(3), "{}", stderr_text(&events));
    for part in ["--events /dev/full", "free space"] {
        assert!(stderr_text(&events).contains(part), "{}", stderr_text(&events));
    }
    let result = String::from_utf8_lossy(&events.stdout);
    assert!(result.contains("verdict: "), "the result is printed: {result}");
}
