//! What a configuration says of a tester's frames.

use xoff_dataplane::config::{NO_PROFILE, SwitchConfig};
use xoff_dataplane::ids::PRIORITIES;

use super::frames::classes;

/// Frames beside those that cells could hold: on wires, pauses.
const FRAMES_BESIDE: u64 = 4_096;
/// Most that a switch is given room for.
const FRAMES_MAX: u64 = 1 << 22;

/// Room for every frame that cells can hold, so that no limit of this program is what is found.
pub(super) fn frames_max(config: &SwitchConfig) -> u64 {
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
    ((pools + reserves) / u64::from(config.cell_bytes) + FRAMES_BESIDE)
        .clamp(config.frames_max as u64, FRAMES_MAX)
}

/// Priorities whose pauses concern frames of this class that are sent into a port.
pub(super) fn priorities(config: &SwitchConfig, port: usize, class: u8) -> u8 {
    let port = &config.ports[port];
    if port.pfc.generates_global_pause() {
        return 0xff;
    }
    let pg = port.classify.tc_to_pg[usize::from(class)];
    (0..PRIORITIES)
        .filter(|n| port.pfc.enabled & 1 << n != 0 && port.pfc.priority_to_pg[*n] == pg)
        .fold(0, |mask, n| mask | 1 << n)
}

/// Whether frames of this class have headroom at a port, and its senders are paused.
pub(super) fn is_lossless(config: &SwitchConfig, port: usize, class: u8) -> bool {
    let of = &config.ports[port];
    let profile = of.pgs[usize::from(of.classify.tc_to_pg[usize::from(class)])];
    let headroom = match profile {
        NO_PROFILE => 0,
        index => config
            .profiles
            .get(usize::from(index))
            .map_or(0, |profile| profile.xoff_bytes),
    };
    headroom > 0 && priorities(config, port, class) != 0
}

/// The traffic classes of a port that are lossless.
pub fn lossless_classes(config: &SwitchConfig, port: usize) -> Vec<u8> {
    classes(&config.ports[port])
        .into_iter()
        .map(|(class, _)| class)
        .filter(|class| is_lossless(config, port, *class))
        .collect()
}
