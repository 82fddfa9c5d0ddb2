//! Computed pool sizes. Pools share the whole buffer, without reserved space and without the shared
//! headroom pool.

use super::{DynamicModelParameters, LOCALHOST, LOSSLESS_POOL, POOLS, PROFILES, SWITCH};
use crate::db::ConfigDb;
use crate::merge::parse_range_key;
use crate::natural::NaturalName;
use crate::problem::Problem;
use crate::resolve::context::ResolveContext;
use crate::schema;

/// Default size of the whole buffer in bytes, typical of chips from 2018.
const BUFFER_BYTES_DEFAULT: u64 = 32 << 20;
/// Size in bytes of a shared headroom pool without lossless priority groups, as in SONiC.
const HEADROOM_POOL_MIN_BYTES: u64 = 640 << 10;

/// Returns a field as a number of bytes, at most [`schema::BYTES_MAX`]. Returns 0 if the field is missing.
pub(super) fn read_bytes(db: &ConfigDb, table: &str, key: &str, field: &str) -> u64 {
    db.get(table, key, field)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
        .min(schema::BYTES_MAX)
}

/// Computes the missing sizes of pools and adds them to `added`. `db` contains all profiles.
pub(super) fn add_pool_sizes(
    context: &mut ResolveContext<'_>,
    parameters: &DynamicModelParameters,
    db: &ConfigDb,
    added: &mut ConfigDb,
) {
    let lossless = db.entry(POOLS, LOSSLESS_POOL).is_some();
    let written = read_bytes(db, POOLS, LOSSLESS_POOL, "xoff");
    let headroom_pool = match parameters.over_subscribe_ratio {
        _ if !lossless || written > 0 => written,
        0 => 0,
        ratio => match sum_over_users(db, "BUFFER_PG", "xoff").div_ceil(ratio) {
            0 => HEADROOM_POOL_MIN_BYTES,
            bytes => bytes,
        },
    };
    if headroom_pool > written {
        added.insert(
            POOLS,
            LOSSLESS_POOL,
            "xoff",
            &headroom_pool.min(schema::BYTES_MAX).to_string(),
        );
    }
    let mut open = Vec::new();
    for (name, entry) in db.entries(POOLS) {
        let has = |field: &str| entry.contains_key(&field as &dyn NaturalName);
        if has("size") && has("percentage") {
            let why = "size and percentage exclude each other";
            context.report_error_within_entry(
                Problem::at_field(POOLS, name, "percentage", why).with_fix("remove one of them"),
            );
        } else if !has("size") {
            open.push(name);
        }
    }
    if open.is_empty() {
        return;
    }
    let total = total_buffer_bytes(context, db);
    let reserved = sum_over_users(db, "BUFFER_PG", "size")
        + sum_over_users(db, "BUFFER_QUEUE", "size")
        + reserved_in_profile_lists(db);
    let taken = reserved.saturating_add(headroom_pool);
    if taken >= total {
        let why = format!(
            "no space of the {total} bytes is left for pools: profiles reserve {reserved}, the shared headroom pool takes \
             {headroom_pool}"
        );
        let problem = Problem::at_field(SWITCH, LOCALHOST, "buffer_size", why);
        context.report_entry_contradiction(
            problem.with_fix("raise buffer_size, shorten cables, or raise over_subscribe_ratio"),
        );
        return;
    }
    let available = total - taken;
    let ingress = |name: &&&str| db.get(POOLS, name, "type").as_deref() == Some("ingress");
    let share = if open.iter().filter(ingress).count() == 1 {
        available
    } else {
        available / 2
    };
    for name in open {
        let size = match db
            .get(POOLS, name, "percentage")
            .and_then(|text| text.parse::<u64>().ok())
        {
            Some(percent) => (available * percent).div_ceil(100),
            None => share,
        };
        // A pool with 0 percent gets one byte, because a pool cannot have the size 0. One byte is less than
        // one cell.
        added.insert(POOLS, name, "size", &size.max(1).to_string());
    }
}

/// Returns the size of the whole buffer in bytes.
fn total_buffer_bytes(context: &mut ResolveContext<'_>, db: &ConfigDb) -> u64 {
    let written = context.number(SWITCH, LOCALHOST, "buffer_size");
    let egress = read_bytes(db, POOLS, "egress_lossless_pool", "size");
    match written {
        Some(total) => total,
        None if egress > 0 => egress,
        None => {
            let why = format!(
                "no buffer_size is given, and no size of egress_lossless_pool: {BUFFER_BYTES_DEFAULT} bytes are assumed"
            );
            context.warn_entry(SWITCH, LOCALHOST, why);
            BUFFER_BYTES_DEFAULT
        }
    }
}

/// Returns the sum of a field of the profiles over all priority groups or queues in a table, in bytes.
fn sum_over_users(db: &ConfigDb, table: &str, field: &str) -> u64 {
    let user = |(key, _): (&str, _)| {
        let (_, first, last) = parse_range_key(key)?;
        let profile = db.get(table, key, "profile")?;
        Some(u64::from(last - first + 1) * read_bytes(db, PROFILES, &profile, field))
    };
    db.entries(table).filter_map(user).sum()
}

/// Returns the sum of the reserved space in the egress profile lists of all ports, in bytes.
fn reserved_in_profile_lists(db: &ConfigDb) -> u64 {
    const TABLE: &str = "BUFFER_PORT_EGRESS_PROFILE_LIST";
    let lists = db
        .keys(TABLE)
        .filter_map(|port| db.get(TABLE, port, "profile_list"));
    lists
        .map(|list| {
            schema::split_list(&list)
                .map(|name| read_bytes(db, PROFILES, name, "size"))
                .sum::<u64>()
        })
        .sum()
}
