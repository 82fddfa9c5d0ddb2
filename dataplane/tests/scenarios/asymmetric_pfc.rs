//! Asymmetric PFC: the port honours pauses of all priorities and sends PFC only for the enabled ones. The
//! cases follow SONiC's `pfc_asym` tests. Drops of a lossless class occur at ingress here, not at egress.

use xoff_dataplane::{DropReason, Picos};

use crate::support::frames::{mac, small};
use crate::support::{Harness, config};
use xoff_wire::{MacControl, Pfc};

const FRAMES: usize = 20_000;
const LOSSLESS: [u8; 2] = [3, 4];

fn harness(asymmetric: bool) -> Harness {
    let mut config = config::switch(3);
    for port in &mut config.ports {
        port.pfc.asymmetric = asymmetric;
    }
    Harness::learnt(&config)
}

/// A sender at line rate without PFC, while the peer of port 1 pauses the priorities `held`.
fn overload(harness: &mut Harness, class: u8, held: u8) {
    let pfc = Pfc {
        enable: held,
        quanta: [0xffff; 8],
    };
    let pause = MacControl::Pfc(pfc).to_frame(mac(1)).to_vec();
    harness.receive(1, &pause);
    let end = harness.receive_back_to_back(0, (0..FRAMES).map(|_| small(0, 1, class)));
    let mut at = harness.now();
    while at < end {
        harness.receive_at(at, 1, pause.clone());
        at += Picos::from_millis(16);
    }
    harness.run_until(end);
}

fn drops(harness: &Harness) -> (u64, u64) {
    (
        harness.drops(0, DropReason::PriorityGroupDropped),
        harness.drops(1, DropReason::QueueDropped),
    )
}

#[test]
fn a_held_lossy_queue_overflows_only_where_pauses_of_lossy_classes_are_honoured() {
    for asymmetric in [false, true] {
        for class in [0, 1, 7] {
            let mut harness = harness(asymmetric);
            overload(&mut harness, class, 1 << class);
            let (ingress, egress) = drops(&harness);
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
fn a_held_lossless_queue_fills_its_group_and_pauses_the_sender_in_both_modes() {
    for asymmetric in [false, true] {
        for class in LOSSLESS {
            let mut harness = harness(asymmetric);
            overload(&mut harness, class, 1 << class);
            let (ingress, egress) = drops(&harness);
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
