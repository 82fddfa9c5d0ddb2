//! `SCHEDULER`, `QUEUE`, `WRED_PROFILE`.

use xoff_dataplane::config::{SchedulingMode, ShaperConfig, WredProfile};

use super::{assert_each_refused, load_config, load_warnings};

#[test]
fn queue_scheduler_shaper_and_wred_are_resolved() {
    let config = load_config(
        r#"{"SCHEDULER": {"strict": {"type": "STRICT", "pir": "750000", "pbs": "20000"},
                          "heavy": {"type": "DWRR", "weight": "100"},
                          "port": {"type": "DWRR", "pir": "125000000"}},
            "WRED_PROFILE": {"ecn": {"ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "1000",
                                     "green_max_threshold": "2000", "green_drop_probability": "5"},
                             "mark": {"ecn": "ecn_green_red", "green_min_threshold": "7", "green_max_threshold": "7"},
                             "off": {"ecn": "ecn_yellow", "wred_green_enable": "false"}},
            "QUEUE": {"Ethernet0|6-7": {"scheduler": "strict"}, "Ethernet0|3": {"scheduler": "heavy", "wred_profile": "ecn"},
                      "Ethernet0|4": {"wred_profile": "mark"}, "Ethernet0|5": {"wred_profile": "off"}},
            "PORT_QOS_MAP": {"Ethernet0": {"scheduler": "port"}}}"#,
        &["Ethernet0"],
    );
    let queue = |n: usize| config.ports[0].queues[n];
    assert_eq!(queue(7).schedule, SchedulingMode::Strict);
    assert_eq!(
        queue(6).shaper,
        Some(ShaperConfig {
            bytes_per_second: 750_000,
            burst_bytes: 20_000
        })
    );
    assert_eq!(
        (queue(3).schedule, queue(3).shaper),
        (SchedulingMode::Dwrr { weight: 100 }, None)
    );
    let ecn = WredProfile {
        min_bytes: 1_000,
        max_bytes: 2_000,
        max_probability: (5 << 32) / 100,
        ecn: true,
        drop: true,
    };
    assert_eq!(queue(3).wred, Some(ecn));
    let mark = WredProfile {
        min_bytes: 7,
        max_bytes: 7,
        max_probability: 1 << 32,
        ecn: true,
        drop: false,
    };
    assert_eq!((queue(4).wred, queue(5).wred), (Some(mark), None));
    let shaper = ShaperConfig {
        bytes_per_second: 125_000_000,
        burst_bytes: 125_000,
    };
    assert_eq!(config.ports[0].shaper, Some(shaper));
}

#[test]
fn invalid_schedulers_and_wred_profiles_are_refused() {
    assert_each_refused(&[
        (
            r#"{"SCHEDULER": {"s": {"type": "DWRR", "weight": "101"}}}"#,
            r#"SCHEDULER|s weight "101": expected a whole number from 0 to 100"#,
        ),
        (
            r#"{"SCHEDULER": {"s": {"type": "SP"}}}"#,
            r#"SCHEDULER|s type "SP": expected DWRR, WRR or STRICT"#,
        ),
        (
            r#"{"SCHEDULER": {"s": {"type": "STRICT", "cir": "10", "pir": "9"}}}"#,
            r#"SCHEDULER|s pir "9": the peak rate is below the committed rate, expected at least cir 10"#,
        ),
        (
            r#"{"WRED_PROFILE": {"w": {"ecn": "ecn_all", "green_min_threshold": "2", "green_max_threshold": "1"}}}"#,
            "WRED_PROFILE|w green_max_threshold \"1\": the maximum is below the minimum, expected at least \
             green_min_threshold 2",
        ),
        (
            r#"{"WRED_PROFILE": {"w": {"wred_green_enable": "true", "green_min_threshold": "2"}}}"#,
            "WRED_PROFILE|w green_max_threshold: the field is missing, and marking or dropping of green frames is on",
        ),
        (
            r#"{"WRED_PROFILE": {"w": {"green_drop_probability": "101"}}}"#,
            r#"WRED_PROFILE|w green_drop_probability "101": expected a whole number of percent from 0 to 100"#,
        ),
        (
            r#"{"QUEUE": {"Ethernet0|3": {"scheduler": "none"}}}"#,
            "QUEUE|Ethernet0|3 scheduler \"none\": SCHEDULER has no entry none; add none to SCHEDULER",
        ),
    ]);
}

#[test]
fn scheduler_fields_without_effect_are_noted() {
    let text = r#"{"SCHEDULER": {"a": {}, "b": {"type": "STRICT", "cir": "5", "cbs": "5", "priority": "3"},
                                 "c": {"type": "DWRR", "meter_type": "packets", "pir": "5"}},
        "WRED_PROFILE": {"w": {"wred_red_enable": "true", "red_min_threshold": "5", "green_max_threshold": "5"}}}"#;
    assert_eq!(
        load_warnings(text, &[]),
        [
            "no effect: SCHEDULER cbs (only the peak rate limits a queue); SCHEDULER priority (among strict-priority queues, \
             the higher queue number is served first); WRED_PROFILE red_min_threshold, WRED_PROFILE wred_red_enable \"true\" (every frame is green)",
            "SCHEDULER|a: WRR works as DWRR: weights count bytes, not frames",
            "SCHEDULER|b: cir has no effect: no rate is guaranteed, and only pir limits the rate",
            "SCHEDULER|c: pir has no effect: rates in packets per second are not implemented",
            "WRED_PROFILE|w: no effect: neither ecn nor wred_green_enable is on",
        ]
    );
}

#[test]
fn marking_above_the_xoff_threshold_is_noted() {
    let text = |min: &str| {
        format!(
            r#"{{"BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "2000000", "xoff": "9000000"}}}},
            "BUFFER_PROFILE": {{"p": {{"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "3000000", "xon_offset": "9"}}}},
            "BUFFER_PG": {{"Ethernet0|0": {{"profile": "p"}}}},
            "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "0"}}}},
            "WRED_PROFILE": {{"w": {{"ecn": "ecn_all", "green_min_threshold": "{min}", "green_max_threshold": "3000000"}}}},
            "QUEUE": {{"Ethernet0|0": {{"wred_profile": "w"}}}}}}"#
        )
    };
    assert_eq!(
        load_warnings(&text("999999"), &["Ethernet0"]),
        Vec::<String>::new()
    );
    assert_eq!(
        load_warnings(&text("1000000"), &["Ethernet0"]),
        [
            "Ethernet0: queue 0 marks above 1000000 bytes, but PFC pauses a single sender at 1000000 bytes: PFC \
          acts before ECN"
        ]
    );
}
