//! Which changes of a configuration must lose frames, given what the buffer holds now.
//!
//! What is charged stays charged, so a change loses frames only where lossless frames that arrive next have no place: the new
//! pool or headroom is smaller than what is in use, or a group that holds frames is no longer lossless. Ports that go down lose
//! what waits for their link, queues that the watchdog is told to empty what waits in them; frames that are under way may be longer
//! than a new MTU, or of a VLAN that the port leaves.

use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, PoolSide, PortConfig, SwitchConfig, TrustMode, WatchdogAction,
};
use xoff_dataplane::ids::PRIORITIES;

use xoff_telemetry::{PortSnapshot, SwitchSnapshot};

/// What a priority group is to its senders.
fn profile<'a>(config: &'a SwitchConfig, port: &PortConfig, group: usize) -> Option<&'a BufferProfile> {
    config.profiles.get(usize::from(port.pgs[group]))
}

/// Whether frames of a group are not dropped for want of buffer: it has headroom, and its senders are paused.
fn is_lossless(config: &SwitchConfig, port: &PortConfig, group: usize) -> bool {
    profile(config, port, group).is_some_and(|profile| profile.xoff_bytes > 0)
        && port.pfc.signals_priority_group(group as u8)
}

/// One line for each loss that the change from `old` to `new` must bring while the buffer is as `now`.
pub(super) fn losses(old: &SwitchConfig, new: &SwitchConfig, now: &SwitchSnapshot) -> Vec<String> {
    let mut losses = pools(old, new, now);
    for (index, ((before, after), held)) in old.ports.iter().zip(&new.ports).zip(&now.ports).enumerate() {
        let port = Port {
            new,
            before,
            after,
            held,
            cell_bytes: u64::from(now.cell_bytes),
        };
        port.down(&mut losses);
        port.stormed(old, now, &mut losses);
        port.shorter(&mut losses);
        port.leaves_vlans(index, old, &mut losses);
        for group in (0..PRIORITIES).filter(|group| is_lossless(old, before, *group)) {
            port.group(group, &mut losses);
            port.classes(group, &mut losses);
        }
    }
    losses
}

/// Pools that get smaller than what their groups hold.
fn pools(old: &SwitchConfig, new: &SwitchConfig, now: &SwitchSnapshot) -> Vec<String> {
    let mut losses = Vec::new();
    for (index, pool) in new.pools.iter().enumerate() {
        if pool.side == PoolSide::Egress {
            continue;
        }
        let (mut shared, mut headroom, mut lossless) = (0, 0, false);
        for ((port, before), held) in new.ports.iter().zip(&old.ports).zip(&now.ports) {
            for (number, buffers) in held.pgs.iter().enumerate() {
                if profile(new, port, number).is_some_and(|profile| usize::from(profile.pool) == index) {
                    shared += u64::from(buffers.shared.current_cells) * u64::from(now.cell_bytes);
                    headroom += u64::from(buffers.headroom.current_cells) * u64::from(now.cell_bytes);
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
                     they are fewer may be dropped",
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

/// A port before and after, and what it holds.
struct Port<'a> {
    new: &'a SwitchConfig,
    before: &'a PortConfig,
    after: &'a PortConfig,
    held: &'a PortSnapshot,
    cell_bytes: u64,
}

impl Port<'_> {
    fn down(&self, losses: &mut Vec<String>) {
        let queued = self.queued(0xff);
        if self.before.admin_up && !self.after.admin_up && queued > 0 {
            losses.push(format!(
                "PORT|{} admin_status down: {} bytes wait for its link and will be dropped",
                self.after.name, queued
            ));
        }
    }

    /// Bytes that wait in its queues of this mask.
    fn queued(&self, queues: u8) -> u64 {
        let waiting = (0..PRIORITIES).filter(|n| queues & 1 << n != 0);
        let cells: u64 = waiting
            .map(|n| u64::from(self.held.queues[n].total.current_cells))
            .sum();
        cells * self.cell_bytes
    }

    /// Bytes in its lossless groups.
    fn held_lossless(&self, old: &SwitchConfig) -> u64 {
        let groups = (0..PRIORITIES).filter(|group| is_lossless(old, self.before, *group));
        let cells: u64 = groups
            .map(|group| u64::from(self.held.pgs[group].total.current_cells))
            .sum();
        cells * self.cell_bytes
    }

    /// The watchdog is told to drop what waits: the big red switch for every queue that it watches, a new action for those that
    /// are stormed.
    fn stormed(&self, old: &SwitchConfig, now: &SwitchSnapshot, losses: &mut Vec<String>) {
        let Some(watchdog) = self.after.watchdog else {
            return;
        };
        let name = &self.after.name;
        if self.new.watchdog.big_red_switch && !old.watchdog.big_red_switch {
            let waiting = self.queued(watchdog.queues);
            if waiting > 0 {
                losses.push(format!(
                    "PFC_WD|GLOBAL BIG_RED_SWITCH enable: {waiting} bytes wait in watched queues of {name} and will be dropped, \
                     as all that comes for them"
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
        let queues = now.watchdog.iter().flat_map(|report| &report.queues);
        let stormed = queues.filter(|queue| queue.port == *name && queue.is_stormed());
        let mask = stormed.fold(0, |mask, queue| mask | 1 << (queue.queue & 7));
        let waiting = self.queued(mask & watchdog.queues);
        if waiting > 0 {
            losses.push(format!(
                "PFC_WD|{name} action drop: {waiting} bytes wait in stormed queues and will be dropped"
            ));
        }
    }

    /// Its MTU gets smaller while frames of lossless classes wait for it, or have come in by it.
    fn shorter(&self, losses: &mut Vec<String>) {
        let (mtu, waiting) = (self.after.mtu, self.queued(0xff));
        if mtu < self.before.mtu && waiting > 0 {
            losses.push(format!(
                "PORT|{} mtu {mtu}: {waiting} bytes wait for its link, and frames that come for it behind them and are longer \
                 are dropped",
                self.after.name
            ));
        }
    }

    /// It is in no VLAN any more, while its lossless groups hold frames: what follows them goes nowhere.
    fn leaves_vlans(&self, index: usize, old: &SwitchConfig, losses: &mut Vec<String>) {
        let held = self.held_lossless(old);
        if held > 0 && forwards(old, index) && !forwards(self.new, index) {
            losses.push(format!(
                "VLAN_MEMBER: {} is in no VLAN any more, and {held} bytes are in use in its lossless groups: frames that follow \
                 are dropped",
                self.after.name
            ));
        }
    }

    /// A lossless group that holds frames and stops being one, or whose headroom gets smaller than what is in it.
    fn group(&self, group: usize, losses: &mut Vec<String>) {
        let held = &self.held.pgs[group];
        if held.total.current_cells == 0 {
            return;
        }
        let name = &self.after.name;
        let used = u64::from(held.total.current_cells) * self.cell_bytes;
        let in_headroom = u64::from(held.headroom.current_cells) * self.cell_bytes;
        let end = "its frames are no longer lossless";
        losses.push(match profile(self.new, self.after, group) {
            None => format!("BUFFER_PG|{name}|{group} profile NULL: {used} bytes are in use, and the group has no buffer any more"),
            Some(profile) if profile.xoff_bytes == 0 => format!(
                "BUFFER_PG|{name}|{group} profile {}: {used} bytes are in use, and the profile has no headroom (xoff 0): {end}",
                profile.name
            ),
            Some(_) if !self.after.pfc.signals_priority_group(group as u8) => format!(
                "PORT_QOS_MAP|{name} pfc_enable: {used} bytes are in use in priority group {group}, and no priority signals its \
                 XOFF any more: {end}"
            ),
            Some(profile) if in_headroom > profile.xoff_bytes => format!(
                "BUFFER_PROFILE|{} xoff {}: {in_headroom} bytes of headroom are in use in priority group {group} of {name}, and \
                 frames on their way to it may be dropped",
                profile.name, profile.xoff_bytes
            ),
            Some(_) => return,
        });
    }

    /// Traffic that leaves a lossless group in use for one that is not.
    fn classes(&self, group: usize, losses: &mut Vec<String>) {
        let held = &self.held.pgs[group];
        if held.total.current_cells == 0 {
            return;
        }
        let (before, after) = (groups_by_code(self.before), groups_by_code(self.after));
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(was, is)| usize::from(**was) == group && was != is);
        let lossy = moved
            .map(|(_, is)| usize::from(*is))
            .find(|is| !is_lossless(self.new, self.after, *is));
        if let Some(is) = lossy {
            losses.push(format!(
                "PORT_QOS_MAP|{}: frames of priority group {group}, with {} bytes in use, go to priority group {is}, which is \
                 not lossless",
                self.after.name,
                u64::from(held.total.current_cells) * self.cell_bytes
            ));
        }
    }
}

/// Whether a port bridges at all.
fn forwards(config: &SwitchConfig, port: usize) -> bool {
    match &config.bridging {
        BridgingConfig::Transparent => true,
        BridgingConfig::Vlans(vlans) => vlans
            .iter()
            .flat_map(|vlan| &vlan.members)
            .any(|member| usize::from(member.port) == port),
    }
}

/// The priority group of each code point that the port goes by.
fn groups_by_code(port: &PortConfig) -> Vec<u8> {
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
