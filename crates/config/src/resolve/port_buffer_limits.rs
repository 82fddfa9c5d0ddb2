//! `BUFFER_PORT_INGRESS_PROFILE_LIST` and `BUFFER_PORT_EGRESS_PROFILE_LIST`: limits of whole ports in pools.

use std::collections::BTreeMap;

use xoff_dataplane::config::{BufferProfile, PoolSide, PortProfile};

use super::buffers::ResolvedBuffers;
use super::context::ResolveContext;
use crate::schema;

/// Resolves the profile lists of all ports.
pub(super) fn resolve_port_profiles(
    context: &mut ResolveContext<'_>,
    buffers: &ResolvedBuffers,
) -> Vec<PortProfile> {
    let mut listed = Vec::new();
    for (table, side) in [
        ("BUFFER_PORT_INGRESS_PROFILE_LIST", PoolSide::Ingress),
        ("BUFFER_PORT_EGRESS_PROFILE_LIST", PoolSide::Egress),
    ] {
        let db = context.db;
        for port in db.keys(table) {
            let (Some(index), Some(list)) = (context.port_index(port), db.get(table, port, "profile_list"))
            else {
                continue;
            };
            let profiles = resolve_profile_list(context, buffers, (table, side), port, &list);
            listed.extend(profiles.into_iter().map(|profile| PortProfile {
                port: index as u16,
                profile,
            }));
        }
    }
    listed
}

/// Returns the indices of the profiles in a list. If several profiles have the same pool, the first profile
/// is used. A warning names the profiles that are not used.
fn resolve_profile_list(
    context: &mut ResolveContext<'_>,
    buffers: &ResolvedBuffers,
    (table, side): (&str, PoolSide),
    port: &str,
    list: &str,
) -> Vec<u16> {
    let mut by_pool: BTreeMap<u16, (u16, &str)> = BTreeMap::new();
    for name in schema::split_list(list) {
        let is_of_side = |profile: &BufferProfile| {
            buffers.pools[usize::from(profile.pool)].side == side && profile.name == name
        };
        let own_side = buffers.profiles.iter().position(is_of_side);
        let Some(profile) =
            own_side.or_else(|| buffers.profiles.iter().position(|profile| profile.name == name))
        else {
            continue;
        };
        let pool = buffers.profiles[profile].pool;
        let pool_name = &buffers.pools[usize::from(pool)].name;
        if buffers.pools[usize::from(pool)].side != side {
            let (want, is) = match side {
                PoolSide::Ingress => ("ingress", "egress"),
                PoolSide::Egress => ("egress", "ingress"),
            };
            let text = format!("{name} limits no port at {want}: its pool {pool_name} is an {is} pool");
            context.warn_entry(table, port, text);
        } else if let Some((_, other)) = by_pool.get(&pool) {
            let why = format!("{name} has no effect: {other} of the same list has the same pool {pool_name}");
            context.warn_entry(table, port, why);
        } else {
            by_pool.insert(pool, (profile as u16, name));
        }
    }
    by_pool.into_values().map(|(profile, _)| profile).collect()
}
