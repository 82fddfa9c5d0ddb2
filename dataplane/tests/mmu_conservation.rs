//! Conservation of cells over random traces: charged cells are released once, and all sums agree.

use mmu_support::{lossless_profile, two_port_config};
use proptest::prelude::*;
use xoff_dataplane::config::{BufferProfile, BufferThreshold};
use xoff_dataplane::mmu::Mmu;
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

#[derive(Clone, Debug)]
enum Operation {
    Arrive {
        group: u16,
        queue: u16,
        cells: u32,
    },
    Depart {
        index: usize,
    },
    Reconfigure {
        size_bytes: u64,
        headroom_pool: u64,
        dynamic_th: i8,
        xoff_bytes: u64,
    },
}

fn operation_sequences() -> impl Strategy<Value = Vec<Operation>> {
    let arrive = (0_u16..16, 0_u16..16, 1_u32..45).prop_map(|(group, queue, cells)| Operation::Arrive {
        group,
        queue,
        cells,
    });
    let depart = any::<usize>().prop_map(|index| Operation::Depart { index });
    let reconfigure = (0_u64..200, 0_u64..30, -8_i8..8, 0_u64..20).prop_map(
        |(size_bytes, headroom_pool, dynamic_th, xoff_bytes)| Operation::Reconfigure {
            size_bytes,
            headroom_pool,
            dynamic_th,
            xoff_bytes,
        },
    );
    prop::collection::vec(prop_oneof![20 => arrive, 15 => depart, 1 => reconfigure], 0..400)
}

/// Runs a trace, drains it, and checks all counts after each operation.
fn check_conservation(operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let mut mmu = Mmu::new(&two_port_config(15, lossless_profile()));
    let mut held: Vec<(PgId, QueueId, u32)> = Vec::new();
    let mut paused = [false; 16];
    let mut resumed = Vec::new();
    for operation in operations {
        match operation {
            Operation::Arrive { group, queue, cells } => {
                let (pg, queue) = (PgId(group), QueueId(queue));
                let Ok(ingress) = mmu.plan_ingress(pg, cells) else {
                    continue;
                };
                let Ok(egress) = mmu.plan_egress(queue, cells, mmu.is_lossless(pg)) else {
                    continue;
                };
                prop_assert_eq!(ingress.reserved + ingress.shared + ingress.headroom, cells);
                prop_assert_eq!(egress.reserved + egress.shared, cells);
                if mmu.commit_ingress(pg, ingress) {
                    prop_assert!(!paused[pg.index()], "XOFF twice");
                    paused[pg.index()] = true;
                }
                mmu.commit_egress(queue, egress);
                held.push((pg, queue, cells));
            }
            Operation::Depart { index } if held.is_empty() => _ = index,
            Operation::Depart { index } => {
                let (pg, queue, cells) = held.swap_remove(index % held.len());
                mmu.release_egress(queue, cells);
                mmu.release_ingress(pg, cells, &mut resumed);
            }
            Operation::Reconfigure {
                size_bytes,
                headroom_pool,
                dynamic_th,
                xoff_bytes,
            } => {
                let threshold = BufferThreshold::Dynamic(dynamic_th);
                let mut config = two_port_config(
                    headroom_pool,
                    BufferProfile {
                        xoff_bytes,
                        threshold,
                        ..lossless_profile()
                    },
                );
                config.pools[0].size_bytes = size_bytes;
                mmu.reconfigure(&config, &mut resumed);
            }
        }
        for pg in resumed.drain(..) {
            prop_assert!(paused[pg.index()], "XON without XOFF");
            paused[pg.index()] = false;
        }
        mmu.assert_consistent();
        for group in 0..16 {
            let cells = held
                .iter()
                .filter(|(pg, ..)| pg.0 == group)
                .map(|(.., cells)| cells)
                .sum::<u32>();
            prop_assert_eq!(mmu.pg_buffers(PgId(group)).total.current_cells, cells);
            prop_assert_eq!(mmu.is_in_xoff(PgId(group)), paused[usize::from(group)]);
            let cells = held
                .iter()
                .filter(|(_, queue, _)| queue.0 == group)
                .map(|(.., cells)| cells)
                .sum::<u32>();
            prop_assert_eq!(mmu.queue_buffers(QueueId(group)).total.current_cells, cells);
        }
    }
    for (pg, queue, cells) in held.drain(..) {
        mmu.release_egress(queue, cells);
        mmu.release_ingress(pg, cells, &mut resumed);
    }
    mmu.assert_consistent();
    for group in 0..16 {
        prop_assert!(!mmu.is_in_xoff(PgId(group)), "an empty group is in XON");
    }
    prop_assert_eq!(mmu.pool_buffers(0).shared.current_cells, 0);
    prop_assert_eq!(mmu.pool_buffers(0).headroom.current_cells, 0);
    prop_assert_eq!(mmu.pool_buffers(1).shared.current_cells, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn charged_cells_are_released_exactly_once(operations in operation_sequences()) {
        check_conservation(operations)?;
    }
}
