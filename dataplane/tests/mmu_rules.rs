//! Unit tests of the rules of the MMU.

use mmu_support::{config, lossless, profile};
use xoff_dataplane::config::{BufferProfile, BufferThreshold};
use xoff_dataplane::mmu::{BufferLimit, BufferRefusal, EgressPlan, IngressPlan, Mmu};
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

const A: PgId = PgId(0);
const B: PgId = PgId(1);
const Q: QueueId = QueueId(0);

fn arrive(mmu: &mut Mmu, pg: PgId, cells: u32) -> Result<bool, BufferRefusal> {
    let plan = mmu.plan_ingress(pg, cells)?;
    let xoff = mmu.commit_ingress(pg, plan);
    mmu.assert_consistent();
    Ok(xoff)
}

/// Charges single cells until XOFF. Returns their number.
fn fill_to_xoff(mmu: &mut Mmu, pg: PgId) -> u32 {
    (1..).find(|_| arrive(mmu, pg, 1).expect("room")).expect("XOFF")
}

fn release(mmu: &mut Mmu, pg: PgId, cells: u32) -> Vec<PgId> {
    let mut resumed = Vec::new();
    mmu.release_ingress(pg, cells, &mut resumed);
    mmu.assert_consistent();
    resumed
}

#[test]
fn regions_fill_in_order_and_drain_in_reverse() {
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            xoff_bytes: 4,
            ..lossless()
        },
    ));
    // Private headroom form: the size 5 contains 4 headroom cells. 1 reserved, 50 shared, 4 headroom.
    assert_eq!(
        mmu.plan_ingress(A, 55),
        Ok(IngressPlan {
            reserved: 1,
            shared: 50,
            headroom: 4
        })
    );
    assert_eq!(arrive(&mut mmu, A, 53), Ok(true));
    let regions = |mmu: &Mmu| {
        let buffers = mmu.pg_buffers(A);
        (
            buffers.total.current_cells,
            buffers.shared.current_cells,
            buffers.headroom.current_cells,
        )
    };
    assert_eq!(regions(&mmu), (53, 50, 2));
    release(&mut mmu, A, 1);
    assert_eq!(regions(&mmu), (52, 50, 1));
    release(&mut mmu, A, 50);
    assert_eq!(regions(&mmu), (2, 1, 0));
    release(&mut mmu, A, 1);
    assert_eq!(regions(&mmu), (1, 0, 0), "the reserve goes last");
    assert_eq!(mmu.pool_buffers(0).headroom.peak_cells, 2);
    assert_eq!(mmu.pool_buffers(0).shared.current_cells, 0);
}

#[test]
fn size_is_all_reserve_where_headroom_is_shared_or_larger() {
    let plan = |headroom_pool, xoff_bytes| {
        let profile = BufferProfile {
            xoff_bytes,
            ..lossless()
        };
        Mmu::new(&config(headroom_pool, profile)).plan_ingress(A, 6)
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
fn a_frame_that_does_not_fit_as_a_whole_charges_nothing() {
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            size_bytes: 3,
            ..lossless()
        },
    ));
    // 3 reserved, 50 shared, 10 headroom.
    let refusal = BufferRefusal {
        limit: BufferLimit::Headroom,
        limit_cells: 10,
        used_cells: 0,
        wanted_cells: 11,
    };
    assert_eq!(arrive(&mut mmu, A, 64), Err(refusal));
    assert_eq!(mmu.pg_buffers(A), Default::default());
    assert_eq!(arrive(&mut mmu, A, 63), Ok(true));
    let full = BufferRefusal {
        limit: BufferLimit::Headroom,
        limit_cells: 10,
        used_cells: 10,
        wanted_cells: 1,
    };
    assert_eq!(arrive(&mut mmu, A, 1), Err(full));
    assert_eq!(
        full.to_string(),
        "headroom of the priority group: 10 of 10 cells in use, 1 wanted"
    );
}

#[test]
fn the_headroom_pool_may_run_out_before_the_group() {
    let mut mmu = Mmu::new(&config(12, lossless()));
    fill_to_xoff(&mut mmu, A);
    assert_eq!(arrive(&mut mmu, A, 10), Ok(false));
    fill_to_xoff(&mut mmu, B);
    let refusal = BufferRefusal {
        limit: BufferLimit::HeadroomPool,
        limit_cells: 12,
        used_cells: 10,
        wanted_cells: 3,
    };
    assert_eq!(arrive(&mut mmu, B, 3), Err(refusal));
    assert_eq!(arrive(&mut mmu, B, 2), Ok(false));
    release(&mut mmu, A, 1);
    assert_eq!(
        arrive(&mut mmu, B, 1),
        Ok(false),
        "what one group gives back another may take"
    );
}

#[test]
fn a_lossy_group_is_refused_by_its_threshold_or_by_the_pool() {
    let lossy = |threshold| Mmu::new(&config(0, profile(0, threshold)));
    let mut mmu = lossy(BufferThreshold::Static(20));
    assert!(!mmu.is_lossless(A));
    assert_eq!(
        arrive(&mut mmu, A, 20),
        Ok(false),
        "no headroom and no signal: no XOFF"
    );
    let refusal = BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: 20,
        used_cells: 20,
        wanted_cells: 2,
    };
    assert_eq!(arrive(&mut mmu, A, 2), Err(refusal));
    let mut mmu = lossy(BufferThreshold::Static(0));
    assert_eq!(arrive(&mut mmu, A, 99), Ok(false), "static 0 is no limit");
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 100,
        used_cells: 99,
        wanted_cells: 2,
    };
    assert_eq!(arrive(&mut mmu, B, 2), Err(refusal));
    let mut mmu = lossy(BufferThreshold::Dynamic(0));
    assert_eq!(arrive(&mut mmu, A, 48), Ok(false));
    let refusal = BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: 50,
        used_cells: 48,
        wanted_cells: 3,
    };
    assert_eq!(
        arrive(&mut mmu, A, 3),
        Err(refusal),
        "the limit that the last cell met"
    );
}

#[test]
fn a_lossy_group_whose_congestion_is_signalled_has_xoff() {
    let mut config = config(
        0,
        BufferProfile {
            xon_bytes: 2,
            ..profile(0, BufferThreshold::Static(20))
        },
    );
    config.ports[0].pfc.enabled = 1 << 3;
    config.ports[0].pfc.priority_to_pg[3] = 1;
    let mut mmu = Mmu::new(&config);
    assert_eq!(arrive(&mut mmu, A, 20), Ok(false));
    assert_eq!(arrive(&mut mmu, B, 19), Ok(false));
    assert_eq!(arrive(&mut mmu, B, 1), Ok(true));
    assert_eq!(release(&mut mmu, B, 17), []);
    assert_eq!(release(&mut mmu, B, 1), [B]);
}

#[test]
fn the_first_cell_of_headroom_is_xoff_whatever_the_limit() {
    // A static limit above the free space of the pool, because others use most of the pool.
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            threshold: BufferThreshold::Static(70),
            ..lossless()
        },
    ));
    assert_eq!(arrive(&mut mmu, B, 5 + 60), Ok(false));
    assert_eq!(arrive(&mut mmu, A, 5 + 40), Ok(false));
    assert_eq!(arrive(&mut mmu, A, 1), Ok(true));
    assert_eq!(mmu.pg_buffers(A).headroom.current_cells, 1);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "released more than was charged")]
fn releasing_more_than_was_charged_is_a_bug() {
    let mut mmu = Mmu::new(&config(0, lossless()));
    arrive(&mut mmu, A, 3).expect("room");
    release(&mut mmu, A, 4);
}

#[test]
fn xon_after_exactly_the_offset() {
    for offset in 1..20 {
        let mut mmu = Mmu::new(&config(
            0,
            BufferProfile {
                xon_offset_bytes: offset,
                trim: false,
                ..lossless()
            },
        ));
        fill_to_xoff(&mut mmu, A);
        for _ in 1..offset {
            assert_eq!(release(&mut mmu, A, 1), [], "offset {offset}");
        }
        assert_eq!(release(&mut mmu, A, 1), [A], "offset {offset}");
        assert!(!mmu.is_in_xoff(A));
    }
}

#[test]
fn xon_waits_until_headroom_is_empty() {
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            xon_bytes: 100,
            ..lossless()
        },
    ));
    fill_to_xoff(&mut mmu, A);
    assert_eq!(
        arrive(&mut mmu, A, 2),
        Ok(false),
        "XOFF once, not with each frame"
    );
    assert_eq!(release(&mut mmu, A, 1), []);
    assert_eq!(release(&mut mmu, A, 1), [A]);
}

#[test]
fn xon_without_offset_is_absolute() {
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            xon_bytes: 4,
            xon_offset_bytes: 0,
            trim: false,
            ..lossless()
        },
    ));
    let filled = fill_to_xoff(&mut mmu, A);
    assert_eq!(release(&mut mmu, A, filled - 5), []);
    assert_eq!(release(&mut mmu, A, 1), [A]);
}

#[test]
fn a_release_of_one_group_resumes_another() {
    let mut mmu = Mmu::new(&config(0, lossless()));
    let mut lone = config(0, lossless());
    lone.pools[0].size_bytes = 60;
    let filled = fill_to_xoff(&mut Mmu::new(&lone), A);
    // B uses 40 of 100 cells. For A, the pool has 60 cells.
    assert_eq!(arrive(&mut mmu, B, 45), Ok(false));
    assert_eq!(fill_to_xoff(&mut mmu, A), filled);
    // A uses 30 cells and its XOFF point is 30. It must rise to 33, which is half of 65 or 66.
    assert_eq!(release(&mut mmu, B, 4), []);
    assert_eq!(release(&mut mmu, B, 1), [A]);
}

#[test]
fn groups_that_resume_together_come_in_ascending_order() {
    let mut mmu = Mmu::new(&config(
        0,
        BufferProfile {
            xon_offset_bytes: 1,
            trim: false,
            ..lossless()
        },
    ));
    let hog = PgId(9);
    arrive(&mut mmu, hog, 45).expect("room");
    let groups = [PgId(4), PgId(12), PgId(0), PgId(7)];
    for pg in groups {
        fill_to_xoff(&mut mmu, pg);
    }
    assert_eq!(release(&mut mmu, hog, 45), [PgId(0), PgId(4), PgId(7), PgId(12)]);
}

#[test]
fn a_lossless_frame_is_never_refused_by_a_queue_and_always_charged() {
    let mut mmu = Mmu::new(&config(0, lossless()));
    assert_eq!(
        mmu.plan_egress(Q, 52, false),
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
    assert_eq!(mmu.plan_egress(Q, 53, false), Err(refusal));
    let plan = mmu.plan_egress(Q, 152, true).expect("lossless");
    mmu.commit_egress(Q, plan);
    mmu.assert_consistent();
    assert_eq!(
        mmu.pool_buffers(1).shared.current_cells,
        150,
        "beyond the pool's 100"
    );
    assert_eq!(mmu.queue_buffers(Q).total.current_cells, 152);
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 100,
        used_cells: 150,
        wanted_cells: 1,
    };
    assert_eq!(mmu.plan_egress(QueueId(1), 3, false), Err(refusal));
    mmu.release_egress(Q, 151);
    assert_eq!(
        mmu.queue_buffers(Q).shared.current_cells,
        0,
        "shared cells go first"
    );
    assert_eq!(mmu.queue_buffers(Q).total.current_cells, 1);
    assert_eq!(mmu.queue_buffers(Q).total.peak_cells, 152);
    mmu.clear_watermarks();
    assert_eq!(mmu.queue_buffers(Q).total.peak_cells, 1);
    assert_eq!(mmu.pool_buffers(1).shared.peak_cells, 0);
}

#[test]
fn reconfiguration_keeps_use_and_resumes_who_may() {
    let before = config(0, lossless());
    let mut mmu = Mmu::new(&before);
    let filled = fill_to_xoff(&mut mmu, A);
    arrive(&mut mmu, A, 4).expect("headroom");
    let mut resumed = Vec::new();

    let mut smaller = before.clone();
    smaller.pools[0].size_bytes = 10;
    mmu.reconfigure(&smaller, &mut resumed);
    mmu.assert_consistent();
    assert_eq!(resumed, []);
    assert_eq!(mmu.pg_buffers(A).total.current_cells, filled + 4);
    assert_eq!(
        mmu.pool_buffers(0).shared.current_cells,
        50,
        "more than the pool has"
    );
    let plan = mmu.plan_ingress(B, 6).expect("B has headroom");
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
    release(&mut mmu, A, 4);
    mmu.reconfigure(&larger, &mut resumed);
    mmu.assert_consistent();
    assert_eq!(resumed, [A]);

    // A port that was removed keeps its cells and admits nothing.
    let mut none = before;
    none.ports.clear();
    mmu.reconfigure(&none, &mut resumed);
    assert!(mmu.plan_ingress(A, 1).is_err());
    release(&mut mmu, A, filled);
    assert_eq!(mmu.pg_buffers(A).total.current_cells, 0);
}

#[test]
fn a_group_without_profile_or_pool_refuses() {
    let mut config = config(0, lossless());
    config.ports[0].pgs[0] = 17;
    config.profiles.push(profile(9, BufferThreshold::Static(0)));
    config.ports[0].pgs[1] = 2;
    let mmu = Mmu::new(&config);
    let refusal = BufferRefusal {
        limit: BufferLimit::Pool,
        limit_cells: 0,
        used_cells: 0,
        wanted_cells: 1,
    };
    assert_eq!(mmu.plan_ingress(A, 1), Err(refusal));
    assert_eq!(mmu.plan_ingress(B, 1), Err(refusal));
    assert!(!mmu.is_lossless(A));
}

#[test]
fn absurd_sizes_do_not_overflow() {
    let huge = BufferProfile {
        size_bytes: u64::MAX,
        xoff_bytes: u64::MAX,
        xon_bytes: u64::MAX,
        xon_offset_bytes: u64::MAX,
        trim: false,
        ..profile(0, BufferThreshold::Dynamic(7))
    };
    for (headroom_pool, size_bytes) in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
        let mut config = config(
            headroom_pool,
            BufferProfile {
                size_bytes,
                ..huge.clone()
            },
        );
        config.pools[0].size_bytes = u64::MAX;
        let mut mmu = Mmu::new(&config);
        assert_eq!(arrive(&mut mmu, A, 1 << 20), Ok(false));
        assert_eq!(release(&mut mmu, A, 1 << 20), []);
        assert_eq!(mmu.pool_buffers(0).shared.current_cells, 0);
    }
}
