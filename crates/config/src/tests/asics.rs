//! Tests of files that configure a device with several ASICs.

use super::{load_config, load_errors, resolve_options};
use crate::{LoadedConfig, Problems, ResolveOptions, load};

const CHASSIS: &str = r#"{
    "localhost": {"DEVICE_METADATA": {"localhost": {"hostname": "lc1"}}},
    "asic0": {"DEVICE_METADATA": {"localhost": {"asic_name": "asic0"}}, "PORT": {"Ethernet0": {"speed": "100000"}}},
    "asic1": {"PORT": {"Ethernet4": {"speed": "400000"}, "Ethernet8": {"speed": "400000"}}}
}"#;

fn load_asic_part(text: &str, asic: &str) -> Result<LoadedConfig, Problems> {
    let how = ResolveOptions {
        asic: Some(asic.to_owned()),
        ..resolve_options(&[])
    };
    load(&[("preset", r#"{"VLAN": {}}"#), ("chassis.json", text)], &how)
}

#[test]
fn selected_asic_part_is_read() {
    for (asic, names) in [
        ("asic0", &["Ethernet0"][..]),
        ("asic1", &["Ethernet4", "Ethernet8"]),
        ("localhost", &[]),
    ] {
        let loaded = load_asic_part(CHASSIS, asic).unwrap_or_else(|problems| panic!("{problems}"));
        let ports: Vec<&str> = loaded
            .resolved
            .config
            .ports
            .iter()
            .map(|port| port.name.as_str())
            .collect();
        assert_eq!(ports, names, "{asic}");
        assert!(
            loaded
                .resolved
                .warnings
                .iter()
                .all(|note| !note.contains("selection"))
        );
    }
}

#[test]
fn missing_asic_selection_is_one_error_with_all_part_names() {
    assert_eq!(
        load_errors(CHASSIS, &["Ethernet0"]),
        [
            "the file configures a device with several ASICs: asic0, asic1, localhost; select one with the key `asic` of a \
             lab's switch, or with `xoff switch run --asic NAME`"
        ]
    );
}

#[test]
fn invalid_parts_and_selections_are_refused() {
    let refused = |text: &str, asic: &str| {
        let problems = load_asic_part(text, asic).expect_err("refused");
        assert_eq!(problems.as_slice().len(), 1, "{problems}");
        problems.to_string()
    };
    assert!(refused(CHASSIS, "asic7").contains("no part \"asic7\", its parts are asic0, asic1, localhost"));
    assert!(
        refused(r#"{"asic0": {}, "PORT": {}}"#, "asic0")
            .contains("PORT: the file has a part for each of asic0")
    );
    assert!(refused(r#"{"asic0": 7}"#, "asic0").contains("found a number"));
    assert!(refused(r#"{"asic0": {}, "asic0": {}}"#, "asic0").contains("twice"));
    let single = r#"{"DEVICE_METADATA": {"localhost": {"asic_name": "asic1"}}}"#;
    assert!(refused(single, "asic0").contains("the configuration belongs to asic1"));
}

/// The name of the line card can be in any of the merged layers.
#[test]
fn chassis_keys_use_the_line_card_of_the_merged_layers() {
    let identity = |host: &str, asic: &str| {
        format!(r#"{{"DEVICE_METADATA": {{"localhost": {{"hostname": "{host}", "asic_name": "{asic}"}}}}}}"#)
    };
    let queues = r#"{"PORT": {"Ethernet0": {}}, "SCHEDULER": {"a": {"type": "DWRR", "weight": "7"}, "b": {"type": "DWRR", "weight": "9"}},
        "QUEUE": {"lc1|asic0|Ethernet0|3": {"scheduler": "a"}, "lc2|Asic0|Ethernet0|3": {"scheduler": "b"}}}"#;
    let scheduler = |layers: &[&str], asic: Option<&str>| {
        let layers: Vec<(&str, &str)> = layers.iter().map(|text| ("layer", *text)).collect();
        let how = ResolveOptions {
            asic: asic.map(str::to_owned),
            ..resolve_options(&[])
        };
        let loaded = load(&layers, &how).unwrap_or_else(|problems| panic!("{problems}"));
        let notes = loaded.resolved.warnings.join("\n");
        (loaded.db.get("QUEUE", "Ethernet0|3", "scheduler"), notes)
    };
    let (first, second) = (identity("lc1", "asic0"), identity("lc2", "asic0"));
    for (layers, expected) in [
        ([first.as_str(), queues], Some("a")),
        ([queues, first.as_str()], Some("a")),
        ([second.as_str(), queues], Some("b")),
        ([queues, second.as_str()], Some("b")),
        (
            [
                queues,
                r#"{"DEVICE_METADATA": {"localhost": {"hostname": "LC1", "asic_name": "ASIC0"}}}"#,
            ],
            None,
        ),
    ] {
        assert_eq!(scheduler(&layers, None).0.as_deref(), expected, "{layers:?}");
    }
    let removed = r#"{"DEVICE_METADATA": {"localhost": {"hostname": "lc2", "asic_name": null}}}"#;
    let (found, notes) = scheduler(&[first.as_str(), queues, removed], None);
    assert_eq!(found.as_deref(), Some("b"));
    let expected = "no effect: 1 key of BUFFER_QUEUE and QUEUE belongs to other line cards or ASICs (lc1|asic0); this one is lc2|any";
    assert!(notes.contains(expected), "{notes}");
}

#[test]
fn asic_selection_without_effect_is_noted() {
    let loaded = load_asic_part(r#"{"PORT": {"Ethernet0": {}}}"#, "asic0").expect("good");
    assert_eq!(loaded.resolved.warnings.len(), 1);
    assert!(loaded.resolved.warnings[0].contains("the selection of asic0 has no effect"));
    assert_eq!(load_config(r#"{"PORT": {"Ethernet0": {}}}"#, &[]).ports.len(), 1);
}
