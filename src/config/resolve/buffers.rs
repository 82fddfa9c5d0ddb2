//! Buffer pools, profiles, and who uses which.

use std::collections::BTreeMap;

use xoff_dataplane::config::{BufferProfile, NO_PROFILE, PoolConfig, PoolSide, Threshold};
use xoff_dataplane::ids::PRIORITIES;

use super::context::Context;
use super::{FRAMES, profiles, trimming};
use crate::config::db::split_range;
use crate::config::problem::Problem;

/// Shared bytes of a pool that does not say its size, and of the built-in pools.
const POOL_BYTES: u64 = 16 << 20;

/// Indices are 16 bits; the built-in profiles need two.
const PROFILES_MAX: usize = 4_096;

pub(super) struct Buffers {
    pub(super) pools: Vec<PoolConfig>,
    pub(super) profiles: Vec<BufferProfile>,
    cell_bytes: u64,
    groups: Vec<[Option<u16>; PRIORITIES]>,
    queues: Vec<[Option<u16>; PRIORITIES]>,
    /// The built-in lossy profile of each side, once something needed it.
    built_in: [Option<u16>; 2],
}

impl Buffers {
    pub(super) fn resolve(context: &mut Context<'_>) -> Buffers {
        let (pools, pool_index) = pools(context);
        let (profiles, profile_index) = profiles::resolve(context, &pools, &pool_index);
        let mut buffers = Buffers {
            pools,
            profiles,
            cell_bytes: context
                .number(super::SWITCH, super::LOCALHOST, "cell_size")
                .unwrap_or_else(|| super::chip::cell_bytes(context)),
            groups: Vec::new(),
            queues: Vec::new(),
            built_in: [None; 2],
        };
        buffers.groups = buffers.users(context, "BUFFER_PG", PoolSide::Ingress, &profile_index);
        buffers.queues = buffers.users(context, "BUFFER_QUEUE", PoolSide::Egress, &profile_index);
        buffers
    }

    /// Which profile each number of each port uses by `table`.
    fn users(
        &self,
        context: &mut Context<'_>,
        table: &str,
        side: PoolSide,
        profile_index: &BTreeMap<&str, u16>,
    ) -> Vec<[Option<u16>; PRIORITIES]> {
        let mut users = vec![[None; PRIORITIES]; context.ports.len()];
        let db = context.db;
        for (key, _) in db.entries(table) {
            let Some((port, first, last)) = split_range(key) else {
                continue;
            };
            let (Some(port), Some(name)) = (context.port(port), context.text(table, key, "profile")) else {
                continue;
            };
            if name == "NULL" {
                for number in first..=last {
                    users[port][usize::from(number)] = Some(NO_PROFILE);
                }
                continue;
            }
            let Some(&profile) = profile_index.get(name) else {
                continue;
            };
            let pool = &self.pools[usize::from(self.profiles[usize::from(profile)].pool)];
            if pool.side != side {
                let (want, is) = if side == PoolSide::Ingress {
                    ("ingress", "egress")
                } else {
                    ("egress", "ingress")
                };
                let why = format!(
                    "an {want} profile is needed, and this one's pool {} is {is}",
                    pool.name
                );
                context.problem(Problem::at(table, key, "profile", why).value(name));
                continue;
            }
            if side == PoolSide::Ingress && trimming::wanted(context, name) {
                let why = "its packet_discard_action is trim, which only profiles of egress queues may have";
                let problem = Problem::at(table, key, "profile", why).value(name);
                context.problem(problem.fix("name a profile that drops"));
            }
            for number in first..=last {
                users[port][usize::from(number)] = Some(profile);
            }
        }
        users
    }

    /// The profile of each priority group of a port.
    pub(super) fn groups_of(&mut self, port: usize) -> [u16; PRIORITIES] {
        self.groups[port].map(|profile| profile.unwrap_or_else(|| self.built_in(PoolSide::Ingress)))
    }

    /// The profile of each queue of a port.
    pub(super) fn queues_of(&mut self, port: usize) -> [u16; PRIORITIES] {
        self.queues[port].map(|profile| profile.unwrap_or_else(|| self.built_in(PoolSide::Egress)))
    }

    /// The built-in lossy profile of a side. Lossy frames are to be dropped at the egress queue that is
    /// congested, so the ingress side has no limit but the pool, and a queue gets half of a pool at most.
    fn built_in(&mut self, side: PoolSide) -> u16 {
        let (slot, name, threshold) = match side {
            PoolSide::Ingress => (0, "default_ingress", Threshold::Static(POOL_BYTES)),
            PoolSide::Egress => (1, "default_egress", Threshold::Dynamic(0)),
        };
        if let Some(profile) = self.built_in[slot] {
            return profile;
        }
        self.pools.push(PoolConfig {
            name: format!("{name}_pool"),
            side,
            size_bytes: POOL_BYTES,
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

    /// Cells that queues can hold, reserves aside, within [`FRAMES`]: each frame takes one at least.
    pub(super) fn egress_cells(&self) -> u64 {
        let egress = self.pools.iter().filter(|pool| pool.side == PoolSide::Egress);
        let cells: u64 = egress.map(|pool| pool.size_bytes / self.cell_bytes).sum();
        cells.clamp(*FRAMES.start(), *FRAMES.end())
    }
}

fn pools<'a>(context: &mut Context<'a>) -> (Vec<PoolConfig>, BTreeMap<&'a str, u16>) {
    let (mut pools, mut index) = (Vec::new(), BTreeMap::new());
    let db = context.db;
    for (name, _) in db.entries("BUFFER_POOL") {
        let side = match context.text("BUFFER_POOL", name, "type") {
            Some("egress") => PoolSide::Egress,
            Some("both") => {
                let why = "a pool charged on both sides is not implemented, expected ingress or egress";
                let problem = Problem::at("BUFFER_POOL", name, "type", why).value("both");
                context.problem(problem.fix("make an ingress pool and an egress pool of it"));
                PoolSide::Ingress
            }
            _ => PoolSide::Ingress,
        };
        let xoff_bytes = context.number("BUFFER_POOL", name, "xoff").unwrap_or(0);
        if xoff_bytes > 0 && side == PoolSide::Egress {
            context.warn_entry(
                "BUFFER_POOL",
                name,
                "xoff has no effect: only ingress pools have headroom",
            );
        }
        let size_bytes = context.number("BUFFER_POOL", name, "size").unwrap_or_else(|| {
            let why = format!("no size is given and none is computed: {POOL_BYTES} bytes are assumed");
            context.warn_entry("BUFFER_POOL", name, why);
            POOL_BYTES
        });
        index.insert(name, pools.len() as u16);
        let xoff_bytes = if side == PoolSide::Ingress { xoff_bytes } else { 0 };
        pools.push(PoolConfig {
            name: name.to_owned(),
            side,
            size_bytes,
            xoff_bytes,
        });
    }
    limit(context, "BUFFER_POOL", pools.len());
    (pools, index)
}

pub(super) fn limit(context: &mut Context<'_>, table: &str, entries: usize) {
    if entries > PROFILES_MAX {
        let why = format!("{entries} entries, at most {PROFILES_MAX} are possible");
        context.problem(Problem::at(table, "", "", why));
    }
}
