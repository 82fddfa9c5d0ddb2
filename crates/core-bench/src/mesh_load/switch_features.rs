//! The features, configuration and routes of the switch of a [`super::MeshLoad`].

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use xoff_dataplane::config::{
    BridgingConfig, PortWatchdog, RoutingConfig, SchedulingMode, StaticNeighbour, SwitchConfig,
    WatchdogAction, WredProfile,
};
use xoff_dataplane::route::{Fib, NextHop, Route, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::{InterfaceId, Picos};

use super::{MeshForwarding, MeshTraffic, station_mac};
use crate::route_table::router_interface;

/// Features of the switch of a [`super::MeshLoad`]. The workload `ecmp` has the default features. The time
/// budget of xoff for a frame refers to this workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchFeatures {
    /// Whether WRED makes a decision for each frame. It marks some of the frames.
    pub wred: bool,
    /// Whether both priorities are lossless, with headroom and PFC.
    pub lossless: bool,
    /// Whether DWRR schedules the two queues of a link. If false, the queues have strict priority.
    pub dwrr: bool,
    /// Time from the last received bit of a frame to the earliest start of its transmission. The latency must
    /// be shorter than the time that a frame spends in a queue.
    pub pipeline_latency: Picos,
    /// Whether the PFC watchdog observes both queues of each port.
    pub watchdog: bool,
}

impl Default for SwitchFeatures {
    fn default() -> SwitchFeatures {
        SwitchFeatures::BUDGET_FEATURES
    }
}

/// Variants of the default features. Each variant differs from the default in one feature. An entry contains
/// the suffix of the workload name, a description and the features.
pub const FEATURE_VARIANTS: [(&str, &str, SwitchFeatures); 5] = [
    (
        "no-wred",
        "without WRED",
        SwitchFeatures {
            wred: false,
            ..SwitchFeatures::BUDGET_FEATURES
        },
    ),
    (
        "no-pfc",
        "without PFC, no class lossless",
        SwitchFeatures {
            lossless: false,
            ..SwitchFeatures::BUDGET_FEATURES
        },
    ),
    (
        "strict",
        "strict priority instead of DWRR",
        SwitchFeatures {
            dwrr: false,
            ..SwitchFeatures::BUDGET_FEATURES
        },
    ),
    (
        "pipeline",
        "a pipeline of 600 ns",
        SwitchFeatures {
            pipeline_latency: Picos::from_nanos(600),
            ..SwitchFeatures::BUDGET_FEATURES
        },
    ),
    (
        "watchdog",
        "the PFC watchdog on",
        SwitchFeatures {
            watchdog: true,
            ..SwitchFeatures::BUDGET_FEATURES
        },
    ),
];

/// Bit mask of the queues that the watchdog observes: queues 3 and 4.
const WATCHED_QUEUES: u8 = 0b1_1000;

impl SwitchFeatures {
    const BUDGET_FEATURES: SwitchFeatures = SwitchFeatures {
        wred: true,
        lossless: true,
        dwrr: true,
        pipeline_latency: Picos::ZERO,
        watchdog: false,
    };

    /// Changes the configuration of the switch for those selected features that are not default features.
    fn apply_to(&self, config: &mut SwitchConfig) {
        config.pipeline_latency = self.pipeline_latency;
        if !self.lossless {
            config.pools.iter_mut().for_each(|pool| pool.xoff_bytes = 0);
            for profile in &mut config.profiles {
                (profile.xoff_bytes, profile.xon_offset_bytes) = (0, 0);
            }
        }
        for port in &mut config.ports {
            if !self.lossless {
                port.pfc.enabled = 0;
            }
            if self.watchdog {
                port.watchdog = Some(PortWatchdog {
                    queues: WATCHED_QUEUES,
                    action: WatchdogAction::Drop,
                    detection: Picos::from_millis(200),
                    restoration: Some(Picos::from_millis(400)),
                    history: false,
                });
            }
            for queue in &mut port.queues {
                if !self.wred {
                    queue.wred = None;
                }
                if !self.dwrr {
                    queue.schedule = SchedulingMode::Strict;
                }
            }
        }
    }
}

/// Returns the switch configuration for this traffic and these features.
pub(super) fn mesh_switch_config(traffic: &MeshTraffic, features: &SwitchFeatures) -> SwitchConfig {
    let mut config = crate::switch_config::switch_config(traffic.ports);
    for port in &mut config.ports {
        for queue in &mut port.queues {
            // Each queue holds half of the queued frames of a link, so WRED makes a decision for each frame.
            queue.wred = queue.wred.map(|wred| WredProfile {
                min_bytes: 2 * traffic.frame_bytes as u64,
                max_bytes: 200 * traffic.frame_bytes as u64,
                ..wred
            });
        }
    }
    features.apply_to(&mut config);
    if traffic.forwarding != MeshForwarding::Bridged {
        config.bridging = BridgingConfig::Vlans(Vec::new());
        config.routing = mesh_routing(traffic);
    }
    config
}

fn mesh_routing(traffic: &MeshTraffic) -> RoutingConfig {
    let hop = |n: u16| NextHop {
        interface: InterfaceId(n),
        address: IpAddr::V4(Ipv4Addr::new(10, 1, n as u8, 9)),
    };
    let path = |n: u16| RoutePath {
        next_hop: hop(n),
        weight: 1,
    };
    let route = |second: u8, len: u8, paths: Vec<RoutePath>| Route {
        prefix: Ipv4Net::new(Ipv4Addr::new(11, second, 0, 0), len)
            .expect("a prefix length")
            .into(),
        target: RouteTarget::Via(paths.into()),
        tag: RouteTag::default(),
    };
    let members = traffic.ports / 2..traffic.ports;
    let routes: Vec<Route> = match traffic.forwarding {
        MeshForwarding::Ecmp => vec![route(0, 8, members.clone().map(path).collect())],
        _ => members
            .clone()
            .map(|n| route(n as u8, 16, vec![path(n)]))
            .collect(),
    };
    RoutingConfig {
        interfaces: (0..traffic.ports).map(router_interface).collect(),
        fib: Arc::new(Fib::build(routes).expect("routes")),
        hash_seed: 1,
        neighbours: members
            .map(|n| StaticNeighbour {
                interface: InterfaceId(n),
                address: hop(n).address,
                mac: station_mac(usize::from(n), 0),
            })
            .collect(),
        ..RoutingConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use xoff_dataplane::mmu::Mmu;
    use xoff_dataplane::{PgId, PortId};

    use super::*;

    const TRAFFIC: MeshTraffic = MeshTraffic {
        forwarding: MeshForwarding::Ecmp,
        ports: 8,
        flows: 64,
        frame_bytes: 1_082,
    };

    #[test]
    fn each_feature_variant_changes_only_its_feature() {
        let budget = mesh_switch_config(&TRAFFIC, &SwitchFeatures::default());
        for (name, _, features) in FEATURE_VARIANTS {
            let config = mesh_switch_config(&TRAFFIC, &features);
            let (port, queue) = (&config.ports[0], &config.ports[0].queues[3]);
            assert_ne!(config, budget, "{name}");
            assert_eq!(queue.wred.is_none(), name == "no-wred", "{name}");
            assert_eq!(
                queue.schedule == SchedulingMode::Strict,
                name == "strict",
                "{name}"
            );
            assert_eq!(port.watchdog.is_some(), name == "watchdog", "{name}");
            assert_eq!(
                config.pipeline_latency > Picos::ZERO,
                name == "pipeline",
                "{name}"
            );
            let lossless = Mmu::new(&config).is_lossless(PgId::new(PortId(0), 3));
            assert_eq!(
                (lossless, port.pfc.signals_priority_group(3)),
                (name != "no-pfc", name != "no-pfc"),
                "{name}"
            );
        }
    }
}
