//! Groups whose members differ in speed, weight or role.

use xoff_dataplane::config::{
    MemberSelection, NextHopBalancing, PortBalancing, SchemeConfig, SchemeKind, SwitchConfig,
};
use xoff_dataplane::route::RouteTarget;
use xoff_dataplane::{LinkTiming, Picos};

use super::{HOPS, balanced, chosen, flow, occupy, packets, up};
use crate::support::config;

const FLOWLET: SchemeKind = SchemeKind::Flowlet {
    idle: Picos::from_micros(100),
    pick: MemberSelection::Quality,
    rebalance: None,
};
const PER_PACKET: SchemeKind = SchemeKind::PerPacket {
    pick: MemberSelection::Quality,
};

/// Ports 3 and 4 have a quarter of the speed of ports 1 and 2.
fn of_two_speeds(kind: SchemeKind) -> SwitchConfig {
    let mut config = balanced(SchemeConfig::new("tested", kind));
    for (port, mbps) in [(0, 100_000), (1, 4_000), (2, 4_000), (3, 1_000), (4, 1_000)] {
        config.ports[port].link = LinkTiming::ethernet(mbps);
    }
    config
}

/// The same with weights 1, 1, 1, 3 and equal speeds.
fn weighted(kind: SchemeKind) -> SwitchConfig {
    let mut config = balanced(SchemeConfig::new("tested", kind));
    let RouteTarget::Via(mut paths) = config::via(&HOPS) else {
        panic!("next hops");
    };
    paths[3].weight = 3;
    config::routes(&mut config, &[("198.51.100.0/24", RouteTarget::Via(paths))]);
    config
}

fn about(counts: &[u64], expected: [u64; 4]) -> bool {
    let near = |(count, expected): (&u64, &u64)| count.abs_diff(*expected) <= expected / 4;
    counts.iter().zip(&expected).all(near)
}

#[test]
fn idle_links_get_flows_in_proportion_to_their_speeds() {
    let mut harness = up(&of_two_speeds(FLOWLET));
    for n in 0..1_000 {
        chosen(&mut harness, &flow(n));
        harness.run_for(Picos::from_micros(110));
    }
    // Flows that share an entry count once. Expected at least 400, 400, 100 and 100 of a thousand draws.
    let counts = packets(&harness);
    let fast = counts[0] + counts[1];
    assert!((650..=900).contains(&fast), "{counts:?}");
}

#[test]
fn a_burst_fills_queues_in_proportion_to_speeds() {
    let mut harness = up(&of_two_speeds(PER_PACKET));
    harness.receive_many(1_000, 0, &flow(1));
    let counts = packets(&harness);
    assert!(about(&counts, [400, 400, 100, 100]), "{counts:?}");
}

#[test]
fn a_queue_weighs_more_on_a_slower_link() {
    let mut harness = up(&of_two_speeds(FLOWLET));
    // 20 000 bytes: 40 us at 4 Gb/s, 160 us at 1 Gb/s.
    (1..5).for_each(|port| occupy(&mut harness, port, 20));
    let ports: Vec<u16> = (0..8).map(|n| chosen(&mut harness, &flow(n))).collect();
    assert!(ports[..4].iter().all(|&port| port < 3), "{ports:?}");
    // Of many simultaneous flows, the slower links get their share.
    let fast = ports.iter().filter(|&&port| port < 3).count();
    assert!(fast >= 6, "{ports:?}");
}

#[test]
fn a_port_is_measured_by_the_speed_it_is_said_to_have() {
    let mut config = of_two_speeds(PER_PACKET);
    config.balancing.ports = vec![PortBalancing::default(); 5];
    for port in 1..5 {
        config.balancing.ports[port].scale_mbps = 1_000;
    }
    let mut harness = up(&config);
    harness.receive_many(1_000, 0, &flow(1));
    let counts = packets(&harness);
    assert!(about(&counts, [250; 4]), "{counts:?}");
}

#[test]
fn weights_count_where_members_are_equally_good() {
    for kind in [
        PER_PACKET,
        SchemeKind::PerPacket {
            pick: MemberSelection::Random,
        },
        SchemeKind::Drill {
            samples: 4,
            memory: 0,
        },
    ] {
        let mut harness = up(&weighted(kind.clone()));
        harness.receive_many(1_200, 0, &flow(1));
        let counts = packets(&harness);
        assert!(
            about(&counts, [200, 200, 200, 600]),
            "a burst, {kind:?}: {counts:?}"
        );
    }
    let mut harness = up(&weighted(PER_PACKET));
    for _ in 0..1_200 {
        harness.receive(0, &flow(1));
        harness.run_for(Picos::from_micros(50));
    }
    let counts = packets(&harness);
    assert!(about(&counts, [200, 200, 200, 600]), "one by one: {counts:?}");
}

/// The fourth next hop is an alternate member.
fn with_alternate(kind: SchemeKind, threshold: u8, cost: u8) -> SwitchConfig {
    let mut config = balanced(SchemeConfig {
        primary_threshold: threshold,
        alternate_cost: cost,
        ..SchemeConfig::new("tested", kind)
    });
    config.balancing.next_hops = vec![NextHopBalancing {
        address: HOPS[3].1.parse().expect("an address"),
        scheme: None,
        alternate: true,
    }];
    config
}

/// All primary ports have the worst quality. Returns the ports of a hundred new flows.
fn under_load(config: &SwitchConfig) -> Vec<u64> {
    let mut harness = up(config);
    (1..4).for_each(|port| occupy(&mut harness, port, 200));
    harness.run_for(Picos::from_micros(300));
    harness.receive_many(100, 0, &flow(1));
    packets(&harness)
}

#[test]
fn alternate_members_wait_until_primary_ones_are_bad_enough() {
    for kind in [FLOWLET, PER_PACKET] {
        let idle = |threshold| {
            let mut harness = up(&with_alternate(kind.clone(), threshold, 0));
            harness.receive_many(100, 0, &flow(1));
            packets(&harness)[3]
        };
        assert_eq!([0, 4, 16].map(idle), [0; 3], "primary ones are good: {kind:?}");
        assert_eq!(
            under_load(&with_alternate(kind.clone(), 16, 0))[3],
            0,
            "always the primary ones"
        );
        assert_eq!(
            under_load(&with_alternate(kind.clone(), 4, 7))[3],
            0,
            "it costs seven bands"
        );
        assert_eq!(
            under_load(&with_alternate(kind.clone(), 4, 0))[3],
            100,
            "{kind:?}"
        );
        assert_eq!(
            under_load(&with_alternate(kind.clone(), 0, 6))[3],
            100,
            "{kind:?}"
        );
    }
}

#[test]
fn alternate_members_stand_in_for_dead_primary_ones() {
    for kind in [
        FLOWLET,
        PER_PACKET,
        SchemeKind::PerPacket {
            pick: MemberSelection::Random,
        },
        SchemeKind::RoundRobin,
        SchemeKind::Drill {
            samples: 2,
            memory: 1,
        },
    ] {
        let mut harness = up(&with_alternate(kind.clone(), 16, 0));
        harness.receive_many(100, 0, &flow(1));
        assert_eq!(packets(&harness)[3], 0, "{kind:?}");
        (1..4).for_each(|port| harness.set_link(port, false));
        assert_eq!(harness.receive_many(100, 0, &flow(1)), 0);
        assert_eq!(packets(&harness)[3], 100, "{kind:?}");
    }
}
