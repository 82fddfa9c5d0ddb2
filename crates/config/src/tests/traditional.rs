//! Tests of the traditional buffer model: the profiles that SONiC's buffermgrd creates from
//! `pg_profile_lookup.ini`, and the constants of the chip.

use std::sync::Arc;

use super::{load_warnings, resolve_options};
use crate::{LoadedConfig, PgProfileLookup, ResolveOptions, load};

const LOOKUP: &str = "# speed cable size xon xoff threshold xon_offset\n\
                      25000  5m   1248 2288 32656  0  2288\n\
                      100000 5m   1248 2288 72080  -1\n\
                      100000 300m 1248 2288 177632 0  2288\n";

fn options_with_lookup(lookup: &str) -> ResolveOptions {
    ResolveOptions {
        pg_profiles: Some(Arc::new(
            PgProfileLookup::parse(lookup, "lookup.ini").unwrap_or_else(|problems| panic!("{problems}")),
        )),
        ..resolve_options(&[])
    }
}

/// Three ports of a SKU template: PFC on priorities 3 and 4, cables, and no lossless priority groups.
fn config_text(more: &str) -> String {
    format!(
        r#"{{"DEVICE_METADATA": {{"localhost": {{"buffer_model": "traditional"}}}},
        "PORT": {{"Ethernet0": {{"speed": "25000", "mtu": "9100", "admin_status": "up"}},
                  "Ethernet4": {{"speed": "100000", "mtu": "9100", "admin_status": "up"}},
                  "Ethernet8": {{"speed": "100000", "mtu": "9100", "admin_status": "up"}}}},
        "CABLE_LENGTH": {{"AZURE": {{"Ethernet0": "5m", "Ethernet4": "300m", "Ethernet8": "300m"}}}},
        "TC_TO_PRIORITY_GROUP_MAP": {{"M": {{"3": "3", "4": "4"}}}},
        "TC_TO_QUEUE_MAP": {{"M": {{"3": "3", "4": "4"}}}},
        "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "3,4", "tc_to_pg_map": "M", "tc_to_queue_map": "M"}},
                          "Ethernet4": {{"pfc_enable": "3,4", "tc_to_pg_map": "M", "tc_to_queue_map": "M"}},
                          "Ethernet8": {{"pfc_enable": "3,4", "tc_to_pg_map": "M", "tc_to_queue_map": "M"}}}},
        "BUFFER_POOL": {{"ingress_lossless_pool": {{"type": "ingress", "mode": "dynamic", "size": "8388608"}}}},
        "BUFFER_PROFILE": {{"ingress_lossy_profile": {{"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"}}}},
        "BUFFER_PG": {{"Ethernet0|0": {{"profile": "ingress_lossy_profile"}}}}{more}}}"#
    )
}

fn load_with_lookup(text: &str, lookup: &str) -> LoadedConfig {
    load(&[("test.json", text)], &options_with_lookup(lookup))
        .unwrap_or_else(|problems| panic!("refused:\n{problems}"))
}

/// Returns name, size, XON, XON offset and XOFF of the profile of a priority group.
fn group_profile(loaded: &LoadedConfig, port: usize, group: usize) -> (&str, u64, u64, u64, u64) {
    let config = &loaded.resolved.config;
    let profile = &config.profiles[usize::from(config.ports[port].pgs[group])];
    (
        &profile.name,
        profile.size_bytes,
        profile.xon_bytes,
        profile.xon_offset_bytes,
        profile.xoff_bytes,
    )
}

#[test]
fn lossless_groups_get_the_profile_of_speed_and_cable() {
    let loaded = load_with_lookup(&config_text(""), LOOKUP);
    let near = ("pg_lossless_25000_5m_profile", 1_248, 2_288, 2_288, 32_656);
    let far = ("pg_lossless_100000_300m_profile", 1_248, 2_288, 2_288, 177_632);
    for (port, expected) in [(0, near), (1, far), (2, far)] {
        for number in [3, 4] {
            assert_eq!(group_profile(&loaded, port, number), expected);
        }
    }
    assert_eq!(group_profile(&loaded, 0, 0).0, "ingress_lossy_profile");
    let generated = &loaded.resolved.generated;
    let groups: Vec<&str> = generated.keys("BUFFER_PG").collect();
    assert_eq!(groups, ["Ethernet0|3-4", "Ethernet4|3-4", "Ethernet8|3-4"]);
    assert_eq!(
        generated
            .get("BUFFER_PROFILE", "pg_lossless_25000_5m_profile", "dynamic_th")
            .as_deref(),
        Some("0")
    );
    let notes = &loaded.resolved.warnings;
    assert!(
        !notes
            .iter()
            .any(|note| note.contains("headroom") && !note.contains("stalls")),
        "{notes:?}"
    );
    assert!(
        !notes.iter().any(|note| note.contains("CABLE_LENGTH")),
        "{notes:?}"
    );
}

#[test]
fn pool_mode_selects_the_threshold_field() {
    let text = config_text("").replace("\"mode\": \"dynamic\"", "\"mode\": \"static\"");
    let text = text.replace("\"dynamic_th\": \"3\"", "\"static_th\": \"8388608\"");
    let loaded = load_with_lookup(&text, "25000 5m 1248 2288 32656 524288\n");
    let profile = ("BUFFER_PROFILE", "pg_lossless_25000_5m_profile");
    let field = |field| loaded.resolved.generated.get(profile.0, profile.1, field);
    assert_eq!(
        (field("static_th").as_deref(), field("dynamic_th")),
        (Some("524288"), None)
    );
    assert_eq!(field("xon_offset"), None, "the row has none");
}

#[test]
fn missing_lookup_file_is_noted() {
    let notes = load_warnings(&config_text(""), &[]);
    let expected = |ports: &str, profile: &str| {
        format!(
            "{ports}: PFC without headroom: BUFFER_PG|PORT|3-4 is missing. SONiC's buffermgrd would create {profile} \
             from the SKU's pg_profile_lookup.ini and bind it; name the SKU's pg_profile_lookup.ini (`pg_profiles` of \
             a lab's switch, or `xoff switch run --pg-profiles FILE`), or set DEVICE_METADATA|localhost buffer_model to dynamic"
        )
    };
    let notes: Vec<&String> = notes
        .iter()
        .filter(|note| note.contains("headroom") || note.contains("CABLE"))
        .collect();
    assert_eq!(
        notes,
        [
            &expected("Ethernet0", "pg_lossless_25000_5m_profile"),
            &expected("Ethernet4, Ethernet8", "pg_lossless_100000_300m_profile")
        ]
    );
}

#[test]
fn missing_lookup_row_is_noted() {
    let loaded = load_with_lookup(&config_text(""), "25000 5m 1248 2288 32656 0\n");
    let notes = loaded.resolved.warnings.join("\n");
    assert!(
        notes.contains(
            "Ethernet4, Ethernet8: PFC without headroom: lookup.ini has no row for 100000 Mb/s and a cable of 300m, so \
             SONiC creates no profile for priority groups 3-4 either"
        ),
        "{notes}"
    );
    assert_eq!(group_profile(&loaded, 0, 3).4, 32_656);
    assert_eq!(group_profile(&loaded, 1, 3).4, 0);
}

#[test]
fn existing_entries_are_kept() {
    let text = config_text("").replace(
        r#""BUFFER_PG": {"#,
        r#""BUFFER_PG": {"Ethernet4|3": {"profile": "own"}, "Ethernet8|3-4": {"profile": "pg_lossless_100000_300m_profile"}, "#,
    );
    let text = text.replace(
        r#""BUFFER_PROFILE": {"#,
        r#""BUFFER_PROFILE": {"own": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "1", "xoff": "9999"},
           "pg_lossless_100000_300m_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "1", "xoff": "8888"}, "#,
    );
    let loaded = load_with_lookup(&text, LOOKUP);
    assert_eq!(
        group_profile(&loaded, 1, 3).4,
        9_999,
        "a bound group keeps its profile"
    );
    assert_eq!(
        group_profile(&loaded, 1, 4).4,
        8_888,
        "a profile of the generated name is used as written"
    );
    let groups: Vec<&str> = loaded.resolved.generated.keys("BUFFER_PG").collect();
    assert_eq!(groups, ["Ethernet0|3-4", "Ethernet4|4"]);
    let notes = loaded.resolved.warnings.join("\n");
    assert!(
        notes.contains(
            "Ethernet4: its lossless groups keep profile own as written; SONiC's buffermgrd would bind \
             pg_lossless_100000_300m_profile of lookup.ini"
        ),
        "{notes}"
    );
}

#[test]
fn entry_with_a_generated_key_is_replaced() {
    let text = config_text("").replace(
        r#""BUFFER_PG": {"#,
        r#""BUFFER_PG": {"Ethernet4,Ethernet8|3-4": {"profile": "ingress_lossy_profile"}, "#,
    );
    let generated = load_with_lookup(&text, LOOKUP);
    assert_eq!(
        group_profile(&generated, 1, 3).4,
        177_632,
        "the row's headroom, as buffermgrd binds it"
    );
    let notes = generated.resolved.warnings.join("\n");
    assert!(
        notes.contains(
            "Ethernet4, Ethernet8: its lossless groups get profile pg_lossless_100000_300m_profile of lookup.ini instead of \
             ingress_lossy_profile, as SONiC's buffermgrd replaces it"
        ),
        "{notes}"
    );
    let without_row = LOOKUP.replace("100000 300m", "100000 2000m");
    assert_eq!(
        group_profile(&load_with_lookup(&text, &without_row), 1, 3).0,
        "ingress_lossy_profile"
    );
}

#[test]
fn ports_without_a_cable_or_down_get_no_profile() {
    let unconnected = config_text("").replace(r#""Ethernet0": "5m""#, r#""Ethernet0": "0m""#);
    assert_eq!(group_profile(&load_with_lookup(&unconnected, LOOKUP), 0, 3).4, 0);
    let down = config_text("").replace(
        r#""25000", "mtu": "9100", "admin_status": "up""#,
        r#""25000", "mtu": "9100", "admin_status": "down""#,
    );
    assert_eq!(
        group_profile(&load_with_lookup(&down, LOOKUP), 0, 3).4,
        32_656,
        "on most chips"
    );
    let mellanox = down.replace(
        r#""buffer_model": "traditional""#,
        r#""platform": "x86_64-mlnx_msn2700-r0""#,
    );
    assert_eq!(
        group_profile(&load_with_lookup(&mellanox, LOOKUP), 0, 3).4,
        0,
        "Mellanox takes the buffer away"
    );
    assert_eq!(
        group_profile(&load_with_lookup(&mellanox, LOOKUP), 1, 3).4,
        177_632
    );
}

#[test]
fn separate_priorities_get_separate_groups() {
    let text = config_text("").replacen(r#""pfc_enable": "3,4""#, r#""pfc_enable": "2,3,4,6""#, 1);
    let loaded = load_with_lookup(&text, LOOKUP);
    let groups: Vec<&str> = loaded.resolved.generated.keys("BUFFER_PG").collect();
    assert_eq!(
        groups,
        ["Ethernet0|2-4", "Ethernet0|6", "Ethernet4|3-4", "Ethernet8|3-4"]
    );
}

#[test]
fn lookup_row_out_of_range_is_refused() {
    let text = config_text("");
    let problems = load(
        &[("test.json", &text)],
        &options_with_lookup("25000 5m 1248 2288 32656 9\n"),
    );
    let problems = problems.map(|_| ()).expect_err("a threshold of 9").to_string();
    assert!(
        problems.contains("BUFFER_PROFILE|pg_lossless_25000_5m_profile dynamic_th \"9\""),
        "{problems}"
    );
    assert!(
        problems.contains("correct the row of this speed and cable in the lookup file"),
        "{problems}"
    );
}

#[test]
fn cell_size_follows_from_the_platform() {
    let with = |fields: &str| {
        let text = config_text("").replace(r#""buffer_model": "traditional""#, fields);
        let loaded = load_with_lookup(&text, LOOKUP);
        let notes = loaded
            .resolved
            .warnings
            .into_iter()
            .filter(|note| note.contains("chip"))
            .collect::<Vec<_>>();
        (loaded.resolved.config.cell_bytes, notes.join("\n"))
    };
    assert_eq!(with(r#""hwsku": "own""#), (256, String::new()));
    let tomahawk = r#""platform": "x86_64-arista_7060_cx32s", "hwsku": "Arista-7060CX-32S-C32""#;
    let note = "DEVICE_METADATA|localhost: platform and hwsku are those of chip th: cell_size 208 (docs/chips.md; fields \
                of XOFF_SWITCH override them)";
    assert_eq!(with(tomahawk), (208, note.to_owned()));
    assert_eq!(with(r#""platform": "unknown", "hwsku": "Cisco-8102-C64""#).0, 384);
    let explicit = |fields: &str| format!(r#"{tomahawk}}}}}, "XOFF_SWITCH": {{"localhost": {{{fields}"#);
    assert_eq!(with(&explicit(r#""cell_size": "300""#)).0, 300);
    assert_eq!(with(&explicit(r#""asic": "td3""#)), (256, String::new()));
    let dynamic = with(r#""platform": "x86_64-mlnx_msn4600c-r0", "buffer_model": "dynamic""#);
    assert_eq!(dynamic.0, 144);
    assert!(
        dynamic.1.contains(
            "chip spectrum3: cell_size 144, pipeline latency 19456, MAC and PHY delay 819.2, peer response by speed, else \
             3891.2 bytes"
        ),
        "{}",
        dynamic.1
    );
}
