//! Tests of the dynamic buffer model: generated profiles, computed pools and refused inputs.

use xoff_dataplane::config::{NO_PROFILE, PoolSide, SwitchConfig};

use super::{load_config, load_errors, load_text, load_warnings};

/// Two ports of 25 and 100 Gb/s with SONiC's MTU and computed priority groups 3 and 4.
fn config_text(more: &str) -> String {
    config_with_parameters(r#""over_subscribe_ratio": "0""#, "100", more)
}

fn config_with_parameters(parameter: &str, percent: &str, more: &str) -> String {
    format!(
        r#"{{"DEVICE_METADATA": {{"localhost": {{"buffer_model": "dynamic"}}}},
        "PORT": {{"Ethernet0": {{"speed": "25000", "mtu": "9100", "lanes": "1"}},
                  "Ethernet4": {{"speed": "100000", "mtu": "9100", "lanes": "5,6,7,8"}}}},
        "CABLE_LENGTH": {{"AZURE": {{"Ethernet0": "5m", "Ethernet4": "300m"}}}},
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER": {{"AZURE": {{"default_dynamic_th": "0", {parameter}}}}},
        "LOSSLESS_TRAFFIC_PATTERN": {{"AZURE": {{"mtu": "1024", "small_packet_percentage": "{percent}"}}}},
        "BUFFER_POOL": {{"ingress_lossless_pool": {{"type": "ingress", "mode": "dynamic"}},
                         "egress_lossless_pool": {{"type": "egress", "mode": "static", "size": "13000000"}}}},
        "BUFFER_PROFILE": {{"queue": {{"pool": "egress_lossless_pool", "size": "0", "static_th": "13000000"}}}},
        "BUFFER_PG": {{"Ethernet0|3-4": {{"profile": "NULL"}}, "Ethernet4|3-4": {{"profile": "NULL"}}}},
        "BUFFER_QUEUE": {{"Ethernet0|0-7": {{"profile": "queue"}}, "Ethernet4|0-7": {{"profile": "queue"}}}}{more}}}"#
    )
}

fn group_profile(config: &SwitchConfig, port: usize, group: usize) -> (String, u64, u64, u64) {
    let profile = &config.profiles[usize::from(config.ports[port].pgs[group])];
    (
        profile.name.clone(),
        profile.size_bytes,
        profile.xon_bytes,
        profile.xoff_bytes,
    )
}

#[test]
fn null_profile_is_replaced_by_profile_of_speed_and_cable() {
    let config = load_config(&config_text(""), &[]);
    assert_eq!(config.cell_bytes, 128, "that of the virtual switch");
    let name = |name: &str| name.to_owned();
    assert_eq!(
        group_profile(&config, 0, 3),
        (name("pg_lossless_25000_5m_profile"), 50_176, 18_432, 31_744)
    );
    assert_eq!(
        group_profile(&config, 1, 4),
        (name("pg_lossless_100000_300m_profile"), 165_888, 18_432, 147_456)
    );
    let pool = &config.pools[1];
    assert_eq!(
        (pool.side, pool.name.as_str()),
        (PoolSide::Ingress, "ingress_lossless_pool")
    );
    assert_eq!(
        (pool.size_bytes, pool.xoff_bytes),
        (13_000_000 - 2 * 50_176 - 2 * 165_888, 0),
        "what the groups do not reserve"
    );
}

#[test]
fn generated_entries_contain_only_computed_values() {
    let loaded = load_text(&config_text(""), &[]).expect("valid");
    let generated = loaded.resolved.generated;
    assert_eq!(
        generated.get("BUFFER_PROFILE", "pg_lossless_25000_5m_profile", "xoff"),
        Some("31744".to_owned())
    );
    assert_eq!(
        generated.get("BUFFER_POOL", "ingress_lossless_pool", "size"),
        Some((13_000_000 - 2 * 50_176 - 2 * 165_888).to_string())
    );
    assert_eq!(
        generated.get("BUFFER_POOL", "ingress_lossless_pool", "type"),
        None
    );
    assert_eq!(generated.keys("BUFFER_PG").count(), 0);
    // The configuration with the generated entries resolves to the same switch.
    let mut shown = loaded.db.clone();
    shown.add_missing_fields(&generated);
    let again = load_text(&shown.to_json(), &[]).expect("valid");
    assert_eq!(
        again.resolved.config,
        load_text(&config_text(""), &[]).expect("valid").resolved.config
    );
    assert_eq!(again.resolved.generated.to_value(), serde_json::json!({}));
}

#[test]
fn over_subscribe_ratio_sets_the_shared_headroom_pool() {
    let config = load_config(
        &config_with_parameters(r#""over_subscribe_ratio": "2""#, "100", ""),
        &[],
    );
    let (_, size, xon, xoff) = group_profile(&config, 1, 3);
    assert_eq!((size, xon, xoff), (18_432, 18_432, 147_456));
    let pool = &config.pools[1];
    assert_eq!(pool.xoff_bytes, (2 * 31_744 + 2 * 147_456) / 2);
    assert_eq!(pool.size_bytes, 13_000_000 - 4 * 18_432 - pool.xoff_bytes);
    // A configured `xoff` of the pool is kept, and selects a shared headroom pool.
    let written = config_text("").replace(
        r#""mode": "dynamic"}"#,
        r#""mode": "dynamic", "size": "5000000", "xoff": "300000"}"#,
    );
    let config = load_config(&written, &[]);
    assert_eq!(
        (config.pools[1].size_bytes, config.pools[1].xoff_bytes),
        (5_000_000, 300_000)
    );
    assert_eq!(group_profile(&config, 0, 3).1, 18_432);
}

#[test]
fn pool_sizes_follow_percentage_or_equal_shares() {
    let lossy = r#""ingress_lossy_pool": {"type": "ingress", "mode": "dynamic""#;
    let pools = |extra: &str| {
        config_text("").replace(
            r#""BUFFER_POOL": {"#,
            &format!(r#""BUFFER_POOL": {{{lossy}{extra}}}, "#),
        )
    };
    let left = 13_000_000 - 2 * 50_176 - 2 * 165_888;
    let config = load_config(&pools(""), &[]);
    assert_eq!(
        (config.pools[1].size_bytes, config.pools[2].size_bytes),
        (left / 2, left / 2)
    );
    let config = load_config(&pools(r#", "percentage": "20""#), &[]);
    assert_eq!(
        (config.pools[1].size_bytes, config.pools[2].size_bytes),
        (left / 2, (left * 20_u64).div_ceil(100))
    );
    assert_eq!(
        load_errors(&pools(r#", "percentage": "20", "size": "1000""#), &[]),
        [
            "BUFFER_POOL|ingress_lossy_pool percentage: size and percentage exclude each other; remove one of them"
        ]
    );
    assert_eq!(
        load_errors(&pools(r#", "percentage": "256""#), &[]),
        [
            r#"BUFFER_POOL|ingress_lossy_pool percentage "256": expected a whole number of percent from 0 to 255"#
        ]
    );
}

#[test]
fn profile_names_contain_mtu_threshold_and_lanes() {
    let name = |text: &str, port: usize| group_profile(&load_config(text, &[]), port, 3).0;
    let small = config_text("").replace(
        r#""speed": "25000", "mtu": "9100""#,
        r#""speed": "25000", "mtu": "1500""#,
    );
    assert_eq!(name(&small, 0), "pg_lossless_25000_5m_mtu1500_profile");
    let pattern = config_text("")
        .replace(
            r#""BUFFER_PROFILE": {"#,
            r#""BUFFER_PROFILE": {"half": {"pool": "ingress_lossless_pool", "headroom_type": "dynamic", "dynamic_th": "-1"}, "#,
        )
        .replace(r#""Ethernet0|3-4": {"profile": "NULL"}"#, r#""Ethernet0|3-4": {"profile": "half"}"#);
    assert_eq!(name(&pattern, 0), "pg_lossless_25000_5m_th-1_profile");
    assert_eq!(
        load_config(&pattern, &[])
            .profiles
            .iter()
            .filter(|p| p.name == "half")
            .count(),
        0,
        "a pattern is no profile of the switch"
    );
    let eight = config_text("").replace(r#""lanes": "5,6,7,8""#, r#""lanes": "1,2,3,4,5,6,7,8""#);
    let config = load_config(&eight, &[]);
    assert_eq!(
        group_profile(&config, 1, 3),
        (
            "pg_lossless_100000_300m_profile".to_owned(),
            193_536,
            36_864,
            147_456
        )
    );
    let spectrum = eight.replacen(
        '{',
        r#"{"XOFF_SWITCH": {"localhost": {"asic": "spectrum3"}}, "#,
        1,
    );
    assert_eq!(name(&spectrum, 1), "pg_lossless_100000_300m_8lane_profile");
    let both = eight
        .replace(r#""speed": "25000""#, r#""speed": "100000""#)
        .replace("\"5m\"", "\"300m\"");
    assert_eq!(name(&both, 0), "pg_lossless_100000_300m_profile");
    assert_eq!(name(&both, 1), "pg_lossless_100000_300m_8lane_profile");
}

#[test]
fn chip_constants_can_be_selected_and_overridden() {
    let chip = |fields: &str| {
        let text = config_text("").replacen(
            '{',
            &format!(r#"{{"XOFF_SWITCH": {{"localhost": {{{fields}}}}}, "#),
            1,
        );
        load_config(&text, &[])
    };
    let config = chip(r#""asic": "spectrum4""#);
    assert_eq!(config.cell_bytes, 192);
    assert_eq!(group_profile(&config, 0, 3).1, 67_584);
    let config = chip(r#""asic": "spectrum4", "cell_size": "64""#);
    assert_eq!((config.cell_bytes, group_profile(&config, 0, 3).1), (64, 67_584));
    let config =
        chip(r#""asic_pipeline_latency": "2048", "asic_peer_response_time": "0", "asic_mac_phy_delay": "0""#);
    let (_, _, xon, xoff) = group_profile(&config, 0, 3);
    // XOFF is 1024 + 2 x (9100 + 157.8 bytes on the cable).
    assert_eq!((xon, xoff), (2_048, 19_539_u64.next_multiple_of(1_024)));
}

#[test]
fn existing_profile_takes_precedence_with_a_note() {
    let profile = r#""BUFFER_PROFILE": {"pg_lossless_25000_5m_profile":
        {"pool": "ingress_lossless_pool", "size": "50176", "dynamic_th": "1", "xon": "18432", "xoff": "30000"}, "#;
    let text = config_text("").replace(r#""BUFFER_PROFILE": {"#, profile);
    assert_eq!(group_profile(&load_config(&text, &[]), 0, 3).3, 30_000);
    assert!(load_warnings(&text, &[]).contains(
        &"BUFFER_PROFILE|pg_lossless_25000_5m_profile: it is used as written; the computed values are xoff 31744, dynamic_th 0"
            .to_owned()
    ));
}

#[test]
fn cable_of_0m_removes_the_buffer() {
    let text = config_text("").replace("\"5m\"", "\"0m\"");
    let config = load_config(&text, &[]);
    assert_eq!(config.ports[0].pgs[3], NO_PROFILE);
    assert!(
        load_warnings(&text, &[]).contains(
            &"BUFFER_PG|Ethernet0|3-4: the cable is 0m long: the group has no buffer and its frames are dropped"
                .to_owned()
        )
    );
}

#[test]
fn headroom_is_compared_with_the_reaction_budget() {
    let text = config_text(r#", "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}}"#)
        .replace(r#""speed": "25000""#, r#""speed": "1000", "admin_status": "up""#);
    let said = load_warnings(&text, &["Ethernet0"]);
    assert!(
        said.iter()
            .any(|line| line.contains("pg_lossless_1000_5m_profile")
                && line.contains("2500000 bytes are needed")),
        "{said:?}"
    );
}

#[test]
fn invalid_dynamic_model_inputs_are_refused() {
    let cases = [
        (
            config_text("").replace(r#""Ethernet0": "5m", "#, ""),
            "CABLE_LENGTH|AZURE Ethernet0: the length is missing, and headroom of BUFFER_PG|Ethernet0|3-4 depends on it; \
             add a length such as 5m, or bind the group to a BUFFER_PROFILE with headroom",
        ),
        (
            config_text("").replace("\"5m\"", "\"5\""),
            "CABLE_LENGTH|AZURE Ethernet0 \"5\": expected a length in whole metres such as 5m",
        ),
        (
            config_text("").replace(
                "\"Ethernet4\": \"300m\"",
                "\"Ethernet4\": \"300m\", \"Ethernet9\": \"1m\"",
            ),
            "CABLE_LENGTH|AZURE Ethernet9: there is no port Ethernet9; add it to PORT, or name it on the command line (--port)",
        ),
        (
            config_text("").replace("\"13000000\"", "\"400000\""),
            "XOFF_SWITCH|localhost buffer_size: no space of the 400000 bytes is left for pools: profiles reserve 432128, the \
             shared headroom pool takes 0; raise buffer_size, shorten cables, or raise over_subscribe_ratio",
        ),
        (
            config_with_parameters(r#""max_headroom_size": "300000""#, "100", ""),
            "BUFFER_PG|Ethernet4: the lossless groups of Ethernet4 take 331776 bytes together, and max_headroom_size of \
             DEFAULT_LOSSLESS_BUFFER_PARAMETER allows 300000; shorten its cable, use fewer lossless groups, or raise \
             max_headroom_size",
        ),
        (
            config_with_parameters(r#""over_subscribe_ratio": "65536""#, "100", ""),
            "DEFAULT_LOSSLESS_BUFFER_PARAMETER|AZURE over_subscribe_ratio \"65536\": expected a whole number from 0 to 65535",
        ),
        (
            config_with_parameters(r#""over_subscribe_ratio": "0""#, "101", ""),
            "LOSSLESS_TRAFFIC_PATTERN|AZURE small_packet_percentage \"101\": expected a whole number of percent from 0 to 100",
        ),
        (
            config_text("").replace(r#""mtu": "1024""#, r#""mtu": "9217""#),
            "LOSSLESS_TRAFFIC_PATTERN|AZURE mtu \"9217\": expected a whole number of bytes from 1 to 9216",
        ),
        (
            config_text("").replace(r#""default_dynamic_th": "0""#, r#""default_dynamic_th": "8""#),
            "DEFAULT_LOSSLESS_BUFFER_PARAMETER|AZURE default_dynamic_th \"8\": expected a whole number from -8 to 7",
        ),
        (
            config_text(r#", "XOFF_SWITCH": {"localhost": {"asic": "spectrum7"}}"#),
            "XOFF_SWITCH|localhost asic \"spectrum7\": expected vs, spectrum1, spectrum2, spectrum3, spectrum4, spectrum5, \
             spectrum6, tofino2, td2, td3, td4, th, th2, th3, th4, th5, th6, jr2, j2c+, q3d, gb, gr, gr2, p200 or pac",
        ),
    ];
    for (text, line) in cases {
        assert_eq!(load_errors(&text, &[]), [line]);
    }
    let lonely = config_text("").replace("ingress_lossless_pool", "pool");
    assert!(
        load_errors(&lonely, &[])
            .iter()
            .any(|line| line.starts_with("BUFFER_POOL|ingress_lossless_pool: "))
    );
}

#[test]
fn dynamic_model_fields_are_noted_in_the_traditional_model() {
    let text = config_text("").replace(
        "dynamic\"}},\n        \"PORT\"",
        "traditional\"}},\n        \"PORT\"",
    );
    let said = load_warnings(&text, &[]);
    for table in [
        "CABLE_LENGTH|AZURE",
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER|AZURE",
        "LOSSLESS_TRAFFIC_PATTERN|AZURE",
    ] {
        let line = format!(
            "{table}: no effect: buffer_model of DEVICE_METADATA is not dynamic, sizes are taken as written"
        );
        assert!(said.contains(&line), "{said:?}");
    }
    assert_eq!(
        load_config(&text, &[]).ports[0].pgs[3],
        NO_PROFILE,
        "NULL is no buffer there"
    );
}
