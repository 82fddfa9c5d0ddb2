//! Tests of LLDP and DCBX between switches, and between a switch and a host.

use serde_json::{Value, json};
use xoff_config::{ResolveOptions, load};
use xoff_dataplane::{LinkTiming, Picos, PortId, SwitchEventKind};
use xoff_host::HostConfig;
use xoff_telemetry::{LldpPortReport, event_name};
use xoff_wire::dcbx::DcbxConfiguration;
use xoff_wire::lldp::{ChassisId, PortId as LldpPortId, RawTlv, kind, write_tlvs};
use xoff_wire::lldp_port::LldpPortSettings;
use xoff_wire::mac_control::{MacControl, Pfc};

use super::*;

const SPEED_MBPS: u32 = 100_000;
const DELAY: Picos = Picos::from_micros(1);
const SECOND: Picos = Picos::from_millis(1_000);

/// Returns the tables of a switch with two ports and LLDP. Priorities 3 and 4 have headroom.
fn tables(dcbx: &Value, pfc_enable: Option<&str>, weight: u32) -> Value {
    let mut tables = json!({
        "PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": {"speed": "100000"}},
        "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "10000000"}},
        "BUFFER_PROFILE": {"lossless": {"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "100000", "xon": "0"}},
        "BUFFER_PG": {"Ethernet0|3-4": {"profile": "lossless"}, "Ethernet4|3-4": {"profile": "lossless"}},
        "SCHEDULER": {"port": {"type": "DWRR", "weight": "1"}, "heavy": {"type": "DWRR", "weight": weight.to_string()}},
        "QUEUE": {"Ethernet0|3": {"scheduler": "heavy"}, "Ethernet4|3": {"scheduler": "heavy"}},
        "LLDP": {"GLOBAL": {"enabled": "true", "hello_time": "5", "multiplier": "2"}},
        "XOFF_DCBX": {"Ethernet0": dcbx, "Ethernet4": dcbx},
    });
    if let Some(priorities) = pfc_enable {
        let qos = json!({"pfc_enable": priorities});
        tables["PORT_QOS_MAP"] = json!({"Ethernet0": qos, "Ethernet4": qos});
    }
    tables
}

/// Ports of each switch.
const PORTS: [&str; 2] = ["Ethernet0", "Ethernet4"];

/// Resolves the configuration of a switch with these ports.
pub(super) fn resolve(name: &str, ports: &[&str], tables: &Value) -> xoff_dataplane::config::SwitchConfig {
    let options = ResolveOptions {
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        hostname: Some(name.to_owned()),
        seed: 1,
        ..ResolveOptions::default()
    };
    let text = tables.to_string();
    let loaded = load(&[("test.json", text.as_str())], &options);
    loaded
        .unwrap_or_else(|problems| panic!("{problems}"))
        .resolved
        .config
}

/// Creates two switches that are connected by `Ethernet0`, and a host at `Ethernet4` of the first switch.
fn fabric(switches: [Value; 2], lldp: Option<LldpPortSettings>) -> Fabric {
    let mut host = HostConfig::new("h1", [2, 0, 0, 0, 0, 9], LinkTiming::ethernet(SPEED_MBPS));
    host.nic.pfc_honoured = 0;
    host.lldp = lldp;
    let port = |switch, port| LinkEnd::Switch { switch, port };
    let link = |name: &str, ends| LinkPlan {
        name: name.to_owned(),
        ends,
        delay: DELAY,
    };
    let [one, other] = switches;
    let plan = FabricPlan {
        switches: vec![
            resolve("sw1", &PORTS, &one).into(),
            resolve("sw2", &PORTS, &other).into(),
        ],
        hosts: vec![host],
        links: vec![
            link("sw1-sw2", [port(0, 0), port(1, 0)]),
            link("h1-sw1", [LinkEnd::Host(0), port(0, 1)]),
        ],
    };
    Fabric::new(plan, 1).expect("the plan is valid")
}

fn host_settings(is_willing: bool, enabled: u8) -> LldpPortSettings {
    let mac = [2, 0, 0, 0, 0, 9];
    let mut dcbx = DcbxConfiguration::default();
    (dcbx.pfc.is_willing, dcbx.pfc.enabled) = (is_willing, enabled);
    LldpPortSettings {
        interval_s: 5,
        hold: 2,
        dcbx: Some(dcbx),
        ..LldpPortSettings::new(mac, ChassisId::mac(mac), LldpPortId::mac(mac))
    }
}

/// Returns the report of a port with LLDP.
fn lldp_port(fabric: &Fabric, switch: usize, port: usize) -> LldpPortReport {
    let report = fabric.snapshot(switch).report.lldp.expect("LLDP is on");
    report.ports[port].clone()
}

fn enabled_pfc(fabric: &Fabric, switch: usize, port: u16) -> u8 {
    fabric.switch(switch).flow_control(PortId(port)).enabled
}

/// Returns the names of the LLDP events of a port.
fn event_names(fabric: &Fabric, switch: usize, port: u16) -> Vec<&'static str> {
    let events = fabric.snapshot(switch).events;
    let of_port = events
        .iter()
        .filter(|event| matches!(event.kind, SwitchEventKind::Lldp { port: at, .. } if at == PortId(port)));
    of_port.map(|event| event_name(&event.kind)).collect()
}

fn willing(pfc: bool, ets: bool) -> Value {
    json!({"pfc_willing": pfc.to_string(), "ets_willing": ets.to_string()})
}

/// Sends a PFC frame from the host that pauses the priorities of a mask.
fn pause_from_host(fabric: &mut Fabric, priorities: u8) {
    let pfc = Pfc {
        enable: priorities,
        quanta: [u16::MAX; 8],
    };
    let sent = fabric.change_host(0, &mut (), |host, now| {
        host.send_mac_control(now, MacControl::Pfc(pfc))
    });
    assert_eq!(sent, Ok(()));
    let soon = fabric.now() + Picos::from_micros(10);
    fabric.run(soon, &mut ());
}

#[test]
fn negotiated_pfc_takes_effect_until_the_information_expires_and_when_the_link_is_down() {
    let switch = tables(&willing(true, false), None, 1);
    let peer = tables(&willing(false, false), None, 1);
    let mut fabric = fabric([switch, peer], Some(host_settings(false, 1 << 3)));
    fabric.run(Picos::from_millis(1), &mut ());
    let port = PortId(1);
    assert_eq!(
        fabric.switch(0).pause_priority_masks(port, 3, 3),
        (1 << 3, 1 << 3)
    );
    assert_eq!(fabric.switch(0).pause_priority_masks(port, 4, 4), (0, 1 << 4));
    pause_from_host(&mut fabric, 0b11000);
    assert_eq!(fabric.switch(0).paused_priorities(port), 1 << 3);
    assert!(fabric.snapshot(0).report.ports[1].pfc_enabled[3]);

    // The host stops sending LLDP frames. The pauses end with the negotiated configuration.
    let settings = LldpPortSettings {
        transmits: false,
        ..host_settings(false, 1 << 3)
    };
    fabric.change_host(0, &mut (), |host, now| host.set_lldp(now, Some(settings)));
    fabric.run(SECOND, &mut ());
    assert_eq!(enabled_pfc(&fabric, 0, 1), 1 << 3);
    pause_from_host(&mut fabric, 1 << 3);
    fabric.run(Picos(11 * SECOND.0 + Picos::from_millis(10).0), &mut ());
    assert_eq!(
        (
            enabled_pfc(&fabric, 0, 1),
            fabric.switch(0).paused_priorities(port)
        ),
        (0, 0)
    );
    assert_eq!(lldp_port(&fabric, 0, 1).ageouts, 1);

    let again = host_settings(false, 1 << 4);
    fabric.change_host(0, &mut (), |host, now| host.set_lldp(now, Some(again)));
    fabric.run(Picos(12 * SECOND.0), &mut ());
    assert_eq!(enabled_pfc(&fabric, 0, 1), 1 << 4);
    fabric.set_link(1, false, &mut ());
    assert_eq!(
        (
            enabled_pfc(&fabric, 0, 1),
            lldp_port(&fabric, 0, 1).neighbours.len()
        ),
        (0, 0)
    );
    assert_eq!(fabric.host(0).lldp().map(|lldp| lldp.neighbours().len()), Some(0));
    fabric.set_link(1, true, &mut ());
    let soon = fabric.now() + Picos::from_millis(1);
    fabric.run(soon, &mut ());
    assert_eq!(enabled_pfc(&fabric, 0, 1), 1 << 4);
}

#[test]
fn a_configured_pfc_enable_wins_and_a_new_configuration_keeps_the_negotiated_pfc() {
    let peer = tables(&willing(false, false), Some("4"), 1);
    let mut fabric = fabric([tables(&willing(true, false), Some("3"), 1), peer], None);
    fabric.run(Picos::from_millis(1), &mut ());
    let dcbx = lldp_port(&fabric, 0, 0).dcbx.expect("DCBX is on");
    assert_eq!((enabled_pfc(&fabric, 0, 0), dcbx.pfc_willing), (1 << 3, false));
    assert_eq!(
        dcbx.mismatches,
        ["PFC: this port has PFC on priority 3, the peer on priority 4; neither port is willing"]
    );

    // Without `pfc_enable`, the port is willing.
    let configure = |fabric: &mut Fabric, tables: &Value| {
        let config = resolve("sw1", &PORTS, tables).into();
        fabric
            .configure_switch(0, config, &mut ())
            .expect("the ports are the same");
        let soon = fabric.now() + Picos::from_millis(1);
        fabric.run(soon, &mut ());
    };
    configure(&mut fabric, &tables(&willing(true, false), None, 1));
    assert_eq!(enabled_pfc(&fabric, 0, 0), 1 << 4);
    assert_eq!(
        lldp_port(&fabric, 0, 0).dcbx.expect("DCBX is on").mismatches,
        [""; 0]
    );
    configure(&mut fabric, &tables(&willing(true, true), None, 7));
    assert_eq!(enabled_pfc(&fabric, 0, 0), 1 << 4);

    let mut off = tables(&willing(true, false), None, 1);
    off.as_object_mut().expect("an object").remove("LLDP");
    configure(&mut fabric, &off);
    assert_eq!(
        (enabled_pfc(&fabric, 0, 0), fabric.snapshot(0).report.lldp),
        (0, None)
    );
    // The shutdown LLDPDU has ended the information at the neighbour.
    assert_eq!(lldp_port(&fabric, 1, 0).neighbours, []);
    configure(&mut fabric, &tables(&willing(true, false), None, 1));
    assert_eq!(
        (
            enabled_pfc(&fabric, 0, 0),
            lldp_port(&fabric, 1, 0).neighbours.len()
        ),
        (1 << 4, 1)
    );
}

#[test]
fn a_malformed_tlv_has_no_effect_and_is_named() {
    let mut fabric = fabric(
        [
            tables(&willing(true, false), None, 1),
            tables(&willing(false, false), None, 1),
        ],
        None,
    );
    fabric.run(Picos::from_millis(1), &mut ());
    let tlv = |kind, value: &[u8]| RawTlv {
        kind,
        value: value.to_vec(),
    };
    let pfc = |information: &[u8]| {
        let tlvs = [
            tlv(kind::CHASSIS_ID, b"\x07host"),
            tlv(kind::PORT_ID, b"\x071"),
            tlv(kind::TIME_TO_LIVE, &[0, 60]),
            RawTlv::organisation(xoff_wire::lldp::OUI_IEEE_8021, 0x0b, information),
        ];
        write_tlvs([2, 0, 0, 0, 0, 9], &tlvs)
    };
    let send = |fabric: &mut Fabric, frame: &[u8]| {
        let sent = fabric.change_host(0, &mut (), |host, now| host.send_frame(now, frame));
        assert_eq!(sent, Ok(()));
        let soon = fabric.now() + Picos::from_millis(1);
        fabric.run(soon, &mut ());
    };
    send(&mut fabric, &pfc(&[0x08, 1 << 3, 0]));
    assert_eq!(enabled_pfc(&fabric, 0, 1), 0);
    let port = lldp_port(&fabric, 0, 1);
    assert_eq!(
        port.neighbours[0].rejected,
        ["PFC configuration: length in bytes is 7, expected 6 (IEEE 802.1Q-2018 D.2.10)"]
    );
    assert_eq!(
        event_names(&fabric, 0, 1),
        ["lldp-neighbour-added", "lldp-rejected"]
    );
    send(&mut fabric, &pfc(&[0x08, 1 << 3]));
    assert_eq!(
        (
            enabled_pfc(&fabric, 0, 1),
            lldp_port(&fabric, 0, 1).neighbours[0].rejected.len()
        ),
        (1 << 3, 0)
    );
    // A frame without a mandatory TLV is not valid as a whole. The earlier information remains.
    send(
        &mut fabric,
        &write_tlvs([2, 0, 0, 0, 0, 9], &[tlv(kind::CHASSIS_ID, b"\x07host")]),
    );
    let port = lldp_port(&fabric, 0, 1);
    assert_eq!((enabled_pfc(&fabric, 0, 1), port.frames_discarded), (1 << 3, 1));
    assert!(
        port.last_problem
            .is_some_and(|problem| problem.starts_with("port ID"))
    );
}

#[test]
fn lldp_is_off_without_its_table() {
    let mut without = tables(&willing(true, false), None, 1);
    without.as_object_mut().expect("an object").remove("LLDP");
    let mut fabric = fabric([without.clone(), without], Some(host_settings(false, 1 << 3)));
    fabric.run(SECOND, &mut ());
    for switch in 0..2 {
        let snapshot = fabric.snapshot(switch);
        assert_eq!((snapshot.report.lldp, enabled_pfc(&fabric, switch, 0)), (None, 0));
        assert_eq!(snapshot.report.ports[0].rx_packets, 0);
    }
    assert_eq!(fabric.snapshot(0).report.ports[1].drops["DMAC_RESERVED"], 1);
    assert_eq!(fabric.host(0).lldp().map(|lldp| lldp.neighbours().len()), Some(0));
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let reports = [1, 2].map(|threads| {
        let mut host = HostConfig::new("h1", [2, 0, 0, 0, 0, 9], LinkTiming::ethernet(SPEED_MBPS));
        host.lldp = Some(host_settings(true, 0));
        let port = |switch, port| LinkEnd::Switch { switch, port };
        let link = |name: &str, ends| LinkPlan {
            name: name.to_owned(),
            ends,
            delay: DELAY,
        };
        let plan = FabricPlan {
            switches: vec![
                resolve("sw1", &PORTS, &tables(&willing(true, true), None, 1)).into(),
                resolve("sw2", &PORTS, &tables(&willing(false, false), Some("3"), 13)).into(),
            ],
            hosts: vec![host],
            links: vec![
                link("sw1-sw2", [port(0, 0), port(1, 0)]),
                link("h1-sw1", [LinkEnd::Host(0), port(0, 1)]),
            ],
        };
        let mut fabric = Fabric::with_threads(plan, 1, threads).expect("the plan is valid");
        fabric.run(Picos(20 * SECOND.0), &mut ());
        let snapshots = [0, 1].map(|switch| fabric.snapshot(switch));
        snapshots.map(|snapshot| (snapshot.report.lldp, snapshot.events))
    });
    assert_eq!(reports[0], reports[1]);
    let sent = reports[0][0].0.as_ref().expect("LLDP is on").ports[0].frames_sent;
    assert!((4..12).contains(&sent), "{sent}");
}
