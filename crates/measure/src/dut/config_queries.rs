//! Properties of a switch configuration that a tester needs: the lossless traffic classes, the priorities
//! that pause each class, and the number of frames that fit in the buffer.

use xoff_dataplane::config::{NO_PROFILE, SwitchConfig};
use xoff_dataplane::ids::PRIORITIES;

use super::frames::reachable_classes;

/// Additional frame slots for frames that occupy no cells: frames on cables, and PFC frames.
const FRAMES_OUTSIDE_CELLS: u64 = 4_096;
/// Largest number of frame slots that a switch is given.
const FRAME_SLOTS_MAX: u64 = 1 << 22;

/// Returns the largest number of frames that the configured buffer can hold, at most 2^22. If the switch has
/// this many frame slots, it never drops a frame for lack of a slot. The cause of each drop is then in the
/// buffer configuration.
pub(super) fn frame_capacity(config: &SwitchConfig) -> u64 {
    let pools: u64 = config
        .pools
        .iter()
        .map(|pool| pool.size_bytes + pool.xoff_bytes)
        .sum();
    let reserves: u64 = config
        .ports
        .iter()
        .flat_map(|port| port.pgs)
        .filter_map(|profile| config.profiles.get(usize::from(profile)))
        .map(|profile| profile.size_bytes + profile.xoff_bytes)
        .sum();
    ((pools + reserves) / u64::from(config.cell_bytes) + FRAMES_OUTSIDE_CELLS)
        .clamp(config.frames_max as u64, FRAME_SLOTS_MAX)
}

/// Returns the priorities for which a port sends pauses when `class` is congested: bit *n* stands for
/// priority *n*. If the port pauses one of these priorities, the connected sender stops sending frames of the
/// traffic class. `port` is an index in [`SwitchConfig::ports`]. The mask is 0 if the port sends no PFC
/// frames for the class.
pub(super) fn pausing_priorities(config: &SwitchConfig, port: usize, class: u8) -> u8 {
    let port = &config.ports[port];
    if port.pfc.generates_global_pause() {
        return 0xff;
    }
    let pg = port.classify.tc_to_pg[usize::from(class)];
    (0..PRIORITIES)
        .filter(|n| port.pfc.enabled & 1 << n != 0 && port.pfc.priority_to_pg[*n] == pg)
        .fold(0, |mask, n| mask | 1 << n)
}

/// Returns whether a traffic class is lossless at a port. A lossless class has headroom, and the port sends
/// PFC or PAUSE frames for it.
pub(super) fn is_lossless(config: &SwitchConfig, port: usize, class: u8) -> bool {
    let port_config = &config.ports[port];
    let profile = port_config.pgs[usize::from(port_config.classify.tc_to_pg[usize::from(class)])];
    let headroom = match profile {
        NO_PROFILE => 0,
        index => config
            .profiles
            .get(usize::from(index))
            .map_or(0, |profile| profile.xoff_bytes),
    };
    headroom > 0 && pausing_priorities(config, port, class) != 0
}

/// Returns the lossless traffic classes of a port, in ascending order. A lossless class has headroom, and the
/// port sends PFC or PAUSE frames for it. `port` is an index in [`SwitchConfig::ports`].
pub fn lossless_classes(config: &SwitchConfig, port: usize) -> Vec<u8> {
    reachable_classes(&config.ports[port])
        .into_iter()
        .map(|(class, _)| class)
        .filter(|class| is_lossless(config, port, *class))
        .collect()
}
