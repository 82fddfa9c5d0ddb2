//! `SWITCH_TRIMMING`: the size, the DSCP and the queue of trimmed packets. If the queue of a packet is full,
//! the switch can trim the packet instead of dropping it.

use xoff_dataplane::config::{BufferProfile, PortConfig, TrimDscp, TrimQueue, TrimmingConfig};

use super::acl::{self, AclExemption};
use super::context::ResolveContext;
use crate::problem::Problem;
use crate::schema;

const TABLE: &str = "SWITCH_TRIMMING";
const GLOBAL: &str = "GLOBAL";
const PROFILE: &str = "BUFFER_PROFILE";
const ACTION: &str = "packet_discard_action";
/// Difference in bytes between the length of a frame and the length of its IP packet: the Ethernet header and
/// one VLAN tag.
const HEADERS_BYTES: u32 = 18;

/// Returns whether a buffer profile selects trimming instead of drops (`packet_discard_action` `trim`).
pub(super) fn selects_trimming(context: &ResolveContext<'_>, profile: &str) -> bool {
    context.text(PROFILE, profile, ACTION) == Some("trim")
}

/// Resolves trimming. Returns `None` if the entry `SWITCH_TRIMMING|GLOBAL` is missing, incomplete or
/// not valid.
pub(super) fn resolve_trimming(
    context: &mut ResolveContext<'_>,
    ports: &[PortConfig],
    profiles: &[BufferProfile],
) -> Option<TrimmingConfig> {
    check_port_lists(context);
    let exempt = acl::resolve_exemptions(context, AclExemption::Trim);
    let trims = |port: &PortConfig| {
        let mut queues = port.queues.iter();
        queues.any(|queue| profiles[usize::from(queue.profile)].trim)
    };
    let trimming = resolve_global_entry(context, exempt);
    let Some(trimming) = trimming else {
        for profile in profiles.iter().filter(|profile| profile.trim) {
            let why = "packet_discard_action \"trim\" has no effect: SWITCH_TRIMMING|GLOBAL must set size, dscp_value \
                       and queue_index; frames are dropped";
            context.warn_entry(PROFILE, &profile.name, why);
        }
        return None;
    };
    if !ports.iter().any(trims) {
        let why = "no effect: no queue has a BUFFER_PROFILE with packet_discard_action trim";
        context.warn_entry(TABLE, GLOBAL, why);
    }
    let longest = ports.iter().map(|port| port.mtu + HEADERS_BYTES).max();
    if longest.is_some_and(|longest| trimming.size_bytes >= longest) {
        let why = format!(
            "size {}: no frame is longer, none is trimmed",
            trimming.size_bytes
        );
        context.warn_entry(TABLE, GLOBAL, why);
    }
    if let TrimDscp::FromTc(tc) = trimming.dscp {
        for port in ports.iter().filter(|port| trims(port)) {
            if port.tc_to_dscp[usize::from(tc)].is_none() {
                let why = format!(
                    "its queues trim nothing: its tc_to_dscp_map has no DSCP for tc_value {tc} of SWITCH_TRIMMING"
                );
                context.warn_port(&port.name, why);
            }
        }
    }
    Some(trimming)
}

/// Resolves the entry `SWITCH_TRIMMING|GLOBAL`. The entry can be incomplete, because SONiC's commands write
/// one field at a time. Returns `None` for a missing or incomplete entry.
fn resolve_global_entry(
    context: &mut ResolveContext<'_>,
    exempt: Vec<xoff_dataplane::config::AclTable>,
) -> Option<TrimmingConfig> {
    context.db.entry(TABLE, GLOBAL)?;
    let text = |field: &str| context.text(TABLE, GLOBAL, field);
    let (size, dscp, queue) = (
        context.number(TABLE, GLOBAL, "size"),
        text("dscp_value"),
        text("queue_index"),
    );
    let tc = context.number(TABLE, GLOBAL, "tc_value");
    let dscp = match (dscp, tc) {
        (Some("from-tc"), None) => {
            let why = "tc_value is missing: with from-tc it selects the traffic class in the tc_to_dscp_map of the ports";
            let problem = Problem::at_field(TABLE, GLOBAL, "dscp_value", why).with_value("from-tc");
            context.report_error_within_entry(problem.with_fix("add tc_value, 0 to 15"));
            return None;
        }
        (Some("from-tc"), Some(tc)) => Some(TrimDscp::FromTc(tc as u8)),
        (Some(fixed), tc) => {
            if tc.is_some() {
                let why = "tc_value has no effect: dscp_value is not from-tc";
                context.warn_entry(TABLE, GLOBAL, why);
            }
            fixed.parse().ok().map(TrimDscp::Fixed)
        }
        (None, _) => None,
    };
    let queue = queue.and_then(|queue| match queue {
        "dynamic" => Some(TrimQueue::Dynamic),
        fixed => fixed.parse().ok().map(TrimQueue::Fixed),
    });
    let (Some(size), Some(dscp), Some(queue)) = (size, dscp, queue) else {
        let why = "no effect: trimming needs size, dscp_value and queue_index";
        context.warn_entry(TABLE, GLOBAL, why);
        return None;
    };
    Some(TrimmingConfig {
        size_bytes: size as u32,
        dscp,
        queue,
        exempt,
    })
}

/// Reports an error for each trimming profile in the profile list of a port, as SONiC does. Only queues can
/// trim packets.
fn check_port_lists(context: &mut ResolveContext<'_>) {
    for table in [
        "BUFFER_PORT_INGRESS_PROFILE_LIST",
        "BUFFER_PORT_EGRESS_PROFILE_LIST",
    ] {
        let db = context.db;
        for (key, _) in db.entries(table) {
            let list = db.get(table, key, "profile_list").unwrap_or_default();
            for profile in schema::split_list(&list) {
                if !selects_trimming(context, profile) {
                    continue;
                }
                let why = "its packet_discard_action is trim, which only profiles of egress queues may have";
                let problem = Problem::at_field(table, key, "profile_list", why).with_value(profile);
                context.report_entry_contradiction(problem.with_fix("name a profile that drops"));
            }
        }
    }
}
