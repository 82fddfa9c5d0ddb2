//! `show lldp table`, `show lldp neighbors`.

use std::fmt::Write;

use super::tabulate::{TextAlignment, tabulate};
use super::{PortTableArguments, TableArguments, connect, print_with_reason};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{DcbxNeighbourReport, DcbxReport, LldpNeighbourReport, LldpPortReport, LldpReport};

/// Runs `show lldp table`.
pub(super) fn show_table(options: &TableArguments) -> Result<Exit, Failure> {
    let report = connect(&options.target)?.lldp()?;
    print_with_reason(options.json, &report, no_neighbours(report.as_ref()), |report| {
        neighbour_table(ports_of(report))
    })
}

/// Runs `show lldp neighbors`.
pub(super) fn show_neighbours(options: &PortTableArguments) -> Result<Exit, Failure> {
    let mut report = connect(&options.table.target)?.lldp()?;
    if let Some(report) = report.as_mut().filter(|_| !options.ports.is_empty()) {
        report.ports.retain(|port| options.ports.contains(&port.port));
    }
    let empty = no_neighbours(report.as_ref());
    print_with_reason(options.table.json, &report, empty, |report| {
        neighbour_details(ports_of(report))
    })
}

fn ports_of(report: &Option<LldpReport>) -> &[LldpPortReport] {
    report.as_ref().map_or(&[], |report| &report.ports)
}

/// Returns the reason for an empty table, or `None` if a port has a neighbour.
fn no_neighbours(report: Option<&LldpReport>) -> Option<&'static str> {
    match report {
        None => Some("LLDP is off: LLDP|GLOBAL with enabled true turns it on"),
        Some(report) if report.ports.is_empty() => Some("LLDP is off at these ports"),
        Some(report) if report.ports.iter().all(|port| port.neighbours.is_empty()) => {
            Some("no neighbour is known: no LLDP frame has arrived within its time to live")
        }
        Some(_) => None,
    }
}

/// Returns the table of SONiC's `lldpshow`.
fn neighbour_table(ports: &[LldpPortReport]) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let rows: Vec<Vec<String>> = ports
        .iter()
        .flat_map(|port| port.neighbours.iter().map(move |neighbour| (port, neighbour)))
        .map(|(port, neighbour)| {
            vec![
                port.port.clone(),
                text(&neighbour.system_name),
                neighbour.port_id.clone(),
                capability_codes(neighbour),
                text(&neighbour.port_description),
            ]
        })
        .collect();
    let header = [
        "LocalPort",
        "RemoteDevice",
        "RemotePortID",
        "Capability",
        "RemotePortDescr",
    ];
    let table = tabulate(&header, &rows, TextAlignment::Left);
    format!(
        "Capability codes: (R) Router, (B) Bridge, (O) Other\n{table}{}\nTotal entries displayed:  {}\n",
        "-".repeat(50),
        rows.len()
    )
}

fn capability_codes(neighbour: &LldpNeighbourReport) -> String {
    let enabled = neighbour
        .capabilities
        .iter()
        .filter(|capability| capability.is_enabled);
    enabled
        .map(|capability| match capability.name.as_str() {
            "Router" => 'R',
            "Bridge" => 'B',
            _ => 'O',
        })
        .collect()
}

/// Returns the neighbours in the layout of `lldpctl`, which SONiC prints, with the results of DCBX.
fn neighbour_details(ports: &[LldpPortReport]) -> String {
    let line = "-".repeat(79);
    let mut text = format!("{line}\nLLDP neighbors:\n{line}\n");
    for port in ports {
        for neighbour in &port.neighbours {
            write_neighbour(&mut text, port, neighbour);
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

fn write_neighbour(text: &mut String, port: &LldpPortReport, neighbour: &LldpNeighbourReport) {
    let seconds = neighbour.age_ns / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let mut write_line = |indent: usize, name: &str, value: &str| {
        // A value of several lines is aligned.
        let value = value.replace('\n', &format!("\n{:18}", ""));
        let width = if indent == 0 { 14 } else { 18 - indent };
        let line = format!("{:indent$}{:<width$}{value}", "", format!("{name}:"));
        let _ = writeln!(text, "{}", line.trim_end());
    };
    write_line(
        0,
        "Interface",
        &format!(
            "{}, via: LLDP, RID: {}, Time: {days} day{}, {hours:02}:{minutes:02}:{:02}",
            port.port,
            neighbour.number,
            if days > 1 { "s" } else { "" },
            seconds % 60
        ),
    );
    write_line(2, "Chassis", "");
    write_line(
        4,
        "ChassisID",
        &format!(
            "{} {}",
            short_type(&neighbour.chassis_id_type),
            neighbour.chassis_id
        ),
    );
    write_line(4, "SysName", neighbour.system_name.as_deref().unwrap_or_default());
    write_line(
        4,
        "SysDescr",
        neighbour.system_description.as_deref().unwrap_or_default(),
    );
    for address in &neighbour.management_addresses {
        write_line(4, "MgmtIP", address);
    }
    for capability in &neighbour.capabilities {
        let state = if capability.is_enabled { "on" } else { "off" };
        write_line(4, "Capability", &format!("{}, {state}", capability.name));
    }
    write_line(2, "Port", "");
    write_line(
        4,
        "PortID",
        &format!("{} {}", short_type(&neighbour.port_id_type), neighbour.port_id),
    );
    write_line(
        4,
        "PortDescr",
        neighbour.port_description.as_deref().unwrap_or_default(),
    );
    write_line(4, "TTL", &neighbour.ttl_s.to_string());
    if let Some(dcbx) = &neighbour.dcbx {
        write_peer_dcbx(&mut write_line, dcbx);
    }
    for problem in &neighbour.rejected {
        write_line(2, "Rejected TLV", problem);
    }
    for warning in &neighbour.warnings {
        write_line(2, "Ignored value", warning);
    }
    if let Some(dcbx) = &port.dcbx {
        write_local_dcbx(&mut write_line, dcbx);
    }
}

fn write_peer_dcbx(write_line: &mut impl FnMut(usize, &str, &str), dcbx: &DcbxNeighbourReport) {
    write_line(2, "DCBX", "");
    if let Some(enabled) = &dcbx.pfc_enabled {
        let capability = dcbx.pfc_capability.unwrap_or_default();
        let willing = yes_no(dcbx.pfc_willing == Some(true));
        write_line(
            4,
            "PFC",
            &format!(
                "{}, willing {willing}, capability {capability}",
                describe_priorities(enabled)
            ),
        );
    }
    if let Some(ets) = &dcbx.ets {
        write_line(
            4,
            "ETS",
            &format!(
                "{}, willing {}",
                describe_ets(ets),
                yes_no(dcbx.ets_willing == Some(true))
            ),
        );
    }
    if let Some(ets) = &dcbx.ets_recommendation {
        write_line(4, "Recommended", &describe_ets(ets));
    }
    for application in &dcbx.applications {
        write_line(4, "Application", application);
    }
}

fn write_local_dcbx(write_line: &mut impl FnMut(usize, &str, &str), dcbx: &DcbxReport) {
    write_line(2, "Operational", "");
    write_line(
        4,
        "PFC",
        &format!(
            "{}, from {}, willing {}",
            describe_priorities(&dcbx.pfc_enabled),
            dcbx.pfc_source,
            yes_no(dcbx.pfc_willing)
        ),
    );
    let ets = describe_ets(&dcbx.ets);
    write_line(
        4,
        "ETS",
        &format!(
            "{ets}, from {}, willing {}",
            dcbx.ets_source,
            yes_no(dcbx.ets_willing)
        ),
    );
    for mismatch in &dcbx.mismatches {
        write_line(4, "Mismatch", mismatch);
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// Returns a text such as `priority 3 4`, or `no priority`.
fn describe_priorities(priorities: &[u8]) -> String {
    if priorities.is_empty() {
        return "no priority".to_owned();
    }
    let numbers: Vec<String> = priorities.iter().map(u8::to_string).collect();
    format!("priority {}", numbers.join(" "))
}

/// Returns the traffic class of each priority, and the share or the algorithm of each class with a priority.
fn describe_ets(ets: &xoff_telemetry::EtsReport) -> String {
    let classes: Vec<String> = ets.traffic_class.iter().map(u8::to_string).collect();
    let used = (0..ets.algorithm.len()).filter(|class| ets.traffic_class.contains(&(*class as u8)));
    let shares = used.map(|class| match ets.algorithm[class].as_str() {
        "ETS" => format!("{class}:{}%", ets.bandwidth_percent[class]),
        algorithm => format!("{class}:{algorithm}"),
    });
    let shares: Vec<String> = shares.collect();
    format!("classes {}, shares {}", classes.join(" "), shares.join(" "))
}

/// Returns the name of a subtype that `lldpctl` prints.
fn short_type(subtype: &str) -> &str {
    match subtype {
        "MAC address" => "mac",
        "network address" => "ip",
        "interface name" => "ifname",
        "interface alias" => "ifalias",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::{EtsReport, LldpCapabilityReport};

    fn port() -> LldpPortReport {
        let capability = |name: &str, is_enabled| LldpCapabilityReport {
            name: name.to_owned(),
            is_enabled,
        };
        let ets = EtsReport {
            traffic_class: [0, 0, 0, 1, 0, 0, 0, 2],
            bandwidth_percent: [60, 40, 0, 0, 0, 0, 0, 0],
            algorithm: ["ETS", "ETS", "strict priority", "ETS", "ETS", "ETS", "ETS", "ETS"]
                .map(str::to_owned)
                .to_vec(),
        };
        let neighbour = LldpNeighbourReport {
            number: 1,
            age_ns: 93_784_000_000_000,
            ttl_s: 121,
            chassis_id_type: "MAC address".to_owned(),
            chassis_id: "02:00:00:00:00:02".to_owned(),
            port_id_type: "local".to_owned(),
            port_id: "etp1".to_owned(),
            port_description: Some("to leaf1".to_owned()),
            system_name: Some("spine1".to_owned()),
            system_description: Some("first line\nsecond line".to_owned()),
            capabilities: vec![capability("Bridge", true), capability("Router", false)],
            management_addresses: vec!["10.0.0.1".to_owned()],
            dcbx: Some(DcbxNeighbourReport {
                pfc_willing: Some(false),
                pfc_capability: Some(8),
                pfc_enabled: Some(vec![3, 4]),
                ets_willing: Some(true),
                ets: Some(ets.clone()),
                ..DcbxNeighbourReport::default()
            }),
            rejected: vec!["a problem".to_owned()],
            ..LldpNeighbourReport::default()
        };
        LldpPortReport {
            port: "Ethernet0".to_owned(),
            dcbx: Some(DcbxReport {
                pfc_willing: true,
                pfc_enabled: vec![3, 4],
                pfc_source: "peer".to_owned(),
                ets,
                ets_source: "local".to_owned(),
                mismatches: vec!["a difference".to_owned()],
                ..DcbxReport::default()
            }),
            neighbours: vec![neighbour],
            ..LldpPortReport::default()
        }
    }

    #[test]
    fn the_table_has_the_layout_of_lldpshow() {
        let expected = "Capability codes: (R) Router, (B) Bridge, (O) Other
LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr
-----------  --------------  --------------  ------------  -----------------
Ethernet0    spine1          etp1            B             to leaf1
--------------------------------------------------
Total entries displayed:  1
";
        assert_eq!(neighbour_table(&[port()]), expected);
    }

    #[test]
    fn neighbours_have_the_layout_of_lldpctl() {
        let expected = "\
-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    Ethernet0, via: LLDP, RID: 1, Time: 1 day, 02:03:04
  Chassis:
    ChassisID:    mac 02:00:00:00:00:02
    SysName:      spine1
    SysDescr:     first line
                  second line
    MgmtIP:       10.0.0.1
    Capability:   Bridge, on
    Capability:   Router, off
  Port:
    PortID:       local etp1
    PortDescr:    to leaf1
    TTL:          121
  DCBX:
    PFC:          priority 3 4, willing no, capability 8
    ETS:          classes 0 0 0 1 0 0 0 2, shares 0:60% 1:40% 2:strict priority, willing yes
  Rejected TLV:   a problem
  Operational:
    PFC:          priority 3 4, from peer, willing yes
    ETS:          classes 0 0 0 1 0 0 0 2, shares 0:60% 1:40% 2:strict priority, from local, willing no
    Mismatch:     a difference
-------------------------------------------------------------------------------
";
        assert_eq!(neighbour_details(&[port()]), expected);
    }

    #[test]
    fn an_empty_table_names_the_reason() {
        assert!(no_neighbours(None).is_some_and(|reason| reason.starts_with("LLDP is off:")));
        let without = LldpReport {
            ports: vec![LldpPortReport::default()],
        };
        assert!(no_neighbours(Some(&without)).is_some_and(|reason| reason.starts_with("no neighbour")));
        assert_eq!(no_neighbours(Some(&LldpReport { ports: vec![port()] })), None);
    }
}
