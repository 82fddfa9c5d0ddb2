//! Formats a report as tables for a terminal.

use std::fmt::Write as _;

use xoff_telemetry::verdict::{OversizedDrops, describe_idle_switches};
use xoff_telemetry::{
    FlowEnd, FlowReport, PortReport, StormReport, SwitchReport, count_noun, drops_table, format_bit_rate,
    format_counts_by_class, format_nanos, format_percent, group_thousands, simple_table,
};

use super::job_tables;
use super::receivers::receivers_table;
use super::{DeadlockReport, HostReport};
use super::{Report, Verdict};

/// Largest number of ports that the tables list completely. With more ports, the tables omit ports without
/// drops, pauses and ECN marks.
const PORTS_SHOWN_MAX: usize = 48;

/// Formats a report for a terminal: tables of jobs, flows, switch ports, host counters, PFC storms and drops,
/// followed by the verdict. Tables without rows are left out.
pub fn render_report(report: &Report) -> String {
    let mut text = String::new();
    if let Some(results) = &report.jobs {
        text.push_str(&job_tables::format_job_tables(results));
        text.push('\n');
    }
    text.push_str(&flows_tables(&report.flows));
    if let Some(host) = &report.host {
        text.push_str(&pauses_table(host));
        text.push('\n');
    }
    text.push_str(&switches_tables(report));
    let hosts = match (&report.virtual_time, &report.real_time) {
        (Some(virtual_time), _) => &virtual_time.hosts[..],
        (None, Some(real_time)) => &real_time.hosts[..],
        (None, None) => &[],
    };
    let counters = job_tables::format_host_counters(hosts);
    if !counters.is_empty() {
        text.push_str(&counters);
        text.push('\n');
    }
    let receivers = receivers_table(&report.receivers);
    if !receivers.is_empty() {
        text.push_str(&receivers);
        text.push('\n');
    }
    if let Some(table) = pfc_storms_table(&report.switches) {
        text.push_str(&table);
        text.push('\n');
    }
    if let Some(table) = drops_table(&report.switches) {
        text.push_str(&table);
        text.push('\n');
    }
    for host in &report.plain_hosts {
        let dropped = count_noun(host.tx_dropped_frames, "frame");
        let _ = writeln!(
            text,
            "host {}: its kernel dropped {dropped} instead of sending them\n",
            host.name
        );
    }
    if let Some(virtual_time) = &report.virtual_time {
        text.push_str(&format_deadlocks(&virtual_time.deadlocks));
        text.push_str(&job_tables::format_link_balance(virtual_time));
        text.push_str(&job_tables::format_run_size(virtual_time));
    }
    text.push_str(&format_verdict(report));
    text
}

/// Formats a table of ports for each switch. With more than [`PORTS_SHOWN_MAX`] ports in total, ports without
/// drops, pauses and ECN marks are omitted.
fn switches_tables(report: &Report) -> String {
    let mut text = String::new();
    let in_virtual_time = report.virtual_time.is_some();
    let count: usize = report.switches.iter().map(|switch| switch.ports.len()).sum();
    let all = count <= PORTS_SHOWN_MAX;
    let mut shown = 0;
    for switch in &report.switches {
        let of_interest = switch
            .ports
            .iter()
            .filter(|port| all || has_drops_pauses_or_marks(port));
        let chosen: Vec<&PortReport> = of_interest.collect();
        shown += chosen.len();
        if chosen.is_empty() && !switch.ports.is_empty() {
            continue;
        }
        let _ = writeln!(text, "switch {}", switch.name);
        text.push_str(&ports_table(&chosen, in_virtual_time));
        text.push_str(&format_streams(&chosen));
        text.push('\n');
    }
    if shown < count {
        let _ = writeln!(
            text,
            "not shown: {} of {} without drops, pauses and ECN marks (--report FILE has all)\n",
            group_thousands((count - shown) as u64),
            count_noun(count as u64, "port")
        );
    }
    text
}

/// Returns whether a port dropped or marked frames, sent or received pauses, or entered XOFF.
fn has_drops_pauses_or_marks(port: &PortReport) -> bool {
    let any = |counts: &[u64]| counts.iter().any(|count| *count > 0);
    port.dropped() > 0
        || port.ecn_marked > 0
        || port.pause_rx > 0
        || any(&port.pfc_rx)
        || any(&port.pfc_tx)
        || any(&port.xoff_transitions)
        || any(&port.paused_ns)
}

/// Formats the flows. The flows of a sender have only the columns that a sender knows.
fn flows_tables(flows: &[FlowReport]) -> String {
    let (sent, known): (Vec<&FlowReport>, Vec<&FlowReport>) =
        flows.iter().partition(|flow| flow.end == FlowEnd::Sender);
    let mut text = String::new();
    if !sent.is_empty() {
        let row = |flow: &&FlowReport| {
            vec![
                format!("{} -> {}", flow.src, flow.dst),
                flow.class.to_string(),
                group_thousands(flow.sent_frames),
            ]
        };
        text.push_str(&simple_table(
            &["Sent flow", "Class", "Frames"],
            1,
            sent.iter().map(row).collect(),
        ));
        text.push('\n');
    }
    if !known.is_empty() {
        text.push_str(&received_flows_table(&known));
        text.push('\n');
    }
    text
}

fn received_flows_table(flows: &[&FlowReport]) -> String {
    // A receiver computes the number of sent frames from the sequence numbers that arrived.
    let is_receiver = flows.iter().any(|flow| flow.end == FlowEnd::Receiver);
    let header = [
        if is_receiver { "Received flow" } else { "Flow" },
        "Class",
        if is_receiver { "Expected" } else { "Sent" },
        "Received",
        "Lost",
        "Reordered",
        "ICRC errors",
        "Goodput",
        "p50",
        "p99",
        "Max",
    ];
    let row = |flow: &&FlowReport| {
        let promise = if flow.lossless { "lossless" } else { "lossy" };
        vec![
            format!("{} -> {}", flow.src, flow.dst),
            format!("{} {promise}", flow.class),
            group_thousands(flow.sent_frames),
            group_thousands(flow.received_frames),
            group_thousands(flow.lost_frames),
            group_thousands(flow.reordered_frames),
            group_thousands(flow.icrc_errors),
            format_bit_rate(flow.goodput_bps),
            format_nanos(flow.latency_ns.p50),
            format_nanos(flow.latency_ns.p99),
            format_nanos(flow.latency_ns.max),
        ]
    };
    simple_table(&header, 2, flows.iter().map(row).collect())
}

/// Formats the pauses that the host of `xoff host run` received, one row for each priority with a pause.
fn pauses_table(host: &HostReport) -> String {
    let of_priority = |priority: usize| {
        let (frames, paused_ns) = (host.pfc_rx[priority], host.paused_ns[priority]);
        (frames > 0 || paused_ns > 0).then(|| {
            vec![
                priority.to_string(),
                group_thousands(frames),
                format_nanos(paused_ns),
            ]
        })
    };
    let mut rows: Vec<Vec<String>> = (0..host.pfc_rx.len()).filter_map(of_priority).collect();
    if host.pause_rx_frames > 0 {
        rows.push(vec![
            "802.3x PAUSE".to_owned(),
            group_thousands(host.pause_rx_frames),
            format_nanos(host.global_paused_ns),
        ]);
    }
    match rows.is_empty() {
        true => "no pauses received\n".to_owned(),
        false => simple_table(&["Paused priority", "Pause frames", "Paused"], 1, rows),
    }
}

fn ports_table(ports: &[&PortReport], in_virtual_time: bool) -> String {
    if in_virtual_time {
        return virtual_ports_table(ports);
    }
    let header = [
        "Port", "Device", "Rx", "Tx", "Tx util", "Deficit", "PFC rx", "PFC tx", "XOFFs", "Paused", "Dropped",
    ];
    let row = |port: &&PortReport| {
        vec![
            port.name.clone(),
            format_device(port),
            group_thousands(port.rx_packets),
            group_thousands(port.tx_packets),
            format_percent(port.tx_utilisation),
            format_nanos(port.tx_deficit_ns),
            format_counts_by_class(&port.pfc_rx, group_thousands),
            format_counts_by_class(&port.pfc_tx, group_thousands),
            format_counts_by_class(&port.xoff_transitions, group_thousands),
            format_counts_by_class(&port.paused_ns, format_nanos),
            group_thousands(port.dropped()),
        ]
    };
    simple_table(&header, 2, ports.iter().map(row).collect())
}

/// Formats the stops and the closed connections of stream ports, one line for each fact.
fn format_streams(ports: &[&PortReport]) -> String {
    let mut text = String::new();
    for port in ports {
        let Some(stream) = &port.stream else { continue };
        let name = &port.name;
        if stream.stops > 0 {
            let _ = writeln!(
                text,
                "{name}: stopped its stream {}, for {} in total; a stopped stream holds all classes of its sender",
                count_noun(stream.stops, "time"),
                format_nanos(stream.stopped_ns)
            );
        }
        let events = [
            (stream.wrong_lengths, "was closed because of a wrong frame length"),
            (stream.truncated_frames, "ended inside a frame"),
            (
                stream.refused_connections,
                "was refused, because a stream has one peer",
            ),
        ];
        for (count, what) in events.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(
                text,
                "{name}: a connection {what} ({})",
                count_noun(count, "time")
            );
        }
    }
    text
}

/// Formats the table of ports for virtual time. The columns for devices and late departures exist only in
/// real time.
fn virtual_ports_table(ports: &[&PortReport]) -> String {
    let header = [
        "Port", "Rx", "Tx", "Tx util", "PFC rx", "PFC tx", "XOFFs", "Paused", "Marked", "Dropped",
    ];
    let row = |port: &&PortReport| {
        vec![
            port.name.clone(),
            group_thousands(port.rx_packets),
            group_thousands(port.tx_packets),
            format_percent(port.tx_utilisation),
            format_counts_by_class(&port.pfc_rx, group_thousands),
            format_counts_by_class(&port.pfc_tx, group_thousands),
            format_counts_by_class(&port.xoff_transitions, group_thousands),
            format_counts_by_class(&port.paused_ns, format_nanos),
            group_thousands(port.ecn_marked),
            group_thousands(port.dropped()),
        ]
    };
    simple_table(&header, 1, ports.iter().map(row).collect())
}

/// Formats the network device and the port backend of a port. Returns `-` for a port without a device.
fn format_device(port: &PortReport) -> String {
    match (&port.device, &port.backend) {
        // The name of a stream begins with its backend.
        (Some(device), Some(backend)) if !device.starts_with(backend) => format!("{device} ({backend})"),
        (Some(device), _) => device.clone(),
        (None, _) => "-".to_owned(),
    }
}

/// Formats one line for each PFC deadlock.
fn format_deadlocks(deadlocks: &[DeadlockReport]) -> String {
    let line = |deadlock: &DeadlockReport| {
        let until = match deadlock.until_ns {
            Some(until_ns) => format!("until {}", format_seconds(until_ns)),
            None => "until the end of the run".to_owned(),
        };
        format!(
            "deadlock from {} {until}: these {} ports paused each other in a cycle: {}\n",
            format_seconds(deadlock.since_ns),
            deadlock.ports.len(),
            deadlock.ports.join(", ")
        )
    };
    deadlocks.iter().map(line).collect()
}

/// Largest number of storms in the table.
const STORMS_SHOWN_MAX: usize = 32;

/// Formats the PFC storms that the watchdogs detected. Returns `None` if no storm was detected.
fn pfc_storms_table(switches: &[SwitchReport]) -> Option<String> {
    let of_switch = |switch: &SwitchReport| {
        let name = switch.name.clone();
        let storms = switch.pfc_watchdog.iter().flat_map(|watchdog| &watchdog.storms);
        storms
            .map(move |storm| storm_row(&name, storm))
            .collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = switches.iter().flat_map(of_switch).collect();
    if rows.is_empty() {
        return None;
    }
    let more = rows.len().saturating_sub(STORMS_SHOWN_MAX);
    rows.truncate(STORMS_SHOWN_MAX);
    let header = [
        "PFC storm at",
        "Action",
        "Paused",
        "Detected",
        "Restored",
        "TX ok/drop",
        "RX ok/drop",
    ];
    let mut text = simple_table(&header, 2, rows);
    if more > 0 {
        let _ = writeln!(
            text,
            "and {} more (--report FILE has all)",
            group_thousands(more as u64)
        );
    }
    Some(text)
}

fn storm_row(switch: &str, storm: &StormReport) -> Vec<String> {
    let pair = |ok: u64, dropped: u64| format!("{}/{}", group_thousands(ok), group_thousands(dropped));
    vec![
        format!("{switch} {}:{}", storm.port, storm.queue),
        storm.action.clone(),
        format_nanos(storm.paused_ns),
        format_seconds(storm.detected_ns),
        storm.restored_ns.map_or_else(|| "-".to_owned(), format_seconds),
        pair(storm.tx_packets, storm.tx_dropped_packets),
        pair(storm.rx_packets, storm.rx_dropped_packets),
    ]
}

/// Formats a time as the event log does: in seconds, without rounding.
fn format_seconds(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Formats the verdict in one line, followed by the taints, the failures, or the facts that the reader of a clean
/// run must know.
fn format_verdict(report: &Report) -> String {
    let missing = report.traffic.describe_missing();
    let (line, reasons): (String, Vec<String>) = match report.verdict {
        Verdict::Tainted => (
            "verdict: tainted: something outside the model can have changed the result, so the run proves nothing"
                .to_owned(),
            report
                .taints
                .iter()
                .map(|taint| format!("at {}: {}", format_nanos(taint.since_ns), taint.cause))
                .chain(report.failures.iter().cloned())
                .collect(),
        ),
        Verdict::Failed => (
            "verdict: failed".to_owned(),
            report.failures.iter().cloned().chain(missing).collect(),
        ),
        Verdict::NoTraffic => (
            format!(
                "verdict: {}, so the run proves nothing",
                missing.unwrap_or_else(|| "no traffic".to_owned())
            ),
            describe_unprotected_drops(report),
        ),
        Verdict::Clean => (
            format!("verdict: clean{}{}", format_idle(report), format_lossless_success(&report.flows)),
            describe_unprotected_drops(report),
        ),
    };
    let mut text = line;
    text.push('\n');
    for reason in reasons {
        let _ = writeln!(text, "  {reason}");
    }
    text
}

/// Describes the drops at an MTU that do not fail the run, one line each.
fn describe_unprotected_drops(report: &Report) -> Vec<String> {
    let lossy = report.oversized.iter().filter(|drops| drops.protected.is_none());
    lossy.map(OversizedDrops::describe).collect()
}

/// Formats the absence of traffic in a run that needs none. Returns an empty text for other runs.
fn format_idle(report: &Report) -> String {
    let needs_traffic = report.traffic.offered_frames.is_some() || report.traffic.arrived_frames.is_some();
    if needs_traffic {
        return String::new();
    }
    let notes: String = report
        .traffic
        .notes
        .iter()
        .map(|note| format!("; {note}"))
        .collect();
    describe_idle_switches(&report.switches).map_or(notes, |idle| format!("; {idle}"))
}

/// Formats the summary of lossless flows of a clean run without failures. Returns an empty text if the run
/// has no lossless flows.
fn format_lossless_success(flows: &[FlowReport]) -> String {
    let lossless = || flows.iter().filter(|flow| flow.lossless);
    match lossless().count() {
        0 => String::new(),
        count => {
            let sent = count_noun(lossless().map(|flow| flow.sent_frames).sum(), "frame");
            let flows = count_noun(count as u64, "flow");
            format!("; lossless: {flows}, {sent} sent, none lost, reordered or damaged")
        }
    }
}
