//! `show interfaces status | counters | portchannel`, `show ip interfaces`, `show ipv6 interfaces`.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use super::pfc::check_port_names;
use super::tabulate::{TextAlignment, tabulate};
use super::{PortTableArguments, ShowInterfaceCounters, TableArguments, connect, print, print_with_reason};
use xoff_control::{AddressFamily, CountersReply, Interfaces, LagStatus};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{PortReport, group_thousands};

/// Text for a missing value in SONiC's tables.
const NOT_AVAILABLE: &str = "N/A";

/// Runs `show interfaces status`.
pub(super) fn show_status(options: &PortTableArguments) -> Result<Exit, Failure> {
    let interfaces = connect(&options.table.target)?.interfaces()?;
    let interfaces = select_interfaces(interfaces, &options.ports)?;
    print(options.table.json, &interfaces, status_table)
}

/// Returns the named ports and LAGs, with their router interfaces. No name means all.
fn select_interfaces(mut interfaces: Interfaces, names: &[String]) -> Result<Interfaces, Failure> {
    if names.is_empty() {
        return Ok(interfaces);
    }
    let ports = interfaces.ports.iter().map(|port| port.name.as_str());
    let lags = interfaces.lags.iter().map(|lag| lag.name.as_str());
    check_port_names(names, ports.chain(lags))?;
    let is_named = |name: &String| names.contains(name);
    interfaces.ports.retain(|port| is_named(&port.name));
    interfaces.lags.retain(|lag| is_named(&lag.name));
    interfaces
        .router_interfaces
        .retain(|interface| is_named(&interface.name));
    Ok(interfaces)
}

/// Runs `show interfaces portchannel`.
pub(super) fn show_portchannels(options: &TableArguments) -> Result<Exit, Failure> {
    let interfaces = connect(&options.target)?.interfaces()?;
    let empty = interfaces
        .lags
        .is_empty()
        .then_some("the switch has no LAGs: the configuration has no table PORTCHANNEL");
    print_with_reason(options.json, &interfaces.lags, empty, |lags| {
        portchannel_table(lags)
    })
}

/// Runs `show ip interfaces` or `show ipv6 interfaces`.
pub(super) fn show_addresses(family: AddressFamily, options: &TableArguments) -> Result<Exit, Failure> {
    let mut interfaces = connect(&options.target)?.interfaces()?.router_interfaces;
    let of_family = |address: &String| {
        let address = address
            .split('/')
            .next()
            .and_then(|text| text.parse::<IpAddr>().ok());
        address.is_some_and(|address| family.contains(address))
    };
    for interface in &mut interfaces {
        interface.addresses.retain(of_family);
    }
    interfaces.retain(|interface| !interface.addresses.is_empty());
    let reason = match family {
        AddressFamily::Ipv4 => "no interface has an IPv4 address",
        AddressFamily::Ipv6 => "no interface has an IPv6 address",
    };
    let reason = format!(
        "{reason}: the configuration has none in INTERFACE, VLAN_INTERFACE, PORTCHANNEL_INTERFACE and LOOPBACK_INTERFACE"
    );
    let empty = interfaces.is_empty().then_some(reason.as_str());
    print_with_reason(options.json, &interfaces, empty, |interfaces| {
        address_table(family, interfaces)
    })
}

/// Runs `show interfaces counters`: reads the counters, waits for the given period, and reads
/// the counters again.
pub(super) fn show_counters(options: &ShowInterfaceCounters) -> Result<Exit, Failure> {
    let mut client = connect(&options.table.target)?;
    let interfaces = client.interfaces()?;
    let before = client.counters()?;
    std::thread::sleep(Duration::from_secs(options.period));
    let after = client.counters()?;
    let rows = port_counter_rows(&interfaces, &before, &after);
    print(options.table.json, &rows, |rows| counters_table(rows))
}

fn format_link_state(is_up: bool) -> String {
    if is_up { "up" } else { "down" }.to_owned()
}

/// Formats a speed like `intfutil`: `100M`, `1G`, `2.5G`.
fn format_speed(mbps: u32) -> String {
    match mbps {
        ..1_000 => format!("{mbps}M"),
        _ if mbps % 1_000 >= 100 => format!("{:.1}G", f64::from(mbps) / 1_000.0),
        _ => format!("{}G", mbps / 1_000),
    }
}

/// Returns the table of `intfutil -c status`.
fn status_table(interfaces: &Interfaces) -> String {
    let not_available = || NOT_AVAILABLE.to_owned();
    let ports = interfaces.ports.iter().map(|port| {
        vec![
            port.name.clone(),
            port.lanes.clone().unwrap_or_else(not_available),
            format_speed(port.speed_mbps),
            port.mtu.to_string(),
            not_available(),
            port.alias.clone().unwrap_or_else(not_available),
            port.vlan.clone(),
            format_link_state(port.oper_up),
            format_link_state(port.admin_up),
            not_available(),
            if port.pfc_asym { "on" } else { "off" }.to_owned(),
        ]
    });
    let lags = interfaces.lags.iter().map(|lag| {
        vec![
            lag.name.clone(),
            not_available(),
            format_speed(lag.speed_mbps),
            lag.mtu.map_or_else(not_available, |mtu| mtu.to_string()),
            not_available(),
            not_available(),
            lag.vlan.clone(),
            format_link_state(lag.oper_up),
            format_link_state(lag.admin_up),
            not_available(),
            not_available(),
        ]
    });
    let header = [
        "Interface",
        "Lanes",
        "Speed",
        "MTU",
        "FEC",
        "Alias",
        "Vlan",
        "Oper",
        "Admin",
        "Type",
        "Asym PFC",
    ];
    tabulate(
        &header,
        &ports.chain(lags).collect::<Vec<_>>(),
        TextAlignment::Right,
    )
}

/// Returns the table of `teamshow` for static members, without states of LACP.
fn portchannel_table(lags: &[LagStatus]) -> String {
    let row = |lag: &LagStatus| {
        let state = if lag.oper_up { "Up" } else { "Dw" };
        let members: Vec<String> = lag
            .members
            .iter()
            .map(|member| {
                let selected = if member.up && lag.admin_up { "S" } else { "D" };
                format!("{}({selected})", member.name)
            })
            .collect();
        vec![
            lag.name.trim_start_matches("PortChannel").to_owned(),
            lag.name.clone(),
            format!("Static(A)({state})"),
            if members.is_empty() {
                NOT_AVAILABLE.to_owned()
            } else {
                members.join(" ")
            },
        ]
    };
    let rows: Vec<Vec<String>> = lags.iter().map(row).collect();
    let table = tabulate(
        &["No.", "Team Dev", "Protocol", "Ports"],
        &rows,
        TextAlignment::Left,
    );
    format!(
        "Flags: A - active, I - inactive, Up - up, Dw - Down, N/A - not available,
       S - selected, D - deselected, * - not synced
{table}"
    )
}

/// Returns the table of `ipintutil`. If an interface has several addresses, each further address follows in a
/// row without a name.
fn address_table(family: AddressFamily, interfaces: &[xoff_control::RouterInterface]) -> String {
    let mut rows = Vec::new();
    for interface in interfaces {
        let states = [interface.admin_up, interface.oper_up].map(format_link_state);
        for (index, address) in interface.addresses.iter().enumerate() {
            let (name, state) = match index {
                0 => (interface.name.clone(), states.join("/")),
                _ => (String::new(), String::new()),
            };
            rows.push(vec![
                name,
                String::new(),
                address.clone(),
                state,
                NOT_AVAILABLE.to_owned(),
                NOT_AVAILABLE.to_owned(),
            ]);
        }
    }
    let column = match family {
        AddressFamily::Ipv4 => "IPv4 address/mask",
        AddressFamily::Ipv6 => "IPv6 address/mask",
    };
    let header = [
        "Interface",
        "Master",
        column,
        "Admin/Oper",
        "BGP Neighbor",
        "Neighbor IP",
    ];
    tabulate(&header, &rows, TextAlignment::Left)
}

/// A row of `show interfaces counters`. Rates are bytes per second of model time, and utilisations are shares
/// of the link speed.
#[derive(Clone, Debug, Serialize, PartialEq)]
struct PortCounterRow {
    name: String,
    /// `U`, `D`, or `X` for administratively down.
    state: &'static str,
    rx_ok: u64,
    rx_bytes_per_second: f64,
    rx_utilisation: f64,
    rx_err: u64,
    rx_drp: u64,
    rx_ovr: u64,
    tx_ok: u64,
    tx_bytes_per_second: f64,
    tx_utilisation: f64,
    tx_err: u64,
    tx_drp: u64,
    tx_ovr: u64,
}

/// Drop reasons of damaged received frames.
const RX_ERROR_REASONS: &[&str] = &[
    "XOFF_TRUNCATED",
    "XOFF_CHECKSUM_UNFINISHED",
    "XOFF_MAC_CONTROL_UNKNOWN",
    "XOFF_LINK_QUALITY_MALFORMED",
];
/// Drop reasons of frames that exceed the MTU.
const RX_OVERSIZE_REASONS: &[&str] = &["XOFF_OVERSIZED", "EXCEEDS_L2_MTU"];
/// Drop reasons of frames at the egress queues of the port.
const TX_DROP_REASONS: &[&str] = &[
    "QUEUE_DROPPED_PACKETS",
    "QUEUE_WRED_DROPPED_PACKETS",
    "L3_EGRESS_LINK_DOWN",
    "EGRESS_VLAN_FILTER",
    "XOFF_QUEUE_FLUSHED",
    "XOFF_PFC_WD_TX",
];
/// Drop reasons of frames that the device refused.
const TX_ERROR_REASONS: &[&str] = &["XOFF_BACKEND_REFUSED"];

/// Returns a row for each port. Its rates are means over the time between two readings of the counters.
fn port_counter_rows(
    interfaces: &Interfaces,
    before: &CountersReply,
    after: &CountersReply,
) -> Vec<PortCounterRow> {
    let span_ns = after
        .switch
        .model_time_ns
        .saturating_sub(before.switch.model_time_ns);
    let row = |port: &PortReport| {
        let earlier = before.switch.ports.iter().find(|other| other.name == port.name);
        let configured = interfaces.ports.iter().find(|other| other.name == port.name);
        let per_second = |bytes: u64, earlier: Option<u64>| match span_ns {
            0 => 0.0,
            span_ns => bytes.saturating_sub(earlier.unwrap_or(bytes)) as f64 * 1e9 / span_ns as f64,
        };
        let rx = per_second(port.rx_bytes, earlier.map(|port| port.rx_bytes));
        let tx = per_second(port.tx_bytes, earlier.map(|port| port.tx_bytes));
        let capacity = f64::from(port.speed_mbps) * 125_000.0;
        let dropped = |reasons: &[&str]| -> u64 {
            let counts = port
                .drops
                .iter()
                .filter(|(name, _)| reasons.contains(&name.as_str()));
            counts.map(|(_, frames)| frames).sum()
        };
        let in_other_columns = dropped(RX_ERROR_REASONS)
            + dropped(RX_OVERSIZE_REASONS)
            + dropped(TX_DROP_REASONS)
            + dropped(TX_ERROR_REASONS);
        PortCounterRow {
            name: port.name.clone(),
            state: match (port.up, configured.is_some_and(|port| !port.admin_up)) {
                (true, _) => "U",
                (false, false) => "D",
                (false, true) => "X",
            },
            rx_ok: port.rx_packets,
            rx_bytes_per_second: rx,
            rx_utilisation: rx / capacity,
            rx_err: dropped(RX_ERROR_REASONS),
            rx_drp: port.dropped().saturating_sub(in_other_columns),
            rx_ovr: dropped(RX_OVERSIZE_REASONS),
            tx_ok: port.tx_packets,
            tx_bytes_per_second: tx,
            tx_utilisation: tx / capacity,
            tx_err: dropped(TX_ERROR_REASONS),
            tx_drp: dropped(TX_DROP_REASONS),
            tx_ovr: 0,
        }
    };
    after.switch.ports.iter().map(row).collect()
}

/// Formats a rate like `portstat`, with units of 1000 bytes.
fn format_byte_rate(bytes_per_second: f64) -> String {
    if bytes_per_second > 10_000_000.0 {
        format!("{:.2} MB/s", bytes_per_second / 1e6)
    } else if bytes_per_second > 10_000.0 {
        format!("{:.2} KB/s", bytes_per_second / 1e3)
    } else {
        format!("{bytes_per_second:.2} B/s")
    }
}

/// Returns the table of `portstat`.
fn counters_table(rows: &[PortCounterRow]) -> String {
    let percent = |ratio: f64| format!("{:.2}%", ratio * 100.0);
    let cells = |row: &PortCounterRow| {
        vec![
            row.name.clone(),
            row.state.to_owned(),
            group_thousands(row.rx_ok),
            format_byte_rate(row.rx_bytes_per_second),
            percent(row.rx_utilisation),
            group_thousands(row.rx_err),
            group_thousands(row.rx_drp),
            group_thousands(row.rx_ovr),
            group_thousands(row.tx_ok),
            format_byte_rate(row.tx_bytes_per_second),
            percent(row.tx_utilisation),
            group_thousands(row.tx_err),
            group_thousands(row.tx_drp),
            group_thousands(row.tx_ovr),
        ]
    };
    let header = [
        "IFACE", "STATE", "RX_OK", "RX_BPS", "RX_UTIL", "RX_ERR", "RX_DRP", "RX_OVR", "TX_OK", "TX_BPS",
        "TX_UTIL", "TX_ERR", "TX_DRP", "TX_OVR",
    ];
    tabulate(
        &header,
        &rows.iter().map(cells).collect::<Vec<_>>(),
        TextAlignment::Right,
    )
}

#[cfg(test)]
mod tests;
