//! Groups whose members differ in speed, weight or role.

use xoff_dataplane::config::{
    MemberSelection, NextHopBalancing, PortBalancing, SchemeConfig, SchemeKind, SwitchConfig,
};
use xoff_dataplane::route::RouteTarget;
use xoff_dataplane::{LinkTiming, Picos};

use super::{
    NEXT_HOPS, balanced_config, fill_egress_queue, flow_frame, harness_with_neighbours, packets_per_member,
    selected_port,
};
use crate::support::config;

const FLOWLET_SCHEME: SchemeKind = SchemeKind::Flowlet {
    idle: Picos::from_micros(100),
    pick: MemberSelection::Quality,
    rebalance: None,
};
const PER_PACKET_SCHEME: SchemeKind = SchemeKind::PerPacket {
    pick: MemberSelection::Quality,
};

/// Creates members of two speeds. Ports 3 and 4 have a quarter of the speed of ports 1 and 2.
fn two_speed_config(kind: SchemeKind) -> SwitchConfig {
    let mut config = balanced_config(SchemeConfig::new("tested", kind));
    for (port, mbps) in [(0, 100_000), (1, 4_000), (2, 4_000), (3, 1_000), (4, 1_000)] {
        config.ports[port].link = LinkTiming::ethernet(mbps);
    }
    config
}

/// Creates four members of equal speed with the weights 1, 1, 1 and 3.
fn weighted_config(kind: SchemeKind) -> SwitchConfig {
    let mut config = balanced_config(SchemeConfig::new("tested", kind));
    let RouteTarget::Via(paths) = config::equal_cost_target(&NEXT_HOPS) else {
        panic!("next hops");
    };
    let mut paths = paths.to_vec();
    paths[3].weight = 3;
    config::set_static_routes(
        &mut config,
        &[("198.51.100.0/24", RouteTarget::Via(paths.into()))],
    );
    config
}

fn is_within_a_quarter(counts: &[u64], expected: [u64; 4]) -> bool {
    let near = |(count, expected): (&u64, &u64)| count.abs_diff(*expected) <= expected / 4;
    counts.iter().zip(&expected).all(near)
}

#[test]
fn idle_links_receive_flows_in_proportion_to_their_speeds() {
    let mut harness = harness_with_neighbours(&two_speed_config(FLOWLET_SCHEME));
    for n in 0..1_000 {
        selected_port(&mut harness, &flow_frame(n));
        harness.run_for(Picos::from_micros(110));
    }
    // Flows that share an entry count once. Expected at least 400, 400, 100 and 100 of a thousand draws.
    let counts = packets_per_member(&harness);
    let fast = counts[0] + counts[1];
    assert!((650..=900).contains(&fast), "{counts:?}");
}

#[test]
fn a_burst_fills_queues_in_proportion_to_speeds() {
    let mut harness = harness_with_neighbours(&two_speed_config(PER_PACKET_SCHEME));
    harness.receive_many(1_000, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(is_within_a_quarter(&counts, [400, 400, 100, 100]), "{counts:?}");
}

#[test]
fn equal_queues_lower_the_quality_of_slower_links_more() {
    let mut harness = harness_with_neighbours(&two_speed_config(FLOWLET_SCHEME));
    // 20 000 bytes: 40 us at 4 Gb/s, 160 us at 1 Gb/s.
    (1..5).for_each(|port| fill_egress_queue(&mut harness, port, 20));
    let ports: Vec<u16> = (0..8)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    assert!(ports[..4].iter().all(|&port| port < 3), "{ports:?}");
    // Of many simultaneous flows, the slower links get their share.
    let fast = ports.iter().filter(|&&port| port < 3).count();
    assert!(fast >= 6, "{ports:?}");
}

#[test]
fn path_quality_uses_the_configured_port_speed() {
    let mut config = two_speed_config(PER_PACKET_SCHEME);
    config.balancing.ports = vec![PortBalancing::default(); 5];
    for port in 1..5 {
        config.balancing.ports[port].scale_mbps = 1_000;
    }
    let mut harness = harness_with_neighbours(&config);
    harness.receive_many(1_000, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(is_within_a_quarter(&counts, [250; 4]), "{counts:?}");
}

#[test]
fn weights_decide_between_members_of_equal_quality() {
    for kind in [
        PER_PACKET_SCHEME,
        SchemeKind::PerPacket {
            pick: MemberSelection::Random,
        },
        SchemeKind::Drill {
            samples: 4,
            memory: 0,
        },
    ] {
        let mut harness = harness_with_neighbours(&weighted_config(kind.clone()));
        harness.receive_many(1_200, 0, &flow_frame(1));
        let counts = packets_per_member(&harness);
        assert!(
            is_within_a_quarter(&counts, [200, 200, 200, 600]),
            "a burst, {kind:?}: {counts:?}"
        );
    }
    let mut harness = harness_with_neighbours(&weighted_config(PER_PACKET_SCHEME));
    for _ in 0..1_200 {
        harness.receive(0, &flow_frame(1));
        harness.run_for(Picos::from_micros(50));
    }
    let counts = packets_per_member(&harness);
    assert!(
        is_within_a_quarter(&counts, [200, 200, 200, 600]),
        "one by one: {counts:?}"
    );
}

/// Creates a configuration whose fourth next hop is an alternate member.
fn config_with_alternate_member(kind: SchemeKind, threshold: u8, cost: u8) -> SwitchConfig {
    let mut config = balanced_config(SchemeConfig {
        primary_threshold: threshold,
        alternate_cost: cost,
        ..SchemeConfig::new("tested", kind)
    });
    config.balancing.next_hops = vec![NextHopBalancing {
        address: NEXT_HOPS[3].1.parse().expect("an address"),
        scheme: None,
        alternate: true,
    }];
    config
}

/// Fills the primary ports until they have the worst quality. Returns the ports of a hundred new flows.
fn ports_of_new_flows_under_load(config: &SwitchConfig) -> Vec<u64> {
    let mut harness = harness_with_neighbours(config);
    (1..4).for_each(|port| fill_egress_queue(&mut harness, port, 200));
    harness.run_for(Picos::from_micros(300));
    harness.receive_many(100, 0, &flow_frame(1));
    packets_per_member(&harness)
}

#[test]
fn alternate_members_are_used_below_the_quality_threshold() {
    for kind in [FLOWLET_SCHEME, PER_PACKET_SCHEME] {
        let idle = |threshold| {
            let mut harness =
                harness_with_neighbours(&config_with_alternate_member(kind.clone(), threshold, 0));
            harness.receive_many(100, 0, &flow_frame(1));
            packets_per_member(&harness)[3]
        };
        assert_eq!([0, 4, 16].map(idle), [0; 3], "primary ones are good: {kind:?}");
        assert_eq!(
            ports_of_new_flows_under_load(&config_with_alternate_member(kind.clone(), 16, 0))[3],
            0,
            "always the primary ones"
        );
        assert_eq!(
            ports_of_new_flows_under_load(&config_with_alternate_member(kind.clone(), 4, 7))[3],
            0,
            "it costs seven bands"
        );
        assert_eq!(
            ports_of_new_flows_under_load(&config_with_alternate_member(kind.clone(), 4, 0))[3],
            100,
            "{kind:?}"
        );
        assert_eq!(
            ports_of_new_flows_under_load(&config_with_alternate_member(kind.clone(), 0, 6))[3],
            100,
            "{kind:?}"
        );
    }
}

#[test]
fn alternate_members_replace_primary_members_that_are_down() {
    for kind in [
        FLOWLET_SCHEME,
        PER_PACKET_SCHEME,
        SchemeKind::PerPacket {
            pick: MemberSelection::Random,
        },
        SchemeKind::RoundRobin,
        SchemeKind::Drill {
            samples: 2,
            memory: 1,
        },
    ] {
        let mut harness = harness_with_neighbours(&config_with_alternate_member(kind.clone(), 16, 0));
        harness.receive_many(100, 0, &flow_frame(1));
        assert_eq!(packets_per_member(&harness)[3], 0, "{kind:?}");
        (1..4).for_each(|port| harness.set_link(port, false));
        assert_eq!(harness.receive_many(100, 0, &flow_frame(1)), 0);
        assert_eq!(packets_per_member(&harness)[3], 100, "{kind:?}");
    }
}
