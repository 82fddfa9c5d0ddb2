//! Which changes of a configuration must lose frames, given what the buffer holds now.
//!
//! What is charged stays charged, so a change loses frames only where lossless frames that arrive next have no place: the new
//! pool or headroom is smaller than what is in use, or a group that holds frames is no longer lossless. Ports that go down lose
//! what waits for their link.

use xoff_dataplane::config::{BufferProfile, PoolSide, PortConfig, SwitchConfig, Trust};
use xoff_dataplane::ids::PRIORITIES;

use crate::report::{PortSnapshot, SwitchSnapshot};

/// What a priority group is to its senders.
fn profile<'a>(config: &'a SwitchConfig, port: &PortConfig, group: usize) -> Option<&'a BufferProfile> {
    config.profiles.get(usize::from(port.pgs[group]))
}

/// Whether frames of a group are not dropped for want of buffer: it has headroom, and its senders are paused.
fn is_lossless(config: &SwitchConfig, port: &PortConfig, group: usize) -> bool {
    profile(config, port, group).is_some_and(|profile| profile.xoff_bytes > 0)
        && port.pfc.signals(group as u8)
}

/// One line for each loss that the change from `old` to `new` must bring while the buffer is as `now`.
pub(super) fn losses(old: &SwitchConfig, new: &SwitchConfig, now: &SwitchSnapshot) -> Vec<String> {
    let mut losses = pools(old, new, now);
    for ((before, after), held) in old.ports.iter().zip(&new.ports).zip(&now.ports) {
        let port = Port {
            new,
            before,
            after,
            held,
            cell_bytes: u64::from(now.cell_bytes),
        };
        port.down(&mut losses);
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
        let queued: u64 = self
            .held
            .queues
            .iter()
            .map(|queue| u64::from(queue.total.current_cells))
            .sum();
        if self.before.admin_up && !self.after.admin_up && queued > 0 {
            losses.push(format!(
                "PORT|{} admin_status down: {} bytes wait for its link and will be dropped",
                self.after.name,
                queued * self.cell_bytes
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
            Some(_) if !self.after.pfc.signals(group as u8) => format!(
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

/// The priority group of each code point that the port goes by.
fn groups_by_code(port: &PortConfig) -> Vec<u8> {
    let maps = &port.classify;
    let classes: &[u8] = match maps.trust {
        Trust::Dscp => &maps.dscp_to_tc,
        Trust::Pcp => &maps.dot1p_to_tc,
    };
    classes
        .iter()
        .map(|class| maps.tc_to_pg[usize::from(*class)])
        .collect()
}

#[cfg(test)]
mod tests;
