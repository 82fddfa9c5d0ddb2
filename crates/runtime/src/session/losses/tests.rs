use super::*;
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::QueueReport;
use xoff_telemetry::samples::sample_snapshot;

const CELL_BYTES: u64 = 256;

/// A configuration with two ports. Priority group 3 is lossless, its pool has 1 MB, and the headroom pool has
/// 100 kB.
const TEXT: &str = r#"{"PORT": {"Ethernet0": {"admin_status": "up"}, "Ethernet4": {"admin_status": "up"}},
    "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "1000000", "xoff": "100000"}},
    "BUFFER_PROFILE": {"lossless": {"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "50000", "xon_offset": "2048"},
                       "lossy": {"pool": "in", "size": "0", "dynamic_th": "0"}},
    "BUFFER_PG": {"Ethernet0|0": {"profile": "lossy"}, "Ethernet0|3-4": {"profile": "lossless"}},
    "DSCP_TO_TC_MAP": {"M": {"26": "3"}},
    "TC_TO_PRIORITY_GROUP_MAP": {"M": {"3": "3"}}, "TC_TO_QUEUE_MAP": {"M": {"3": "3"}},
    "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M"}}}"#;

fn load_config(text: &str) -> SwitchConfig {
    let loaded =
        load(&[("test", text)], &ResolveOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
    loaded.resolved.config
}

/// Applies text replacements to the configuration and returns the predicted losses. Priority group 3 of
/// Ethernet0 uses the given numbers of cells, which have 256 bytes.
fn losses_of_change(shared_cells: u64, headroom_cells: u64, replacements: &[(&str, &str)]) -> Vec<String> {
    let mut text = TEXT.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut now = sample_snapshot().report;
    now.ports[0].queues = vec![QueueReport::default(); 8];
    let group = &mut now.ports[0].priority_groups[3];
    group.shared_current_bytes = shared_cells * CELL_BYTES;
    group.headroom_current_bytes = headroom_cells * CELL_BYTES;
    group.current_bytes = (shared_cells + headroom_cells) * CELL_BYTES;
    predict_losses(&load_config(TEXT), &load_config(&text), &now)
}

#[test]
fn changes_that_keep_groups_lossless_lose_no_frames() {
    let lossless_changes: [&[(&str, &str)]; 6] = [
        &[(r#""dynamic_th": "0", "xoff""#, r#""dynamic_th": "-4", "xoff""#)],
        &[(r#""size": "1000000""#, r#""size": "300000""#)],
        &[(r#""xoff": "50000""#, r#""xoff": "40000""#)],
        &[(r#""M": {"3": "3"}}, "TC_TO_Q"#, r#""M": {"3": "4"}}, "TC_TO_Q"#)],
        &[(r#""xon_offset": "2048""#, r#""xon": "512""#)],
        &[],
    ];
    for pairs in lossless_changes {
        assert_eq!(
            losses_of_change(1_000, 100, pairs),
            Vec::<String>::new(),
            "{pairs:?}"
        );
    }
}

#[test]
fn a_pool_or_headroom_below_its_use_is_a_loss() {
    assert_eq!(
        losses_of_change(1_000, 0, &[(r#""size": "1000000""#, r#""size": "200000""#)]),
        [
            "BUFFER_POOL|in size 200000: 256000 bytes of it are in use, and lossless frames that arrive before the use \
             decreases may be dropped"
        ]
    );
    assert_eq!(
        losses_of_change(10, 190, &[(r#""xoff": "50000""#, r#""xoff": "40000""#)]),
        [
            "BUFFER_PROFILE|lossless xoff 40000: 48640 bytes of headroom are in use in priority group 3 of Ethernet0, and \
             frames in flight to it may be dropped"
        ]
    );
    let smaller = [
        (r#""xoff": "100000""#, r#""xoff": "20000""#),
        (r#""xoff": "50000""#, r#""xoff": "20000""#),
    ];
    let lines = losses_of_change(10, 100, &smaller);
    assert!(
        lines[0].starts_with("BUFFER_POOL|in xoff 20000: 25600 bytes"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "the group's headroom as well");
}

#[test]
fn a_group_in_use_that_becomes_lossy_is_a_loss() {
    let lines = |pairs: &[(&str, &str)]| losses_of_change(20, 0, pairs);
    assert_eq!(
        lines(&[(
            r#""Ethernet0|3-4": {"profile": "lossless"}"#,
            r#""Ethernet0|3-4": {"profile": "lossy"}"#
        )])[0],
        "BUFFER_PG|Ethernet0|3 profile lossy: 5120 bytes are in use, and the profile has no headroom (xoff 0): its frames \
         are no longer lossless"
    );
    assert_eq!(
        lines(&[(
            r#""Ethernet0|3-4": {"profile": "lossless"}"#,
            r#""Ethernet0|3-4": {"profile": "NULL"}"#
        )])[0],
        "BUFFER_PG|Ethernet0|3 profile NULL: 5120 bytes are in use, and the group has no buffer after the change"
    );
    assert_eq!(
        lines(&[(r#""pfc_enable": "3,4""#, r#""pfc_enable": "4""#)])[0],
        "PORT_QOS_MAP|Ethernet0 pfc_enable: 5120 bytes are in use in priority group 3, and no priority signals its XOFF after \
         the change: its frames are no longer lossless"
    );
    assert_eq!(
        lines(&[(r#""M": {"3": "3"}}, "TC_TO_Q"#, r#""M": {"3": "0"}}, "TC_TO_Q"#)]),
        [
            "PORT_QOS_MAP|Ethernet0: frames of priority group 3, with 5120 bytes in use, go to priority group 0, which is not lossless"
        ]
    );
    let idle = [(
        r#""Ethernet0|3-4": {"profile": "lossless"}"#,
        r#""Ethernet0|3-4": {"profile": "lossy"}"#,
    )];
    assert_eq!(
        losses_of_change(0, 0, &idle),
        Vec::<String>::new(),
        "nothing is in use"
    );
}

#[test]
fn shutdown_of_a_port_with_queued_frames_is_a_loss() {
    let text = TEXT.replace(
        r#""Ethernet0": {"admin_status": "up"}"#,
        r#""Ethernet0": {"admin_status": "down"}"#,
    );
    let mut now = sample_snapshot().report;
    now.ports[0].queues[3].current_bytes = 4 * CELL_BYTES;
    assert_eq!(
        predict_losses(&load_config(TEXT), &load_config(&text), &now),
        ["PORT|Ethernet0 admin_status down: 1024 bytes wait for its link and will be dropped"]
    );
}

/// Applies a text replacement to the configuration and returns the predicted losses. Queue 3 and priority
/// group 3 of Ethernet0 use 100 cells of 256 bytes.
fn losses_of_change_while_queued(from: &str, to: &str) -> Vec<String> {
    let mut now = sample_snapshot().report;
    now.ports[0].queues = vec![QueueReport::default(); 8];
    now.ports[0].queues[3].current_bytes = 100 * CELL_BYTES;
    let group = &mut now.ports[0].priority_groups[3];
    group.shared_current_bytes = 100 * CELL_BYTES;
    group.current_bytes = 100 * CELL_BYTES;
    let watched = TEXT
        .replace(
            r#""pfc_enable": "3,4""#,
            r#""pfc_enable": "3,4", "pfcwd_sw_enable": "3""#,
        )
        .replacen(
            '{',
            r#"{"PFC_WD": {"GLOBAL": {}, "Ethernet0": {"detection_time": "200"}}, "#,
            1,
        );
    assert!(watched.contains(from), "{from}");
    predict_losses(
        &load_config(&watched),
        &load_config(&watched.replace(from, to)),
        &now,
    )
}

#[test]
fn big_red_switch_smaller_mtu_and_removal_from_vlans_lose_queued_frames() {
    assert_eq!(
        losses_of_change_while_queued(r#""GLOBAL": {}"#, r#""GLOBAL": {"BIG_RED_SWITCH": "enable"}"#),
        [
            "PFC_WD|GLOBAL BIG_RED_SWITCH enable: 25600 bytes wait in watched queues of Ethernet0 and will be dropped, as are \
             later frames for these queues"
        ]
    );
    assert_eq!(
        losses_of_change_while_queued(
            r#""Ethernet0": {"admin_status": "up"}"#,
            r#""Ethernet0": {"admin_status": "up", "mtu": "500"}"#
        ),
        [
            "PORT|Ethernet0 mtu 500: 25600 bytes wait for its link, and longer frames that arrive later are \
             dropped"
        ]
    );
    let vlan_of_other_port = r#""VLAN": {"Vlan10": {"vlanid": "10"}}, "VLAN_MEMBER": {"Vlan10|Ethernet4": {"tagging_mode": "untagged"}}, "PORT""#;
    assert_eq!(
        losses_of_change_while_queued(r#""PORT""#, vlan_of_other_port),
        [
            "VLAN_MEMBER: Ethernet0 is in no VLAN after the change, and 25600 bytes are in use in its lossless groups: later frames \
             are dropped"
        ]
    );
    assert_eq!(
        losses_of_change_while_queued(
            r#""detection_time": "200""#,
            r#""detection_time": "400", "action": "forward""#
        ),
        Vec::<String>::new()
    );
}
