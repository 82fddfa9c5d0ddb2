//! Buffer pools, and the profiles of priority groups and queues.

use std::collections::{BTreeMap, BTreeSet};

use xoff_dataplane::config::{BufferProfile, BufferThreshold, NO_PROFILE, PoolConfig, PoolSide};
use xoff_dataplane::ids::PRIORITIES;

use super::buffer_sides::{BufferSideIndices, SIDES, check_entry_count};
use super::context::ResolveContext;
use super::{FRAMES_RANGE, buffer_profiles, trimming};
use crate::merge::parse_range_key;
use crate::problem::Problem;
use crate::schema::BYTES_MAX;

/// Size in bytes of built-in pools, and of pools without a size.
const POOL_BYTES_DEFAULT: u64 = 16 << 20;

/// The resolved buffer tables.
pub(super) struct ResolvedBuffers {
    pub(super) pools: Vec<PoolConfig>,
    pub(super) profiles: Vec<BufferProfile>,
    cell_bytes: u64,
    groups: Vec<[Option<u16>; PRIORITIES]>,
    queues: Vec<[Option<u16>; PRIORITIES]>,
    /// Index of the built-in lossy profile for ingress and egress. `None`: not in use.
    built_in: [Option<u16>; 2],
    /// Index of the profile without a limit for ingress and egress. `None`: not in use.
    unlimited: [Option<u16>; 2],
}

impl ResolvedBuffers {
    /// Resolves the pools, the profiles, and the profiles of all priority groups and queues.
    pub(super) fn resolve(context: &mut ResolveContext<'_>) -> ResolvedBuffers {
        let (pools, pool_index) = resolve_pools(context);
        let (profiles, profile_index) = buffer_profiles::resolve_profiles(context, &pools, &pool_index);
        let mut buffers = ResolvedBuffers {
            pools,
            profiles,
            cell_bytes: context
                .number(super::SWITCH, super::LOCALHOST, "cell_size")
                .unwrap_or_else(|| super::chip::default_cell_bytes(context)),
            groups: Vec::new(),
            queues: Vec::new(),
            built_in: [None; 2],
            unlimited: [None; 2],
        };
        buffers.groups = buffers.resolve_users(context, "BUFFER_PG", PoolSide::Ingress, &profile_index);
        buffers.queues = buffers.resolve_users(context, "BUFFER_QUEUE", PoolSide::Egress, &profile_index);
        buffers
    }

    /// Returns the profile of each priority group or queue of each port. `table` is `BUFFER_PG` or
    /// `BUFFER_QUEUE`. `None` means that the table has no entry.
    fn resolve_users(
        &mut self,
        context: &mut ResolveContext<'_>,
        table: &str,
        side: PoolSide,
        profile_index: &BTreeMap<&str, BufferSideIndices>,
    ) -> Vec<[Option<u16>; PRIORITIES]> {
        let mut users = vec![[None; PRIORITIES]; context.ports.len()];
        let mut of_other_side = WrongSideProfileBindings::default();
        let mut without_buffer = BTreeSet::new();
        let db = context.db;
        for (key, _) in db.entries(table) {
            let Some((port, first, last)) = parse_range_key(key) else {
                continue;
            };
            let (Some(port), Some(name)) = (context.port_index(port), context.text(table, key, "profile"))
            else {
                continue;
            };
            if name == "NULL" {
                for number in first..=last {
                    users[port][usize::from(number)] = Some(NO_PROFILE);
                }
                continue;
            }
            let Some(profiles) = profile_index.get(name) else {
                continue;
            };
            let profile = profiles.get(side).unwrap_or_else(|| {
                of_other_side.add(key, name);
                self.unlimited_profile(side)
            });
            if self.pools[usize::from(self.profiles[usize::from(profile)].pool)].size_bytes == 0 {
                without_buffer.insert(name);
            }
            if side == PoolSide::Ingress && trimming::selects_trimming(context, name) {
                let why = "its packet_discard_action is trim, which only profiles of egress queues may have";
                let problem = Problem::at_field(table, key, "profile", why).with_value(name);
                context.report_entry_contradiction(problem.with_fix("name a profile that drops"));
            }
            for number in first..=last {
                users[port][usize::from(number)] = Some(profile);
            }
        }
        of_other_side.add_warning(context, table, side);
        for name in without_buffer {
            let text = format!(
                "the size of its pool is 0: entries of {table} with this profile have only reserved space"
            );
            context.warn_entry("BUFFER_PROFILE", name, text);
        }
        users
    }

    /// Returns the index of the profile of each priority group of a port. Groups without an entry get the
    /// built-in lossy profile.
    pub(super) fn group_profiles(&mut self, port: usize) -> [u16; PRIORITIES] {
        self.groups[port].map(|profile| profile.unwrap_or_else(|| self.built_in_profile(PoolSide::Ingress)))
    }

    /// Returns the index of the profile of each queue of a port. Queues without an entry get the built-in
    /// lossy profile.
    pub(super) fn queue_profiles(&mut self, port: usize) -> [u16; PRIORITIES] {
        self.queues[port].map(|profile| profile.unwrap_or_else(|| self.built_in_profile(PoolSide::Egress)))
    }

    /// Returns the index of the built-in lossy profile of a side, and creates the profile if necessary.
    ///
    /// At egress, a queue can use at most half of the pool, and further lossy frames are dropped. At ingress,
    /// no limit is necessary, so a priority group can use the whole pool.
    fn built_in_profile(&mut self, side: PoolSide) -> u16 {
        let (slot, name, threshold) = match side {
            PoolSide::Ingress => (0, "default_ingress", BufferThreshold::Static(POOL_BYTES_DEFAULT)),
            PoolSide::Egress => (1, "default_egress", BufferThreshold::Dynamic(0)),
        };
        if let Some(profile) = self.built_in[slot] {
            return profile;
        }
        self.pools.push(PoolConfig {
            name: format!("{name}_pool"),
            side,
            size_bytes: POOL_BYTES_DEFAULT,
            xoff_bytes: 0,
        });
        self.profiles.push(BufferProfile {
            name: format!("{name}_lossy_profile"),
            pool: (self.pools.len() - 1) as u16,
            size_bytes: 0,
            threshold,
            xoff_bytes: 0,
            xon_bytes: 0,
            xon_offset_bytes: 0,
            trim: false,
        });
        let profile = (self.profiles.len() - 1) as u16;
        self.built_in[slot] = Some(profile);
        profile
    }

    /// Returns the index of a profile without a limit, and creates the profile if necessary. The profile
    /// is for priority groups that are bound to an egress profile, and for queues that are bound to an
    /// ingress profile.
    fn unlimited_profile(&mut self, side: PoolSide) -> u16 {
        let (slot, name) = match side {
            PoolSide::Ingress => (0, "unlimited_ingress"),
            PoolSide::Egress => (1, "unlimited_egress"),
        };
        if let Some(profile) = self.unlimited[slot] {
            return profile;
        }
        self.pools.push(PoolConfig {
            name: format!("{name}_pool"),
            side,
            size_bytes: BYTES_MAX,
            xoff_bytes: 0,
        });
        self.profiles.push(BufferProfile {
            name: format!("{name}_profile"),
            pool: (self.pools.len() - 1) as u16,
            size_bytes: 0,
            threshold: BufferThreshold::Static(0),
            xoff_bytes: 0,
            xon_bytes: 0,
            xon_offset_bytes: 0,
            trim: false,
        });
        let profile = (self.profiles.len() - 1) as u16;
        self.unlimited[slot] = Some(profile);
        profile
    }

    /// Returns the default number of frame slots: the number of cells in all egress pools, limited to
    /// [`FRAMES_RANGE`]. Each frame occupies at least one cell. Reserved space outside the pools is
    /// not counted.
    pub(super) fn default_frame_slot_count(&self) -> u64 {
        let egress = self.pools.iter().filter(|pool| pool.side == PoolSide::Egress);
        let cells = egress.fold(0_u64, |cells, pool| {
            cells.saturating_add(pool.size_bytes / self.cell_bytes)
        });
        cells.clamp(*FRAMES_RANGE.start(), *FRAMES_RANGE.end())
    }
}

/// Priority groups or queues that are bound to a profile of the other side.
#[derive(Default)]
struct WrongSideProfileBindings<'a> {
    count: usize,
    first: Option<&'a str>,
    profiles: BTreeSet<&'a str>,
}

impl<'a> WrongSideProfileBindings<'a> {
    /// Adds an entry and its profile.
    fn add(&mut self, key: &'a str, profile: &'a str) {
        self.count += 1;
        self.first.get_or_insert(key);
        self.profiles.insert(profile);
    }

    /// Adds one warning for all entries together, because files of SKUs can have thousands of such entries.
    fn add_warning(&self, context: &mut ResolveContext<'_>, table: &str, side: PoolSide) {
        let Some(first) = self.first else { return };
        let (users, other, here) = match side {
            PoolSide::Ingress => ("priority groups", "egress", "ingress"),
            PoolSide::Egress => ("queues", "ingress", "egress"),
        };
        let more = match self.count {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let profiles: Vec<&str> = self.profiles.iter().copied().collect();
        let text = format!(
            "bound to a profile of an {other} pool ({}): these {users} are not limited at {here}",
            profiles.join(", ")
        );
        context.warn_entry(table, &format!("{first}{more}"), text);
    }
}

/// Resolves the pools. Returns the pools, and for each name the index of its pool on each side.
fn resolve_pools<'a>(
    context: &mut ResolveContext<'a>,
) -> (Vec<PoolConfig>, BTreeMap<&'a str, BufferSideIndices>) {
    let (mut pools, mut index) = (Vec::new(), BTreeMap::new());
    let db = context.db;
    for (name, _) in db.entries("BUFFER_POOL") {
        let sides = match context.text("BUFFER_POOL", name, "type") {
            Some("egress") => &SIDES[1..],
            Some("both") => &SIDES[..],
            _ => &SIDES[..1],
        };
        let xoff_bytes = context.bytes("BUFFER_POOL", name, "xoff").unwrap_or(0);
        if xoff_bytes > 0 && sides == [PoolSide::Egress] {
            context.warn_entry(
                "BUFFER_POOL",
                name,
                "xoff has no effect: only ingress pools have headroom",
            );
        }
        let size_bytes = context.bytes("BUFFER_POOL", name, "size").unwrap_or_else(|| {
            let why = format!("no size is given: {POOL_BYTES_DEFAULT} bytes are assumed");
            context.warn_entry("BUFFER_POOL", name, why);
            POOL_BYTES_DEFAULT
        });
        for &side in sides {
            let number = pools.len() as u16;
            index
                .entry(name)
                .or_insert_with(BufferSideIndices::default)
                .set(side, number);
            let xoff_bytes = if side == PoolSide::Ingress { xoff_bytes } else { 0 };
            pools.push(PoolConfig {
                name: name.to_owned(),
                side,
                size_bytes,
                xoff_bytes,
            });
        }
    }
    check_entry_count(context, "BUFFER_POOL", index.len());
    (pools, index)
}
