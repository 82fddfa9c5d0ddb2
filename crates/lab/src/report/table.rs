//! A run's result as tables on a terminal.

use std::fmt::Write as _;

use xoff_telemetry::{
    FlowReport, PortReport, StormReport, SwitchReport, drops_table, format_bit_rate, format_counts_by_class,
    format_nanos, format_percent, group_thousands, simple_table,
};

use super::jobs;
use super::receivers::receivers_table;
use super::{Report, Verdict};
use crate::DeadlockReport;

/// With more ports than this, those that did nothing special are left out.
const PORTS_SHOWN: usize = 48;

/// The whole result: jobs and flows, each switch's ports, drops with their reasons, the verdict.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    if let Some(results) = &report.jobs {
        text.push_str(&jobs::jobs(results));
        text.push('\n');
    }
    if !report.flows.is_empty() {
        text.push_str(&flows(&report.flows));
        text.push('\n');
    }
    text.push_str(&switches(report));
    let hosts = match (&report.virtual_time, &report.real_time) {
        (Some(of), _) => &of.hosts[..],
        (None, Some(of)) => &of.hosts[..],
        (None, None) => &[],
    };
    let counters = jobs::host_counters(hosts);
    if !counters.is_empty() {
        text.push_str(&counters);
        text.push('\n');
    }
    let receivers = receivers_table(&report.receivers);
    if !receivers.is_empty() {
        text.push_str(&receivers);
        text.push('\n');
    }
    if let Some(table) = storms_table(&report.switches) {
        text.push_str(&table);
        text.push('\n');
    }
    if let Some(table) = drops_table(&report.switches) {
        text.push_str(&table);
        text.push('\n');
    }
    if let Some(of) = &report.virtual_time {
        text.push_str(&deadlocks(&of.deadlocks));
        text.push_str(&jobs::balance_line(of));
        text.push_str(&jobs::size_line(of));
    }
    text.push_str(&verdict(report));
    text
}

/// Ports by switch; of a large fabric, those only that did something special.
fn switches(report: &Report) -> String {
    let mut text = String::new();
    let in_virtual_time = report.virtual_time.is_some();
    let count: usize = report.switches.iter().map(|switch| switch.ports.len()).sum();
    let all = count <= PORTS_SHOWN;
    let mut shown = 0;
    for switch in &report.switches {
        let of_interest = switch.ports.iter().filter(|port| all || is_special(port));
        let chosen: Vec<&PortReport> = of_interest.collect();
        shown += chosen.len();
        if chosen.is_empty() && !switch.ports.is_empty() {
            continue;
        }
        let _ = writeln!(text, "switch {}", switch.name);
        text.push_str(&ports(&chosen, in_virtual_time));
        text.push('\n');
    }
    if shown < count {
        let _ = writeln!(
            text,
            "{} of {} ports neither dropped, paused, were paused nor marked, and are not shown (--report FILE has all)\n",
            group_thousands((count - shown) as u64),
            group_thousands(count as u64)
        );
    }
    text
}

/// Whether a port did more than pass frames on.
fn is_special(port: &PortReport) -> bool {
    let any = |counts: &[u64]| counts.iter().any(|count| *count > 0);
    port.dropped() > 0
        || port.ecn_marked > 0
        || port.pause_rx > 0
        || any(&port.pfc_rx)
        || any(&port.pfc_tx)
        || any(&port.xoff_transitions)
        || any(&port.paused_ns)
}

fn flows(flows: &[FlowReport]) -> String {
    let header = [
        "Flow",
        "Class",
        "Sent",
        "Received",
        "Lost",
        "Reordered",
        "ICRC errors",
        "Goodput",
        "p50",
        "p99",
        "Max",
    ];
    let row = |flow: &FlowReport| {
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

fn ports(ports: &[&PortReport], in_virtual_time: bool) -> String {
    if in_virtual_time {
        return virtual_ports(ports);
    }
    let header = [
        "Port", "Device", "Rx", "Tx", "Tx util", "Deficit", "PFC rx", "PFC tx", "XOFFs", "Paused", "Dropped",
    ];
    let row = |port: &&PortReport| {
        vec![
            port.name.clone(),
            device(port),
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

/// No devices, and no host that could be late.
fn virtual_ports(ports: &[&PortReport]) -> String {
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

/// The device and what moves its frames, or why there is none.
fn device(port: &PortReport) -> String {
    match (&port.device, &port.backend) {
        (Some(device), Some(backend)) => format!("{device} ({backend})"),
        (Some(device), None) => device.clone(),
        (None, _) => "-".to_owned(),
    }
}

/// A line for each circle of pauses.
fn deadlocks(deadlocks: &[DeadlockReport]) -> String {
    let line = |deadlock: &DeadlockReport| {
        let until = match deadlock.until_ns {
            Some(at) => format!("until {}", seconds(at)),
            None => "for good".to_owned(),
        };
        format!(
            "deadlock from {} {until}: these {} ports paused each other in a cycle: {}\n",
            seconds(deadlock.since_ns),
            deadlock.ports.len(),
            deadlock.ports.join(", ")
        )
    };
    deadlocks.iter().map(line).collect()
}

/// With more storms than this, the first ones are shown.
const STORMS_SHOWN: usize = 32;

/// The storms that watchdogs found; nothing if there was none.
fn storms_table(switches: &[SwitchReport]) -> Option<String> {
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
    let more = rows.len().saturating_sub(STORMS_SHOWN);
    rows.truncate(STORMS_SHOWN);
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
        seconds(storm.detected_ns),
        storm.restored_ns.map_or_else(|| "-".to_owned(), seconds),
        pair(storm.tx_packets, storm.tx_dropped_packets),
        pair(storm.rx_packets, storm.rx_dropped_packets),
    ]
}

/// A time as the log has it: seconds, exactly.
fn seconds(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// What may be believed of it, in a line, and the reasons under it.
fn verdict(report: &Report) -> String {
    let (line, reasons): (String, Vec<String>) = match report.verdict {
        Verdict::Tainted => (
            "verdict: tainted: something outside the model can have changed the result, so it proves nothing"
                .to_owned(),
            report
                .taints
                .iter()
                .map(|taint| format!("at {}: {}", format_nanos(taint.since_ns), taint.cause))
                .collect(),
        ),
        Verdict::Clean
            if !report.failures.is_empty() && (report.virtual_time.is_some() || report.jobs.is_some()) =>
        {
            ("verdict: failed".to_owned(), report.failures.clone())
        }
        Verdict::Clean if !report.failures.is_empty() => (
            "verdict: clean, and lossless was NOT kept".to_owned(),
            report.failures.clone(),
        ),
        Verdict::Clean => (format!("verdict: clean{}", kept(&report.flows)), Vec::new()),
    };
    let mut text = line;
    text.push('\n');
    for reason in reasons {
        let _ = writeln!(text, "  {reason}");
    }
    text
}

/// What the lossless flows of a clean run without failures amount to.
fn kept(flows: &[FlowReport]) -> String {
    let lossless = || flows.iter().filter(|flow| flow.lossless);
    match lossless().count() {
        0 => String::new(),
        count => {
            let sent = group_thousands(lossless().map(|flow| flow.sent_frames).sum());
            let flows = if count == 1 {
                "1 flow".to_owned()
            } else {
                format!("{count} flows")
            };
            format!("; lossless kept: {flows}, {sent} frames sent, none lost, reordered or damaged")
        }
    }
}
