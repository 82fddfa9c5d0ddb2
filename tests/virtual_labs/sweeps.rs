//! Values of `--set`, and sweeps.

use super::*;

#[test]
fn set_replaces_a_value_of_the_lab_file() {
    let folder = temporary_folder();
    run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "workload.jobs.reduce.bytes.1=1M", "--report", "r.json"],
        0,
    );
    let report = read_json(folder.path().join("r.json"));
    assert_eq!(
        report["jobs"]["jobs"][0]["collective"]["sizes"][1]["bytes"],
        1 << 20
    );
    let (_, err) = run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "transports.default.congestoin=none"],
        2,
    );
    assert_contains(
        &err,
        &[
            "no value at \"transports.default.congestoin\"",
            "where: --set transports.default.congestoin=none, lab.yml:7",
            "fix: did you mean transports.default.congestion?",
        ],
    );
    let (_, err) = run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "transports.default.congestion=fast"],
        4,
    );
    assert_contains(
        &err,
        &[
            "lab.yml:7:",
            "fast",
            "where: --set transports.default.congestion=fast",
        ],
    );
}

#[test]
fn parts_of_a_sweep_merge_to_the_complete_sweep() {
    let folder = temporary_folder();
    let sweep = [
        "--seeds",
        "1..=3,9",
        "--set",
        "transports.default.congestion=dcqcn,none",
    ];
    let run = |more: &[&str]| {
        let all: Vec<&str> = sweep.iter().chain(more).copied().collect();
        run_lab(folder.path(), RANDOM_LAB, &all, 0).0
    };
    let table = run(&["--jobs", "1", "--report", "whole.json", "--csv", "whole.csv"]);
    assert_contains(
        &table,
        &[
            "lab random: 8 runs",
            "transports.default.congestion",
            "dcqcn",
            "none",
            "p99 slowdown",
        ],
    );
    let again = ["--jobs", "3", "--report", "again.json", "--progress", "json"];
    let all: Vec<&str> = sweep.iter().chain(&again).copied().collect();
    let (repeated, progress) = run_lab(folder.path(), RANDOM_LAB, &all, 0);
    assert_eq!(repeated, table);
    let last = progress.lines().rfind(|line| line.contains("xoff.progress/1"));
    let last: serde_json::Value = serde_json::from_str(last.expect("a line of progress")).expect("JSON");
    assert_eq!(
        (&last["finished_runs"], &last["runs"], &last["percent"]),
        (&8.into(), &8.into(), &100.0.into())
    );
    for part in ["1/3", "2/3", "3/3"] {
        let report = format!("part{}.json", &part[..1]);
        let text = run(&["--shard", part, "--report", &report]);
        assert_contains(&text, &[&format!("part {} of 3 (8 runs in total)", &part[..1])]);
    }
    let merge = |parts: &[&str], exit| {
        let mut all = vec!["lab", "merge", "--report", "merged.json", "--csv", "merged.csv"];
        all.extend(parts);
        check_exit(&run_xoff(folder.path(), &all), &all, exit)
    };
    assert_eq!(merge(&["part3.json", "part1.json", "part2.json"], 0).0, table);
    let file = |name: &str| read_file(folder.path().join(name));
    for (name, like) in [
        ("again.json", "whole.json"),
        ("merged.json", "whole.json"),
        ("merged.csv", "whole.csv"),
    ] {
        assert!(file(name) == file(like), "{name} and {like} differ");
    }
    assert_eq!(file("whole.csv").lines().count(), 3);
    assert_contains(
        &merge(&["part1.json", "part3.json"], 2).1,
        &["parts are missing: 2/3"],
    );
    assert_contains(&merge(&["part1.json", "part1.json"], 4).1, &["two of the files"]);
    assert_contains(
        &merge(&["lab.yml"], 4).1,
        &["not a part of a sweep", "where: lab.yml"],
    );
}

#[test]
fn invalid_sweep_options_are_refused() {
    let folder = temporary_folder();
    for (arguments, words) in [
        (&["--seeds", "5..=1"][..], &["the range 5..=1 is empty"][..]),
        (&["--seeds", "3..3"], &["the range 3..3 is empty"]),
        (&["--seeds", "1,1"], &["twice"]),
        (&["--seeds", "1..=2", "--events", "e"], &["cannot be used with"]),
        (
            &["--set", "name=a,b", "--events", "e"],
            &["this is a sweep", "--events"],
        ),
        (
            &["--seeds", "1,2", "--format", "nccl"],
            &["this is a sweep", "--format nccl"],
        ),
        (&["--seeds", "1,2", "--shard", "1/2"], &["--report"]),
        (
            &["--seeds", "1,2", "--shard", "3/2", "--report", "r"],
            &["'3/2' is not a part"],
        ),
        (&["--set", "name"], &["no '='"]),
        (
            &["--set", "name=a", "--set", "name=b", "--seeds", "1,2"],
            &["\"name\" is set twice"],
        ),
    ] {
        let (_, err) = run_lab(folder.path(), RANDOM_LAB, arguments, 2);
        assert_contains(&err, words);
    }
}

#[test]
fn an_interrupt_ends_a_sweep() {
    let folder = temporary_folder();
    write_file(folder.path(), "lab.yml", RANDOM_LAB);
    let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(folder.path())
        .args([
            "lab",
            "run",
            "lab.yml",
            "--virtual",
            "--seeds",
            "1..=100000",
            "--report",
            "r.json",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("xoff can be started");
    let deadline = Instant::now() + Duration::from_secs(30);
    let catches = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 0b10 != 0)
    };
    while !catches(child.id()) {
        assert!(Instant::now() < deadline, "it never watches for interrupts");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("a signal can be sent");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(!folder.path().join("r.json").exists());
}
