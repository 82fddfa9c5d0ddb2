//! The dynamic buffer model, selected by `DEVICE_METADATA|localhost buffer_model` `dynamic`.
//!
//! Like SONiC's buffer manager, this module adds the profiles of lossless priority groups and the sizes of
//! pools. This module runs before all other steps, which are the same as in the traditional model. Configured
//! values take precedence over computed values. This applies to profiles with a generated name, and to `size`
//! and `xoff` of pools.
//!
//! - A priority group with the profile `NULL` gets the profile `pg_lossless_<speed>_<cable>_profile`. If
//!   the MTU of the port is not 9100, the name contains `_mtu<mtu>`. If the threshold is not the default,
//!   the name contains `_th<n>`. The name for a port with eight lanes contains `_8lane` in some cases,
//!   see `naming`.
//! - If the profile of a priority group has `headroom_type` `dynamic`, the priority group also gets a
//!   generated profile. The generated profile keeps `dynamic_th` of the original profile.
//! - If the cable of a port has the length `0m`, its lossless priority groups have no buffer.

mod naming;
mod pools;

use std::collections::BTreeMap;

use super::context::ResolveContext;
use super::{LOCALHOST, SWITCH, chip, ports, traditional_buffer_model};
use crate::db::ConfigDb;
use crate::headroom::{Asic, HeadroomSizes, LinkParameters, compute_headroom};
use crate::merge::parse_range_key;
use crate::natural::NaturalName;
use crate::problem::Problem;
use crate::schema::{self, BYTES_MAX};

const PARAMETER: &str = "DEFAULT_LOSSLESS_BUFFER_PARAMETER";
const PATTERN: &str = "LOSSLESS_TRAFFIC_PATTERN";
const CABLES: &str = "CABLE_LENGTH";
const GROUPS: &str = "BUFFER_PG";
const PROFILES: &str = "BUFFER_PROFILE";
const POOLS: &str = "BUFFER_POOL";
/// The pool of generated profiles. Only this pool can have a shared headroom pool.
const LOSSLESS_POOL: &str = "ingress_lossless_pool";

/// Default packet length in bytes, from SONiC's templates.
const PATTERN_MTU: u64 = 1_024;
/// Default percentage of small packets, from SONiC's templates.
const PATTERN_SMALL_PERCENT: u64 = 50;

/// The parameters of the dynamic buffer model.
struct DynamicModelParameters {
    asic: Asic,
    threshold: i64,
    over_subscribe_ratio: u64,
    /// Largest headroom of a port in bytes. 0 means no limit.
    max_headroom_bytes: u64,
    lossless_mtu_bytes: u32,
    small_packet_percent: u32,
    gearbox_delay_ns: u64,
    uses_shared_pool: bool,
}

/// The properties of a lossless profile that a priority group needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LosslessProfileSpec {
    speed_mbps: u32,
    cable: String,
    mtu_bytes: u32,
    threshold: i64,
    eight_lanes: bool,
}

/// Adds the computed profiles and pool sizes. Returns the completed configuration, and the added entries
/// and fields.
pub(super) fn complete_buffers(context: &mut ResolveContext<'_>) -> (ConfigDb, ConfigDb) {
    let parameters = read_parameters(context);
    let wanted = collect_computed_profiles(context, &parameters);
    let mut db = context.db.clone();
    let mut added = ConfigDb {
        source: db.source.clone(),
        ..ConfigDb::default()
    };
    let names = naming::assign_names(
        parameters.asic.name,
        parameters.threshold,
        wanted.values().flatten(),
    );
    for (key, profile) in &wanted {
        let name = profile.as_ref().map_or("NULL", |wanted| names[wanted].as_str());
        db.insert(GROUPS, key, "profile", name);
    }
    for (wanted, name) in &names {
        add_generated_profile(context, &parameters, wanted, name, &mut added);
    }
    if !names.is_empty() && db.entry(POOLS, LOSSLESS_POOL).is_none() {
        let why = format!("generated profiles need this pool, and {POOLS} has no {LOSSLESS_POOL}");
        context.report_entry_contradiction(
            Problem::at_field(POOLS, LOSSLESS_POOL, "", why)
                .with_fix("add it, with type ingress and mode dynamic"),
        );
    }
    db.add_missing_fields(&added);
    pools::add_pool_sizes(context, &parameters, &db, &mut added);
    db.add_missing_fields(&added);
    check_headroom_of_ports(context, &parameters, &db);
    (db, added)
}

/// Returns the key of the entry in a table that may have only one entry. Reports an error for each further
/// entry. Returns `AZURE` if the table is empty.
fn only_entry_key<'a>(context: &mut ResolveContext<'a>, table: &str) -> &'a str {
    let mut keys = context.db.keys(table);
    let first = keys.next().unwrap_or("AZURE");
    let others: Vec<&str> = keys.collect();
    for other in others {
        let why = format!("{first} is another entry, but only one entry is possible");
        context.report_error_within_entry(
            Problem::at_field(table, other, "", why).with_fix("keep only one entry, usually AZURE"),
        );
    }
    first
}

/// Reads the parameters of the model.
fn read_parameters(context: &mut ResolveContext<'_>) -> DynamicModelParameters {
    let (parameter, pattern) = (
        only_entry_key(context, PARAMETER),
        only_entry_key(context, PATTERN),
    );
    let of_default = |field: &str| context.number(PARAMETER, parameter, field).unwrap_or(0);
    let of_pattern =
        |field: &str, default: u64| context.number(PATTERN, pattern, field).unwrap_or(default) as u32;
    let over_subscribe_ratio = of_default("over_subscribe_ratio");
    let pool_xoff = context.number(POOLS, LOSSLESS_POOL, "xoff").unwrap_or(0);
    DynamicModelParameters {
        asic: chip::chip_constants(context),
        threshold: read_threshold(context, PARAMETER, parameter, "default_dynamic_th").unwrap_or(0),
        over_subscribe_ratio,
        max_headroom_bytes: of_default("max_headroom_size"),
        lossless_mtu_bytes: of_pattern("mtu", PATTERN_MTU),
        small_packet_percent: of_pattern("small_packet_percentage", PATTERN_SMALL_PERCENT),
        gearbox_delay_ns: context.number(SWITCH, LOCALHOST, "gearbox_delay").unwrap_or(0),
        uses_shared_pool: over_subscribe_ratio > 0 || pool_xoff > 0,
    }
}

/// Reads a threshold, which can be negative.
fn read_threshold(context: &ResolveContext<'_>, table: &str, key: &str, field: &str) -> Option<i64> {
    context.text(table, key, field)?.parse().ok()
}

/// Returns the computed profiles by key in `BUFFER_PG`. `None` means that the priority groups have no buffer.
/// Keys without a computed profile are missing in the result.
fn collect_computed_profiles(
    context: &mut ResolveContext<'_>,
    parameters: &DynamicModelParameters,
) -> BTreeMap<String, Option<LosslessProfileSpec>> {
    let mut wanted = BTreeMap::new();
    let db = context.db;
    for (key, _) in db.entries(GROUPS) {
        let (Some((port, ..)), Some(profile)) = (parse_range_key(key), context.text(GROUPS, key, "profile"))
        else {
            continue;
        };
        let computed = context.text(PROFILES, profile, "headroom_type") == Some("dynamic");
        if context.port_index(port).is_none() || (profile != "NULL" && !computed) {
            continue;
        }
        let threshold =
            read_threshold(context, PROFILES, profile, "dynamic_th").unwrap_or(parameters.threshold);
        let Some(cable) = traditional_buffer_model::cable_length(context, port) else {
            let cables = context.db.keys(CABLES).next().unwrap_or("AZURE");
            let why = format!("the length is missing, and headroom of {GROUPS}|{key} depends on it");
            let fix = "add a length such as 5m, or bind the group to a BUFFER_PROFILE with headroom";
            context.report_entry_contradiction(Problem::at_field(CABLES, cables, port, why).with_fix(fix));
            continue;
        };
        let lanes = context.text("PORT", port, "lanes").unwrap_or("");
        let profile = (schema::parse_cable(cable) != Some(0)).then(|| LosslessProfileSpec {
            speed_mbps: ports::speed_mbps(context, port),
            cable: cable.to_owned(),
            mtu_bytes: ports::mtu_bytes(context, port),
            threshold,
            eight_lanes: schema::split_list(lanes).count() == 8,
        });
        if profile.is_none() {
            context.warn_entry(
                GROUPS,
                key,
                "the cable is 0m long: the group has no buffer and its frames are dropped",
            );
        }
        wanted.insert(key.to_owned(), profile);
    }
    wanted
}

/// Adds a generated profile. If the configuration already has a profile with this name, adds only a note
/// about the differences.
fn add_generated_profile(
    context: &mut ResolveContext<'_>,
    parameters: &DynamicModelParameters,
    wanted: &LosslessProfileSpec,
    name: &str,
    added: &mut ConfigDb,
) {
    let link = LinkParameters {
        speed_mbps: wanted.speed_mbps,
        cable_m: schema::parse_cable(&wanted.cable).unwrap_or(0),
        mtu_bytes: wanted.mtu_bytes,
        lanes: if wanted.eight_lanes { 8 } else { 1 },
        gearbox_delay_ns: parameters.gearbox_delay_ns,
        lossless_mtu_bytes: parameters.lossless_mtu_bytes,
        small_packet_percent: parameters.small_packet_percent,
        uses_shared_pool: parameters.uses_shared_pool,
    };
    let HeadroomSizes {
        xon_bytes,
        xoff_bytes,
        size_bytes,
    } = compute_headroom(&parameters.asic, &link);
    if xoff_bytes.max(size_bytes) > BYTES_MAX {
        let why = format!(
            "a cable of {} needs a headroom of {xoff_bytes} bytes, at most {BYTES_MAX} are possible",
            wanted.cable
        );
        context.report_entry_contradiction(
            Problem::at_field(PROFILES, name, "xoff", why).with_fix("shorten the cable in CABLE_LENGTH"),
        );
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
        let is = written.get(field as &dyn NaturalName).map(|value| value.text());
        (is.as_ref() != Some(value)).then(|| format!("{field} {value}"))
    };
    let computed: Vec<String> = fields.iter().filter_map(differs).collect();
    if !computed.is_empty() {
        let why = format!(
            "it is used as written; the computed values are {}",
            computed.join(", ")
        );
        context.warn_entry(PROFILES, name, why);
    }
}

/// Checks that the reserved space and the headroom of the lossless priority groups of each port are at
/// most `max_headroom_size`.
fn check_headroom_of_ports(
    context: &mut ResolveContext<'_>,
    parameters: &DynamicModelParameters,
    db: &ConfigDb,
) {
    let most = parameters.max_headroom_bytes;
    if most == 0 {
        return;
    }
    let mut ports: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, _) in db.entries(GROUPS) {
        let (Some((port, first, last)), Some(profile)) =
            (parse_range_key(key), db.get(GROUPS, key, "profile"))
        else {
            continue;
        };
        let bytes = |field: &str| pools::read_bytes(db, PROFILES, &profile, field);
        // With private headroom, the size includes the headroom.
        let each = match bytes("xoff") {
            0 => 0,
            xoff if parameters.uses_shared_pool => bytes("size") + xoff,
            xoff => bytes("size").max(xoff),
        };
        *ports.entry(port).or_default() += u64::from(last - first + 1) * each;
    }
    for (port, need) in ports.into_iter().filter(|(_, need)| *need > most) {
        let why = format!(
            "the lossless groups of {port} take {need} bytes together, and max_headroom_size of {PARAMETER} allows {most}"
        );
        let fix = "shorten its cable, use fewer lossless groups, or raise max_headroom_size";
        context.report_entry_contradiction(Problem::at_field(GROUPS, port, "", why).with_fix(fix));
    }
}
