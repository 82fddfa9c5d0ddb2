//! Base configurations. Each test changes the fields that it tests.

use std::sync::Arc;

use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, BufferThreshold, InterfaceAttachment, InterfaceConfig, PoolConfig,
    PoolSide, PortConfig, SwitchConfig, WredProfile,
};
use xoff_dataplane::route::{
    DISTANCE_STATIC, NextHop, Rib, Route, RoutePath, RouteSource, RouteTag, RouteTarget,
};
use xoff_dataplane::{InterfaceId, LinkTiming, Picos};

/// Indices of profiles.
pub const LOSSY: usize = 0;
pub const LOSSLESS: usize = 1;
pub const EGRESS_LOSSY: usize = 2;
pub const EGRESS_LOSSLESS: usize = 3;

/// Indices of pools.
pub const INGRESS_POOL: usize = 0;
pub const EGRESS_LOSSY_POOL: usize = 1;

pub const CELL_BYTES: u32 = 256;
pub const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);

/// Creates a transparent bridge with ports of 1 Gb/s. Priorities 3 and 4 are lossless, and DSCP 0 to 7 are
/// classes 0 to 7. The shared pool has 4096 cells. A lossless group has 4 reserved cells, 64 headroom cells,
/// alpha 1, and XON 8 cells below XOFF.
pub fn bridge_config(ports: usize) -> SwitchConfig {
    let cells = |n: u64| n * u64::from(CELL_BYTES);
    let mut config = SwitchConfig::new(
        "test",
        [2, 0xff, 0, 0, 0, 0],
        (0..ports).map(port_config).collect(),
    );
    config.cell_bytes = CELL_BYTES;
    config.pools = vec![
        PoolConfig::new("ingress", PoolSide::Ingress, cells(4_096)),
        PoolConfig::new("egress_lossy", PoolSide::Egress, cells(2_048)),
        PoolConfig::new("egress_lossless", PoolSide::Egress, cells(1 << 20)),
    ];
    config.profiles = vec![
        BufferProfile::new("ingress_lossy", 0, BufferThreshold::Static(0)),
        BufferProfile {
            size_bytes: cells(4 + 64),
            xoff_bytes: cells(64),
            xon_offset_bytes: cells(8),
            ..BufferProfile::new("ingress_lossless", 0, BufferThreshold::Dynamic(0))
        },
        BufferProfile::new("egress_lossy", 1, BufferThreshold::Dynamic(0)),
        BufferProfile::new("egress_lossless", 2, BufferThreshold::Static(0)),
    ];
    config
}

fn port_config(index: usize) -> PortConfig {
    let lossless = |n: usize| n == 3 || n == 4;
    let mut port = PortConfig::new(
        format!("Ethernet{index}"),
        [2, 0xff, 0, 0, 1, index as u8],
        GIGABIT,
    );
    for n in 0..8 {
        port.classify.dscp_to_tc[n] = n as u8;
        port.classify.dot1p_to_tc[n] = n as u8;
        port.pgs[n] = if lossless(n) { LOSSLESS } else { LOSSY } as u16;
        port.queues[n].profile = if lossless(n) {
            EGRESS_LOSSLESS
        } else {
            EGRESS_LOSSY
        } as u16;
    }
    port.pfc.enabled = 0b1_1000;
    port.pfc.refresh = Picos::from_millis(16);
    port
}

/// Returns a WRED profile that marks every frame above `bytes` queued bytes and none below.
pub fn wred_marking_above(bytes: u64) -> WredProfile {
    WredProfile {
        min_bytes: bytes,
        max_bytes: bytes,
        max_probability: 1 << 32,
        ecn: true,
        drop: false,
    }
}

/// MAC address of all interfaces of [`router_config`].
pub const ROUTER_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 0xff];

/// Creates a router: [`bridge_config`] with every port as a router interface. Port *n*
/// has 10.0.*n*.1/24 and 2001:db8:*n*::1/64.
pub fn router_config(ports: usize) -> SwitchConfig {
    let mut config = bridge_config(ports);
    config.bridging = BridgingConfig::Vlans(Vec::new());
    for n in 0..ports {
        add_interface(
            &mut config,
            &format!("Ethernet{n}"),
            InterfaceAttachment::Port(n as u16),
            &[
                &format!("10.0.{n}.1/24"),
                &format!("2001:db8:{n}::1/64"),
                "fe80::1/64",
            ],
        );
    }
    config
}

/// Adds a router interface with its local and connected routes.
pub fn add_interface(
    config: &mut SwitchConfig,
    name: &str,
    attachment: InterfaceAttachment,
    addresses: &[&str],
) {
    config.routing.interfaces.push(InterfaceConfig {
        name: name.into(),
        attachment,
        mac: ROUTER_MAC,
        mtu: 9_216,
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
    });
    set_static_routes(config, &[]);
}

/// Sets the static routes, in addition to the routes of the interfaces.
pub fn set_static_routes(config: &mut SwitchConfig, routes: &[(&str, RouteTarget)]) {
    let mut rib = Rib::new();
    for (n, interface) in config.routing.interfaces.iter().enumerate() {
        rib.set_interface(InterfaceId(n as u16), interface);
    }
    for (prefix, target) in routes {
        let prefix = prefix.parse().expect("a prefix");
        let target = target.clone();
        rib.set_route(
            RouteSource::Static,
            DISTANCE_STATIC,
            Route {
                prefix,
                target,
                tag: RouteTag::default(),
            },
        );
    }
    // Groups of the previous generation keep their flows.
    let next = rib.next_generation(&config.routing.fib).expect("routes");
    config.routing.fib = Arc::new(next);
}

/// Creates a route target of equal-cost next hops, given by interface and address.
pub fn equal_cost_target(hops: &[(u16, &str)]) -> RouteTarget {
    let path = |(interface, address): &(u16, &str)| RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(*interface),
            address: address.parse().expect("an address"),
        },
        weight: 1,
    };
    RouteTarget::Via(hops.iter().map(path).collect())
}
