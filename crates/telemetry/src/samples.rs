//! A sample snapshot for tests of this crate and of other crates.

use xoff_dataplane::ids::TRAFFIC_CLASSES;

use super::*;

/// Returns a snapshot of a switch with two ports. `Ethernet0` was sending for 995 us of one millisecond,
/// received and sent PFC for priority 3, and dropped frames of class 0. `Ethernet4` has no device.
pub fn sample_snapshot() -> SwitchSnapshot {
    let mut port = PortReport {
        name: "Ethernet0".to_owned(),
        device: Some("veth0".to_owned()),
        backend: Some("packet".to_owned()),
        up: true,
        rx_packets: 1_200,
        tx_packets: 1_000,
        tx_bytes: 1_086_000,
        tx_span_ns: 1_000_000,
        tx_utilisation: Some(0.995),
        tx_times: TxTimes {
            first_and_last: Some([5_000_000, 1_005_000_000]),
            busy: 995_000_000,
        },
        tx_deficit_ns: 4_000,
        pfc_rx_frames: 5,
        pfc_tx_frames: 7,
        wire_waits: 3,
        drops: [("QUEUE_DROPPED_PACKETS".to_owned(), 200)].into(),
        ..idle_port()
    };
    let mut drops_by_class = [0; TRAFFIC_CLASSES];
    drops_by_class[0] = 200;
    port.drops_by_class = [("QUEUE_DROPPED_PACKETS".to_owned(), drops_by_class)].into();
    port.pfc_rx[3] = 5;
    port.pfc_tx[3] = 7;
    port.paused_ns[3] = 2_000;
    port.xoff_transitions[3] = 2;
    port.paused_now[3] = true;
    port.queues[3].packets = 1_000;
    port.queues[3].shared_watermark_bytes = 10 * CELL_BYTES;
    SwitchSnapshot {
        report: SwitchReport {
            name: "tor0".to_owned(),
            model_time_ns: 1_001_000,
            cell_bytes: CELL_BYTES as u32,
            ports: vec![
                port,
                PortReport {
                    name: "Ethernet4".to_owned(),
                    ..idle_port()
                },
            ],
            pools: vec![PoolReport {
                name: "egress_pool".to_owned(),
                current_bytes: 2 * CELL_BYTES,
                watermark_bytes: 11 * CELL_BYTES,
                ..PoolReport::default()
            }],
            ..SwitchReport::default()
        },
        ..SwitchSnapshot::default()
    }
}

/// Size of a buffer cell of the sample switch, in bytes.
const CELL_BYTES: u64 = 256;

/// Returns the report of a port without traffic. PFC is enabled for priority 3.
fn idle_port() -> PortReport {
    let mut port = PortReport {
        speed_mbps: 1_000,
        priority_groups: vec![PriorityGroupReport::default(); 8],
        queues: vec![QueueReport::default(); 8],
        ..PortReport::default()
    };
    port.pfc_enabled[3] = true;
    port
}
