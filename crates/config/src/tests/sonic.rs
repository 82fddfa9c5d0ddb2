//! Tests of configurations in SONiC's documents and images.

use xoff_dataplane::config::{BufferThreshold, EcnMarkPoint};
use xoff_units::Picos;

use super::{load_config, load_errors, load_text, load_warnings, resolve_options};
use crate::{load, parse};

/// A leaf switch of SONiC's generator: pools, profiles, maps, WRED, schedulers and interfaces.
const LEAF: &str = r#"{
"PORT": {
  "Ethernet0": {"alias": "p0", "lanes": "1", "speed": "25000", "mtu": "9100", "index": "1", "admin_status": "up", "pfc_asym": "off"},
  "Ethernet4": {"alias": "p1", "lanes": "5", "speed": "25000", "mtu": "9100", "index": "2", "admin_status": "up"},
  "Ethernet8": {"lanes": "9", "speed": "25000"}, "Ethernet12": {"lanes": "13", "speed": "25000"}},
"DEVICE_METADATA": {"localhost": {"hostname": "emu-leaf1", "type": "LeafRouter", "mac": "02:00:00:00:10:01",
  "buffer_model": "traditional", "default_pfcwd_status": "disable"}},
"BUFFER_POOL": {
  "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "4194304", "xoff": "524288"},
  "egress_lossless_pool":  {"type": "egress",  "mode": "static",  "size": "8388608"},
  "egress_lossy_pool":     {"type": "egress",  "mode": "dynamic", "size": "3145728"}},
"BUFFER_PROFILE": {
  "pg_lossless_25000_5m_profile": {"pool": "ingress_lossless_pool", "size": "1024", "dynamic_th": "0", "xon": "1024", "xon_offset": "2048", "xoff": "31744"},
  "ingress_lossy_profile":  {"pool": "ingress_lossless_pool", "size": "0",    "static_th": "4194304"},
  "egress_lossless_profile":{"pool": "egress_lossless_pool",  "size": "0",    "static_th": "8388608"},
  "egress_lossy_profile":   {"pool": "egress_lossy_pool",     "size": "1536", "dynamic_th": "1"}},
"BUFFER_PG":    {"Ethernet0|0": {"profile": "ingress_lossy_profile"}, "Ethernet0|3-4": {"profile": "pg_lossless_25000_5m_profile"}},
"BUFFER_QUEUE": {"Ethernet0|0-2": {"profile": "egress_lossy_profile"}, "Ethernet0|3-4": {"profile": "egress_lossless_profile"},
                 "Ethernet0|5-6": {"profile": "egress_lossy_profile"}},
"BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": ["ingress_lossy_profile"]}},
"CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m", "Ethernet4": "40m"}},
"DEFAULT_LOSSLESS_BUFFER_PARAMETER": {"AZURE": {"default_dynamic_th": "0", "over_subscribe_ratio": "2"}},
"LOSSLESS_TRAFFIC_PATTERN": {"AZURE": {"mtu": "1024", "small_packet_percentage": "50"}},
"DSCP_TO_TC_MAP": {"ROCE": {"0": "1", "8": "0", "26": "3", "34": "4", "46": "5", "48": "6"}},
"DOT1P_TO_TC_MAP": {"ROCE": {"0": "1", "1": "0", "3": "3", "4": "4", "6": "6", "7": "7"}},
"TC_TO_PRIORITY_GROUP_MAP": {"ROCE": {"0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7"}},
"TC_TO_QUEUE_MAP": {"ROCE": {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6", "7": "7"}},
"MAP_PFC_PRIORITY_TO_QUEUE": {"ROCE": {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6", "7": "7"}},
"PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {"ROCE": {"3": "3", "4": "4"}},
"TC_TO_DSCP_MAP": {"TUNNEL": {"3": "2", "4": "6"}},
"PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "ROCE", "tc_to_queue_map": "ROCE", "tc_to_pg_map": "ROCE",
  "pfc_to_queue_map": "ROCE", "pfc_enable": "3,4", "pfcwd_sw_enable": "3,4"}},
"WRED_PROFILE": {"ROCE_ECN": {"ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "102400",
   "green_max_threshold": "409600", "green_drop_probability": "5"}},
"SCHEDULER": {"lossy": {"type": "DWRR", "weight": "14"}, "lossless": {"type": "DWRR", "weight": "15"}, "ctrl": {"type": "STRICT"}},
"QUEUE": {"Ethernet0|0": {"scheduler": "lossy"}, "Ethernet0|3": {"scheduler": "lossless", "wred_profile": "ROCE_ECN"},
          "Ethernet0|4": {"scheduler": "lossless", "wred_profile": "ROCE_ECN"}, "Ethernet0|7": {"scheduler": "ctrl"}},
"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"},
  "Ethernet0": {"action": "drop", "detection_time": "400", "restoration_time": "400", "pfc_stat_history": "enable"}},
"INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.1/31": {}, "Ethernet4": {}, "Ethernet4|10.0.0.3/31": {}},
"VLAN": {"Vlan100": {"vlanid": "100"}}, "VLAN_MEMBER": {"Vlan100|Ethernet8": {"tagging_mode": "untagged"}},
"PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "min_links": "1"}}, "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet12": {}},
"STATIC_ROUTE": {"default|192.0.2.0/24": {"nexthop": "10.0.0.0,10.0.0.2", "ifname": "Ethernet0,Ethernet4", "distance": "0,0"}},
"SWITCH_HASH": {"GLOBAL": {"ecmp_hash": ["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT"], "ecmp_hash_algorithm": "CRC"}},
"SWITCH_TRIMMING": {"GLOBAL": {"size": "128", "dscp_value": "48", "queue_index": "6"}},
"ARS_PROFILE": {"prof": {"algorithm": "ewma", "ars_nhg_path_selector_mode": "interface", "default_ars_object": "obj", "sampling_interval": "16"}},
"ARS_OBJECT": {"obj": {"assign_mode": "per_flowlet_quality", "flowlet_idle_time": "64", "max_flows": "512"}},
"ARS_INTERFACES": {"Ethernet0": {"scaling_factor": "0"}, "Ethernet4": {"scaling_factor": "0"}},
"DEBUG_COUNTER": {"RX_BAD": {"type": "PORT_INGRESS_DROPS", "alias": "bad_rx", "drop_monitor_status": "enabled", "window": "600"}},
"DEBUG_COUNTER_DROP_REASON": {"RX_BAD|TTL": {}, "RX_BAD|LPM4_MISS": {}},
"FLEX_COUNTER_TABLE": {"PFCWD": {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "200"}, "PG_WATERMARK": {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "1000"}},
"MIRROR_SESSION": {"drops": {"type": "ERSPAN", "src_ip": "10.9.9.1", "dst_ip": "10.9.9.2", "dscp": "8", "ttl": "64", "queue": "0"}}
}"#;

#[test]
fn sonic_leaf_switch_loads_with_notes() {
    let loaded =
        load(&[("leaf", LEAF)], &resolve_options(&[])).unwrap_or_else(|problems| panic!("{problems}"));
    let config = loaded.resolved.config;
    assert_eq!(
        (config.name.as_str(), config.mark_point),
        ("emu-leaf1", EcnMarkPoint::Dequeue)
    );
    let port = &config.ports[0];
    let lossless = &config.profiles[usize::from(port.pgs[3])];
    assert_eq!(
        (lossless.threshold, lossless.xoff_bytes, lossless.xon_offset_bytes),
        (BufferThreshold::Dynamic(0), 31_744, 2_048)
    );
    assert_eq!(
        (port.pfc.enabled, port.classify.dscp_to_tc[46], port.mtu),
        (0b1_1000, 5, 9_100)
    );
    let silent = [
        "PORT",
        "DEVICE_METADATA",
        "BUFFER_",
        "DSCP_TO_TC",
        "QUEUE",
        "SCHEDULER",
        "WRED",
    ];
    for table in loaded.db.to_value().as_object().unwrap().keys() {
        let mut warnings = loaded.resolved.warnings.iter();
        let named = warnings.any(|warning| {
            let of_entry = warning.starts_with(&format!("{table}|"));
            of_entry
                || warning.starts_with("no effect: ") && warning.split([' ', ',']).any(|word| word == table)
        });
        let implemented = crate::schema::find_table(table).is_some();
        assert!(named || implemented, "{table} is ignored in silence");
        if silent.contains(&table.as_str()) {
            assert!(!named, "{table} is warned about");
        }
    }
    let watchdog = port.watchdog.expect("PFC_WD|Ethernet0");
    assert_eq!(
        (
            watchdog.queues,
            watchdog.detection,
            watchdog.restoration,
            watchdog.history
        ),
        (
            0b1_1000,
            Picos::from_millis(400),
            Some(Picos::from_millis(400)),
            true
        )
    );
    assert_eq!(parse(&loaded.db.to_json(), "again").unwrap(), loaded.db);
}

/// The configuration of the Tomahawk 2 switch with measured thresholds.
#[test]
fn measured_tomahawk_2_switch_loads() {
    let config = load_config(
        r#"{"XOFF_SWITCH": {"localhost": {"cell_size": "208"}},
        "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "8332272", "xoff": "1956864"}},
        "BUFFER_PROFILE": {"p": {"pool": "ingress_lossless_pool", "size": "1248", "dynamic_th": "0", "xoff": "101088", "xon_offset": "2496"}},
        "PORT": {"Ethernet0": {"speed": "100000"}}, "BUFFER_PG": {"Ethernet0|3": {"profile": "p"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}}}"#,
        &[],
    );
    let cells = |bytes: u64| bytes / u64::from(config.cell_bytes);
    assert_eq!(
        (
            cells(config.pools[0].size_bytes),
            cells(config.pools[0].xoff_bytes)
        ),
        (40_059, 9_408)
    );
    let profile = &config.profiles[0];
    assert_eq!(
        (
            cells(profile.size_bytes),
            cells(profile.xoff_bytes),
            cells(profile.xon_offset_bytes)
        ),
        (6, 486, 12)
    );
}

#[test]
fn same_unused_field_of_32_ports_is_one_note() {
    let ports: Vec<String> = (0..32)
        .map(|n| format!(r#""Ethernet{n}": {{"fec": "rs", "speed": "1000"}}"#))
        .collect();
    let text = format!(r#"{{"PORT": {{{}}}}}"#, ports.join(", "));
    assert_eq!(
        load_warnings(&text, &[]),
        ["no effect: PORT fec (these ports have no transceiver)"]
    );
}

#[test]
fn unknown_key_form_error_shows_the_known_form() {
    let text = r#"{"BUFFER_QUEUE": {"asic0|Ethernet0|3": {"profile": "p"}}}"#;
    assert_eq!(
        load_errors(text, &["Ethernet0"]),
        ["BUFFER_QUEUE|asic0|Ethernet0|3: expected a key of the form PORT|NUMBER or FIRST-LAST"]
    );
    assert!(load_text("{}", &[]).is_ok(), "no ports is a switch too");
}
