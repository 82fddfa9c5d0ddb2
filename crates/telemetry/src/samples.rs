//! A sample snapshot for tests of this crate and of other crates.

use xoff_dataplane::DropReason;
use xoff_dataplane::counters::{Occupancy, PoolBuffers, PortCounters, QueueBuffers};

use super::*;

/// A switch with two ports. The first port was busy for 995 us of one millisecond. It received and sent PFC
/// for priority 3, and dropped frames of class 0. The second port has no device.
pub fn sample_snapshot() -> SwitchSnapshot {
    let mut counters = PortCounters {
        rx_packets: 1_200,
        tx_packets: 1_000,
        tx_bytes: 1_086_000,
        tx_busy_ps: 995_000_000,
        tx_first_ps: 1_000_000,
        tx_last_ps: 1_001_000_000,
        pfc_rx_frames: 5,
        pfc_tx_frames: 7,
        ..PortCounters::default()
    };
    counters.pfc_rx[3] = 5;
    counters.pfc_tx[3] = 7;
    counters.rx_pause_ps[3] = 2_000_000;
    counters.pgs[3].xoff_transitions = 2;
    counters.queues[3].packets = 1_000;
    counters.drops[DropReason::QueueDropped as usize][0] = 200;
    let mut queues = [QueueBuffers::default(); 8];
    queues[3].shared = Occupancy {
        current_cells: 1,
        peak_cells: 10,
    };
    let port = PortSnapshot {
        name: "Ethernet0".to_owned(),
        device: Some("veth0".to_owned()),
        backend: Some("packet".to_owned()),
        up: true,
        speed_mbps: 1_000,
        counters,
        tx_deficit_ns: 4_000,
        pgs: Default::default(),
        queues,
        pause_history: Default::default(),
        pfc_enabled: 0b1000,
        pfc_asymmetric: false,
        paused: 0b1000,
        xoff: 0,
        host_lost: 0,
        wire_waits: 3,
        pcap_missed: 0,
        drop_limits: Vec::new(),
    };
    let port_without_device = PortSnapshot {
        name: "Ethernet4".to_owned(),
        device: None,
        backend: None,
        up: false,
        counters: PortCounters::default(),
        tx_deficit_ns: 0,
        queues: [QueueBuffers::default(); 8],
        paused: 0,
        ..port.clone()
    };
    let pool = PoolSnapshot {
        name: "egress_pool".to_owned(),
        buffers: PoolBuffers {
            shared: Occupancy {
                current_cells: 2,
                peak_cells: 11,
            },
            headroom: Occupancy::default(),
        },
    };
    SwitchSnapshot {
        name: "tor0".to_owned(),
        model_time_ns: 1_001_000,
        cell_bytes: 256,
        worker_busy_ns: None,
        ports: vec![port, port_without_device],
        pools: vec![pool],
        events: Vec::new(),
        watchdog: None,
        balancing: BalancingSnapshot::default(),
    }
}
