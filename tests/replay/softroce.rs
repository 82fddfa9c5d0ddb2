//! Replays of the Soft-RoCE capture through switches of several configurations.

use std::collections::BTreeMap;

use serde_json::Value;
use xoff_wire::parse::{Payload, parse};
use xoff_wire::{MacControl, icrc};

use crate::captures::{
    InputFrame, OutputFrame, ReplayFolder, read_pcap, read_pcapng, softroce_capture, write_pcap,
};
use crate::compare::{Rewrites, assert_same_frames, ipv4_checksum};

/// Returns the Soft-RoCE capture with other DSCP and ECN bits, repeated `times` times.
fn marked_softroce(folder: &ReplayFolder, tos: u8, times: u64) -> Vec<InputFrame> {
    let once = read_pcap(&softroce_capture());
    let mut frames = Vec::new();
    for round in 0..times {
        for frame in &once {
            let mut frame = frame.clone();
            frame.at_ns += round * 10_000_000_000;
            let l3 = usize::from(parse(&frame.data).l3_offset);
            frame.data[l3 + 1] = tos;
            frame.data[l3 + 10..l3 + 12].fill(0);
            let sum = ipv4_checksum(&frame.data[l3..l3 + 20]);
            frame.data[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
            frames.push(frame);
        }
    }
    write_pcap(&folder.path("in.pcap"), &frames);
    frames
}

fn is_ce(frame: &[u8]) -> bool {
    parse(frame).tos & 3 == 3
}

/// Asserts that the classes in the comments of frames equal the counters of the switch.
fn assert_class_counts(report: &Value, frames: &[OutputFrame]) {
    let mut said: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.id.is_some()) {
        let class = frame
            .comment
            .split("tc ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let class = class.expect("a class").parse().expect("a number");
        *said.entry((u64::from(frame.interface), class)).or_default() += 1;
    }
    for (port, counters) in report["switch"]["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .enumerate()
    {
        for (class, sent) in counters["tx_class_packets"]
            .as_array()
            .expect("classes")
            .iter()
            .enumerate()
        {
            let said = said.get(&(port as u64, class)).copied().unwrap_or(0);
            assert_eq!(sent.as_u64(), Some(said), "port {port}, class {class}");
        }
    }
}

#[test]
fn a_bridge_changes_no_frame_at_any_speed() {
    let folder = ReplayFolder::new();
    let before = read_pcap(&softroce_capture());
    let path = softroce_capture();
    let path = path.to_str().expect("text");
    let (report, after) = folder.replay_successfully(&[path]);
    assert_same_frames(&before, &after, Rewrites::default());
    assert_class_counts(&report, &after);
    // The stations sent at most at this link speed, so no frame waited longer than the duration of a few
    // frames.
    let waited = |frame: &OutputFrame| {
        frame
            .at_ns
            .checked_sub(before[frame.id.unwrap() as usize - 1].at_ns)
    };
    assert!(
        after
            .iter()
            .all(|frame| waited(frame).is_some_and(|ns| ns < 100_000))
    );
    assert!(after.iter().all(|frame| frame.flags == 2));
    for pace in [
        &["--back-to-back"][..],
        &["--multiplier", "1000"],
        &["--multiplier", "0.01"],
        &["--no-learn"],
    ] {
        let (report, after) =
            folder.replay_successfully(&[&[path, "--preset", "roce-lossless"], pace].concat());
        assert_same_frames(&before, &after, Rewrites::default());
        assert_class_counts(&report, &after);
        assert_eq!(report["frames"]["sent"], 262);
    }
}

#[test]
fn two_replays_write_equal_bytes() {
    let (folder, other) = (ReplayFolder::new(), ReplayFolder::new());
    let config = r#"{"WRED_PROFILE": {"early": {"ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "1000",
        "green_max_threshold": "9000", "green_drop_probability": "50"}}, "QUEUE": {"Ethernet0|3": {"wred_profile": "early"},
        "Ethernet4|3": {"wred_profile": "early"}}, "PORT": {"Ethernet0": {}, "Ethernet4": {"speed": "100"}}}"#;
    let mut texts = Vec::new();
    for folder in [&folder, &other] {
        marked_softroce(folder, 26 << 2 | 2, 20);
        folder.write_file("config.json", config);
        let output = folder.replay(&[
            "in.pcap",
            "--preset",
            "roce-lossless",
            "--config",
            "config.json",
            "--back-to-back",
            "--out",
            "out.pcapng",
            "--drops",
            "drops.pcapng",
            "--report",
            "report.json",
            "--seed",
            "5",
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let files = ["out.pcapng", "drops.pcapng", "report.json"];
        texts.push((
            files.map(|name| std::fs::read(folder.path(name)).unwrap()),
            output.stdout,
        ));
    }
    let (_, frames) = read_pcapng(&folder.path("out.pcapng"));
    let marked = frames
        .iter()
        .filter(|frame| frame.comment.ends_with("CE marked"))
        .count();
    assert!((100..2_000).contains(&marked), "chance had a say in it: {marked}");
    assert!(texts[0] == texts[1]);
}

#[test]
fn a_vlan_adds_only_its_tag() {
    let folder = ReplayFolder::new();
    let before = read_pcap(&softroce_capture());
    folder.write_file(
        "vlan.json",
        r#"{"PORT": {"Ethernet0": {}, "Ethernet4": {}}, "VLAN": {"Vlan10": {"vlanid": "10"}},
            "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "tagged"},
                            "Vlan10|Ethernet4": {"tagging_mode": "untagged"}}}"#,
    );
    // Both stations send untagged frames, so the first station's port accepts no tagged frame.
    let path = softroce_capture();
    let output = folder.replay(&[
        path.to_str().unwrap(),
        "--config",
        "vlan.json",
        "--out",
        "out.pcapng",
        "--json",
    ]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report["switch"]["ports"][0]["drops"]["INGRESS_VLAN_FILTER"],
        report["switch"]["ports"][0]["rx_packets"]
    );
    let (_, after) = read_pcapng(&folder.path("out.pcapng"));
    assert_eq!(
        after.len() as u64,
        report["switch"]["ports"][1]["rx_packets"].as_u64().unwrap()
    );
    let tagged = Rewrites {
        pushed_tci: Some(10),
        ..Rewrites::default()
    };
    for frame in &after {
        assert_eq!(frame.interface, 0);
        tagged
            .compare_frames(&before[frame.id.unwrap() as usize - 1], frame)
            .unwrap();
        assert_eq!(icrc::verify_icrc(&frame.data), Ok(true));
    }
}

#[test]
fn marking_changes_only_ecn_and_checksum() {
    let folder = ReplayFolder::new();
    let before = marked_softroce(&folder, 26 << 2 | 2, 3);
    folder.write_file(
        "ecn.json",
        r#"{"PORT": {"Ethernet0": {}, "Ethernet4": {"speed": "100"}},
            "WRED_PROFILE": {"roce_ecn": {"green_min_threshold": "20000", "green_max_threshold": "20000"}}}"#,
    );
    let (report, after) = folder.replay_successfully(&[
        "in.pcap",
        "--preset",
        "roce-lossless",
        "--config",
        "ecn.json",
        "--back-to-back",
    ]);
    let ecn = Rewrites {
        ecn: true,
        ..Rewrites::default()
    };
    assert_same_frames(&before, &after, ecn);
    assert_class_counts(&report, &after);
    let mut marked = 0;
    for frame in after.iter().filter(|frame| frame.id.is_some()) {
        assert_eq!(
            frame.comment.ends_with(", CE marked"),
            is_ce(&frame.data),
            "{}",
            frame.comment
        );
        assert_eq!(icrc::verify_icrc(&frame.data), Ok(true));
        let l3 = usize::from(parse(&frame.data).l3_offset);
        assert_eq!(parse(&frame.data).payload, Payload::Ipv4);
        let mut header = frame.data[l3..l3 + 20].to_vec();
        let sum = [header[10], header[11]];
        header[10..12].fill(0);
        assert_eq!(ipv4_checksum(&header).to_be_bytes(), sum);
        assert_eq!(
            (frame.queue, is_ce(&frame.data) && frame.interface == 0),
            (Some(3), false)
        );
        marked += u64::from(is_ce(&frame.data));
    }
    assert!(marked > 100, "{marked}");
    assert_eq!(report["frames"]["marked"], marked);
}

#[test]
fn congestion_is_reported_with_pauses_and_drops() {
    let folder = ReplayFolder::new();
    let before = marked_softroce(&folder, 26 << 2, 40);
    folder.write_file(
        "slow.json",
        r#"{"PORT": {"Ethernet0": {}, "Ethernet4": {"speed": "10"}}}"#,
    );
    let arguments = [
        "in.pcap",
        "--preset",
        "roce-lossless",
        "--config",
        "slow.json",
        "--back-to-back",
        "--drops",
        "drops.pcapng",
    ];
    let (report, after) = folder.replay_successfully(&arguments);
    let (_, lost) = read_pcapng(&folder.path("drops.pcapng"));
    // The sender is a capture and ignores pauses, so the headroom overflows.
    assert!(!lost.is_empty());
    assert_eq!(report["frames"]["dropped"], lost.len());
    for frame in &lost {
        assert!(
            frame
                .comment
                .contains("dropped at Ethernet0: INGRESS_PRIORITY_GROUP_DROPPED_PACKETS")
                && frame.comment.contains("cells in use"),
            "{}",
            frame.comment
        );
        Rewrites::default()
            .compare_frames(&before[frame.id.unwrap() as usize - 1], frame)
            .unwrap();
    }
    let sent = after.iter().filter(|frame| frame.id.is_some()).count();
    assert_eq!(sent + lost.len(), before.len());
    let pauses: Vec<&OutputFrame> = after.iter().filter(|frame| frame.id.is_none()).collect();
    assert_eq!(report["frames"]["pfc_sent"], pauses.len());
    assert!(
        pauses
            .iter()
            .all(|frame| matches!(MacControl::parse(&frame.data), Ok(MacControl::Pfc(_))))
    );
    assert!(
        pauses
            .iter()
            .any(|frame| frame.comment == "PFC of the switch, XOFF 3")
    );
    assert!(
        pauses
            .iter()
            .any(|frame| frame.comment == "PFC of the switch, XON 3")
    );
}

#[test]
fn truncated_frames_keep_their_length_and_class() {
    let folder = ReplayFolder::new();
    let whole = marked_softroce(&folder, 26 << 2, 1);
    let cut: Vec<InputFrame> = whole
        .iter()
        .map(|frame| InputFrame {
            data: frame.data[..frame.data.len().min(64)].to_vec(),
            ..frame.clone()
        })
        .collect();
    let (of_whole, _) = folder.replay_successfully(&["in.pcap", "--preset", "roce-lossless"]);
    write_pcap(&folder.path("in.pcap"), &cut);
    let (of_cut, after) = folder.replay_successfully(&["in.pcap", "--preset", "roce-lossless"]);
    assert_same_frames(&cut, &after, Rewrites::default());
    assert!(
        after
            .iter()
            .all(|frame| frame.comment.contains("tc 3, pg 3, queue 3"))
    );
    assert_eq!(
        of_whole["switch"], of_cut["switch"],
        "lengths count, not what was stored"
    );
}

#[test]
fn a_router_rewrites_only_addresses_and_ttl() {
    const ROUTER: [u8; 6] = [0x02, 0xaa, 0, 0, 0, 0];
    let folder = ReplayFolder::new();
    let mut before = read_pcap(&softroce_capture());
    for frame in &mut before {
        frame.data[..6].copy_from_slice(&ROUTER);
    }
    write_pcap(&folder.path("in.pcap"), &before);
    // 10.9.0.2 sends first and is therefore behind Ethernet0.
    folder.write_file(
        "router.json",
        r#"{"DEVICE_METADATA": {"localhost": {"mac": "02:aa:00:00:00:00"}},
            "PORT": {"Ethernet0": {}, "Ethernet4": {}},
            "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.9.0.3/31": {}, "Ethernet4": {}, "Ethernet4|10.9.0.0/31": {}},
            "NEIGH": {"Ethernet0|10.9.0.2": {"neigh": "02:00:00:00:01:02", "family": "IPv4"},
                      "Ethernet4|10.9.0.1": {"neigh": "02:00:00:00:01:01", "family": "IPv4"}}}"#,
    );
    let (report, after) = folder.replay_successfully(&["in.pcap", "--config", "router.json"]);
    let routed = Rewrites {
        routed: true,
        ..Rewrites::default()
    };
    assert_same_frames(&before, &after, routed);
    assert_eq!(report["capture"]["stations"], 2);
    for frame in &after {
        let l3 = usize::from(parse(&frame.data).l3_offset);
        let sent = &before[frame.id.unwrap() as usize - 1];
        assert_eq!(frame.data[..6], destination_mac(sent, l3));
        assert_eq!(frame.data[6..12], ROUTER);
        assert_eq!(frame.data[l3 + 8] + 1, sent.data[l3 + 8]);
        let mut header = frame.data[l3..l3 + 20].to_vec();
        let sum = [header[10], header[11]];
        header[10..12].fill(0);
        assert_eq!(ipv4_checksum(&header).to_be_bytes(), sum);
        assert_eq!(icrc::verify_icrc(&frame.data), Ok(true));
    }
}

/// Returns the MAC address of the station with the destination IP address.
fn destination_mac(frame: &InputFrame, l3: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, frame.data[l3 + 19]]
}
