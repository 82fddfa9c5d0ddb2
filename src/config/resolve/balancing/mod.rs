//! Load balancing: `XOFF_LB` and its sisters, and SONiC's ARS tables.

mod load;
mod schemes;
mod tags;

use xoff_dataplane::Picos;
use xoff_dataplane::config::{AdvertiseConfig, BalancingConfig, LoadConfig, Pick, SchemeConfig, SchemeKind};
use xoff_dataplane::route::RouteTag;

use self::schemes::Schemes;
pub(super) use self::schemes::{exists, unknown};
use self::tags::Tags;
use super::context::Context;
use crate::config::problem::Problem;
use crate::config::schema::{self, LB_GLOBAL};

const WHOLE: &str = "XOFF_LB";
const PORTCHANNEL: &str = "XOFF_LB_PORTCHANNEL";

/// The scheme that the router has by itself.
const PLAIN: &str = "ecmp";
/// Moves kept for `show load-balancing moves`.
const MOVES_KEPT: u64 = 256;
/// Time between advertisements: that of SAI's samples.
const ADVERTISE_US: u64 = 16;

/// Load balancing of the switch, and what its routes have to do with it.
pub(super) struct Balancing {
    pub(super) config: BalancingConfig,
    tags: Tags,
}

impl Balancing {
    /// What is said of routes to a prefix.
    pub(super) fn tag(&self, prefix: ipnet::IpNet) -> RouteTag {
        self.tags.of(prefix)
    }
}

pub(super) fn resolve(context: &mut Context<'_>) -> Balancing {
    let mut schemes = Schemes::read(context);
    let default_scheme =
        context
            .text(WHOLE, LB_GLOBAL, "scheme")
            .and_then(|name| match schemes.is_plain(name) {
                true => None,
                false => schemes.index(name),
            });
    let lags = lags(context, &mut schemes);
    let mut tags = Tags::read(context, &mut schemes);
    let load = load::resolve(context, LoadConfig::default());
    let schemes = schemes.into_list();
    let advertise = advertise(context, &schemes);
    if !schemes.iter().any(|scheme| scheme.kind != SchemeKind::Hash) && advertise.is_none() {
        // Where nothing asks for them, sites would only split groups.
        tags.forget_sites();
    }
    let number = |field: &str| context.number(WHOLE, LB_GLOBAL, field);
    let moves_kept = match schemes.is_empty() {
        true => 0,
        false => number("moves_kept").unwrap_or(MOVES_KEPT),
    };
    Balancing {
        config: BalancingConfig {
            default_scheme,
            lags,
            load,
            advertise,
            reordering_flows: number("reordering_flows").unwrap_or(0) as u32,
            moves_kept: moves_kept as u32,
            schemes,
            ..BalancingConfig::default()
        },
        tags,
    }
}

/// The scheme of each LAG, by its index in [`Context::lags`].
fn lags(context: &mut Context<'_>, schemes: &mut Schemes) -> Vec<Option<u16>> {
    let scheme = |lag: &&str| context.text(PORTCHANNEL, lag, "scheme");
    let said: Vec<Option<&str>> = context.lags.iter().map(scheme).collect();
    said.into_iter().map(|name| schemes.index(name?)).collect()
}

/// What the switch tells others: if it is told to, or if a scheme of its own listens to them.
fn advertise(context: &mut Context<'_>, schemes: &[SchemeConfig]) -> Option<AdvertiseConfig> {
    const PORTS: &str = "advertise_ports";
    let list = context.text(WHOLE, LB_GLOBAL, PORTS).unwrap_or("");
    let mut ports = Vec::new();
    for name in schema::items(list) {
        match context.port(name) {
            Some(port) => ports.push(port as u16),
            None => {
                let problem = Problem::at(WHOLE, LB_GLOBAL, PORTS, format!("there is no port {name}"));
                let nearest = schema::nearest(name, context.ports.iter().map(String::as_str));
                let problem = match nearest {
                    Some(meant) => problem.fix(format!("did you mean {meant}?")),
                    None => problem.fix("add it to PORT, or take it out of the list"),
                };
                context.problem(problem.value(list));
            }
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let on = match context.text(WHOLE, LB_GLOBAL, "advertise") {
        Some("on") => true,
        Some("off") => false,
        _ => schemes.iter().any(listens),
    };
    if !on {
        return None;
    }
    if ports.is_empty() {
        let why = "neighbours are told nothing: advertise_ports names no port towards another switch";
        context.warn_entry(WHOLE, LB_GLOBAL, why);
        return None;
    }
    let interval = context
        .number(WHOLE, LB_GLOBAL, "advertise_interval")
        .unwrap_or(ADVERTISE_US);
    Some(AdvertiseConfig {
        interval: Picos::from_micros(interval),
        ports,
    })
}

/// Whether a scheme weighs what other switches tell.
fn listens(scheme: &SchemeConfig) -> bool {
    let pick = match scheme.kind {
        SchemeKind::Flowlet { pick, .. } | SchemeKind::PerPacket { pick } | SchemeKind::Fixed { pick } => {
            pick
        }
        _ => return false,
    };
    matches!(pick, Pick::Global { .. } | Pick::PathLoad)
}
