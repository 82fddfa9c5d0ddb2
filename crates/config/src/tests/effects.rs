//! Tests that fields without another test change the resolved switch.

use super::{load_config, load_warnings};

const PORTS: &[&str] = &["Ethernet0", "Ethernet4"];

/// A router with a route through both ports and additional tables.
fn router_config(tables: &str) -> String {
    format!(
        r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet0|10.1.0.0/31": {{}}, "Ethernet4": {{}}, "Ethernet4|10.1.0.2/31": {{}}}},
            "STATIC_ROUTE": {{"10.2.0.0/24": {{"nexthop": "10.1.0.1,10.1.0.3"}}}}, {tables}}}"#
    )
}

/// Two ports with computed buffers and additional fields of `XOFF_SWITCH`.
fn dynamic_model_config(fields: &str) -> String {
    format!(
        r#"{{"DEVICE_METADATA": {{"localhost": {{"buffer_model": "dynamic"}}}},
            "PORT": {{"Ethernet0": {{"speed": "25000", "lanes": "1"}}, "Ethernet4": {{"speed": "100000", "lanes": "5,6,7,8"}}}},
            "CABLE_LENGTH": {{"AZURE": {{"Ethernet0": "5m", "Ethernet4": "300m"}}}},
            "DEFAULT_LOSSLESS_BUFFER_PARAMETER": {{"AZURE": {{"default_dynamic_th": "0"}}}},
            "LOSSLESS_TRAFFIC_PATTERN": {{"AZURE": {{"mtu": "1024", "small_packet_percentage": "100"}}}},
            "BUFFER_POOL": {{"ingress_lossless_pool": {{"type": "ingress", "mode": "dynamic"}}}},
            "BUFFER_PG": {{"Ethernet0|3-4": {{"profile": "NULL"}}}}, "XOFF_SWITCH": {{"localhost": {{{fields}}}}}}}"#
    )
}

/// Asserts that two valid configurations resolve to different switches.
#[track_caller]
fn assert_differ(first: &str, second: &str) {
    let [one, other] = [first, second].map(|text| format!("{:?}", load_config(text, PORTS)));
    assert_ne!(one, other, "{first} and {second} make the same switch");
}

#[test]
fn load_balancing_fields_change_the_switch() {
    for (table, key, others, field, values) in [
        (
            "XOFF_LB",
            "global",
            r#""scheme": "round-robin""#,
            "reordering_flows",
            ["16", "32"],
        ),
        (
            "XOFF_LB_LOAD",
            "global",
            r#""past_weight": "1""#,
            "future_min",
            ["100", "300"],
        ),
        (
            "XOFF_LB_LOAD",
            "global",
            r#""past_weight": "1""#,
            "future_max",
            ["700", "900"],
        ),
        (
            "XOFF_LB_LOAD",
            "global",
            r#""past_weight": "1""#,
            "current_max",
            ["700", "900"],
        ),
    ] {
        let text = |value: &str| {
            router_config(&format!(
                r#""{table}": {{"{key}": {{{others}, "{field}": "{value}"}}}}"#
            ))
        };
        assert_differ(&text(values[0]), &text(values[1]));
    }
    for field in ["primary_threshold", "alternate_cost"] {
        let text = |value: &str| {
            router_config(&format!(
                r#""XOFF_LB": {{"global": {{"scheme": "mine"}}}}, "XOFF_LB_SCHEME": {{"mine": {{"scheme": "flowlet", "{field}": "{value}"}}}}"#
            ))
        };
        assert_differ(&text("3"), &text("4"));
    }
}

#[test]
fn ars_fields_change_the_switch() {
    let text = |profile: &str, object: &str| {
        router_config(&format!(
            r#""ARS_PROFILE": {{"p": {{"ars_nhg_path_selector_mode": "global", "default_ars_object": "o"{profile}}}}},
               "ARS_OBJECT": {{"o": {{"assign_mode": "per_flowlet_quality"{object}}}}}"#
        ))
    };
    let load = |least: u32, most: u32| {
        text(
            &format!(r#", "current_load_min_value": "{least}", "current_load_max_value": "{most}""#),
            "",
        )
    };
    assert_differ(&load(1_000, 30_000), &load(2_000, 30_000));
    assert_differ(&load(1_000, 30_000), &load(1_000, 40_000));
    let of_ipv6 = |enabled: bool| text(&format!(r#", "ipv6_enable": "{enabled}""#), "");
    assert_differ(&of_ipv6(true), &of_ipv6(false));
    for field in ["primary_path_threshold", "alternative_path_cost"] {
        let [first, second] = ["2", "3"].map(|value| text("", &format!(r#", "{field}": "{value}""#)));
        assert_differ(&first, &second);
    }
}

#[test]
fn chip_constants_change_computed_buffers() {
    for (field, values) in [
        ("asic_cell_size", ["208", "416"]),
        ("gearbox_delay", ["100", "5000"]),
    ] {
        let [first, second] = values.map(|value| dynamic_model_config(&format!(r#""{field}": "{value}""#)));
        assert_differ(&first, &second);
    }
}

/// RoCEv2 lists can contain the queue pair. All other differences from the five-tuple are noted.
#[test]
fn hash_fields_by_packet_type_change_the_switch_or_are_noted() {
    let text = |more: &str| {
        format!(
            r#"{{"PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up"}}}}, "PORTCHANNEL_MEMBER": {{"PortChannel1|Ethernet0": {{}}}},
                "SWITCH_HASH": {{"GLOBAL": {{"ecmp_hash": ["DST_IP", "SRC_IP", "IP_PROTOCOL", "L4_DST_PORT", "L4_SRC_PORT"]{more}}}}}}}"#
        )
    };
    let with = |field: &str| {
        text(&format!(
            r#", "{field}": ["DST_IP", "SRC_IP", "IP_PROTOCOL", "L4_DST_PORT", "L4_SRC_PORT", "RDMA_BTH_DEST_QP"]"#
        ))
    };
    for field in ["ecmp_hash_ipv4_rdma", "lag_hash_ipv6_rdma"] {
        assert_differ(&text(""), &with(field));
    }
    for field in [
        "ecmp_hash_ipv4",
        "ecmp_hash_ipv6",
        "lag_hash_ipv4",
        "lag_hash_ipv6",
    ] {
        let named = load_warnings(&with(field), PORTS);
        assert!(
            named.iter().any(|note| note.contains(field)),
            "{field}: {named:?}"
        );
    }
}
