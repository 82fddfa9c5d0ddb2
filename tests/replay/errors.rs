//! Tests of unreadable and unwritable files, and of incomplete captures.

use crate::captures::{InputFrame, ReplayFolder, read_pcap, read_pcapng, softroce_capture, write_pcap};
use crate::compare::{Rewrites, assert_same_frames};

/// Asserts that the command is refused with this exit code and these words, without a panic and without an
/// output file.
fn assert_refused(folder: &ReplayFolder, arguments: &[&str], code: i32, words: &[&str]) {
    let output = folder.replay(arguments);
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    for word in words {
        assert!(told.contains(word), "{arguments:?}: no {word:?} in {told}");
    }
    assert!(!told.contains("panicked"), "{told}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_truncated_capture_is_replayed_and_reported_as_truncated() {
    let folder = ReplayFolder::new();
    let whole = std::fs::read(softroce_capture()).expect("a file of the repository");
    folder.write_file("in.pcap", &whole[..whole.len() - 10]);
    let output = folder.replay(&["in.pcap", "--out", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let told = String::from_utf8(output.stderr).expect("text");
    for word in ["in the middle of a frame", "frame 262", "at byte ", "10 bytes"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("verdict: inconclusive"));
    let before = read_pcap(&softroce_capture());
    assert_same_frames(
        &before[..261],
        &read_pcapng(&folder.path("out.pcapng")).1,
        Rewrites::default(),
    );
}

#[test]
fn files_that_are_not_captures_are_refused() {
    let folder = ReplayFolder::new();
    let whole = std::fs::read(softroce_capture()).expect("a file of the repository");
    let mut cooked = whole.clone();
    cooked[20] = 113;
    for (name, bytes, words) in [
        ("empty", &b""[..], &["the capture is empty"][..]),
        (
            "text",
            b"no capture at all",
            &["neither pcap nor pcapng", "6e 6f 20 63"],
        ),
        ("gz", b"\x1f\x8b\x08\x00\x00", &["the compressed data is damaged"]),
        ("zst", b"\x28\xb5\x2f\xfd\x00", &["zstdcat"]),
        ("cooked", &cooked, &["Linux cooked capture", "-i any"]),
        ("header", &whole[..12], &["inside its file header"]),
    ] {
        folder.write_file(name, bytes);
        assert_refused(
            &folder,
            &[name, "--out", "out.pcapng"],
            3,
            &[words, &["error:", "fix:"]].concat(),
        );
        assert!(!folder.path("out.pcapng").exists(), "{name}");
    }
    assert_refused(
        &folder,
        &["missing", "--out", "out.pcapng"],
        3,
        &["cannot be read", "missing"],
    );
    assert_refused(&folder, &[".", "--out", "out.pcapng"], 3, &["cannot be read"]);
}

#[test]
fn a_capture_without_frames_is_valid_and_proves_nothing() {
    let folder = ReplayFolder::new();
    folder.write_file(
        "in.pcap",
        &std::fs::read(softroce_capture()).expect("a file of the repository")[..24],
    );
    let output = folder.replay(&["in.pcap", "--out", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("in.pcap has no frames"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("verdict: no traffic: no frame was offered; the capture has no frames"),
        "{printed}"
    );
    let (interfaces, frames) = read_pcapng(&folder.path("out.pcapng"));
    assert_eq!((interfaces.len(), frames.len()), (2, 0));
}

#[test]
fn a_replay_that_excludes_every_frame_is_inconclusive_and_says_why() {
    let folder = ReplayFolder::new();
    // A PFC frame is the only frame of its sender, so the sender is taken for a switch.
    let mut pfc = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 1, 1];
    pfc.resize(60, 0);
    let frame = InputFrame {
        at_ns: 0,
        len: 60,
        data: pfc,
    };
    write_pcap(&folder.path("in.pcap"), &vec![frame; 3]);
    let output = folder.replay(&["in.pcap", "--out", "out.pcapng", "--report", "report.json"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(5), "{printed}");
    let expected = "verdict: no traffic: no frame was offered; 3 frames left out because a switch sent them";
    assert!(
        printed.contains(expected) && !printed.contains("clean"),
        "{printed}"
    );
    let report = std::fs::read(folder.path("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["verdict"], "no-traffic");
    assert_eq!(report["traffic"]["offered_frames"], 0);
    // An expectation makes the missing frames a failure.
    let output = folder.replay(&["in.pcap", "--out", "out.pcapng", "--expect", "frames>=1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn expectations_decide_the_exit_code_of_a_replay() {
    let folder = ReplayFolder::new();
    let whole = std::fs::read(softroce_capture()).expect("a file of the repository");
    folder.write_file("in.pcap", whole);
    for (expected, code) in [
        ("frames>=262", 0),
        ("262", 0),
        ("bytes>1k", 0),
        ("frames<10", 1),
        ("frames>=1M", 1),
    ] {
        let output = folder.replay(&["in.pcap", "--out", "out.pcapng", "--expect", expected]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{expected}: {printed}");
        assert_eq!(printed.contains("verdict: failed"), code == 1, "{printed}");
    }
    assert_refused(
        &folder,
        &["in.pcap", "--out", "out.pcapng", "--expect", "packets>=1"],
        2,
        &["'packets' is not a quantity", "frames>=1000"],
    );
}

#[test]
fn frames_longer_than_an_mtu_fail_a_lossless_class_and_are_named_otherwise() {
    let folder = ReplayFolder::new();
    let whole = std::fs::read(softroce_capture()).expect("a file of the repository");
    folder.write_file("in.pcap", whole);
    folder.write_file(
        "mtu.json",
        r#"{"PORT": {"Ethernet0": {"mtu": "1000"}, "Ethernet4": {"mtu": "1000"}}}"#,
    );
    // Soft-RoCE sends with DSCP 0. The second configuration maps DSCP 0 to the lossless class 3.
    folder.write_file(
        "lossless.json",
        r#"{"DSCP_TO_TC_MAP": {"ROCE": {"0": "3"}}, "PORT": {"Ethernet0": {"mtu": "1000"}, "Ethernet4": {"mtu": "1000"}}}"#,
    );
    let base = [
        "in.pcap",
        "--out",
        "out.pcapng",
        "--preset",
        "roce-lossless",
        "--config",
    ];
    for (config, code, words) in [
        (
            "mtu.json",
            0,
            [
                "verdict: clean\n",
                "of class 0 longer than the MTU (EXCEEDS_L2_MTU)",
            ],
        ),
        (
            "lossless.json",
            1,
            ["verdict: failed\n", "of the lossless class 3 longer than the MTU"],
        ),
    ] {
        let output = folder.replay(&[&base[..], &[config]].concat());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{config}: {printed} {output:?}");
        for word in words {
            assert!(printed.contains(word), "{config}: no {word:?} in {printed}");
        }
    }
}

#[test]
fn paths_configurations_and_options_are_checked() {
    let folder = ReplayFolder::new();
    folder.write_file(
        "in.pcap",
        std::fs::read(softroce_capture()).expect("a file of the repository"),
    );
    folder.write_file("bad.json", r#"{"PORT": {"Ethernet0": {"speed": "fast"}}}"#);
    folder.write_file("one.json", r#"{"PORT": {"Ethernet0": {}}}"#);
    let out = ["--out", "out.pcapng"];
    let with = |more: &[&'static str]| [&["in.pcap"], &out[..], more].concat();
    assert_refused(
        &folder,
        &["in.pcap", "--out", "in.pcap"],
        2,
        &["the same file as the capture"],
    );
    assert_refused(
        &folder,
        &with(&["--drops", "./out.pcapng"]),
        2,
        &["the same file as --out"],
    );
    assert_refused(
        &folder,
        &["in.pcap", "--out", "no/out.pcapng"],
        3,
        &["cannot be written", "no/out.pcapng"],
    );
    assert_refused(
        &folder,
        &with(&["--config", "bad.json"]),
        4,
        &["bad.json", "speed"],
    );
    assert_refused(&folder, &with(&["--config", "none.json"]), 4, &["cannot be read"]);
    assert_refused(
        &folder,
        &with(&["--config", "one.json"]),
        2,
        &["2 stations, the switch 1 port", "--ingress"],
    );
    assert_refused(&folder, &with(&["--preset", "roce"]), 2, &["roce-lossless"]);
    assert_refused(
        &folder,
        &with(&["--port", "Ethernet0=eth7"]),
        2,
        &["no interface \"eth7\""],
    );
    assert_refused(
        &folder,
        &with(&["--port", "swp1=02:00:00:00:00:01"]),
        2,
        &["Ethernet0"],
    );
    assert_refused(&folder, &with(&["--multiplier", "0"]), 2, &["above 0"]);
    assert_eq!(
        std::fs::read(folder.path("in.pcap")).unwrap(),
        std::fs::read(softroce_capture()).unwrap(),
        "what is read is never written"
    );
}

#[test]
fn captures_can_use_standard_input_and_output() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["replay", "-", "--out", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let whole = std::fs::read(softroce_capture()).expect("a file of the repository");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&whole)
        .expect("it is read to its end");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let folder = ReplayFolder::new();
    folder.write_file("out.pcapng", &output.stdout);
    assert_same_frames(
        &read_pcap(&softroce_capture()),
        &read_pcapng(&folder.path("out.pcapng")).1,
        Rewrites::default(),
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("262 received = 262 sent"));
}
