//! Tests of QoS maps, `PORT_QOS_MAP`, PFC, and the warnings about headroom and refresh.

use xoff_dataplane::config::TrustMode;
use xoff_units::Picos;

use super::{assert_each_refused, load_config, load_warnings, resolve_options};
use crate::{ResolveOptions, load};

const MAPS: &str = r#""DSCP_TO_TC_MAP": {"M": {"26": "3", "63": "15"}}, "DOT1P_TO_TC_MAP": {"M": {"5": "5"}},
    "TC_TO_QUEUE_MAP": {"M": {"3": "4", "15": "7"}}, "TC_TO_PRIORITY_GROUP_MAP": {"M": {"3": "2"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"M": {"3": "4"}}, "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {"M": {"3": "2"}}"#;

fn with_maps(bindings: &str) -> String {
    format!(r#"{{{MAPS}, "PORT_QOS_MAP": {bindings}}}"#)
}

#[test]
fn qos_maps_are_resolved_with_defaults() {
    let config = load_config(
        &with_maps(
            r#"{"Ethernet0": {"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M",
                 "pfc_to_queue_map": "M", "pfc_to_pg_map": "M", "pfc_enable": "3,4"},
                "Ethernet4": {"dot1p_to_tc_map": "M"}, "global": {"dscp_to_tc_map": "M"}}"#,
        ),
        &["Ethernet0", "Ethernet4", "Ethernet8"],
    );
    let [dscp, dot1p, global] = [0, 1, 2].map(|n| config.ports[n].classify);
    assert_eq!(
        (
            dscp.trust,
            dscp.dscp_to_tc[26],
            dscp.dscp_to_tc[63],
            dscp.dscp_to_tc[0]
        ),
        (TrustMode::Dscp, 3, 15, 0)
    );
    assert_eq!(
        (
            dscp.tc_to_queue[3],
            dscp.tc_to_queue[15],
            dscp.tc_to_queue[1],
            dscp.tc_to_pg[3]
        ),
        (4, 7, 0, 2)
    );
    assert_eq!(
        (dot1p.trust, dot1p.dot1p_to_tc[5], dot1p.dscp_to_tc[26]),
        (TrustMode::Pcp, 5, 0)
    );
    assert_eq!((global.trust, global.dscp_to_tc[26]), (TrustMode::Dscp, 3));
    let pfc = config.ports[0].pfc;
    assert_eq!(
        (pfc.enabled, pfc.priority_to_queue[3], pfc.priority_to_pg[3]),
        (0b1_1000, 4, 2)
    );
    assert_eq!(
        (pfc.priority_to_queue[5], pfc.priority_to_pg[5]),
        (5, 5),
        "identity where nothing is said"
    );
}

#[test]
fn invalid_qos_maps_and_bindings_are_refused() {
    assert_each_refused(&[
        (
            r#"{"DSCP_TO_TC_MAP": {"M": {"64": "3"}}}"#,
            r#"DSCP_TO_TC_MAP|M 64 "3": expected a DSCP from 0 to 63 as the field's name"#,
        ),
        (
            r#"{"DSCP_TO_TC_MAP": {"M": {"26": "16"}}}"#,
            r#"DSCP_TO_TC_MAP|M 26 "16": expected a traffic class from 0 to 15"#,
        ),
        (
            r#"{"DOT1P_TO_TC_MAP": {"M": {"8": "0"}}}"#,
            r#"DOT1P_TO_TC_MAP|M 8 "0": expected a 802.1p priority from 0 to 7 as the field's name"#,
        ),
        (
            r#"{"TC_TO_QUEUE_MAP": {"M": {"0": "10"}}}"#,
            r#"TC_TO_QUEUE_MAP|M 0 "10": expected a queue from 0 to 9"#,
        ),
        (
            r#"{"TC_TO_PRIORITY_GROUP_MAP": {"M": {"0": "x"}}}"#,
            r#"TC_TO_PRIORITY_GROUP_MAP|M 0 "x": expected a priority group from 0 to 7"#,
        ),
        (
            r#"{"MAP_PFC_PRIORITY_TO_QUEUE": {"M": {"03": "3"}}}"#,
            r#"MAP_PFC_PRIORITY_TO_QUEUE|M 03 "3": expected a PFC priority from 0 to 7 as the field's name"#,
        ),
        (
            r#"{"PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {"M": {"3": "-1"}}}"#,
            r#"PFC_PRIORITY_TO_PRIORITY_GROUP_MAP|M 3 "-1": expected a priority group from 0 to 7"#,
        ),
        (
            r#"{"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3;4"}}}"#,
            "PORT_QOS_MAP|Ethernet0 pfc_enable \"3;4\": expected priorities from 0 to 7 separated by commas, or \"\" \
             for none",
        ),
        (
            r#"{"PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE"}}}"#,
            "PORT_QOS_MAP|Ethernet0 dscp_to_tc_map \"AZURE\": DSCP_TO_TC_MAP has no entry AZURE; add AZURE to \
             DSCP_TO_TC_MAP",
        ),
    ]);
}

#[test]
fn incomplete_qos_bindings_are_noted() {
    assert_eq!(
        load_warnings(
            &with_maps(
                r#"{"Ethernet0": {"dscp_to_tc_map": "M", "pfc_enable": "3", "pfcwd_sw_enable": "3", "tc_to_dot1p_map": "T"},
                    "global": {"pfc_enable": "3"}}"#
            ),
            &["Ethernet0"]
        ),
        [
            "no effect: PORT_QOS_MAP tc_to_dot1p_map (frames are not re-marked)",
            "Ethernet0: PORT_QOS_MAP has no tc_to_pg_map: every traffic class uses priority group 0",
            "Ethernet0: PORT_QOS_MAP has no tc_to_queue_map: every traffic class uses queue 0",
            "Ethernet0: pfc_enable has priority 3, but BUFFER_PG|PORT|3 is missing, so its priority group has no \
             headroom (xoff): frames in flight when it pauses are dropped",
            "PORT_QOS_MAP|global: pfc_enable has no effect: only dscp_to_tc_map is bound to the whole switch",
        ]
    );
}

/// One lossless port with this speed, headroom and shared headroom pool.
fn lossless_port_config(speed: &str, xoff: &str, pool_xoff: &str) -> String {
    format!(
        r#"{{"PORT": {{"Ethernet0": {{"speed": "{speed}"}}}},
        "BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "4194304", "xoff": "{pool_xoff}"}}}},
        "BUFFER_PROFILE": {{"p": {{"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "{xoff}", "xon_offset": "1"}}}},
        "BUFFER_PG": {{"Ethernet0|3": {{"profile": "p"}}}},
        "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "3"}}}}}}"#
    )
}

#[test]
fn refresh_is_half_the_pause_or_the_pause_less_the_budget() {
    let text = lossless_port_config("1000", "2500000", "2500000");
    let refresh = |budget| {
        let how = ResolveOptions {
            reaction_budget: budget,
            ..resolve_options(&["Ethernet0"])
        };
        load(&[("test.json", &text)], &how).unwrap().resolved.config.ports[0]
            .pfc
            .refresh
    };
    let pause = 65_535 * 512 * 1_000;
    assert_eq!(refresh(Picos::ZERO), Picos(pause / 2));
    assert_eq!(refresh(Picos::from_millis(10)), Picos(pause / 2));
    assert_eq!(refresh(Picos::from_millis(20)), Picos(pause - 20_000_000_000));
    let set = text.replace(
        "{\"PORT\"",
        r#"{"XOFF_SWITCH": {"localhost": {"pause_refresh": "1000000"}}, "PORT""#,
    );
    assert_eq!(
        load_config(&set, &["Ethernet0"]).ports[0].pfc.refresh,
        Picos::from_millis(1)
    );
    assert_eq!(load_warnings(&text, &["Ethernet0"]), Vec::<String>::new());
}

#[test]
fn pause_shorter_than_the_budget_suggests_a_dilation() {
    let text = lossless_port_config("10000", "25000000", "25000000");
    let expected = "Ethernet0: a pause of 65535 quanta at 10000 Mb/s lasts 3355.392 us, and the reaction budget is \
                    20000 us: a stall within the budget lets senders resume before XOFF is repeated; slow \
                    model time down with `xoff switch run --dilate 6` or `xoff lab run --dilate 6` (times the dilation \
                    now), or lower PORT speed";
    assert_eq!(load_warnings(&text, &["Ethernet0"]), [expected]);
    assert!(crate::proposes_dilation(expected) && !crate::proposes_dilation("no effect: NTP"));
    assert_eq!(
        load_config(&text, &["Ethernet0"]).ports[0].pfc.refresh,
        Picos(3_355_392_000 / 2)
    );
    // With a dilation of 6, the same wall time is a sixth of the model time.
    let dilated = ResolveOptions {
        reaction_budget: Picos(20_000_000_000 / 6),
        ..resolve_options(&["Ethernet0"])
    };
    let resolved = load(&[("test.json", &text)], &dilated).unwrap().resolved;
    assert_eq!(resolved.warnings, Vec::<String>::new());
    assert_eq!(
        load_warnings(&text, &[]),
        Vec::<String>::new(),
        "without a device nothing runs in real time"
    );
}

#[test]
fn a_short_pause_in_virtual_time_suggests_no_dilation() {
    let warnings = |quanta: &str, response| {
        let text = lossless_port_config("100000", "25000000", "25000000").replace(
            "{\"PORT\"",
            &format!(r#"{{"XOFF_PORT": {{"Ethernet0": {{"pause_quanta": "{quanta}"}}}}, "PORT""#),
        );
        let options = ResolveOptions {
            reaction_budget: response,
            is_virtual: true,
            ..resolve_options(&["Ethernet0"])
        };
        load(&[("test.json", &text)], &options).unwrap().resolved.warnings
    };
    let short = warnings("10", Picos::from_micros(4));
    let text = short.first().expect("a warning");
    assert!(
        text.contains("pause_quanta of XOFF_PORT|Ethernet0 to at least 782") && !text.contains("dilate"),
        "{text}"
    );
    // The proposed value works.
    assert!(
        warnings("782", Picos::from_micros(4))
            .iter()
            .all(|note| !note.contains("honour a pause"))
    );
    let too_long = warnings("65535", Picos::from_millis(400));
    let text = too_long.first().expect("a warning");
    assert!(
        text.contains("lower PORT speed") && !text.contains("dilate") && !text.contains("pause_quanta of")
    );
}

#[test]
fn refresh_interval_has_a_minimum() {
    let text = lossless_port_config("1000", "2500000", "2500000").replace(
        "{\"PORT\"",
        r#"{"XOFF_PORT": {"Ethernet0": {"pause_quanta": "1"}}, "PORT""#,
    );
    assert_eq!(
        load_config(&text, &["Ethernet0"]).ports[0].pfc.refresh,
        Picos(2 * 84 * 8_000)
    );
    let warnings = load_warnings(&text, &["Ethernet0"]);
    let expected = "Ethernet0: XOFF would be repeated every 0.256 us, which exceeds the capacity of the link; every 1.344 us is used instead";
    assert_eq!(warnings[0], expected);
}

#[test]
fn headroom_is_compared_with_the_budget() {
    let text = lossless_port_config("1000", "100000", "200000");
    assert_eq!(
        load_warnings(&text, &["Ethernet0"]),
        [
            "Ethernet0: headroom of priority group 3 (profile p, xoff 100000) is too small for 1000 Mb/s during the \
             reaction budget of 20000 us: 2500000 bytes are needed, or frames may be lost when this host stalls",
            "BUFFER_POOL|in: the shared headroom xoff 200000 is too small for all its lossless groups during the \
             reaction budget of 20000 us: 2500000 bytes are needed, or frames may be lost when this host stalls",
        ]
    );
}

#[test]
fn headroom_in_virtual_time_is_compared_with_the_response_of_the_neighbour() {
    let text = lossless_port_config("1000", "100000", "200000");
    let options = ResolveOptions {
        is_virtual: true,
        ..resolve_options(&["Ethernet0"])
    };
    let warnings = load(&[("test.json", &text)], &options).unwrap().resolved.warnings;
    assert!(!warnings.is_empty());
    for warning in &warnings {
        assert!(warning.contains("below 2500000 bytes"), "{warning}");
        assert!(warning.contains("bench tune-buffers"), "{warning}");
        // Nothing stalls in virtual time.
        assert!(!warning.contains("stalls"), "{warning}");
    }
}

/// A warning about several priorities of several ports is one line.
#[test]
fn warnings_that_differ_only_in_numbers_are_one_warning() {
    let ports = ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12", "Ethernet16"];
    let entries = ports
        .map(|port| format!(r#""{port}": {{"pfc_enable": "3,4"}}"#))
        .join(", ");
    let missing = load_warnings(&format!(r#"{{"PORT_QOS_MAP": {{{entries}}}}}"#), &ports);
    assert_eq!(
        missing,
        [
            "Ethernet0, Ethernet4, Ethernet8, Ethernet12 and 1 more: pfc_enable has priorities 3, 4, but BUFFER_PG|PORT|3, \
             BUFFER_PG|PORT|4 are missing, so each of the priority groups has no headroom (xoff): frames in flight when \
             they pause are dropped"
        ]
    );
    let groups = ports
        .map(|port| format!(r#""{port}|3-4": {{"profile": "p"}}"#))
        .join(", ");
    let small = load_warnings(
        &format!(
            r#"{{"PORT_QOS_MAP": {{{entries}}}, "BUFFER_PG": {{{groups}}},
                "BUFFER_POOL": {{"pool": {{"type": "ingress", "mode": "dynamic", "size": "10000000"}}}},
                "BUFFER_PROFILE": {{"p": {{"pool": "pool", "size": "0", "dynamic_th": "0", "xoff": "1000"}}}}}}"#
        ),
        &ports,
    );
    let headroom: Vec<&String> = small
        .iter()
        .filter(|warning| warning.contains("headroom of"))
        .collect();
    assert_eq!(headroom.len(), 1, "{small:?}");
    assert!(
        headroom[0].contains("headroom of priority groups 3, 4 (profile p"),
        "{headroom:?}"
    );
}
