//! Computed pool sizes: the whole buffer without reserved space and the shared headroom pool.

use super::{LOCALHOST, LOSSLESS_POOL, POOLS, PROFILES, Parameters, SWITCH};
use crate::db::ConfigDb;
use crate::merge::split_range;
use crate::natural::Name;
use crate::problem::Problem;
use crate::resolve::context::Context;
use crate::schema;

/// Default size of the whole buffer, typical of a chip of 2018.
const BUFFER_BYTES: u64 = 32 << 20;
/// Size of a shared headroom pool without users, as in SONiC.
const HEADROOM_POOL_MIN_BYTES: u64 = 640 << 10;

/// Returns a number of bytes from a table, at most [`schema::BYTES_MAX`], or 0 if the field is missing.
pub(super) fn bytes(db: &ConfigDb, table: &str, key: &str, field: &str) -> u64 {
    db.get(table, key, field)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
        .min(schema::BYTES_MAX)
}

/// Adds the missing sizes of pools. `db` contains all profiles.
pub(super) fn complete(
    context: &mut Context<'_>,
    parameters: &Parameters,
    db: &ConfigDb,
    added: &mut ConfigDb,
) {
    let lossless = db.entry(POOLS, LOSSLESS_POOL).is_some();
    let written = bytes(db, POOLS, LOSSLESS_POOL, "xoff");
    let headroom_pool = match parameters.over_subscribe_ratio {
        _ if !lossless || written > 0 => written,
        0 => 0,
        ratio => match users(db, "BUFFER_PG", "xoff").div_ceil(ratio) {
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
        let has = |field: &str| entry.contains_key(&Name::from(field));
        if has("size") && has("percentage") {
            let why = "size and percentage exclude each other";
            context.own_problem(Problem::at(POOLS, name, "percentage", why).fix("remove one of them"));
        } else if !has("size") {
            open.push(name);
        }
    }
    if open.is_empty() {
        return;
    }
    let total = total(context, db);
    let reserved = users(db, "BUFFER_PG", "size") + users(db, "BUFFER_QUEUE", "size") + listed(db);
    let taken = reserved.saturating_add(headroom_pool);
    if taken >= total {
        let why = format!(
            "nothing of {total} bytes is left for pools: profiles reserve {reserved}, the shared headroom pool takes \
             {headroom_pool}"
        );
        let problem = Problem::at(SWITCH, LOCALHOST, "buffer_size", why);
        context.problem(problem.fix("raise buffer_size, shorten cables, or raise over_subscribe_ratio"));
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
        // A pool with 0 percent gets one byte, which is less than one cell, because a pool cannot have size
        // 0.
        added.insert(POOLS, name, "size", &size.max(1).to_string());
    }
}

/// The size of the whole buffer.
fn total(context: &mut Context<'_>, db: &ConfigDb) -> u64 {
    let written = context.number(SWITCH, LOCALHOST, "buffer_size");
    let egress = bytes(db, POOLS, "egress_lossless_pool", "size");
    match written {
        Some(total) => total,
        None if egress > 0 => egress,
        None => {
            let why = format!(
                "no buffer_size is given, and no size of egress_lossless_pool: {BUFFER_BYTES} bytes are assumed"
            );
            context.warn_entry(SWITCH, LOCALHOST, why);
            BUFFER_BYTES
        }
    }
}

/// Sum of a field of the profiles of all priority groups or queues of a table.
fn users(db: &ConfigDb, table: &str, field: &str) -> u64 {
    let user = |(key, _): (&str, _)| {
        let (_, first, last) = split_range(key)?;
        let profile = db.get(table, key, "profile")?;
        Some(u64::from(last - first + 1) * bytes(db, PROFILES, &profile, field))
    };
    db.entries(table).filter_map(user).sum()
}

/// Reserved space in the egress profile lists of ports.
fn listed(db: &ConfigDb) -> u64 {
    const TABLE: &str = "BUFFER_PORT_EGRESS_PROFILE_LIST";
    let lists = db
        .keys(TABLE)
        .filter_map(|port| db.get(TABLE, port, "profile_list"));
    lists
        .map(|list| {
            schema::items(&list)
                .map(|name| bytes(db, PROFILES, name, "size"))
                .sum::<u64>()
        })
        .sum()
}
