//! Memory management unit: who may occupy which cells.
//!
//! A frame occupies `ceil(mac_len / cell)` cells, charged twice: to the priority group it came in by, and to
//! the queue it leaves by (each copy of a flooded frame to its own). An arriving frame is first *planned*,
//! which changes nothing, then *committed*, so that a refusal on one side leaves no trace on the other.
//!
//! # The rules
//!
//! Whole cells, integers; configured sizes are cut down to whole cells. Sections are those of the project's SONiC
//! reference; SAI names are of `saibuffer.h`.
//!
//! - **Regions of a group** (2.2), cell by cell in this order: *reserved*; *shared* while the group's shared use
//!   is under its limit and the pool has a free cell, and one cell more where others have brought the limit down
//!   to its use since: headroom is for what comes after XOFF, and that cell is what declares it; *headroom* while the group's `xoff` and, where the pool has
//!   one, the shared headroom pool have room. If one cell finds no place the whole frame is refused and nothing
//!   is charged. Reserves are not carved out of the pool's size, headroom is not charged to it.
//! - **Reserved** is `size`, or `size - xoff` in the private headroom form: no shared headroom pool, and `size`
//!   at least `xoff` (2.2).
//! - **Limit** (2.1, `SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH`, `_STATIC_TH`): see the module `threshold`.
//! - **Second level** (2.1): a port's own threshold for its use of a pool, where it has one: see the module `port`. Being at
//!   the limit means either of the two.
//! - **XOFF** (2.9) is decided on arrival, after charging: reserved is full and shared use has reached the limit
//!   of that moment, or headroom is in use. A group keeps that state if it has headroom or if its port signals
//!   its congestion.
//! - **Release** (2.2): headroom, shared, reserved. Real chips let the region filled last go first, so that
//!   headroom is whole again before XON.
//! - **XON** (2.3, `SAI_BUFFER_PROFILE_ATTR_XON_TH`, `_XON_OFFSET_TH`): headroom is empty, and total use is at most
//!   `max(xon, reserved + X - xon_offset)`. *X* is the XOFF point: the smallest shared use at which XOFF would be
//!   declared, given what others hold now. An `xon_offset` of 0 (or under a cell) takes the second term out. So a
//!   group alone resumes after exactly `xon_offset` cells have drained, as measured on chips, and *X* rises while
//!   others drain. Every waiting group of the pool is looked at again whenever cells of the pool are released.
//! - **Queues**: reserved, then shared under the queue's limit. A lossless frame is never refused by a queue and
//!   is charged beyond the limit (2.2: drops of a lossless class happen at ingress only).
//!
//! Groups whose threshold is [`Threshold::Hpcc`](crate::config::Threshold::Hpcc) follow the rules of that simulator
//! instead: see the module `hpcc`.

mod check;
mod hpcc;
mod plan;
mod pool;
mod port;
mod resolve;
mod threshold;
mod user;
mod view;

pub use plan::{EgressPlan, IngressPlan, Limit, Refusal};

use crate::config::SwitchConfig;
use crate::ids::{PRIORITIES, PgId, QueueId};
use pool::{Pool, Waiter};
use port::{NO_LEVEL, PortLevel};
use resolve::{CellSize, Levels, Limits, PoolLimits};
use threshold::Rule;
use user::{ALONE, BEHIND_PORT, Group, NOT_WAITING, Queue, shared_refusal};

/// The buffer accounting of a switch. See the [module](self) for the rules.
#[derive(Clone, Debug)]
pub struct Mmu {
    cell: CellSize,
    groups: Vec<Group>,
    queues: Vec<Queue>,
    /// The configured pools, then one of no size for users without a profile.
    pools: Vec<Pool>,
    /// What ports as a whole may use of pools, where that is limited.
    levels: Vec<PortLevel>,
    pool_names: Vec<String>,
}

impl Mmu {
    /// An empty buffer.
    pub fn new(config: &SwitchConfig) -> Mmu {
        let mut mmu = Mmu {
            cell: CellSize::new(config.cell_bytes),
            groups: Vec::new(),
            queues: Vec::new(),
            pools: Vec::new(),
            levels: Vec::new(),
            pool_names: Vec::new(),
        };
        mmu.reconfigure(config, &mut Vec::new());
        mmu
    }

    /// New thresholds, pools and profiles under traffic. What groups and queues hold stays held, in cells as
    /// they were charged and by region, and pool sums are computed anew from it; peaks stay (a pool's by its
    /// name). Groups in XOFF that may resume now, or no longer keep that state, are appended to `resumed` in
    /// ascending order; none enters XOFF, since that is decided on arrival. Ports beyond the new configuration
    /// keep what they hold and accept nothing.
    pub fn reconfigure(&mut self, config: &SwitchConfig, resumed: &mut Vec<PgId>) {
        self.cell = CellSize::new(config.cell_bytes);
        self.resolve_limits(config);
        self.replace_pools(config);
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            if group.place == NOT_WAITING {
                continue;
            }
            let pool = &mut self.pools[usize::from(group.limits.pool)];
            let may_resume = match group.limits.rule {
                Rule::Hpcc { shift } => hpcc::may_resume(group, pool.free, shift),
                _ => match level_of(&self.levels, &group.limits) {
                    Some(level) => group.may_resume(pool.free, level),
                    None => group.needed() <= pool.free,
                },
            };
            if group.limits.tracks_xoff && !may_resume {
                wait(group, pool, PgId(index as u16));
            } else {
                group.place = NOT_WAITING;
                resumed.push(PgId(index as u16));
            }
        }
    }

    fn resolve_limits(&mut self, config: &SwitchConfig) {
        let none = Limits::none(config.pools.len() as u16);
        let users = (config.ports.len() * PRIORITIES).max(self.groups.len());
        self.groups.resize(users, Group::new(none));
        self.queues.resize(users, Queue::new(none));
        let levels = Levels::new(config, self.cell);
        for (index, (group, queue)) in self.groups.iter_mut().zip(&mut self.queues).enumerate() {
            let number = (index % PRIORITIES) as u8;
            match config.ports.get(index / PRIORITIES) {
                Some(port) => {
                    let of_group = Limits::of_group(port, number, config, self.cell);
                    let of_queue = Limits::of_queue(port, number, config, self.cell);
                    group.limits = of_group.behind(levels.of(index / PRIORITIES, &of_group));
                    queue.limits = of_queue.behind(levels.of(index / PRIORITIES, &of_queue));
                }
                None => {
                    group.limits = none;
                    queue.limits = none;
                }
            }
        }
        self.levels = levels.levels;
    }

    fn replace_pools(&mut self, config: &SwitchConfig) {
        let limits = config.pools.iter().enumerate().map(|(index, pool)| {
            let mut limits = PoolLimits::new(pool, self.cell);
            limits.size -= hpcc::set_aside(config, index, self.cell);
            limits
        });
        let pools: Vec<Pool> = limits.chain([PoolLimits::NONE]).map(Pool::new).collect();
        let before = std::mem::replace(&mut self.pools, pools);
        let names = config.pools.iter().map(|pool| pool.name.clone()).collect();
        let names_before = std::mem::replace(&mut self.pool_names, names);
        for index in 0..self.pools.len() {
            let of_pool = |group: &&Group| usize::from(group.limits.pool) == index;
            self.pools[index].expect_waiters(self.groups.iter().filter(of_pool).count());
        }
        for group in &self.groups {
            let pool = &mut self.pools[usize::from(group.limits.pool)];
            pool.charge_shared(group.shared);
            pool.charge_headroom(group.headroom);
            charge_level(&mut self.levels, &group.limits, group.shared);
        }
        for queue in &self.queues {
            self.pools[usize::from(queue.limits.pool)].charge_shared(queue.shared);
            charge_level(&mut self.levels, &queue.limits, queue.shared);
        }
        for (pool, name) in self.pools.iter_mut().zip(&self.pool_names) {
            if let Some(index) = names_before.iter().position(|before| before == name) {
                pool.keep_peaks(&before[index]);
            }
        }
    }

    /// Cells that a frame of `mac_len` bytes occupies.
    #[inline(always)]
    pub fn cells(&self, mac_len: u32) -> u32 {
        self.cell.cells(mac_len)
    }

    /// Plans and commits a frame on both sides at once, where that is plain: its group is not in XOFF and does not go there, no second
    /// level and no rule of a simulator has a say, and all cells find a place outside headroom. A queue never refuses a frame of a
    /// lossless group.
    ///
    /// False: it is not plain, nothing was charged, and plans will tell.
    #[inline(always)]
    pub fn admit(&mut self, pg: PgId, queue: QueueId, cells: u32) -> bool {
        let group = &mut self.groups[pg.index()];
        let queue = &mut self.queues[queue.index()];
        let at_rest = group.place == NOT_WAITING && group.headroom == 0;
        if !group.limits.plain || !queue.limits.plain || !at_rest {
            return false;
        }
        if !group.limits.lossless {
            let reserved = queue.limits.reserved.saturating_sub(queue.reserved);
            let shared = cells.saturating_sub(reserved);
            let free = self
                .pools
                .get(usize::from(queue.limits.pool))
                .map_or(0, |pool| pool.free);
            if !queue.limits.rule.fits(queue.shared, free, shared) {
                return false;
            }
        }
        let Some(pool) = self.pools.get_mut(usize::from(group.limits.pool)) else {
            return false;
        };
        let reserved = cells.min(group.limits.reserved.saturating_sub(group.reserved));
        let shared = cells - reserved;
        let used = group.shared + shared;
        // Use rises and the limit falls with each cell: what is under the limit with all of them charged has been so all along. The
        // queue's may be of the same pool or not; a frame that this makes a difference to is not plain.
        let free = pool.free - i64::from(shared) - i64::from(cells);
        if free < 0 || u64::from(used) >= group.limits.rule.limit(free) {
            return false;
        }
        group.reserved += reserved;
        group.shared = used;
        group.record_use();
        pool.charge_shared(shared);
        let shared = queue.charge(cells);
        if let Some(pool) = self.pools.get_mut(usize::from(queue.limits.pool)) {
            pool.charge_shared(shared);
        }
        true
    }

    /// Where `cells` cells of an arriving frame would be charged. Changes nothing.
    ///
    /// # Errors
    /// The limit that decided, if they do not all find a place: the frame is to be dropped.
    #[inline]
    pub fn plan_ingress(&self, pg: PgId, cells: u32) -> Result<IngressPlan, Refusal> {
        let group = &self.groups[pg.index()];
        let pool = &self.pools[usize::from(group.limits.pool)];
        if let Rule::Hpcc { shift } = group.limits.rule {
            return hpcc::plan(group, pool.free, shift, cells);
        }
        let reserved = cells.min(group.limits.reserved.saturating_sub(group.reserved));
        let mut shared = self.room(&group.limits, group.shared, pool, cells - reserved);
        if shared == 0 && reserved == 0 && group.declares_xoff(pool) {
            shared = cells.min(1);
        }
        let headroom = cells - reserved - shared;
        if headroom > 0 {
            self.check_headroom(group, pool, shared, headroom)?;
        }
        Ok(IngressPlan {
            reserved,
            shared,
            headroom,
        })
    }

    /// How many of `wanted` cells a user that holds `used` may take of the shared part.
    #[inline]
    fn room(&self, limits: &Limits, used: u32, pool: &Pool, wanted: u32) -> u32 {
        match level_of(&self.levels, limits) {
            None => limits.rule.room(used, pool.free, wanted),
            Some(level) => level.room(limits.rule, used, pool.free, wanted),
        }
    }

    /// Whether `headroom` cells fit there, beside `shared` cells that fit under the threshold.
    #[inline(never)]
    fn check_headroom(&self, group: &Group, pool: &Pool, shared: u32, headroom: u32) -> Result<(), Refusal> {
        if group.limits.headroom == 0 {
            return Err(shared_refusal(
                &group.limits,
                group.shared,
                pool,
                level_of(&self.levels, &group.limits),
                shared + headroom,
            ));
        }
        let refusal = |limit, size: i64, used: i64| Refusal {
            limit,
            limit_cells: size as u32,
            used_cells: used as u32,
            wanted_cells: headroom,
        };
        let (size, used) = (i64::from(group.limits.headroom), i64::from(group.headroom));
        if used + i64::from(headroom) > size {
            return Err(refusal(Limit::Headroom, size, used));
        }
        if pool.headroom + i64::from(headroom) > pool.limits.headroom {
            return Err(refusal(Limit::HeadroomPool, pool.limits.headroom, pool.headroom));
        }
        Ok(())
    }

    /// Charges a plan. True: the group has gone to XOFF by it.
    ///
    /// Nothing may have been charged to or released from the group's pool since the plan was made.
    #[inline]
    pub fn commit_ingress(&mut self, pg: PgId, plan: IngressPlan) -> bool {
        let group = &mut self.groups[pg.index()];
        let pool = &mut self.pools[usize::from(group.limits.pool)];
        group.reserved += plan.reserved;
        group.shared += plan.shared;
        pool.charge_shared(plan.shared);
        charge_level(&mut self.levels, &group.limits, plan.shared);
        if plan.headroom > 0 {
            group.headroom += plan.headroom;
            pool.charge_headroom(plan.headroom);
        }
        debug_assert!(
            (plan.reserved == 0 || group.reserved <= group.limits.reserved)
                && (plan.shared == 0 || pool.free >= 0 || group.limits.rule.is_hpcc())
                && (plan.headroom == 0 || group.headroom <= group.limits.headroom),
            "{pg:?}: a plan was committed that no longer holds: {plan:?} {group:?}"
        );
        group.record_peaks();
        if !group.limits.tracks_xoff {
            return false;
        }
        if group.place != NOT_WAITING {
            if group.waits_in_pool() {
                pool.update(group.place, group.needed());
            }
            return false;
        }
        if !group.congested(pool.free, level_of(&self.levels, &group.limits)) {
            return false;
        }
        wait(group, pool, pg);
        true
    }

    /// Where `cells` cells of a frame would be charged on the egress side. Changes nothing.
    ///
    /// # Errors
    /// The limit that decided, if they do not all find a place and the frame is not `lossless`: it is to be
    /// dropped. A lossless frame is charged beyond the limit instead.
    #[inline]
    pub fn plan_egress(&self, queue: QueueId, cells: u32, lossless: bool) -> Result<EgressPlan, Refusal> {
        let queue = &self.queues[queue.index()];
        let reserved = cells.min(queue.limits.reserved.saturating_sub(queue.reserved));
        let shared = cells - reserved;
        if !lossless && shared > 0 {
            let pool = &self.pools[usize::from(queue.limits.pool)];
            if self.room(&queue.limits, queue.shared, pool, shared) < shared {
                let level = level_of(&self.levels, &queue.limits);
                return Err(shared_refusal(&queue.limits, queue.shared, pool, level, shared));
            }
        }
        Ok(EgressPlan { reserved, shared })
    }

    /// Charges a plan. Plans for several queues (copies of a flooded frame) are to be made and committed in turn.
    #[inline]
    pub fn commit_egress(&mut self, queue: QueueId, plan: EgressPlan) {
        let queue = &mut self.queues[queue.index()];
        let shared = queue.charge(plan.reserved + plan.shared);
        debug_assert_eq!(shared, plan.shared, "a plan was committed that no longer holds");
        self.pools[usize::from(queue.limits.pool)].charge_shared(plan.shared);
        charge_level(&mut self.levels, &queue.limits, plan.shared);
    }

    /// Gives `cells` cells of a group back. Groups of the pool that go from XOFF to XON by this, the group itself
    /// or others, are appended to `resumed` in ascending order.
    ///
    /// To release more than was charged is a bug of the caller: debug builds panic, others release what there is.
    #[inline(always)]
    pub fn release_ingress(&mut self, pg: PgId, cells: u32, resumed: &mut Vec<PgId>) {
        let group = &mut self.groups[pg.index()];
        let at_rest = group.place == NOT_WAITING && group.headroom == 0;
        if !group.limits.plain || !at_rest || cells > group.shared {
            return self.release_any(pg, cells, resumed);
        }
        group.shared -= cells;
        let index = usize::from(group.limits.pool);
        let pool = &mut self.pools[index];
        pool.free += i64::from(cells);
        if pool.someone_may_go() {
            self.look_at_waiters(index, resumed.len(), resumed);
        }
    }

    /// As [`Mmu::release_ingress`], of a group that is in XOFF, or under more than one limit, or holds no shared cell for each.
    #[inline(never)]
    fn release_any(&mut self, pg: PgId, cells: u32, resumed: &mut Vec<PgId>) {
        let first = resumed.len();
        let group = &mut self.groups[pg.index()];
        let index = usize::from(group.limits.pool);
        let pool = &mut self.pools[index];
        let (headroom, shared) = group.release(cells);
        pool.headroom -= i64::from(headroom);
        pool.free += i64::from(shared);
        release_level(&mut self.levels, &group.limits, shared);
        if group.place != NOT_WAITING {
            match group.limits.rule {
                Rule::Hpcc { shift } if hpcc::may_resume(group, pool.free, shift) => {
                    group.place = NOT_WAITING;
                    resumed.push(pg);
                }
                Rule::Hpcc { .. } => {}
                _ if group.place == BEHIND_PORT => {}
                _ => pool.update(group.place, group.needed()),
            }
        }
        if pool.someone_may_go() {
            self.look_at_waiters(index, first, resumed);
        }
    }

    /// A release may let groups of a pool go on.
    #[cold]
    fn look_at_waiters(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        if self.pools[pool].bound_reached() {
            self.resume(pool, first, resumed);
        }
        if !self.pools[pool].behind_ports.is_empty() {
            self.resume_behind_ports(pool, first, resumed);
        }
    }

    /// As [`resume`](Self::resume), for the groups whose ports have a second level: their need depends on what their port
    /// holds as well, so each is asked.
    fn resume_behind_ports(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        let (groups, levels, pool) = (&mut self.groups, &self.levels, &mut self.pools[pool]);
        let free = pool.free;
        pool.behind_ports.retain(|&index| {
            let group = &mut groups[usize::from(index)];
            let waits = level_of(levels, &group.limits).is_some_and(|level| !group.may_resume(free, level));
            if !waits {
                group.place = NOT_WAITING;
                resumed.push(PgId(index));
            }
            waits
        });
        resumed[first..].sort_unstable();
    }

    /// Lets all waiters of a pool go that may, and sorts what was resumed since `first`.
    fn resume(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        let pool = &mut self.pools[pool];
        let mut from = 0;
        while let Some(place) = pool.ready(from) {
            let group = pool.waiters()[place as usize].group;
            self.groups[usize::from(group)].place = NOT_WAITING;
            resumed.push(PgId(group));
            if let Some(moved) = pool.leave(place) {
                self.groups[usize::from(moved.group)].place = place;
            }
            from = place;
        }
        pool.tighten_bound();
        resumed[first..].sort_unstable();
    }

    /// Gives `cells` cells of a queue back: shared ones first. More than was charged: as
    /// [`release_ingress`](Self::release_ingress).
    #[inline(always)]
    pub fn release_egress(&mut self, queue: QueueId, cells: u32) {
        let queue = &mut self.queues[queue.index()];
        let shared = match cells <= queue.shared {
            true => {
                queue.shared -= cells;
                cells
            }
            false => queue.release(cells),
        };
        self.pools[usize::from(queue.limits.pool)].free += i64::from(shared);
        release_level(&mut self.levels, &queue.limits, shared);
    }

    /// Whether the group has headroom: its frames are never dropped at egress.
    #[inline(always)]
    pub fn lossless(&self, pg: PgId) -> bool {
        self.groups[pg.index()].limits.lossless
    }

    /// Whether the group is in XOFF.
    #[inline]
    pub fn xoff(&self, pg: PgId) -> bool {
        self.groups[pg.index()].place != NOT_WAITING
    }
}

/// The second level of a user, where its port has one.
#[inline]
fn level_of(levels: &[PortLevel], limits: &Limits) -> Option<PortLevel> {
    if limits.level == NO_LEVEL {
        return None;
    }
    levels.get(usize::from(limits.level)).copied()
}

#[inline]
fn charge_level(levels: &mut [PortLevel], limits: &Limits, cells: u32) {
    if limits.level != NO_LEVEL {
        levels[usize::from(limits.level)].used += i64::from(cells);
    }
}

#[inline]
fn release_level(levels: &mut [PortLevel], limits: &Limits, cells: u32) {
    if limits.level != NO_LEVEL {
        levels[usize::from(limits.level)].used -= i64::from(cells);
    }
}

/// Puts a group that is in XOFF where it waits for what lets it resume.
#[cold]
fn wait(group: &mut Group, pool: &mut Pool, pg: PgId) {
    group.place = match group.limits.rule {
        Rule::Hpcc { .. } => ALONE,
        _ if group.limits.level != NO_LEVEL => {
            pool.behind_ports.push(pg.0);
            BEHIND_PORT
        }
        _ => pool.wait(Waiter {
            needed: group.needed(),
            group: pg.0,
        }),
    };
}
