//! Predicts the frame losses that a configuration change causes. The prediction depends on the present use of
//! the buffer.
//!
//! Frames in the buffer stay there after a change of buffer sizes. Lossless frames are lost if later frames
//! find no space: a pool or headroom becomes smaller than its use, or a priority group with frames becomes
//! lossy. If a port goes down, the frames in its queues are lost. If the watchdog gets the action `drop`, the
//! frames in queues with a detected storm are lost. Later frames are lost if they exceed a smaller MTU, or
//! belong to a VLAN that the port has left.

use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, PoolSide, PortConfig, SwitchConfig, TrustMode, WatchdogAction,
};
use xoff_dataplane::ids::PRIORITIES;

use xoff_telemetry::{PortReport, SwitchReport};

/// Returns the buffer profile of a priority group.
fn buffer_profile<'a>(
    config: &'a SwitchConfig,
    port: &PortConfig,
    group: usize,
) -> Option<&'a BufferProfile> {
    config.profiles.get(usize::from(port.pgs[group]))
}

/// Returns whether a priority group is lossless. A lossless group has headroom, and the port sends PFC frames
/// for its XOFF state.
fn is_lossless(config: &SwitchConfig, port: &PortConfig, group: usize) -> bool {
    buffer_profile(config, port, group).is_some_and(|profile| profile.xoff_bytes > 0)
        && port.pfc.signals_priority_group(group as u8)
}

/// Returns one line for each loss that the change from `old` to `new` causes. `state` is the present use
/// of the buffer.
pub(super) fn predict_losses(old: &SwitchConfig, new: &SwitchConfig, state: &SwitchReport) -> Vec<String> {
    let mut losses = predict_pool_losses(old, new, state);
    for (index, ((before, after), held)) in old.ports.iter().zip(&new.ports).zip(&state.ports).enumerate() {
        let change = PortConfigChange {
            new,
            before,
            after,
            held,
        };
        change.check_shutdown(&mut losses);
        change.check_watchdog(old, state, &mut losses);
        change.check_mtu(&mut losses);
        change.check_vlans(index, old, &mut losses);
        for group in (0..PRIORITIES).filter(|group| is_lossless(old, before, *group)) {
            change.check_priority_group(group, &mut losses);
            change.check_traffic_classes(group, &mut losses);
        }
    }
    losses
}

/// Returns the losses of ingress pools that become smaller than their use.
fn predict_pool_losses(old: &SwitchConfig, new: &SwitchConfig, state: &SwitchReport) -> Vec<String> {
    let mut losses = Vec::new();
    for (index, pool) in new.pools.iter().enumerate() {
        if pool.side == PoolSide::Egress {
            continue;
        }
        let (mut shared, mut headroom, mut lossless) = (0, 0, false);
        for ((port, before), held) in new.ports.iter().zip(&old.ports).zip(&state.ports) {
            for (number, group) in held.priority_groups.iter().enumerate() {
                if buffer_profile(new, port, number).is_some_and(|profile| usize::from(profile.pool) == index)
                {
                    shared += group.shared_current_bytes;
                    headroom += group.headroom_current_bytes;
                    lossless |= is_lossless(old, before, number);
                }
            }
        }
        let mut check = |field: &str, used: u64, size: u64| {
            let before = old.pools.iter().find(|before| before.name == pool.name);
            let was = before.map_or(0, |before| {
                if field == "size" {
                    before.size_bytes
                } else {
                    before.xoff_bytes
                }
            });
            if lossless && used > size && was != size {
                losses.push(format!(
                    "BUFFER_POOL|{} {field} {size}: {used} bytes of it are in use, and lossless frames that arrive before \
                     the use decreases may be dropped",
                    pool.name
                ));
            }
        };
        check("size", shared, pool.size_bytes);
        if pool.xoff_bytes > 0 {
            check("xoff", headroom, pool.xoff_bytes);
        }
    }
    losses
}

/// The old and new configuration of a port, and its present buffer use.
struct PortConfigChange<'a> {
    new: &'a SwitchConfig,
    before: &'a PortConfig,
    after: &'a PortConfig,
    held: &'a PortReport,
}

impl PortConfigChange<'_> {
    /// The port is shut down while frames wait in its queues.
    fn check_shutdown(&self, losses: &mut Vec<String>) {
        let queued = self.queued_bytes(0xff);
        if self.before.admin_up && !self.after.admin_up && queued > 0 {
            losses.push(format!(
                "PORT|{} admin_status down: {} bytes wait for its link and will be dropped",
                self.after.name, queued
            ));
        }
    }

    /// Returns the bytes that wait in the queues of a bit mask.
    fn queued_bytes(&self, queue_mask: u8) -> u64 {
        let waiting = (0..PRIORITIES).filter(|n| queue_mask & 1 << n != 0);
        waiting.map(|n| self.held.queues[n].current_bytes).sum()
    }

    /// Returns the bytes in the lossless priority groups of the port.
    fn lossless_bytes(&self, old: &SwitchConfig) -> u64 {
        let groups = (0..PRIORITIES).filter(|group| is_lossless(old, self.before, *group));
        groups
            .map(|group| self.held.priority_groups[group].current_bytes)
            .sum()
    }

    /// Reports the waiting frames that the watchdog drops. The big red switch drops the frames of every
    /// watched queue. A new action `drop` drops the frames of queues with a detected storm.
    fn check_watchdog(&self, old: &SwitchConfig, state: &SwitchReport, losses: &mut Vec<String>) {
        let Some(watchdog) = self.after.watchdog else {
            return;
        };
        let name = &self.after.name;
        if self.new.watchdog.big_red_switch && !old.watchdog.big_red_switch {
            let waiting = self.queued_bytes(watchdog.queues);
            if waiting > 0 {
                losses.push(format!(
                    "PFC_WD|GLOBAL BIG_RED_SWITCH enable: {waiting} bytes wait in watched queues of {name} and will be dropped, \
                     as are later frames for these queues"
                ));
            }
            return;
        }
        let dropped_before = self
            .before
            .watchdog
            .is_some_and(|before| before.action == WatchdogAction::Drop);
        if watchdog.action != WatchdogAction::Drop || dropped_before {
            return;
        }
        let queues = state.pfc_watchdog.iter().flat_map(|report| &report.queues);
        let stormed = queues.filter(|queue| queue.port == *name && queue.is_in_pause_storm());
        let mask = stormed.fold(0, |mask, queue| mask | 1 << (queue.queue & 7));
        let waiting = self.queued_bytes(mask & watchdog.queues);
        if waiting > 0 {
            losses.push(format!(
                "PFC_WD|{name} action drop: {waiting} bytes wait in stormed queues and will be dropped"
            ));
        }
    }

    /// The MTU becomes smaller while frames wait for the link.
    fn check_mtu(&self, losses: &mut Vec<String>) {
        let (mtu, waiting) = (self.after.mtu, self.queued_bytes(0xff));
        if mtu < self.before.mtu && waiting > 0 {
            losses.push(format!(
                "PORT|{} mtu {mtu}: {waiting} bytes wait for its link, and longer frames that arrive later are \
                 dropped",
                self.after.name
            ));
        }
    }

    /// Reports a port that leaves its last VLAN while its lossless priority groups have frames. Later frames
    /// then have no destination.
    fn check_vlans(&self, index: usize, old: &SwitchConfig, losses: &mut Vec<String>) {
        let held = self.lossless_bytes(old);
        if held > 0 && is_bridged(old, index) && !is_bridged(self.new, index) {
            losses.push(format!(
                "VLAN_MEMBER: {} is in no VLAN after the change, and {held} bytes are in use in its lossless groups: later frames are \
                 dropped",
                self.after.name
            ));
        }
    }

    /// Reports a lossless priority group that contains frames, if the new configuration makes the group lossy
    /// or makes its headroom smaller than the headroom in use.
    fn check_priority_group(&self, group: usize, losses: &mut Vec<String>) {
        let held = &self.held.priority_groups[group];
        let (used, in_headroom) = (held.current_bytes, held.headroom_current_bytes);
        if used == 0 {
            return;
        }
        let name = &self.after.name;
        let end = "its frames are no longer lossless";
        losses.push(match buffer_profile(self.new, self.after, group) {
            None => format!("BUFFER_PG|{name}|{group} profile NULL: {used} bytes are in use, and the group has no buffer after the change"),
            Some(profile) if profile.xoff_bytes == 0 => format!(
                "BUFFER_PG|{name}|{group} profile {}: {used} bytes are in use, and the profile has no headroom (xoff 0): {end}",
                profile.name
            ),
            Some(_) if !self.after.pfc.signals_priority_group(group as u8) => format!(
                "PORT_QOS_MAP|{name} pfc_enable: {used} bytes are in use in priority group {group}, and no priority signals its \
                 XOFF after the change: {end}"
            ),
            Some(profile) if in_headroom > profile.xoff_bytes => format!(
                "BUFFER_PROFILE|{} xoff {}: {in_headroom} bytes of headroom are in use in priority group {group} of {name}, and \
                 frames in flight to it may be dropped",
                profile.name, profile.xoff_bytes
            ),
            Some(_) => return,
        });
    }

    /// Traffic of a lossless priority group with frames moves to a lossy one.
    fn check_traffic_classes(&self, group: usize, losses: &mut Vec<String>) {
        let used = self.held.priority_groups[group].current_bytes;
        if used == 0 {
            return;
        }
        let (before, after) = (
            priority_groups_by_code_point(self.before),
            priority_groups_by_code_point(self.after),
        );
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(was, is)| usize::from(**was) == group && was != is);
        let lossy = moved
            .map(|(_, is)| usize::from(*is))
            .find(|is| !is_lossless(self.new, self.after, *is));
        if let Some(is) = lossy {
            losses.push(format!(
                "PORT_QOS_MAP|{}: frames of priority group {group}, with {used} bytes in use, go to priority group {is}, which is \
                 not lossless",
                self.after.name,
            ));
        }
    }
}

/// Returns whether a port forwards bridged frames.
fn is_bridged(config: &SwitchConfig, port: usize) -> bool {
    match &config.bridging {
        BridgingConfig::Transparent => true,
        BridgingConfig::Vlans(vlans) => vlans
            .iter()
            .flat_map(|vlan| &vlan.members)
            .any(|member| usize::from(member.port) == port),
    }
}

/// Returns the priority group of each DSCP or PCP value, whichever the port trusts.
fn priority_groups_by_code_point(port: &PortConfig) -> Vec<u8> {
    let maps = &port.classify;
    let classes: &[u8] = match maps.trust {
        TrustMode::Dscp => &maps.dscp_to_tc,
        TrustMode::Pcp => &maps.dot1p_to_tc,
    };
    classes
        .iter()
        .map(|class| maps.tc_to_pg[usize::from(*class)])
        .collect()
}

#[cfg(test)]
mod tests;
