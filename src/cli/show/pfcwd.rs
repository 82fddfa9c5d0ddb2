//! `show pfcwd`.

use std::fmt::Write as _;

use super::pfc::check_port_names;
use super::tabulate::{TextAlignment, tabulate};
use super::{PortTableArguments, ShowPfcwdStats, connect, print_with_reason};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{WatchdogPort, WatchdogQueue, WatchdogReport};

/// Runs `show pfcwd config`.
pub(super) fn show_config(options: &PortTableArguments) -> Result<Exit, Failure> {
    let watchdog = read_watchdog(options)?;
    let empty = watchdog
        .ports
        .is_empty()
        .then_some("no port has a PFC watchdog: the configuration has no port in the table PFC_WD");
    print_with_reason(options.table.json, &watchdog, empty, config_table)
}

/// Runs `show pfcwd stats`.
pub(super) fn show_stats(options: &ShowPfcwdStats) -> Result<Exit, Failure> {
    let watchdog = read_watchdog(&options.selection)?;
    let stats = stats_table(&watchdog.queues, options.empty);
    // The header and the dashed line.
    let empty = (stats.lines().count() <= 2).then_some(match watchdog.ports.is_empty() {
        true => "no queue is watched: the configuration has no port in the table PFC_WD",
        false => "no watched queue has had a pause storm; --empty lists the other queues",
    });
    print_with_reason(options.selection.table.json, &watchdog, empty, |_| stats)?;
    let stormed = watchdog.queues.iter().any(WatchdogQueue::is_in_pause_storm);
    Ok(match options.check_storm && stormed {
        true => Exit::CheckFailed,
        false => Exit::Ok,
    })
}

/// Reads the state of the watchdog for the named ports, or for all ports.
fn read_watchdog(options: &PortTableArguments) -> Result<WatchdogReport, Failure> {
    let mut client = connect(&options.table.target)?;
    let mut watchdog = client.watchdog()?.unwrap_or_default();
    if !options.ports.is_empty() {
        let known = client.pfc()?;
        check_port_names(&options.ports, known.iter().map(|port| port.name.as_str()))?;
        watchdog.ports.retain(|port| options.ports.contains(&port.port));
        watchdog
            .queues
            .retain(|queue| options.ports.contains(&queue.port));
        watchdog
            .storms
            .retain(|storm| options.ports.contains(&storm.port));
    }
    Ok(watchdog)
}

/// Returns the table of `pfcwd show config`.
fn config_table(watchdog: &WatchdogReport) -> String {
    let mut text = String::new();
    if watchdog.poll_interval_ms > 0 {
        let _ = writeln!(
            text,
            "Changed polling interval to {}ms",
            watchdog.poll_interval_ms
        );
    }
    if watchdog.big_red_switch {
        text.push_str("BIG_RED_SWITCH status is enable\n");
    }
    let row = |port: &WatchdogPort| {
        let time = |ms: Option<u64>| ms.map_or_else(|| "N/A".to_owned(), |ms| ms.to_string());
        vec![
            port.port.clone(),
            port.action.clone(),
            time(Some(port.detection_time_ms)),
            time(port.restoration_time_ms),
            if port.pfc_stat_history {
                "enable"
            } else {
                "disable"
            }
            .to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = watchdog.ports.iter().map(row).collect();
    let header = ["PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME", "HISTORY"];
    text.push_str(&tabulate(&header, &rows, TextAlignment::Right));
    text
}

/// Returns the table of `pfcwd show stats`. Queues without storms are listed only if `include_empty` is true.
fn stats_table(queues: &[WatchdogQueue], include_empty: bool) -> String {
    let header = [
        "QUEUE",
        "STATUS",
        "STORM DETECTED/RESTORED",
        "TX OK/DROP",
        "RX OK/DROP",
        "TX LAST OK/DROP",
        "RX LAST OK/DROP",
    ];
    let pair = |a: u64, b: u64| format!("{a}/{b}");
    let row = |queue: &WatchdogQueue| {
        let pairs = [
            pair(queue.detected, queue.restored),
            pair(queue.tx_packets, queue.tx_dropped_packets),
            pair(queue.rx_packets, queue.rx_dropped_packets),
            pair(queue.tx_packets_last, queue.tx_dropped_packets_last),
            pair(queue.rx_packets_last, queue.rx_dropped_packets_last),
        ];
        let shown = include_empty || queue.is_in_pause_storm() || pairs.iter().any(|pair| pair != "0/0");
        let name = format!("{}:{}", queue.port, queue.queue);
        shown.then(|| [name, queue.status.clone()].into_iter().chain(pairs).collect())
    };
    let rows: Vec<Vec<String>> = queues.iter().filter_map(row).collect();
    tabulate(&header, &rows, TextAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watchdog() -> WatchdogReport {
        let port = |name: &str, restoration| WatchdogPort {
            port: name.to_owned(),
            action: "drop".to_owned(),
            detection_time_ms: 400,
            restoration_time_ms: restoration,
            pfc_stat_history: restoration.is_some(),
            queues: vec![3],
        };
        let quiet = WatchdogQueue {
            port: "Ethernet0".to_owned(),
            queue: 4,
            status: "operational".to_owned(),
            ..WatchdogQueue::default()
        };
        let stormed = WatchdogQueue {
            queue: 3,
            status: "stormed".to_owned(),
            detected: 2,
            restored: 1,
            tx_packets: 1_000,
            tx_dropped_packets: 200,
            rx_dropped_packets_last: 100,
            ..quiet.clone()
        };
        WatchdogReport {
            poll_interval_ms: 200,
            ports: vec![port("Ethernet0", Some(400)), port("Ethernet4", None)],
            queues: vec![stormed, quiet],
            ..WatchdogReport::default()
        }
    }

    #[test]
    fn settings_have_the_layout_of_pfcwd_show_config() {
        let expected = "Changed polling interval to 200ms
     PORT    ACTION    DETECTION TIME    RESTORATION TIME    HISTORY
---------  --------  ----------------  ------------------  ---------
Ethernet0      drop               400                 400     enable
Ethernet4      drop               400                 N/A    disable
";
        assert_eq!(config_table(&watchdog()), expected);
        let big_red_switch = WatchdogReport {
            big_red_switch: true,
            ..watchdog()
        };
        assert!(config_table(&big_red_switch).contains("\nBIG_RED_SWITCH status is enable\n"));
    }

    #[test]
    fn queues_without_storms_are_omitted_by_default() {
        let expected = "      QUEUE    STATUS    STORM DETECTED/RESTORED    TX OK/DROP    RX OK/DROP    TX LAST OK/DROP    RX LAST OK/DROP
-----------  --------  -------------------------  ------------  ------------  -----------------  -----------------
Ethernet0:3   stormed                        2/1      1000/200           0/0                0/0              0/100
";
        assert_eq!(stats_table(&watchdog().queues, false), expected);
        assert_eq!(stats_table(&watchdog().queues, true).lines().count(), 4);
    }
}
