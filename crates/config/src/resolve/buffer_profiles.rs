//! Buffer profiles, and checks of their thresholds.

use std::collections::BTreeMap;

use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, PoolSide};

use super::buffer_model;
use super::buffer_sides::{BufferSideIndices, SIDES, check_entry_count};
use super::context::ResolveContext;
use super::trimming;
use crate::problem::Problem;

const TABLE: &str = "BUFFER_PROFILE";

/// Resolves all profiles. Returns two results: the profiles, and for each profile name the indices of its
/// ingress profile and its egress profile. A profile of a pool of type `both` becomes two profiles.
pub(super) fn resolve_profiles<'a>(
    context: &mut ResolveContext<'a>,
    pools: &[PoolConfig],
    pool_index: &BTreeMap<&str, BufferSideIndices>,
) -> (Vec<BufferProfile>, BTreeMap<&'a str, BufferSideIndices>) {
    let (mut profiles, mut index) = (Vec::new(), BTreeMap::new());
    let db = context.db;
    for (name, _) in db.entries(TABLE) {
        if context.text(TABLE, name, "size").is_none() {
            if buffer_model::is_dynamic_model_selected(db)
                && context.text(TABLE, name, "headroom_type") == Some("dynamic")
            {
                // This entry is only a template for generated profiles. No priority group uses it directly.
                continue;
            }
            context.report_error_within_entry(Problem::at_field(TABLE, name, "size", "the field is missing"));
        }
        let threshold = resolve_threshold(context, name);
        let Some(&pool_sides) = context
            .text(TABLE, name, "pool")
            .and_then(|pool| pool_index.get(pool))
        else {
            continue;
        };
        let bytes = |field: &str| context.bytes(TABLE, name, field).unwrap_or(0);
        let (xoff, xon, xon_offset) = (bytes("xoff"), bytes("xon"), bytes("xon_offset"));
        let size_bytes = bytes("size");
        if pool_sides.ingress.is_none() {
            if xoff > 0 {
                context.warn_entry(
                    TABLE,
                    name,
                    "xoff has no effect: only ingress profiles have headroom",
                );
            }
        } else if xoff > 0 && xon == 0 && xon_offset == 0 {
            let why = "neither xon nor xon_offset is given: a paused group resumes only when it is empty";
            context.warn_entry(TABLE, name, why);
        }
        for side in SIDES {
            let Some(pool) = pool_sides.get(side) else {
                continue;
            };
            let number = profiles.len() as u16;
            index
                .entry(name)
                .or_insert_with(BufferSideIndices::default)
                .set(side, number);
            let is_egress = side == PoolSide::Egress;
            let profile = BufferProfile {
                name: name.to_owned(),
                pool,
                size_bytes,
                threshold,
                xoff_bytes: if is_egress { 0 } else { xoff },
                xon_bytes: xon,
                xon_offset_bytes: xon_offset,
                trim: is_egress && trimming::selects_trimming(context, name),
            };
            check_xoff_and_xon(context, &pools[usize::from(pool)], &profile);
            warn_large_reserve(context, &pools[usize::from(pool)], &profile);
            profiles.push(profile);
        }
    }
    check_entry_count(context, TABLE, index.len());
    (profiles, index)
}

/// Resolves `dynamic_th` or `static_th`. In SONiC's model, both can be missing.
fn resolve_threshold(context: &mut ResolveContext<'_>, profile: &str) -> BufferThreshold {
    let dynamic = context
        .text(TABLE, profile, "dynamic_th")
        .and_then(|text| text.parse().ok());
    let fixed = context.bytes(TABLE, profile, "static_th");
    match (dynamic, fixed) {
        (Some(exponent), None) => BufferThreshold::Dynamic(exponent),
        (None, Some(bytes)) => BufferThreshold::Static(bytes),
        (Some(_), Some(_)) => {
            let why = "dynamic_th and static_th exclude each other";
            context.report_error_within_entry(
                Problem::at_field(TABLE, profile, "", why).with_fix("remove one of them"),
            );
            BufferThreshold::Dynamic(0)
        }
        (None, None) => {
            let why = "neither dynamic_th nor static_th limits shared use: dynamic_th 0 is assumed";
            context.warn_entry(TABLE, profile, why);
            BufferThreshold::Dynamic(0)
        }
    }
}

/// Returns the reserved bytes of a priority group or queue, without headroom. If the profile has private
/// headroom, its `size` includes the headroom, which is subtracted here.
fn reserved_bytes(pool: &PoolConfig, profile: &BufferProfile) -> u64 {
    match pool.xoff_bytes == 0 && profile.size_bytes >= profile.xoff_bytes {
        true => profile.size_bytes - profile.xoff_bytes,
        false => profile.size_bytes,
    }
}

/// Returns the XOFF threshold in bytes for the case that only one priority group is congested. With a dynamic
/// threshold, it is `reserve + a / (1 + a) x pool`, as in SONiC's tests. More congested priority groups can
/// only lower the threshold.
pub(super) fn xoff_threshold_bytes(pool: &PoolConfig, profile: &BufferProfile) -> u64 {
    let size = pool.size_bytes;
    let shared = match profile.threshold {
        BufferThreshold::Static(0) => size,
        BufferThreshold::Static(bytes) => bytes.min(size),
        BufferThreshold::Dynamic(n) if n >= 0 => ((size as u128) << n).div_euclid(1 + (1u128 << n)) as u64,
        BufferThreshold::Dynamic(n) => size / (1 + (1 << n.unsigned_abs())),
        BufferThreshold::Hpcc { shift } => size / (1 + (1 << shift)),
    };
    reserved_bytes(pool, profile).saturating_add(shared)
}

/// Warns if a profile reserves more bytes than its pool has. The switch grants these bytes anyway, because
/// reserved space does not come from the shared space of the pool.
fn warn_large_reserve(context: &mut ResolveContext<'_>, pool: &PoolConfig, profile: &BufferProfile) {
    let reserve = reserved_bytes(pool, profile);
    if reserve > pool.size_bytes {
        let why = format!(
            "size {}: each group or queue reserves {reserve} bytes, more than the size of pool {} has ({})",
            profile.size_bytes, pool.name, pool.size_bytes
        );
        context.warn_entry(TABLE, &profile.name, why);
    }
}

/// Checks that the pool can hold the headroom, and that the XON thresholds are below the XOFF threshold.
fn check_xoff_and_xon(context: &mut ResolveContext<'_>, pool: &PoolConfig, profile: &BufferProfile) {
    let BufferProfile {
        xoff_bytes: xoff,
        xon_bytes: xon,
        xon_offset_bytes: offset,
        ..
    } = *profile;
    if pool.side == PoolSide::Egress || xoff == 0 {
        return;
    }
    let mut refuse = |field: &str, value: u64, why: String, fix: &str| {
        let problem = Problem::at_field(TABLE, &profile.name, field, why).with_value(value.to_string());
        context.report_entry_contradiction(problem.with_fix(fix));
    };
    let (room, of) = match pool.xoff_bytes {
        0 => (pool.size_bytes, "size"),
        shared => (shared, "xoff"),
    };
    if xoff > room {
        let why = format!(
            "the headroom is larger than the pool: {of} of {} is {room}",
            pool.name
        );
        refuse("xoff", xoff, why, "lower xoff, or make the pool larger");
    }
    let point = xoff_threshold_bytes(pool, profile);
    if xon > 0 && xon >= point {
        let why = format!(
            "a group of this profile pauses at {point} bytes at the latest, but its XON threshold is {xon}"
        );
        refuse("xon", xon, why, "lower xon below the XOFF threshold");
    } else if offset > 0 && offset > point {
        let why = format!(
            "a group of this profile pauses at {point} bytes at the latest, which is less than the offset"
        );
        refuse(
            "xon_offset",
            offset,
            why,
            "lower xon_offset below the XOFF threshold",
        );
    }
}
