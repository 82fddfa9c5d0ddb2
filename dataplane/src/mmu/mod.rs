//! Memory management unit (MMU): decides which frames may occupy buffer cells.
//!
//! A frame occupies `ceil(mac_len / cell)` cells. These cells count twice: for the priority group at the
//! ingress port, and for the queue at the egress port. Each copy of a flooded frame counts for its own queue.
//! The switch first plans the use at ingress and at egress, and then commits both plans. Planning changes
//! nothing, so a frame that is refused at egress has changed nothing at ingress.
//!
//! # Rules
//!
//! All numbers are whole cells. Configured sizes are rounded down to whole cells. SAI names
//! are from `saibuffer.h`.
//!
//! - **Regions of a group**: the cells of a frame use *reserved* space first, then *shared* space, then
//!   *headroom*. Shared space is available while the shared use of the group is below its limit and the pool
//!   has a free cell. Headroom is available while the headroom of the group (`xoff`) and the shared headroom
//!   pool have space. If one cell does not fit, the whole frame is refused and uses no cell. Reserved space
//!   and headroom are not part of the size of the pool.
//! - **One more shared cell** is available to a group that is at its limit but does not pause its peer yet.
//!   This happens if other groups fill the pool and thereby lower the dynamic limit of this group. With the
//!   additional cell, the group pauses its peer (XOFF).
//! - **Reserved** space is `size - xoff` if the pool has no shared headroom and `size` is at least `xoff`.
//!   Otherwise, reserved space is `size`.
//! - **Limit** of the shared use (`SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH`, `_STATIC_TH`): see the
//!   module `threshold`.
//! - **Port limit**: a port may have a threshold for its own use of a pool. See the module `port`. A group or
//!   queue is at its limit if its own limit or the port limit is reached.
//! - **XOFF**: when the cells of an arriving frame have been added, a group enters the XOFF state, in which
//!   it pauses its peer, in two cases. It uses headroom, or its reserved space is full and its shared use has
//!   reached the current limit. Only groups that have headroom or send pause frames enter the XOFF state.
//! - **Release** frees headroom first, then shared, then reserved. Real chips use the same order, so headroom
//!   is empty before XON is sent.
//! - **XON** (`SAI_BUFFER_PROFILE_ATTR_XON_TH`, `_XON_OFFSET_TH`): a group leaves XOFF when its headroom is
//!   empty and its total use is at most `max(xon, reserved + X - xon_offset)`. *X* is the XOFF point: the
//!   smallest shared use that would put the group into XOFF at this moment. If `xon_offset` is smaller than
//!   one cell, the condition is only that the total use is at most `xon`. A group that is alone in its pool
//!   resumes after exactly `xon_offset` cells have drained, as measured on chips. *X* rises while other users
//!   drain. After each release, all waiting groups of the pool are checked.
//! - **Queues** use reserved space, then shared space up to their limit. A queue never refuses a lossless
//!   frame, even if the frame exceeds the limit. Lossless frames are dropped only at ingress.
//!
//! Groups with [`BufferThreshold::Hpcc`](crate::config::BufferThreshold::Hpcc) follow the rules of the HPCC
//! simulator instead. See the module `hpcc`.

mod admission_result;
mod consistency_check;
mod egress_queue;
mod hpcc;
mod limits;
mod pool;
mod port;
mod prefetching;
mod priority_group;
mod threshold;
mod watermarks;
mod xoff;

pub use admission_result::{BufferLimit, BufferRefusal, EgressPlan, IngressPlan};

use crate::config::SwitchConfig;
use crate::ids::{PRIORITIES, PgId, QueueId};
use admission_result::describe_refusal;
use egress_queue::EgressQueue;
use limits::{CellSize, PoolLimits, PortLimits, ProfileLimits};
use pool::{BufferPool, XonWaiter};
use port::{NO_PORT_LIMIT, PortLimit};
use priority_group::{NOT_WAITING, PriorityGroup, WAITS_AT_PORT_LIMIT, WAITS_FOR_OWN_RELEASE};
use threshold::LimitRule;

/// The buffer accounting of a switch. The [module](self) describes the rules. Methods panic if the
/// configuration has no such port or pool.
#[derive(Clone, Debug)]
#[repr(C)] // the fields that each frame uses come first
pub struct Mmu {
    cell: CellSize,
    groups: Vec<PriorityGroup>,
    queues: Vec<EgressQueue>,
    /// The configured pools, followed by an empty pool for groups and queues without a profile.
    pools: Vec<BufferPool>,
    /// Use and limits of whole ports in pools. Only ports with such limits have entries.
    port_limits: Vec<PortLimit>,
    pool_names: Vec<String>,
}

impl Mmu {
    /// Creates the accounting of an empty buffer.
    pub fn new(config: &SwitchConfig) -> Mmu {
        let mut mmu = Mmu {
            cell: CellSize::new(config.cell_bytes),
            groups: Vec::new(),
            queues: Vec::new(),
            pools: Vec::new(),
            port_limits: Vec::new(),
            pool_names: Vec::new(),
        };
        mmu.reconfigure(config, &mut Vec::new());
        mmu
    }

    /// Applies new thresholds, pools and profiles while frames are in the buffer. Groups and queues keep
    /// their cells, and the sums of the pools are computed again. Watermarks are kept. The watermark of a
    /// pool is kept if the new configuration has a pool of the same name.
    ///
    /// Groups that let their peer resume (XON) are appended to `resumed` in ascending order. No group starts
    /// to pause its peer here, because this happens only when a frame arrives. Ports that are missing in the
    /// new configuration keep their cells and admit no frame.
    pub fn reconfigure(&mut self, config: &SwitchConfig, resumed: &mut Vec<PgId>) {
        self.cell = CellSize::new(config.cell_bytes);
        self.resolve_limits(config);
        self.replace_pools(config);
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            if group.waiter_index == NOT_WAITING {
                continue;
            }
            let pool = &mut self.pools[usize::from(group.limits.pool)];
            let can_resume = match group.limits.rule {
                LimitRule::Hpcc { shift } => hpcc::can_resume(group, pool.free, shift),
                _ => match find_port_limit(&self.port_limits, &group.limits) {
                    Some(port_limit) => group.can_resume(pool.free, port_limit),
                    None => group.needed_free_cells() <= pool.free,
                },
            };
            if group.limits.tracks_xoff && !can_resume {
                register_waiter(group, pool, PgId(index as u16));
            } else {
                group.waiter_index = NOT_WAITING;
                resumed.push(PgId(index as u16));
            }
        }
    }

    fn resolve_limits(&mut self, config: &SwitchConfig) {
        let none = ProfileLimits::none(config.pools.len() as u16);
        let users = (config.ports.len() * PRIORITIES).max(self.groups.len());
        self.groups.resize(users, PriorityGroup::new(none));
        self.queues.resize(users, EgressQueue::new(none));
        let port_limits = PortLimits::new(config, self.cell);
        for (index, (group, queue)) in self.groups.iter_mut().zip(&mut self.queues).enumerate() {
            let number = (index % PRIORITIES) as u8;
            match config.ports.get(index / PRIORITIES) {
                Some(port) => {
                    let group_limits = ProfileLimits::group_limits(port, number, config, self.cell);
                    let queue_limits = ProfileLimits::queue_limits(port, number, config, self.cell);
                    group.limits = group_limits
                        .with_port_limit(port_limits.port_limit_index(index / PRIORITIES, &group_limits));
                    queue.limits = queue_limits
                        .with_port_limit(port_limits.port_limit_index(index / PRIORITIES, &queue_limits));
                }
                None => {
                    group.limits = none;
                    queue.limits = none;
                }
            }
        }
        self.port_limits = port_limits.port_limits;
    }

    fn replace_pools(&mut self, config: &SwitchConfig) {
        let limits = config.pools.iter().enumerate().map(|(index, pool)| {
            let mut limits = PoolLimits::new(pool, self.cell);
            limits.size -= hpcc::hpcc_set_aside_cell_count(config, index, self.cell);
            limits
        });
        let pools: Vec<BufferPool> = limits.chain([PoolLimits::NONE]).map(BufferPool::new).collect();
        let before = std::mem::replace(&mut self.pools, pools);
        let names = config.pools.iter().map(|pool| pool.name.clone()).collect();
        let names_before = std::mem::replace(&mut self.pool_names, names);
        for index in 0..self.pools.len() {
            let of_pool = |group: &&PriorityGroup| usize::from(group.limits.pool) == index;
            self.pools[index].reserve_waiters(self.groups.iter().filter(of_pool).count());
        }
        for group in &self.groups {
            let pool = &mut self.pools[usize::from(group.limits.pool)];
            pool.charge_shared(group.shared);
            pool.charge_headroom(group.headroom);
            charge_port_limit(&mut self.port_limits, &group.limits, group.shared);
        }
        for queue in &self.queues {
            self.pools[usize::from(queue.limits.pool)].charge_shared(queue.shared);
            charge_port_limit(&mut self.port_limits, &queue.limits, queue.shared);
        }
        for (pool, name) in self.pools.iter_mut().zip(&self.pool_names) {
            if let Some(index) = names_before.iter().position(|before| before == name) {
                pool.keep_watermarks(&before[index]);
            }
        }
    }

    /// Returns the number of cells that a frame of `mac_len` bytes occupies, rounded up.
    #[inline(always)]
    pub fn frame_cells(&self, mac_len: u32) -> u32 {
        self.cell.frame_cells(mac_len)
    }

    /// Plans and commits a frame at ingress and egress in one step. This step handles only the common case:
    /// - The group does not pause its peer (XOFF), neither before nor after the frame.
    /// - No port limit and no rule of the HPCC simulator applies.
    /// - No cell of the frame uses headroom.
    ///
    /// Returns true if the frame was admitted. Returns false if the case is not the common one:
    /// nothing has then changed, and the caller must use [`plan_ingress`](Self::plan_ingress)
    /// and [`plan_egress`](Self::plan_egress).
    #[inline(always)]
    pub fn try_admit(&mut self, pg: PgId, queue: QueueId, cells: u32) -> bool {
        let group = &mut self.groups[pg.index()];
        let queue = &mut self.queues[queue.index()];
        let is_idle = group.waiter_index == NOT_WAITING && group.headroom == 0;
        if !group.limits.uses_common_rules || !queue.limits.uses_common_rules || !is_idle {
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
        // Use rises and the limit falls with each cell. If the use is below the limit after all cells, it was
        // also below the limit after each cell. The queue may use the same pool, so its cells are subtracted
        // as well.
        let free = pool.free - i64::from(shared) - i64::from(cells);
        if free < 0 || u64::from(used) >= group.limits.rule.limit(free) {
            return false;
        }
        group.reserved += reserved;
        group.shared = used;
        group.record_use_watermarks();
        pool.charge_shared(shared);
        let shared = queue.charge(cells);
        if let Some(pool) = self.pools.get_mut(usize::from(queue.limits.pool)) {
            pool.charge_shared(shared);
        }
        true
    }

    /// Computes how many cells of an arriving frame use reserved space, shared space and headroom of its
    /// priority group. The use of the buffer does not change yet.
    ///
    /// # Errors
    /// Returns the limit that refuses the frame. The caller must then drop the frame.
    #[inline]
    pub fn plan_ingress(&self, pg: PgId, cells: u32) -> Result<IngressPlan, BufferRefusal> {
        let group = &self.groups[pg.index()];
        let pool = &self.pools[usize::from(group.limits.pool)];
        if let LimitRule::Hpcc { shift } = group.limits.rule {
            return hpcc::plan_charge(group, pool.free, shift, cells);
        }
        let reserved = cells.min(group.limits.reserved.saturating_sub(group.reserved));
        let mut shared = self.available_cells(&group.limits, group.shared, pool, cells - reserved);
        if shared == 0 && reserved == 0 && group.next_cell_enters_xoff(pool) {
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

    /// Returns how many of `wanted` cells a group or queue may store in shared space. The group or queue
    /// already has `used` shared cells.
    #[inline]
    fn available_cells(&self, limits: &ProfileLimits, used: u32, pool: &BufferPool, wanted: u32) -> u32 {
        match find_port_limit(&self.port_limits, limits) {
            None => limits.rule.available_cells(used, pool.free, wanted),
            Some(port_limit) => port_limit.available_cells(limits.rule, used, pool.free, wanted),
        }
    }

    /// Checks that `headroom` cells of a frame fit into the headroom. `shared` is the number of cells of the
    /// same frame that use shared space.
    #[inline(never)]
    fn check_headroom(
        &self,
        group: &PriorityGroup,
        pool: &BufferPool,
        shared: u32,
        headroom: u32,
    ) -> Result<(), BufferRefusal> {
        if group.limits.headroom == 0 {
            return Err(describe_refusal(
                &group.limits,
                group.shared,
                pool,
                find_port_limit(&self.port_limits, &group.limits),
                shared + headroom,
            ));
        }
        let refusal = |limit, size: i64, used: i64| BufferRefusal {
            limit,
            limit_cells: size as u32,
            used_cells: used as u32,
            wanted_cells: headroom,
        };
        let (size, used) = (i64::from(group.limits.headroom), i64::from(group.headroom));
        if used + i64::from(headroom) > size {
            return Err(refusal(BufferLimit::Headroom, size, used));
        }
        if pool.headroom + i64::from(headroom) > pool.limits.headroom {
            return Err(refusal(
                BufferLimit::HeadroomPool,
                pool.limits.headroom,
                pool.headroom,
            ));
        }
        Ok(())
    }

    /// Adds the cells of a frame, as computed by [`Mmu::plan_ingress`], to the use of its priority group.
    /// Returns true if the group entered the XOFF state, in which it pauses its peer.
    ///
    /// Between [`Mmu::plan_ingress`] and this call, the caller must not add or release cells of the
    /// group's pool.
    #[inline]
    pub fn commit_ingress(&mut self, pg: PgId, plan: IngressPlan) -> bool {
        let group = &mut self.groups[pg.index()];
        let pool = &mut self.pools[usize::from(group.limits.pool)];
        group.reserved += plan.reserved;
        group.shared += plan.shared;
        pool.charge_shared(plan.shared);
        charge_port_limit(&mut self.port_limits, &group.limits, plan.shared);
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
        group.record_watermarks();
        if !group.limits.tracks_xoff {
            return false;
        }
        if group.waiter_index != NOT_WAITING {
            if group.waits_in_pool() {
                pool.update_waiter(group.waiter_index, group.needed_free_cells());
            }
            return false;
        }
        if !group.meets_xoff_condition(pool.free, find_port_limit(&self.port_limits, &group.limits)) {
            return false;
        }
        register_waiter(group, pool, pg);
        true
    }

    /// Computes how many cells of a frame use the reserved space of its egress queue, and how many use
    /// shared space. The use of the buffer does not change yet. A lossless frame is never refused and may
    /// exceed the limit.
    ///
    /// # Errors
    /// Returns the limit that refuses the frame. The caller must then drop the frame.
    #[inline]
    pub fn plan_egress(
        &self,
        queue: QueueId,
        cells: u32,
        lossless: bool,
    ) -> Result<EgressPlan, BufferRefusal> {
        let queue = &self.queues[queue.index()];
        let reserved = cells.min(queue.limits.reserved.saturating_sub(queue.reserved));
        let shared = cells - reserved;
        if !lossless && shared > 0 {
            let pool = &self.pools[usize::from(queue.limits.pool)];
            if self.available_cells(&queue.limits, queue.shared, pool, shared) < shared {
                let port_limit = find_port_limit(&self.port_limits, &queue.limits);
                return Err(describe_refusal(
                    &queue.limits,
                    queue.shared,
                    pool,
                    port_limit,
                    shared,
                ));
            }
        }
        Ok(EgressPlan { reserved, shared })
    }

    /// Adds the cells of a frame, as computed by [`Mmu::plan_egress`], to the use of its queue. If a frame is
    /// flooded, the caller must plan and commit one copy before the next copy is planned.
    #[inline]
    pub fn commit_egress(&mut self, queue: QueueId, plan: EgressPlan) {
        let queue = &mut self.queues[queue.index()];
        let shared = queue.charge(plan.reserved + plan.shared);
        debug_assert_eq!(shared, plan.shared, "a plan was committed that no longer holds");
        self.pools[usize::from(queue.limits.pool)].charge_shared(plan.shared);
        charge_port_limit(&mut self.port_limits, &queue.limits, plan.shared);
    }

    /// Releases `cells` cells of a group: headroom first, then shared, then reserved. Groups that let their
    /// peer resume (XON) are appended to `resumed` in ascending order.
    ///
    /// The caller must not release more cells than the group uses. Debug builds panic in this case. Release
    /// builds free the cells that exist.
    #[inline(always)]
    pub fn release_ingress(&mut self, pg: PgId, cells: u32, resumed: &mut Vec<PgId>) {
        let group = &mut self.groups[pg.index()];
        let is_idle = group.waiter_index == NOT_WAITING && group.headroom == 0;
        if !group.limits.uses_common_rules || !is_idle || cells > group.shared {
            return self.release_ingress_in_full(pg, cells, resumed);
        }
        group.shared -= cells;
        let index = usize::from(group.limits.pool);
        let pool = &mut self.pools[index];
        pool.free += i64::from(cells);
        if pool.can_resume_any() {
            self.resume_waiting_groups(index, resumed.len(), resumed);
        }
    }

    /// The general form of [`Mmu::release_ingress`]. This method also handles groups that pause their peer
    /// (XOFF), groups with a port limit, and releases of headroom or reserved cells.
    #[inline(never)]
    fn release_ingress_in_full(&mut self, pg: PgId, cells: u32, resumed: &mut Vec<PgId>) {
        let first = resumed.len();
        let group = &mut self.groups[pg.index()];
        let index = usize::from(group.limits.pool);
        let pool = &mut self.pools[index];
        let (headroom, shared) = group.release(cells);
        pool.headroom -= i64::from(headroom);
        pool.free += i64::from(shared);
        release_port_limit(&mut self.port_limits, &group.limits, shared);
        if group.waiter_index != NOT_WAITING {
            match group.limits.rule {
                LimitRule::Hpcc { shift } if hpcc::can_resume(group, pool.free, shift) => {
                    group.waiter_index = NOT_WAITING;
                    resumed.push(pg);
                }
                LimitRule::Hpcc { .. } => {}
                _ if group.waiter_index == WAITS_AT_PORT_LIMIT => {}
                _ => pool.update_waiter(group.waiter_index, group.needed_free_cells()),
            }
        }
        if pool.can_resume_any() {
            self.resume_waiting_groups(index, first, resumed);
        }
    }

    /// Ends the pause (XOFF) of all groups of a pool that meet the XON condition after a release. `first` is
    /// the length of `resumed` before the release.
    #[cold]
    fn resume_waiting_groups(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        if self.pools[pool].is_resume_bound_reached() {
            self.resume_waiters(pool, first, resumed);
        }
        if !self.pools[pool].waiting_at_port_limit.is_empty() {
            self.resume_at_port_limits(pool, first, resumed);
        }
    }

    /// Like [`resume_waiters`](Self::resume_waiters), but for groups with a port limit. The use of the port
    /// also decides whether such a group may resume, so each group is checked.
    fn resume_at_port_limits(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        let (groups, port_limits, pool) = (&mut self.groups, &self.port_limits, &mut self.pools[pool]);
        let free = pool.free;
        pool.waiting_at_port_limit.retain(|&index| {
            let group = &mut groups[usize::from(index)];
            let waits = find_port_limit(port_limits, &group.limits)
                .is_some_and(|port_limit| !group.can_resume(free, port_limit));
            if !waits {
                group.waiter_index = NOT_WAITING;
                resumed.push(PgId(index));
            }
            waits
        });
        resumed[first..].sort_unstable();
    }

    /// Ends the pause (XOFF) of all waiting groups of a pool that meet the XON condition. Sorts the entries
    /// of `resumed` from index `first` on.
    fn resume_waiters(&mut self, pool: usize, first: usize, resumed: &mut Vec<PgId>) {
        let pool = &mut self.pools[pool];
        let mut from = 0;
        while let Some(waiter_index) = pool.next_resumable(from) {
            let group = pool.waiters()[waiter_index as usize].group;
            self.groups[usize::from(group)].waiter_index = NOT_WAITING;
            resumed.push(PgId(group));
            if let Some(moved) = pool.remove_waiter(waiter_index) {
                self.groups[usize::from(moved.group)].waiter_index = waiter_index;
            }
            from = waiter_index;
        }
        pool.recompute_lower_bound();
        resumed[first..].sort_unstable();
    }

    /// Releases `cells` cells of a queue: shared cells first, then reserved cells. As with
    /// [`release_ingress`](Self::release_ingress), the caller must not release more cells than the
    /// queue uses.
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
        release_port_limit(&mut self.port_limits, &queue.limits, shared);
    }

    /// Returns true if the group has headroom or follows the buffer rules of the HPCC simulator
    /// ([`BufferThreshold::Hpcc`](crate::config::BufferThreshold::Hpcc)). Frames of such a group are never
    /// dropped at egress.
    #[inline(always)]
    pub fn is_lossless(&self, pg: PgId) -> bool {
        self.groups[pg.index()].limits.lossless
    }

    /// Returns true if the group is in XOFF.
    #[inline]
    pub fn is_in_xoff(&self, pg: PgId) -> bool {
        self.groups[pg.index()].waiter_index != NOT_WAITING
    }
}

/// Returns the port limit of a group or queue. Returns `None` if its port has no limit in this pool.
#[inline]
fn find_port_limit(port_limits: &[PortLimit], limits: &ProfileLimits) -> Option<PortLimit> {
    if limits.port_limit == NO_PORT_LIMIT {
        return None;
    }
    port_limits.get(usize::from(limits.port_limit)).copied()
}

#[inline]
fn charge_port_limit(port_limits: &mut [PortLimit], limits: &ProfileLimits, cells: u32) {
    if limits.port_limit != NO_PORT_LIMIT {
        port_limits[usize::from(limits.port_limit)].used += i64::from(cells);
    }
}

#[inline]
fn release_port_limit(port_limits: &mut [PortLimit], limits: &ProfileLimits, cells: u32) {
    if limits.port_limit != NO_PORT_LIMIT {
        port_limits[usize::from(limits.port_limit)].used -= i64::from(cells);
    }
}

/// Adds a group that has just paused its peer (XOFF) to a list of waiting groups. Later releases check this
/// list for the XON condition.
#[cold]
fn register_waiter(group: &mut PriorityGroup, pool: &mut BufferPool, pg: PgId) {
    group.waiter_index = match group.limits.rule {
        LimitRule::Hpcc { .. } => WAITS_FOR_OWN_RELEASE,
        _ if group.limits.port_limit != NO_PORT_LIMIT => {
            pool.waiting_at_port_limit.push(pg.0);
            WAITS_AT_PORT_LIMIT
        }
        _ => pool.add_waiter(XonWaiter {
            needed: group.needed_free_cells(),
            group: pg.0,
        }),
    };
}
