//! The traditional buffer model: lossless profiles from `pg_profile_lookup.ini`.
//!
//! The buffer template of a SKU has no lossless priority groups. SONiC's daemon `buffermgrd` creates them at
//! run time (`BufferMgr::doSpeedUpdateTask` of sonic-swss). For each port with `pfc_enable` in `PORT_QOS_MAP`
//! and a length in `CABLE_LENGTH`, `buffermgrd` looks up the sizes by speed and cable length. It then creates
//! the profile `pg_lossless_SPEED_CABLE_profile` in `ingress_lossless_pool`. Entries of `BUFFER_PG` bind the
//! profile to the priorities of `pfc_enable`.
//!
//! If the caller supplies a lookup file, this module does the same before all other steps. Without a lookup
//! file, a warning lists the profiles that SONiC would create.
//!
//! - An existing profile with the same name stays unchanged.
//! - An existing `BUFFER_PG` entry with the same key gets the generated profile, and a note reports this. All
//!   other existing entries are kept.
//! - A port with a cable length of `0m` gets no profile. On Mellanox and Barefoot platforms, ports that are
//!   down get no profile either.

use std::collections::BTreeMap;

use super::context::ResolveContext;
use super::{chip, ports};
use crate::db::ConfigDb;
use crate::merge::parse_range_key;
use crate::natural::NaturalName;
use crate::pg_profile_lookup::{PgProfileLookup, PgProfileRow};
use crate::schema;

const CABLES: &str = "CABLE_LENGTH";
const GROUPS: &str = "BUFFER_PG";
const PROFILES: &str = "BUFFER_PROFILE";
const POOLS: &str = "BUFFER_POOL";
const LOSSLESS_POOL: &str = "ingress_lossless_pool";
const SUGGESTION: &str = "name the SKU's pg_profile_lookup.ini (`pg_profiles` of a lab's switch, or `xoff switch run \
                      --pg-profiles FILE`), or set DEVICE_METADATA|localhost buffer_model to dynamic";

/// The missing lossless priority groups of a port, and the properties of their profile.
struct MissingPriorityGroups {
    port: String,
    /// Bit mask of the priority groups.
    groups: u8,
    speed_mbps: u32,
    cable: String,
    /// Keys and former profiles of existing `BUFFER_PG` entries that get the generated profile.
    replaced: Vec<(String, String)>,
}

impl MissingPriorityGroups {
    /// Returns the name of the profile.
    fn profile_name(&self) -> String {
        format!("pg_lossless_{}_{}_profile", self.speed_mbps, self.cable)
    }

    /// Returns the numbers of the priority groups in the form of `BUFFER_PG` keys, such as `3-4`.
    fn group_ranges(&self) -> Vec<String> {
        format_group_ranges(self.groups)
    }
}

/// Formats a bit mask of priority groups in the form of `BUFFER_PG` keys: `3-4` for consecutive numbers, and
/// `6` for a single number.
fn format_group_ranges(groups: u8) -> Vec<String> {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for number in (0..8).filter(|number| groups & (1 << number) != 0) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |(first, last): (u8, u8)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(text).collect()
}

/// Adds the profiles and priority groups that `buffermgrd` creates from the lookup file. Returns the
/// completed configuration and the added entries. Returns `None` if nothing was added.
pub(super) fn complete_buffers(context: &mut ResolveContext<'_>) -> Option<(ConfigDb, ConfigDb)> {
    let missing = find_missing_groups(context);
    warn_unused_model_fields(context, missing.is_empty());
    let Some(lookup) = context.options.pg_profiles.clone() else {
        for groups in missing {
            warn_missing_groups(context, &groups);
        }
        return None;
    };
    let Some(mode) = context.text(POOLS, LOSSLESS_POOL, "mode") else {
        if !missing.is_empty() {
            let why = format!(
                "the pool is missing, so SONiC creates no profile of {}: PFC without headroom; add the pool",
                lookup.source()
            );
            context.warn_entry(POOLS, LOSSLESS_POOL, why);
        }
        return None;
    };
    let threshold_field = format!("{mode}_th");
    let mut added = ConfigDb {
        source: context.db.source.clone(),
        ..ConfigDb::default()
    };
    let mut replaced = Vec::new();
    for groups in missing {
        let Some(row) = lookup.find_row(groups.speed_mbps, &groups.cable) else {
            warn_missing_row(context, &lookup, &groups);
            continue;
        };
        let profile = groups.profile_name();
        for (key, former) in &groups.replaced {
            note_replaced_profile(context, &lookup, &groups, former);
            replaced.push(key.clone());
        }
        if context.db.entry(PROFILES, &profile).is_none() {
            add_profile(context, &mut added, &profile, row, &threshold_field);
        }
        for numbers in groups.group_ranges() {
            added.insert(GROUPS, &format!("{}|{numbers}", groups.port), "profile", &profile);
        }
    }
    if added.tables.is_empty() {
        return None;
    }
    let mut db = context.db.clone();
    if let Some(table) = db.tables.get_mut(&GROUPS as &dyn NaturalName) {
        for key in &replaced {
            table.remove(&key.as_str() as &dyn NaturalName);
        }
    }
    db.add_missing_fields(&added);
    Some((db, added))
}

/// Warns about tables and fields of the dynamic buffer model, and about cable lengths that no port uses.
fn warn_unused_model_fields(context: &mut ResolveContext<'_>, cables_are_unused: bool) {
    const WHY: &str = "no effect: buffer_model of DEVICE_METADATA is not dynamic, sizes are taken as written";
    let db = context.db;
    let tables = ["DEFAULT_LOSSLESS_BUFFER_PARAMETER", "LOSSLESS_TRAFFIC_PATTERN"];
    let cables = cables_are_unused.then_some(CABLES);
    for table in tables.into_iter().chain(cables) {
        for (key, _) in db.entries(table) {
            context.warn_entry(table, key, WHY);
        }
    }
    for (name, _) in db.entries(POOLS) {
        if context.text(POOLS, name, "percentage").is_some() {
            context.warn_entry(POOLS, name, format!("percentage has {WHY}"));
        }
    }
    for (name, _) in db.entries(PROFILES) {
        if context.text(PROFILES, name, "headroom_type") == Some("dynamic") {
            context.warn_entry(PROFILES, name, format!("headroom_type \"dynamic\" has {WHY}"));
        }
    }
}

/// Returns the ports that need other lossless priority groups than `BUFFER_PG` contains. Only ports with PFC
/// and with a cable length are considered. The ports are in natural order.
fn find_missing_groups(context: &mut ResolveContext<'_>) -> Vec<MissingPriorityGroups> {
    let bound = bound_groups(context);
    let mut missing = Vec::new();
    for port in context.ports.clone() {
        let Some(lossless) = context
            .text("PORT_QOS_MAP", &port, "pfc_enable")
            .and_then(schema::parse_priorities)
            .filter(|lossless| *lossless != 0)
        else {
            continue;
        };
        let Some(cable) = cable_length(context, &port) else {
            continue;
        };
        if schema::parse_cable(cable) == Some(0) || loses_buffers_when_down(context, &port) {
            continue;
        }
        let speed_mbps = ports::speed_mbps(context, &port);
        let bound = bound.get(port.as_str());
        let is_free = |number: &u8| bound.is_none_or(|bound| !bound.contains_key(number));
        let wanted = (0..8).filter(|number| lossless & (1 << number) != 0);
        let mut groups = MissingPriorityGroups {
            cable: cable.to_owned(),
            groups: wanted
                .filter(is_free)
                .fold(0, |groups, number| groups | 1 << number),
            speed_mbps,
            port,
            replaced: Vec::new(),
        };
        add_replaced_groups(context, &mut groups, lossless);
        if let Some(bound) = bound {
            note_kept_profiles(context, &groups, lossless, bound);
        }
        if groups.groups != 0 {
            missing.push(groups);
        }
    }
    missing
}

/// Adds the priority groups with an existing `BUFFER_PG` entry that gets a new profile. If
/// the key of a generated entry already exists, `buffermgrd` replaces the profile of the
/// entry (`BufferMgr::doSpeedUpdateTask`).
fn add_replaced_groups(context: &ResolveContext<'_>, groups: &mut MissingPriorityGroups, lossless: u8) {
    let lookup = context.options.pg_profiles.as_ref();
    if lookup.is_none_or(|lookup| lookup.find_row(groups.speed_mbps, &groups.cable).is_none()) {
        return;
    }
    for range in format_group_ranges(lossless) {
        let key = format!("{}|{range}", groups.port);
        let Some(former) = context.text(GROUPS, &key, "profile") else {
            continue;
        };
        if former != groups.profile_name()
            && let Some((_, first, last)) = parse_range_key(&key)
        {
            groups.groups |= (first..=last).fold(0, |bits, number| bits | 1 << number);
            groups.replaced.push((key, former.to_owned()));
        }
    }
}

/// Returns the names of the profiles in `BUFFER_PG` by port and priority group.
pub(super) fn bound_groups<'a>(context: &ResolveContext<'a>) -> BTreeMap<&'a str, BTreeMap<u8, &'a str>> {
    let mut bound: BTreeMap<&str, BTreeMap<u8, &str>> = BTreeMap::new();
    let db = context.db;
    for (key, _) in db.entries(GROUPS) {
        let (Some((port, first, last)), Some(profile)) =
            (parse_range_key(key), context.text(GROUPS, key, "profile"))
        else {
            continue;
        };
        let groups = (first..=last).map(|number| (number, profile));
        bound.entry(port).or_default().extend(groups);
    }
    bound
}

/// Returns the text of the cable length of a port, such as `5m`. Returns `None` if `CABLE_LENGTH` does not
/// contain the port.
pub(super) fn cable_length<'a>(context: &ResolveContext<'a>, port: &str) -> Option<&'a str> {
    let db = context.db;
    db.keys(CABLES).find_map(|key| context.text(CABLES, key, port))
}

/// Returns whether `buffermgrd` removes the lossless buffers of the port because it is down.
fn loses_buffers_when_down(context: &ResolveContext<'_>, port: &str) -> bool {
    ports::is_admin_down(context, port)
        && chip::find_configured_chip(context).is_some_and(|chip| chip.reclaims_buffer_of_down_ports())
}

/// Adds a profile with the sizes of a row in the lookup file. Reports invalid values as errors.
fn add_profile(
    context: &mut ResolveContext<'_>,
    added: &mut ConfigDb,
    name: &str,
    row: &PgProfileRow,
    threshold_field: &str,
) {
    let xon_offset = row.xon_offset.as_deref();
    let fields = [
        ("pool", Some(LOSSLESS_POOL)),
        ("xon", Some(row.xon.as_str())),
        ("xon_offset", xon_offset),
        ("xoff", Some(row.xoff.as_str())),
        ("size", Some(row.size.as_str())),
        (threshold_field, Some(row.threshold.as_str())),
    ];
    for (field, value) in fields {
        let Some(value) = value else { continue };
        if let Err(problems) = added.set(PROFILES, name, field, value) {
            for problem in problems.into_vec() {
                context.report_invalid_value(
                    problem.with_fix("correct the row of this speed and cable in the lookup file"),
                );
            }
        }
    }
}

/// Warns about missing lossless priority groups of a port, for the case that no lookup file is given.
fn warn_missing_groups(context: &mut ResolveContext<'_>, groups: &MissingPriorityGroups) {
    context.noted_groups.insert(groups.port.clone(), groups.groups);
    let text = format!(
        "PFC without headroom: BUFFER_PG|PORT|{} is missing. SONiC's buffermgrd would create {} from the SKU's \
         pg_profile_lookup.ini and bind it; {SUGGESTION}",
        groups.group_ranges().join(", BUFFER_PG|PORT|"),
        groups.profile_name(),
    );
    context.warn_port(&groups.port, text);
}

/// Warns that the lookup file has no row for the speed and the cable length of a port.
fn warn_missing_row(
    context: &mut ResolveContext<'_>,
    lookup: &PgProfileLookup,
    groups: &MissingPriorityGroups,
) {
    context.noted_groups.insert(groups.port.clone(), groups.groups);
    let text = format!(
        "PFC without headroom: {} has no row for {} Mb/s and a cable of {}, so SONiC creates no profile for priority \
         groups {} either; add a row, or correct CABLE_LENGTH or the speed",
        lookup.source(),
        groups.speed_mbps,
        groups.cable,
        groups.group_ranges().join(", "),
    );
    context.warn_port(&groups.port, text);
}

/// Adds a note that the generated profile replaces the profile `former` of a `BUFFER_PG` entry.
fn note_replaced_profile(
    context: &mut ResolveContext<'_>,
    lookup: &PgProfileLookup,
    groups: &MissingPriorityGroups,
    former: &str,
) {
    let text = format!(
        "its lossless groups get profile {} of {} instead of {former}, as SONiC's buffermgrd replaces it",
        groups.profile_name(),
        lookup.source()
    );
    context.warn_port(&groups.port, text);
}

/// Adds a note about lossless priority groups that keep their own profile. Their `BUFFER_PG` key differs from
/// the key that `buffermgrd` generates, so the entry is not replaced.
fn note_kept_profiles(
    context: &mut ResolveContext<'_>,
    groups: &MissingPriorityGroups,
    lossless: u8,
    bound: &BTreeMap<u8, &str>,
) {
    let Some(lookup) = &context.options.pg_profiles else {
        return;
    };
    let generated = groups.profile_name();
    if lookup.find_row(groups.speed_mbps, &groups.cable).is_none() {
        return;
    }
    let mut kept: Vec<&str> = (0..8)
        .filter(|number| lossless & !groups.groups & (1 << number) != 0)
        .filter_map(|number| bound.get(&number).copied())
        .filter(|profile| *profile != generated)
        .collect();
    kept.dedup();
    for profile in kept {
        let text = format!(
            "its lossless groups keep profile {profile} as written; SONiC's buffermgrd would bind {generated} of {}",
            lookup.source()
        );
        context.warn_port(&groups.port, text);
    }
}
