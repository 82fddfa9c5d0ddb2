//! A simple, slow model of the MMU. It charges cell by cell, computes every sum when it is needed, and finds
//! the XOFF point by trial. It shares only the configuration types with the implementation.

use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, SwitchConfig};
use xoff_dataplane::counters::{BufferOccupancy, PgBuffers, PoolBuffers, QueueBuffers};

/// The use of one group or queue, and its watermarks.
#[derive(Clone, Copy, Default)]
pub(crate) struct BufferUse {
    pub(crate) reserved: i64,
    pub(crate) shared: i64,
    pub(crate) headroom: i64,
    pub(crate) xoff: bool,
    total_peak: i64,
    shared_peak: i64,
    headroom_peak: i64,
}

impl BufferUse {
    fn total(&self) -> i64 {
        self.reserved + self.shared + self.headroom
    }

    fn update_peaks(&mut self) {
        self.total_peak = self.total_peak.max(self.total());
        self.shared_peak = self.shared_peak.max(self.shared);
        self.headroom_peak = self.headroom_peak.max(self.headroom);
    }
}

pub(crate) struct ReferenceMmu {
    config: SwitchConfig,
    pub(crate) groups: Vec<BufferUse>,
    pub(crate) queues: Vec<BufferUse>,
    /// Watermarks of shared and headroom, for each configured pool.
    pool_peaks: Vec<(i64, i64)>,
}

fn occupancy(current: i64, peak: i64) -> BufferOccupancy {
    BufferOccupancy {
        current_cells: current as u32,
        peak_cells: peak as u32,
    }
}

impl ReferenceMmu {
    pub(crate) fn new(config: &SwitchConfig) -> ReferenceMmu {
        let users = config.ports.len() * 8;
        ReferenceMmu {
            config: config.clone(),
            groups: vec![BufferUse::default(); users],
            queues: vec![BufferUse::default(); users],
            pool_peaks: vec![(0, 0); config.pools.len()],
        }
    }

    pub(crate) fn reconfigure(&mut self, config: &SwitchConfig) -> Vec<usize> {
        let before = std::mem::replace(&mut self.config, config.clone());
        let users = self.groups.len().max(config.ports.len() * 8);
        self.groups.resize(users, BufferUse::default());
        self.queues.resize(users, BufferUse::default());
        let peaks_before = std::mem::take(&mut self.pool_peaks);
        for (index, pool) in config.pools.iter().enumerate() {
            let old = before.pools.iter().position(|old| old.name == pool.name);
            let old = old.map_or((0, 0), |old| peaks_before[old]);
            self.pool_peaks.push((
                old.0.max(self.shared_in_use(index)),
                old.1.max(self.headroom_in_use(index)),
            ));
        }
        self.resume_groups(|_| true)
    }

    fn bytes_to_cells(&self, bytes: u64) -> i64 {
        (bytes / u64::from(self.config.cell_bytes)) as i64
    }

    fn group_profile(&self, group: usize) -> Option<&BufferProfile> {
        let port = self.config.ports.get(group / 8)?;
        self.config.profiles.get(usize::from(port.pgs[group % 8]))
    }

    fn queue_profile(&self, queue: usize) -> Option<&BufferProfile> {
        let port = self.config.ports.get(queue / 8)?;
        self.config
            .profiles
            .get(usize::from(port.queues[queue % 8].profile))
    }

    fn pool_of(&self, profile: &BufferProfile) -> &PoolConfig {
        &self.config.pools[usize::from(profile.pool)]
    }

    /// Returns the shared cells of a pool that are in use.
    fn shared_in_use(&self, pool: usize) -> i64 {
        let of_pool = |profile: Option<&BufferProfile>| profile.is_some_and(|p| usize::from(p.pool) == pool);
        let groups = (0..self.groups.len()).filter(|&g| of_pool(self.group_profile(g)));
        let queues = (0..self.queues.len()).filter(|&q| of_pool(self.queue_profile(q)));
        groups.map(|g| self.groups[g].shared).sum::<i64>()
            + queues.map(|q| self.queues[q].shared).sum::<i64>()
    }

    /// Returns the headroom cells of a pool that are in use.
    fn headroom_in_use(&self, pool: usize) -> i64 {
        let of_pool = |g: &usize| {
            self.group_profile(*g)
                .is_some_and(|profile| usize::from(profile.pool) == pool)
        };
        (0..self.groups.len())
            .filter(of_pool)
            .map(|g| self.groups[g].headroom)
            .sum()
    }

    fn free_shared_cells(&self, profile: &BufferProfile) -> i64 {
        self.bytes_to_cells(self.pool_of(profile).size_bytes) - self.shared_in_use(usize::from(profile.pool))
    }

    /// Returns the shared limit when `free` cells of the pool are free.
    fn shared_limit(&self, profile: &BufferProfile, free: i64) -> i64 {
        let free = free.max(0);
        match profile.threshold {
            BufferThreshold::Dynamic(n) if n >= 0 => free * 2_i64.pow(n as u32),
            BufferThreshold::Dynamic(n) => free / 2_i64.pow(-n as u32),
            BufferThreshold::Static(0) => i64::MAX,
            BufferThreshold::Static(bytes) => self.bytes_to_cells(bytes),
            BufferThreshold::Hpcc { .. } => unreachable!("that rule has a reference of its own"),
        }
    }

    /// Returns the profile for a pool from the port's profile list. `None`: the list sets no limit.
    fn port_profile(&self, port: usize, pool: u16) -> Option<&BufferProfile> {
        let mut listed = self.config.port_profiles.iter();
        let entry = listed.find(|entry| {
            usize::from(entry.port) == port && self.config.profiles[usize::from(entry.profile)].pool == pool
        })?;
        let profile = &self.config.profiles[usize::from(entry.profile)];
        let unlimited = match profile.threshold {
            BufferThreshold::Dynamic(n) => n >= 6,
            fixed => fixed == BufferThreshold::Static(0),
        };
        (!unlimited).then_some(profile)
    }

    /// Returns the shared cells of a pool that the groups and queues of a port use.
    fn port_shared(&self, port: usize, pool: u16) -> i64 {
        let of_pool = |profile: Option<&BufferProfile>| profile.is_some_and(|p| p.pool == pool);
        let groups = (port * 8..port * 8 + 8).filter(|&g| of_pool(self.group_profile(g)));
        let queues = (port * 8..port * 8 + 8).filter(|&q| of_pool(self.queue_profile(q)));
        groups.map(|g| self.groups[g].shared).sum::<i64>()
            + queues.map(|q| self.queues[q].shared).sum::<i64>()
    }

    /// Returns true if a user of `profile` at `port` is at its limit or the port limit, with `shared` cells
    /// of its own, `free` free cells and `port_shared` cells of the port.
    fn is_at_limit(
        &self,
        port: usize,
        profile: &BufferProfile,
        shared: i64,
        free: i64,
        port_shared: i64,
    ) -> bool {
        let Some(of_port) = self.port_profile(port, profile.pool) else {
            return shared >= self.shared_limit(profile, free);
        };
        let port_limit = self.shared_limit(of_port, free);
        let dynamic = |profile: &BufferProfile| matches!(profile.threshold, BufferThreshold::Dynamic(_));
        let mine = if dynamic(profile) && dynamic(of_port) {
            self.shared_limit(profile, port_limit - port_shared)
        } else {
            self.shared_limit(profile, free)
        };
        port_shared >= port_limit || shared >= mine
    }

    fn reserved_limit(&self, profile: &BufferProfile) -> i64 {
        let private_form = self.pool_of(profile).xoff_bytes == 0
            && profile.xoff_bytes > 0
            && profile.size_bytes >= profile.xoff_bytes;
        self.bytes_to_cells(if private_form {
            profile.size_bytes - profile.xoff_bytes
        } else {
            profile.size_bytes
        })
    }

    pub(crate) fn is_lossless(&self, group: usize) -> bool {
        self.group_profile(group)
            .is_some_and(|profile| profile.xoff_bytes > 0)
    }

    fn tracks_xoff(&self, group: usize) -> bool {
        let Some(port) = self.config.ports.get(group / 8) else {
            return false;
        };
        self.is_lossless(group) || port.pfc.signals_priority_group((group % 8) as u8)
    }

    /// Charges one cell to a group. Returns false if no cell is available.
    fn charge_cell(&mut self, group: usize, declared: bool) -> bool {
        let Some(profile) = self.group_profile(group).cloned() else {
            return false;
        };
        let held = self.groups[group];
        let free = self.free_shared_cells(&profile);
        if held.reserved < self.reserved_limit(&profile) {
            self.groups[group].reserved += 1;
        } else if free > 0
            && (!self.is_group_at_limit(group, &profile, free)
                || (!declared && self.bytes_to_cells(profile.xoff_bytes) > 0))
        {
            self.groups[group].shared += 1;
        } else {
            let pool_room = match self.pool_of(&profile).xoff_bytes {
                0 => true,
                bytes => self.headroom_in_use(usize::from(profile.pool)) < self.bytes_to_cells(bytes),
            };
            if held.headroom >= self.bytes_to_cells(profile.xoff_bytes) || !pool_room {
                return false;
            }
            self.groups[group].headroom += 1;
        }
        true
    }

    fn is_group_at_limit(&self, group: usize, profile: &BufferProfile, free: i64) -> bool {
        let port_shared = self.port_shared(group / 8, profile.pool);
        self.is_at_limit(group / 8, profile, self.groups[group].shared, free, port_shared)
    }

    /// Returns true if the use of the group meets the XOFF condition.
    fn is_congested(&self, group: usize) -> bool {
        let held = &self.groups[group];
        self.group_profile(group).is_some_and(|profile| {
            let is_at_limit = held.reserved >= self.reserved_limit(profile)
                && self.is_group_at_limit(group, profile, self.free_shared_cells(profile));
            is_at_limit || held.headroom > 0
        })
    }

    /// Charges a frame. `None`: dropped. `Some(true)`: the group entered XOFF.
    pub(crate) fn charge_ingress(&mut self, group: usize, cells: u32) -> Option<bool> {
        let before = self.groups[group];
        let mut declared = before.xoff;
        for _ in 0..cells {
            if !self.charge_cell(group, declared) {
                self.groups[group] = before;
                return None;
            }
            declared |= self.is_congested(group);
        }
        let profile = self.group_profile(group).cloned();
        let held = &mut self.groups[group];
        held.update_peaks();
        let held = *held;
        let Some(profile) = profile else {
            return Some(false);
        };
        self.update_pool_peaks(usize::from(profile.pool));
        let enters = self.tracks_xoff(group) && !held.xoff && self.is_congested(group);
        self.groups[group].xoff |= enters;
        Some(enters)
    }

    /// Reverts the ingress charge of a frame that its egress queue refused.
    pub(crate) fn undo_ingress(&mut self, group: usize, before: BufferUse, peaks: &[(i64, i64)]) {
        self.groups[group] = before;
        self.pool_peaks.copy_from_slice(peaks);
    }

    pub(crate) fn pool_peaks(&self) -> Vec<(i64, i64)> {
        self.pool_peaks.clone()
    }

    /// Charges a frame to a queue. Returns false if the queue refuses.
    pub(crate) fn charge_egress(&mut self, queue: usize, cells: u32, lossless: bool) -> bool {
        let before = self.queues[queue];
        let profile = self.queue_profile(queue).cloned();
        for _ in 0..cells {
            let held = self.queues[queue];
            let reserve = profile
                .as_ref()
                .map_or(0, |profile| self.bytes_to_cells(profile.size_bytes));
            let room = profile.as_ref().is_some_and(|profile| {
                let free = self.free_shared_cells(profile);
                let port_shared = self.port_shared(queue / 8, profile.pool);
                free > 0 && !self.is_at_limit(queue / 8, profile, held.shared, free, port_shared)
            });
            if held.reserved < reserve {
                self.queues[queue].reserved += 1;
            } else if room || lossless {
                self.queues[queue].shared += 1;
            } else {
                self.queues[queue] = before;
                return false;
            }
        }
        self.queues[queue].update_peaks();
        if let Some(profile) = profile {
            self.update_pool_peaks(usize::from(profile.pool));
        }
        true
    }

    fn update_pool_peaks(&mut self, pool: usize) {
        let (shared, headroom) = (self.shared_in_use(pool), self.headroom_in_use(pool));
        let peaks = &mut self.pool_peaks[pool];
        *peaks = (peaks.0.max(shared), peaks.1.max(headroom));
    }

    /// Releases a frame. Returns the groups that resume.
    pub(crate) fn release_ingress(&mut self, group: usize, cells: u32) -> Vec<usize> {
        let held = &mut self.groups[group];
        for _ in 0..cells {
            let region = if held.headroom > 0 {
                &mut held.headroom
            } else if held.shared > 0 {
                &mut held.shared
            } else {
                &mut held.reserved
            };
            *region -= 1;
        }
        let pool_of = |profile: Option<&BufferProfile>| profile.map(|profile| profile.pool);
        let pools: Vec<_> = (0..self.groups.len())
            .map(|g| pool_of(self.group_profile(g)))
            .collect();
        self.resume_groups(|other| pools[other] == pools[group])
    }

    /// Checks the `concerned` groups in XOFF. Returns the groups that resume.
    fn resume_groups(&mut self, concerned: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut resumed = Vec::new();
        for group in 0..self.groups.len() {
            if self.groups[group].xoff && concerned(group) && self.meets_xon_condition(group) {
                resumed.push(group);
            }
        }
        for &group in &resumed {
            self.groups[group].xoff = false;
        }
        resumed
    }

    fn meets_xon_condition(&self, group: usize) -> bool {
        if !self.tracks_xoff(group) {
            return true;
        }
        let held = self.groups[group];
        let Some(profile) = self.group_profile(group) else {
            return held.total() == 0;
        };
        if held.headroom > 0 {
            return false;
        }
        if held.total() <= self.bytes_to_cells(profile.xon_bytes) {
            return true;
        }
        let offset = self.bytes_to_cells(profile.xon_offset_bytes);
        let point = self.xoff_point(group / 8, profile, held);
        offset > 0 && point.is_none_or(|point| held.total() <= self.reserved_limit(profile) + point - offset)
    }

    /// Returns the smallest shared use that meets the XOFF condition. `None` if no use does.
    fn xoff_point(&self, port: usize, profile: &BufferProfile, held: BufferUse) -> Option<i64> {
        if profile.threshold == BufferThreshold::Static(0) && self.port_profile(port, profile.pool).is_none()
        {
            return None;
        }
        let free_without = self.free_shared_cells(profile) + held.shared;
        let others = self.port_shared(port, profile.pool) - held.shared;
        (0..).find(|&shared| self.is_at_limit(port, profile, shared, free_without - shared, others + shared))
    }

    pub(crate) fn release_egress(&mut self, queue: usize, cells: u32) {
        let held = &mut self.queues[queue];
        for _ in 0..cells {
            let region = if held.shared > 0 {
                &mut held.shared
            } else {
                &mut held.reserved
            };
            *region -= 1;
        }
    }

    pub(crate) fn clear_watermarks(&mut self) {
        for held in self.groups.iter_mut().chain(&mut self.queues) {
            (held.total_peak, held.shared_peak, held.headroom_peak) = (0, 0, 0);
            held.update_peaks();
        }
        for pool in 0..self.pool_peaks.len() {
            self.pool_peaks[pool] = (self.shared_in_use(pool), self.headroom_in_use(pool));
        }
    }

    pub(crate) fn pg_buffers(&self, group: usize) -> PgBuffers {
        let held = self.groups[group];
        PgBuffers {
            total: occupancy(held.total(), held.total_peak),
            shared: occupancy(held.shared, held.shared_peak),
            headroom: occupancy(held.headroom, held.headroom_peak),
            xoff: held.xoff,
        }
    }

    pub(crate) fn queue_buffers(&self, queue: usize) -> QueueBuffers {
        let held = self.queues[queue];
        QueueBuffers {
            total: occupancy(held.total(), held.total_peak),
            shared: occupancy(held.shared, held.shared_peak),
        }
    }

    pub(crate) fn pool_buffers(&self, pool: usize) -> PoolBuffers {
        let (shared_peak, headroom_peak) = self.pool_peaks[pool];
        PoolBuffers {
            shared: occupancy(self.shared_in_use(pool), shared_peak),
            headroom: occupancy(self.headroom_in_use(pool), headroom_peak),
        }
    }
}
