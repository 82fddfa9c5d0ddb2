//! Tests of the PFC watchdog and 802.3x pauses.

use xoff_dataplane::config::{GlobalPause, PortWatchdog, SwitchConfig, WatchdogAction, WatchdogRule};
use xoff_units::Picos;

use super::{assert_each_refused, load_config, load_errors, load_warnings};

/// A port with PFC and the watchdog on priority 3, and additional tables.
fn watched_port_config(tables: &str) -> String {
    format!(r#"{{"PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "3", "pfcwd_sw_enable": "3"}}}}, {tables}}}"#)
}

fn watchdog_of_ethernet0(config: &SwitchConfig) -> PortWatchdog {
    config.ports[0].watchdog.expect("a watchdog")
}

/// Returns the warnings without those about headroom, which these configurations omit.
#[track_caller]
fn warnings_without_headroom(text: &str, ports: &[&str]) -> Vec<String> {
    let mut lines = load_warnings(text, ports);
    lines.retain(|line| !line.contains("has no headroom"));
    lines
}

#[test]
fn watchdog_fields_are_resolved() {
    let text = r#"{"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "300", "BIG_RED_SWITCH": "enable"},
            "Ethernet0": {"action": "forward", "detection_time": "300", "restoration_time": "60000", "pfc_stat_history": "enable"},
            "Ethernet4": {"detection_time": "5000"}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"M": {"3": "5"}}, "XOFF_PFC_WD": {"GLOBAL": {"rule": "vs"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "pfcwd_sw_enable": "3,4", "pfc_to_queue_map": "M"},
            "Ethernet4": {"pfc_enable": "3", "pfcwd_sw_enable": "3"}, "Ethernet8": {"pfc_enable": "3", "pfcwd_sw_enable": "3"}}}"#;
    let ports = ["Ethernet0", "Ethernet4", "Ethernet8"];
    let config = load_config(text, &ports);
    assert_eq!(
        (
            config.watchdog.poll,
            config.watchdog.big_red_switch,
            config.watchdog.rule
        ),
        (Picos::from_millis(300), true, WatchdogRule::Vs)
    );
    let first = PortWatchdog {
        queues: 0b11_0000,
        action: WatchdogAction::Forward,
        detection: Picos::from_millis(300),
        restoration: Some(Picos::from_millis(60_000)),
        history: true,
    };
    let second = PortWatchdog {
        queues: 0b1000,
        action: WatchdogAction::Drop,
        detection: Picos::from_millis(5_000),
        restoration: None,
        history: false,
    };
    assert_eq!(
        config.ports.iter().map(|port| port.watchdog).collect::<Vec<_>>(),
        [Some(first), Some(second), None],
        "a port without an entry is not watched"
    );
    assert_eq!(warnings_without_headroom(text, &ports), Vec::<String>::new());
}

#[test]
fn watchdog_is_off_by_default() {
    let config = load_config("{}", &["Ethernet0"]);
    assert_eq!(config.ports[0].watchdog, None);
    assert_eq!(
        (
            config.watchdog.poll,
            config.watchdog.big_red_switch,
            config.watchdog.rule
        ),
        (Picos::from_millis(100), false, WatchdogRule::Broadcom)
    );
}

#[test]
fn watchdog_times_have_the_ranges_of_sonic() {
    let detection = "expected a whole number of ms from 100 to 5000";
    let restoration = "expected a whole number of ms from 100 to 60000";
    let poll = "expected a whole number of ms from 100 to 1000";
    for (field, value, expected) in [
        ("detection_time", "99", detection),
        ("detection_time", "5001", detection),
        ("detection_time", "400a", detection),
        ("detection_time", "4000000", detection),
        ("detection_time", "-400", detection),
        ("detection_time", "", detection),
        ("restoration_time", "50", restoration),
        ("restoration_time", "60001", restoration),
        ("restoration_time", "500c", restoration),
        ("restoration_time", "0", restoration),
        ("action", "dropp", "expected drop, forward or alert"),
        ("pfc_stat_history", "on", "expected enable or disable"),
    ] {
        let entry = match field {
            "detection_time" => format!(r#""{field}": "{value}""#),
            _ => format!(r#""detection_time": "400", "{field}": "{value}""#),
        };
        let text = watched_port_config(&format!(r#""PFC_WD": {{"Ethernet0": {{{entry}}}}}"#));
        assert_eq!(
            load_errors(&text, &["Ethernet0"]),
            [format!("PFC_WD|Ethernet0 {field} {value:?}: {expected}")]
        );
    }
    for (field, value, expected) in [
        ("POLL_INTERVAL", "99", poll),
        ("POLL_INTERVAL", "1001", poll),
        ("POLL_INTERVAL", "1.5", poll),
        ("BIG_RED_SWITCH", "true", "expected enable or disable"),
    ] {
        let text = watched_port_config(&format!(r#""PFC_WD": {{"GLOBAL": {{"{field}": "{value}"}}}}"#));
        assert_eq!(
            load_errors(&text, &["Ethernet0"]),
            [format!("PFC_WD|GLOBAL {field} {value:?}: {expected}")]
        );
    }
}

#[test]
fn watchdog_times_below_the_poll_interval_are_refused() {
    assert_each_refused(&[
        (
            r#"{"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "400"}, "Ethernet0": {"detection_time": "399", "restoration_time": "400"}}}"#,
            "PFC_WD|Ethernet0 detection_time \"399\": the watchdog polls queues every 400 ms (PFC_WD|GLOBAL \
             POLL_INTERVAL); use at least 400, or a shorter POLL_INTERVAL",
        ),
        (
            r#"{"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "400"}, "Ethernet0": {"detection_time": "400", "restoration_time": "200"}}}"#,
            "PFC_WD|Ethernet0 restoration_time \"200\": the watchdog polls queues every 400 ms (PFC_WD|GLOBAL \
             POLL_INTERVAL); use at least 400, or a shorter POLL_INTERVAL",
        ),
        (
            r#"{"PFC_WD": {"Ethernet0": {"action": "drop"}}}"#,
            "PFC_WD|Ethernet0 detection_time: the field is missing",
        ),
        (
            r#"{"PFC_WD": {"Ethernet4": {"detection_time": "400"}}}"#,
            "PFC_WD|Ethernet4: there is no port Ethernet4; add it to PORT, or name it on the command line (--port)",
        ),
        (
            r#"{"PFC_WD": {"Ethernet0-4": {"detection_time": "400"}}}"#,
            "PFC_WD|Ethernet0-4: there is no port Ethernet0-4; did you mean Ethernet0? Otherwise add it to PORT",
        ),
        (
            r#"{"PFC_WD": {"Ethernet0|3": {}}}"#,
            "PFC_WD|Ethernet0|3: expected a key of the form GLOBAL, or PORT",
        ),
        (
            r#"{"PFC_WD": {"GLOBAL": {"detection_time": "400"}}}"#,
            "PFC_WD|GLOBAL detection_time \"400\": no such field",
        ),
        (
            r#"{"PFC_WD": {"Ethernet0": {"detection_time": "400", "POLL_INTERVAL": "200"}}}"#,
            "PFC_WD|Ethernet0 POLL_INTERVAL \"200\": no such field",
        ),
        (
            r#"{"XOFF_PFC_WD": {"GLOBAL": {"rule": "cisco"}}}"#,
            "XOFF_PFC_WD|GLOBAL rule \"cisco\": expected broadcom, nvidia or vs",
        ),
        (
            r#"{"PORT_QOS_MAP": {"Ethernet0": {"pfcwd_sw_enable": "3,8"}}}"#,
            "PORT_QOS_MAP|Ethernet0 pfcwd_sw_enable \"3,8\": expected priorities from 0 to 7 separated by commas, or \
             \"\" for none",
        ),
    ]);
}

/// In old files, one key contains several ports.
#[test]
fn port_list_key_is_an_entry_for_each_port() {
    let text = watched_port_config(
        r#""PFC_WD": {"Ethernet0,Ethernet4": {"detection_time": "400", "action": "alert"}}"#,
    );
    let config = load_config(&text, &["Ethernet0", "Ethernet4"]);
    let actions = config.ports.iter().map(|port| port.watchdog.map(|w| w.action));
    assert!(actions.eq([Some(WatchdogAction::Alert); 2]));
}

#[test]
fn watchdog_without_watched_queues_is_noted() {
    let text = r#"{"PFC_WD": {"Ethernet0": {"detection_time": "400"}, "Ethernet4": {"detection_time": "400"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}, "Ethernet4": {"pfc_enable": "3", "pfcwd_sw_enable": "3,4"},
            "global": {"pfcwd_sw_enable": "3"}}}"#;
    assert_eq!(
        warnings_without_headroom(text, &["Ethernet0", "Ethernet4"]),
        [
            "Ethernet0: the watchdog watches no queue: PORT_QOS_MAP pfcwd_sw_enable names no priority; copy the value of \
             pfc_enable",
            "Ethernet4: pfcwd_sw_enable has priority 4, but pfc_enable does not: the port ignores its pauses, \
             so the watchdog detects no storm",
            "PORT_QOS_MAP|global: pfcwd_sw_enable has no effect: only dscp_to_tc_map is bound to the whole switch",
        ]
    );
    // A port with asymmetric PFC honours pauses of all priorities.
    let asymmetric = text.replace(
        "{\"PFC_WD\"",
        r#"{"PORT": {"Ethernet4": {"pfc_asym": "on"}}, "PFC_WD""#,
    );
    assert!(
        warnings_without_headroom(&asymmetric, &["Ethernet0", "Ethernet4"])
            .iter()
            .all(|line| !line.starts_with("Ethernet4: pfcwd"))
    );
}

#[test]
fn default_watchdog_times_follow_from_the_number_of_ports() {
    let with_ports = |count: usize, tables: &str| {
        let ports: Vec<String> = (0..count).map(|n| format!(r#""Ethernet{n}": {{}}"#)).collect();
        let text = format!(
            r#"{{"PORT": {{{}}}, "DEVICE_METADATA": {{"localhost": {{"default_pfcwd_status": "enable"}}}},
            "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "3", "pfcwd_sw_enable": "3"}}}}{tables}}}"#,
            ports.join(", ")
        );
        load_config(&text, &[])
    };
    for (ports, poll, detection, restoration) in [
        (1, 200, 200, 200),
        (32, 200, 200, 200),
        (33, 400, 400, 400),
        (64, 400, 400, 400),
        (256, 1_000, 1_600, 1_600),
        (1_024, 1_000, 5_000, 6_400),
    ] {
        let config = with_ports(ports, "");
        let watchdog = watchdog_of_ethernet0(&config);
        let times = [
            config.watchdog.poll,
            watchdog.detection,
            watchdog.restoration.unwrap(),
        ];
        assert_eq!(
            times,
            [poll, detection, restoration].map(Picos::from_millis),
            "{ports} ports"
        );
        assert_eq!((watchdog.action, watchdog.queues), (WatchdogAction::Drop, 8));
        assert!(
            config.ports[1..].iter().all(|port| port.watchdog.is_none()),
            "ports without PFC"
        );
    }
    let config = with_ports(2, r#", "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "500"}}"#);
    assert_eq!(watchdog_of_ethernet0(&config).detection, Picos::from_millis(500));
    let config = with_ports(
        2,
        r#", "PFC_WD": {"Ethernet0": {"detection_time": "300", "action": "alert"}}"#,
    );
    assert_eq!(
        (
            watchdog_of_ethernet0(&config).action,
            watchdog_of_ethernet0(&config).restoration
        ),
        (WatchdogAction::Alert, None),
        "what is written holds"
    );
}

#[test]
fn global_pauses_are_honoured_by_default() {
    let pause = |mode: Option<&str>| {
        let table = mode.map_or(String::new(), |mode| {
            format!(r#""XOFF_PORT": {{"Ethernet0": {{"flow_control": "{mode}"}}}}"#)
        });
        let global = load_config(&format!("{{{table}}}"), &["Ethernet0"]).ports[0]
            .pfc
            .global;
        (global.honoured, global.generated)
    };
    assert_eq!(pause(None), (true, false));
    assert_eq!(pause(Some("off")), (false, false));
    assert_eq!(pause(Some("rx")), (true, false));
    assert_eq!(pause(Some("tx")), (false, true));
    assert_eq!(pause(Some("both")), (true, true));
    assert_eq!(
        GlobalPause::default(),
        GlobalPause {
            honoured: false,
            generated: false
        }
    );
    assert_each_refused(&[(
        r#"{"XOFF_PORT": {"Ethernet0": {"flow_control": "on"}}}"#,
        "XOFF_PORT|Ethernet0 flow_control \"on\": expected off, rx, tx or both",
    )]);
    let text = watched_port_config(r#""XOFF_PORT": {"Ethernet0": {"flow_control": "both"}}"#);
    assert_eq!(
        warnings_without_headroom(&text, &["Ethernet0"]),
        [
            "XOFF_PORT|Ethernet0: flow_control \"both\" has no effect: pfc_enable has a priority, which disables 802.3x pauses"
        ]
    );
}
