//! Bridging: VLANs and their members.

use xoff_dataplane::config::{
    BridgingConfig, LagConfig, PortConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};

use super::context::ResolveContext;
use super::interfaces::is_interface;
use crate::problem::Problem;
use crate::schema;

const MEMBER_TABLE: &str = "VLAN_MEMBER";

/// Resolves the bridging of the switch. Without VLANs and without interfaces of ports or LAGs, the switch is
/// one bridge that ignores VLAN tags.
pub(super) fn resolve_bridging(
    context: &mut ResolveContext<'_>,
    ports: &[PortConfig],
    lags: &[LagConfig],
) -> BridgingConfig {
    let db = context.db;
    let has = |table: &str| db.entries(table).next().is_some();
    if !has("VLAN") && !has("INTERFACE") && !has("PORTCHANNEL_INTERFACE") {
        return BridgingConfig::Transparent;
    }
    let mut vlans = Vec::new();
    for (key, _) in db.entries("VLAN") {
        let Some(id) = schema::parse_vlan_id(key) else {
            continue;
        };
        if let Some(vlanid) = context.number("VLAN", key, "vlanid")
            && vlanid != u64::from(id)
        {
            let problem = Problem::at_field("VLAN", key, "vlanid", format!("expected {id}, as in the key"));
            context.report_error_within_entry(problem.with_value(vlanid.to_string()));
        }
        vlans.push(VlanConfig {
            id,
            members: resolve_members(context, key, lags),
        });
    }
    let names: Vec<&str> = ports
        .iter()
        .map(|port| port.name.as_str())
        .chain(lags.iter().map(|lag| lag.name.as_str()))
        .collect();
    check_untagged_members(context, &names, &vlans);
    warn_unused_ports(context, ports, lags, &vlans);
    BridgingConfig::Vlans(vlans)
}

/// Warns about ports and LAGs that are up but not in use.
fn warn_unused_ports(
    context: &mut ResolveContext<'_>,
    ports: &[PortConfig],
    lags: &[LagConfig],
    vlans: &[VlanConfig],
) {
    let mut used = vec![false; ports.len() + lags.len()];
    for member in vlans.iter().flat_map(|vlan| &vlan.members) {
        used[usize::from(member.port)] = true;
    }
    for member in lags.iter().flat_map(|lag| &lag.members) {
        used[usize::from(*member)] = true;
    }
    for (port, used) in ports.iter().zip(&used) {
        if port.admin_up && !used && !is_interface(context.db, "INTERFACE", &port.name) {
            context.warn_port(
                &port.name,
                "the port is in no VLAN, LAG or INTERFACE and forwards nothing",
            );
        }
    }
    for (lag, used) in lags.iter().zip(&used[ports.len()..]) {
        if lag.admin_up && !used && !is_interface(context.db, "PORTCHANNEL_INTERFACE", &lag.name) {
            let text = "the LAG is in no VLAN or PORTCHANNEL_INTERFACE and forwards nothing";
            context.warn_entry("PORTCHANNEL", &lag.name, text);
        }
    }
}

/// Resolves the members of a VLAN. In the result, the numbers of LAGs follow the numbers of all ports.
fn resolve_members(
    context: &mut ResolveContext<'_>,
    vlan: &str,
    lags: &[LagConfig],
) -> Vec<VlanMemberConfig> {
    let db = context.db;
    let mut members = Vec::new();
    for (key, _) in db.entries(MEMBER_TABLE) {
        let Some((_, name)) = key.split_once('|').filter(|(of, _)| *of == vlan) else {
            continue;
        };
        let port = context.port_index(name);
        let lag = context.lag_index(name).map(|lag| context.ports.len() + lag);
        let Some(index) = port.or(lag) else {
            continue;
        };
        if is_interface(db, "INTERFACE", name) {
            let why = format!("{name} is a routed port with an entry in INTERFACE");
            context.report_entry_contradiction(
                Problem::at_field(MEMBER_TABLE, key, "", why).with_fix("remove one of the two"),
            );
        }
        if is_interface(db, "PORTCHANNEL_INTERFACE", name) {
            let why = format!("{name} is a routed LAG with an entry in PORTCHANNEL_INTERFACE");
            context.report_entry_contradiction(
                Problem::at_field(MEMBER_TABLE, key, "", why).with_fix("remove one of the two"),
            );
        }
        if let Some(lag) = lags.iter().find(|lag| lag.members.contains(&(index as u16))) {
            let why = format!("{name} is a member of {}", lag.name);
            context.report_entry_contradiction(
                Problem::at_field(MEMBER_TABLE, key, "", why).with_fix("make the LAG the member"),
            );
        }
        let tagging = match context.text(MEMBER_TABLE, key, "tagging_mode") {
            Some("untagged") => TaggingMode::Untagged,
            Some("priority_tagged") => TaggingMode::PriorityTagged,
            _ => TaggingMode::Tagged,
        };
        members.push(VlanMemberConfig {
            port: index as u16,
            tagging,
        });
    }
    members
}

/// Checks that each port and LAG is an untagged member of at most one VLAN. `names` contains the ports,
/// followed by the LAGs.
fn check_untagged_members(context: &mut ResolveContext<'_>, names: &[&str], vlans: &[VlanConfig]) {
    let mut first: Vec<Option<u16>> = vec![None; names.len()];
    for vlan in vlans {
        for member in vlan
            .members
            .iter()
            .filter(|member| member.tagging != TaggingMode::Tagged)
        {
            let (port, claimed) = (
                names[usize::from(member.port)],
                &mut first[usize::from(member.port)],
            );
            match *claimed {
                None => *claimed = Some(vlan.id),
                Some(other) => {
                    let key = format!("Vlan{}|{port}", vlan.id);
                    let why = format!("untagged frames of {port} belong to Vlan{other} already");
                    let problem = Problem::at_field(MEMBER_TABLE, &key, "tagging_mode", why);
                    context.report_entry_contradiction(problem.with_fix("make all but one tagged"));
                }
            }
        }
    }
}
