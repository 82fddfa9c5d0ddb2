//! What connects the ports.

use xoff_dataplane::config::{Bridging, PortConfig, Tagging, VlanConfig, VlanMember};

use super::context::Context;
use crate::config::problem::Problem;
use crate::config::schema;

const MEMBER: &str = "VLAN_MEMBER";

pub(super) fn resolve(context: &mut Context<'_>, ports: &[PortConfig]) -> Bridging {
    let db = context.db;
    let has = |table: &str| db.entries(table).next().is_some();
    if !has("VLAN") && !has("INTERFACE") {
        return Bridging::Transparent;
    }
    let mut vlans = Vec::new();
    for (key, _) in db.entries("VLAN") {
        let Some(id) = schema::parse_vlan(key) else {
            continue;
        };
        if let Some(vlanid) = context.number("VLAN", key, "vlanid")
            && vlanid != u64::from(id)
        {
            let problem = Problem::at("VLAN", key, "vlanid", format!("the key says {id}, expected {id}"));
            context.problem(problem.value(vlanid.to_string()));
        }
        vlans.push(VlanConfig {
            id,
            members: members(context, key),
        });
    }
    at_most_one_untagged(context, ports, &vlans);
    let mut used = vec![false; ports.len()];
    for member in vlans.iter().flat_map(|vlan| &vlan.members) {
        used[usize::from(member.port)] = true;
    }
    for (port, used) in ports.iter().zip(used) {
        if port.admin_up && !used {
            context.warn_port(
                &port.name,
                "in no VLAN: it forwards nothing (routing is not implemented)",
            );
        }
    }
    Bridging::Vlans(vlans)
}

fn members(context: &mut Context<'_>, vlan: &str) -> Vec<VlanMember> {
    let db = context.db;
    let mut members = Vec::new();
    for (key, _) in db.entries(MEMBER) {
        let Some((_, port_name)) = key.split_once('|').filter(|(of, _)| *of == vlan) else {
            continue;
        };
        let Some(port) = context.port(port_name) else {
            continue;
        };
        if db.entry("INTERFACE", port_name).is_some() {
            let why = format!("{port_name} is a routed port, INTERFACE has it");
            context.problem(Problem::at(MEMBER, key, "", why).fix("remove one of the two"));
        }
        let tagging = match context.text(MEMBER, key, "tagging_mode") {
            Some("untagged") => Tagging::Untagged,
            Some("priority_tagged") => Tagging::PriorityTagged,
            _ => Tagging::Tagged,
        };
        members.push(VlanMember {
            port: port as u16,
            tagging,
        });
    }
    members
}

/// An untagged frame belongs to one VLAN: more than one claim to it is a contradiction.
fn at_most_one_untagged(context: &mut Context<'_>, ports: &[PortConfig], vlans: &[VlanConfig]) {
    let mut first: Vec<Option<u16>> = vec![None; ports.len()];
    for vlan in vlans {
        for member in vlan
            .members
            .iter()
            .filter(|member| member.tagging != Tagging::Tagged)
        {
            let (port, claimed) = (
                &ports[usize::from(member.port)].name,
                &mut first[usize::from(member.port)],
            );
            match *claimed {
                None => *claimed = Some(vlan.id),
                Some(other) => {
                    let key = format!("Vlan{}|{port}", vlan.id);
                    let why = format!("untagged frames of {port} belong to Vlan{other} already");
                    let problem = Problem::at(MEMBER, &key, "tagging_mode", why);
                    context.problem(problem.fix("make all but one tagged"));
                }
            }
        }
    }
}
