//! Warnings about valid settings that probably do not have the intended effect.

use xoff_dataplane::config::{BufferProfile, PortConfig, SwitchConfig};
use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;

use super::context::Context;
use super::flow_control::micros;
use super::profiles::xoff_point;
use super::traditional::bound_groups;

/// Adds the warnings about PFC, headroom, marking and queue limits.
pub(super) fn advise(context: &mut Context<'_>, config: &SwitchConfig) {
    let bound = bound_groups(context);
    for port in &config.ports {
        let is_bound = |group: u8| {
            bound
                .get(port.name.as_str())
                .is_some_and(|groups| groups.contains_key(&group))
        };
        priorities_without_headroom(context, config, port, is_bound);
        groups_without_signal(context, config, port);
        late_marking(context, config, port);
        limits_of_lossless_queues(context, config, port);
    }
    headroom(context, config);
}

/// Returns the profile with this index, or `None` for a priority group without a buffer.
fn profile(config: &SwitchConfig, index: u16) -> Option<&BufferProfile> {
    config.profiles.get(usize::from(index))
}

/// Warns about lossless priorities whose priority group has no headroom.
fn priorities_without_headroom(
    context: &mut Context<'_>,
    config: &SwitchConfig,
    port: &PortConfig,
    is_bound: impl Fn(u8) -> bool,
) {
    for priority in (0..PRIORITIES).filter(|n| port.pfc.enabled & (1 << n) != 0) {
        let group = port.pfc.priority_to_pg[priority];
        let Some(profile) = profile(config, port.pgs[usize::from(group)]) else {
            let text = format!(
                "pfc_enable has priority {priority}, but its priority group {group} has no buffer (profile NULL): its \
                 frames are dropped"
            );
            context.warn_port(&port.name, text);
            continue;
        };
        let noted = context.noted_groups.get(&port.name).copied().unwrap_or(0);
        if profile.xoff_bytes > 0 || noted & (1 << group) != 0 {
            continue;
        }
        let why = match is_bound(group) {
            true => format!(
                "profile {} of its priority group {group} has no headroom (xoff)",
                profile.name
            ),
            false => {
                format!("BUFFER_PG|PORT|{group} is missing, so its priority group has no headroom (xoff)")
            }
        };
        let text = format!(
            "pfc_enable has priority {priority}, but {why}: frames in flight when it pauses are dropped"
        );
        context.warn_port(&port.name, text);
    }
}

/// Warns about priority groups with headroom for which the port sends no PFC.
fn groups_without_signal(context: &mut Context<'_>, config: &SwitchConfig, port: &PortConfig) {
    for (group, index) in port.pgs.iter().enumerate() {
        let Some(profile) = profile(config, *index) else {
            continue;
        };
        if profile.xoff_bytes > 0 && !port.pfc.signals(group as u8) {
            let text = format!(
                "priority group {group} has headroom (profile {}), but no priority in pfc_enable signals its XOFF: \
                 senders are not paused and frames are dropped",
                profile.name
            );
            context.warn_port(&port.name, text);
        }
    }
}

/// Warns about queues that mark packets only above the XOFF threshold. ECN should slow senders before PFC
/// pauses them.
fn late_marking(context: &mut Context<'_>, config: &SwitchConfig, port: &PortConfig) {
    for (number, queue) in port.queues.iter().enumerate() {
        let Some(wred) = queue.wred.filter(|wred| wred.ecn) else {
            continue;
        };
        let lowest = lossless_groups(config, port, number)
            .map(|p| xoff_point(&config.pools[usize::from(p.pool)], p))
            .min();
        if let Some(xoff) = lowest.filter(|xoff| *xoff <= wred.min_bytes) {
            let text = format!(
                "queue {number} marks from {} bytes on, but a single sender is paused at {xoff} bytes already: PFC \
                 acts before ECN",
                wred.min_bytes
            );
            context.warn_port(&port.name, text);
        }
    }
}

/// Warns about lossless queues with a limit below the XOFF threshold.
///
/// The switch never drops lossless frames at egress and ignores this limit. A chip that enforces the limit
/// drops frames before PFC pauses the senders.
fn limits_of_lossless_queues(context: &mut Context<'_>, config: &SwitchConfig, port: &PortConfig) {
    for (number, queue) in port.queues.iter().enumerate() {
        let Some(own) = profile(config, queue.profile) else {
            continue;
        };
        let pool = &config.pools[usize::from(own.pool)];
        let limit = xoff_point(pool, own);
        let xoff = lossless_groups(config, port, number)
            .map(|group| xoff_point(&config.pools[usize::from(group.pool)], group))
            .min();
        if let Some(xoff) = xoff.filter(|xoff| limit < *xoff) {
            let text = format!(
                "queue {number} is lossless: the limit of its profile {}, {limit} bytes, lies below the XOFF point of {xoff} \
                 bytes and is not enforced; a chip that enforces it drops lossless frames there",
                own.name
            );
            context.warn_port(&port.name, text);
        }
    }
}

/// The profiles with headroom of the priority groups whose traffic classes use a queue.
fn lossless_groups<'a>(
    config: &'a SwitchConfig,
    port: &'a PortConfig,
    queue: usize,
) -> impl Iterator<Item = &'a BufferProfile> {
    let classes = (0..port.classify.tc_to_queue.len())
        .filter(move |class| usize::from(port.classify.tc_to_queue[*class]) == queue);
    let groups =
        classes.filter_map(|class| profile(config, port.pgs[usize::from(port.classify.tc_to_pg[class])]));
    groups.filter(|group| group.xoff_bytes > 0)
}

/// Number of bytes that a link of this speed carries in a time span, rounded up.
pub(crate) fn bytes_during(span: Picos, speed_mbps: u32) -> u64 {
    u64::try_from((u128::from(span.0) * u128::from(speed_mbps)).div_ceil(8_000_000)).unwrap_or(u64::MAX)
}

/// Warns about headroom that is too small for the reaction budget. A stalled host sends and honours pauses
/// late, and its links carry frames meanwhile.
fn headroom(context: &mut Context<'_>, config: &SwitchConfig) {
    let budget = context.how.reaction_budget;
    let mut pool_need = vec![0u64; config.pools.len()];
    for port in config.ports.iter().filter(|port| port.admin_up) {
        if !context.is_attached(&port.name) {
            continue;
        }
        let need = bytes_during(budget, port.link.speed_mbps);
        for (group, index) in port.pgs.iter().enumerate() {
            let Some(profile) = profile(config, *index) else {
                continue;
            };
            if profile.xoff_bytes == 0 || !port.pfc.signals(group as u8) {
                continue;
            }
            let total = &mut pool_need[usize::from(profile.pool)];
            *total = total.saturating_add(need);
            if profile.xoff_bytes < need {
                let text = format!(
                    "headroom of priority group {group} (profile {}, xoff {}) is too small for {} Mb/s during the \
                     reaction budget of {}: {need} bytes are needed, or frames may be lost when this host stalls",
                    profile.name,
                    profile.xoff_bytes,
                    port.link.speed_mbps,
                    micros(budget)
                );
                context.warn_port(&port.name, text);
            }
        }
    }
    for (pool, need) in config.pools.iter().zip(pool_need) {
        if pool.xoff_bytes > 0 && pool.xoff_bytes < need {
            let text = format!(
                "the shared headroom xoff {} is too small for all its lossless groups during the reaction budget of \
                 {}: {need} bytes are needed, or frames may be lost when this host stalls",
                pool.xoff_bytes,
                micros(budget)
            );
            context.warn_entry("BUFFER_POOL", &pool.name, text);
        }
    }
}
