//! Unit tests of the rules of the MMU.

use mmu_support::{lossless_profile, pool_profile, two_port_config};
use xoff_dataplane::config::{BufferProfile, BufferThreshold};
use xoff_dataplane::mmu::{BufferLimit, BufferRefusal, EgressPlan, IngressPlan, Mmu};
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

const GROUP_A: PgId = PgId(0);
const GROUP_B: PgId = PgId(1);
const QUEUE: QueueId = QueueId(0);

fn admit_frame(mmu: &mut Mmu, pg: PgId, cells: u32) -> Result<bool, BufferRefusal> {
    let plan = mmu.plan_ingress(pg, cells)?;
    let xoff = mmu.commit_ingress(pg, plan);
    mmu.assert_consistent();
    Ok(xoff)
}

/// Charges single cells until XOFF. Returns their number.
fn fill_to_xoff(mmu: &mut Mmu, pg: PgId) -> u32 {
    (1..)
        .find(|_| admit_frame(mmu, pg, 1).expect("room"))
        .expect("XOFF")
}

fn release_cells(mmu: &mut Mmu, pg: PgId, cells: u32) -> Vec<PgId> {
    let mut resumed = Vec::new();
    mmu.release_ingress(pg, cells, &mut resumed);
    mmu.assert_consistent();
    resumed
}

#[test]
fn reserved_shared_and_headroom_fill_in_order_and_drain_in_reverse() {
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            xoff_bytes: 4,
            ..lossless_profile()
        },
    ));
    // Private headroom form: the size 5 contains 4 headroom cells. 1 reserved, 50 shared, 4 headroom.
    assert_eq!(
        mmu.plan_ingress(GROUP_A, 55),
        Ok(IngressPlan {
            reserved: 1,
            shared: 50,
            headroom: 4
        })
    );
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 53), Ok(true));
    let regions = |mmu: &Mmu| {
        let buffers = mmu.pg_buffers(GROUP_A);
        (
            buffers.total.current_cells,
            buffers.shared.current_cells,
            buffers.headroom.current_cells,
        )
    };
    assert_eq!(regions(&mmu), (53, 50, 2));
    release_cells(&mut mmu, GROUP_A, 1);
    assert_eq!(regions(&mmu), (52, 50, 1));
    release_cells(&mut mmu, GROUP_A, 50);
    assert_eq!(regions(&mmu), (2, 1, 0));
    release_cells(&mut mmu, GROUP_A, 1);
    assert_eq!(regions(&mmu), (1, 0, 0), "the reserve goes last");
    assert_eq!(mmu.pool_buffers(0).headroom.peak_cells, 2);
    assert_eq!(mmu.pool_buffers(0).shared.current_cells, 0);
}

#[test]
fn profile_size_is_reserved_when_headroom_is_shared_or_larger() {
    let plan = |headroom_pool, xoff_bytes| {
        let profile = BufferProfile {
            xoff_bytes,
            ..lossless_profile()
        };
        Mmu::new(&two_port_config(headroom_pool, profile)).plan_ingress(GROUP_A, 6)
    };
    assert_eq!(
        plan(20, 4),
        Ok(IngressPlan {
            reserved: 5,
            shared: 1,
            headroom: 0
        }),
        "shared headroom pool"
    );
    assert_eq!(
        plan(0, 6),
        Ok(IngressPlan {
            reserved: 5,
            shared: 1,
            headroom: 0
        }),
        "size under xoff"
    );
    assert_eq!(
        plan(0, 5),
        Ok(IngressPlan {
            reserved: 0,
            shared: 6,
            headroom: 0
        }),
        "size is xoff"
    );
}

#[test]
fn a_frame_that_does_not_fit_charges_no_cell() {
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            size_bytes: 3,
            ..lossless_profile()
        },
    ));
    // 3 reserved, 50 shared, 10 headroom.
    let refusal = BufferRefusal {
        limit: BufferLimit::Headroom,
        limit_cells: 10,
        used_cells: 0,
        wanted_cells: 11,
    };
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 64), Err(refusal));
    assert_eq!(mmu.pg_buffers(GROUP_A), Default::default());
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 63), Ok(true));
    let full = BufferRefusal {
        limit: BufferLimit::Headroom,
        limit_cells: 10,
        used_cells: 10,
        wanted_cells: 1,
    };
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 1), Err(full));
    assert_eq!(
        full.to_string(),
        "headroom of the priority group: cells in use: 10 of 10, 1 wanted"
    );
}

#[test]
fn a_frame_is_refused_when_the_shared_headroom_pool_is_full() {
    let mut mmu = Mmu::new(&two_port_config(12, lossless_profile()));
    fill_to_xoff(&mut mmu, GROUP_A);
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 10), Ok(false));
    fill_to_xoff(&mut mmu, GROUP_B);
    let refusal = BufferRefusal {
        limit: BufferLimit::HeadroomPool,
        limit_cells: 12,
        used_cells: 10,
        wanted_cells: 3,
    };
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 3), Err(refusal));
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 2), Ok(false));
    release_cells(&mut mmu, GROUP_A, 1);
    assert_eq!(
        admit_frame(&mut mmu, GROUP_B, 1),
        Ok(false),
        "what one group gives back another may take"
    );
}

#[test]
fn a_lossy_group_is_limited_by_its_threshold_and_its_pool() {
    let lossy = |threshold| Mmu::new(&two_port_config(0, pool_profile(0, threshold)));
    let mut mmu = lossy(BufferThreshold::Static(20));
    assert!(!mmu.is_lossless(GROUP_A));
    assert_eq!(
        admit_frame(&mut mmu, GROUP_A, 20),
        Ok(false),
        "no headroom and no signal: no XOFF"
    );
    let refusal = BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: 20,
        used_cells: 20,
        wanted_cells: 2,
    };
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 2), Err(refusal));
    let mut mmu = lossy(BufferThreshold::Static(0));
    assert_eq!(
        admit_frame(&mut mmu, GROUP_A, 99),
        Ok(false),
        "static 0 is no limit"
    );
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 100,
        used_cells: 99,
        wanted_cells: 2,
    };
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 2), Err(refusal));
    let mut mmu = lossy(BufferThreshold::Dynamic(0));
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 48), Ok(false));
    let refusal = BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: 50,
        used_cells: 48,
        wanted_cells: 3,
    };
    assert_eq!(
        admit_frame(&mut mmu, GROUP_A, 3),
        Err(refusal),
        "the limit that the last cell met"
    );
}

#[test]
fn a_lossy_group_enters_xoff_when_pfc_signals_it() {
    let mut config = two_port_config(
        0,
        BufferProfile {
            xon_bytes: 2,
            ..pool_profile(0, BufferThreshold::Static(20))
        },
    );
    config.ports[0].pfc.enabled = 1 << 3;
    config.ports[0].pfc.priority_to_pg[3] = 1;
    let mut mmu = Mmu::new(&config);
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 20), Ok(false));
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 19), Ok(false));
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 1), Ok(true));
    assert_eq!(release_cells(&mut mmu, GROUP_B, 17), []);
    assert_eq!(release_cells(&mut mmu, GROUP_B, 1), [GROUP_B]);
}

#[test]
fn the_first_headroom_cell_causes_xoff_at_any_limit() {
    // A static limit above the free space of the pool, because others use most of the pool.
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            threshold: BufferThreshold::Static(70),
            ..lossless_profile()
        },
    ));
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 5 + 60), Ok(false));
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 5 + 40), Ok(false));
    assert_eq!(admit_frame(&mut mmu, GROUP_A, 1), Ok(true));
    assert_eq!(mmu.pg_buffers(GROUP_A).headroom.current_cells, 1);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "released more than was charged")]
fn releasing_more_than_charged_cells_panics() {
    let mut mmu = Mmu::new(&two_port_config(0, lossless_profile()));
    admit_frame(&mut mmu, GROUP_A, 3).expect("room");
    release_cells(&mut mmu, GROUP_A, 4);
}

#[test]
fn xon_is_sent_at_exactly_the_offset_below_xoff() {
    for offset in 1..20 {
        let mut mmu = Mmu::new(&two_port_config(
            0,
            BufferProfile {
                xon_offset_bytes: offset,
                trim: false,
                ..lossless_profile()
            },
        ));
        fill_to_xoff(&mut mmu, GROUP_A);
        for _ in 1..offset {
            assert_eq!(release_cells(&mut mmu, GROUP_A, 1), [], "offset {offset}");
        }
        assert_eq!(release_cells(&mut mmu, GROUP_A, 1), [GROUP_A], "offset {offset}");
        assert!(!mmu.is_in_xoff(GROUP_A));
    }
}

#[test]
fn xon_is_sent_after_headroom_is_empty() {
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            xon_bytes: 100,
            ..lossless_profile()
        },
    ));
    fill_to_xoff(&mut mmu, GROUP_A);
    assert_eq!(
        admit_frame(&mut mmu, GROUP_A, 2),
        Ok(false),
        "XOFF once, not with each frame"
    );
    assert_eq!(release_cells(&mut mmu, GROUP_A, 1), []);
    assert_eq!(release_cells(&mut mmu, GROUP_A, 1), [GROUP_A]);
}

#[test]
fn xon_without_offset_uses_the_absolute_threshold() {
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            xon_bytes: 4,
            xon_offset_bytes: 0,
            trim: false,
            ..lossless_profile()
        },
    ));
    let filled = fill_to_xoff(&mut mmu, GROUP_A);
    assert_eq!(release_cells(&mut mmu, GROUP_A, filled - 5), []);
    assert_eq!(release_cells(&mut mmu, GROUP_A, 1), [GROUP_A]);
}

#[test]
fn a_release_of_one_group_can_resume_another() {
    let mut mmu = Mmu::new(&two_port_config(0, lossless_profile()));
    let mut lone = two_port_config(0, lossless_profile());
    lone.pools[0].size_bytes = 60;
    let filled = fill_to_xoff(&mut Mmu::new(&lone), GROUP_A);
    // Group B uses 40 of 100 cells. For group A, the pool has 60 cells.
    assert_eq!(admit_frame(&mut mmu, GROUP_B, 45), Ok(false));
    assert_eq!(fill_to_xoff(&mut mmu, GROUP_A), filled);
    // Group A uses 30 cells and its XOFF point is 30. It must rise to 33, which is half of 65 or 66.
    assert_eq!(release_cells(&mut mmu, GROUP_B, 4), []);
    assert_eq!(release_cells(&mut mmu, GROUP_B, 1), [GROUP_A]);
}

#[test]
fn groups_that_resume_together_are_listed_in_ascending_order() {
    let mut mmu = Mmu::new(&two_port_config(
        0,
        BufferProfile {
            xon_offset_bytes: 1,
            trim: false,
            ..lossless_profile()
        },
    ));
    let hog = PgId(9);
    admit_frame(&mut mmu, hog, 45).expect("room");
    let groups = [PgId(4), PgId(12), PgId(0), PgId(7)];
    for pg in groups {
        fill_to_xoff(&mut mmu, pg);
    }
    assert_eq!(
        release_cells(&mut mmu, hog, 45),
        [PgId(0), PgId(4), PgId(7), PgId(12)]
    );
}

#[test]
fn a_queue_admits_and_charges_every_lossless_frame() {
    let mut mmu = Mmu::new(&two_port_config(0, lossless_profile()));
    assert_eq!(
        mmu.plan_egress(QUEUE, 52, false),
        Ok(EgressPlan {
            reserved: 2,
            shared: 50
        })
    );
    let refusal = BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: 50,
        used_cells: 0,
        wanted_cells: 51,
    };
    assert_eq!(mmu.plan_egress(QUEUE, 53, false), Err(refusal));
    let plan = mmu.plan_egress(QUEUE, 152, true).expect("lossless");
    mmu.commit_egress(QUEUE, plan);
    mmu.assert_consistent();
    assert_eq!(
        mmu.pool_buffers(1).shared.current_cells,
        150,
        "beyond the pool's 100"
    );
    assert_eq!(mmu.queue_buffers(QUEUE).total.current_cells, 152);
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 100,
        used_cells: 150,
        wanted_cells: 1,
    };
    assert_eq!(mmu.plan_egress(QueueId(1), 3, false), Err(refusal));
    mmu.release_egress(QUEUE, 151);
    assert_eq!(
        mmu.queue_buffers(QUEUE).shared.current_cells,
        0,
        "shared cells go first"
    );
    assert_eq!(mmu.queue_buffers(QUEUE).total.current_cells, 1);
    assert_eq!(mmu.queue_buffers(QUEUE).total.peak_cells, 152);
    mmu.clear_watermarks();
    assert_eq!(mmu.queue_buffers(QUEUE).total.peak_cells, 1);
    assert_eq!(mmu.pool_buffers(1).shared.peak_cells, 0);
}

#[test]
fn reconfiguration_keeps_buffer_use_and_resumes_groups_below_xon() {
    let before = two_port_config(0, lossless_profile());
    let mut mmu = Mmu::new(&before);
    let filled = fill_to_xoff(&mut mmu, GROUP_A);
    admit_frame(&mut mmu, GROUP_A, 4).expect("headroom");
    let mut resumed = Vec::new();

    let mut smaller = before.clone();
    smaller.pools[0].size_bytes = 10;
    mmu.reconfigure(&smaller, &mut resumed);
    mmu.assert_consistent();
    assert_eq!(resumed, []);
    assert_eq!(mmu.pg_buffers(GROUP_A).total.current_cells, filled + 4);
    assert_eq!(
        mmu.pool_buffers(0).shared.current_cells,
        50,
        "more than the pool has"
    );
    let plan = mmu.plan_ingress(GROUP_B, 6).expect("group B has headroom");
    assert_eq!(
        plan,
        IngressPlan {
            reserved: 5,
            shared: 0,
            headroom: 1
        }
    );

    let mut larger = before.clone();
    larger.pools[0].size_bytes = 1_000;
    release_cells(&mut mmu, GROUP_A, 4);
    mmu.reconfigure(&larger, &mut resumed);
    mmu.assert_consistent();
    assert_eq!(resumed, [GROUP_A]);

    // A port that was removed keeps its cells and admits nothing.
    let mut none = before;
    none.ports.clear();
    mmu.reconfigure(&none, &mut resumed);
    assert!(mmu.plan_ingress(GROUP_A, 1).is_err());
    release_cells(&mut mmu, GROUP_A, filled);
    assert_eq!(mmu.pg_buffers(GROUP_A).total.current_cells, 0);
}

#[test]
fn a_group_without_profile_or_pool_refuses_frames() {
    let mut config = two_port_config(0, lossless_profile());
    config.ports[0].pgs[0] = 17;
    config.profiles.push(pool_profile(9, BufferThreshold::Static(0)));
    config.ports[0].pgs[1] = 2;
    let mmu = Mmu::new(&config);
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 0,
        used_cells: 0,
        wanted_cells: 1,
    };
    assert_eq!(mmu.plan_ingress(GROUP_A, 1), Err(refusal));
    assert_eq!(mmu.plan_ingress(GROUP_B, 1), Err(refusal));
    assert!(!mmu.is_lossless(GROUP_A));
}

#[test]
fn extreme_sizes_do_not_overflow() {
    let huge = BufferProfile {
        size_bytes: u64::MAX,
        xoff_bytes: u64::MAX,
        xon_bytes: u64::MAX,
        xon_offset_bytes: u64::MAX,
        trim: false,
        ..pool_profile(0, BufferThreshold::Dynamic(7))
    };
    for (headroom_pool, size_bytes) in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
        let mut config = two_port_config(
            headroom_pool,
            BufferProfile {
                size_bytes,
                ..huge.clone()
            },
        );
        config.pools[0].size_bytes = u64::MAX;
        let mut mmu = Mmu::new(&config);
        assert_eq!(admit_frame(&mut mmu, GROUP_A, 1 << 20), Ok(false));
        assert_eq!(release_cells(&mut mmu, GROUP_A, 1 << 20), []);
        assert_eq!(mmu.pool_buffers(0).shared.current_cells, 0);
    }
}
