//! A simple, slow model of the MMU. It charges cell by cell, computes every sum when it is needed, and finds
//! the XOFF point by trial. It shares only the configuration types with the implementation.

use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, SwitchConfig};
use xoff_dataplane::counters::{Occupancy, PgBuffers, PoolBuffers, QueueBuffers};

/// The use of one group or queue, and its watermarks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) reserved: i64,
    pub(crate) shared: i64,
    pub(crate) headroom: i64,
    pub(crate) xoff: bool,
    total_peak: i64,
    shared_peak: i64,
    headroom_peak: i64,
}

impl Held {
    fn total(&self) -> i64 {
        self.reserved + self.shared + self.headroom
    }

    fn peak(&mut self) {
        self.total_peak = self.total_peak.max(self.total());
        self.shared_peak = self.shared_peak.max(self.shared);
        self.headroom_peak = self.headroom_peak.max(self.headroom);
    }
}

pub(crate) struct Reference {
    config: SwitchConfig,
    pub(crate) groups: Vec<Held>,
    pub(crate) queues: Vec<Held>,
    /// Watermarks of shared and headroom, for each configured pool.
    pool_peaks: Vec<(i64, i64)>,
}

fn gauge(current: i64, peak: i64) -> Occupancy {
    Occupancy {
        current_cells: current as u32,
        peak_cells: peak as u32,
    }
}

impl Reference {
    pub(crate) fn new(config: &SwitchConfig) -> Reference {
        let users = config.ports.len() * 8;
        Reference {
            config: config.clone(),
            groups: vec![Held::default(); users],
            queues: vec![Held::default(); users],
            pool_peaks: vec![(0, 0); config.pools.len()],
        }
    }

    pub(crate) fn reconfigure(&mut self, config: &SwitchConfig) -> Vec<usize> {
        let before = std::mem::replace(&mut self.config, config.clone());
        let users = self.groups.len().max(config.ports.len() * 8);
        self.groups.resize(users, Held::default());
        self.queues.resize(users, Held::default());
        let peaks_before = std::mem::take(&mut self.pool_peaks);
        for (index, pool) in config.pools.iter().enumerate() {
            let old = before.pools.iter().position(|old| old.name == pool.name);
            let old = old.map_or((0, 0), |old| peaks_before[old]);
            self.pool_peaks
                .push((old.0.max(self.shared(index)), old.1.max(self.headroom(index))));
        }
        self.resume(|_| true)
    }

    fn whole(&self, bytes: u64) -> i64 {
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

    fn pool(&self, profile: &BufferProfile) -> &PoolConfig {
        &self.config.pools[usize::from(profile.pool)]
    }

    /// Shared cells of a pool in use.
    fn shared(&self, pool: usize) -> i64 {
        let of_pool = |profile: Option<&BufferProfile>| profile.is_some_and(|p| usize::from(p.pool) == pool);
        let groups = (0..self.groups.len()).filter(|&g| of_pool(self.group_profile(g)));
        let queues = (0..self.queues.len()).filter(|&q| of_pool(self.queue_profile(q)));
        groups.map(|g| self.groups[g].shared).sum::<i64>()
            + queues.map(|q| self.queues[q].shared).sum::<i64>()
    }

    /// Headroom cells of a pool in use.
    fn headroom(&self, pool: usize) -> i64 {
        let of_pool = |g: &usize| {
            self.group_profile(*g)
                .is_some_and(|profile| usize::from(profile.pool) == pool)
        };
        (0..self.groups.len())
            .filter(of_pool)
            .map(|g| self.groups[g].headroom)
            .sum()
    }

    fn free(&self, profile: &BufferProfile) -> i64 {
        self.whole(self.pool(profile).size_bytes) - self.shared(usize::from(profile.pool))
    }

    /// The shared limit while `free` cells are free.
    fn limit(&self, profile: &BufferProfile, free: i64) -> i64 {
        let free = free.max(0);
        match profile.threshold {
            BufferThreshold::Dynamic(n) if n >= 0 => free * 2_i64.pow(n as u32),
            BufferThreshold::Dynamic(n) => free / 2_i64.pow(-n as u32),
            BufferThreshold::Static(0) => i64::MAX,
            BufferThreshold::Static(bytes) => self.whole(bytes),
            BufferThreshold::Hpcc { .. } => unreachable!("that rule has a reference of its own"),
        }
    }

    /// The profile of the port's profile list for a pool. `None` if it does not limit.
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

    /// Shared cells of a pool that the groups and queues of a port use.
    fn port_shared(&self, port: usize, pool: u16) -> i64 {
        let of_pool = |profile: Option<&BufferProfile>| profile.is_some_and(|p| p.pool == pool);
        let groups = (port * 8..port * 8 + 8).filter(|&g| of_pool(self.group_profile(g)));
        let queues = (port * 8..port * 8 + 8).filter(|&q| of_pool(self.queue_profile(q)));
        groups.map(|g| self.groups[g].shared).sum::<i64>()
            + queues.map(|q| self.queues[q].shared).sum::<i64>()
    }

    /// True if a user of `profile` at `port` is at its limit or the port limit, with `shared` cells of its
    /// own, `free` free cells and `port_shared` cells of the port.
    fn at_limit(
        &self,
        port: usize,
        profile: &BufferProfile,
        shared: i64,
        free: i64,
        port_shared: i64,
    ) -> bool {
        let Some(of_port) = self.port_profile(port, profile.pool) else {
            return shared >= self.limit(profile, free);
        };
        let port_limit = self.limit(of_port, free);
        let dynamic = |profile: &BufferProfile| matches!(profile.threshold, BufferThreshold::Dynamic(_));
        let mine = if dynamic(profile) && dynamic(of_port) {
            self.limit(profile, port_limit - port_shared)
        } else {
            self.limit(profile, free)
        };
        port_shared >= port_limit || shared >= mine
    }

    fn reserve(&self, profile: &BufferProfile) -> i64 {
        let private_form = self.pool(profile).xoff_bytes == 0
            && profile.xoff_bytes > 0
            && profile.size_bytes >= profile.xoff_bytes;
        self.whole(if private_form {
            profile.size_bytes - profile.xoff_bytes
        } else {
            profile.size_bytes
        })
    }

    pub(crate) fn lossless(&self, group: usize) -> bool {
        self.group_profile(group)
            .is_some_and(|profile| profile.xoff_bytes > 0)
    }

    fn tracks_xoff(&self, group: usize) -> bool {
        let Some(port) = self.config.ports.get(group / 8) else {
            return false;
        };
        self.lossless(group) || port.pfc.signals_priority_group((group % 8) as u8)
    }

    /// Charges one cell to a group. Returns false if no cell is available.
    fn charge_cell(&mut self, group: usize, declared: bool) -> bool {
        let Some(profile) = self.group_profile(group).cloned() else {
            return false;
        };
        let held = self.groups[group];
        let free = self.free(&profile);
        if held.reserved < self.reserve(&profile) {
            self.groups[group].reserved += 1;
        } else if free > 0
            && (!self.is_full(group, &profile, free) || (!declared && self.whole(profile.xoff_bytes) > 0))
        {
            self.groups[group].shared += 1;
        } else {
            let pool_room = match self.pool(&profile).xoff_bytes {
                0 => true,
                bytes => self.headroom(usize::from(profile.pool)) < self.whole(bytes),
            };
            if held.headroom >= self.whole(profile.xoff_bytes) || !pool_room {
                return false;
            }
            self.groups[group].headroom += 1;
        }
        true
    }

    fn is_full(&self, group: usize, profile: &BufferProfile, free: i64) -> bool {
        let port_shared = self.port_shared(group / 8, profile.pool);
        self.at_limit(group / 8, profile, self.groups[group].shared, free, port_shared)
    }

    /// True if the use of the group meets the XOFF condition.
    fn congested(&self, group: usize) -> bool {
        let held = &self.groups[group];
        self.group_profile(group).is_some_and(|profile| {
            let at_limit =
                held.reserved >= self.reserve(profile) && self.is_full(group, profile, self.free(profile));
            at_limit || held.headroom > 0
        })
    }

    /// Charges a frame. `None`: dropped. `Some(true)`: the group entered XOFF.
    pub(crate) fn arrive(&mut self, group: usize, cells: u32) -> Option<bool> {
        let before = self.groups[group];
        let mut declared = before.xoff;
        for _ in 0..cells {
            if !self.charge_cell(group, declared) {
                self.groups[group] = before;
                return None;
            }
            declared |= self.congested(group);
        }
        let profile = self.group_profile(group).cloned();
        let held = &mut self.groups[group];
        held.peak();
        let held = *held;
        let Some(profile) = profile else {
            return Some(false);
        };
        self.peak_pool(usize::from(profile.pool));
        let enters = self.tracks_xoff(group) && !held.xoff && self.congested(group);
        self.groups[group].xoff |= enters;
        Some(enters)
    }

    /// Undoes the charge of a frame that the other side refused.
    pub(crate) fn undo(&mut self, group: usize, before: Held, peaks: &[(i64, i64)]) {
        self.groups[group] = before;
        self.pool_peaks.copy_from_slice(peaks);
    }

    pub(crate) fn pool_peaks(&self) -> Vec<(i64, i64)> {
        self.pool_peaks.clone()
    }

    /// Charges a frame to a queue. Returns false if the queue refuses.
    pub(crate) fn enqueue(&mut self, queue: usize, cells: u32, lossless: bool) -> bool {
        let before = self.queues[queue];
        let profile = self.queue_profile(queue).cloned();
        for _ in 0..cells {
            let held = self.queues[queue];
            let reserve = profile
                .as_ref()
                .map_or(0, |profile| self.whole(profile.size_bytes));
            let room = profile.as_ref().is_some_and(|profile| {
                let free = self.free(profile);
                let port_shared = self.port_shared(queue / 8, profile.pool);
                free > 0 && !self.at_limit(queue / 8, profile, held.shared, free, port_shared)
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
        self.queues[queue].peak();
        if let Some(profile) = profile {
            self.peak_pool(usize::from(profile.pool));
        }
        true
    }

    fn peak_pool(&mut self, pool: usize) {
        let (shared, headroom) = (self.shared(pool), self.headroom(pool));
        let peaks = &mut self.pool_peaks[pool];
        *peaks = (peaks.0.max(shared), peaks.1.max(headroom));
    }

    /// Releases a frame. Returns the groups that resume.
    pub(crate) fn release(&mut self, group: usize, cells: u32) -> Vec<usize> {
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
        self.resume(|other| pools[other] == pools[group])
    }

    /// Checks the `concerned` groups in XOFF. Returns the groups that resume.
    fn resume(&mut self, concerned: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut resumed = Vec::new();
        for group in 0..self.groups.len() {
            if self.groups[group].xoff && concerned(group) && self.may_resume(group) {
                resumed.push(group);
            }
        }
        for &group in &resumed {
            self.groups[group].xoff = false;
        }
        resumed
    }

    fn may_resume(&self, group: usize) -> bool {
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
        if held.total() <= self.whole(profile.xon_bytes) {
            return true;
        }
        let offset = self.whole(profile.xon_offset_bytes);
        let point = self.xoff_point(group / 8, profile, held);
        offset > 0 && point.is_none_or(|point| held.total() <= self.reserve(profile) + point - offset)
    }

    /// The smallest shared use that meets the XOFF condition. `None` if no use does.
    fn xoff_point(&self, port: usize, profile: &BufferProfile, held: Held) -> Option<i64> {
        if profile.threshold == BufferThreshold::Static(0) && self.port_profile(port, profile.pool).is_none()
        {
            return None;
        }
        let free_without = self.free(profile) + held.shared;
        let others = self.port_shared(port, profile.pool) - held.shared;
        (0..).find(|&shared| self.at_limit(port, profile, shared, free_without - shared, others + shared))
    }

    pub(crate) fn dequeue(&mut self, queue: usize, cells: u32) {
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
            held.peak();
        }
        for pool in 0..self.pool_peaks.len() {
            self.pool_peaks[pool] = (self.shared(pool), self.headroom(pool));
        }
    }

    pub(crate) fn pg_buffers(&self, group: usize) -> PgBuffers {
        let held = self.groups[group];
        PgBuffers {
            total: gauge(held.total(), held.total_peak),
            shared: gauge(held.shared, held.shared_peak),
            headroom: gauge(held.headroom, held.headroom_peak),
            xoff: held.xoff,
        }
    }

    pub(crate) fn queue_buffers(&self, queue: usize) -> QueueBuffers {
        let held = self.queues[queue];
        QueueBuffers {
            total: gauge(held.total(), held.total_peak),
            shared: gauge(held.shared, held.shared_peak),
        }
    }

    pub(crate) fn pool_buffers(&self, pool: usize) -> PoolBuffers {
        let (shared_peak, headroom_peak) = self.pool_peaks[pool];
        PoolBuffers {
            shared: gauge(self.shared(pool), shared_peak),
            headroom: gauge(self.headroom(pool), headroom_peak),
        }
    }
}
