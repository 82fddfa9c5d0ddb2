//! Tests of the default MTU, which is the MTU of the network device.

use super::*;
use crate::{DeviceDefaults, DeviceMtu, build_preset};

/// Options with these ports, whose devices `eth0`, `eth1`, ... have the given MTUs.
fn options_with_devices(devices: &[(&str, u32)]) -> ResolveOptions {
    let names: Vec<&str> = devices.iter().map(|(port, _)| *port).collect();
    let device_mtu = |(n, (port, mtu)): (usize, &(&str, u32))| {
        let device = format!("eth{n}");
        ((*port).to_owned(), DeviceMtu::new(device, *mtu))
    };
    ResolveOptions {
        devices: DeviceDefaults {
            mtu_by_port: devices.iter().enumerate().map(device_mtu).collect(),
            ..DeviceDefaults::default()
        },
        ..resolve_options(&names)
    }
}

#[track_caller]
fn load_with_devices(text: &str, devices: &[(&str, u32)]) -> LoadedConfig {
    load(&[("test.json", text)], &options_with_devices(devices))
        .unwrap_or_else(|problems| panic!("refused:\n{problems}"))
}

#[test]
fn ports_without_an_mtu_use_the_mtu_of_their_device() {
    let loaded = load_with_devices(
        r#"{"PORT": {"Ethernet4": {"mtu": "1500"}}}"#,
        &[
            ("Ethernet0", 4_200),
            ("Ethernet4", 4_200),
            ("Ethernet8", 65_536),
            ("Ethernet12", 68),
        ],
    );
    let mtus: Vec<u32> = loaded.resolved.config.ports.iter().map(|port| port.mtu).collect();
    assert_eq!(mtus, [4_200, 1_500, 9_216, 68]);
    let computed = |port: &str| loaded.resolved.generated.get("PORT", port, "mtu");
    assert_eq!(computed("Ethernet0").as_deref(), Some("4200"));
    assert_eq!(computed("Ethernet4"), None, "this MTU is written, not computed");
    assert_eq!(computed("Ethernet8").as_deref(), Some("9216"));
    let without_device = load_config("{}", &["Ethernet0"]);
    assert_eq!(without_device.ports[0].mtu, 1_500);
}

#[test]
fn interfaces_and_headroom_follow_the_mtu_of_the_device() {
    let text = r#"{
        "PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "static": "true"}},
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}, "PortChannel1|Ethernet4": {}},
        "PORTCHANNEL_INTERFACE": {"PortChannel1": {}, "PortChannel1|10.0.0.1/24": {}},
        "VLAN": {"Vlan10": {"vlanid": "10"}},
        "VLAN_MEMBER": {"Vlan10|Ethernet8": {"tagging_mode": "untagged"},
                        "Vlan10|Ethernet12": {"tagging_mode": "untagged"}},
        "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|10.0.1.1/24": {}}
    }"#;
    let devices = [
        ("Ethernet0", 4_200),
        ("Ethernet4", 5_000),
        ("Ethernet8", 9_000),
        ("Ethernet12", 3_000),
    ];
    let config = load_with_devices(text, &devices).resolved.config;
    let interface_mtus: Vec<(&str, u32)> = config
        .routing
        .interfaces
        .iter()
        .map(|interface| (interface.name.as_str(), interface.mtu))
        .collect();
    assert!(
        interface_mtus.contains(&("PortChannel1", 4_200)),
        "{interface_mtus:?}"
    );
    assert!(interface_mtus.contains(&("Vlan10", 3_000)), "{interface_mtus:?}");

    let dynamic = r#"{
        "DEVICE_METADATA": {"localhost": {"buffer_model": "dynamic"}},
        "CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}},
        "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "10485760"}},
        "BUFFER_PG": {"Ethernet0|3": {"profile": "NULL"}}
    }"#;
    let headroom = |mtu: u32| {
        let config = load_with_devices(dynamic, &[("Ethernet0", mtu)]).resolved.config;
        let profile = &config.profiles[usize::from(config.ports[0].pgs[3])];
        (profile.name.clone(), profile.xoff_bytes)
    };
    let (small, large) = (headroom(1_500), headroom(8_000));
    assert!(large.0.contains("mtu8000"), "{large:?}");
    assert!(small.1 < large.1, "{small:?} {large:?}");
}

#[test]
fn an_mtu_above_the_mtu_of_the_device_is_refused() {
    for (text, place) in [
        (
            r#"{"PORT": {"Ethernet0": {"mtu": "9100"}}}"#,
            "PORT|Ethernet0 mtu",
        ),
        (
            r#"{"PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "mtu": "9100", "static": "true"}},
                "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}}"#,
            "PORTCHANNEL|PortChannel1 mtu",
        ),
    ] {
        let problems = load(
            &[("test.json", text)],
            &options_with_devices(&[("Ethernet0", 1_500)]),
        )
        .expect_err("the device is too small");
        let message = problems.to_string();
        for part in [place, "9100", "1500", "'eth0'", "ip link set dev eth0 mtu 9100"] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(problems.as_slice().len(), 1, "{message}");
        load_with_devices(text, &[("Ethernet0", 9_100)]);
    }
}

#[test]
fn a_written_mtu_outlives_the_larger_mtu_of_its_device() {
    let mut options = options_with_devices(&[("Ethernet0", 1_500)]);
    let device = options
        .devices
        .mtu_by_port
        .get_mut("Ethernet0")
        .expect("a device");
    device.outlived_port_mtu = Some(9_100);
    let load = |text: &str| load(&[("test.json", text)], &options);
    let loaded = load(r#"{"PORT": {"Ethernet0": {"mtu": "9100"}}}"#).expect("this MTU was valid before");
    assert_eq!(loaded.resolved.config.ports[0].mtu, 9_100);
    let warnings = loaded.resolved.warnings.join("\n");
    assert!(warnings.contains("device 'eth0' has MTU 1500 now"), "{warnings}");
    // Another MTU is a new error, and a port without an MTU uses that of the device.
    load(r#"{"PORT": {"Ethernet0": {"mtu": "9000"}}}"#).expect_err("longer frames would be lost");
    assert_eq!(load("{}").expect("good").resolved.config.ports[0].mtu, 1_500);
}

#[test]
fn ports_of_a_preset_without_a_device_await_its_mtu() {
    let devices = DeviceDefaults {
        missing: ["Ethernet0".to_owned()].into(),
        ..DeviceDefaults::default()
    };
    let ports = [("Ethernet0".to_owned(), 1_000), ("Ethernet4".to_owned(), 1_000)];
    let mut preset = build_preset("roce-lossless", &ports, Picos::ZERO).expect("the preset exists");
    assert_eq!(devices.replace_mtus_of_preset(&mut preset), None);
    assert_eq!(preset.get("PORT", "Ethernet0", "mtu"), None);
    assert_eq!(preset.get("PORT", "Ethernet4", "mtu").as_deref(), Some("9100"));
}

#[test]
fn ports_of_a_preset_use_the_mtu_of_their_device() {
    let devices = [("Ethernet0", 1_500), ("Ethernet4", 9_100), ("Ethernet8", 4_200)];
    let options = options_with_devices(&devices);
    let ports: Vec<(String, u32)> = devices
        .iter()
        .map(|(port, _)| ((*port).to_owned(), 1_000))
        .collect();
    let mut preset = build_preset("roce-lossless", &ports, Picos::ZERO).expect("the preset exists");
    let note = options.devices.replace_mtus_of_preset(&mut preset);
    assert_eq!(
        note.as_deref(),
        Some(
            "the ports of the preset use the MTU of their devices instead of 9100: 1500 at Ethernet0 (eth0); \
             4200 at Ethernet8 (eth2)"
        )
    );
    let preset = preset.to_json();
    let config = load(&[("preset", &preset)], &options)
        .expect("good")
        .resolved
        .config;
    let mtus: Vec<u32> = config.ports.iter().map(|port| port.mtu).collect();
    assert_eq!(mtus, [1_500, 9_100, 4_200]);
    // A file above the preset still decides.
    let layers = [
        ("preset", preset.as_str()),
        ("f", r#"{"PORT": {"Ethernet8": {"mtu": "2000"}}}"#),
    ];
    assert_eq!(
        load(&layers, &options).expect("good").resolved.config.ports[2].mtu,
        2_000
    );
    let mut unchanged = build_preset("roce-lossless", &ports, Picos::ZERO).expect("the preset exists");
    assert_eq!(
        DeviceDefaults::default().replace_mtus_of_preset(&mut unchanged),
        None
    );
}
