//! A copy of everything that can be read of a running switch.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{DropReason, PgId, Picos, PortId, QueueId, Switch};

use super::balancing_report::balancing;
use super::journal::Journal;
use super::watchdog_report::watchdog;
use xoff_telemetry::{PoolSnapshot, PortSnapshot, SwitchSnapshot};

/// What the switch itself does not know of a port.
#[derive(Clone, Debug, Default)]
pub struct PortFacts {
    /// The network device of the port.
    pub device: Option<String>,
    /// The port backend that moves its frames.
    pub backend: Option<String>,
    /// Frames the kernel lost.
    pub lost: u64,
    /// Frames that are missing in a recording.
    pub pcap_missed: u64,
}

/// Copies a switch's state at `now`; `wire_waits` knows of each port how many frames came faster than its link.
pub fn snapshot(
    switch: &Switch,
    journal: &Journal,
    wire_waits: impl Fn(PortId) -> u64,
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
                    pgs: eight(|n| switch.pg_buffers(PgId::new(id, n))),
                    queues: eight(|n| switch.queue_buffers(QueueId::new(id, n))),
                    pause_history: switch.pause_history(now, id),
                    pfc_enabled: port.pfc.enabled,
                    pfc_asymmetric: port.pfc.asymmetric,
                    paused: switch.paused_priorities(id),
                    xoff: switch.xoff_groups(id),
                    host_lost: facts.lost,
                    wire_waits: wire_waits(id),
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
        watchdog: watchdog(switch, journal, config),
        balancing: balancing(switch, config, now),
    }
}

fn eight<T>(of: impl Fn(u8) -> T) -> [T; PRIORITIES] {
    std::array::from_fn(|n| of(n as u8))
}
