//! Snapshots of the state of a switch.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{DropReason, PgId, Picos, PortId, QueueId, Switch};

use super::balancing_report::balancing_snapshot;
use super::journal::Journal;
use super::watchdog_report::watchdog_report;
use xoff_telemetry::{PoolSnapshot, PortSnapshot, SwitchSnapshot};

/// Properties of a port that the switch does not know.
#[derive(Clone, Debug, Default)]
pub struct PortFacts {
    /// Name of the network device.
    pub device: Option<String>,
    /// Name of the port backend.
    pub backend: Option<String>,
    /// Number of frames that the kernel lost.
    pub lost: u64,
    /// Number of frames that are missing in a recording.
    pub pcap_missed: u64,
}

/// Copies the state of a switch at `now`. `delayed_frames` returns how many frames of a port arrived faster
/// than its link.
pub fn take_snapshot(
    switch: &Switch,
    journal: &Journal,
    delayed_frames: impl Fn(PortId) -> u64,
    config: &SwitchConfig,
    facts: &[PortFacts],
    now: Picos,
) -> SwitchSnapshot {
    let ports = config.ports.iter().zip(facts).enumerate();
    SwitchSnapshot {
        name: config.name.clone(),
        model_time_ns: now.as_nanos(),
        cell_bytes: config.cell_bytes,
        worker_busy_ns: None,
        ports: ports
            .map(|(index, (port, facts))| {
                let id = PortId(index as u16);
                PortSnapshot {
                    name: port.name.clone(),
                    device: facts.device.clone(),
                    backend: facts.backend.clone(),
                    up: switch.is_up(id),
                    speed_mbps: port.link.speed_mbps,
                    counters: switch.port_counters(now, id),
                    tx_deficit_ns: switch.transmit_deficit(id).as_nanos(),
                    pgs: for_each_priority(|n| switch.pg_buffers(PgId::new(id, n))),
                    queues: for_each_priority(|n| switch.queue_buffers(QueueId::new(id, n))),
                    pause_history: switch.pause_history(now, id),
                    pfc_enabled: port.pfc.enabled,
                    pfc_asymmetric: port.pfc.asymmetric,
                    paused: switch.paused_priorities(id),
                    xoff: switch.xoff_groups(id),
                    host_lost: facts.lost,
                    wire_waits: delayed_frames(id),
                    pcap_missed: facts.pcap_missed,
                    drop_limits: DropReason::ALL
                        .iter()
                        .filter_map(|&reason| Some((reason, switch.last_refusal(id, reason)?.to_string())))
                        .collect(),
                }
            })
            .collect(),
        pools: config
            .pools
            .iter()
            .enumerate()
            .map(|(index, pool)| PoolSnapshot {
                name: pool.name.clone(),
                buffers: switch.pool_buffers(index),
            })
            .collect(),
        events: journal.entries().iter().map(|entry| entry.event).collect(),
        watchdog: watchdog_report(switch, journal, config),
        balancing: balancing_snapshot(switch, config, now),
    }
}

fn for_each_priority<T>(value: impl Fn(u8) -> T) -> [T; PRIORITIES] {
    std::array::from_fn(|n| value(n as u8))
}
