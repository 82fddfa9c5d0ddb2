//! Warnings about valid settings that probably do not have the intended effect.

use std::collections::BTreeMap;

use xoff_dataplane::config::{BufferProfile, PortConfig, SwitchConfig};
use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;

use super::buffer_profiles::xoff_threshold_bytes;
use super::context::ResolveContext;
use super::flow_control::format_micros;
use super::traditional_buffer_model::bound_groups;

/// Adds the warnings about PFC, headroom, ECN marking and queue limits.
pub(super) fn add_warnings(context: &mut ResolveContext<'_>, config: &SwitchConfig) {
    let bound = bound_groups(context);
    for port in &config.ports {
        let is_bound = |group: u8| {
            bound
                .get(port.name.as_str())
                .is_some_and(|groups| groups.contains_key(&group))
        };
        warn_priorities_without_headroom(context, config, port, is_bound);
        warn_headroom_without_pfc(context, config, port);
        warn_marking_above_xoff(context, config, port);
        warn_limits_of_lossless_queues(context, config, port);
    }
    warn_small_headroom(context, config);
}

/// Returns the profile with this index. Returns `None` for a priority group or queue without a
/// buffer (`NO_PROFILE`).
fn find_profile(config: &SwitchConfig, index: u16) -> Option<&BufferProfile> {
    config.profiles.get(usize::from(index))
}

/// Warns about lossless priorities whose priority group has no headroom.
fn warn_priorities_without_headroom(
    context: &mut ResolveContext<'_>,
    config: &SwitchConfig,
    port: &PortConfig,
    is_bound: impl Fn(u8) -> bool,
) {
    let mut without_buffer = Vec::new();
    let mut without_headroom: BTreeMap<Option<&str>, Vec<(usize, usize)>> = BTreeMap::new();
    for priority in (0..PRIORITIES).filter(|n| port.pfc.enabled & (1 << n) != 0) {
        let group = port.pfc.priority_to_pg[priority];
        let pair = (priority, usize::from(group));
        let Some(profile) = find_profile(config, port.pgs[usize::from(group)]) else {
            without_buffer.push(pair);
            continue;
        };
        let noted = context.noted_groups.get(&port.name).copied().unwrap_or(0);
        if profile.xoff_bytes == 0 && noted & (1 << group) == 0 {
            let bound = is_bound(group).then_some(profile.name.as_str());
            without_headroom.entry(bound).or_default().push(pair);
        }
    }
    if !without_buffer.is_empty() {
        let (priorities, groups) = describe_pairs(&without_buffer);
        let (verb, its) = match without_buffer.len() {
            1 => ("has", "its"),
            _ => ("have", "their"),
        };
        let text = format!(
            "pfc_enable has {priorities}, but {its} {groups} {verb} no buffer (profile NULL): {its} frames are dropped"
        );
        context.warn_port(&port.name, text);
    }
    for (profile, pairs) in without_headroom {
        let (priorities, groups) = describe_pairs(&pairs);
        let is_one = pairs.len() == 1;
        let why = match profile {
            Some(profile) => format!(
                "profile {profile} of {} {groups} has no headroom (xoff)",
                if is_one { "its" } else { "their" }
            ),
            None => {
                let keys: Vec<String> = pairs
                    .iter()
                    .map(|(_, group)| format!("BUFFER_PG|PORT|{group}"))
                    .collect();
                match is_one {
                    true => format!(
                        "{} is missing, so its priority group has no headroom (xoff)",
                        keys.join(", ")
                    ),
                    false => format!(
                        "{} are missing, so each of the priority groups has no headroom (xoff)",
                        keys.join(", ")
                    ),
                }
            }
        };
        let when = if is_one {
            "when it pauses"
        } else {
            "when they pause"
        };
        let text = format!("pfc_enable has {priorities}, but {why}: frames in flight {when} are dropped");
        context.warn_port(&port.name, text);
    }
}

/// Describes priorities and their priority groups, such as `priorities 3, 4` and `priority groups 3, 4`.
fn describe_pairs(pairs: &[(usize, usize)]) -> (String, String) {
    let priorities: Vec<usize> = pairs.iter().map(|(priority, _)| *priority).collect();
    let mut groups: Vec<usize> = pairs.iter().map(|(_, group)| *group).collect();
    groups.dedup();
    (
        describe_numbers(["priority", "priorities"], &priorities),
        describe_numbers(["priority group", "priority groups"], &groups),
    )
}

/// Describes one or more numbered objects, such as `queue 3` or `queues 3, 4`. `nouns` contains the singular
/// and the plural.
fn describe_numbers(nouns: [&str; 2], numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!("{} {}", nouns[usize::from(numbers.len() > 1)], texts.join(", "))
}

/// Warns about priority groups with headroom for which the port sends no PFC.
fn warn_headroom_without_pfc(context: &mut ResolveContext<'_>, config: &SwitchConfig, port: &PortConfig) {
    if negotiates_pfc(config, &port.name) {
        return;
    }
    let mut groups_of_profile: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (group, index) in port.pgs.iter().enumerate() {
        let Some(profile) = find_profile(config, *index) else {
            continue;
        };
        if profile.xoff_bytes > 0 && !port.pfc.signals_priority_group(group as u8) {
            groups_of_profile.entry(&profile.name).or_default().push(group);
        }
    }
    for (profile, groups) in groups_of_profile {
        let (verb, its) = if groups.len() == 1 {
            ("has", "its")
        } else {
            ("have", "their")
        };
        let text = format!(
            "{} {verb} headroom (profile {profile}), but no priority in pfc_enable signals {its} XOFF: senders are not \
             paused and frames are dropped",
            describe_numbers(["priority group", "priority groups"], &groups)
        );
        context.warn_port(&port.name, text);
    }
}

/// Warns about queues that start to set ECN marks above the XOFF threshold (the fill level at which PFC
/// pauses the senders). ECN should slow down the senders before PFC pauses them.
fn warn_marking_above_xoff(context: &mut ResolveContext<'_>, config: &SwitchConfig, port: &PortConfig) {
    let mut queues_of_limits: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (number, queue) in port.queues.iter().enumerate() {
        let Some(wred) = queue.wred.filter(|wred| wred.ecn) else {
            continue;
        };
        let lowest = lossless_profiles_of_queue(config, port, number)
            .map(|p| xoff_threshold_bytes(&config.pools[usize::from(p.pool)], p))
            .min();
        if let Some(xoff) = lowest.filter(|xoff| *xoff <= wred.min_bytes) {
            queues_of_limits
                .entry((wred.min_bytes, xoff))
                .or_default()
                .push(number);
        }
    }
    for ((min_bytes, xoff), queues) in queues_of_limits {
        let text = format!(
            "{} above {min_bytes} bytes, but PFC pauses a single sender at {xoff} bytes: PFC acts before ECN",
            match queues.len() {
                1 => format!("{} marks", describe_numbers(["queue", "queues"], &queues)),
                _ => format!("{} mark", describe_numbers(["queue", "queues"], &queues)),
            }
        );
        context.warn_port(&port.name, text);
    }
}

/// Warns about lossless queues with a limit below the XOFF threshold.
///
/// xoff does not enforce this limit, because xoff never drops lossless frames at egress. A chip that enforces
/// the limit would drop frames before PFC pauses the senders.
fn warn_limits_of_lossless_queues(
    context: &mut ResolveContext<'_>,
    config: &SwitchConfig,
    port: &PortConfig,
) {
    let mut queues_of_profile: BTreeMap<(&str, u64, u64), Vec<usize>> = BTreeMap::new();
    for (number, queue) in port.queues.iter().enumerate() {
        let Some(own) = find_profile(config, queue.profile) else {
            continue;
        };
        let pool = &config.pools[usize::from(own.pool)];
        let limit = xoff_threshold_bytes(pool, own);
        let xoff = lossless_profiles_of_queue(config, port, number)
            .map(|group| xoff_threshold_bytes(&config.pools[usize::from(group.pool)], group))
            .min();
        if let Some(xoff) = xoff.filter(|xoff| limit < *xoff) {
            let queues = queues_of_profile.entry((&own.name, limit, xoff)).or_default();
            queues.push(number);
        }
    }
    for ((profile, limit, xoff), queues) in queues_of_profile {
        let (verb, its) = if queues.len() == 1 {
            ("is", "its")
        } else {
            ("are", "their")
        };
        let text = format!(
            "{} {verb} lossless: the limit of {its} profile {profile}, {limit} bytes, is below the XOFF threshold of {xoff} \
             bytes and is not enforced; a chip that enforces it drops lossless frames there",
            describe_numbers(["queue", "queues"], &queues)
        );
        context.warn_port(&port.name, text);
    }
}

/// Returns the profiles of all lossless priority groups (groups with headroom) whose frames can use a queue.
/// This is so if a traffic class maps both to the group and to the queue.
fn lossless_profiles_of_queue<'a>(
    config: &'a SwitchConfig,
    port: &'a PortConfig,
    queue: usize,
) -> impl Iterator<Item = &'a BufferProfile> {
    let classes = (0..port.classify.tc_to_queue.len())
        .filter(move |class| usize::from(port.classify.tc_to_queue[*class]) == queue);
    let groups = classes
        .filter_map(|class| find_profile(config, port.pgs[usize::from(port.classify.tc_to_pg[class])]));
    groups.filter(|group| group.xoff_bytes > 0)
}

/// Returns the number of bytes that a link of this speed carries during `span`, rounded up.
pub(crate) fn bytes_in_time_span(span: Picos, speed_mbps: u32) -> u64 {
    u64::try_from((u128::from(span.0) * u128::from(speed_mbps)).div_ceil(8_000_000)).unwrap_or(u64::MAX)
}

/// The end of a warning about small headroom in virtual time, where the machine stalls nothing.
const EXACT_HEADROOM: &str = "less can be enough for your traffic: `xoff bench tune-buffers` searches the smallest headroom without loss";

/// Warns about headroom that cannot hold the frames of one reaction budget. The reaction budget is the
/// longest time for which the machine may stall xoff. During a stall, xoff sends no pauses, but frames
/// continue to arrive. In virtual time, the budget is the longest response of a neighbour to a pause.
fn warn_small_headroom(context: &mut ResolveContext<'_>, config: &SwitchConfig) {
    let budget = context.options.reaction_budget;
    let mut pool_need = vec![0u64; config.pools.len()];
    for port in config.ports.iter().filter(|port| port.admin_up) {
        if !context.is_attached(&port.name) {
            continue;
        }
        let need = bytes_in_time_span(budget, port.link.speed_mbps);
        let mut groups_of_profile: BTreeMap<(&str, u64), Vec<usize>> = BTreeMap::new();
        for (group, index) in port.pgs.iter().enumerate() {
            let Some(profile) = find_profile(config, *index) else {
                continue;
            };
            if profile.xoff_bytes == 0 || !port.pfc.signals_priority_group(group as u8) {
                continue;
            }
            let total = &mut pool_need[usize::from(profile.pool)];
            *total = total.saturating_add(need);
            if profile.xoff_bytes < need {
                let groups = groups_of_profile
                    .entry((&profile.name, profile.xoff_bytes))
                    .or_default();
                groups.push(group);
            }
        }
        for ((profile, xoff), groups) in groups_of_profile {
            let groups = describe_numbers(["priority group", "priority groups"], &groups);
            let (speed_mbps, budget) = (port.link.speed_mbps, format_micros(budget));
            let text = match context.options.is_virtual {
                true => format!(
                    "headroom of {groups} (profile {profile}, xoff {xoff}) is below {need} bytes, which can arrive at \
                     {speed_mbps} Mb/s until the neighbour has stopped (at most {budget}); {EXACT_HEADROOM}"
                ),
                false => format!(
                    "headroom of {groups} (profile {profile}, xoff {xoff}) is too small for {speed_mbps} Mb/s during the \
                     reaction budget of {budget}: {need} bytes are needed, or frames may be lost when this host stalls"
                ),
            };
            context.warn_port(&port.name, text);
        }
    }
    for (pool, need) in config.pools.iter().zip(pool_need) {
        if pool.xoff_bytes > 0 && pool.xoff_bytes < need {
            let (xoff, budget) = (pool.xoff_bytes, format_micros(budget));
            let text = match context.options.is_virtual {
                true => format!(
                    "the shared headroom xoff {xoff} is below {need} bytes, which can arrive for all its lossless groups \
                     until the neighbours have stopped (at most {budget}); {EXACT_HEADROOM}"
                ),
                false => format!(
                    "the shared headroom xoff {xoff} is too small for all its lossless groups during the reaction budget \
                     of {budget}: {need} bytes are needed, or frames may be lost when this host stalls"
                ),
            };
            context.warn_entry("BUFFER_POOL", &pool.name, text);
        }
    }
}

/// Returns whether a port uses the PFC configuration of its neighbour (DCBX).
fn negotiates_pfc(config: &SwitchConfig, port: &str) -> bool {
    let index = config.ports.iter().position(|other| other.name == port);
    let settings = config
        .lldp
        .as_ref()
        .zip(index)
        .and_then(|(lldp, index)| lldp.ports[index].as_ref());
    settings
        .and_then(|settings| settings.dcbx.as_ref())
        .is_some_and(|dcbx| dcbx.pfc.is_willing)
}
