//! The switch that a mesh goes through: its routes, and what it does with frames beside sending them on.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use xoff_dataplane::config::{
    BridgingConfig, PortWatchdog, RoutingConfig, SchedulingMode, StaticNeighbour, SwitchConfig,
    WatchdogAction, WredProfile,
};
use xoff_dataplane::route::{Fib, NextHop, Route, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::{InterfaceId, Picos};

use super::{Shape, Way, station_mac};
use crate::route_table::router_interface;

/// What a switch does with frames beside sending them on. The default is what the budget of a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// WRED draws for each frame, and marks some.
    pub wred: bool,
    /// Both classes are lossless: headroom, XOFF and XON, PFC.
    pub lossless: bool,
    /// Both queues share a link by DWRR; otherwise the higher one goes first.
    pub dwrr: bool,
    /// From the last bit of a frame to the earliest start of its departure. Less than a frame waits at its link.
    pub pipeline_latency: Picos,
    /// The PFC watchdog watches both queues of each port.
    pub watchdog: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features::BUDGET
    }
}

/// Feature sets that differ from the budget's in one thing each: the last part of the load's name, what is different, and the set.
pub const FEATURES: [(&str, &str, Features); 5] = [
    (
        "no-wred",
        "without WRED",
        Features {
            wred: false,
            ..Features::BUDGET
        },
    ),
    (
        "no-pfc",
        "without PFC, no class lossless",
        Features {
            lossless: false,
            ..Features::BUDGET
        },
    ),
    (
        "strict",
        "strict priority instead of DWRR",
        Features {
            dwrr: false,
            ..Features::BUDGET
        },
    ),
    (
        "pipeline",
        "a pipeline of 600 ns",
        Features {
            pipeline_latency: Picos::from_nanos(600),
            ..Features::BUDGET
        },
    ),
    (
        "watchdog",
        "the PFC watchdog on",
        Features {
            watchdog: true,
            ..Features::BUDGET
        },
    ),
];

/// The queues of the two classes, as a watchdog has them.
const QUEUES: u8 = 0b1_1000;

impl Features {
    const BUDGET: Features = Features {
        wred: true,
        lossless: true,
        dwrr: true,
        pipeline_latency: Picos::ZERO,
        watchdog: false,
    };

    /// Changes what is different from the budget's switch.
    fn configure(&self, config: &mut SwitchConfig) {
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
                    queues: QUEUES,
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

/// A switch for this shape.
pub(super) fn config(shape: &Shape, features: &Features) -> SwitchConfig {
    let mut config = crate::switch_config::switch_config(shape.ports);
    for port in &mut config.ports {
        for queue in &mut port.queues {
            // A queue holds half of what stands at a link, so there is a draw for each frame.
            queue.wred = queue.wred.map(|wred| WredProfile {
                min_bytes: 2 * shape.frame_bytes as u64,
                max_bytes: 200 * shape.frame_bytes as u64,
                ..wred
            });
        }
    }
    features.configure(&mut config);
    if shape.way != Way::Bridged {
        config.bridging = BridgingConfig::Vlans(Vec::new());
        config.routing = routing(shape);
    }
    config
}

fn routing(shape: &Shape) -> RoutingConfig {
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
        target: RouteTarget::Via(paths),
        tag: RouteTag::default(),
    };
    let members = shape.ports / 2..shape.ports;
    let routes: Vec<Route> = match shape.way {
        Way::Ecmp => vec![route(0, 8, members.clone().map(path).collect())],
        _ => members
            .clone()
            .map(|n| route(n as u8, 16, vec![path(n)]))
            .collect(),
    };
    RoutingConfig {
        interfaces: (0..shape.ports).map(router_interface).collect(),
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

    const SHAPE: Shape = Shape {
        way: Way::Ecmp,
        ports: 8,
        flows: 64,
        frame_bytes: 1_082,
    };

    #[test]
    fn a_feature_set_differs_from_the_budget_in_its_one_thing() {
        let budget = config(&SHAPE, &Features::default());
        for (name, _, features) in FEATURES {
            let config = config(&SHAPE, &features);
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
