//! Watchdog state of a switch for snapshots.

use std::collections::BTreeMap;

use xoff_dataplane::config::{PortConfig, PortWatchdog, SwitchConfig, WatchdogRule};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{Picos, PortId, QueueId, Switch, SwitchEventKind};

use super::journal::Journal;
use xoff_telemetry::{StormReport, WatchdogPort, WatchdogQueue, WatchdogReport, action_name};

/// Copies the watchdog state. Returns `None` if no port is watched and no event is recorded.
pub(super) fn watchdog_report(
    switch: &Switch,
    journal: &Journal,
    config: &SwitchConfig,
) -> Option<WatchdogReport> {
    let is_watched = config.ports.iter().any(|port| port.watchdog.is_some());
    if !is_watched && journal.entries().is_empty() {
        return None;
    }
    let ports = || config.ports.iter().enumerate().filter_map(watched_port);
    Some(WatchdogReport {
        poll_interval_ms: to_millis(config.watchdog.poll),
        big_red_switch: config.watchdog.big_red_switch,
        rule: match config.watchdog.rule {
            WatchdogRule::Broadcom => "broadcom",
            WatchdogRule::Nvidia => "nvidia",
            WatchdogRule::Vs => "vs",
        }
        .to_owned(),
        ports: ports()
            .map(|(_, name, watchdog)| port_report(name, watchdog))
            .collect(),
        queues: ports()
            .flat_map(|(id, name, watchdog)| queue_reports(switch, id, name, watchdog.queues))
            .collect(),
        storms: storm_reports(switch, journal, config),
        events_missed: journal.missed_events(),
    })
}

fn watched_port((index, port): (usize, &PortConfig)) -> Option<(PortId, &str, &PortWatchdog)> {
    Some((PortId(index as u16), port.name.as_str(), port.watchdog.as_ref()?))
}

fn to_millis(time: Picos) -> u64 {
    time.as_nanos() / 1_000_000
}

fn queue_numbers(queue_bits: u8) -> impl Iterator<Item = u8> {
    (0..PRIORITIES as u8).filter(move |n| queue_bits & (1 << n) != 0)
}

fn port_report(name: &str, watchdog: &PortWatchdog) -> WatchdogPort {
    WatchdogPort {
        port: name.to_owned(),
        action: action_name(watchdog.action).to_owned(),
        detection_time_ms: to_millis(watchdog.detection),
        restoration_time_ms: watchdog.restoration.map(to_millis),
        pfc_stat_history: watchdog.history,
        queues: queue_numbers(watchdog.queues).collect(),
    }
}

fn queue_reports(switch: &Switch, port: PortId, name: &str, queue_bits: u8) -> Vec<WatchdogQueue> {
    let queue = |n| {
        let stats = switch.watchdog_stats(QueueId::new(port, n))?;
        Some(WatchdogQueue::new(name, n, &stats))
    };
    queue_numbers(queue_bits).filter_map(queue).collect()
}

/// Combines the detection of each storm with the next restoration of the same queue. A storm that is not over
/// gets the current counters.
fn storm_reports(switch: &Switch, journal: &Journal, config: &SwitchConfig) -> Vec<StormReport> {
    let mut storms: Vec<StormReport> = Vec::new();
    let mut ongoing: BTreeMap<QueueId, usize> = BTreeMap::new();
    for entry in journal.entries() {
        match entry.event.kind {
            SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            } => {
                ongoing.insert(queue, storms.len());
                storms.push(StormReport {
                    port: config.ports[queue.port().index()].name.clone(),
                    queue: queue.number(),
                    action: action_name(action).to_owned(),
                    detected_ns: entry.event.at.as_nanos(),
                    paused_ns: paused.as_nanos(),
                    ..StormReport::default()
                });
            }
            SwitchEventKind::StormRestored { queue } => {
                let storm = ongoing.remove(&queue).and_then(|index| storms.get_mut(index));
                if let Some(storm) = storm {
                    storm.restored_ns = Some(entry.event.at.as_nanos());
                    storm.set_counters(&entry.storm.unwrap_or_default());
                }
            }
            SwitchEventKind::BigRedSwitch { .. }
            | SwitchEventKind::MacMoves { .. }
            | SwitchEventKind::Lldp { .. } => {}
        }
    }
    for (queue, index) in ongoing {
        if let Some(stats) = switch.watchdog_stats(queue) {
            storms[index].set_counters(&stats.last);
        }
    }
    storms
}
