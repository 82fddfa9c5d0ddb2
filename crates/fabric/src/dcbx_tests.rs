//! Tests of DCBX: all combinations of willing ends, the effect of a negotiated ETS configuration, and refusals.
//!
//! The expectations follow the text of IEEE 802.1Q-2018 38.4 and do not call the negotiation.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use xoff_dataplane::{LinkTiming, Picos, PortId};
use xoff_host::{FlowConfig, HostConfig};
use xoff_telemetry::DcbxReport;
use xoff_wire::dcbx::{ConfigurationSource, DcbxConfiguration};
use xoff_wire::lldp::{ChassisId, EtsTables, PortId as LldpPortId, SelectionAlgorithm};
use xoff_wire::lldp_port::{LldpPort, LldpPortSettings};

use super::lldp_tests::resolve;
use super::*;

/// A slow link, so that seconds of saturated traffic are few frames.
const SPEED_MBPS: u32 = 100;
const PORTS: [&str; 3] = ["Ethernet0", "Ethernet4", "Ethernet8"];
/// MAC addresses from the lowest to the highest.
const MACS: [[u8; 6]; 3] = [
    [2, 0, 0, 0, 0x10, 0],
    [2, 0, 0, 0, 0x20, 0],
    [2, 0, 0, 0, 0x30, 0],
];

/// The willing bits and the own configuration of one end of a link.
#[derive(Clone, Copy, Debug)]
struct End {
    mac: [u8; 6],
    pfc_willing: bool,
    ets_willing: bool,
    /// The priority with PFC.
    pfc_priority: u8,
    /// Share of priority 3 in percent. Priority 6 is strict, and all others share the rest.
    share: u8,
}

impl End {
    /// Returns the tables of a switch whose three ports are all this end.
    fn tables(&self) -> Value {
        let of_ports = |value: Value| {
            Value::Object(
                PORTS
                    .map(|port| (port.to_owned(), value.clone()))
                    .into_iter()
                    .collect(),
            )
        };
        let queues = [(0, "rest"), (3, "share"), (6, "strict")];
        let mut dcbx = json!({
            "pfc_willing": self.pfc_willing.to_string(),
            "ets_willing": self.ets_willing.to_string(),
        });
        let mut qos = json!({"pfc_to_queue_map": "M", "dscp_to_tc_map": "D", "tc_to_queue_map": "Q"});
        let mut tables = json!({
            "DEVICE_METADATA": {"localhost": {"mac": display(self.mac)}},
            "PORT": of_ports(json!({"speed": SPEED_MBPS.to_string()})),
            "MAP_PFC_PRIORITY_TO_QUEUE": {"M": {
                "0": "0", "1": "0", "2": "0", "3": "3", "4": "0", "5": "0", "6": "6", "7": "0"}},
            "DSCP_TO_TC_MAP": {"D": {"0": "0", "8": "1", "24": "3"}},
            "TC_TO_QUEUE_MAP": {"Q": {"0": "0", "1": "1", "3": "3"}},
            "LLDP": {"GLOBAL": {"enabled": "true", "hello_time": "5", "multiplier": "2"}},
        });
        // A willing port has defaults, and the configuration of other ports is explicit.
        match self.pfc_willing {
            true => dcbx["pfc_default"] = json!(self.pfc_priority.to_string()),
            false => qos["pfc_enable"] = json!(self.pfc_priority.to_string()),
        }
        match self.ets_willing {
            true => dcbx["ets_default"] = json!(format!("0:{},3:{},6:strict", 100 - self.share, self.share)),
            false => {
                tables["SCHEDULER"] = json!({
                    "rest": {"type": "DWRR", "weight": (100 - self.share).to_string()},
                    "share": {"type": "DWRR", "weight": self.share.to_string()},
                    "strict": {"type": "STRICT"},
                });
                let entries = PORTS.iter().flat_map(|port| {
                    queues.map(|(queue, scheduler)| {
                        (format!("{port}|{queue}"), json!({"scheduler": scheduler}))
                    })
                });
                tables["QUEUE"] = Value::Object(entries.collect());
            }
        }
        tables["XOFF_DCBX"] = of_ports(dcbx);
        tables["PORT_QOS_MAP"] = of_ports(qos);
        tables
    }

    /// Returns the LLDP settings of a host. Its frames are valid for 2 s.
    fn settings(&self) -> LldpPortSettings {
        let mut dcbx = DcbxConfiguration::default();
        (dcbx.pfc.is_willing, dcbx.pfc.enabled) = (self.pfc_willing, 1 << self.pfc_priority);
        dcbx.ets.is_willing = self.ets_willing;
        dcbx.ets.tables = host_tables(self.share);
        dcbx.ets_recommendation = Some(dcbx.ets.tables);
        LldpPortSettings {
            interval_s: 1,
            hold: 1,
            dcbx: Some(dcbx),
            ..LldpPortSettings::new(self.mac, ChassisId::mac(self.mac), LldpPortId::mac(self.mac))
        }
    }

    fn host(&self, name: &str, number: u8) -> HostConfig {
        let mut config = plain_host(name, self.mac, number);
        config.nic.pfc_honoured = 1 << self.pfc_priority;
        config.nic.ets = Some(host_tables(self.share));
        config.lldp = Some(self.settings());
        config
    }
}

/// Returns three classes: priority 3 has a share, priority 6 is strict, and the others have the rest of the bandwidth.
fn host_tables(share: u8) -> EtsTables {
    let mut tables = EtsTables {
        traffic_class: [0, 0, 0, 1, 0, 0, 2, 0],
        ..EtsTables::default()
    };
    tables.algorithm[..2].fill(SelectionAlgorithm::Ets);
    tables.bandwidth_percent[..2].copy_from_slice(&[100 - share, share]);
    tables
}

fn display(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

fn plain_host(name: &str, mac: [u8; 6], number: u8) -> HostConfig {
    let mut config = HostConfig::new(name, mac, LinkTiming::ethernet(SPEED_MBPS));
    config.ipv4 = Some(ip(number));
    config
}

/// Connects a switch to another one with `Ethernet0`, or to hosts with its first ports.
fn fabric(switches: &[Value], hosts: Vec<HostConfig>) -> Fabric {
    let port = |switch, port| LinkEnd::Switch { switch, port };
    let mut ends: Vec<_> = (0..hosts.len() as u32)
        .map(|host| [LinkEnd::Host(host), port(0, host as u16)])
        .collect();
    if switches.len() > 1 {
        ends.push([port(0, 0), port(1, 0)]);
    }
    let links = ends.into_iter().enumerate();
    let plan = FabricPlan {
        switches: switches
            .iter()
            .map(|tables| resolve("sw", &PORTS, tables).into())
            .collect(),
        hosts,
        links: links
            .map(|(number, ends)| LinkPlan {
                name: format!("l{number}"),
                ends,
                delay: Picos::from_micros(1),
            })
            .collect(),
    };
    Fabric::new(plan, 1).expect("the plan is valid")
}

fn run_for(fabric: &mut Fabric, duration: Picos) {
    let until = fabric.now() + duration;
    fabric.run(until, &mut ());
}

fn dcbx_report(fabric: &Fabric, switch: usize) -> DcbxReport {
    let report = fabric.snapshot(switch).report.lldp.expect("LLDP is on");
    report.ports[0].dcbx.clone().expect("DCBX is on")
}

/// The state of one end after the negotiation.
#[derive(Debug, PartialEq)]
struct Agreed {
    pfc: u8,
    pfc_source: ConfigurationSource,
    /// Share of priority 3 that the end states.
    share: u8,
    /// Share of priority 3 that the end uses instead of its configuration.
    adopted_share: Option<u8>,
    has_pfc_mismatch: bool,
    has_ets_mismatch: bool,
}

fn share_of_priority_3(tables: &EtsTables) -> u8 {
    tables.bandwidth_percent[usize::from(tables.traffic_class[3])]
}

fn has_mismatch(mismatches: &[String], attribute: &str) -> bool {
    mismatches.iter().any(|text| text.starts_with(attribute))
}

fn agreed_by_switch(fabric: &Fabric, switch: usize) -> Agreed {
    let report = dcbx_report(fabric, switch);
    let (port, state) = (PortId(0), fabric.switch(switch));
    let peer = |source: &str| match source {
        "peer" => ConfigurationSource::Peer,
        _ => ConfigurationSource::Local,
    };
    let adopted_share = state.negotiated_ets(port).map(share_of_priority_3);
    assert_eq!(report.ets_source == "peer", adopted_share.is_some());
    Agreed {
        pfc: state.flow_control(port).enabled,
        pfc_source: peer(&report.pfc_source),
        share: report.ets.bandwidth_percent[usize::from(report.ets.traffic_class[3])],
        adopted_share,
        has_pfc_mismatch: has_mismatch(&report.mismatches, "PFC:"),
        has_ets_mismatch: has_mismatch(&report.mismatches, "ETS:"),
    }
}

fn agreed_by_host(fabric: &Fabric) -> Agreed {
    let host = fabric.host(0);
    let operational = host.lldp().and_then(LldpPort::operational).expect("DCBX is on");
    let mismatches: Vec<String> = operational.mismatches.iter().map(ToString::to_string).collect();
    Agreed {
        pfc: host.config().nic.pfc_honoured,
        pfc_source: operational.pfc_source,
        share: share_of_priority_3(&operational.ets),
        adopted_share: host.negotiated_ets().map(share_of_priority_3),
        has_pfc_mismatch: has_mismatch(&mismatches, "PFC:"),
        has_ets_mismatch: has_mismatch(&mismatches, "ETS:"),
    }
}

/// Returns the state of an end after the negotiation with `peer`.
///
/// PFC, 38.4.2: an end uses the configuration of its peer if only this end is willing, or if both are willing and the
/// MAC address of the peer is lower. ETS, 38.4.1: a willing end uses the recommendation of its peer.
fn expected(own: End, peer: End) -> Agreed {
    use ConfigurationSource::{Local, Peer};
    let is_peer_lower = peer.mac < own.mac;
    let pfc_source = match (own.pfc_willing, peer.pfc_willing, is_peer_lower) {
        (false, _, _) => Local,
        (true, false, _) => Peer,
        (true, true, false) => Local,
        (true, true, true) => Peer,
    };
    Agreed {
        pfc: match pfc_source {
            Local => 1 << own.pfc_priority,
            Peer => 1 << peer.pfc_priority,
        },
        pfc_source,
        share: if own.ets_willing { peer.share } else { own.share },
        adopted_share: own.ets_willing.then_some(peer.share),
        has_pfc_mismatch: !own.pfc_willing && !peer.pfc_willing,
        has_ets_mismatch: !own.ets_willing && !peer.ets_willing,
    }
}

/// Returns both ends of a link in all 16 combinations of willing, each with the lower and the higher MAC address at the
/// first end.
fn all_combinations() -> impl Iterator<Item = [End; 2]> {
    (0..32_u8).map(|bits| {
        let is_set = |bit: u8| bits >> bit & 1 == 1;
        let (first_mac, second_mac) = if is_set(4) {
            (MACS[0], MACS[1])
        } else {
            (MACS[1], MACS[0])
        };
        let end = |mac, pfc_willing, ets_willing, pfc_priority, share| End {
            mac,
            pfc_willing,
            ets_willing,
            pfc_priority,
            share,
        };
        [
            end(first_mac, is_set(0), is_set(1), 3, 60),
            end(second_mac, is_set(2), is_set(3), 4, 85),
        ]
    })
}

#[test]
fn two_switches_agree_in_every_combination_of_willing() {
    for [one, other] in all_combinations() {
        let mut fabric = fabric(&[one.tables(), other.tables()], Vec::new());
        run_for(&mut fabric, Picos::from_millis(2));
        let agreed = [0, 1].map(|switch| agreed_by_switch(&fabric, switch));
        let wanted = [expected(one, other), expected(other, one)];
        assert_eq!(agreed, wanted, "{one:?} {other:?}");
    }
}

#[test]
fn a_switch_and_a_host_agree_in_every_combination_of_willing() {
    for [switch, host] in all_combinations() {
        let mut fabric = fabric(&[switch.tables()], vec![host.host("h1", 1)]);
        run_for(&mut fabric, Picos::from_millis(2));
        let agreed = [agreed_by_switch(&fabric, 0), agreed_by_host(&fabric)];
        let wanted = [expected(switch, host), expected(host, switch)];
        assert_eq!(agreed, wanted, "{switch:?} {host:?}");
    }
}

/// Returns an end that does not accept a configuration, or accepts all.
fn end(mac: [u8; 6], is_willing: bool, share: u8) -> End {
    End {
        mac,
        pfc_willing: is_willing,
        ets_willing: is_willing,
        pfc_priority: 5,
        share,
    }
}

/// Returns a flow at link rate to host 1 with this priority.
fn flow(priority: u8) -> FlowConfig {
    let mut flow = FlowConfig::lossless(u32::from(priority), ip(1).into(), Some(MACS[2]));
    (flow.class, flow.dscp) = (priority, priority * 8);
    flow
}

/// Returns the shares of the flows with priorities 0, 1 and 3 in percent over the next 400 ms. `count` returns the
/// frames of each priority.
fn measure_shares(fabric: &mut Fabric, count: impl Fn(&Fabric) -> [u64; 8]) -> [u64; 3] {
    // The frames of the former shares leave first.
    run_for(fabric, Picos::from_millis(50));
    let before = count(fabric);
    run_for(fabric, Picos::from_millis(400));
    let after = count(fabric);
    let frames = [0, 1, 3].map(|priority: usize| after[priority] - before[priority]);
    let sum: u64 = frames.iter().sum();
    frames.map(|frames| (frames * 100 + sum / 2) / sum)
}

/// Returns the frames that `Ethernet0` has sent, by queue.
fn frames_of_queues(fabric: &Fabric) -> [u64; 8] {
    let queues = &fabric.snapshot(0).report.ports[0].queues;
    core::array::from_fn(|queue| queues[queue].packets)
}

fn assert_close(measured: [u64; 3], wanted: [u64; 3]) {
    let is_close = measured
        .iter()
        .zip(wanted)
        .all(|(one, other)| one.abs_diff(other) <= 1);
    assert!(is_close, "{measured:?}, expected {wanted:?}");
}

/// Returns a switch whose `Ethernet0` leads to a host without LLDP. Two other hosts send more than this link can carry:
/// one with priority 3, and one with priorities 0 and 1.
fn congested_fabric() -> Fabric {
    let receiver = plain_host("h1", MACS[2], 1);
    let mut senders = [plain_host("h2", MACS[0], 2), plain_host("h3", MACS[1], 3)];
    senders[0].flows = vec![flow(3)];
    senders[1].flows = vec![flow(0), flow(1)];
    let mut tables = end([2, 0, 0, 0, 0x40, 0], true, 50).tables();
    // Each priority has its own queue, and the queues have equal weights until the negotiation.
    tables["XOFF_DCBX"]["Ethernet0"] = json!({"ets_willing": "true"});
    let map = (0..8).map(|queue: u8| (queue.to_string(), json!(queue.to_string())));
    tables["MAP_PFC_PRIORITY_TO_QUEUE"]["M"] = Value::Object(map.collect());
    let mut hosts = vec![receiver];
    hosts.extend(senders);
    let mut fabric = fabric(&[tables], hosts);
    for host in 1..3 {
        fabric.change_host(host, &mut (), |host, now| host.start(now));
    }
    fabric
}

/// Lets the receiver of [`congested_fabric`] start or stop sending LLDP frames. It recommends 80 % for priority 3, and
/// one traffic class for priorities 0 and 1.
fn set_transmits(fabric: &mut Fabric, transmits: bool) {
    let settings = LldpPortSettings {
        transmits,
        ..end(MACS[2], false, 80).settings()
    };
    fabric.change_host(0, &mut (), |host, now| host.set_lldp(now, Some(settings)));
}

#[test]
fn negotiated_shares_take_effect_until_the_information_expires_and_while_the_link_is_up() {
    let mut fabric = congested_fabric();
    let (equal, negotiated) = ([33, 33, 33], [10, 10, 80]);
    assert_close(measure_shares(&mut fabric, frames_of_queues), equal);
    set_transmits(&mut fabric, true);
    assert_close(measure_shares(&mut fabric, frames_of_queues), negotiated);
    let report = dcbx_report(&fabric, 0);
    assert_eq!(
        (report.ets_source.as_str(), report.ets.bandwidth_percent[1]),
        ("peer", 80)
    );

    // The last frame of the host is valid for 2 s.
    set_transmits(&mut fabric, false);
    run_for(&mut fabric, Picos::from_millis(2_000));
    assert_eq!(dcbx_report(&fabric, 0).ets_source, "local");
    assert_close(measure_shares(&mut fabric, frames_of_queues), equal);

    set_transmits(&mut fabric, true);
    assert_close(measure_shares(&mut fabric, frames_of_queues), negotiated);
    fabric.set_link(0, false, &mut ());
    assert_eq!(fabric.switch(0).negotiated_ets(PortId(0)), None);
    set_transmits(&mut fabric, false);
    fabric.set_link(0, true, &mut ());
    assert_close(measure_shares(&mut fabric, frames_of_queues), equal);
}

#[test]
fn a_willing_host_shares_its_link_as_the_switch_recommends() {
    let mut host = plain_host("h1", MACS[0], 2);
    host.flows = vec![flow(0), flow(1), flow(3)];
    let peer = plain_host("h2", MACS[2], 1);
    let mut fabric = fabric(&[end(MACS[1], false, 70).tables()], vec![host, peer]);
    fabric.change_host(0, &mut (), |host, now| host.start(now));
    let sent = |fabric: &Fabric| fabric.host(0).results(fabric.now()).nic.tx_frames;
    assert_close(measure_shares(&mut fabric, sent), [33, 33, 33]);
    // The switch has two queues for these priorities, with 30 % and 70 %.
    let settings = end(MACS[0], true, 50).settings();
    fabric.change_host(0, &mut (), |host, now| host.set_lldp(now, Some(settings)));
    assert_close(measure_shares(&mut fabric, sent), [15, 15, 70]);
    fabric.change_host(0, &mut (), |host, now| host.set_lldp_link(now, false));
    assert_close(measure_shares(&mut fabric, sent), [33, 33, 33]);
}

#[test]
fn a_new_configuration_keeps_the_negotiated_shares_and_configured_schedulers_end_them() {
    let mut fabric = congested_fabric();
    set_transmits(&mut fabric, true);
    run_for(&mut fabric, Picos::from_millis(10));
    let configure = |fabric: &mut Fabric, end: &End| {
        let config = resolve("sw", &PORTS, &end.tables()).into();
        fabric
            .configure_switch(0, config, &mut ())
            .expect("the ports are the same");
        run_for(fabric, Picos::from_millis(10));
        fabric
            .switch(0)
            .negotiated_ets(PortId(0))
            .map(share_of_priority_3)
    };
    let mut switch = end([2, 0, 0, 0, 0x40, 0], true, 50);
    assert_eq!(configure(&mut fabric, &switch), Some(80));
    // Explicit schedulers win, and the port states that it is not willing.
    switch.ets_willing = false;
    assert_eq!(configure(&mut fabric, &switch), None);
    let report = dcbx_report(&fabric, 0);
    assert_eq!((report.ets_willing, report.ets_source.as_str()), (false, "local"));
    // The port has used up the frames that it may send at once, so the next one follows after a second.
    run_for(&mut fabric, Picos::from_millis(1_500));
    let neighbours = fabric.host(0).lldp().expect("LLDP is on").neighbours();
    let stated = neighbours[0].pdu.dcbx.ets_configuration.expect("DCBX is on");
    assert!(!stated.is_willing);
    assert_eq!(share_of_priority_3(&stated.tables), 50);
}

#[test]
fn a_recommendation_that_the_switch_cannot_realise_is_refused_and_named() {
    let switch = end(MACS[0], true, 50);
    for (change, text) in [
        (
            (|tables| tables.traffic_class[1] = 1) as fn(&mut EtsTables),
            "ETS: the peer recommends different traffic classes for priorities 0 and 1, and this port has both in queue 0",
        ),
        (
            |tables| tables.algorithm[2] = SelectionAlgorithm::VendorSpecific,
            "ETS: the peer recommends vendor-specific, which this port does not support",
        ),
    ] {
        let mut host = end(MACS[1], false, 80).host("h1", 1);
        let dcbx = host
            .lldp
            .as_mut()
            .and_then(|lldp| lldp.dcbx.as_mut())
            .expect("DCBX is on");
        change(dcbx.ets_recommendation.as_mut().expect("a recommendation"));
        let mut fabric = fabric(&[switch.tables()], vec![host]);
        run_for(&mut fabric, Picos::from_millis(2));
        assert_eq!(fabric.switch(0).negotiated_ets(PortId(0)), None);
        let report = dcbx_report(&fabric, 0);
        assert_eq!(report.ets_source, "local");
        assert!(
            report.mismatches.contains(&text.to_owned()),
            "{:?}",
            report.mismatches
        );
    }
}
