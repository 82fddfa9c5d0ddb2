//! Checks of a [`SwitchConfig`] before the data plane uses it. The data plane relies on the checked
//! conditions and does not check them again.

use std::collections::BTreeSet;

use xoff_dataplane::config::{
    BridgingConfig, BufferThreshold, InterfaceAttachment, InterfaceConfig, NO_PROFILE, PoolSide, PortConfig,
    SchedulingMode, SwitchConfig,
};
use xoff_dataplane::ids::PRIORITIES;

/// Largest number of ports of a switch. Each port has eight priority groups and eight queues. The identifiers
/// of priority groups and queues have 16 bits.
pub const PORTS_MAX: usize = 1_024;

/// Returns a description of the first violated condition. Returns `None` if all conditions hold.
pub(crate) fn find_violation(config: &SwitchConfig) -> Option<String> {
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
                BufferThreshold::Dynamic(exponent) => (-8..=7).contains(&exponent),
                BufferThreshold::Static(_) => true,
                BufferThreshold::Hpcc { shift } => shift < 32,
            };
            let pool = usize::from(profile.pool) < config.pools.len();
            require(threshold && pool, format!("profile {}", profile.name))
        })
    };
    let lists = || {
        let fits = |entry: &&xoff_dataplane::config::PortProfile| {
            usize::from(entry.port) < config.ports.len()
                && pool_side_of_profile(config, entry.profile).is_some()
        };
        let wrong = config.port_profiles.iter().find(|entry| !fits(entry))?;
        Some(format!("profile list of port {}", wrong.port))
    };
    let ports = || {
        config
            .ports
            .iter()
            .find_map(|port| find_port_violation(config, port))
    };
    whole
        .or_else(profiles)
        .or_else(lists)
        .or_else(ports)
        .or_else(|| find_lag_violation(config))
        .or_else(|| find_vlan_violation(config))
        .or_else(|| find_interface_violation(config))
        .or_else(|| find_route_violation(config))
}

/// Returns the side (ingress or egress) of the pool of a profile. Returns `None` if the profile or the pool
/// does not exist.
fn pool_side_of_profile(config: &SwitchConfig, profile: u16) -> Option<PoolSide> {
    let profile = config.profiles.get(usize::from(profile))?;
    Some(config.pools.get(usize::from(profile.pool))?.side)
}

fn find_port_violation(config: &SwitchConfig, port: &PortConfig) -> Option<String> {
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
                .all(|p| *p == NO_PROFILE || pool_side_of_profile(config, *p) == Some(PoolSide::Ingress)),
        ),
        (
            "queue profiles",
            port.queues.iter().all(|q| {
                q.profile == NO_PROFILE || pool_side_of_profile(config, q.profile) == Some(PoolSide::Egress)
            }),
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
        (
            "watchdog",
            port.watchdog.is_none_or(|w| {
                let poll = config.watchdog.poll;
                poll.0 > 0 && w.detection >= poll && w.restoration.is_none_or(|time| time >= poll)
            }),
        ),
        ("pause", port.pfc.pause_quanta > 0 && port.pfc.refresh.0 > 0),
        (
            "weights",
            port.queues
                .iter()
                .all(|q| !matches!(q.schedule, SchedulingMode::Dwrr { weight: 0 })),
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

fn find_vlan_violation(config: &SwitchConfig) -> Option<String> {
    let BridgingConfig::Vlans(vlans) = &config.bridging else {
        return None;
    };
    let mut last = 1;
    for vlan in vlans {
        let members = vlan
            .members
            .iter()
            .all(|member| usize::from(member.port) < config.ports.len() + config.lags.len());
        if !members || vlan.id <= last || vlan.id > 4_094 {
            return Some(format!("VLAN {}", vlan.id));
        }
        last = vlan.id;
    }
    None
}

/// Checks that every member of a LAG exists, that no port is in two LAGs, and that `min_links` is above 0.
fn find_lag_violation(config: &SwitchConfig) -> Option<String> {
    let mut used = BTreeSet::new();
    let fits = |port: &u16| usize::from(*port) < config.ports.len();
    let mut members = config.lags.iter().map(|lag| {
        let sound = lag.min_links > 0 && lag.members.iter().all(|port| fits(port) && used.insert(*port));
        (sound, &lag.name)
    });
    let (_, name) = members.find(|(sound, _)| !sound)?;
    Some(format!("LAG {name}"))
}

/// Checks the router interfaces. Each interface belongs to an existing port, LAG or VLAN, and no two
/// interfaces belong to the same one. A port or LAG with an interface is not a member of a VLAN. MAC
/// addresses and MTUs are in their ranges.
fn find_interface_violation(config: &SwitchConfig) -> Option<String> {
    let vlans = match &config.bridging {
        BridgingConfig::Transparent => &[][..],
        BridgingConfig::Vlans(vlans) => vlans,
    };
    let bridged: BTreeSet<u16> = vlans
        .iter()
        .flat_map(|vlan| vlan.members.iter().map(|member| member.port))
        .collect();
    let in_lags: BTreeSet<u16> = config.lags.iter().flat_map(|lag| lag.members.clone()).collect();
    if let Some(port) = in_lags.iter().find(|port| bridged.contains(port)) {
        return Some(format!("port {port} is in a LAG and a VLAN"));
    }
    let ports = config.ports.len();
    let stands = |interface: &InterfaceConfig| match interface.attachment {
        InterfaceAttachment::Port(port) => {
            usize::from(port) < ports && !in_lags.contains(&port) && !bridged.contains(&port)
        }
        InterfaceAttachment::Lag(lag) => {
            usize::from(lag) < config.lags.len() && !bridged.contains(&(ports as u16 + lag))
        }
        InterfaceAttachment::Vlan(id) => vlans.iter().any(|vlan| vlan.id == id),
        InterfaceAttachment::Loopback => true,
    };
    let mut occupied: Vec<InterfaceAttachment> = Vec::new();
    config.routing.interfaces.iter().find_map(|interface| {
        let alone = interface.attachment == InterfaceAttachment::Loopback
            || !occupied.contains(&interface.attachment);
        occupied.push(interface.attachment);
        let sound = stands(interface)
            && alone
            && interface.mac[0] & 1 == 0
            && (68..=9_216).contains(&interface.mtu)
            && matches!(config.bridging, BridgingConfig::Vlans(_))
                | (interface.attachment == InterfaceAttachment::Loopback);
        if sound {
            None
        } else {
            Some(format!("interface {}", interface.name))
        }
    })
}

fn find_route_violation(config: &SwitchConfig) -> Option<String> {
    let routing = &config.routing;
    let known = |id: xoff_dataplane::ids::InterfaceId| id.index() < routing.interfaces.len();
    if let Some(hop) = routing.fib.next_hops().iter().find(|hop| !known(hop.interface)) {
        return Some(format!("next hop {}", hop.address));
    }
    if let Some(neighbour) = routing
        .neighbours
        .iter()
        .find(|n| !known(n.interface) || n.mac[0] & 1 != 0)
    {
        return Some(format!("neighbour {}", neighbour.address));
    }
    if routing.neighbours.len() > routing.neighbours_max || routing.resilient_buckets == Some(0) {
        return Some("limits of routing".to_owned());
    }
    None
}
