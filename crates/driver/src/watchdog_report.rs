//! The watchdog's part of a switch's state.

use std::collections::BTreeMap;

use xoff_dataplane::config::{PortConfig, PortWatchdog, SwitchConfig, WatchdogRule};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{Picos, PortId, QueueId, Switch, SwitchEventKind};

use super::journal::Journal;
use xoff_telemetry::{StormReport, WatchdogPort, WatchdogQueue, WatchdogReport, action_name};

/// `None` where no port is watched and no storm was.
pub(super) fn watchdog(switch: &Switch, journal: &Journal, config: &SwitchConfig) -> Option<WatchdogReport> {
    let watched = config.ports.iter().any(|port| port.watchdog.is_some());
    if !watched && journal.entries().is_empty() {
        return None;
    }
    let ports = || config.ports.iter().enumerate().filter_map(watched_port);
    Some(WatchdogReport {
        poll_interval_ms: millis(config.watchdog.poll),
        big_red_switch: config.watchdog.big_red_switch,
        rule: match config.watchdog.rule {
            WatchdogRule::Broadcom => "broadcom",
            WatchdogRule::Nvidia => "nvidia",
            WatchdogRule::Vs => "vs",
        }
        .to_owned(),
        ports: ports().map(|(_, name, watchdog)| port(name, watchdog)).collect(),
        queues: ports()
            .flat_map(|(id, name, watchdog)| queues(switch, id, name, watchdog.queues))
            .collect(),
        storms: storms(switch, journal, config),
        events_missed: journal.missed(),
    })
}

fn watched_port((index, port): (usize, &PortConfig)) -> Option<(PortId, &str, &PortWatchdog)> {
    Some((PortId(index as u16), port.name.as_str(), port.watchdog.as_ref()?))
}

fn millis(time: Picos) -> u64 {
    time.as_nanos() / 1_000_000
}

fn numbers(queues: u8) -> impl Iterator<Item = u8> {
    (0..PRIORITIES as u8).filter(move |n| queues & (1 << n) != 0)
}

fn port(name: &str, watchdog: &PortWatchdog) -> WatchdogPort {
    WatchdogPort {
        port: name.to_owned(),
        action: action_name(watchdog.action).to_owned(),
        detection_time_ms: millis(watchdog.detection),
        restoration_time_ms: watchdog.restoration.map(millis),
        pfc_stat_history: watchdog.history,
        queues: numbers(watchdog.queues).collect(),
    }
}

fn queues(switch: &Switch, port: PortId, name: &str, queues: u8) -> Vec<WatchdogQueue> {
    let queue = |n| {
        let stats = switch.watchdog_stats(QueueId::new(port, n))?;
        Some(WatchdogQueue::new(name, n, &stats))
    };
    numbers(queues).filter_map(queue).collect()
}

/// Each detection with the restoration that follows it at its queue.
fn storms(switch: &Switch, journal: &Journal, config: &SwitchConfig) -> Vec<StormReport> {
    let mut storms: Vec<StormReport> = Vec::new();
    let mut open: BTreeMap<QueueId, usize> = BTreeMap::new();
    for entry in journal.entries() {
        match entry.event.kind {
            SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            } => {
                open.insert(queue, storms.len());
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
                let storm = open.remove(&queue).and_then(|at| storms.get_mut(at));
                if let Some(storm) = storm {
                    storm.restored_ns = Some(entry.event.at.as_nanos());
                    storm.set_counters(&entry.storm.unwrap_or_default());
                }
            }
            SwitchEventKind::BigRedSwitch { .. } => {}
        }
    }
    for (queue, at) in open {
        if let Some(stats) = switch.watchdog_stats(queue) {
            storms[at].set_counters(&stats.last);
        }
    }
    storms
}
