//! SONiC's tables for adaptive routing and switching (ARS). The tables define which load balancing groups
//! select a member (a next hop, or a port of a LAG) by path quality, and how the quality is measured.
//!
//! | mode | load balancing groups with a scheme | members with a quality |
//! |---|---|---|
//! | `interface` | groups with a port of `ARS_INTERFACES` | these ports |
//! | `global` | as `interface`, or all groups if `ARS_INTERFACES` is empty | as `interface`, or all ports |
//! | `nexthop` | groups with a next hop of `ARS_NEXTHOPS` | these next hops |
//!
//! The field `ars_nhg_path_selector_mode` contains the mode for next-hop groups, and
//! `ars_lag_path_selector_mode` contains the mode for LAGs. Groups without ARS use a static hash.

use std::net::IpAddr;

use xoff_dataplane::config::{
    LagConfig, LoadConfig, LoadMeasure, MemberSelection, NextHopBalancing, PortBalancing, SchemeConfig,
    SchemeKind,
};
use xoff_units::Picos;

use super::super::context::ResolveContext;
use super::schemes::SchemeList;
use crate::problem::Problem;
use crate::schema;

const PROFILE: &str = "ARS_PROFILE";
const OBJECT: &str = "ARS_OBJECT";
const INTERFACES: &str = "ARS_INTERFACES";
const NEXT_HOPS: &str = "ARS_NEXTHOPS";
const PORTCHANNELS: &str = "ARS_PORTCHANNELS";

/// Speed in Mb/s of a port with the scaling factor 1. The load of a port is divided by the scaling factor of
/// the port, and the result is compared with the limits.
const MBPS_PER_FACTOR: u64 = 10_000;
const IDLE_TIME_US: u64 = 256;
const FLOWS_DEFAULT: u64 = 512;
const FLOWSET_RANGE: std::ops::RangeInclusive<u64> = 256..=32_768;

/// The resolved ARS tables.
#[derive(Debug, Default)]
pub(super) struct ResolvedArs {
    /// Index of the scheme for groups without a scheme of their own. `None`: the profile selects no scheme
    /// for these groups.
    pub(super) default_scheme: Option<u16>,
    pub(super) ports: Vec<PortBalancing>,
    pub(super) next_hops: Vec<NextHopBalancing>,
    /// Indexed by LAG. Index of the scheme of the LAG.
    pub(super) lags: Vec<Option<u16>>,
    /// For IPv4 and IPv6: whether the profile disables ARS. Routes without a scheme of their own then use the
    /// static hash.
    pub(super) hashed: [bool; 2],
}

/// Resolves the ARS tables. Returns `None` if `ARS_PROFILE` has no entry.
pub(super) fn resolve_ars(
    context: &mut ResolveContext<'_>,
    lags: &[LagConfig],
    schemes: &mut SchemeList,
) -> Option<ResolvedArs> {
    let profile = find_single_ars_profile(context)?;
    let text = |field: &str| context.text(PROFILE, profile, field);
    let default = text("default_ars_object");
    let mode = text("ars_nhg_path_selector_mode").unwrap_or("interface");
    let lag_mode = text("ars_lag_path_selector_mode").unwrap_or("interface");
    let enabled = |field: &str| text(field) != Some("false");
    let hashed = [!enabled("ipv4_enable"), !enabled("ipv6_enable")];
    let mut objects = ArsObjects { default, schemes };
    let mut ars = ResolvedArs {
        ports: resolve_ars_interfaces(context, &mut objects, mode),
        lags: vec![None; lags.len()],
        hashed,
        ..ResolvedArs::default()
    };
    let selected: Vec<bool> = (0..context.ports.len())
        .map(|port| has_ars_interface(context, port))
        .collect();
    let everywhere = mode == "global" && !selected.contains(&true);
    if everywhere {
        ars.default_scheme = objects.scheme_of(context, PROFILE, profile, None);
    }
    resolve_ars_next_hops(context, &mut objects, mode, &mut ars);
    for (lag, scheme) in lags.iter().zip(&mut ars.lags) {
        let mut members = lag.members.iter().map(|port| usize::from(*port));
        let takes_part =
            members.clone().any(|port| selected[port]) || (lag_mode == "global" && !selected.contains(&true));
        let has_port_scheme =
            members.any(|port| ars.ports.get(port).is_some_and(|port| port.scheme.is_some()));
        *scheme = match (takes_part, has_port_scheme) {
            // The schemes of the member ports apply. Member ports without a scheme are left out.
            (true, true) => None,
            (true, false) => objects.scheme_of(context, PROFILE, profile, None),
            (false, _) => objects.schemes.index_of_name(super::DEFAULT_SCHEME),
        };
    }
    resolve_alternate_members(context, lags, &mut ars.ports);
    Some(ars)
}

/// Returns the key of the only entry of `ARS_PROFILE`. Reports an error for a second entry. If no entry
/// exists, warns about entries of the other ARS tables and returns `None`.
fn find_single_ars_profile<'a>(context: &mut ResolveContext<'a>) -> Option<&'a str> {
    let mut profiles = context.db.keys(PROFILE);
    let first = profiles.next();
    if let Some(second) = profiles.next() {
        let why = format!(
            "there is a profile {} already, and only one profile is possible",
            first.unwrap_or_default()
        );
        context.report_entry_contradiction(
            Problem::at_field(PROFILE, second, "", why).with_fix("remove one of the two"),
        );
    }
    if first.is_none() {
        for table in [OBJECT, INTERFACES, NEXT_HOPS, PORTCHANNELS] {
            for key in context.db.keys(table) {
                context.warn_entry(table, key, "no effect: there is no ARS_PROFILE");
            }
        }
    }
    first
}

/// Converts ARS objects into schemes.
struct ArsObjects<'a, 's> {
    default: Option<&'a str>,
    schemes: &'s mut SchemeList,
}

impl ArsObjects<'_, '_> {
    /// Returns the index of the scheme for an entry. `name` is the ARS object in the entry. If `name` is
    /// `None`, the default object of the profile is used. Returns `None` if no such object exists.
    fn scheme_of(
        &mut self,
        context: &mut ResolveContext<'_>,
        table: &str,
        key: &str,
        name: Option<&str>,
    ) -> Option<u16> {
        let Some(name) = name.or(self.default) else {
            let (field, fix) = match table {
                PROFILE => ("default_ars_object", "name an entry of ARS_OBJECT"),
                _ => (
                    "ars_obj_name",
                    "name an entry of ARS_OBJECT here, or in ARS_PROFILE default_ars_object",
                ),
            };
            let why = "the field is missing: it selects how flows are assigned";
            context.report_entry_contradiction(Problem::at_field(table, key, field, why).with_fix(fix));
            return None;
        };
        // The check of references has already reported a missing object.
        context.db.entry(OBJECT, name)?;
        Some(self.schemes.index_of_scheme(scheme_of_object(context, name)))
    }
}

/// Creates the scheme of an ARS object.
fn scheme_of_object(context: &mut ResolveContext<'_>, name: &str) -> SchemeConfig {
    let number = |field: &str| context.number(OBJECT, name, field);
    let idle = number("flowlet_idle_time").unwrap_or(IDLE_TIME_US);
    let per_packet = context.text(OBJECT, name, "assign_mode") == Some("per_packet_quality");
    let flows = number("max_flows").unwrap_or(FLOWS_DEFAULT);
    let entries = flows
        .next_power_of_two()
        .clamp(*FLOWSET_RANGE.start(), *FLOWSET_RANGE.end());
    let (threshold, cost) = (number("primary_path_threshold"), number("alternative_path_cost"));
    if entries != flows && !per_packet {
        let entries = xoff_units::count_noun(entries, "entry");
        let text = format!("max_flows {flows}: the flow table of each group has {entries}");
        context.warn_entry(OBJECT, name, text);
    }
    let kind = match per_packet {
        true => SchemeKind::PerPacket {
            pick: MemberSelection::Quality,
        },
        false => SchemeKind::Flowlet {
            idle: Picos::from_micros(idle),
            pick: MemberSelection::Quality,
            rebalance: None,
        },
    };
    SchemeConfig {
        flowset_entries: entries as u32,
        primary_threshold: threshold.unwrap_or(16).min(255) as u8,
        alternate_cost: cost.unwrap_or(0).min(255) as u8,
        ..SchemeConfig::new(name, kind)
    }
}

/// Returns whether ARS is enabled on a port.
fn has_ars_interface(context: &ResolveContext<'_>, port: usize) -> bool {
    context.db.entry(INTERFACES, &context.ports[port]).is_some()
}

/// Resolves `ARS_INTERFACES`: the scheme and the scaling factor of each port.
fn resolve_ars_interfaces(
    context: &mut ResolveContext<'_>,
    objects: &mut ArsObjects<'_, '_>,
    mode: &str,
) -> Vec<PortBalancing> {
    let mut ports = vec![PortBalancing::default(); context.ports.len()];
    for key in context.db.keys(INTERFACES) {
        let Some(port) = context.port_index(key) else {
            continue;
        };
        let factor = context.number(INTERFACES, key, "scaling_factor").unwrap_or(0);
        let own = context.text(INTERFACES, key, "ars_obj_name");
        ports[port] = PortBalancing {
            scheme: match mode {
                "interface" => objects.scheme_of(context, INTERFACES, key, own),
                "global" => objects.scheme_of(context, INTERFACES, key, None),
                _ => None,
            },
            scale_mbps: (factor * MBPS_PER_FACTOR) as u32,
            alternate_in_lag: false,
        };
        if let (Some(own), "global" | "nexthop") = (own, mode) {
            let text = format!("ars_obj_name {own:?} has no effect: ars_nhg_path_selector_mode is {mode}");
            context.warn_entry(INTERFACES, key, text);
        }
    }
    ports
}

/// Resolves `ARS_NEXTHOPS`.
fn resolve_ars_next_hops(
    context: &mut ResolveContext<'_>,
    objects: &mut ArsObjects<'_, '_>,
    mode: &str,
    ars: &mut ResolvedArs,
) {
    for key in context.db.keys(NEXT_HOPS) {
        let Some((vrf, address)) = key.split_once('|') else {
            continue;
        };
        if vrf != "default" {
            let why = format!("VRFs are not implemented, expected default|{address}");
            context.report_entry_contradiction(Problem::at_field(NEXT_HOPS, key, "", why));
            continue;
        }
        let Ok(address) = address.parse::<IpAddr>() else {
            continue;
        };
        let own = context.text(NEXT_HOPS, key, "ars_obj_name");
        let scheme = match mode {
            "nexthop" => objects.scheme_of(context, NEXT_HOPS, key, own),
            _ => {
                if let Some(own) = own {
                    let text =
                        format!("ars_obj_name {own:?} has no effect: ars_nhg_path_selector_mode is {mode}");
                    context.warn_entry(NEXT_HOPS, key, text);
                }
                None
            }
        };
        ars.next_hops.push(NextHopBalancing {
            address,
            scheme,
            alternate: context.text(NEXT_HOPS, key, "role") == Some("alternative_path"),
        });
    }
}

/// Resolves `ARS_PORTCHANNELS`: alternate members of LAGs. The switch uses alternate members only if the
/// primary members have a worse quality.
fn resolve_alternate_members(
    context: &mut ResolveContext<'_>,
    lags: &[LagConfig],
    ports: &mut [PortBalancing],
) {
    const FIELD: &str = "alternative_path_members";
    for key in context.db.keys(PORTCHANNELS) {
        let list = context.text(PORTCHANNELS, key, FIELD).unwrap_or("");
        for name in schema::split_list(list) {
            let of_lag = lags.iter().find(|lag| lag.name == key);
            let is_member = |port: usize| of_lag.is_some_and(|lag| lag.members.contains(&(port as u16)));
            if let Some(port) = context.port_index(name).filter(|port| is_member(*port)) {
                ports[port].alternate_in_lag = true;
            } else {
                let problem = Problem::at_field(
                    PORTCHANNELS,
                    key,
                    FIELD,
                    format!("{name} is not a member of {key}"),
                );
                context.report_entry_contradiction(
                    problem
                        .with_value(list)
                        .with_fix("name ports of PORTCHANNEL_MEMBER"),
                );
            }
        }
    }
}

/// Returns `load` with the load measurement of the entry in `ARS_PROFILE`.
///
/// Limits are in Mb/s of a port with the scaling factor 1, which has 10 Gb/s. One permille is therefore 10
/// Mb/s. If both limits are 0, which is the default, the limits of `load` do not change.
pub(super) fn apply_profile_to_load(context: &mut ResolveContext<'_>, mut load: LoadConfig) -> LoadConfig {
    let Some(profile) = context.db.keys(PROFILE).next() else {
        return load;
    };
    if let Some(micros) = context.number(PROFILE, profile, "sampling_interval") {
        load.interval = Picos::from_micros(micros);
    }
    for (name, measure) in [
        ("past", &mut load.past),
        ("future", &mut load.future),
        ("current", &mut load.current),
    ] {
        apply_measure_fields(context, profile, name, measure);
    }
    load
}

/// Applies the weight and the limits of one measure.
fn apply_measure_fields(
    context: &mut ResolveContext<'_>,
    profile: &str,
    name: &str,
    measure: &mut LoadMeasure,
) {
    let number = |field: &str| context.number(PROFILE, profile, &format!("{name}_load_{field}"));
    if let Some(weight) = number("weight") {
        measure.weight = weight as u32;
    }
    let (min, max) = (number("min_value").unwrap_or(0), number("max_value").unwrap_or(0));
    if (min, max) == (0, 0) {
        return;
    }
    if min >= max {
        let field = format!("{name}_load_min_value");
        let why = format!("{min} is not below {name}_load_max_value {max}");
        context.report_error_within_entry(
            Problem::at_field(PROFILE, profile, &field, why).with_fix("use a smaller value"),
        );
        return;
    }
    let permille = |mbps: u64| (mbps * 1_000 / MBPS_PER_FACTOR) as u32;
    measure.min_permille = permille(min);
    measure.max_permille = permille(max).max(permille(min) + 1);
}
