//! `BUFFER_POOL`, `BUFFER_PROFILE`, `BUFFER_PG`, `BUFFER_QUEUE`.

use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, PoolSide};

use super::{assert_each_refused, load_config, load_errors, load_warnings};

const POOLS: &str = r#""BUFFER_POOL": {
    "in": {"type": "ingress", "mode": "dynamic", "size": "1000000", "xoff": "5000"},
    "out": {"type": "egress", "mode": "static", "size": "2000000"}}"#;

fn with_profile(profile: &str) -> String {
    format!(r#"{{{POOLS}, "BUFFER_PROFILE": {{"p": {profile}}}}}"#)
}

#[test]
fn pools_profiles_and_bindings_are_resolved() {
    let text = format!(
        r#"{{{POOLS}, "BUFFER_PROFILE": {{
            "lossless": {{"pool": "in", "size": "1248", "dynamic_th": "-8", "xoff": "4000", "xon": "10", "xon_offset": "20"}},
            "egress": {{"pool": "out", "size": "0", "static_th": "18446744073709551615"}}}},
          "BUFFER_PG": {{"Ethernet0|3-4": {{"profile": "lossless"}}}},
          "BUFFER_QUEUE": {{"Ethernet0|0-7": {{"profile": "egress"}}}}}}"#
    );
    let config = load_config(&text, &["Ethernet0"]);
    let pool = |name: &str, side, size_bytes, xoff_bytes| PoolConfig {
        name: name.into(),
        side,
        size_bytes,
        xoff_bytes,
    };
    assert_eq!(config.pools[0], pool("in", PoolSide::Ingress, 1_000_000, 5_000));
    assert_eq!(config.pools[1], pool("out", PoolSide::Egress, 2_000_000, 0));
    let lossless = BufferProfile {
        name: "lossless".to_owned(),
        pool: 0,
        size_bytes: 1_248,
        threshold: BufferThreshold::Dynamic(-8),
        xoff_bytes: 4_000,
        xon_bytes: 10,
        xon_offset_bytes: 20,
        trim: false,
    };
    assert_eq!(config.profiles[1], lossless);
    assert_eq!(
        config.profiles[0].threshold,
        BufferThreshold::Static(1 << 48),
        "no pool is larger"
    );
    let port = &config.ports[0];
    let name = |index: u16| config.profiles[usize::from(index)].name.as_str();
    assert_eq!((name(port.pgs[3]), name(port.pgs[4])), ("lossless", "lossless"));
    assert_eq!(name(port.pgs[0]), "default_ingress_lossy_profile");
    assert!(port.queues.iter().all(|queue| name(queue.profile) == "egress"));
    assert_eq!(config.pools.len(), 3, "no built-in egress pool: nothing uses it");
    assert_eq!(config.frames_max, 2_000_000 / 256);
}

#[test]
fn invalid_pools_and_profiles_are_refused() {
    assert_each_refused(&[
        (
            r#"{"BUFFER_POOL": {"in": {"mode": "static", "size": "1"}}}"#,
            "BUFFER_POOL|in type: the field is missing",
        ),
        (
            r#"{"BUFFER_POOL": {"in": {"type": "ingress", "mode": "static", "size": "18446744073709551616"}}}"#,
            r#"BUFFER_POOL|in size "18446744073709551616": expected a whole number of bytes from 0 to 18446744073709551615"#,
        ),
        (
            &with_profile(r#"{"pool": "in", "size": "0", "dynamic_th": "0", "static_th": "1"}"#),
            "BUFFER_PROFILE|p: dynamic_th and static_th exclude each other; remove one of them",
        ),
        (
            &with_profile(r#"{"pool": "in", "size": "0", "dynamic_th": "8"}"#),
            r#"BUFFER_PROFILE|p dynamic_th "8": expected a whole number from -8 to 7"#,
        ),
        (
            &with_profile(r#"{"pool": "inn", "size": "0", "dynamic_th": "0"}"#),
            "BUFFER_PROFILE|p pool \"inn\": BUFFER_POOL has no entry inn; did you mean in?",
        ),
        (
            &with_profile(r#"{"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "5001", "xon": "1"}"#),
            "BUFFER_PROFILE|p xoff \"5001\": the headroom is larger than the pool: xoff of in is 5000; \
             lower xoff, or make the pool larger",
        ),
        (
            &with_profile(
                r#"{"pool": "in", "size": "100", "static_th": "1000", "xoff": "9", "xon": "1100"}"#,
            ),
            "BUFFER_PROFILE|p xon \"1100\": a group of this profile pauses at 1100 bytes at the latest, but its XON threshold is 1100; lower xon below the XOFF threshold",
        ),
        (
            &with_profile(
                r#"{"pool": "in", "size": "0", "static_th": "1000", "xoff": "9", "xon_offset": "1001"}"#,
            ),
            "BUFFER_PROFILE|p xon_offset \"1001\": a group of this profile pauses at 1000 bytes at the latest, which is \
             less than the offset; lower xon_offset below the XOFF threshold",
        ),
        (
            &with_profile(r#"{"pool": "in", "dynamic_th": "0"}"#),
            "BUFFER_PROFILE|p size: the field is missing",
        ),
    ]);
}

#[test]
fn invalid_profile_bindings_are_refused() {
    let users = |users: &str| {
        with_profile(r#"{"pool": "out", "size": "0", "static_th": "0"}"#)
            .replace("}}}", &format!("}}}}, {users}}}"))
    };
    let cases = [
        (
            r#""BUFFER_PG": {"Ethernet0|8": {"profile": "p"}}"#,
            "BUFFER_PG|Ethernet0|8: \"8\" in the key: expected a number from 0 to 7, or a range such as 3-4",
        ),
        (
            r#""BUFFER_QUEUE": {"Ethernet0|4-3": {"profile": "p"}}"#,
            "BUFFER_QUEUE|Ethernet0|4-3: \"4-3\" in the key: expected a queue from 0 to 15, or a range such as 3-4",
        ),
        (
            r#""BUFFER_QUEUE": {"Ethernet0": {"profile": "p"}}"#,
            "BUFFER_QUEUE|Ethernet0: expected a key of the form PORT|NUMBER or FIRST-LAST",
        ),
        (
            r#""BUFFER_QUEUE": {"Ethernet0|3-4": {"profile": "p"}, "Ethernet0|4": {"profile": "p"}}"#,
            "BUFFER_QUEUE|Ethernet0|4: Ethernet0|3-4 of the same table has some of the same numbers; use \
             each number in one key only",
        ),
        (
            r#""BUFFER_QUEUE": {"Ethernet0|3": {"profile": "q"}}"#,
            "BUFFER_QUEUE|Ethernet0|3 profile \"q\": BUFFER_PROFILE has no entry q; add q to BUFFER_PROFILE",
        ),
        (
            r#""BUFFER_QUEUE": {"Po1|3": {"profile": "p"}}"#,
            "BUFFER_QUEUE|Po1|3: there is no port Po1; add it to PORT, or name it on the command line (--port)",
        ),
    ];
    for (text, line) in cases {
        assert_eq!(load_errors(&users(text), &["Ethernet0"]), [line]);
    }
}

#[test]
fn buffer_fields_without_effect_are_noted() {
    let text = r#"{"BUFFER_POOL": {
            "in": {"type": "ingress", "mode": "dynamic", "percentage": "50"},
            "out": {"type": "egress", "mode": "static", "size": "9", "xoff": "1"}},
        "BUFFER_PROFILE": {
            "a": {"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "9", "headroom_type": "dynamic"},
            "b": {"pool": "out", "size": "0", "dynamic_th": "0", "xoff": "9", "packet_discard_action": "trim"}},
        "BUFFER_PG": {"Ethernet0|0": {"profile": "NULL"}}}"#;
    assert_eq!(
        load_warnings(text, &["Ethernet0"]),
        [
            "BUFFER_POOL|in: no size is given: 16777216 bytes are assumed",
            "BUFFER_POOL|in: percentage has no effect: buffer_model of DEVICE_METADATA is not dynamic, sizes are taken \
             as written",
            "BUFFER_POOL|out: xoff has no effect: only ingress pools have headroom",
            "BUFFER_PROFILE|a: headroom_type \"dynamic\" has no effect: buffer_model of DEVICE_METADATA is not dynamic, \
             sizes are taken as written",
            "BUFFER_PROFILE|a: neither xon nor xon_offset is given: a paused group resumes only when it is empty",
            "BUFFER_PROFILE|b: packet_discard_action \"trim\" has no effect: SWITCH_TRIMMING|GLOBAL must set size, \
             dscp_value and queue_index; frames are dropped",
            "BUFFER_PROFILE|b: xoff has no effect: only ingress profiles have headroom",
        ]
    );
}

#[test]
fn port_profile_lists_are_resolved() {
    let lists = |lists: &str| {
        let profiles = r#""BUFFER_PROFILE": {"a": {"pool": "in", "size": "0", "dynamic_th": "0"},
            "b": {"pool": "in", "size": "0", "static_th": "9"}, "c": {"pool": "out", "size": "0", "dynamic_th": "1"}}"#;
        format!("{{{POOLS}, {profiles}, {lists}}}")
    };
    let text = lists(
        r#""BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": ["a"]}},
           "BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": "c"}}"#,
    );
    let entry = |profile| xoff_dataplane::config::PortProfile { port: 0, profile };
    assert_eq!(
        load_config(&text, &["Ethernet0"]).port_profiles,
        [entry(0), entry(2)]
    );
    for (text, line) in [
        (
            r#""BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": ["x"]}}"#,
            "BUFFER_PORT_INGRESS_PROFILE_LIST|Ethernet0 profile_list \"x\": BUFFER_PROFILE has no entry x; add x to BUFFER_PROFILE",
        ),
        (
            r#""BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": []}}"#,
            "BUFFER_PORT_EGRESS_PROFILE_LIST|Ethernet0 profile_list \"\": expected a list of names of entries of BUFFER_PROFILE",
        ),
        (
            r#""BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {}}"#,
            "BUFFER_PORT_EGRESS_PROFILE_LIST|Ethernet0 profile_list: the field is missing",
        ),
    ] {
        assert_eq!(load_errors(&lists(text), &["Ethernet0"]), [line]);
    }
}

#[test]
fn missing_profile_is_refused_and_null_profile_drops() {
    let users = r#""BUFFER_PG": {"Ethernet0|3": {"profile": "gone"}}"#;
    assert_eq!(
        load_errors(&format!("{{{POOLS}, {users}}}"), &["Ethernet0"]),
        [
            "BUFFER_PG|Ethernet0|3 profile \"gone\": BUFFER_PROFILE has no entry gone; add gone to BUFFER_PROFILE"
        ]
    );
    let none = format!(
        r#"{{{POOLS}, "BUFFER_PG": {{"Ethernet0|3-4": {{"profile": "NULL"}}}}, "BUFFER_QUEUE": {{"Ethernet0|5": {{"profile": "NULL"}}}}}}"#
    );
    let config = load_config(&none, &["Ethernet0"]);
    let port = &config.ports[0];
    use xoff_dataplane::config::NO_PROFILE;
    assert_eq!(
        (port.pgs[3], port.pgs[4], port.queues[5].profile),
        (NO_PROFILE, NO_PROFILE, NO_PROFILE)
    );
    assert_ne!(port.pgs[2], NO_PROFILE);
}
