//! `show mac`, `show arp`, `show ndp`.

use super::tabulate::{TextAlignment, tabulate};
use super::{ShowMac, TableArguments, connect, print_with_reason};
use xoff_config::compare_naturally;
use xoff_control::{AddressFamily, MacEntry, Neighbour};
use xoff_telemetry::failure::{Exit, Failure};

/// Runs `show mac`.
pub(super) fn show_mac(options: &ShowMac) -> Result<Exit, Failure> {
    let mut entries = connect(&options.table.target)?.mac_table()?;
    let wanted = |entry: &MacEntry| {
        options.port.as_ref().is_none_or(|port| *port == entry.port)
            && options.vlan.is_none_or(|vlan| vlan == entry.vlan)
    };
    entries.retain(wanted);
    let empty = entries.is_empty().then_some(match (&options.port, options.vlan) {
        (None, None) => {
            "the switch has learned no MAC address: no station has sent a frame since the last ageing"
        }
        _ => "no learned MAC address has the given port and VLAN",
    });
    print_with_reason(options.table.json, &entries, empty, |entries| mac_table(entries))
}

/// Runs `show arp`.
pub(super) fn show_arp(options: &TableArguments) -> Result<Exit, Failure> {
    let entries = read_neighbours(options, AddressFamily::Ipv4)?;
    print_with_reason(options.json, &entries, no_neighbours(&entries), |entries| {
        neighbour_table(entries, false)
    })
}

/// Runs `show ndp`.
pub(super) fn show_ndp(options: &TableArguments) -> Result<Exit, Failure> {
    let entries = read_neighbours(options, AddressFamily::Ipv6)?;
    print_with_reason(options.json, &entries, no_neighbours(&entries), |entries| {
        neighbour_table(entries, true)
    })
}

/// Returns the reason for an empty table of neighbours, or `None` if a neighbour is known.
fn no_neighbours(entries: &[Neighbour]) -> Option<&'static str> {
    entries.iter().all(|entry| entry.mac.is_none()).then_some(
        "no neighbour is known: only a switch with router interfaces resolves addresses, and none has answered",
    )
}

fn read_neighbours(options: &TableArguments, family: AddressFamily) -> Result<Vec<Neighbour>, Failure> {
    let mut entries = connect(&options.target)?.neighbours()?;
    entries.retain(|entry| family.contains(entry.address));
    Ok(entries)
}

/// Returns the table of `fdbshow`. Without VLANs, the VLAN column contains `-`.
fn mac_table(entries: &[MacEntry]) -> String {
    let row = |(index, entry): (usize, &MacEntry)| {
        vec![
            (index + 1).to_string(),
            match entry.vlan {
                0 => "-".to_owned(),
                vlan => vlan.to_string(),
            },
            entry.mac.to_uppercase(),
            entry.port.clone(),
            if entry.kind == "static" {
                "Static"
            } else {
                "Dynamic"
            }
            .to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().enumerate().map(row).collect();
    let table = tabulate(
        &["No.", "Vlan", "MacAddress", "Port", "Type"],
        &rows,
        TextAlignment::Left,
    );
    format!("{table}Total number of entries {}\n", rows.len())
}

/// Returns the table of `nbrshow`. The last line of the table ends in a space, as in SONiC. The table lists
/// only neighbours with a known MAC address.
fn neighbour_table(entries: &[Neighbour], with_status: bool) -> String {
    let row = |entry: &Neighbour| {
        let mac = entry.mac.clone()?;
        let (interface, vlan) = match entry.vlan {
            None => (entry.interface.clone(), "-".to_owned()),
            Some(id) => (
                entry.port.clone().unwrap_or_else(|| "-".to_owned()),
                id.to_string(),
            ),
        };
        let mut row = vec![entry.address.to_string(), mac, interface, vlan];
        if with_status {
            row.push(linux_neighbour_state(&entry.state));
        }
        Some(row)
    };
    let mut rows: Vec<Vec<String>> = entries.iter().filter_map(row).collect();
    rows.sort_by(|a, b| compare_naturally(&a[0], &b[0]));
    let header = ["Address", "MacAddress", "Iface", "Vlan", "Status"];
    let header = if with_status { &header[..] } else { &header[..4] };
    let table = tabulate(header, &rows, TextAlignment::Left);
    format!("{table}Total number of entries {} \n", rows.len())
}

/// Returns the Linux name of a neighbour state, such as `REACHABLE` or `PERMANENT`.
fn linux_neighbour_state(state: &str) -> String {
    match state {
        "static" => "PERMANENT".to_owned(),
        state => state.to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(address: &str, mac: Option<&str>, interface: &str, vlan: Option<u16>) -> Neighbour {
        Neighbour {
            address: address.parse().expect("an address"),
            mac: mac.map(str::to_owned),
            interface: interface.to_owned(),
            vlan,
            port: vlan.map(|_| "Ethernet20".to_owned()),
            state: "reachable".to_owned(),
            age_ns: 0,
            held_frames: 0,
        }
    }

    #[test]
    fn mac_addresses_have_the_layout_of_fdbshow() {
        let entry = |vlan, mac: &str, port: &str| MacEntry {
            vlan,
            mac: mac.to_owned(),
            port: port.to_owned(),
            kind: "dynamic".to_owned(),
            age_ns: 1,
        };
        let entries = [
            entry(0, "02:00:00:00:00:0a", "Ethernet0"),
            entry(100, "02:00:00:00:00:0b", "PortChannel0001"),
        ];
        let expected = "  No.  Vlan    MacAddress         Port             Type
-----  ------  -----------------  ---------------  -------
    1  -       02:00:00:00:00:0A  Ethernet0        Dynamic
    2  100     02:00:00:00:00:0B  PortChannel0001  Dynamic
Total number of entries 2
";
        assert_eq!(mac_table(&entries), expected);
    }

    #[test]
    fn neighbours_have_the_layout_of_nbrshow() {
        let entries = [
            neighbour("192.168.0.2", Some("24:8a:07:4c:f5:0a"), "Vlan1000", Some(1000)),
            neighbour("10.0.0.57", Some("52:54:00:87:8f:2c"), "PortChannel0001", None),
            neighbour("10.0.0.59", None, "PortChannel0002", None),
        ];
        let expected = "Address      MacAddress         Iface            Vlan
-----------  -----------------  ---------------  ------
10.0.0.57    52:54:00:87:8f:2c  PortChannel0001  -
192.168.0.2  24:8a:07:4c:f5:0a  Ethernet20       1000
Total number of entries 2 \n";
        assert_eq!(neighbour_table(&entries, false), expected);
        let entries = [neighbour(
            "fc00::72",
            Some("52:54:00:87:8f:2c"),
            "PortChannel0001",
            None,
        )];
        let expected = "Address    MacAddress         Iface            Vlan    Status
---------  -----------------  ---------------  ------  ---------
fc00::72   52:54:00:87:8f:2c  PortChannel0001  -       REACHABLE
Total number of entries 1 \n";
        assert_eq!(neighbour_table(&entries, true), expected);
    }
}
