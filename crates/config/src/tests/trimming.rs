//! Tests of `SWITCH_TRIMMING`, `TC_TO_DSCP_MAP` and the rules of `ACL_RULE` that exempt packets.

use xoff_dataplane::config::{AclRule, TrimDscp, TrimQueue, TrimmingConfig};

use super::{load_config, load_errors, load_warnings};

/// A switch with two ports whose queue 1 trims, and additional tables.
fn config_with(tables: &str) -> String {
    format!(
        r#"{{"PORT": {{"Ethernet0": {{}}, "Ethernet4": {{}}}},
        "BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "99999"}},
            "out": {{"type": "egress", "mode": "dynamic", "size": "99999"}}}},
        "BUFFER_PROFILE": {{"cut": {{"pool": "out", "size": "0", "dynamic_th": "0", "packet_discard_action": "trim"}},
            "wrong": {{"pool": "in", "size": "0", "dynamic_th": "0", "packet_discard_action": "trim"}},
            "drops": {{"pool": "out", "size": "0", "dynamic_th": "0", "packet_discard_action": "drop"}}}},
        "BUFFER_QUEUE": {{"Ethernet0|1": {{"profile": "cut"}}, "Ethernet0|2": {{"profile": "drops"}}}},
        {tables}}}"#
    )
}

const FIXED: &str =
    r#""SWITCH_TRIMMING": {"GLOBAL": {"size": "128", "dscp_value": "48", "queue_index": "6"}}"#;

#[test]
fn symmetric_trimming_is_resolved() {
    let config = load_config(&config_with(FIXED), &[]);
    let expected = TrimmingConfig {
        size_bytes: 128,
        dscp: TrimDscp::Fixed(48),
        queue: TrimQueue::Fixed(6),
        exempt: Vec::new(),
    };
    assert_eq!(config.trimming, Some(expected));
    let trims = |queue: usize| config.profiles[usize::from(config.ports[0].queues[queue].profile)].trim;
    assert_eq!([0, 1, 2].map(trims), [false, true, false]);
}

#[test]
fn asymmetric_trimming_uses_the_tc_to_dscp_map_of_each_port() {
    let text = config_with(
        r#""SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "dynamic"}},
        "TC_TO_DSCP_MAP": {"up": {"5": "10"}, "down": {"4": "20"}},
        "PORT_QOS_MAP": {"Ethernet0": {"tc_to_dscp_map": "up"}, "Ethernet4": {"tc_to_dscp_map": "down"}}"#,
    );
    let config = load_config(&text, &[]);
    let trimming = config.trimming.as_ref().expect("it trims");
    assert_eq!(
        (trimming.dscp, trimming.queue),
        (TrimDscp::FromTc(5), TrimQueue::Dynamic)
    );
    assert_eq!(config.ports[0].tc_to_dscp[5], Some(10));
    assert_eq!(
        (config.ports[1].tc_to_dscp[5], config.ports[1].tc_to_dscp[4]),
        (None, Some(20))
    );
    assert!(
        load_warnings(&text, &[])
            .iter()
            .all(|line| !line.contains("trim nothing"))
    );
    let unmapped = text.replace(r#""up": {"5""#, r#""up": {"6""#);
    assert!(load_warnings(&unmapped, &[]).contains(
        &"Ethernet0: its queues trim nothing: its tc_to_dscp_map has no DSCP for tc_value 5 of SWITCH_TRIMMING"
            .to_owned()
    ));
}

#[test]
fn invalid_trimming_values_are_refused() {
    let global = |fields: &str| config_with(&format!(r#""SWITCH_TRIMMING": {{"GLOBAL": {{{fields}}}}}"#));
    let cases = [
        (
            global(r#""size": "63""#),
            r#"SWITCH_TRIMMING|GLOBAL size "63": expected a whole number of bytes from 64 to 4294967295"#,
        ),
        (
            global(r#""size": "4294967296""#),
            r#"SWITCH_TRIMMING|GLOBAL size "4294967296": expected a whole number of bytes from 64 to 4294967295"#,
        ),
        (
            global(r#""dscp_value": "64""#),
            r#"SWITCH_TRIMMING|GLOBAL dscp_value "64": expected a whole number from 0 to 63, or from-tc"#,
        ),
        (
            global(r#""queue_index": "8""#),
            r#"SWITCH_TRIMMING|GLOBAL queue_index "8": expected a whole number from 0 to 7, or dynamic"#,
        ),
        (
            global(r#""tc_value": "16""#),
            r#"SWITCH_TRIMMING|GLOBAL tc_value "16": expected a whole number from 0 to 15"#,
        ),
        (
            global(r#""size": "128", "dscp_value": "from-tc", "queue_index": "6""#),
            "SWITCH_TRIMMING|GLOBAL dscp_value \"from-tc\": tc_value is missing: with from-tc it selects the traffic \
             class in the tc_to_dscp_map of the ports; add tc_value, 0 to 15",
        ),
        (
            config_with(r#""SWITCH_TRIMMING": {"global": {}}"#),
            r#"SWITCH_TRIMMING|global: "global" in the key: expected GLOBAL"#,
        ),
        (
            config_with(r#""BUFFER_PG": {"Ethernet0|3": {"profile": "wrong"}}"#),
            "BUFFER_PG|Ethernet0|3 profile \"wrong\": its packet_discard_action is trim, which only profiles of egress \
             queues may have; name a profile that drops",
        ),
        (
            config_with(r#""BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": ["cut"]}}"#),
            "BUFFER_PORT_EGRESS_PROFILE_LIST|Ethernet0 profile_list \"cut\": its packet_discard_action is trim, which \
             only profiles of egress queues may have; name a profile that drops",
        ),
        (
            config_with(r#""TC_TO_DSCP_MAP": {"m": {"16": "1"}}"#),
            "TC_TO_DSCP_MAP|m 16 \"1\": expected a traffic class from 0 to 15 as the field's name",
        ),
        (
            config_with(r#""TC_TO_DSCP_MAP": {"m": {"1": "64"}}"#),
            r#"TC_TO_DSCP_MAP|m 1 "64": expected a DSCP from 0 to 63"#,
        ),
        (
            config_with(r#""PORT_QOS_MAP": {"Ethernet0": {"tc_to_dscp_map": "m"}}"#),
            "PORT_QOS_MAP|Ethernet0 tc_to_dscp_map \"m\": TC_TO_DSCP_MAP has no entry m; add m to TC_TO_DSCP_MAP",
        ),
    ];
    for (text, line) in cases {
        assert_eq!(load_errors(&text, &[]), [line], "{text}");
    }
}

#[test]
fn trimming_without_effect_is_noted() {
    let said = |text: &str| -> Vec<String> {
        let about = |line: &String| line.to_ascii_lowercase().contains("trim");
        load_warnings(text, &[]).into_iter().filter(about).collect()
    };
    assert_eq!(
        said(&config_with(r#""SWITCH_TRIMMING": {}"#)),
        [
            "BUFFER_PROFILE|cut: packet_discard_action \"trim\" has no effect: SWITCH_TRIMMING|GLOBAL must set size, \
             dscp_value and queue_index; frames are dropped"
        ]
    );
    let partly = config_with(r#""SWITCH_TRIMMING": {"GLOBAL": {"size": "128"}}"#);
    assert!(said(&partly)[1].ends_with("trimming needs size, dscp_value and queue_index"));
    let long = config_with(FIXED).replace("128", "1518");
    assert_eq!(
        said(&long),
        ["SWITCH_TRIMMING|GLOBAL: size 1518: no frame is longer, none is trimmed"]
    );
    let unused = config_with(FIXED).replace(r#"{"profile": "cut"}"#, r#"{"profile": "drops"}"#);
    assert_eq!(
        said(&unused),
        ["SWITCH_TRIMMING|GLOBAL: no effect: no queue has a BUFFER_PROFILE with packet_discard_action trim"]
    );
    let surplus = config_with(FIXED).replace(r#""48""#, r#""48", "tc_value": "3""#);
    assert_eq!(
        said(&surplus),
        ["SWITCH_TRIMMING|GLOBAL: tc_value has no effect: dscp_value is not from-tc"]
    );
}

fn config_with_rules(table: &str, rules: &str) -> String {
    config_with(&format!(
        r#"{FIXED}, "ACL_TABLE": {{"T": {table}}}, "ACL_RULE": {{{rules}}}"#
    ))
}

const L3: &str = r#"{"type": "L3", "stage": "ingress", "ports": ["Ethernet4"]}"#;

#[test]
fn acl_rules_exempt_packets_from_trimming_by_priority() {
    let text = config_with_rules(
        L3,
        r#""T|a": {"PRIORITY": "10", "PACKET_ACTION": "DISABLE_TRIM", "SRC_IP": "10.0.0.0/8", "DSCP": "26",
            "IP_PROTOCOL": "17", "L4_DST_PORT": "4791", "L4_SRC_PORT_RANGE": "100-200", "DST_IP": "10.1.1.1"},
        "T|b": {"PRIORITY": "20", "PACKET_ACTION": "FORWARD", "SRC_IPV6": "2001:db8::/32"},
        "T|c": {"PRIORITY": "30", "PACKET_ACTION": "DROP", "DSCP": "1"},
        "T|d": {"PRIORITY": "40", "PACKET_ACTION": "DISABLE_TRIM", "TCP_FLAGS": "0x02/0x02"}"#,
    );
    let config = load_config(&text, &[]);
    let tables = config.trimming.expect("it trims").exempt;
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].ports, [1]);
    let net = |text: &str| Some(text.parse().expect("a network"));
    let forward = AclRule {
        source: net("2001:db8::/32"),
        ..AclRule::default()
    };
    let exempt = AclRule {
        source: net("10.0.0.0/8"),
        destination: net("10.1.1.1/32"),
        protocol: Some(17),
        source_ports: Some((100, 200)),
        destination_ports: Some((4_791, 4_791)),
        dscp: Some(26),
        exempts: true,
    };
    assert_eq!(tables[0].rules, [forward, exempt]);
    let said: Vec<String> = load_warnings(&text, &[])
        .into_iter()
        .filter(|line| line.starts_with("ACL"))
        .collect();
    assert_eq!(
        said,
        [
            "ACL_RULE|T|c: no effect: the action is DROP, and only DISABLE_TRIM, DISABLE_ARS_FORWARDING \
             and FORWARD are implemented",
            "ACL_RULE|T|d: no effect: the condition TCP_FLAGS is not implemented",
        ]
    );
}

#[test]
fn acl_table_types_and_lags_are_resolved() {
    let text = config_with(&format!(
        r#"{FIXED}, "PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up", "static": "true"}}}},
        "PORTCHANNEL_MEMBER": {{"PortChannel1|Ethernet4": {{}}, "PortChannel1|Ethernet0": {{}}}},
        "ACL_TABLE_TYPE": {{"MINE": {{"MATCHES": ["SRC_IP"], "ACTIONS": ["DISABLE_TRIM_ACTION"], "BIND_POINTS": ["PORT"]}}}},
        "ACL_TABLE": {{"T": {{"type": "MINE", "stage": "INGRESS", "ports": ["PortChannel1"]}},
            "OTHER": {{"type": "MIRROR", "ports": ["Ethernet0"]}}}},
        "ACL_RULE": {{"T|r": {{"PRIORITY": "1", "PACKET_ACTION": "DISABLE_TRIM"}},
            "OTHER|r": {{"PRIORITY": "1", "MIRROR_INGRESS_ACTION": "m"}}}}"#
    ));
    let config = load_config(&text, &[]);
    assert_eq!(config.trimming.expect("it trims").exempt[0].ports, [0, 1]);
    let said: Vec<String> = load_warnings(&text, &[])
        .into_iter()
        .filter(|line| line.starts_with("ACL"))
        .collect();
    assert_eq!(
        said,
        [
            "ACL_RULE|OTHER|r: no effect: access lists are implemented only for tables with a rule whose action is \
             DISABLE_TRIM or DISABLE_ARS_FORWARDING",
            "ACL_TABLE|OTHER: no effect: access lists are implemented only for tables with a rule whose action is \
             DISABLE_TRIM or DISABLE_ARS_FORWARDING",
        ]
    );
}

#[test]
fn invalid_acl_rules_are_refused() {
    let rule = |fields: &str| {
        config_with_rules(
            L3,
            &format!(r#""T|r": {{"PRIORITY": "1", "PACKET_ACTION": "DISABLE_TRIM", {fields}}}"#),
        )
    };
    let fine = r#""T|r": {"PRIORITY": "1", "PACKET_ACTION": "DISABLE_TRIM"}"#;
    let cases = [
        (
            rule(r#""DSCP": "64""#),
            r#"ACL_RULE|T|r DSCP "64": expected a whole number from 0 to 63"#,
        ),
        (
            rule(r#""SRC_IP": "2001:db8::/32""#),
            r#"ACL_RULE|T|r SRC_IP "2001:db8::/32": expected an IPv4 network such as 10.0.0.0/24"#,
        ),
        (
            rule(r#""L4_DST_PORT_RANGE": "9-8""#),
            "ACL_RULE|T|r L4_DST_PORT_RANGE \"9-8\": expected two ports from 0 to 65535, the smaller first, such as \
             4791-4799",
        ),
        (
            config_with_rules(L3, r#""T|r": {"PACKET_ACTION": "DISABLE_TRIM"}"#),
            "ACL_RULE|T|r PRIORITY: the field is missing",
        ),
        (
            config_with_rules(L3, r#""U|r": {"PRIORITY": "1", "PACKET_ACTION": "DISABLE_TRIM"}"#),
            "ACL_RULE|U|r: ACL_TABLE has no entry U; add U to ACL_TABLE",
        ),
        (
            config_with_rules(&L3.replace("\"L3\"", "\"L2\""), fine),
            "ACL_TABLE|T type \"L2\": a rule of this table has the action DISABLE_TRIM, expected L3, L3V6, L3V4V6 or an \
             entry of ACL_TABLE_TYPE with DISABLE_TRIM_ACTION among its ACTIONS",
        ),
        (
            config_with_rules(&L3.replace("\"ingress\"", "\"egress\""), fine),
            "ACL_TABLE|T stage \"egress\": a rule of this table has the action DISABLE_TRIM, expected ingress",
        ),
        (
            config_with_rules(&L3.replace("Ethernet4", "Ethernet5"), fine),
            "ACL_TABLE|T ports \"Ethernet5\": there is no port or LAG Ethernet5",
        ),
    ];
    for (text, line) in cases {
        assert_eq!(load_errors(&text, &[]), [line], "{text}");
    }
}
