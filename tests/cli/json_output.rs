//! JSON on standard output and in files.

use super::*;

#[test]
fn json_output_contains_all_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports: Vec<String> = (0..30)
        .map(|n| format!(r#""Ethernet{n}": {{"mtu": "{n}"}}"#))
        .collect();
    let bad = write_file(
        folder.path(),
        "bad.json",
        &format!(r#"{{"PORT": {{{}}}}}"#, ports.join(",")),
    );
    // This is the header of a pcap file. The command refuses the configuration before it reads frames.
    let header = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    let capture = folder.path().join("empty.pcap");
    std::fs::write(&capture, header).expect("a file");
    let out = folder.path().join("out.pcapng");
    let arguments = [
        "replay",
        capture.to_str().expect("text"),
        "--config",
        &bad,
        "--out",
        out.to_str().expect("text"),
    ];
    let text = run_command(&arguments);
    assert_eq!((text.code, text.stdout.as_str()), (Some(4), ""), "{text:?}");
    assert_eq!(text.stderr.matches("Ethernet").count(), 20);
    let json = run_command(&[&arguments[..], &["--json"]].concat());
    assert_eq!(json.code, Some(4));
    let value: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(value["errors"].as_array().map(Vec::len), Some(30));
}

#[test]
fn json_output_is_one_document_also_on_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad_lab = write_file(folder.path(), "bad.xoff.yml", "name: [");
    let bad_config = write_file(
        folder.path(),
        "bad.json",
        r#"{"PORT": {"Ethernet0": {"mtu": "x"}}}"#,
    );
    let lines = [
        // The command line is wrong.
        "bench ndr".to_owned(),
        "show mac".to_owned(),
        "lab run --virtual a.yml --nope".to_owned(),
        "lab compare a.yml".to_owned(),
        "switch run --config a.json".to_owned(),
        // The command fails.
        "show interfaces status --lab no-such-lab".to_owned(),
        "show counters --api /no/such/socket".to_owned(),
        "config get --api /no/such/socket".to_owned(),
        format!("config apply {bad_config} --api /no/such/socket"),
        "lab down no-such-lab".to_owned(),
        format!("lab run {bad_lab}"),
        format!("lab run {bad_lab} --virtual"),
        format!("lab up {bad_lab}"),
        format!("lab compare {bad_lab} --virtual --lb ecmp"),
        "lab import --ns3 /no/such/folder".to_owned(),
        "lab merge /no/such/part.json".to_owned(),
        "replay /no/such/capture --out /dev/null".to_owned(),
        format!("bench ndr {bad_config}"),
        format!("bench core --config {bad_config}"),
        "bench oracle /no/such/folder".to_owned(),
        format!("bench probe {bad_config}"),
        format!("bench tune-buffers {bad_config}"),
        "bench compare /no/a.json /no/b.json".to_owned(),
        "host run --dev no-such-device --receive".to_owned(),
        "pfc send --dev no-such-device --class 3".to_owned(),
        "pfc storm --dev no-such-device --class 3".to_owned(),
        "pfc watch --dev no-such-device".to_owned(),
    ];
    for line in &lines {
        for options in [&["--json"][..], &["--format", "json"]] {
            let words: Vec<&str> = line.split(' ').chain(options.iter().copied()).collect();
            let result = run_command(&words);
            let json: serde_json::Value = serde_json::from_str(&result.stdout)
                .unwrap_or_else(|error| panic!("{words:?}: {error}: {result:?}"));
            assert_eq!(json["schema"], "xoff.error/1", "{words:?}: {result:?}");
            assert_eq!(
                json["exit_code"].as_i64(),
                result.code.map(i64::from),
                "{words:?}: {result:?}"
            );
            let error = json["error"].as_str().expect("a text");
            let first = error.lines().next().unwrap_or_default();
            assert!(
                !first.is_empty() && result.stderr.contains(first),
                "{words:?}: {result:?}"
            );
        }
        // Without JSON, standard output is empty.
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(run_command(&words).stdout, "", "{words:?}");
    }
}

#[test]
fn json_output_of_a_comparison_is_printed_or_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = write_file(
        folder.path(),
        "lab.xoff.yml",
        "name: x\ntopology:\n  fabric:\n    leaf-spine: {leaves: 2, spines: 2, hosts: 1, speed: 100g, config: {preset: roce-lossless}}\n\
         workload:\n  jobs:\n    - {name: j, kind: permutation, hosts: all, bytes: 4K}\n",
    );
    let file = folder.path().join("compare.json");
    let file = file.to_str().expect("text");
    let base = ["lab", "compare", &lab, "--virtual", "--lb", "ecmp"];
    let printed = run_command(&[&base[..], &["--json"]].concat());
    let printed: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let table = run_command(&[&base[..], &["--json", file]].concat());
    assert!(table.stdout.contains("Scheme"), "{table:?}");
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON");
    assert_eq!(printed["schema"], written["schema"]);
    assert!(printed["schema"].is_string(), "{printed}");
}
