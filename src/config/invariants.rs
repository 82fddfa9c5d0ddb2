//! What the data plane relies on in a [`SwitchConfig`] and does not check again.

use xoff_dataplane::config::{Bridging, PoolSide, PortConfig, Schedule, SwitchConfig, Threshold};
use xoff_dataplane::ids::PRIORITIES;

use super::resolve::PORTS_MAX;

/// The first invariant that does not hold, in words.
pub(crate) fn broken(config: &SwitchConfig) -> Option<String> {
    let require = |holds: bool, what: String| if holds { None } else { Some(what) };
    let whole = require(
        (1..=16_384).contains(&config.cell_bytes),
        format!("cell of {}", config.cell_bytes),
    )
    .or_else(|| {
        require(
            config.ports.len() <= PORTS_MAX,
            format!("{} ports", config.ports.len()),
        )
    })
    .or_else(|| {
        require(
            config.frames_max > 0 && config.fdb_entries_max > 0,
            "empty limits".to_owned(),
        )
    });
    let profiles = || {
        config.profiles.iter().find_map(|profile| {
            let threshold = match profile.threshold {
                Threshold::Dynamic(exponent) => (-8..=7).contains(&exponent),
                Threshold::Static(_) => true,
            };
            let pool = usize::from(profile.pool) < config.pools.len();
            require(threshold && pool, format!("profile {}", profile.name))
        })
    };
    let ports = || config.ports.iter().find_map(|port| broken_port(config, port));
    whole
        .or_else(profiles)
        .or_else(ports)
        .or_else(|| broken_vlans(config))
}

fn side_of(config: &SwitchConfig, profile: u16) -> Option<PoolSide> {
    let profile = config.profiles.get(usize::from(profile))?;
    Some(config.pools.get(usize::from(profile.pool))?.side)
}

fn broken_port(config: &SwitchConfig, port: &PortConfig) -> Option<String> {
    let below = |values: &[u8], limit: usize| values.iter().all(|value| usize::from(*value) < limit);
    let classes = &port.classify;
    let checks = [
        ("speed", (1..=1_600_000).contains(&port.link.speed_mbps)),
        ("rounding", port.link.rounding_ps > 0),
        ("mtu", (68..=9_216).contains(&port.mtu)),
        ("address", port.mac[0] & 1 == 0),
        (
            "group profiles",
            port.pgs
                .iter()
                .all(|p| side_of(config, *p) == Some(PoolSide::Ingress)),
        ),
        (
            "queue profiles",
            port.queues
                .iter()
                .all(|q| side_of(config, q.profile) == Some(PoolSide::Egress)),
        ),
        (
            "header maps",
            below(&classes.dscp_to_tc, 16) && below(&classes.dot1p_to_tc, 16),
        ),
        (
            "class maps",
            below(&classes.tc_to_queue, PRIORITIES) && below(&classes.tc_to_pg, PRIORITIES),
        ),
        (
            "flow control maps",
            below(&port.pfc.priority_to_queue, PRIORITIES) && below(&port.pfc.priority_to_pg, PRIORITIES),
        ),
        ("pause", port.pfc.pause_quanta > 0 && port.pfc.refresh.0 > 0),
        (
            "weights",
            port.queues
                .iter()
                .all(|q| !matches!(q.schedule, Schedule::Dwrr { weight: 0 })),
        ),
        (
            "marking",
            port.queues
                .iter()
                .filter_map(|q| q.wred)
                .all(|w| w.min_bytes <= w.max_bytes && w.max_probability <= 1 << 32 && (w.ecn || w.drop)),
        ),
        (
            "shapers",
            port.queues
                .iter()
                .filter_map(|q| q.shaper)
                .chain(port.shaper)
                .all(|s| s.bytes_per_second > 0 && s.burst_bytes > 0),
        ),
    ];
    let (what, _) = checks.into_iter().find(|(_, holds)| !holds)?;
    Some(format!("{what} of {}", port.name))
}

fn broken_vlans(config: &SwitchConfig) -> Option<String> {
    let Bridging::Vlans(vlans) = &config.bridging else {
        return None;
    };
    let mut last = 1;
    for vlan in vlans {
        let members = vlan
            .members
            .iter()
            .all(|member| usize::from(member.port) < config.ports.len());
        if !members || vlan.id <= last || vlan.id > 4_094 {
            return Some(format!("VLAN {}", vlan.id));
        }
        last = vlan.id;
    }
    None
}
