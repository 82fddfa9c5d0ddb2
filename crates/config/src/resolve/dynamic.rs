//! The dynamic buffer model: what `DEVICE_METADATA|localhost buffer_model` `dynamic` lets SONiC's buffer manager compute.
//!
//! The configuration is completed before anything else looks at it: profiles for lossless priority groups under SONiC's
//! names, and sizes of pools. From there on nothing differs from the traditional model. What is written always wins:
//! a profile of the same name, a pool's `size` or `xoff`.
//!
//! - A group whose profile is `NULL` gets `pg_lossless_<speed>_<cable>_profile`, with `_mtu<mtu>` after the cable unless the
//!   port's MTU is 9100, `_th<n>` unless the threshold is the default one, and `_8lane` where a port of eight lanes needs
//!   other sizes than others of its speed.
//! - A group whose profile has `headroom_type` `dynamic` gets the same with that profile's `dynamic_th`.
//! - A cable of `0m` leaves lossless groups without a buffer.

mod naming;
mod pools;

use std::collections::BTreeMap;

use super::context::Context;
use super::{LOCALHOST, SWITCH, chip, ports, traditional};
use crate::db::ConfigDb;
use crate::headroom::{Asic, Headroom, Link, headroom};
use crate::merge::split_range;
use crate::problem::Problem;
use crate::schema::{self, BYTES_MAX};

const PARAMETER: &str = "DEFAULT_LOSSLESS_BUFFER_PARAMETER";
const PATTERN: &str = "LOSSLESS_TRAFFIC_PATTERN";
const CABLES: &str = "CABLE_LENGTH";
const GROUPS: &str = "BUFFER_PG";
const PROFILES: &str = "BUFFER_PROFILE";
const POOLS: &str = "BUFFER_POOL";
/// The pool of generated profiles, and the only one with a shared headroom pool.
const LOSSLESS_POOL: &str = "ingress_lossless_pool";

/// What SONiC's templates write: packets of 1 KiB, half of all packets small.
const PATTERN_MTU: u64 = 1_024;
const PATTERN_SMALL_PERCENT: u64 = 50;

/// Whether sizes are computed.
pub(super) fn is_on(db: &ConfigDb) -> bool {
    db.get("DEVICE_METADATA", LOCALHOST, "buffer_model").as_deref() == Some("dynamic")
}

/// What the tables that go with the model say.
struct Parameters {
    asic: Asic,
    threshold: i64,
    over_subscribe_ratio: u64,
    /// Most headroom of a port, in bytes; 0: no limit.
    max_headroom_bytes: u64,
    lossless_mtu_bytes: u32,
    small_packet_percent: u32,
    gearbox_delay_ns: u64,
    shared_pool: bool,
}

/// A lossless profile that a group asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    speed_mbps: u32,
    cable: String,
    mtu_bytes: u32,
    threshold: i64,
    eight_lanes: bool,
}

/// Completes `context.db`. The first is what everything else reads, the second what was added to it.
pub(super) fn complete(context: &mut Context<'_>) -> (ConfigDb, ConfigDb) {
    let parameters = parameters(context);
    let wanted = wanted(context, &parameters);
    let mut db = context.db.clone();
    let mut added = ConfigDb {
        source: db.source.clone(),
        ..ConfigDb::default()
    };
    let names = naming::names(
        parameters.asic.name,
        parameters.threshold,
        wanted.values().flatten(),
    );
    for (key, profile) in &wanted {
        let name = profile.as_ref().map_or("NULL", |wanted| names[wanted].as_str());
        db.insert(GROUPS, key, "profile", name);
    }
    for (wanted, name) in &names {
        generate(context, &parameters, wanted, name, &mut added);
    }
    if !names.is_empty() && db.entry(POOLS, LOSSLESS_POOL).is_none() {
        let why = format!("generated profiles need this pool, and {POOLS} has no {LOSSLESS_POOL}");
        context.problem(
            Problem::at(POOLS, LOSSLESS_POOL, "", why).fix("add it, with type ingress and mode dynamic"),
        );
    }
    db.complete_by(&added);
    pools::complete(context, &parameters, &db, &mut added);
    db.complete_by(&added);
    most_headroom(context, &parameters, &db);
    (db, added)
}

/// The key of a table that has one entry.
fn only_entry<'a>(context: &mut Context<'a>, table: &str) -> &'a str {
    let mut keys = context.db.keys(table);
    let first = keys.next().unwrap_or("AZURE");
    let others: Vec<&str> = keys.collect();
    for other in others {
        let why = format!("{first} is there too, and only one entry can hold for the switch");
        context.own_problem(
            Problem::at(table, other, "", why).fix("remove one of them, AZURE is the usual name"),
        );
    }
    first
}

fn parameters(context: &mut Context<'_>) -> Parameters {
    let (parameter, pattern) = (only_entry(context, PARAMETER), only_entry(context, PATTERN));
    let of_default = |field: &str| context.number(PARAMETER, parameter, field).unwrap_or(0);
    let of_pattern =
        |field: &str, default: u64| context.number(PATTERN, pattern, field).unwrap_or(default) as u32;
    let over_subscribe_ratio = of_default("over_subscribe_ratio");
    let pool_xoff = context.number(POOLS, LOSSLESS_POOL, "xoff").unwrap_or(0);
    Parameters {
        asic: chip::constants(context),
        threshold: threshold(context, PARAMETER, parameter, "default_dynamic_th").unwrap_or(0),
        over_subscribe_ratio,
        max_headroom_bytes: of_default("max_headroom_size"),
        lossless_mtu_bytes: of_pattern("mtu", PATTERN_MTU),
        small_packet_percent: of_pattern("small_packet_percentage", PATTERN_SMALL_PERCENT),
        gearbox_delay_ns: context.number(SWITCH, LOCALHOST, "gearbox_delay").unwrap_or(0),
        shared_pool: over_subscribe_ratio > 0 || pool_xoff > 0,
    }
}

fn threshold(context: &Context<'_>, table: &str, key: &str, field: &str) -> Option<i64> {
    context.text(table, key, field)?.parse().ok()
}

/// The groups with a computed profile, by their keys in `BUFFER_PG`; `None` for one without a cable.
fn wanted(context: &mut Context<'_>, parameters: &Parameters) -> BTreeMap<String, Option<Wanted>> {
    let mut wanted = BTreeMap::new();
    let db = context.db;
    for (key, _) in db.entries(GROUPS) {
        let (Some((port, ..)), Some(profile)) = (split_range(key), context.text(GROUPS, key, "profile"))
        else {
            continue;
        };
        let computed = context.text(PROFILES, profile, "headroom_type") == Some("dynamic");
        if context.port(port).is_none() || (profile != "NULL" && !computed) {
            continue;
        }
        let threshold = threshold(context, PROFILES, profile, "dynamic_th").unwrap_or(parameters.threshold);
        let Some(cable) = traditional::cable(context, port) else {
            let cables = context.db.keys(CABLES).next().unwrap_or("AZURE");
            let why = format!("the length is missing, and headroom of {GROUPS}|{key} depends on it");
            let fix = "add one, such as 5m, or give the group a profile with headroom of BUFFER_PROFILE";
            context.problem(Problem::at(CABLES, cables, port, why).fix(fix));
            continue;
        };
        let lanes = context.text("PORT", port, "lanes").unwrap_or("");
        let profile = (schema::parse_cable(cable) != Some(0)).then(|| Wanted {
            speed_mbps: ports::speed_mbps(context, port),
            cable: cable.to_owned(),
            mtu_bytes: ports::mtu_bytes(context, port),
            threshold,
            eight_lanes: schema::items(lanes).count() == 8,
        });
        if profile.is_none() {
            context.warn_entry(
                GROUPS,
                key,
                "the cable is 0m long: the group has no buffer, its frames are dropped",
            );
        }
        wanted.insert(key.to_owned(), profile);
    }
    wanted
}

/// Adds a generated profile, unless one is written under its name.
fn generate(
    context: &mut Context<'_>,
    parameters: &Parameters,
    wanted: &Wanted,
    name: &str,
    added: &mut ConfigDb,
) {
    let link = Link {
        speed_mbps: wanted.speed_mbps,
        cable_m: schema::parse_cable(&wanted.cable).unwrap_or(0),
        mtu_bytes: wanted.mtu_bytes,
        lanes: if wanted.eight_lanes { 8 } else { 1 },
        gearbox_delay_ns: parameters.gearbox_delay_ns,
        lossless_mtu_bytes: parameters.lossless_mtu_bytes,
        small_packet_percent: parameters.small_packet_percent,
        shared_pool: parameters.shared_pool,
    };
    let Headroom {
        xon_bytes,
        xoff_bytes,
        size_bytes,
    } = headroom(&parameters.asic, &link);
    if xoff_bytes.max(size_bytes) > BYTES_MAX {
        let why = format!(
            "a cable of {} needs a headroom of {xoff_bytes} bytes, at most {BYTES_MAX} are possible",
            wanted.cable
        );
        context.problem(Problem::at(PROFILES, name, "xoff", why).fix("shorten the cable in CABLE_LENGTH"));
        return;
    }
    let fields = [
        ("pool", LOSSLESS_POOL.to_owned()),
        ("xon", xon_bytes.to_string()),
        ("xoff", xoff_bytes.to_string()),
        ("size", size_bytes.to_string()),
        ("dynamic_th", wanted.threshold.to_string()),
    ];
    let db = context.db;
    let Some(written) = db.entry(PROFILES, name) else {
        for (field, value) in fields {
            added.insert(PROFILES, name, field, &value);
        }
        return;
    };
    let differs = |(field, value): &(&str, String)| {
        let is = written.get(&(*field).into()).map(|value| value.text());
        (is.as_ref() != Some(value)).then(|| format!("{field} {value}"))
    };
    let computed: Vec<String> = fields.iter().filter_map(differs).collect();
    if !computed.is_empty() {
        let why = format!(
            "it is taken as written; computed would be {}",
            computed.join(", ")
        );
        context.warn_entry(PROFILES, name, why);
    }
}

/// `max_headroom_size`: what the lossless groups of a port take together, reserve and headroom.
fn most_headroom(context: &mut Context<'_>, parameters: &Parameters, db: &ConfigDb) {
    let most = parameters.max_headroom_bytes;
    if most == 0 {
        return;
    }
    let mut ports: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, _) in db.entries(GROUPS) {
        let (Some((port, first, last)), Some(profile)) = (split_range(key), db.get(GROUPS, key, "profile"))
        else {
            continue;
        };
        let bytes = |field: &str| pools::bytes(db, PROFILES, &profile, field);
        // In the private form the size holds the headroom.
        let each = match bytes("xoff") {
            0 => 0,
            xoff if parameters.shared_pool => bytes("size") + xoff,
            xoff => bytes("size").max(xoff),
        };
        *ports.entry(port).or_default() += u64::from(last - first + 1) * each;
    }
    for (port, need) in ports.into_iter().filter(|(_, need)| *need > most) {
        let why = format!(
            "the lossless groups of {port} take {need} bytes together, and max_headroom_size of {PARAMETER} allows {most}"
        );
        let fix = "shorten its cable, let fewer groups be lossless, or raise max_headroom_size";
        context.problem(Problem::at(GROUPS, port, "", why).fix(fix));
    }
}
