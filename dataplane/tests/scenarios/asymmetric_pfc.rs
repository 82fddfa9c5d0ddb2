//! Asymmetric PFC: the port honours pauses of all priorities and sends PFC only for the enabled ones. The
//! cases follow SONiC's `pfc_asym` tests. Drops of a lossless class occur at ingress here, not at egress.

use xoff_dataplane::{DropReason, Picos};

use crate::support::frames::{shortest_udp_frame, station_mac};
use crate::support::{Harness, config};
use xoff_wire::{MacControl, Pfc};

const FRAME_COUNT: usize = 20_000;
const LOSSLESS: [u8; 2] = [3, 4];

fn harness_with_pfc_mode(asymmetric: bool) -> Harness {
    let mut config = config::bridge_config(3);
    for port in &mut config.ports {
        port.pfc.asymmetric = asymmetric;
    }
    Harness::with_learnt_addresses(&config)
}

/// Sends frames of `class` at line rate to port 1, whose peer pauses the priorities `paused`. The sender
/// ignores PFC.
fn send_at_line_rate(harness: &mut Harness, class: u8, paused: u8) {
    let pfc = Pfc {
        enable: paused,
        quanta: [0xffff; 8],
    };
    let pause = MacControl::Pfc(pfc).to_frame(station_mac(1)).to_vec();
    harness.receive(1, &pause);
    let end = harness.receive_back_to_back(0, (0..FRAME_COUNT).map(|_| shortest_udp_frame(0, 1, class)));
    let mut at = harness.now();
    while at < end {
        harness.receive_at(at, 1, pause.clone());
        at += Picos::from_millis(16);
    }
    harness.run_until(end);
}

fn dropped_per_side(harness: &Harness) -> (u64, u64) {
    (
        harness.drop_count(0, DropReason::PriorityGroupDropped),
        harness.drop_count(1, DropReason::QueueDropped),
    )
}

#[test]
fn a_lossy_queue_overflows_only_if_its_pauses_are_honoured() {
    for asymmetric in [false, true] {
        for class in [0, 1, 7] {
            let mut harness = harness_with_pfc_mode(asymmetric);
            send_at_line_rate(&mut harness, class, 1 << class);
            let (ingress, egress) = dropped_per_side(&harness);
            assert_eq!(ingress, 0);
            assert_eq!(egress > 0, asymmetric, "class {class}: {egress}");
            assert_eq!(harness.sent(1).is_empty(), asymmetric);
            assert_eq!(
                harness.counters(0).pfc_tx_frames,
                0,
                "a lossy class asks for nothing"
            );
            assert!(harness.counters(1).pfc_rx[usize::from(class)] > 0, "counted");
        }
    }
}

#[test]
fn a_paused_lossless_queue_fills_its_group_and_pauses_the_sender_in_both_modes() {
    for asymmetric in [false, true] {
        for class in LOSSLESS {
            let mut harness = harness_with_pfc_mode(asymmetric);
            send_at_line_rate(&mut harness, class, 1 << class);
            let (ingress, egress) = dropped_per_side(&harness);
            assert!(ingress > 0);
            assert_eq!(egress, 0);
            let counters = harness.counters(0);
            assert!(counters.pfc_tx[usize::from(class)] > 0);
            assert_eq!(
                counters.pfc_tx.iter().sum::<u64>(),
                counters.pfc_tx[usize::from(class)]
            );
            assert!(harness.sent(1).is_empty());
        }
    }
}
