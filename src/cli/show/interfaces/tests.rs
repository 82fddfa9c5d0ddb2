use super::*;
use xoff_control::{COUNTERS_SCHEMA, LagMember, PortStatus, RouterInterface};
use xoff_telemetry::samples::sample_snapshot;

fn interfaces() -> Interfaces {
    let port = |name: &str, vlan: &str, up: bool| PortStatus {
        name: name.to_owned(),
        lanes: Some("1,2".to_owned()),
        alias: up.then(|| "etp1".to_owned()),
        speed_mbps: 25_000,
        mtu: 9_100,
        vlan: vlan.to_owned(),
        admin_up: up,
        oper_up: up,
        pfc_asym: false,
    };
    let lag = LagStatus {
        name: "PortChannel0001".to_owned(),
        speed_mbps: 50_000,
        mtu: Some(9_100),
        vlan: "routed".to_owned(),
        admin_up: true,
        oper_up: true,
        members: ["Ethernet8", "Ethernet12"]
            .iter()
            .map(|name| LagMember {
                name: (*name).to_owned(),
                up: *name == "Ethernet8",
            })
            .collect(),
    };
    let empty = LagStatus {
        name: "PortChannel2".to_owned(),
        oper_up: false,
        members: Vec::new(),
        ..lag.clone()
    };
    let router = |name: &str, addresses: &[&str], oper_up: bool| RouterInterface {
        name: name.to_owned(),
        mac: "02:00:00:00:10:00".to_owned(),
        mtu: 9_100,
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        admin_up: true,
        oper_up,
    };
    Interfaces {
        ports: vec![
            port("Ethernet0", "routed", true),
            port("Ethernet4", "trunk", false),
            port("Ethernet8", "PortChannel0001", true),
        ],
        lags: vec![lag, empty],
        router_interfaces: vec![
            router("Ethernet0", &["10.0.0.0/31", "10.0.1.1/24"], true),
            router("Vlan100", &["192.168.100.1/24"], false),
        ],
    }
}

#[test]
fn status_shows_the_named_ports_and_lags() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let some = select_interfaces(interfaces(), &names(&["Ethernet4", "PortChannel2"])).expect("both exist");
    let ports: Vec<&str> = some.ports.iter().map(|port| port.name.as_str()).collect();
    let lags: Vec<&str> = some.lags.iter().map(|lag| lag.name.as_str()).collect();
    assert_eq!((ports, lags), (vec!["Ethernet4"], vec!["PortChannel2"]));
    assert_eq!(select_interfaces(interfaces(), &[]).expect("all"), interfaces());
    let unknown = select_interfaces(interfaces(), &names(&["Ethernet9"])).expect_err("no such port");
    assert!(unknown.fix.expect("a fix").contains("Ethernet8"));
}

#[test]
fn status_lists_ports_and_lags() {
    let expected = "      Interface    Lanes    Speed    MTU    FEC    Alias             Vlan    Oper    Admin    Type    Asym PFC
---------------  -------  -------  -----  -----  -------  ---------------  ------  -------  ------  ----------
      Ethernet0      1,2      25G   9100    N/A     etp1           routed      up       up     N/A         off
      Ethernet4      1,2      25G   9100    N/A      N/A            trunk    down     down     N/A         off
      Ethernet8      1,2      25G   9100    N/A     etp1  PortChannel0001      up       up     N/A         off
PortChannel0001      N/A      50G   9100    N/A      N/A           routed      up       up     N/A         N/A
   PortChannel2      N/A      50G   9100    N/A      N/A           routed    down       up     N/A         N/A
";
    assert_eq!(status_table(&interfaces()), expected);
}

#[test]
fn portchannels_are_listed_with_their_members() {
    let expected = "Flags: A - active, I - inactive, Up - up, Dw - Down, N/A - not available,
       S - selected, D - deselected, * - not synced
  No.  Team Dev         Protocol       Ports
-----  ---------------  -------------  --------------------------
 0001  PortChannel0001  Static(A)(Up)  Ethernet8(S) Ethernet12(D)
    2  PortChannel2     Static(A)(Dw)  N/A
";
    assert_eq!(portchannel_table(&interfaces().lags), expected);
}

#[test]
fn each_address_of_an_interface_has_a_row() {
    let expected = "Interface    Master    IPv4 address/mask    Admin/Oper    BGP Neighbor    Neighbor IP
-----------  --------  -------------------  ------------  --------------  -------------
Ethernet0              10.0.0.0/31          up/up         N/A             N/A
                       10.0.1.1/24                        N/A             N/A
Vlan100                192.168.100.1/24     up/down       N/A             N/A
";
    assert_eq!(
        address_table(AddressFamily::Ipv4, &interfaces().router_interfaces),
        expected
    );
}

#[test]
fn counters_have_rates_and_utilisation_of_the_period() {
    let before = CountersReply {
        schema: COUNTERS_SCHEMA.to_owned(),
        switch: sample_snapshot().into_report(),
    };
    let mut after = before.clone();
    after.switch.model_time_ns += 1_000_000_000;
    after.switch.ports[0].rx_bytes += 62_500_000;
    after.switch.ports[0].tx_bytes += 20_480;
    let drops = [
        ("XOFF_TRUNCATED", 1_000),
        ("LPM4_MISS", 2),
        ("QUEUE_DROPPED_PACKETS", 3),
        ("EXCEEDS_L2_MTU", 4),
    ];
    after.switch.ports[0].drops = drops.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    let rows = port_counter_rows(&interfaces(), &before, &after);
    let expected = "    IFACE    STATE    RX_OK      RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR    TX_OK      TX_BPS    TX_UTIL    TX_ERR    TX_DRP    TX_OVR
---------  -------  -------  ----------  ---------  --------  --------  --------  -------  ----------  ---------  --------  --------  --------
Ethernet0        U    1,200  62.50 MB/s     50.00%     1,000         2         4    1,000  20.48 KB/s      0.02%         0         3         0
Ethernet4        X        0    0.00 B/s      0.00%         0         0         0        0    0.00 B/s      0.00%         0         0         0
";
    assert_eq!(counters_table(&rows), expected);
}

#[test]
fn speeds_and_rates_have_the_units_of_sonic() {
    let speeds: Vec<String> = [100, 1_000, 2_500, 10_000, 400_000].map(format_speed).to_vec();
    assert_eq!(speeds, ["100M", "1G", "2.5G", "10G", "400G"]);
    assert_eq!(format_byte_rate(10_000.0), "10000.00 B/s");
    assert_eq!(format_byte_rate(13_370_000.0), "13.37 MB/s");
}
