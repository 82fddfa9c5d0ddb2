//! `show pfc`.

use super::tabulate::{TextAlignment, tabulate};
use super::{PortTableArguments, ShowPfcCounters, TableArguments, connect, print, print_with_reason};
use xoff_control::PfcPort;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{group_thousands, simple_table};

/// Runs `show pfc counters`.
pub(super) fn show_counters(options: &ShowPfcCounters) -> Result<Exit, Failure> {
    let ports = connect(&options.table.target)?.pfc()?;
    let has_history = ports.iter().any(|port| port.history.is_some());
    let empty = (options.history && !has_history).then_some(
        "no port records pauses: set `pfc_stat_history` of the ports to `enable` in the table PFC_WD",
    );
    print_with_reason(options.table.json, &ports, empty, |ports| match options.history {
        true => history_table(ports),
        false => counter_tables(ports),
    })
}

/// Runs `show pfc asymmetric`.
pub(super) fn show_asymmetric(options: &PortTableArguments) -> Result<Exit, Failure> {
    let ports = read_selected_ports(options)?;
    print(options.table.json, &ports, |ports| {
        let cell = |port: &PfcPort| if port.asymmetric { "on" } else { "off" }.to_owned();
        two_column_table(ports, "Asymmetric", cell)
    })
}

/// Runs `show pfc priority`.
pub(super) fn show_priority(options: &PortTableArguments) -> Result<Exit, Failure> {
    let ports = read_selected_ports(options)?;
    print(options.table.json, &ports, |ports| {
        two_column_table(ports, "Lossless priorities", |port| {
            match port.priorities.as_slice() {
                [] => "N/A".to_owned(),
                some => some.iter().map(u8::to_string).collect::<Vec<_>>().join(","),
            }
        })
    })
}

/// Reads the state of the named ports, or of all ports.
fn read_selected_ports(options: &PortTableArguments) -> Result<Vec<PfcPort>, Failure> {
    let TableArguments { target, .. } = &options.table;
    let mut ports = connect(target)?.pfc()?;
    check_port_names(&options.ports, ports.iter().map(|port| port.name.as_str()))?;
    ports.retain(|port| options.ports.is_empty() || options.ports.contains(&port.name));
    Ok(ports)
}

/// Returns an error if the switch has no port with one of these names.
pub(super) fn check_port_names<'a>(
    names: &[String],
    switch_ports: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let switch_ports: Vec<&str> = switch_ports.collect();
    match names.iter().find(|name| !switch_ports.contains(&name.as_str())) {
        Some(name) => Err(Failure::usage(format!("the switch has no port {name:?}"))
            .fix(format!("name one of: {}", switch_ports.join(", ")))),
        None => Ok(()),
    }
}

/// Returns the table of `pfc show`, which has the port and one value in each row. An empty line precedes and
/// follows the table.
fn two_column_table(ports: &[PfcPort], title: &str, cell: impl Fn(&PfcPort) -> String) -> String {
    let row = |port: &PfcPort| vec![port.name.clone(), cell(port)];
    let rows: Vec<Vec<String>> = ports.iter().map(row).collect();
    format!(
        "\n{}\n",
        tabulate(&["Interface", title], &rows, TextAlignment::Left)
    )
}

/// Returns the tables of `pfcstat`: received frames, then sent frames.
fn counter_tables(ports: &[PfcPort]) -> String {
    let table = |first_title: &str, counts: fn(&PfcPort) -> &[u64; 8]| {
        let columns: Vec<String> = (0..8).map(|n| format!("PFC{n}")).collect();
        let header: Vec<&str> = std::iter::once(first_title)
            .chain(columns.iter().map(String::as_str))
            .collect();
        let row = |port: &PfcPort| {
            let cells = counts(port).iter().map(|count| group_thousands(*count));
            std::iter::once(port.name.clone()).chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = ports.iter().map(row).collect();
        tabulate(&header, &rows, TextAlignment::Right)
    };
    format!(
        "{}\n{}\n",
        table("Port Rx", |port| &port.rx),
        table("Port Tx", |port| &port.tx)
    )
}

/// Returns the table of `pfcstat --history`. The time stamps are model times, whereas SONiC prints dates.
fn history_table(ports: &[PfcPort]) -> String {
    let header = [
        "Port",
        "Priority",
        "RX Pause Transitions",
        "Total RX Pause Time US",
        "Recent RX Pause Time US",
        "Recent RX Pause Timestamp",
    ];
    let mut rows = Vec::new();
    for port in ports {
        for (n, history) in port.history.iter().flatten().enumerate() {
            rows.push(vec![
                port.name.clone(),
                format!("PFC{n}"),
                group_thousands(history.transitions),
                group_thousands(history.total_pause_ns / 1_000),
                group_thousands(history.recent_pause_ns / 1_000),
                history.recent_pause_at_ns.map_or_else(
                    || "N/A".to_owned(),
                    |at| format!("{}.{:09} s", at / 1_000_000_000, at % 1_000_000_000),
                ),
            ]);
        }
    }
    simple_table(&header, 2, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::PauseHistoryReport;

    fn ports() -> Vec<PfcPort> {
        let port = |name: &str| PfcPort {
            name: name.to_owned(),
            priorities: vec![3, 4],
            asymmetric: true,
            ..PfcPort::default()
        };
        let mut first = port("Ethernet0");
        first.rx[3] = 12_345;
        first.tx[4] = 7;
        let mut history = [PauseHistoryReport::default(); 8];
        history[3] = PauseHistoryReport {
            transitions: 2,
            total_pause_ns: 1_234_567_000,
            recent_pause_ns: 400_000,
            recent_pause_at_ns: Some(2_000_000_007),
        };
        first.history = Some(history);
        let second = PfcPort {
            priorities: Vec::new(),
            asymmetric: false,
            ..port("Ethernet4")
        };
        vec![first, second]
    }

    #[test]
    fn counters_are_printed_in_a_table_for_each_direction() {
        let expected = "  Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0  12,345       0       0       0       0
Ethernet4       0       0       0       0       0       0       0       0

  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0       0       7       0       0       0
Ethernet4       0       0       0       0       0       0       0       0

";
        assert_eq!(counter_tables(&ports()), expected);
    }

    #[test]
    fn tables_of_pfc_show_are_between_empty_lines() {
        let table = two_column_table(&ports(), "Asymmetric", |port| port.asymmetric.to_string());
        let expected = "
Interface    Asymmetric
-----------  ------------
Ethernet0    true
Ethernet4    false

";
        assert_eq!(table, expected);
    }

    #[test]
    fn only_ports_with_a_history_are_listed() {
        let text = history_table(&ports());
        assert_eq!(text.lines().count(), 2 + 8, "{text}");
        let row = text.lines().find(|line| line.contains("PFC3")).expect("a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            ["Ethernet0", "PFC3", "2", "1,234,567", "400", "2.000000007", "s"]
        );
    }

    #[test]
    fn unknown_ports_are_refused() {
        let names = || ["Ethernet0", "Ethernet4"].into_iter();
        assert!(check_port_names(&["Ethernet4".to_owned()], names()).is_ok());
        let failure = check_port_names(&["Ethernet8".to_owned()], names()).expect_err("no such port");
        assert_eq!(failure.exit, Exit::Usage);
    }
}
