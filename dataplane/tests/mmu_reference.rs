//! Compares the MMU with a simple model after each of a million random operations.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

use mmu_support::reference::ReferenceMmu;
use mmu_support::{pool_config, pool_profile, switch_config};
use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolSide, PortProfile, SwitchConfig};
use xoff_dataplane::mmu::{BufferLimit, Mmu};
use xoff_dataplane::{PgId, QueueId};

mod mmu_support;

const OPERATIONS: usize = 1_000_000;
/// Number of random walks. Each walk has its own seed and configurations.
const WALKS: usize = 10;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn happens_once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn choose<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len() as u64) as usize]
    }
}

const INGRESS_POOLS: u64 = 2;
const EGRESS_POOLS: u64 = 2;
const PROFILES_PER_SIDE: u64 = 6;

/// Creates small pools that reach every limit, sizes that are not multiples of the cell, and profiles
/// of all kinds.
fn random_config(random: &mut SplitMix64) -> SwitchConfig {
    let mut config = switch_config(2 + random.below(2) as usize);
    config.cell_bytes = random.choose(&[1, 7, 64, 208, 256]);
    let cell = u64::from(config.cell_bytes);
    let bytes = |random: &mut SplitMix64, cells: u64| random.below(cells * cell + 1);
    for index in 0..INGRESS_POOLS + EGRESS_POOLS {
        let side = if index < INGRESS_POOLS {
            PoolSide::Ingress
        } else {
            PoolSide::Egress
        };
        let size = 40 * cell + bytes(random, 260);
        let xoff = if random.happens_once_in(2) {
            bytes(random, 60)
        } else {
            0
        };
        config
            .pools
            .push(pool_config(&format!("pool{}", random.below(6)), side, size, xoff));
    }
    for index in 0..2 * PROFILES_PER_SIDE {
        let pool = if index < PROFILES_PER_SIDE {
            random.below(INGRESS_POOLS)
        } else {
            INGRESS_POOLS + random.below(EGRESS_POOLS)
        };
        let threshold = match random.below(8) {
            0 => BufferThreshold::Static(0),
            1 | 2 => BufferThreshold::Static(1 + bytes(random, 60)),
            _ => BufferThreshold::Dynamic(random.choose(&[-8, -4, -3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 3, 7])),
        };
        let ingress = index < PROFILES_PER_SIDE;
        let lossless = ingress && !random.happens_once_in(3);
        config.profiles.push(BufferProfile {
            size_bytes: bytes(random, 30),
            xoff_bytes: if lossless { 1 + bytes(random, 30) } else { 0 },
            xon_bytes: if random.happens_once_in(2) {
                bytes(random, 20)
            } else {
                0
            },
            xon_offset_bytes: if random.happens_once_in(3) {
                0
            } else {
                bytes(random, 16)
            },
            trim: false,
            ..pool_profile(pool as u16, threshold)
        });
    }
    // Half of the ports and pools have a port limit with a random profile of the pool.
    for port in 0..config.ports.len() as u16 {
        for pool in 0..(INGRESS_POOLS + EGRESS_POOLS) as u16 {
            let first = random.below(2 * PROFILES_PER_SIDE) as u16;
            let turn = |n: u16| (first + n) % (2 * PROFILES_PER_SIDE) as u16;
            let mut profiles = (0..2 * PROFILES_PER_SIDE as u16).map(turn);
            let profile = profiles.find(|profile| config.profiles[usize::from(*profile)].pool == pool);
            if let Some(profile) = profile.filter(|_| random.happens_once_in(2)) {
                config.port_profiles.push(PortProfile { port, profile });
            }
        }
    }
    for port in &mut config.ports {
        port.pfc.enabled = random.next() as u8;
        for index in 0..8 {
            port.pgs[index] = random.below(PROFILES_PER_SIDE) as u16;
            port.queues[index].profile = (PROFILES_PER_SIDE + random.below(PROFILES_PER_SIDE)) as u16;
        }
        if random.happens_once_in(4) {
            port.pgs[7] = u16::MAX;
            port.queues[7].profile = u16::MAX;
        }
    }
    config
}

/// Counts of what occurred in a walk, to make sure that each rule was tested.
#[derive(Debug, Default)]
struct EventCounts {
    accepted: usize,
    admitted_at_once: usize,
    refused_at_ingress: usize,
    refused_at_egress: usize,
    headroom_used: usize,
    xoff: usize,
    resumed_by_own_release: usize,
    resumed_by_others: usize,
    resumed_by_reconfiguration: usize,
    refused_by_port: usize,
}

struct RandomWalk {
    random: SplitMix64,
    mmu: Mmu,
    reference: ReferenceMmu,
    /// Frames in the switch: group, queue, cells.
    held: Vec<(u16, u16, u32)>,
    ports: usize,
    pools: usize,
    /// Arrivals in 100 operations.
    arrivals: u64,
    events: EventCounts,
}

impl RandomWalk {
    fn new(seed: u64) -> RandomWalk {
        let mut random = SplitMix64(seed);
        let config = random_config(&mut random);
        RandomWalk {
            mmu: Mmu::new(&config),
            reference: ReferenceMmu::new(&config),
            held: Vec::new(),
            ports: config.ports.len(),
            pools: config.pools.len(),
            arrivals: 60,
            events: EventCounts::default(),
            random,
        }
    }

    fn apply_random_operation(&mut self) {
        if self.random.happens_once_in(1_000) {
            self.arrivals = self.random.choose(&[10, 45, 50, 55, 60, 90]);
        }
        if self.random.happens_once_in(1_500) {
            self.reconfigure();
        } else if self.random.happens_once_in(500) {
            self.mmu.clear_watermarks();
            self.reference.clear_watermarks();
        } else if self.held.is_empty() || self.random.below(100) < self.arrivals {
            self.arrive();
        } else {
            self.depart();
        }
    }

    fn reconfigure(&mut self) {
        let config = random_config(&mut self.random);
        let mut resumed = Vec::new();
        self.mmu.reconfigure(&config, &mut resumed);
        let expected = self.reference.reconfigure(&config);
        assert_eq!(resumed, pg_ids(&expected), "resumed by reconfiguration");
        self.events.resumed_by_reconfiguration += resumed.len();
        (self.ports, self.pools) = (config.ports.len(), config.pools.len());
    }

    fn arrive(&mut self) {
        let users = self.ports as u64 * 8;
        let group = self.random.below(users) as u16;
        let queue = self.random.below(users) as u16;
        let cells = match self.random.below(10) {
            0..5 => 1,
            5..8 => 1 + self.random.below(6) as u32,
            _ => 1 + self.random.below(40) as u32,
        };
        let lossless = self.mmu.is_lossless(PgId(group));
        assert_eq!(lossless, self.reference.is_lossless(usize::from(group)));
        if self.random.happens_once_in(2) && self.mmu.try_admit(PgId(group), QueueId(queue), cells) {
            let expected = self.reference.charge_ingress(usize::from(group), cells);
            assert_eq!(expected, Some(false), "XOFF of {group}, admitted in one go");
            assert!(self.reference.charge_egress(usize::from(queue), cells, lossless));
            self.held.push((group, queue, cells));
            self.events.admitted_at_once += 1;
            return;
        }
        let before = self.reference.groups[usize::from(group)];
        let peaks = self.reference.pool_peaks();
        let expected = self.reference.charge_ingress(usize::from(group), cells);
        let plan = self.mmu.plan_ingress(PgId(group), cells);
        let (Some(expected_xoff), Ok(plan)) = (expected, plan) else {
            let refusal = plan.expect_err("the reference refuses");
            assert_eq!(expected, None, "the reference accepts: {refusal}");
            assert!(
                refusal.used_cells + refusal.wanted_cells > refusal.limit_cells,
                "{refusal}"
            );
            self.events.refused_at_ingress += 1;
            self.events.refused_by_port += usize::from(refusal.limit == BufferLimit::Port);
            return;
        };
        let after = self.reference.groups[usize::from(group)];
        assert_eq!(i64::from(plan.reserved), after.reserved - before.reserved);
        assert_eq!(i64::from(plan.shared), after.shared - before.shared);
        assert_eq!(i64::from(plan.headroom), after.headroom - before.headroom);

        let egress_plan = self.mmu.plan_egress(QueueId(queue), cells, lossless);
        let accepted = self.reference.charge_egress(usize::from(queue), cells, lossless);
        assert_eq!(egress_plan.is_ok(), accepted, "queue {queue}: {egress_plan:?}");
        match egress_plan {
            Ok(egress_plan) => {
                assert_eq!(
                    self.mmu.commit_ingress(PgId(group), plan),
                    expected_xoff,
                    "XOFF of {group}"
                );
                self.mmu.commit_egress(QueueId(queue), egress_plan);
                self.held.push((group, queue, cells));
                self.events.accepted += 1;
                self.events.headroom_used += usize::from(plan.headroom > 0);
                self.events.xoff += usize::from(expected_xoff);
            }
            Err(refusal) => {
                assert!(
                    refusal.used_cells + refusal.wanted_cells > refusal.limit_cells,
                    "{refusal}"
                );
                self.reference.undo_ingress(usize::from(group), before, &peaks);
                self.events.refused_at_egress += 1;
            }
        }
    }

    fn depart(&mut self) {
        let index = self.random.below(self.held.len() as u64) as usize;
        let (group, queue, cells) = self.held.swap_remove(index);
        self.mmu.release_egress(QueueId(queue), cells);
        self.reference.release_egress(usize::from(queue), cells);
        let mut resumed = Vec::new();
        self.mmu.release_ingress(PgId(group), cells, &mut resumed);
        let expected = self.reference.release_ingress(usize::from(group), cells);
        assert_eq!(
            resumed,
            pg_ids(&expected),
            "resumed by a release of group {group}"
        );
        let own = resumed.iter().filter(|pg| pg.0 == group).count();
        self.events.resumed_by_own_release += own;
        self.events.resumed_by_others += resumed.len() - own;
    }

    fn compare_buffers(&self) {
        for group in 0..self.reference.groups.len() {
            let pg = PgId(group as u16);
            assert_eq!(
                self.mmu.pg_buffers(pg),
                self.reference.pg_buffers(group),
                "{pg:?}"
            );
            assert_eq!(
                self.mmu.is_in_xoff(pg),
                self.reference.groups[group].xoff,
                "{pg:?}"
            );
        }
        for queue in 0..self.reference.queues.len() {
            let id = QueueId(queue as u16);
            assert_eq!(
                self.mmu.queue_buffers(id),
                self.reference.queue_buffers(queue),
                "{id:?}"
            );
        }
        for pool in 0..self.pools {
            assert_eq!(
                self.mmu.pool_buffers(pool),
                self.reference.pool_buffers(pool),
                "pool {pool}"
            );
        }
        self.mmu.assert_consistent();
    }
}

fn pg_ids(groups: &[usize]) -> Vec<PgId> {
    groups.iter().map(|&group| PgId(group as u16)).collect()
}

fn run_walk(seed: u64) {
    let mut walk = RandomWalk::new(seed);
    for _ in 0..OPERATIONS / WALKS {
        walk.apply_random_operation();
        walk.compare_buffers();
    }
    while !walk.held.is_empty() {
        walk.depart();
        walk.compare_buffers();
    }
    let EventCounts {
        accepted,
        admitted_at_once,
        refused_at_ingress,
        refused_at_egress,
        headroom_used,
        xoff,
        resumed_by_own_release,
        resumed_by_others,
        resumed_by_reconfiguration,
        refused_by_port,
    } = walk.events;
    for (what, count) in [
        ("accepted", accepted),
        ("admitted in one go", admitted_at_once),
        ("refused at ingress", refused_at_ingress),
        ("refused at egress", refused_at_egress),
        ("headroom used", headroom_used),
        ("XOFF", xoff),
        ("XON by own release", resumed_by_own_release),
        ("XON by a release of others", resumed_by_others),
        ("XON by reconfiguration", resumed_by_reconfiguration),
        ("refused by a port's threshold", refused_by_port),
    ] {
        println!("seed {seed}: {what}: {count}");
        assert!(count > 0, "seed {seed}: {what} never happened");
    }
}

macro_rules! walk_tests {
    ($($name:ident = $seed:literal),*) => {
        const _: () = assert!([$($seed),*].len() == WALKS);
        $(#[test] fn $name() { run_walk($seed); })*
    };
}
walk_tests!(
    walk_1 = 1,
    walk_2 = 2,
    walk_3 = 3,
    walk_4 = 4,
    walk_5 = 5,
    walk_6 = 6,
    walk_7 = 7,
    walk_8 = 8,
    walk_9 = 9,
    walk_10 = 10
);
