//! Snapshots of a switch: counters, states and events.

use std::collections::BTreeMap;
use std::slice;

use xoff_dataplane::config::{PortConfig, SwitchConfig};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_dataplane::pfc::PauseHistory;
use xoff_dataplane::{DropReason, PgId, Picos, PortId, QueueId, Switch};

use super::balancing_report::balancing_snapshot;
use super::journal::Journal;
use super::watchdog_report::watchdog_report;
use xoff_telemetry::{
    PauseHistoryReport, PoolReport, PortReport, PriorityGroupReport, QueueReport, StreamReport, SwitchReport,
    SwitchSnapshot, TxTimes, set_common_tx_span,
};

const PS_PER_NS: u64 = 1_000;

/// Properties of a port that the driver supplies for the report, because the switch does not know them.
#[derive(Clone, Debug, Default)]
pub struct PortDeviceInfo {
    /// Name of the network device. `None` for a port without a device.
    pub device: Option<String>,
    /// Name of the port backend: `packet`, `tap`, `link`, `pnet`, `xdp` or `stream`. `None` for
    /// a port without a device.
    pub backend: Option<String>,
    /// Number of frames that the machine lost before they reached the switch.
    pub lost: u64,
    /// Number of frames that are missing in the recording of the port. The number is known at the end of
    /// the run.
    pub pcap_missed: u64,
    /// The connections and stops of a stream port. `None` for all other ports.
    pub stream: Option<StreamReport>,
}

/// Reads the counters and states of a switch at the model time `now`, and the events in `journal`. `config`
/// is the configuration of the switch. `facts` has one element for each port, in the order of the ports.
/// `counters` returns the counters of a port, usually [`Switch::port_counters`]. `delayed_frames` returns the number of
/// frames that arrived at a port faster than its link can carry them.
pub fn take_snapshot(
    switch: &Switch,
    journal: &Journal,
    counters: impl Fn(PortId) -> PortCounters,
    delayed_frames: impl Fn(PortId) -> u64,
    config: &SwitchConfig,
    facts: &[PortDeviceInfo],
    now: Picos,
) -> SwitchSnapshot {
    let ports: Vec<PortReport> = (0..config.ports.len().min(facts.len()))
        .map(|index| {
            let id = PortId(index as u16);
            PortReport {
                wire_waits: delayed_frames(id),
                ..read_port(switch, config, &facts[index], (id, counters(id)), now)
            }
        })
        .collect();
    let pools = config
        .pools
        .iter()
        .enumerate()
        .map(|(index, pool)| PoolReport::new(&pool.name, &switch.pool_buffers(index), config.cell_bytes));
    let mut report = SwitchReport {
        name: config.name.clone(),
        model_time_ns: now.as_nanos(),
        cell_bytes: config.cell_bytes,
        worker_busy_ns: None,
        tx_trim_packets: ports.iter().map(|port| port.tx_trim_packets).sum(),
        dropped_trim_packets: ports.iter().map(|port| port.dropped_trim_packets).sum(),
        ports,
        pools: pools.collect(),
        pfc_watchdog: watchdog_report(switch, journal, config),
        load_balancing: None,
        lldp: None,
    };
    set_common_tx_span(slice::from_mut(&mut report));
    SwitchSnapshot {
        report,
        events: journal.entries().iter().map(|entry| entry.event).collect(),
        balancing: balancing_snapshot(switch, config, now),
    }
}

/// Reads the counters and states of a port, except the number of delayed frames.
fn read_port(
    switch: &Switch,
    config: &SwitchConfig,
    facts: &PortDeviceInfo,
    (id, counters): (PortId, PortCounters),
    now: Picos,
) -> PortReport {
    let port = &config.ports[id.index()];
    let trims = counters.trim_counters();
    let numbers = 0..PRIORITIES as u8;
    let groups = counters.pgs.iter().zip(numbers.clone()).map(|(group, number)| {
        PriorityGroupReport::new(
            group,
            &switch.pg_buffers(PgId::new(id, number)),
            config.cell_bytes,
        )
    });
    let queues = counters.queues.iter().zip(numbers).map(|(queue, number)| {
        QueueReport::new(
            queue,
            &switch.queue_buffers(QueueId::new(id, number)),
            config.cell_bytes,
        )
    });
    PortReport {
        name: port.name.clone(),
        device: facts.device.clone(),
        backend: facts.backend.clone(),
        host_lost: facts.lost,
        pcap_missed: facts.pcap_missed,
        stream: facts.stream.clone(),
        tx_times: tx_times(&counters),
        trim_packets: trims.trimmed,
        tx_trim_packets: trims.sent,
        dropped_trim_packets: trims.dropped,
        drops: drops_by_reason(&counters, |classes| classes.iter().sum()),
        drops_by_class: drops_by_reason(&counters, |classes| *classes),
        drop_limits: drop_limits(switch, id),
        priority_groups: groups.collect(),
        queues: queues.collect(),
        ..read_port_state(switch, port, &counters, id, now)
    }
}

/// Reads the fields of a port report that only copy counters and states, in the units of the report. Fields
/// that must be computed have default values.
fn read_port_state(
    switch: &Switch,
    port: &PortConfig,
    counters: &PortCounters,
    id: PortId,
    now: Picos,
) -> PortReport {
    PortReport {
        up: switch.is_up(id),
        speed_mbps: port.link.speed_mbps,
        tx_deficit_ns: switch.total_transmit_delay(id).as_nanos(),
        rx_packets: counters.rx_packets,
        rx_own_packets: counters.rx_own_packets,
        rx_non_unicast_packets: counters.rx_non_unicast_packets,
        rx_bytes: counters.rx_bytes,
        rx_class_packets: counters.rx_class_packets,
        tx_packets: counters.tx_packets,
        tx_bytes: counters.tx_bytes,
        tx_class_packets: counters.tx_class_packets,
        pfc_rx: counters.pfc_rx,
        pfc_tx: counters.pfc_tx,
        pfc_rx_frames: counters.pfc_rx_frames,
        pfc_tx_frames: counters.pfc_tx_frames,
        pfc_on2off_rx: counters.pfc_on2off_rx,
        xoff_transitions: counters.pgs.map(|pg| pg.xoff_transitions),
        paused_ns: counters.rx_pause_ps.map(|ps| ps / PS_PER_NS),
        pausing_ns: counters.tx_pause_ps.map(|ps| ps / PS_PER_NS),
        paused_now: mask_to_bools(switch.paused_priorities(id)),
        xoff_now: mask_to_bools(switch.xoff_groups(id)),
        pfc_enabled: mask_to_bools(switch.flow_control(id).enabled),
        lossless_classes: lossless_classes(switch, port, id),
        pfc_asymmetric: port.pfc.asymmetric,
        pause_history: switch.pause_history(now, id).map(pause_history_report),
        pause_rx: counters.pause_rx,
        pause_tx: counters.pause_tx,
        injected_control_frames: counters.injected_control_frames,
        global_paused_ns: counters.rx_global_pause_ps / PS_PER_NS,
        global_pausing_ns: counters.tx_global_pause_ps / PS_PER_NS,
        link_quality_rx_frames: counters.link_quality_rx,
        link_quality_tx_frames: counters.link_quality_tx,
        ecn_marked: counters.ecn_marked,
        ..PortReport::default()
    }
}

/// Returns for each traffic class whether XOFF of its priority group pauses the peer of the port.
fn lossless_classes(switch: &Switch, port: &PortConfig, id: PortId) -> [bool; TRAFFIC_CLASSES] {
    std::array::from_fn(|tc| {
        let group = port.classify.priority_group(tc as u8);
        let flow_control = switch.flow_control(id);
        let is_signalled =
            flow_control.signals_priority_group(group) || flow_control.generates_global_pause();
        is_signalled && switch.is_lossless_group(PgId::new(id, group))
    })
}

fn pause_history_report(history: PauseHistory) -> PauseHistoryReport {
    PauseHistoryReport {
        transitions: history.transitions,
        total_pause_ns: history.total_pause_ps / PS_PER_NS,
        recent_pause_ns: history.recent_pause_ps / PS_PER_NS,
        recent_pause_at_ns: history.recent_pause_at.map(|at| at.as_nanos()),
    }
}

/// Returns the times of the first and the last sent frame, and the time for which the link was busy.
fn tx_times(counters: &PortCounters) -> TxTimes {
    // Before the first sent frame, `tx_first_ps` is the largest value.
    let has_sent = counters.tx_first_ps < counters.tx_last_ps;
    TxTimes {
        first_and_last: has_sent.then_some([counters.tx_first_ps, counters.tx_last_ps]),
        busy: counters.tx_busy_ps,
    }
}

/// Returns a value for each drop reason with at least one drop, by the name of the reason. `value` computes
/// the value from the drops of each traffic class.
fn drops_by_reason<T>(
    counters: &PortCounters,
    value: impl Fn(&[u64; TRAFFIC_CLASSES]) -> T,
) -> BTreeMap<String, T> {
    DropReason::ALL
        .iter()
        .zip(&counters.drops)
        .filter(|(_, classes)| classes.iter().any(|&count| count > 0))
        .map(|(reason, classes)| (reason.name().to_owned(), value(classes)))
        .collect()
}

/// Returns the buffer limit of the latest drop for each drop reason, by the name of the reason. Reasons
/// without a buffer limit are missing.
fn drop_limits(switch: &Switch, port: PortId) -> BTreeMap<String, String> {
    DropReason::ALL
        .iter()
        .filter_map(|&reason| {
            let refusal = switch.last_refusal(port, reason)?;
            Some((reason.name().to_owned(), refusal.to_string()))
        })
        .collect()
}

/// Returns the bits of a mask, with bit 0 first.
fn mask_to_bools(mask: u8) -> [bool; PRIORITIES] {
    std::array::from_fn(|bit| mask & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualSwitch;
    use xoff_dataplane::ReceivedFrame;
    use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, PoolSide};
    use xoff_dataplane::store::VecStore;
    use xoff_units::LinkTiming;
    use xoff_wire::mac_control::{MacControl, Pfc};
    use xoff_wire::parse::parse;

    const MTU: u32 = 1_500;

    /// Returns a bridge with two gigabit ports. The second port honours PFC for priority 3.
    fn config() -> SwitchConfig {
        let port = |n: u8| PortConfig {
            mtu: MTU,
            ..PortConfig::new(
                format!("Ethernet{n}"),
                [2, 0, 0, 0, 1, n],
                LinkTiming::ethernet(1_000),
            )
        };
        let mut ports = vec![port(0), port(1)];
        ports[1].pfc.enabled = 1 << 3;
        let pool = |name: &str, side| PoolConfig::new(name, side, 1 << 20);
        let profile = |name: &str, pool| BufferProfile::new(name, pool, BufferThreshold::Static(1 << 20));
        SwitchConfig {
            pools: vec![pool("in", PoolSide::Ingress), pool("out", PoolSide::Egress)],
            profiles: vec![profile("in", 0), profile("out", 1)],
            ..SwitchConfig::new("tor0", [2; 6], ports)
        }
    }

    fn receive(switch: &mut VirtualSwitch<VecStore>, port: u16, bytes: &[u8]) {
        let frame = switch.store_mut().insert(bytes).expect("a free slot");
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: switch.now(),
        };
        switch.receive(PortId(port), &arrival);
    }

    #[test]
    fn a_snapshot_has_bytes_nanoseconds_and_names_instead_of_cells_picoseconds_and_masks() {
        let config = config();
        let mut switch = VirtualSwitch::new(&config, VecStore::new(16));
        switch.set_links_up();
        let pause = MacControl::Pfc(Pfc {
            enable: 1 << 3,
            quanta: [0, 0, 0, 1_000, 0, 0, 0, 0],
        });
        receive(&mut switch, 1, &pause.to_frame([2, 0, 0, 0, 9, 9]));
        let broadcast = |len: u32| {
            let mut frame = vec![0xff; len as usize];
            frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x12, 0x34]);
            frame
        };
        receive(&mut switch, 0, &broadcast(1_000));
        receive(&mut switch, 0, &broadcast(MTU + 15));
        let paused = switch.snapshot(&config, |_| 0).report.ports.remove(1);
        assert_eq!((paused.pfc_rx[3], paused.paused_now), (1, mask_to_bools(1 << 3)));
        while switch.step(Picos::NEVER) != crate::Step::Idle {}
        switch.release_departures();

        let SwitchSnapshot { report, events, .. } = switch.snapshot(&config, |port| u64::from(port.0) * 7);
        assert_eq!(
            (report.name.as_str(), report.cell_bytes, events.len()),
            ("tor0", 256, 0)
        );
        let [ingress, egress] = &report.ports[..] else {
            panic!("two ports");
        };
        // The FCS counts. Four cells of 256 bytes hold 1004 bytes.
        assert_eq!(
            (ingress.rx_packets, ingress.rx_bytes),
            (2, 1_004 + u64::from(MTU) + 19)
        );
        assert_eq!(ingress.drops, [("EXCEEDS_L2_MTU".to_owned(), 1)].into());
        assert_eq!(ingress.drops_by_class["EXCEEDS_L2_MTU"][0], 1);
        assert_eq!(ingress.priority_groups[0].watermark_bytes, 1_024);
        assert_eq!(
            (egress.tx_packets, egress.tx_bytes, egress.wire_waits),
            (1, 1_004, 7)
        );
        assert_eq!(egress.queues[0].packets, 1);
        // Preamble and gap add 20 bytes, and a byte takes 8 ns at 1 Gb/s.
        assert_eq!((egress.tx_span_ns, egress.tx_utilisation), (1_024 * 8, Some(1.0)));
        // A pause quantum is 512 bit times.
        assert_eq!((egress.paused_ns[3], egress.paused_now[3]), (1_000 * 512, false));
        assert_eq!(report.pools[0].name, "in");
    }
}
