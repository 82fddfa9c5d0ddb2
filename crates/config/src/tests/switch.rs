//! `DEVICE_METADATA`, `PORT`, `XOFF_SWITCH`, `XOFF_PORT`, and what holds without them.

use xoff_dataplane::config::{BridgingConfig, BufferThreshold, EcnMarkPoint, PoolSide, SchedulingMode};
use xoff_units::Picos;

use super::{assert_each_refused, load_config, load_errors, load_text, load_warnings, resolve_options};
use crate::{ConfigDb, PORTS_MAX, resolve};

#[test]
fn empty_file_and_ports_are_a_working_switch() {
    let loaded = load_text("{}", &["Ethernet10", "Ethernet2"]).unwrap();
    assert_eq!(loaded.resolved.warnings, Vec::<String>::new());
    let config = loaded.resolved.config;
    assert_eq!(
        (config.name.as_str(), config.seed, config.cell_bytes),
        ("xoff", 7, 256)
    );
    assert_eq!(config.bridging, BridgingConfig::Transparent);
    assert_eq!(config.fdb_ageing, Picos::from_millis(600_000));
    assert_eq!(
        config.pools.iter().map(|p| p.side).collect::<Vec<_>>(),
        [PoolSide::Egress, PoolSide::Ingress]
    );
    assert_eq!(config.frames_max, 65_536);
    let names: Vec<_> = config.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["Ethernet2", "Ethernet10"]);
    for port in &config.ports {
        assert!(port.admin_up);
        assert_eq!(
            (port.link.speed_mbps, port.mtu, port.tpid),
            (1_000, 1_500, 0x8100)
        );
        assert_eq!(port.pfc.enabled, 0);
        assert_eq!(port.classify.dscp_to_tc, [0; 64]);
        assert!(
            port.queues
                .iter()
                .all(|queue| queue.schedule == SchedulingMode::Dwrr { weight: 1 })
        );
        let egress = &config.profiles[usize::from(port.queues[0].profile)];
        assert_eq!(
            (egress.threshold, egress.xoff_bytes),
            (BufferThreshold::Dynamic(0), 0)
        );
    }
}

#[test]
fn port_mac_addresses_are_derived_from_the_host_name() {
    let one = load_config(
        r#"{"DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}}}"#,
        &["Ethernet0", "Ethernet4"],
    );
    let two = load_config(
        r#"{"DEVICE_METADATA": {"localhost": {"hostname": "leaf2"}}}"#,
        &["Ethernet0"],
    );
    assert_eq!(one.name, "leaf1");
    assert_eq!(one.mac[0], 2, "locally administered, unicast");
    assert_ne!(one.mac, two.mac);
    assert_eq!(one.ports[1].mac[5], one.ports[0].mac[5] + 1);
    let written = load_config(
        r#"{"DEVICE_METADATA": {"localhost": {"mac": "00:1B:21:FF:FF:FF"}}}"#,
        &["Ethernet0"],
    );
    assert_eq!(
        written.ports[0].mac,
        [0x00, 0x1b, 0x21, 0, 0, 0],
        "the vendor's half stays"
    );
}

#[test]
fn port_fields_are_resolved() {
    let text = r#"{"PORT": {
        "Ethernet0": {"speed": "100000", "mtu": "9100", "tpid": "0x88a8", "pfc_asym": "on", "admin_status": "down"},
        "Ethernet4": {"lanes": "1,2,3,4", "alias": "p1", "index": "1", "description": "spare", "role": "Ext"}}}"#;
    let config = load_config(text, &["Ethernet0"]);
    let port = &config.ports[0];
    assert_eq!(
        (port.link.speed_mbps, port.mtu, port.tpid),
        (100_000, 9_100, 0x88a8)
    );
    assert!(port.pfc.asymmetric && !port.admin_up && !config.ports[1].admin_up);
    assert_eq!(
        load_warnings(text, &["Ethernet0"]),
        ["Ethernet0: named on the command line, but admin_status in PORT is down"]
    );
}

#[test]
fn invalid_port_and_metadata_values_are_refused() {
    assert_each_refused(&[
        (
            r#"{"PORT": {"Ethernet0": {"speed": "9"}}}"#,
            r#"PORT|Ethernet0 speed "9": expected a whole number of Mb/s from 10 to 1600000"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"speed": "25G"}}}"#,
            r#"PORT|Ethernet0 speed "25G": expected a whole number of Mb/s from 10 to 1600000"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"mtu": "9217"}}}"#,
            r#"PORT|Ethernet0 mtu "9217": expected a whole number of bytes from 68 to 9216"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"admin_status": "UP"}}}"#,
            r#"PORT|Ethernet0 admin_status "UP": expected up or down"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"tpid": "0x12345"}}}"#,
            r#"PORT|Ethernet0 tpid "0x12345": expected an EtherType in hexadecimal digits such as 0x8100"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"sped": "1000"}}}"#,
            r#"PORT|Ethernet0 sped "1000": no such field; did you mean speed?"#,
        ),
        (
            r#"{"DEVICE_METADATA": {"localhost": {"mac": "01:00:00:00:00:01"}}}"#,
            r#"DEVICE_METADATA|localhost mac "01:00:00:00:00:01": expected a unicast MAC address such as 02:00:00:00:10:01"#,
        ),
        (
            r#"{"DEVICE_METADATA": {"local": {}}}"#,
            r#"DEVICE_METADATA|local: "local" in the key: expected localhost"#,
        ),
    ]);
}

#[test]
fn invalid_command_line_ports_are_refused() {
    assert_eq!(
        load_errors("{}", &["Ethernet0", "Ethernet0"]),
        ["PORT|Ethernet0: the port is named twice on the command line; give each port one device"]
    );
    assert_eq!(
        load_errors("{}", &["a b"]),
        ["PORT|a b: a port's name is 1 to 128 letters, digits and . _ - / :; rename it on the command line"]
    );
    let many: Vec<String> = (0..=PORTS_MAX).map(|n| format!("Ethernet{n}")).collect();
    let how = crate::ResolveOptions {
        ports: many,
        ..resolve_options(&[])
    };
    let problems = resolve(&ConfigDb::default(), &how).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "PORT: 1025 ports, at most 1024 are possible"
    );
}

#[test]
fn xoff_switch_and_xoff_port_fields_are_resolved() {
    let config = load_config(
        r#"{"XOFF_SWITCH": {"localhost": {"cell_size": "208", "pipeline_latency": "600", "mark_point": "enqueue",
              "seed": "18446744073709551615", "fdb_ageing": "0", "fdb_entries": "128", "frames": "4096"}},
            "XOFF_PORT": {"Ethernet0": {"overhead_bytes": "0", "fcs_bytes": "0", "min_frame_bytes": "1",
              "rounding_ps": "1000"}}}"#,
        &["Ethernet0", "Ethernet4"],
    );
    assert_eq!(
        (config.cell_bytes, config.pipeline_latency),
        (208, Picos(600_000))
    );
    assert_eq!(
        (config.mark_point, config.seed, config.fdb_ageing),
        (EcnMarkPoint::Enqueue, u64::MAX, Picos::NEVER)
    );
    assert_eq!((config.fdb_entries_max, config.frames_max), (128, 4_096));
    let link = config.ports[0].link;
    assert_eq!(
        (
            link.overhead_bytes,
            link.fcs_bytes,
            link.min_frame_bytes,
            link.rounding_ps
        ),
        (0, 0, 1, 1_000)
    );
    assert_eq!(config.ports[1].link.overhead_bytes, 20);
    assert_each_refused(&[
        (
            r#"{"XOFF_SWITCH": {"localhost": {"cell_size": "0"}}}"#,
            r#"XOFF_SWITCH|localhost cell_size "0": expected a whole number of bytes from 1 to 16384"#,
        ),
        (
            r#"{"XOFF_SWITCH": {"localhost": {"mark_point": "ingress"}}}"#,
            r#"XOFF_SWITCH|localhost mark_point "ingress": expected dequeue or enqueue"#,
        ),
        (
            r#"{"XOFF_PORT": {"Ethernet4": {"rounding_ps": "1"}}}"#,
            "XOFF_PORT|Ethernet4: there is no port Ethernet4; add it to PORT, or name it on the command line (--port)",
        ),
    ]);
}
