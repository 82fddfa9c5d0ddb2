use super::*;
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::samples::sample_snapshot;

/// Two ports, group 3 lossless of a pool of 1 MB with 100 kB of headroom.
const TEXT: &str = r#"{"PORT": {"Ethernet0": {"admin_status": "up"}, "Ethernet4": {"admin_status": "up"}},
    "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "1000000", "xoff": "100000"}},
    "BUFFER_PROFILE": {"lossless": {"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "50000", "xon_offset": "2048"},
                       "lossy": {"pool": "in", "size": "0", "dynamic_th": "0"}},
    "BUFFER_PG": {"Ethernet0|0": {"profile": "lossy"}, "Ethernet0|3-4": {"profile": "lossless"}},
    "DSCP_TO_TC_MAP": {"M": {"26": "3"}},
    "TC_TO_PRIORITY_GROUP_MAP": {"M": {"3": "3"}}, "TC_TO_QUEUE_MAP": {"M": {"3": "3"}},
    "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M"}}}"#;

fn config(text: &str) -> SwitchConfig {
    let loaded =
        load(&[("test", text)], &ResolveOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
    loaded.resolved.config
}

/// What replacing one text by another loses while group 3 of Ethernet0 holds these cells of 256 bytes.
fn change(shared: u32, headroom: u32, pairs: &[(&str, &str)]) -> Vec<String> {
    let mut text = TEXT.to_owned();
    for (from, to) in pairs {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut now = sample_snapshot();
    now.ports[0].queues = Default::default();
    let group = &mut now.ports[0].pgs[3];
    group.shared.current_cells = shared;
    group.headroom.current_cells = headroom;
    group.total.current_cells = shared + headroom;
    losses(&config(TEXT), &config(&text), &now)
}

#[test]
fn what_stays_lossless_loses_nothing() {
    let harmless: [&[(&str, &str)]; 6] = [
        &[(r#""dynamic_th": "0", "xoff""#, r#""dynamic_th": "-4", "xoff""#)],
        &[(r#""size": "1000000""#, r#""size": "300000""#)],
        &[(r#""xoff": "50000""#, r#""xoff": "40000""#)],
        &[(r#""M": {"3": "3"}}, "TC_TO_Q"#, r#""M": {"3": "4"}}, "TC_TO_Q"#)],
        &[(r#""xon_offset": "2048""#, r#""xon": "512""#)],
        &[],
    ];
    for pairs in harmless {
        assert_eq!(change(1_000, 100, pairs), Vec::<String>::new(), "{pairs:?}");
    }
}

#[test]
fn a_pool_or_headroom_smaller_than_its_use() {
    assert_eq!(
        change(1_000, 0, &[(r#""size": "1000000""#, r#""size": "200000""#)]),
        [
            "BUFFER_POOL|in size 200000: 256000 bytes of it are in use, and lossless frames that arrive before they are \
             fewer may be dropped"
        ]
    );
    assert_eq!(
        change(10, 190, &[(r#""xoff": "50000""#, r#""xoff": "40000""#)]),
        [
            "BUFFER_PROFILE|lossless xoff 40000: 48640 bytes of headroom are in use in priority group 3 of Ethernet0, and \
             frames on their way to it may be dropped"
        ]
    );
    let smaller = [
        (r#""xoff": "100000""#, r#""xoff": "20000""#),
        (r#""xoff": "50000""#, r#""xoff": "20000""#),
    ];
    let lines = change(10, 100, &smaller);
    assert!(
        lines[0].starts_with("BUFFER_POOL|in xoff 20000: 25600 bytes"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "the group's headroom as well");
}

#[test]
fn a_group_in_use_that_is_no_longer_lossless() {
    let lines = |pairs: &[(&str, &str)]| change(20, 0, pairs);
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
        "BUFFER_PG|Ethernet0|3 profile NULL: 5120 bytes are in use, and the group has no buffer any more"
    );
    assert_eq!(
        lines(&[(r#""pfc_enable": "3,4""#, r#""pfc_enable": "4""#)])[0],
        "PORT_QOS_MAP|Ethernet0 pfc_enable: 5120 bytes are in use in priority group 3, and no priority signals its XOFF any \
         more: its frames are no longer lossless"
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
    assert_eq!(change(0, 0, &idle), Vec::<String>::new(), "nothing is in use");
}

#[test]
fn a_port_that_goes_down_with_frames_in_its_queues() {
    let text = TEXT.replace(
        r#""Ethernet0": {"admin_status": "up"}"#,
        r#""Ethernet0": {"admin_status": "down"}"#,
    );
    let mut now = sample_snapshot();
    now.ports[0].queues[3].total.current_cells = 4;
    assert_eq!(
        losses(&config(TEXT), &config(&text), &now),
        ["PORT|Ethernet0 admin_status down: 1024 bytes wait for its link and will be dropped"]
    );
}

/// What replacing one text by another loses while queue 3 and group 3 of Ethernet0 hold 100 cells of 256 bytes.
fn change_while_queued(from: &str, to: &str) -> Vec<String> {
    let mut now = sample_snapshot();
    now.ports[0].queues = Default::default();
    now.ports[0].queues[3].total.current_cells = 100;
    let group = &mut now.ports[0].pgs[3];
    group.shared.current_cells = 100;
    group.headroom.current_cells = 0;
    group.total.current_cells = 100;
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
    losses(&config(&watched), &config(&watched.replace(from, to)), &now)
}

#[test]
fn what_the_big_red_switch_a_smaller_mtu_and_leaving_vlans_lose() {
    assert_eq!(
        change_while_queued(r#""GLOBAL": {}"#, r#""GLOBAL": {"BIG_RED_SWITCH": "enable"}"#),
        [
            "PFC_WD|GLOBAL BIG_RED_SWITCH enable: 25600 bytes wait in watched queues of Ethernet0 and will be dropped, as all \
             that comes for them"
        ]
    );
    assert_eq!(
        change_while_queued(
            r#""Ethernet0": {"admin_status": "up"}"#,
            r#""Ethernet0": {"admin_status": "up", "mtu": "500"}"#
        ),
        [
            "PORT|Ethernet0 mtu 500: 25600 bytes wait for its link, and frames that come for it behind them and are longer are \
             dropped"
        ]
    );
    let elsewhere = r#""VLAN": {"Vlan10": {"vlanid": "10"}}, "VLAN_MEMBER": {"Vlan10|Ethernet4": {"tagging_mode": "untagged"}}, "PORT""#;
    assert_eq!(
        change_while_queued(r#""PORT""#, elsewhere),
        [
            "VLAN_MEMBER: Ethernet0 is in no VLAN any more, and 25600 bytes are in use in its lossless groups: frames that \
             follow are dropped"
        ]
    );
    assert_eq!(
        change_while_queued(
            r#""detection_time": "200""#,
            r#""detection_time": "400", "action": "forward""#
        ),
        Vec::<String>::new()
    );
}
