//! `show counters`: all counters of a switch, in tables with SONiC's layout.

use std::fmt::Write as _;

use super::super::output;
use super::{ShowCounters, connect};
use xoff_control::{CountersReply, WatermarkKind, WatermarkPart};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{
    PortReport, PriorityGroupReport, QueueReport, SwitchReport, Taint, describe_drop, format_counts_by_class,
    format_nanos, format_percent, group_thousands, simple_table,
};

/// Runs `show counters`.
pub(super) fn show_counters(options: &ShowCounters) -> Result<Exit, Failure> {
    let mut client = connect(&options.target)?;
    let counters = client.counters()?;
    let taints = client.taints()?;
    if options.clear_watermarks {
        client.clear_watermarks(WatermarkKind::User, WatermarkPart::All)?;
    }
    if options.json {
        output::print_json(&counters);
    } else {
        output::print(&counter_tables(&counters, &taints));
    }
    Ok(Exit::Ok)
}

/// Returns all tables, with the titles of SONiC's commands.
fn counter_tables(counters: &CountersReply, taints: &[Taint]) -> String {
    let switch = &counters.switch;
    let mut text = format!(
        "switch {}, model time {}, cells of {} bytes\n",
        switch.name,
        format_nanos(switch.model_time_ns),
        switch.cell_bytes
    );
    for taint in taints {
        let _ = writeln!(
            text,
            "tainted since {}: {}",
            format_nanos(taint.since_ns),
            taint.cause
        );
    }
    let ports = &switch.ports;
    let sections = [
        ("", interface_table(ports)),
        (
            "",
            eight_column_table(ports, "Port Rx", "PFC", |port| port.pfc_rx.map(group_thousands)),
        ),
        (
            "",
            eight_column_table(ports, "Port Tx", "PFC", |port| port.pfc_tx.map(group_thousands)),
        ),
        (
            "Time that the peer paused each priority of the port:",
            eight_column_table(ports, "Port", "PFC", |port| port.paused_ns.map(pause_time_cell)),
        ),
        (
            "Current pause states (P: paused by the peer, X: priority group in XOFF):",
            eight_column_table(ports, "Port", "PFC", pause_state_cells),
        ),
        ("", queue_table(ports)),
        ("", trimming_table(ports)),
        (
            "Ingress shared pool occupancy per PG (watermark, bytes):",
            eight_column_table(ports, "Port", "PG", |port| {
                group_cells(port, |pg| pg.shared_watermark_bytes)
            }),
        ),
        (
            "Ingress headroom per PG (watermark, bytes):",
            eight_column_table(ports, "Port", "PG", |port| {
                group_cells(port, |pg| pg.headroom_watermark_bytes)
            }),
        ),
        (
            "Ingress PG dropped packets:",
            eight_column_table(ports, "Port", "PG", |port| {
                group_cells(port, |pg| pg.dropped_packets)
            }),
        ),
        (
            "Egress shared pool occupancy per queue (watermark, bytes):",
            eight_column_table(ports, "Port", "UC", |port| {
                count_cells(&port.queues, |queue| queue.shared_watermark_bytes)
            }),
        ),
        ("", pool_table(switch)),
        ("", drop_table(ports)),
    ];
    for (title, table) in sections.into_iter().filter(|(_, table)| !table.is_empty()) {
        text.push('\n');
        if !title.is_empty() {
            let _ = writeln!(text, "{title}");
        }
        text.push_str(&table);
    }
    text
}

/// Returns the table of `show interfaces counters` with additional columns for device, speed and lost time.
fn interface_table(ports: &[PortReport]) -> String {
    let header = [
        "IFACE",
        "STATE",
        "DEVICE",
        "SPEED",
        "RX_OK",
        "RX_BYTES",
        "TX_OK",
        "TX_BYTES",
        "TX_UTIL",
        "TX_DEFICIT",
        "DROPS",
        "ECN_MARKED",
        "HOST_LOST",
    ];
    let row = |port: &PortReport| {
        vec![
            port.name.clone(),
            if port.up { "U" } else { "D" }.to_owned(),
            port.device.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{}M", port.speed_mbps),
            group_thousands(port.rx_packets),
            group_thousands(port.rx_bytes),
            group_thousands(port.tx_packets),
            group_thousands(port.tx_bytes),
            format_percent(port.tx_utilisation),
            format_nanos(port.tx_deficit_ns),
            group_thousands(port.dropped()),
            group_thousands(port.ecn_marked),
            group_thousands(port.host_lost),
        ]
    };
    simple_table(&header, 3, ports.iter().map(row).collect())
}

/// Returns a table with one row per port. The eight columns are the priorities, the priority groups
/// or the queues.
fn eight_column_table(
    ports: &[PortReport],
    first_title: &str,
    title_prefix: &str,
    cells: impl Fn(&PortReport) -> [String; 8],
) -> String {
    let columns: Vec<String> = (0..8).map(|number| format!("{title_prefix}{number}")).collect();
    let header: Vec<&str> = std::iter::once(first_title)
        .chain(columns.iter().map(String::as_str))
        .collect();
    let row = |port: &PortReport| std::iter::once(port.name.clone()).chain(cells(port)).collect();
    simple_table(&header, 1, ports.iter().map(row).collect())
}

fn pause_time_cell(ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { format_nanos(ns) }
}

fn pause_state_cells(port: &PortReport) -> [String; 8] {
    std::array::from_fn(
        |priority| match (port.paused_now[priority], port.xoff_now[priority]) {
            (true, true) => "P X".to_owned(),
            (true, false) => "P".to_owned(),
            (false, true) => "X".to_owned(),
            (false, false) => "-".to_owned(),
        },
    )
}

fn group_cells(port: &PortReport, count: impl Fn(&PriorityGroupReport) -> u64) -> [String; 8] {
    count_cells(&port.priority_groups, count)
}

/// Returns a cell for each of eight items. The cell of a missing item is a dash.
fn count_cells<T>(items: &[T], count: impl Fn(&T) -> u64) -> [String; 8] {
    std::array::from_fn(|index| {
        items
            .get(index)
            .map_or_else(|| "-".to_owned(), |item| group_thousands(count(item)))
    })
}

/// Returns the columns of `show queue counters` and `show queue wredcounters` in one table. Queues without
/// frames are omitted.
fn queue_table(ports: &[PortReport]) -> String {
    let header = [
        "Port",
        "TxQ",
        "Counter/pkts",
        "Counter/bytes",
        "Drop/pkts",
        "Drop/bytes",
        "WredDrp/pkts",
        "EcnMarked/pkts",
        "EcnMarked/bytes",
    ];
    let used = |queue: &QueueReport| queue.packets + queue.dropped_packets + queue.wred_dropped_packets > 0;
    let mut rows = Vec::new();
    for port in ports {
        for (number, queue) in port.queues.iter().enumerate().filter(|(_, queue)| used(queue)) {
            rows.push(vec![
                port.name.clone(),
                format!("UC{number}"),
                group_thousands(queue.packets),
                group_thousands(queue.bytes),
                group_thousands(queue.dropped_packets),
                group_thousands(queue.dropped_bytes),
                group_thousands(queue.wred_dropped_packets),
                group_thousands(queue.ecn_marked_packets),
                group_thousands(queue.ecn_marked_bytes),
            ]);
        }
    }
    if rows.is_empty() {
        String::new()
    } else {
        simple_table(&header, 2, rows)
    }
}

/// Returns the table of `show queue counters --trim`. Queues without trimmed packets are omitted.
fn trimming_table(ports: &[PortReport]) -> String {
    let header = ["Port", "TxQ", "Trim/pkts", "TrimSent/pkts", "TrimDrop/pkts"];
    let counts = |queue: &QueueReport| {
        [
            queue.trim_packets,
            queue.tx_trim_packets,
            queue.dropped_trim_packets,
        ]
    };
    let mut rows = Vec::new();
    for port in ports {
        for (number, queue) in port.queues.iter().enumerate() {
            if counts(queue) != [0; 3] {
                let mut row = vec![port.name.clone(), format!("UC{number}")];
                row.extend(counts(queue).map(group_thousands));
                rows.push(row);
            }
        }
    }
    match rows.is_empty() {
        true => String::new(),
        false => simple_table(&header, 2, rows),
    }
}

/// Returns the columns of `show buffer_pool watermark` and `show headroom-pool watermark` in one table.
fn pool_table(switch: &SwitchReport) -> String {
    let header = [
        "Pool",
        "Bytes now",
        "Bytes watermark",
        "Headroom now",
        "Headroom watermark",
    ];
    let rows = switch.pools.iter().map(|pool| {
        vec![
            pool.name.clone(),
            group_thousands(pool.current_bytes),
            group_thousands(pool.watermark_bytes),
            group_thousands(pool.headroom_current_bytes),
            group_thousands(pool.headroom_watermark_bytes),
        ]
    });
    simple_table(&header, 1, rows.collect())
}

/// Returns a row for each port and drop reason.
fn drop_table(ports: &[PortReport]) -> String {
    let mut rows = Vec::new();
    for port in ports {
        for (reason, classes) in &port.drops_by_class {
            let meaning = describe_drop(reason).unwrap_or("-").to_owned();
            rows.push(vec![
                port.name.clone(),
                reason.clone(),
                meaning,
                format_counts_by_class(classes, group_thousands),
            ]);
        }
    }
    let header = ["Port", "Drop reason", "Meaning", "Frames by class"];
    if rows.is_empty() {
        String::new()
    } else {
        simple_table(&header, 3, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_control::COUNTERS_SCHEMA;
    use xoff_telemetry::samples::sample_snapshot;

    #[test]
    fn tables_of_a_switch_have_the_recorded_text() {
        let counters = CountersReply {
            schema: COUNTERS_SCHEMA.to_owned(),
            switch: sample_snapshot().into_report(),
        };
        let text = counter_tables(
            &counters,
            &[Taint {
                since_ns: 5_000_000,
                cause: "a stall of 31.0 ms".to_owned(),
            }],
        );
        let expected = include_str!("counters.txt");
        assert!(
            text == expected,
            "the tables changed; if the change is intended, write this text to src/cli/show/counters.txt:\n{text}"
        );
    }
}
