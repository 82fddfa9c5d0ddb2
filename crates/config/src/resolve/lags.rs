//! Link aggregation groups (LAGs) and their members.

use xoff_dataplane::config::{LagConfig, PortConfig};

use super::context::{LAG_TABLE, ResolveContext};
use super::interfaces::{MTU_MIN, is_interface};
use crate::problem::Problem;

const MEMBER_TABLE: &str = "PORTCHANNEL_MEMBER";

/// Resolves all LAGs, in the order of [`ResolveContext::lags`]. Member ports without an MTU get the MTU of
/// their LAG.
pub(super) fn resolve_lags(context: &mut ResolveContext<'_>, ports: &mut [PortConfig]) -> Vec<LagConfig> {
    let names = context.lags.clone();
    let mut member_of: Vec<Option<&str>> = vec![None; ports.len()];
    let mut lags = Vec::with_capacity(names.len());
    for name in names {
        let members = resolve_members(context, name, ports, &mut member_of);
        apply_lag_mtu(context, name, &members, ports);
        let min_links = context.number(LAG_TABLE, name, "min_links").unwrap_or(1);
        warn_about_lacp(context, name, members.len(), min_links);
        lags.push(LagConfig {
            name: name.to_owned(),
            admin_up: context.text(LAG_TABLE, name, "admin_status") == Some("up"),
            min_links: min_links as u16,
            members,
        });
    }
    lags
}

/// Resolves the members of a LAG and returns their port indices. `member_of` contains the LAG of each port
/// so far.
fn resolve_members<'a>(
    context: &mut ResolveContext<'a>,
    lag: &'a str,
    ports: &[PortConfig],
    member_of: &mut [Option<&'a str>],
) -> Vec<u16> {
    let db = context.db;
    let mut members: Vec<u16> = Vec::new();
    for (key, _) in db.entries(MEMBER_TABLE) {
        let Some((_, name)) = key.split_once('|').filter(|(of, _)| *of == lag) else {
            continue;
        };
        let Some(port) = context.port_index(name) else {
            continue;
        };
        if let Some(other) = member_of[port].replace(lag) {
            let why = format!("{name} is a member of {other} already");
            context.report_entry_contradiction(
                Problem::at_field(MEMBER_TABLE, key, "", why).with_fix("remove one of the two"),
            );
            continue;
        }
        if is_interface(db, "INTERFACE", name) {
            let why = format!("{name} is a routed port with an entry in INTERFACE");
            let fix = format!("remove it there; PORTCHANNEL_INTERFACE|{lag} makes the LAG an interface");
            context.report_entry_contradiction(Problem::at_field(MEMBER_TABLE, key, "", why).with_fix(fix));
        }
        if let Some(first) = members.first().map(|first| &ports[usize::from(*first)]) {
            let (ours, theirs) = (ports[port].link.speed_mbps, first.link.speed_mbps);
            if ours != theirs {
                let why = format!(
                    "{name} has {ours} Mb/s, but {} of the same LAG has {theirs} Mb/s",
                    first.name
                );
                context.report_entry_contradiction(
                    Problem::at_field(MEMBER_TABLE, key, "", why).with_fix("give all members one speed"),
                );
            }
        }
        members.push(port as u16);
    }
    members
}

/// Applies the MTU of a LAG to its member ports. As in SONiC's model, a member port must have the same MTU as
/// its LAG, or no MTU.
fn apply_lag_mtu(context: &mut ResolveContext<'_>, lag: &str, members: &[u16], ports: &mut [PortConfig]) {
    let Some(mtu) = context.number(LAG_TABLE, lag, "mtu") else {
        return;
    };
    if mtu < MTU_MIN {
        let why = format!("mtu {mtu} has no effect: Linux does not support an MTU below {MTU_MIN} bytes");
        context.warn_entry(LAG_TABLE, lag, why);
        return;
    }
    for member in members {
        let port = &mut ports[usize::from(*member)];
        match context.number("PORT", &port.name, "mtu") {
            Some(own) if own != mtu => {
                let why = format!("{lag}, the LAG of this port, has mtu {mtu}");
                let problem = Problem::at_field("PORT", &port.name, "mtu", why).with_value(own.to_string());
                context.report_entry_contradiction(
                    problem.with_fix("make them equal, or remove the mtu of the port"),
                );
            }
            _ => {
                let link = context.options.link_mtus.get(&port.name).copied();
                port.mtu = (mtu as u32).min(link.unwrap_or(u32::MAX));
            }
        }
    }
}

/// Warns about LAGs that would need LACP, and about LAGs that are never up.
fn warn_about_lacp(context: &mut ResolveContext<'_>, lag: &str, members: usize, min_links: u64) {
    if context.text(LAG_TABLE, lag, "static") != Some("true") {
        let why = "LACP is not implemented: a member is active while its link is up, even if its peer does \
                   not agree; set static to \"true\" to suppress this note";
        context.warn_entry(LAG_TABLE, lag, why);
    }
    if members == 0 {
        context.warn_entry(LAG_TABLE, lag, "the LAG has no member and is never up");
    } else if (members as u64) < min_links {
        let why =
            format!("min_links {min_links} exceeds the number of members, {members}: the LAG is never up");
        context.warn_entry(LAG_TABLE, lag, why);
    }
}
