//! `show queue counters`, in the layout of SONiC's `queuestat`.

use serde_json::{Map, Value, json};

use super::pfc::check_names;
use super::tabulate::{Text, tabulate};
use super::{ShowQueueCounters, connect, print};
use xoff_config::natural_order;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{PortReport, QueueReport};

/// A counter with the title of its column, its JSON name and its value.
struct Counter {
    title: &'static str,
    name: &'static str,
    value: fn(&QueueReport) -> u64,
}

const GENERIC: [Counter; 4] = [
    Counter {
        title: "Counter/pkts",
        name: "totalpacket",
        value: |queue| queue.packets,
    },
    Counter {
        title: "Counter/bytes",
        name: "totalbytes",
        value: |queue| queue.bytes,
    },
    Counter {
        title: "Drop/pkts",
        name: "droppacket",
        value: |queue| queue.dropped_packets,
    },
    Counter {
        title: "Drop/bytes",
        name: "dropbytes",
        value: |queue| queue.dropped_bytes,
    },
];

const TRIMMING: [Counter; 3] = [
    Counter {
        title: "Trim/pkts",
        name: "trimpacket",
        value: |queue| queue.trim_packets,
    },
    Counter {
        title: "TrimSent/pkts",
        name: "trimsentpacket",
        value: |queue| queue.tx_trim_packets,
    },
    Counter {
        title: "TrimDrop/pkts",
        name: "trimdroppacket",
        value: |queue| queue.dropped_trim_packets,
    },
];

pub(super) fn counters(options: &ShowQueueCounters) -> Result<Exit, Failure> {
    let table = &options.of.table;
    let asked = &options.of.ports;
    let mut ports = connect(&table.target)?.counters()?.switch.ports;
    check_names(asked, ports.iter().map(|port| port.name.as_str()))?;
    ports.retain(|port| asked.is_empty() || asked.contains(&port.name));
    ports.sort_by(|a, b| natural_order(&a.name, &b.name));
    let counters = shown_counters(options.all, options.trim);
    let json = json_of(&ports, &counters, options.nonzero);
    print(table.json, &json, |_| tables(&ports, &counters, options.nonzero))
}

fn shown_counters(all: bool, trim: bool) -> Vec<&'static Counter> {
    match (all, trim) {
        (true, _) => GENERIC.iter().chain(&TRIMMING).collect(),
        (false, true) => TRIMMING.iter().collect(),
        (false, false) => GENERIC.iter().collect(),
    }
}

/// Returns the queues of a port with their names, such as `UC3`, and the values of the counters.
fn rows<'a>(
    port: &'a PortReport,
    counters: &'a [&Counter],
    nonzero: bool,
) -> impl Iterator<Item = (String, Vec<u64>)> + 'a {
    let queues = port.queues.iter().enumerate();
    let rows = queues.map(|(number, queue)| {
        let values: Vec<u64> = counters.iter().map(|counter| (counter.value)(queue)).collect();
        (format!("UC{number}"), values)
    });
    rows.filter(move |(_, values)| !nonzero || values.iter().any(|value| *value > 0))
}

/// Returns a table for each port with a row, followed by an empty line.
fn tables(ports: &[PortReport], counters: &[&Counter], nonzero: bool) -> String {
    let titles = counters.iter().map(|counter| counter.title);
    let header: Vec<&str> = ["Port", "TxQ"].into_iter().chain(titles).collect();
    let mut text = String::new();
    for port in ports {
        let row = |(queue, values): (String, Vec<u64>)| {
            let values = values.iter().map(u64::to_string);
            [port.name.clone(), queue].into_iter().chain(values).collect()
        };
        let rows: Vec<Vec<String>> = rows(port, counters, nonzero).map(row).collect();
        if !rows.is_empty() {
            text.push_str(&tabulate(&header, &rows, Text::Right));
            text.push('\n');
        }
    }
    text
}

/// Returns the JSON form of `queuestat`, with numbers as strings.
fn json_of(ports: &[PortReport], counters: &[&Counter], nonzero: bool) -> Value {
    let queue_object = |values: &[u64]| -> Value {
        let named = counters.iter().zip(values);
        let fields = named.map(|(counter, value)| (counter.name.to_owned(), json!(value.to_string())));
        Value::Object(fields.collect())
    };
    let port_object = |port: &PortReport| -> Value {
        let queues = rows(port, counters, nonzero);
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
    use xoff_telemetry::SwitchReport;
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
        let mut port = SwitchReport::new(&sample_snapshot()).ports.remove(0);
        port.name = name.to_owned();
        port.queues = vec![queue(0, 0, 0), queue(1_234, 39, 0), queue(0, 0, 5)];
        port
    }

    #[test]
    fn a_table_for_each_port() {
        let expected = "     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes
---------  -----  --------------  ---------------  -----------  ------------
Ethernet0    UC0               0                0            0             0
Ethernet0    UC1            1234          1335188           39         42198
Ethernet0    UC2               0                0            0             0

";
        let generic = shown_counters(false, false);
        let ports = [port("Ethernet0"), port("Ethernet4")];
        assert_eq!(tables(&ports[..1], &generic, false), expected);
        let second = expected.replace("Ethernet0", "Ethernet4");
        assert_eq!(tables(&ports, &generic, false), format!("{expected}{second}"));
    }

    #[test]
    fn queues_of_zeros_are_left_out() {
        let text = tables(&[port("Ethernet0")], &shown_counters(true, false), true);
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
        let trims = tables(&[port("Ethernet0")], &shown_counters(false, true), true);
        assert_eq!(
            trims.lines().filter(|line| line.contains("UC")).count(),
            1,
            "{trims}"
        );
        let idle = PortReport {
            queues: vec![QueueReport::default(); 8],
            ..port("Ethernet0")
        };
        assert_eq!(tables(&[idle], &shown_counters(false, false), true), "");
    }

    #[test]
    fn json_has_the_form_of_queuestat() {
        let json = json_of(&[port("Ethernet0")], &shown_counters(false, false), true);
        let expected = json!({"Ethernet0": {"UC1": {
            "totalpacket": "1234", "totalbytes": "1335188", "droppacket": "39", "dropbytes": "42198"
        }}});
        assert_eq!(json, expected);
    }
}
