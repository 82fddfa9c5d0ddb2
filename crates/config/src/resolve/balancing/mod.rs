//! Load balancing: the tables `XOFF_LB...` and SONiC's ARS tables.

mod ars;
mod load;
mod schemes;
mod tags;

use xoff_dataplane::config::{
    AdvertiseConfig, BalancingConfig, LagConfig, LoadConfig, MemberSelection, SchemeConfig, SchemeKind,
};
use xoff_dataplane::route::RouteTag;
use xoff_units::{Picos, nearest_name};

use self::schemes::SchemeList;
pub(super) use self::schemes::{scheme_exists, suggest_scheme};
use self::tags::RouteTags;
use super::acl::{self, AclExemption};
use super::context::ResolveContext;
use super::hash_fields;
use crate::problem::Problem;
use crate::schema::{self, LB_GLOBAL};

const GLOBAL_TABLE: &str = "XOFF_LB";
const PORTCHANNEL_TABLE: &str = "XOFF_LB_PORTCHANNEL";

/// Name of the default scheme, which needs no entry in the list of schemes.
const DEFAULT_SCHEME: &str = "ecmp";
/// Name of the scheme with a static hash that also includes the destination queue pair of RoCEv2.
const DEFAULT_SCHEME_WITH_QP: &str = "ecmp-qp";
/// Default number of flow moves that are kept for `show load-balancing moves`.
const MOVES_KEPT: u64 = 256;
/// Default time between link quality messages in us, equal to the sampling interval of SAI.
const ADVERTISE_INTERVAL_US: u64 = 16;

/// The load balancing of the switch, and the tags of its routes. A tag contains the scheme and the site of a
/// route. A site is the number of the leaf behind which the destinations are.
pub(super) struct ResolvedBalancing {
    pub(super) config: BalancingConfig,
    tags: RouteTags,
}

impl ResolvedBalancing {
    /// Returns the tag (site and scheme) of routes to a prefix.
    pub(super) fn route_tag(&self, prefix: ipnet::IpNet) -> RouteTag {
        self.tags.tag_of(prefix)
    }
}

/// Resolves all tables of load balancing.
pub(super) fn resolve_balancing(context: &mut ResolveContext<'_>, lags: &[LagConfig]) -> ResolvedBalancing {
    let mut schemes = SchemeList::from_config(context);
    let profile = context.db.keys("ARS_PROFILE").next();
    let mut ars = ars::resolve_ars(context, lags, &mut schemes).unwrap_or_default();
    let default_scheme = match context.text(GLOBAL_TABLE, LB_GLOBAL, "scheme") {
        None if ars.default_scheme.is_some() => ars.default_scheme,
        None if hash_fields::hashes_queue_pairs(context, "ecmp_hash") => {
            schemes.index_of_name(DEFAULT_SCHEME_WITH_QP)
        }
        None => None,
        Some(name) if schemes.is_default_scheme(name) => None,
        Some(name) => schemes.index_of_name(name),
    };
    let lags = resolve_lag_schemes(context, &mut schemes, core::mem::take(&mut ars.lags));
    let mut tags = RouteTags::from_config(context, &mut schemes);
    tags.set_static_hash_by_ip_version(ars.hashed, &mut schemes);
    let load = ars::apply_profile_to_load(context, LoadConfig::default());
    let load = load::apply_load_table(context, load);
    load::check_weights(context, &load, profile);
    let exempt = acl::resolve_exemptions(context, AclExemption::Ars);
    let schemes = schemes.into_list();
    let advertise = resolve_advertising(context, &schemes);
    if !schemes.iter().any(|scheme| scheme.kind != SchemeKind::Hash) && advertise.is_none() {
        // If no scheme uses sites, sites would only split groups.
        tags.forget_sites();
    }
    let number = |field: &str| context.number(GLOBAL_TABLE, LB_GLOBAL, field);
    let moves_kept = match schemes.is_empty() {
        true => 0,
        false => number("moves_kept").unwrap_or(MOVES_KEPT),
    };
    ResolvedBalancing {
        config: BalancingConfig {
            default_scheme,
            lags,
            ports: ars.ports,
            next_hops: ars.next_hops,
            load,
            exempt,
            advertise,
            reordering_flows: number("reordering_flows").unwrap_or(0) as u32,
            moves_kept: moves_kept as u32,
            schemes,
        },
        tags,
    }
}

/// Returns the scheme of each LAG, in the order of [`ResolveContext::lags`]. A scheme in
/// `XOFF_LB_PORTCHANNEL` takes precedence over an ARS object. The list is empty if no LAG has a scheme.
fn resolve_lag_schemes(
    context: &mut ResolveContext<'_>,
    schemes: &mut SchemeList,
    ars: Vec<Option<u16>>,
) -> Vec<Option<u16>> {
    let names = context.lags.clone();
    let with_qp = ars.is_empty() && hash_fields::hashes_queue_pairs(context, "lag_hash");
    let only_routes = !with_qp && hash_fields::hashes_queue_pairs(context, "ecmp_hash");
    let hashed = match (with_qp, only_routes) {
        (true, _) => schemes.index_of_name(DEFAULT_SCHEME_WITH_QP),
        // The hash fields of routes do not apply to LAGs.
        (false, true) if context.text(GLOBAL_TABLE, LB_GLOBAL, "scheme").is_none() => {
            schemes.index_of_name(DEFAULT_SCHEME)
        }
        (false, _) => None,
    };
    let own = |(index, lag): (usize, &str)| match context.text(PORTCHANNEL_TABLE, lag, "scheme") {
        Some(name) => schemes.index_of_name(name),
        None => ars.get(index).copied().flatten().or(hashed),
    };
    let lags: Vec<Option<u16>> = names.into_iter().enumerate().map(own).collect();
    match lags.iter().any(Option::is_some) {
        true => lags,
        false => Vec::new(),
    }
}

/// Resolves the link quality messages, which the switch sends to other switches. Returns `None` if it sends
/// no messages.
///
/// The messages list the sites that the switch cannot reach. The messages also contain the load of paths if
/// the field `advertise` is `on`. With `auto`, the messages contain the load if a scheme of the switch uses
/// the loads of other switches.
fn resolve_advertising(
    context: &mut ResolveContext<'_>,
    schemes: &[SchemeConfig],
) -> Option<AdvertiseConfig> {
    const PORTS: &str = "advertise_ports";
    let list = context.text(GLOBAL_TABLE, LB_GLOBAL, PORTS).unwrap_or("");
    let mut ports = Vec::new();
    for name in schema::split_list(list) {
        match context.port_index(name) {
            Some(port) => ports.push(port as u16),
            None => {
                let problem =
                    Problem::at_field(GLOBAL_TABLE, LB_GLOBAL, PORTS, format!("there is no port {name}"));
                let nearest = nearest_name(name, context.ports.iter().map(String::as_str));
                let problem = match nearest {
                    Some(meant) => problem.with_fix(format!("did you mean {meant}?")),
                    None => problem.with_fix("add it to PORT, or remove it from the list"),
                };
                context.report_entry_contradiction(problem.with_value(list));
            }
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let loads = match context.text(GLOBAL_TABLE, LB_GLOBAL, "advertise") {
        Some("on") => true,
        Some("ways") => false,
        Some("off") => return None,
        _ => schemes.iter().any(uses_remote_load),
    };
    if ports.is_empty() && !loads {
        return None;
    }
    if ports.is_empty() {
        let why = "no link quality messages are sent: advertise_ports is empty";
        context.warn_entry(GLOBAL_TABLE, LB_GLOBAL, why);
        return None;
    }
    let interval = context
        .number(GLOBAL_TABLE, LB_GLOBAL, "advertise_interval")
        .unwrap_or(ADVERTISE_INTERVAL_US);
    Some(AdvertiseConfig {
        interval: Picos::from_micros(interval),
        ports,
        loads,
    })
}

/// Returns whether a scheme uses the load that other switches advertise.
fn uses_remote_load(scheme: &SchemeConfig) -> bool {
    let pick = match scheme.kind {
        SchemeKind::Flowlet { pick, .. } | SchemeKind::PerPacket { pick } | SchemeKind::Fixed { pick } => {
            pick
        }
        _ => return false,
    };
    matches!(pick, MemberSelection::Global { .. } | MemberSelection::PathLoad)
}
