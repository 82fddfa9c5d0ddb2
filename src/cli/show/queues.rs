//! `show queue counters`, in the layout of SONiC's `queuestat`.

use serde_json::{Map, Value, json};

use super::pfc::check_port_names;
use super::tabulate::{TextAlignment, tabulate};
use super::{ShowQueueCounters, connect, print};
use xoff_config::compare_naturally;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{PortReport, QueueReport};

/// A counter of a queue: the title of the column in the table, the name of the field in JSON, and a function
/// that reads the value.
struct QueueCounter {
    title: &'static str,
    name: &'static str,
    value: fn(&QueueReport) -> u64,
}

/// Counters of `queuestat` without options.
const TRAFFIC_COUNTERS: [QueueCounter; 4] = [
    QueueCounter {
        title: "Counter/pkts",
        name: "totalpacket",
        value: |queue| queue.packets,
    },
    QueueCounter {
        title: "Counter/bytes",
        name: "totalbytes",
        value: |queue| queue.bytes,
    },
    QueueCounter {
        title: "Drop/pkts",
        name: "droppacket",
        value: |queue| queue.dropped_packets,
    },
    QueueCounter {
        title: "Drop/bytes",
        name: "dropbytes",
        value: |queue| queue.dropped_bytes,
    },
];

/// Counters of `queuestat --trim`.
const TRIMMING_COUNTERS: [QueueCounter; 3] = [
    QueueCounter {
        title: "Trim/pkts",
        name: "trimpacket",
        value: |queue| queue.trim_packets,
    },
    QueueCounter {
        title: "TrimSent/pkts",
        name: "trimsentpacket",
        value: |queue| queue.tx_trim_packets,
    },
    QueueCounter {
        title: "TrimDrop/pkts",
        name: "trimdroppacket",
        value: |queue| queue.dropped_trim_packets,
    },
];

/// Runs `show queue counters`.
pub(super) fn show_counters(options: &ShowQueueCounters) -> Result<Exit, Failure> {
    let table = &options.selection.table;
    let names = &options.selection.ports;
    let mut ports = connect(&table.target)?.counters()?.switch.ports;
    check_port_names(names, ports.iter().map(|port| port.name.as_str()))?;
    ports.retain(|port| names.is_empty() || names.contains(&port.name));
    ports.sort_by(|a, b| compare_naturally(&a.name, &b.name));
    let counters = select_counters(options.all, options.trim);
    let json = queues_json(&ports, &counters, options.nonzero);
    print(table.json, &json, |_| {
        queue_tables(&ports, &counters, options.nonzero)
    })
}

fn select_counters(all: bool, only_trimming: bool) -> Vec<&'static QueueCounter> {
    match (all, only_trimming) {
        (true, _) => TRAFFIC_COUNTERS.iter().chain(&TRIMMING_COUNTERS).collect(),
        (false, true) => TRIMMING_COUNTERS.iter().collect(),
        (false, false) => TRAFFIC_COUNTERS.iter().collect(),
    }
}

/// Returns the name of each queue of a port, such as `UC3`, and the values of the counters. `only_nonzero`
/// omits queues whose counters are all 0.
fn queue_values<'a>(
    port: &'a PortReport,
    counters: &'a [&QueueCounter],
    only_nonzero: bool,
) -> impl Iterator<Item = (String, Vec<u64>)> + 'a {
    let queues = port.queues.iter().enumerate();
    let rows = queues.map(|(number, queue)| {
        let values: Vec<u64> = counters.iter().map(|counter| (counter.value)(queue)).collect();
        (format!("UC{number}"), values)
    });
    rows.filter(move |(_, values)| !only_nonzero || values.iter().any(|value| *value > 0))
}

/// Returns a table for each port that has rows. An empty line follows each table.
fn queue_tables(ports: &[PortReport], counters: &[&QueueCounter], only_nonzero: bool) -> String {
    let titles = counters.iter().map(|counter| counter.title);
    let header: Vec<&str> = ["Port", "TxQ"].into_iter().chain(titles).collect();
    let mut text = String::new();
    for port in ports {
        let row = |(queue, values): (String, Vec<u64>)| {
            let values = values.iter().map(u64::to_string);
            [port.name.clone(), queue].into_iter().chain(values).collect()
        };
        let rows: Vec<Vec<String>> = queue_values(port, counters, only_nonzero).map(row).collect();
        if !rows.is_empty() {
            text.push_str(&tabulate(&header, &rows, TextAlignment::Right));
            text.push('\n');
        }
    }
    text
}

/// Returns the JSON of `queuestat`. Its numbers are strings.
fn queues_json(ports: &[PortReport], counters: &[&QueueCounter], only_nonzero: bool) -> Value {
    let queue_object = |values: &[u64]| -> Value {
        let named = counters.iter().zip(values);
        let fields = named.map(|(counter, value)| (counter.name.to_owned(), json!(value.to_string())));
        Value::Object(fields.collect())
    };
    let port_object = |port: &PortReport| -> Value {
        let queues = queue_values(port, counters, only_nonzero);
        Value::Object(
            queues
                .map(|(queue, values)| (queue, queue_object(&values)))
                .collect(),
        )
    };
    let all: Map<String, Value> = ports
        .iter()
        .map(|port| (port.name.clone(), port_object(port)))
        .collect();
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    fn port(name: &str) -> PortReport {
        let queue = |packets: u64, dropped: u64, trimmed: u64| QueueReport {
            packets,
            bytes: 1_082 * packets,
            dropped_packets: dropped,
            dropped_bytes: 1_082 * dropped,
            trim_packets: trimmed,
            ..QueueReport::default()
        };
        let mut port = sample_snapshot().into_report().ports.remove(0);
        port.name = name.to_owned();
        port.queues = vec![queue(0, 0, 0), queue(1_234, 39, 0), queue(0, 0, 5)];
        port
    }

    #[test]
    fn each_port_has_a_table() {
        let expected = "     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes
---------  -----  --------------  ---------------  -----------  ------------
Ethernet0    UC0               0                0            0             0
Ethernet0    UC1            1234          1335188           39         42198
Ethernet0    UC2               0                0            0             0

";
        let traffic = select_counters(false, false);
        let ports = [port("Ethernet0"), port("Ethernet4")];
        assert_eq!(queue_tables(&ports[..1], &traffic, false), expected);
        let second = expected.replace("Ethernet0", "Ethernet4");
        assert_eq!(
            queue_tables(&ports, &traffic, false),
            format!("{expected}{second}")
        );
    }

    #[test]
    fn queues_without_counts_are_omitted_with_nonzero() {
        let text = queue_tables(&[port("Ethernet0")], &select_counters(true, false), true);
        assert!(
            text.lines()
                .next()
                .is_some_and(|header| header.ends_with("TrimDrop/pkts"))
        );
        assert_eq!(
            text.lines().filter(|line| line.contains("UC")).count(),
            2,
            "{text}"
        );
        let trims = queue_tables(&[port("Ethernet0")], &select_counters(false, true), true);
        assert_eq!(
            trims.lines().filter(|line| line.contains("UC")).count(),
            1,
            "{trims}"
        );
        let idle = PortReport {
            queues: vec![QueueReport::default(); 8],
            ..port("Ethernet0")
        };
        assert_eq!(queue_tables(&[idle], &select_counters(false, false), true), "");
    }

    #[test]
    fn json_has_the_form_of_queuestat() {
        let json = queues_json(&[port("Ethernet0")], &select_counters(false, false), true);
        let expected = json!({"Ethernet0": {"UC1": {
            "totalpacket": "1234", "totalbytes": "1335188", "droppacket": "39", "dropbytes": "42198"
        }}});
        assert_eq!(json, expected);
    }
}
