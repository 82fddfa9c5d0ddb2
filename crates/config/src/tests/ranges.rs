//! Tests of unusual values and keys that SONiC's models, programs or shipped configurations contain.

use xoff_dataplane::config::{BufferThreshold, NO_PROFILE, PoolSide};

use super::{load_config, load_errors, load_warnings};

const PORTS: &[&str] = &["Ethernet0", "Ethernet4"];

/// A pool and a profile of each side, and additional tables.
fn config_with(rest: &str) -> String {
    format!(
        r#"{{"BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "1000000"}},
            "out": {{"type": "egress", "mode": "dynamic", "size": "1000000"}}}},
          "BUFFER_PROFILE": {{"i": {{"pool": "in", "size": "0", "dynamic_th": "0"}},
            "e": {{"pool": "out", "size": "0", "dynamic_th": "0"}}}}, {rest}}}"#
    )
}

#[test]
fn sizes_of_64_bits_are_accepted() {
    for size in ["0", "4294967296", "56441610000", "18446744073709551615"] {
        let text = format!(
            r#"{{"BUFFER_POOL": {{"p": {{"type": "ingress", "mode": "dynamic", "size": "{size}", "xoff": "{size}"}}}},
              "BUFFER_PROFILE": {{"q": {{"pool": "p", "size": "{size}", "static_th": "{size}"}}}},
              "BUFFER_PG": {{"Ethernet0|0": {{"profile": "q"}}}},
              "WRED_PROFILE": {{"w": {{"ecn": "ecn_all", "green_min_threshold": "{size}", "green_max_threshold": "{size}"}}}},
              "QUEUE": {{"Ethernet0|3": {{"wred_profile": "w"}}}}}}"#
        );
        let config = load_config(&text, PORTS);
        let bytes = size.parse::<u64>().expect("a number").min(1 << 48);
        assert_eq!(
            (config.pools[0].size_bytes, config.pools[0].xoff_bytes),
            (bytes, bytes)
        );
        assert_eq!(config.profiles[0].size_bytes, bytes);
        assert_eq!(config.profiles[0].threshold, BufferThreshold::Static(bytes));
        assert_eq!(
            config.ports[0].queues[3].wred.map(|wred| wred.min_bytes),
            Some(bytes)
        );
    }
}

#[test]
fn pool_of_type_both_has_both_sides() {
    let text = r#"{"BUFFER_POOL": {"p": {"type": "both", "mode": "dynamic", "size": "9000", "xoff": "500"}},
        "BUFFER_PROFILE": {"q": {"pool": "p", "size": "100", "xoff": "300", "xon": "10", "dynamic_th": "1"}},
        "BUFFER_PG": {"Ethernet0|3": {"profile": "q"}}, "BUFFER_QUEUE": {"Ethernet0|3": {"profile": "q"}},
        "BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": ["q"]}}}"#;
    let config = load_config(text, PORTS);
    let side = |profile: u16| {
        let profile = &config.profiles[usize::from(profile)];
        let pool = &config.pools[usize::from(profile.pool)];
        assert_eq!((pool.name.as_str(), pool.size_bytes), ("p", 9_000));
        (pool.side, pool.xoff_bytes, profile.xoff_bytes)
    };
    assert_eq!(side(config.ports[0].pgs[3]), (PoolSide::Ingress, 500, 300));
    assert_eq!(side(config.ports[0].queues[3].profile), (PoolSide::Egress, 0, 0));
    assert_eq!(side(config.port_profiles[0].profile), (PoolSide::Egress, 0, 0));
}

#[test]
fn profiles_of_the_other_side_set_no_limit() {
    let text = config_with(
        r#""BUFFER_PG": {"Ethernet0|0-7": {"profile": "e"}, "Ethernet4|3": {"profile": "e"}},
           "BUFFER_QUEUE": {"Ethernet0|2": {"profile": "i"}}"#,
    );
    let config = load_config(&text, PORTS);
    let profile = |index: u16| &config.profiles[usize::from(index)];
    let port = &config.ports[0];
    for profile in [profile(port.pgs[5]), profile(port.queues[2].profile)] {
        assert_eq!(
            (profile.threshold, profile.xoff_bytes),
            (BufferThreshold::Static(0), 0)
        );
        assert_eq!(config.pools[usize::from(profile.pool)].size_bytes, 1 << 48);
    }
    assert_ne!(port.pgs[5], NO_PROFILE);
    assert_eq!(
        load_warnings(&text, PORTS),
        [
            "BUFFER_PG|Ethernet0|0-7 and 1 more: bound to a profile of an egress pool (e): these priority groups are not \
             limited at ingress",
            "BUFFER_QUEUE|Ethernet0|2: bound to a profile of an ingress pool (i): these queues are not limited at egress",
        ]
    );
}

#[test]
fn queues_above_7_are_left_out_with_a_note() {
    let text = config_with(
        r#""BUFFER_QUEUE": {"Ethernet0|0-9": {"profile": "e"}, "Ethernet4|8": {"profile": "e"}},
           "TC_TO_QUEUE_MAP": {"M": {"3": "3", "8": "9"}}, "SCHEDULER": {"TEST@0": {"type": "STRICT"}},
           "QUEUE": {"Ethernet0|7-15": {"scheduler": "TEST@0"}}"#,
    );
    let config = load_config(&text, PORTS);
    assert!(
        config.ports[0]
            .queues
            .iter()
            .all(|queue| config.profiles[usize::from(queue.profile)].name == "e")
    );
    assert_eq!(
        load_warnings(&text, PORTS),
        [
            "test.json: no effect: queues above 7 in 4 entries of BUFFER_QUEUE, QUEUE, TC_TO_QUEUE_MAP; ports have queues 0 to 7"
        ]
    );
    assert_eq!(
        load_errors(
            &config_with(r#""BUFFER_QUEUE": {"Ethernet0|16": {"profile": "e"}}"#),
            PORTS
        )
        .len(),
        1
    );
}

#[test]
fn only_chassis_keys_of_this_line_card_are_used() {
    let text = config_with(
        r#""DEVICE_METADATA": {"localhost": {"hostname": "lc1", "asic_name": "Asic0", "switch_type": "voq"}},
           "BUFFER_QUEUE": {"lc1|asic0|Ethernet0|3": {"profile": "e"}, "lc1|Asic1|Ethernet0|3": {"profile": "e"},
             "lc2|Asic0|Ethernet88|3": {"profile": "e"}}"#,
    );
    let config = load_config(&text, PORTS);
    assert_eq!(
        config.profiles[usize::from(config.ports[0].queues[3].profile)].name,
        "e"
    );
    let notes = load_warnings(&text, PORTS);
    assert_eq!(
        notes[0],
        "test.json: no effect: 2 keys of BUFFER_QUEUE and QUEUE belong to other line cards or ASICs (lc1|Asic1 and 1 \
         more); this one is lc1|Asic0"
    );
}

#[test]
fn blanks_around_numbers_are_ignored() {
    let text = r#"{"BUFFER_POOL": {"p": {"type": "ingress", "mode": "static", "size": " 4096  "}},
        "DSCP_TO_TC_MAP": {"M": {"26": " 3"}}, "PORT": {"Ethernet0": {"speed": "40000 ", "mtu": " 9100"}}}"#;
    let config = load_config(text, &["Ethernet0"]);
    assert_eq!((config.pools[0].size_bytes, config.ports[0].mtu), (4_096, 9_100));
    assert_eq!(config.ports[0].link.speed_mbps, 40_000);
}

#[test]
fn address_without_length_is_a_host_address() {
    let text = r#"{"INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.1": {}, "Ethernet0|2001:db8::1": {}},
        "LOOPBACK_INTERFACE": {"Loopback0|10.1.0.1/32": {}}}"#;
    let config = load_config(text, PORTS);
    let interfaces = &config.routing.interfaces;
    let of = |name: &str| {
        let interface = interfaces.iter().find(|interface| interface.name == name);
        let addresses = &interface.expect("it is there").addresses;
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(of("Ethernet0").contains(&"10.0.0.1/32".to_owned()));
    assert!(of("Ethernet0").contains(&"2001:db8::1/128".to_owned()));
    assert_eq!(
        of("Loopback0")[0],
        "10.1.0.1/32",
        "the address creates the interface"
    );
}

#[test]
fn management_routes_are_noted_and_ignored() {
    let text = r#"{"MGMT_INTERFACE": {"eth0|10.250.0.5/24": {}}, "MGMT_PORT": {"eth1": {}},
        "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.1.0.1/24": {}},
        "STATIC_ROUTE": {"mgmt|0.0.0.0/0": {"nexthop": "10.250.0.1"}, "0.0.0.0/0": {"nexthop": "10.250.0.1", "ifname": "eth0"},
          "10.8.0.0/16": {"nexthop": "10.9.9.9", "ifname": "eth1"}, "10.7.0.0/16": {"nexthop": "10.9.9.9", "nexthop-vrf": "mgmt"},
          "10.9.0.0/16": {"nexthop": "10.1.0.2"}}}"#;
    let notes = load_warnings(text, PORTS);
    let note = "STATIC_ROUTE|0.0.0.0/0, 10.7.0.0/16, 10.8.0.0/16, mgmt|0.0.0.0/0: no effect: the management network is \
                outside the data path of a switch";
    assert!(notes.iter().any(|line| line == note), "{notes:?}");
    let unknown = r#"{"INTERFACE": {"Ethernet0": {}}, "STATIC_ROUTE": {"10.8.0.0/16": {"ifname": "eth0"}}}"#;
    assert_eq!(
        load_errors(unknown, PORTS).len(),
        1,
        "no interface of the management network"
    );
}

#[test]
fn xon_and_xon_offset_can_be_combined() {
    let text = r#"{"BUFFER_POOL": {"p": {"type": "ingress", "mode": "dynamic", "size": "1000000"}},
        "BUFFER_PROFILE": {"q": {"pool": "p", "size": "50000", "xoff": "9000", "xon": "46080", "xon_offset": "500000",
          "dynamic_th": "0"}}, "BUFFER_PG": {"Ethernet0|3": {"profile": "q"}}}"#;
    let config = load_config(text, PORTS);
    assert_eq!(
        (config.profiles[0].xon_bytes, config.profiles[0].xon_offset_bytes),
        (46_080, 500_000)
    );
}

#[test]
fn lossless_queue_limit_below_the_xoff_threshold_is_noted() {
    let queue = |limit: u32| {
        format!(
            r#"{{"BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "1000000"}},
                "out": {{"type": "egress", "mode": "static", "size": "2000000"}}}},
              "BUFFER_PROFILE": {{"l": {{"pool": "in", "size": "9000", "xoff": "9000", "xon": "0", "xon_offset": "1", "dynamic_th": "0"}},
                "e": {{"pool": "out", "size": "0", "static_th": "{limit}"}}}},
              "BUFFER_PG": {{"Ethernet0|3": {{"profile": "l"}}}}, "BUFFER_QUEUE": {{"Ethernet0|3": {{"profile": "e"}}}},
              "DSCP_TO_TC_MAP": {{"M": {{"26": "3"}}}}, "TC_TO_QUEUE_MAP": {{"Q": {{"3": "3"}}}},
              "TC_TO_PRIORITY_GROUP_MAP": {{"P": {{"3": "3"}}}},
              "PORT_QOS_MAP": {{"Ethernet0": {{"dscp_to_tc_map": "M", "tc_to_queue_map": "Q", "tc_to_pg_map": "P",
                "pfc_enable": "3"}}}}}}"#
        )
    };
    let note = "Ethernet0: queue 3 is lossless: the limit of its profile e, 51200 bytes, is below the XOFF threshold of 500000 \
                bytes and is not enforced; a chip that enforces it drops lossless frames there";
    let is_noted = |limit| {
        load_warnings(&queue(limit), &["Ethernet0"])
            .iter()
            .any(|line| line == note)
    };
    assert!(is_noted(51_200) && !is_noted(600_000));
}

#[test]
fn fields_ignored_by_sonic_are_noted() {
    let text = r#"{"PORT": {"Ethernet0": {"autoneg": "1", "valid_speeds": "40000,100000", "tpid": "0x88A8"}},
        "BUFFER_POOL": {"p": {"type": "ingress", "mode": "static", "size": "4096"}},
        "BUFFER_PROFILE": {"q": {"pool": "p", "size": "0", "static_th": "1", "mode": "static"}}}"#;
    let config = load_config(text, &["Ethernet0"]);
    assert_eq!(config.ports[0].tpid, 0x88a8);
    let notes = load_warnings(text, &["Ethernet0"]);
    for name in ["BUFFER_PROFILE mode", "PORT autoneg", "valid_speeds"] {
        assert!(
            notes[0].starts_with("no effect: ") && notes[0].contains(name),
            "{notes:?}"
        );
    }
}

/// Each text is valid. The note contains these words, or no note exists if there are no words.
#[test]
fn values_of_sonics_models_and_programs_load() {
    let interface = r#""INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}}"#;
    let lag = |fields: &str| {
        format!(
            r#""PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up", "static": "true", {fields}}}}}, "PORTCHANNEL_MEMBER": {{"PortChannel1|Ethernet4": {{}}}}"#
        )
    };
    let profile = |fields: &str| {
        format!(
            r#""BUFFER_POOL": {{"p": {{"type": "ingress", "mode": "dynamic", "size": "9000"}}}}, "BUFFER_PROFILE": {{{fields}}}"#
        )
    };
    let cases: &[(String, &str)] = &[
        (r#""SCHEDULER": {"s": {"type": "DWRR", "weight": "0"}}, "QUEUE": {"Ethernet0|1": {"scheduler": "s"}}"#.to_owned(), "weight 0 works as 1"),
        (lag(r#""mtu": "1""#), "mtu 1 has no effect"),
        (lag(r#""mtu": "68""#), ""),
        (r#""VLAN": {"Vlan10": {"vlanid": "10", "mtu": "1"}}, "VLAN_INTERFACE": {"Vlan10": {}}"#.to_owned(), "mtu 1 has no effect"),
        (r#""PORT": {"Ethernet0": {"tpid": "0x8A88"}, "Ethernet4": {"tpid": "0x1"}}"#.to_owned(), ""),
        (r#""QUEUE": {"CPU|0-7": {}}"#.to_owned(), "queues of CPU in QUEUE"),
        (r#""LOOPBACK_INTERFACE": {"lo1|10.0.0.1/32": {}}"#.to_owned(), ""),
        (r#""INTERFACE": {"Ethernet0|10.0.0.0/31": {}}"#.to_owned(), "INTERFACE|Ethernet0 is missing"),
        (format!(r#"{interface}, "STATIC_ROUTE": {{"10.9.0.1/24": {{"nexthop": "10.0.0.1"}}}}"#), "the route is to 10.9.0.0/24"),
        (profile(r#""q": {"pool": "p", "size": "0"}"#), "dynamic_th 0 is assumed"),
        (
            format!(
                r#"{}, "BUFFER_PORT_INGRESS_PROFILE_LIST": {{"Ethernet0": {{"profile_list": "a,b"}}}}"#,
                profile(r#""a": {"pool": "p", "size": "0", "dynamic_th": "0"}, "b": {"pool": "p", "size": "0", "dynamic_th": "0"}"#)
            ),
            "b has no effect: a of the same list has the same pool p",
        ),
        (r#""PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "100", "BIG_RED_SWITCH": "enable"}}"#.to_owned(), ""),
    ];
    for (text, note) in cases {
        let text = format!("{{{text}}}");
        let notes = load_warnings(&text, PORTS).join("\n");
        assert!(notes.contains(note), "{text}: {notes}");
    }
}

/// In old files, an address key alone defines an interface. Such a port cannot be a member of a VLAN.
#[test]
fn interface_with_only_an_address_key_cannot_be_a_vlan_member() {
    let text = r#"{"INTERFACE": {"Ethernet0|10.0.0.0/31": {}}, "VLAN": {"Vlan10": {}},
        "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "untagged"}}}"#;
    assert_eq!(
        load_errors(text, PORTS),
        [
            "VLAN_MEMBER|Vlan10|Ethernet0: Ethernet0 is a routed port with an entry in INTERFACE; remove one of the two"
        ]
    );
}

/// Values that neither SONiC's models nor its programs accept are refused.
#[test]
fn values_beyond_the_ranges_are_refused() {
    for (text, part) in [
        (
            r#"{"SCHEDULER": {"s": {"type": "DWRR", "weight": "101"}}}"#,
            "from 0 to 100",
        ),
        (
            r#"{"PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "mtu": "0"}}}"#,
            "from 1 to 9216",
        ),
        (r#"{"PORT": {"Ethernet0": {"tpid": "8100"}}}"#, "such as 0x8100"),
        (
            r#"{"PORT": {"Ethernet0": {"tpid": "0x18100"}}}"#,
            "such as 0x8100",
        ),
        (
            r#"{"LOOPBACK_INTERFACE": {"Eth0": {}}}"#,
            "from Loopback0 to Loopback999",
        ),
        (
            r#"{"PFC_WD": {"Ethernet0": {"detection_time": "99"}}}"#,
            "from 100 to 5000",
        ),
    ] {
        let errors = load_errors(text, PORTS);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
}
